//! The bytes of messages to send: of any object that has the buffer protocol.

use std::borrow::Cow;
use std::ffi::{CStr, c_char};

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::dlpack::{self, Taken};
use crate::layout::Layout;
use crate::sample::ASARRAY;
use crate::waiting::detached;

/// From so many bytes on, other threads may run during the copy.
const LONG: usize = 64 << 10;

/// Bytes to be sent, kept as long as this exists.
pub(crate) enum Given<'py> {
    Bytes(Bound<'py, PyBytes>),
    Buffer(View<'py>),
    Tensor(Box<Taken<'py>>),
}

/// Returns the name of its class, for a message.
fn class_of(object: &Bound<'_, PyAny>) -> String {
    object.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string())
}

impl<'py> Given<'py> {
    /// Returns the bytes of `object`: bytes, or an object that has the buffer protocol.
    pub(crate) fn of(object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Given::Bytes(bytes.clone()));
        }
        View::get(object).map(Given::Buffer).map_err(|error| {
            if error.is_instance_of::<PyTypeError>(object.py()) {
                let class = class_of(object);
                return PyTypeError::new_err(format!(
                    "a bytes-like object is required, not '{class}'"
                ));
            }
            error
        })
    }

    /// Returns the bytes of such an object, or of a tensor.
    pub(crate) fn array_of(object: &Bound<'py, PyAny>) -> PyResult<Given<'py>> {
        match Given::of(object) {
            Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
                match dlpack::take(object)? {
                    Some(tensor) => Ok(Given::Tensor(Box::new(tensor))),
                    None => Err(PyTypeError::new_err(format!(
                        "bytes, an array or a tensor are required, not '{}'",
                        class_of(object)
                    ))),
                }
            }
            other => other,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Given::Bytes(bytes) => bytes.as_bytes().len(),
            Given::Buffer(buffer) => buffer.len(),
            Given::Tensor(tensor) => tensor.layout.len().unwrap_or(0),
        }
    }

    /// Returns its array layout, if it is more than bytes.
    pub(crate) fn layout(&self) -> PyResult<Option<Layout>> {
        match self {
            Given::Bytes(_) => Ok(None),
            Given::Buffer(buffer) if buffer.format().to_bytes().starts_with(b"T{") => {
                // Numpy's own description says less than it knows: of how records are packed.
                let dtype = ASARRAY.get(buffer.py)?.call1((buffer.object(),))?.getattr("dtype")?;
                Layout::of_type(&dtype, &buffer.shape()).map(Some)
            }
            Given::Buffer(buffer) => {
                Layout::of_format(buffer.format(), buffer.view.itemsize as usize, &buffer.shape())
            }
            Given::Tensor(tensor) => Ok(Some(tensor.layout.clone())),
        }
    }

    /// Copies the bytes to `to`.
    ///
    /// # Safety
    /// The caller guarantees that `len` bytes can be written at `to`, and that no other thread
    /// does.
    pub(crate) unsafe fn copy_to(&self, py: Python<'_>, to: *mut u8) -> PyResult<()> {
        let len = self.len();
        let copy = |from: *const u8| {
            // SAFETY: the caller guarantees the destination. The source is held; other threads that
            // write to it meanwhile race with this copy as with any copy of a buffer.
            let copy = || unsafe { core::ptr::copy_nonoverlapping(from, to, len) };
            if len >= LONG { detached(py, copy) } else { copy() }
        };
        match self {
            Given::Bytes(bytes) => copy(bytes.as_bytes().as_ptr()),
            Given::Buffer(buffer) if len == 0 || buffer.is_in_a_row() => copy(buffer.pointer()),
            // SAFETY: the caller guarantees `len` writable bytes at `to`.
            Given::Buffer(buffer) => return unsafe { buffer.copy_strided(to) },
            Given::Tensor(tensor) => {
                // SAFETY: the caller guarantees `len` writable bytes at `to`.
                let copy = || unsafe { tensor.copy_to(to) };
                if len >= LONG { detached(py, copy) } else { copy() }
            }
        }
        Ok(())
    }

    /// Returns them as one contiguous slice, for as long as this exists; or as a copy.
    pub(crate) fn row(&self, py: Python<'_>) -> PyResult<Cow<'_, [u8]>> {
        match self {
            Given::Bytes(bytes) => Ok(Cow::Borrowed(bytes.as_bytes())),
            Given::Buffer(buffer) if buffer.len() > 0 && buffer.is_in_a_row() => {
                // SAFETY: the buffer is held; other threads that write to it meanwhile race with
                // this read as with any of a buffer.
                Ok(Cow::Borrowed(unsafe {
                    core::slice::from_raw_parts(buffer.pointer(), buffer.len())
                }))
            }
            other => {
                let mut copy = vec![0; other.len()];
                // SAFETY: the vector was just made with that length.
                unsafe { other.copy_to(py, copy.as_mut_ptr())? };
                Ok(Cow::Owned(copy))
            }
        }
    }

    pub(crate) fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&[u8]) -> R) -> PyResult<R> {
        Ok(with(&self.row(py)?))
    }
}

/// An object's buffer, until this is dropped. PyO3's own refuses arrays without a dimension.
pub(crate) struct View<'py> {
    /// In a box: an exporter may have pointers into it.
    view: Box<ffi::Py_buffer>,
    py: Python<'py>,
}

impl<'py> View<'py> {
    fn get(object: &Bound<'py, PyAny>) -> PyResult<View<'py>> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: a live object, attached to the interpreter; all that a buffer may have is asked
        // for, read-only.
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_FULL_RO) }
            != 0
        {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(View { view, py: object.py() })
    }

    fn len(&self) -> usize {
        self.view.len as usize
    }

    /// Returns the object whose buffer it is.
    fn object(&self) -> Bound<'py, PyAny> {
        // SAFETY: `PyObject_GetBuffer` has put it there, and the view keeps it.
        unsafe { Bound::from_borrowed_ptr(self.py, self.view.obj) }
    }

    fn pointer(&self) -> *const u8 {
        self.view.buf.cast_const().cast()
    }

    fn format(&self) -> &CStr {
        // SAFETY: NULL stands for bytes; else a string that lives as long as the buffer.
        if self.view.format.is_null() { c"B" } else { unsafe { CStr::from_ptr(self.view.format) } }
    }

    fn shape(&self) -> Vec<usize> {
        let dimensions = self.view.ndim.max(0) as usize;
        if dimensions == 0 || self.view.shape.is_null() {
            return Vec::new();
        }
        // SAFETY: the buffer has as many extents as dimensions, for as long as it lives.
        let shape = unsafe { core::slice::from_raw_parts(self.view.shape, dimensions) };
        shape.iter().map(|extent| *extent as usize).collect()
    }

    /// Returns whether it is row-major and contiguous.
    fn is_in_a_row(&self) -> bool {
        // SAFETY: `PyObject_GetBuffer` has filled the view in.
        unsafe { ffi::PyBuffer_IsContiguous(&raw const *self.view, b'C' as c_char) == 1 }
    }

    /// Copies a buffer that is not contiguous, row by row.
    ///
    /// # Safety
    /// The caller guarantees that `len` bytes can be written at `to`, and that no other thread
    /// does.
    #[cold]
    unsafe fn copy_strided(&self, to: *mut u8) -> PyResult<()> {
        // SAFETY: `PyObject_GetBuffer` has filled the view in; the caller guarantees `len` writable
        // bytes.
        let failed = unsafe {
            ffi::PyBuffer_ToContiguous(
                to.cast(),
                &raw const *self.view,
                self.view.len,
                b'C' as c_char,
            ) != 0
        };
        if failed { Err(PyErr::fetch(self.py)) } else { Ok(()) }
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        // SAFETY: released once, attached to the interpreter, as `py` says.
        unsafe { ffi::PyBuffer_Release(&raw mut *self.view) };
    }
}
