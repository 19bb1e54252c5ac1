//! What is given to be sent: anything that shows its bytes.

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::dlpack::{self, Taken};
use crate::layout::Layout;
use crate::waiting::detached;

/// From so many bytes on, other threads may run while they are copied.
const LONG: usize = 64 << 10;

/// Bytes to be sent, kept as long as this is there.
pub(crate) enum Given<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(PyUntypedBuffer),
    Tensor(Taken<'py>),
}

impl<'py> Given<'py> {
    /// The bytes of `object`: bytes, or whatever has the buffer protocol.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Given::Bytes(bytes.clone()));
        }
        PyUntypedBuffer::get(object).map(Given::Buffer).map_err(|error| {
            if error.is_instance_of::<PyTypeError>(object.py()) {
                let class = object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
                return PyTypeError::new_err(format!("a bytes-like object is required, not '{class}'"));
            }
            error
        })
    }

    /// The same, or a tensor.
    pub(crate) fn array_of(object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        match Given::of(object) {
            Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => match dlpack::take(object)? {
                Some(tensor) => Ok(Given::Tensor(tensor)),
                None => Err(PyTypeError::new_err(format!("{}, an array or a tensor", error.value(object.py())))),
            },
            other => other,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Given::Bytes(bytes) => bytes.as_bytes().len(),
            Given::Buffer(buffer) => buffer.len_bytes(),
            Given::Tensor(tensor) => tensor.layout.len().unwrap_or(0),
        }
    }

    /// What it is besides bytes.
    pub(crate) fn layout(&self) -> PyResult<Option<Layout>> {
        match self {
            Given::Bytes(_) => Ok(None),
            Given::Buffer(buffer) => Layout::of_format(buffer.format(), buffer.item_size(), buffer.shape()),
            Given::Tensor(tensor) => Ok(Some(tensor.layout.clone())),
        }
    }

    /// Copies them.
    ///
    /// # Safety
    /// `len` bytes can be written there, and nobody else does.
    pub(crate) unsafe fn copy_to(&self, py: Python<'_>, to: *mut u8) -> PyResult<()> {
        let len = self.len();
        let copy = |from: *const u8| {
            // SAFETY: the caller's promise for the destination. The source is held; what other threads write to it
            // meanwhile is their own doing, as with every copy of a buffer.
            let copy = || unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
            if len >= LONG { detached(py, copy) } else { copy() }
        };
        match self {
            Given::Bytes(bytes) => copy(bytes.as_bytes().as_ptr()),
            Given::Buffer(buffer) if len == 0 || buffer.is_c_contiguous() => copy(buffer.buf_ptr().cast_const().cast()),
            Given::Buffer(buffer) => return strided(py, buffer, to),
            Given::Tensor(tensor) => {
                // SAFETY: the caller's promise.
                let copy = || unsafe { tensor.copy_to(to) };
                if len >= LONG { detached(py, copy) } else { copy() }
            }
        }
        Ok(())
    }

    /// They lie in a row, for as long as this is there; or a copy that does.
    pub(crate) fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
        match self {
            Given::Bytes(bytes) => Ok(with(bytes.as_bytes())),
            Given::Buffer(buffer) if buffer.len_bytes() > 0 && buffer.is_c_contiguous() => {
                // SAFETY: the buffer is held; what other threads write to it meanwhile is their own doing.
                let bytes = unsafe {
                    core::slice::from_raw_parts(buffer.buf_ptr().cast_const().cast::<u8>(), buffer.len_bytes())
                };
                Ok(with(bytes))
            }
            other => {
                let mut copy = vec![0; other.len()];
                // SAFETY: just made as long.
                unsafe { other.copy_to(py, copy.as_mut_ptr())? };
                Ok(with(&copy))
            }
        }
    }
}

/// Copies what does not lie in a row, row by row.
#[cold]
fn strided(py: Python<'_>, buffer: &PyUntypedBuffer, to: *mut u8) -> PyResult<()> {
    let owner = buffer.obj(py).ok_or_else(|| PyTypeError::new_err("a buffer without an owner"))?;
    let mut view = core::mem::MaybeUninit::<ffi::Py_buffer>::uninit();
    // SAFETY: filled in before it is used, released after; `to` has room for all of it by `copy_to`'s promise.
    unsafe {
        if ffi::PyObject_GetBuffer(owner.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_FULL_RO) != 0 {
            return Err(PyErr::fetch(py));
        }
        let mut view = view.assume_init();
        let fits = view.len as usize == buffer.len_bytes();
        let failed = !fits || ffi::PyBuffer_ToContiguous(to.cast(), &raw const view, view.len, b'C' as _) != 0;
        ffi::PyBuffer_Release(&raw mut view);
        if failed {
            return Err(PyErr::take(py).unwrap_or_else(|| PyTypeError::new_err("the buffer has changed")));
        }
    }
    Ok(())
}
