//! What all loans of services have: what is still to be sent, and its memory.
//!
//! A short message lies in the loan's object and is copied when it is sent: an array may point to it
//! afterwards. A long one lies in the service's memory, which the object keeps mapped. PyO3 wants the
//! methods of each class apart; their bodies are here.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::raise;
use crate::layout::Layout;
use crate::named::Named;
use crate::writable::{Shape, Writable};

/// From so many bytes on, a loan is the service's memory: more than any slot holds.
pub(crate) const LONG: usize = 4096;

const OVER: &str = "the loan was sent or given back already";

/// Returns how many bytes a loan of that layout has.
pub(crate) fn length(py: Python<'_>, layout: &Layout) -> PyResult<usize> {
    layout.len().ok_or_else(|| raise(py, "TooLarge", "more bytes than a message can have"))
}

/// See the file's head. The mutex is locked for a moment, never during a wait.
pub(crate) struct Lent<T> {
    // They are dropped in this order.
    unsent: Mutex<Option<T>>,
    memory: Writable,
    _short: Option<Box<[u64]>>,
}

impl<T> Lent<T> {
    /// Lends memory of the service's, which the object of this keeps mapped.
    pub(crate) fn long(unsent: T, data: *mut u8, shape: Shape) -> Lent<T> {
        Lent::new(unsent, data, shape, None)
    }

    /// Lends memory of its own.
    pub(crate) fn short(unsent: T, len: usize, shape: Shape) -> Lent<T> {
        // As words, for its alignment.
        let mut own = vec![0_u64; len.div_ceil(8)].into_boxed_slice();
        Lent::new(unsent, own.as_mut_ptr().cast(), shape, Some(own))
    }

    fn new(unsent: T, data: *mut u8, shape: Shape, short: Option<Box<[u64]>>) -> Lent<T> {
        let (unsent, memory) = (Mutex::new(Some(unsent)), Writable::new(data, shape));
        Lent { unsent, memory, _short: short }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.unsent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// Makes what the block got read-only.
    pub(crate) fn hide(&self, py: Python<'_>) -> PyResult<()> {
        self.memory.hide(py)
    }

    /// Does that, and takes what is to be sent, unless it was sent or given back.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Option<T>> {
        self.hide(py)?;
        Ok(self.lock().take())
    }

    /// Takes what is to be sent.
    pub(crate) fn taken(&self, py: Python<'_>) -> PyResult<T> {
        self.take(py)?.ok_or_else(|| PyRuntimeError::new_err(OVER))
    }

    /// Puts back what could not be sent: it may be sent later.
    pub(crate) fn put_back(&self, unsent: T) {
        *self.lock() = Some(unsent);
    }

    /// Implements `discard`.
    pub(crate) fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.take(py).map(drop)
    }

    /// Implements `__exit__` of a loan that is sent at the end of its block: gives it back if the block
    /// has raised.
    pub(crate) fn leave(
        &self,
        py: Python<'_>,
        has_raised: bool,
        send: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<()> {
        match has_raised {
            true => self.discard(py),
            // Sent or given back in the block.
            false if !self.is_there() => Ok(()),
            false => send(),
        }
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// As of [`Writable::bytes`].
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promises.
        unsafe { self.memory.bytes() }
    }

    /// Implements `__enter__`.
    pub(crate) fn show<'py>(&self, owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if self.is_there() { self.memory.show(owner) } else { Err(PyRuntimeError::new_err(OVER)) }
    }

    /// Implements `__repr__`.
    pub(crate) fn repr(&self, of: &Named, class: &str) -> String {
        let state = match self.is_there() {
            true => format!("{} bytes", self.memory.len()),
            false => "sent or given back".to_owned(),
        };
        of.repr(class, Ok(state))
    }

    /// Implements `__getbuffer__`.
    ///
    /// # Safety
    /// `view` is the one of `__getbuffer__`; `owner` has this, does not move, and keeps the memory or
    /// its mapping.
    pub(crate) unsafe fn fill_in(
        &self,
        owner: Bound<'_, PyAny>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if !self.is_there() {
            return Err(PyBufferError::new_err(OVER));
        }
        // SAFETY: the caller's promises.
        unsafe { self.memory.fill_in(owner, view, flags) }
    }
}
