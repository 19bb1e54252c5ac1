//! `Writable`: lent memory as a `with` block gets it, a numpy array or a `memoryview`.
//!
//! Views that the user keeps go on pointing to the bytes when the loan is over: the loan keeps the
//! memory itself, or its mapping, for as long as its object exists, and each view keeps the object.

use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{ffi, intern};

use crate::layout::{self, Layout};
use crate::sample::{ASARRAY, WEAK_REFERENCE};

/// What a loan has been asked to be: an array of a type, or so many bytes.
pub(crate) struct Shape {
    pub(crate) layout: Layout,
    pub(crate) is_array: bool,
}

impl Shape {
    /// Reads a shape; `layout_of` makes an array's layout of its type and extents.
    pub(crate) fn of<'py>(
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        layout_of: impl FnOnce(&Bound<'py, PyAny>, &[usize]) -> PyResult<Layout>,
    ) -> PyResult<Shape> {
        let extents = layout::extents(shape)?;
        let layout = match dtype {
            None if extents.len() == 1 => Layout::bytes_checked(extents[0])?,
            None => {
                return Err(PyTypeError::new_err(
                    "without a dtype a loan has so many bytes: one number",
                ));
            }
            Some(dtype) => layout_of(dtype, &extents)?,
        };
        Ok(Shape { layout, is_array: dtype.is_some() })
    }
}

/// See the file's head.
pub(crate) struct Writable {
    data: *mut u8,
    layout: Layout,
    is_array: bool,
    /// What the block got: a weak reference to the array, or the memoryview.
    shown: Mutex<Option<Py<PyAny>>>,
}

// SAFETY: `data` points to a loan's bytes, which the user writes by Python's means; a mutex guards
// the rest.
unsafe impl Send for Writable {}
// SAFETY: `data` points to a loan's bytes, which the user writes by Python's means; a mutex guards
// the rest.
unsafe impl Sync for Writable {}

impl Writable {
    pub(crate) fn new(data: *mut u8, shape: Shape) -> Writable {
        let Shape { layout, is_array } = shape;
        Writable { data, layout, is_array, shown: Mutex::new(None) }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// The caller keeps the memory. What Python code writes meanwhile races with the reads, as with
    /// any buffer.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the loan has so many bytes there, which the caller keeps.
        unsafe { core::slice::from_raw_parts(self.data, self.len()) }
    }

    /// Returns what the block of the loan `owner` gets.
    pub(crate) fn show<'py>(&self, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = owner.py();
        let (view, keep) = if self.is_array {
            // Of a loan that another thread has just sent there is no view, and numpy would make an
            // array of one object of it.
            let array = ASARRAY.get(py)?.call1((PyMemoryView::from(owner)?,))?;
            // By a weak reference: the array refers to the loan.
            let weak = WEAK_REFERENCE.get(py)?.call1((&array,))?;
            (array, weak)
        } else {
            let view = PyMemoryView::from(owner)?.into_any();
            (view.clone(), view)
        };
        let before =
            self.shown.lock().unwrap_or_else(PoisonError::into_inner).replace(keep.unbind());
        // Unlocked: the drop may run any code.
        drop(before);
        Ok(view)
    }

    /// Makes what the block got read-only.
    pub(crate) fn hide(&self, py: Python<'_>) -> PyResult<()> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shown) = shown else { return Ok(()) };
        let shown = shown.into_bound(py);
        if self.is_array {
            let array = shown.call0()?;
            if !array.is_none() {
                array.call_method1(intern!(py, "setflags"), (false,))?;
            }
        } else if let Err(error) = shown.call_method0(intern!(py, "release")) {
            // There are views of it, which the user has to leave alone.
            if !error.is_instance_of::<PyBufferError>(py) {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Implements `__getbuffer__`.
    ///
    /// # Safety
    /// `view` is the one of `__getbuffer__`; `owner` has this, does not move, and keeps the memory.
    pub(crate) unsafe fn fill_in(
        &self,
        owner: Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        // SAFETY: the caller's promises are those that `show` asks for.
        unsafe { self.layout.show(view, flags, owner, self.data, self.len(), false) }
    }
}
