//! `Request`: what a server has begun to answer.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use outlive::rpc;
use outlive::wait::{Key, WaitSet};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::described::Both;
use crate::errors::{Raised, reply_failed};
use crate::named::Named;
use crate::open::{Left, why};
use crate::stream::{Replies, Stream};
use crate::waiting::{Until, wait};

/// A request that the server has begun. Its client waits until it is answered: by ``reply``,
/// ``stream`` or ``fail``. Collected without an answer, its client gets ``Dropped``.
///
/// A ``with`` block answers in any case: when the block raises, the client gets a ``ServiceError``
/// with the exception's type and message, and the exception goes on; when the block ends without an
/// answer, the client gets one that says "no reply". (A request that another thread answers later
/// needs its block there.) A stream that was begun in the block ends in the same way when it raises.
/// So does the request at which an exception leaves a loop over a server.
///
/// >>> server, client = Server("parse", folder), Client("parse", folder)
/// >>> call = client.begin(b"twelve")
/// >>> with server.next(timeout=10) as request:              # in another process, as a rule
/// ...     request.reply(b"%d" % int(request.data))
/// Traceback (most recent call last):
/// ValueError: invalid literal for int() with base 10: b'twelve'
/// >>> call.result(timeout=10)
/// Traceback (most recent call last):
/// outlive.errors.ServiceError: ValueError: invalid literal for int() with base 10: b'twelve'
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Request {
    /// The request's bytes.
    #[pyo3(get)]
    data: Py<PyBytes>,
    /// Locked for a moment, never during a wait.
    request: Mutex<Option<rpc::Request>>,
    /// What `stream` returned: when a `with` block of the request's raises, that ends, too.
    stream: OnceLock<Weak<Replies>>,
    of: Named,
    types: Arc<Both>,
}

impl Request {
    fn take(&self) -> PyResult<rpc::Request> {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        request.ok_or_else(|| PyRuntimeError::new_err("the request was answered already"))
    }

    /// Answers the request, if it is not answered, and ends its stream if `why` says what was raised.
    pub(crate) fn leave(&self, py: Python<'_>, why: Option<String>) -> PyResult<()> {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(request) = request {
            let why = why.as_deref().unwrap_or("no reply");
            // No client waits any more: what was raised is the news.
            let _ = py.detach(|| request.fail(why));
        } else if let (Some(why), Some(replies)) = (why, self.stream.get().and_then(Weak::upgrade))
        {
            replies.end(py, Some(&why))?;
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Adds it to a set, which is ready when no client waits for the reply; None when the request is
    /// answered.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Option<Key>> {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        request.as_ref().map(|request| set.add(request).raised(py)).transpose()
    }

    pub(crate) fn new(
        py: Python<'_>,
        request: rpc::Request,
        of: &Named,
        types: &Arc<Both>,
    ) -> Request {
        Request {
            data: PyBytes::new(py, &request).unbind(),
            request: Mutex::new(Some(request)),
            stream: OnceLock::new(),
            of: of.clone(),
            types: Arc::clone(types),
        }
    }
}

#[pymethods]
impl Request {
    /// The value that the request is, by the service's description: a record or a number of numpy's,
    /// an object of msgpack; without a description the bytes.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.types.request.value(self.data.bind(py).as_any())
    }

    /// Sends the reply. Raises ``ClientDied`` or ``Cancelled`` when no client waits for it any
    /// more.
    fn reply(&self, py: Python<'_>, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = self.types.reply.sent(answer)?;
        let answer = Given::of(&answer)?;
        let request = self.take()?;
        answer.with(py, |bytes| request.reply(bytes))?.map_err(|error| reply_failed(py, error))
    }

    /// Begins several replies, one after the other, with ``with``.
    fn stream(&self) -> PyResult<Stream> {
        let replies = Arc::new(Replies::new(self.take()?.stream()));
        self.stream.get_or_init(|| Arc::downgrade(&replies));
        Ok(Stream { replies, of: self.of.clone(), types: Arc::clone(&self.types) })
    }

    /// Tells the client why what it asked for could not be done: it gets a ``ServiceError`` with this
    /// message. Never waits. Raises ``ClientDied`` or ``Cancelled`` when no client waits any more.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        let request = self.take()?;
        py.detach(|| request.fail(message)).map_err(|error| reply_failed(py, error))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = traceback;
        self.leave(py, why(exc_type, exc_value))
    }

    /// The client's process; None when that is not known any more.
    #[getter]
    fn client_pid(&self) -> Option<u32> {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        request
            .as_ref()
            .and_then(|request| request.client())
            .map(|holder| holder.pid)
            .filter(|&pid| pid != 0)
    }

    /// Whether no client waits for the reply any more.
    #[getter]
    fn cancelled(&self) -> bool {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        request.as_ref().is_none_or(|request| request.is_cancelled())
    }

    /// Waits until no client waits for the reply any more: it died, or it let go of the call. Returns
    /// False when the timeout passed first, or when another thread has answered the request.
    #[pyo3(signature = (timeout=None))]
    fn wait_cancelled(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = Until::timeout(timeout)?;
        let mut set = WaitSet::new(&self.of.domain);
        if self.watch(py, &mut set)?.is_none() {
            return Ok(false);
        }
        let told = wait(py, until, |deadline| match set.wait_until(deadline) {
            Ok(ready) if ready.len() > 0 => Some(Ok(true)),
            Ok(_) => self.is_answered().then_some(Ok(false)),
            Err(error) => Some(Err(error)),
        })?;
        told.unwrap_or(Ok(false)).raised(py)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let request = self.request.lock().unwrap_or_else(PoisonError::into_inner);
        let state = match &*request {
            Some(_) => format!("{} bytes", self.data.bind(py).as_bytes().len()),
            None => "answered".to_owned(),
        };
        self.of.repr("Request", Ok(state))
    }
}
