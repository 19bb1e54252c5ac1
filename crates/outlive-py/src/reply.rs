//! `Reply`: a server's reply where it lies, and all views of it.

use std::ffi::c_int;
use std::sync::Arc;

use outlive::rpc;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::described::Both;
use crate::in_place::InPlace;
use crate::named::Named;
use crate::open::Left;

/// A reply where it lies in the service's memory, made by ``Call.reply`` and ``RequestLoan.call``. The
/// service has that memory back when this object and all views of it are gone.
///
/// It has read-only bytes by the buffer protocol: ``memoryview(reply)``, ``bytes(reply)``,
/// ``file.write(reply)``, ``reply.numpy(dtype, shape)``.
///
/// >>> server, client = Server("ones", folder), Client("ones", folder)
/// >>> call = client.begin(b"4")
/// >>> with server.next(timeout=10).loan(4, "float64") as ones:   # in another process, as a rule
/// ...     ones[:] = 1
/// >>> reply = call.reply(timeout=10)
/// >>> len(reply), float(reply.numpy("float64").sum())
/// (32, 4.0)
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Reply(InPlace<rpc::Reply>);

impl Reply {
    pub(crate) fn new(bytes: rpc::Reply, of: &Named, types: &Arc<Both>) -> Reply {
        Reply(InPlace::new(bytes, of, types, |types| &types.reply))
    }
}

#[pymethods]
impl Reply {
    /// Returns a read-only numpy array over the reply, which keeps it, as do all views of the array.
    /// Of bytes, ``dtype`` and ``shape`` say what they are; a reply of a service that describes them
    /// is a value of that type.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.get().0.numpy(slf.as_any(), dtype, shape)
    }

    /// The value that the reply is, by the service's description: a record or a number of numpy's,
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
        unsafe { InPlace::<rpc::Reply>::release(view) };
    }

    /// Closes the reply: the service has its memory back when the last view of it is gone, and using
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
        self.0.repr("Reply")
    }
}
