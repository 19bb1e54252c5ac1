//! `Part`: a part of a request where it lies, and all views of it.

use std::ffi::c_int;
use std::sync::Arc;

use outlive::rpc;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::described::Both;
use crate::in_place::InPlace;
use crate::named::Named;
use crate::open::Left;

/// A part of a request where it lies in the service's memory, made by ``next_part(copy=False)`` of a
/// ``Request`` or a ``Stream``. The service has that memory back when this object and all views of it are
/// gone.
///
/// It has read-only bytes by the buffer protocol, as a ``Reply``.
///
/// >>> server, client = Server("album", folder), Client("album", folder)
/// >>> call = client.stream(b"holiday")
/// >>> call.send(np.arange(3.0))
/// >>> call.finish()
/// >>> request = server.next(timeout=10)                     # in another process, as a rule
/// >>> with request.next_part(copy=False) as part:
/// ...     len(part), float(part.numpy("float64").sum())
/// (24, 3.0)
/// >>> request.next_part() is None
/// True
/// >>> request.reply(b"")
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Part(InPlace<rpc::Part>);

impl Part {
    pub(crate) fn new(bytes: rpc::Part, of: &Named, types: &Arc<Both>) -> Part {
        Part(InPlace::new(bytes, of, types, |types| &types.request))
    }
}

/// Returns a part as a caller of `next_part` gets it.
pub(crate) fn given<'py>(
    py: Python<'py>,
    part: rpc::Part,
    copy: bool,
    of: &Named,
    types: &Arc<Both>,
) -> PyResult<Bound<'py, PyAny>> {
    match copy {
        true => Ok(PyBytes::new(py, &part).into_any()),
        false => Ok(Bound::new(py, Part::new(part, of, types))?.into_any()),
    }
}

#[pymethods]
impl Part {
    /// Returns a read-only numpy array over the part, which keeps it, as do all views of the array.
    /// Of bytes, ``dtype`` and ``shape`` say what they are; a part of a service that describes its requests
    /// is a value of that type.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.numpy(slf.as_any(), dtype, shape)
    }

    /// The value that the part is, by the service's description: a record or a number of numpy's,
    /// where it lies; an object of msgpack; without a description this object.
    #[getter]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.value(slf.as_any())
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = &raw const slf.get().0;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and releases the view below.
        unsafe { (*this).fill_in(slf.into_any(), view, flags) }
    }

    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: `__getbuffer__` has filled the view in, and each is released once.
        unsafe { InPlace::<rpc::Part>::release(view) };
    }

    /// Closes the part: the service has its memory back when the last view of it is gone, and using
    /// it raises ``ValueError``.
    fn close(&self) {
        self.0.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().0.check()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        self.0.repr("Part")
    }
}
