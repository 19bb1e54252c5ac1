//! `Requests`: a loop over a server.

use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use crate::open::why;
use crate::request::Request;
use crate::server::Server;
use crate::waiting::Until;

/// A server's requests, one after the other: what `for` and `async for` ask.
///
/// A loop that an exception leaves drops this object while the exception is on its way, so this
/// object sees it, and tells the client of the request that the loop was at. That request itself may
/// live on in the exception's traceback.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Requests {
    server: Py<Server>,
    last: Mutex<Last>,
}

/// The request that a loop is at.
struct Last {
    /// None before the first one, and from when the loop asks for the next.
    request: Option<Py<Request>>,
    /// The code of the function that asked: of the loop, as a rule.
    asked: Option<Py<PyAny>>,
}

/// Returns the code of the Python function that runs now, if one does. The code and not the
/// frame: a frame that this object kept would keep this object.
fn running(py: Python<'_>) -> Option<Py<PyAny>> {
    // SAFETY: the thread is attached, as the token says. The frame is borrowed from the thread, and
    // lives as long as it runs; the code is a new reference.
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return None;
        }
        Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetCode(frame).cast()).map(Bound::unbind)
    }
}

impl Requests {
    pub(crate) fn of(server: Bound<'_, Server>) -> Requests {
        let last = Mutex::new(Last { request: None, asked: None });
        Requests { server: server.unbind(), last }
    }

    /// Says that the function that runs now asks for the next one.
    fn is_asked(&self, py: Python<'_>) {
        let asked = running(py);
        self.set(|last| std::mem::replace(last, Last { request: None, asked }));
    }

    /// Sets which request the loop is at.
    fn is_at(&self, request: Py<Request>) {
        self.set(|last| last.request.replace(request));
    }

    fn set<F>(&self, change: impl FnOnce(&mut Last) -> F) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let former = change(&mut last);
        // Dropping the former may run Python's code.
        drop(last);
        drop(former);
    }
}

#[pymethods]
impl Requests {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<Request>> {
        // What ends this wait has nothing to do with the former request.
        self.is_asked(py);
        let request = Py::new(py, self.server.get().take(py, Until::NEVER)?)?;
        self.is_at(request.clone_ref(py));
        Ok(request)
    }

    fn _try_next(&self, py: Python<'_>) -> PyResult<Option<Py<Request>>> {
        let Some(request) = self.server.get().try_next(py)? else { return Ok(None) };
        let request = Py::new(py, request)?;
        self.is_at(request.clone_ref(py));
        Ok(Some(request))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().is_asked(slf.py());
        let ask = slf.getattr("_try_next")?;
        let server = slf.get().server.bind(slf.py());
        slf.py().import("outlive._waiting")?.call_method1("take", (server, ask))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let Last { request, asked } = self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = request.take() else { return };
        Python::attach(|py| {
            // Another function has asked: the request is that one's, and what this one raises is
            // not about it.
            if !asked.as_ref().zip(running(py)).is_some_and(|(asked, now)| asked.is(&now)) {
                return;
            }
            // The loop was left by `break`, or is over: the request is the caller's.
            let Some(raised) = PyErr::take(py) else { return };
            let (class, value) = (raised.get_type(py), raised.value(py));
            let why = why(Some(class.as_any()), Some(value.as_any()));
            // What the loop has raised is the news.
            let _ = last.get().leave(py, why);
            raised.restore(py);
        });
    }
}
