//! `Request`: what a server has begun to answer.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::task::Poll;

use outlive::wait::{Key, WaitSet};
use outlive::{RecvError, rpc};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::described::Both;
use crate::errors::{Raised, raise, reply_failed};
use crate::handle_mutex::HandleMutex;
use crate::layout::Layout;
use crate::lent::LONG;
use crate::named::Named;
use crate::open::{Left, why};
use crate::part;
use crate::rpc_loan::{LentPart, ReplyLoan};
use crate::sample::shown_as_array;
use crate::stream::{Replies, Stream};
use crate::wait_set::{Awaited, wait_in};
use crate::waiting::{Until, wait};
use crate::writable::Shape;

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
    /// A copy of the bytes, once it was asked for; of a short request from the beginning on.
    copy: PyOnceLock<Py<PyBytes>>,
    /// The bytes where they lie, once a view was asked for, or the request was answered.
    bytes: OnceLock<rpc::Reply>,
    layout: Layout,
    /// Locked for a moment. It has the bytes as long as `bytes` has not.
    request: Mutex<Option<rpc::Request>>,
    /// In which a thread waits for a part, outside of the request.
    arriving: Arriving,
    /// What `stream` returned: when a `with` block of the request's raises, that ends, too.
    stream: OnceLock<Weak<Replies>>,
    /// What `loan` returned, in the same way.
    loan: OnceLock<Weak<LentPart>>,
    of: Named,
    types: Arc<Both>,
}

impl Request {
    fn lock(&self) -> MutexGuard<'_, Option<rpc::Request>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the request, to be answered. Its bytes stay, unless there is a copy of them.
    fn take(&self, py: Python<'_>) -> PyResult<rpc::Request> {
        let mut place = self.lock();
        let taken = place.take();
        let mut request = taken.ok_or_else(answered)?;
        if self.copy.get(py).is_none() {
            self.bytes.get_or_init(|| request.take_bytes());
        }
        Ok(request)
    }

    /// Returns the bytes: those of the copy, if there is one, else where they lie.
    fn bytes<'s>(&'s self, py: Python<'s>) -> &'s [u8] {
        if let Some(copy) = self.copy.get(py) {
            return copy.bind(py).as_bytes();
        }
        let mut request = self.lock();
        match &mut *request {
            Some(request) => self.bytes.get_or_init(|| request.take_bytes()),
            // It was answered, which has kept the bytes, or the copy that has been made meanwhile.
            None => match (self.bytes.get(), self.copy.get(py)) {
                (Some(bytes), _) => bytes,
                (None, Some(copy)) => copy.bind(py).as_bytes(),
                (None, None) => &[],
            },
        }
    }

    /// Answers the request, if it is not answered, and ends its stream if `why` says what was raised.
    pub(crate) fn leave(&self, py: Python<'_>, why: Option<String>) -> PyResult<()> {
        let request = self.lock().take();
        if let Some(request) = request {
            let why = why.as_deref().unwrap_or("no reply");
            // No client waits any more: what was raised is the news.
            let _ = py.detach(|| request.fail(why));
        } else if let Some(why) = why {
            if let Some(replies) = self.stream.get().and_then(Weak::upgrade) {
                replies.end(py, Some(&why))?;
            }
            if let Some(part) = self.loan.get().and_then(Weak::upgrade) {
                part.fail(py, &why)?;
            }
        }
        Ok(())
    }

    fn is_answered(&self) -> bool {
        self.lock().is_none()
    }

    /// Waits for the next part.
    fn take_part(&self, py: Python<'_>, until: Until) -> PyResult<Option<rpc::Part>> {
        let look = || {
            let found = self.lock().as_mut().map(rpc::Request::try_next_part);
            found.ok_or_else(answered)
        };
        let watch = |set: &mut WaitSet| match self.watch_parts(py, set)? {
            Some(_) => Ok(()),
            None => Err(answered()),
        };
        self.arriving.next(py, until, &self.of.domain, look, watch)
    }

    /// Adds its parts to a set; None when the request is answered.
    pub(crate) fn watch_parts(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Option<Key>> {
        let request = self.lock();
        request.as_ref().map(|request| set.add(&request.parts()).raised(py)).transpose()
    }

    /// Adds it to a set, which is ready when no client waits for the reply; None when the request is
    /// answered.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Option<Key>> {
        let request = self.lock();
        request.as_ref().map(|request| set.add(request).raised(py)).transpose()
    }

    pub(crate) fn new(
        py: Python<'_>,
        request: rpc::Request,
        of: &Named,
        types: &Arc<Both>,
    ) -> Request {
        let copy = PyOnceLock::new();
        if request.len() < LONG {
            copy.get_or_init(py, || PyBytes::new(py, &request).unbind());
        }
        Request {
            copy,
            bytes: OnceLock::new(),
            layout: Layout::bytes(request.len()),
            loan: OnceLock::new(),
            request: Mutex::new(Some(request)),
            arriving: Arriving::new(),
            stream: OnceLock::new(),
            of: of.clone(),
            types: Arc::clone(types),
        }
    }
}

fn answered() -> PyErr {
    PyRuntimeError::new_err("the request was answered already")
}

/// The set in which a thread waits for parts, made by the first that has to wait.
pub(crate) struct Arriving(HandleMutex<Option<WaitSet>>);

impl Arriving {
    pub(crate) fn new() -> Arriving {
        Arriving(HandleMutex::new(None))
    }

    /// Returns the next part, or None after the last. `look` never waits; `watch` adds the parts to a
    /// set. A thread that waits has nothing locked but the set: others use the request meanwhile, and so do
    /// signal handlers.
    pub(crate) fn next(
        &self,
        py: Python<'_>,
        until: Until,
        domain: &outlive::Domain,
        mut look: impl FnMut() -> PyResult<Result<Poll<Option<rpc::Part>>, RecvError>>,
        watch: impl Fn(&mut WaitSet) -> PyResult<()>,
    ) -> PyResult<Option<rpc::Part>> {
        loop {
            if let Poll::Ready(part) = look()?.raised(py)? {
                return Ok(part);
            }
            if until.has_passed() {
                return Err(raise(py, "Timeout", "no part came until the deadline passed"));
            }
            wait_in(py, &self.0, until, domain, &watch)?;
        }
    }
}

#[pymethods]
impl Request {
    /// The value that the request is, by the service's description: a record or a number of numpy's,
    /// an object of msgpack; without a description the bytes.
    #[getter]
    fn value<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        if this.types.request.raw().is_some() && this.copy.get(py).is_none() {
            return this.types.request.value(slf.as_any());
        }
        this.types.request.value(this.data(py).as_any())
    }

    /// The request's bytes: of a long request a copy, made when it is first asked for. Without a copy,
    /// ``memoryview(request)`` and ``numpy`` show them where they lie.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let made = self.copy.get_or_init(py, || {
            let request = self.lock();
            // Where they lie: so the memory goes with the answer, unless a view needs it.
            let bytes = match (self.bytes.get(), &*request) {
                (Some(bytes), _) => &**bytes,
                (None, Some(request)) => &**request,
                (None, None) => &[],
            };
            PyBytes::new(py, bytes).unbind()
        });
        made.bind(py).clone()
    }

    /// Returns a read-only numpy array over the request, which keeps this object, as do all views of
    /// the array. ``dtype`` and ``shape`` say what the bytes are; a request of a service that describes
    /// them is a value of that type.
    #[pyo3(signature = (dtype=None, shape=None))]
    fn numpy<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<&Bound<'py, PyAny>>,
        shape: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        let whole = match (dtype, shape) {
            (None, None) => this.types.request.shown(slf.as_any(), this.__len__())?,
            _ => None,
        };
        match whole {
            Some(whole) => Ok(whole),
            None => shown_as_array(slf.as_any(), dtype, shape),
        }
    }

    /// Waits for the next part of the request and returns it, None after the last; ``Timeout`` after so
    /// many seconds. ``Cancelled`` when no client waits for a reply any more. A request that was not
    /// sent by ``Client.stream`` has no parts. With ``copy=False`` the part is a ``Part``, read where it
    /// lies, in place of ``bytes``.
    #[pyo3(signature = (timeout=None, *, copy=true))]
    fn next_part<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
        copy: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let part = self.take_part(py, Until::timeout(timeout)?)?;
        part.map(|part| part::given(py, part, copy, &self.of, &self.types)).transpose()
    }

    /// Waits for the next part of the request, for ``asyncio``: returns None after the last.
    #[pyo3(signature = (*, copy=true))]
    fn next_part_async<'py>(slf: &Bound<'py, Self>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("part_of", (slf, copy))
    }

    fn _part_source(&self, py: Python<'_>) -> PyResult<Awaited> {
        let source = self.lock().as_ref().map(|request| request.parts_once());
        Awaited::of(py, &self.of.domain, &source.ok_or_else(answered)?)
    }

    fn __len__(&self) -> usize {
        self.layout.len().unwrap_or(0)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let (data, len) = (this.bytes(slf.py()).as_ptr().cast_mut(), this.__len__());
        let layout = &raw const this.layout;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps layout and bytes:
        // both places are written once.
        unsafe { (*layout).show(view, flags, slf.into_any(), data, len, true) }
    }

    /// Sends the reply. Raises ``ClientDied`` or ``Cancelled`` when no client waits for it any
    /// more.
    fn reply(&self, py: Python<'_>, answer: &Bound<'_, PyAny>) -> PyResult<()> {
        let answer = self.types.reply.sent(answer)?;
        let answer = Given::of(&answer)?;
        let request = self.take(py)?;
        answer.with(py, |bytes| request.reply(bytes))?.map_err(|error| reply_failed(py, error))
    }

    /// Lends memory for the reply, to be written in place, for ``with``: the reply is sent at the end
    /// of its block. With a ``dtype`` the block gets a numpy array of that ``shape``; without, a
    /// ``memoryview`` of so many bytes. Its contents are arbitrary. After the block the array is
    /// read-only, and views that the block made of it must not write to what was sent. After an error
    /// (``TooLarge``, ``NoSpace``) the request is still to be answered.
    #[pyo3(signature = (shape, dtype=None))]
    fn loan(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<ReplyLoan> {
        let shape = Shape::of(shape, dtype, Layout::of_type)?;
        let (take, put_back) = (|| self.take(py), |request| *self.lock() = Some(request));
        let loan = ReplyLoan::new(py, take, put_back, shape, &self.of, &self.types)?;
        self.loan.get_or_init(|| loan.part());
        Ok(loan)
    }

    /// Begins several replies, one after the other, with ``with``.
    fn stream(&self, py: Python<'_>) -> PyResult<Stream> {
        let replies = Arc::new(Replies::new(self.take(py)?.stream()));
        self.stream.get_or_init(|| Arc::downgrade(&replies));
        let (of, types) = (self.of.clone(), Arc::clone(&self.types));
        Ok(Stream { replies, arriving: Arriving::new(), of, types })
    }

    /// Tells the client why what it asked for could not be done: it gets a ``ServiceError`` with this
    /// message. Never waits. Raises ``ClientDied`` or ``Cancelled`` when no client waits any more.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        let request = self.take(py)?;
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
        let request = self.lock();
        request
            .as_ref()
            .and_then(|request| request.client())
            .map(|holder| holder.pid)
            .filter(|&pid| pid != 0)
    }

    /// Whether no client waits for the reply any more.
    #[getter]
    fn cancelled(&self) -> bool {
        let request = self.lock();
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

    /// Waits as ``wait_cancelled``, for ``asyncio``: returns False when the request was answered.
    fn wait_cancelled_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("cancelled", (slf,))
    }

    fn _cancelled_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        let request = self.lock();
        request.as_ref().map(|request| Awaited::of(py, &self.of.domain, request)).transpose()
    }

    fn _is_answered(&self) -> bool {
        self.is_answered()
    }

    fn __repr__(&self) -> String {
        let state = match &*self.lock() {
            Some(_) => format!("{} bytes", self.__len__()),
            None => "answered".to_owned(),
        };
        self.of.repr("Request", Ok(state))
    }
}
