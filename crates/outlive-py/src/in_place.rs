//! What replies and parts of requests have that are read where they lie. PyO3 wants the methods of each
//! class apart; their bodies are here.

use std::ffi::c_int;
use std::ops::Deref;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::described::{Both, Described};
use crate::layout::Layout;
use crate::named::Named;
use crate::open::Open;
use crate::sample::shown_as_array;

pub(crate) struct InPlace<T> {
    /// Shared with views.
    bytes: Open<T>,
    layout: Layout,
    of: Named,
    types: Arc<Both>,
    described: fn(&Both) -> &Described,
}

impl<T: Deref<Target = [u8]>> InPlace<T> {
    /// `described`: which of the service's types it is.
    pub(crate) fn new(
        bytes: T,
        of: &Named,
        types: &Arc<Both>,
        described: fn(&Both) -> &Described,
    ) -> InPlace<T> {
        let layout = Layout::bytes(bytes.len());
        let (of, types) = (of.clone(), Arc::clone(types));
        InPlace { bytes: Open::new(bytes), layout, of, types, described }
    }

    /// Implements `numpy`.
    pub(crate) fn numpy<'py>(
        &self,
        owner: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Of an object without a buffer numpy would make an array of one object.
        self.check()?;
        let whole = match (dtype, shape) {
            (None, None) => (self.described)(&self.types).shown(owner, self.len())?,
            _ => None,
        };
        match whole {
            Some(whole) => Ok(whole),
            None => shown_as_array(owner, dtype, shape),
        }
    }

    /// Implements `value`.
    pub(crate) fn value<'py>(&self, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        (self.described)(&self.types).value(owner)
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    /// Raises `ValueError` once it is closed.
    pub(crate) fn check(&self) -> PyResult<()> {
        self.bytes.get().map(drop)
    }

    pub(crate) fn close(&self) {
        self.bytes.close();
    }

    /// Implements `__getbuffer__`.
    ///
    /// # Safety
    /// `view` is the one of `__getbuffer__`; `owner` has this and does not move; its
    /// `__releasebuffer__` calls [`InPlace::release`].
    pub(crate) unsafe fn fill_in(
        &self,
        owner: Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = self.bytes.get()?;
        let data = bytes.as_ptr().cast_mut();
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the layout. The
        // view keeps the bytes.
        unsafe {
            self.layout.show(view, flags, owner, data, self.len(), true)?;
            (*view).internal = Arc::into_raw(bytes).cast_mut().cast();
        }
        Ok(())
    }

    /// Implements `__releasebuffer__`.
    ///
    /// # Safety
    /// [`InPlace::fill_in`] of such an object has filled the view in, and it is released once.
    pub(crate) unsafe fn release(view: *mut ffi::Py_buffer) {
        // SAFETY: `fill_in` has put it there.
        drop(unsafe { Arc::from_raw((*view).internal.cast::<T>()) });
    }

    pub(crate) fn repr(&self, class: &str) -> String {
        self.of.repr(class, self.check().map(|()| format!("{} bytes", self.len())))
    }
}
