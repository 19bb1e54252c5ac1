//! `Stream`: several replies to one request.

use std::sync::Arc;
use std::task::Poll;

use outlive::wait::{Key, WaitSet};
use outlive::{Deadline, SendError, rpc};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::bytes::Given;
use crate::described::Both;
use crate::errors::{Raised, reply_failed};
use crate::handle_mutex::HandleMutex;
use crate::lent::LONG;
use crate::named::Named;
use crate::open::{Left, why};
use crate::part;
use crate::request::Arriving;
use crate::stream_loan::{self, StreamLoan};
use crate::wait_set::{Awaited, Outside};
use crate::waiting::{Until, detached, passed};

/// Replies to one request, sent one after the other, made by ``Request.stream``, for ``with``. The
/// end of the block ends the stream; if the block raises, the client gets a ``ServiceError`` after
/// the replies that were sent. When the stream is collected before ``finish``, the client gets
/// ``Dropped``.
///
/// Eight replies may be under way: then sending waits for the client, whose death ends that wait at
/// once.
///
/// >>> server, client = Server("primes", folder), Client("primes", folder)
/// >>> call = client.begin(b"below 6")
/// >>> with server.next(timeout=10).stream() as replies:     # in another process, as a rule
/// ...     for prime in (b"2", b"3", b"5"):
/// ...         replies.send(prime)
/// >>> list(call)
/// [b'2', b'3', b'5']
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Stream {
    pub(crate) replies: Arc<Replies>,
    pub(crate) arriving: Arriving,
    pub(crate) of: Named,
    pub(crate) types: Arc<Both>,
}

/// The core's stream, until it is finished.
pub(crate) struct Replies(HandleMutex<Option<rpc::Stream>>);

const LATE: SendError = SendError::TimedOut { slowest: None };

fn over() -> PyErr {
    PyRuntimeError::new_err("the stream has been finished already")
}

impl Replies {
    pub(crate) fn new(stream: rpc::Stream) -> Replies {
        Replies(HandleMutex::new(Some(stream)))
    }

    /// Adds it to a set, which is ready when no client waits for replies any more; `None` when the
    /// stream is finished.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Option<Key>> {
        self.0.lock(py)?.as_ref().map(|stream| set.add(stream).raised(py)).transpose()
    }

    /// Adds the parts of its request to a set; `None` when the stream is finished.
    pub(crate) fn watch_parts(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Option<Key>> {
        self.0.lock(py)?.as_ref().map(|stream| set.add(&stream.parts()).raised(py)).transpose()
    }

    /// Ends the stream at the end of a block, if it has not been finished: well, or by a failure.
    pub(crate) fn end(&self, py: Python<'_>, failure: Option<&str>) -> PyResult<()> {
        match (self.0.lock(py)?.take(), failure) {
            (Some(stream), None) => stream.finish().map_err(|error| reply_failed(py, error)),
            (Some(stream), Some(why)) => {
                // No client waits any more: what the block has raised is the news.
                let _ = stream.fail(why);
                Ok(())
            }
            (None, _) => Ok(()),
        }
    }
}

impl Stream {
    fn source<S: outlive::wait::Source>(
        &self,
        py: Python<'_>,
        of: impl FnOnce(&rpc::Stream) -> S,
    ) -> PyResult<Option<Awaited>> {
        let Some(inside) = self.replies.0.lock_until(py, Until::now())? else { return Ok(None) };
        let source = of(inside.as_ref().ok_or_else(over)?);
        Awaited::of(py, &self.of.domain, &source).map(Some)
    }

    /// Calls `once` with the stream, and with a deadline that has passed, until it returns something
    /// else than that, or `until` has passed; waits for room in between, outside.
    fn with_stream<T>(
        &self,
        py: Python<'_>,
        until: Until,
        mut once: impl FnMut(&mut rpc::Stream, Deadline) -> Result<T, SendError>,
    ) -> PyResult<T> {
        let mut room = Outside::default();
        loop {
            let Some(mut inside) = self.replies.0.lock_until(py, until)? else {
                return Err(reply_failed(py, LATE));
            };
            let stream = inside.as_mut().ok_or_else(over)?;
            match detached(py, || once(stream, passed())) {
                Err(SendError::TimedOut { .. }) if !until.has_passed() => {}
                other => return other.map_err(|error| reply_failed(py, error)),
            }
            if !room.is_ready_to_wait(py, &self.of.domain, || stream.room())? {
                continue;
            }
            // Other threads take the request's parts meanwhile, and a handler may end the stream.
            drop(inside);
            room.wait(py, until)?;
        }
    }

    /// Sends a reply that was written in place, or, if it is short, is copied from there.
    pub(crate) fn send_lent(
        &self,
        py: Python<'_>,
        reply: stream_loan::Reply,
        bytes: &[u8],
    ) -> PyResult<()> {
        let mut long = match reply {
            stream_loan::Reply::Short => None,
            stream_loan::Reply::Long(reply) => Some(*reply),
        };
        let is_short = long.is_none();
        self.with_stream(py, Until::NEVER, |stream, _| match long.take() {
            Some(reply) => stream.send_lent(reply).map_or(Ok(()), |(error, _)| Err(error)),
            None if is_short => stream.try_send(bytes),
            None => Ok(()),
        })
    }

    /// Waits for the next part.
    fn take_part(&self, py: Python<'_>, until: Until) -> PyResult<Option<rpc::Part>> {
        let look = || match self.replies.0.lock_until(py, until)? {
            Some(mut inside) => Ok(inside.as_mut().ok_or_else(over)?.try_next_part()),
            None => Ok(Ok(Poll::Pending)),
        };
        let watch = |set: &mut WaitSet| match self.replies.watch_parts(py, set)? {
            Some(_) => Ok(()),
            None => Err(over()),
        };
        self.arriving.next(py, until, &self.of.domain, look, watch)
    }
}

#[pymethods]
impl Stream {
    /// Sends a reply. Raises ``Timeout`` when eight were under way for so many seconds;
    /// ``ClientDied`` or ``Cancelled`` when no client waits for it any more.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let data = self.types.reply.sent(data)?;
        let data = Given::of(&data)?;
        data.with(py, |bytes| {
            self.with_stream(py, until, |stream, deadline| stream.send_until(bytes, deadline))
        })?
    }

    /// Lends memory for a reply, to be written in place, for ``with``: the reply is sent at the end of its
    /// block. With a ``dtype`` the block gets a numpy array of that ``shape``; without, a ``memoryview`` of
    /// so many bytes. Its contents are arbitrary. Waits, and raises, as ``send``.
    #[pyo3(signature = (shape, dtype=None, *, timeout=None))]
    fn loan(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<StreamLoan> {
        let (py, this) = (slf.py(), slf.get());
        let (shape, len, until) = stream_loan::asked(py, shape, dtype, timeout)?;
        this.types.reply.check(len)?;
        let (lent, mapping) = this.with_stream(py, until, |stream, deadline| {
            let lent = stream.lend_reply(len, Some(deadline))?;
            Ok((lent, Box::new(stream.request().mapping()) as Box<dyn Send + Sync>))
        })?;
        // A short one is copied into the slot.
        let lent = (len >= LONG).then_some(lent);
        StreamLoan::new(py, slf, lent, shape, mapping)
    }

    /// Waits for the next part of the request, as ``Request.next_part``.
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

    /// Sends a reply, for ``asyncio``: waits while eight are under way.
    fn send_async<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("send")?, slf.getattr("_room_source")?);
        slf.py().import("outlive._waiting")?.call_method1("told", (ask, source, data))
    }

    /// Waits for the next part of the request, for ``asyncio``, as ``Request.next_part_async``.
    #[pyo3(signature = (*, copy=true))]
    fn next_part_async<'py>(slf: &Bound<'py, Self>, copy: bool) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("part_of", (slf, copy))
    }

    /// None: a thread is inside.
    fn _room_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        self.source(py, |stream| stream.room_once())
    }

    fn _part_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        self.source(py, |stream| stream.request().parts_once())
    }

    /// Ends the stream: no more replies come.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.replies.0.lock(py)?.take();
        stream.ok_or_else(over)?.finish().map_err(|error| reply_failed(py, error))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Ends the stream without a last reply, and tells the client why: after the replies that were
    /// sent, it gets a ``ServiceError`` with this message. Never waits.
    fn fail(&self, py: Python<'_>, message: &str) -> PyResult<()> {
        let stream = self.replies.0.lock(py)?.take();
        stream.ok_or_else(over)?.fail(message).map_err(|error| reply_failed(py, error))
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
        self.replies.end(py, why(exc_type, exc_value).as_deref())
    }

    fn __repr__(&self) -> String {
        // Without waiting for a thread that sends.
        let state = match self.replies.0.try_lock().as_deref() {
            Some(Some(_)) => "open",
            Some(None) => "finished",
            None => "sending",
        };
        self.of.repr("Stream", Ok(state.to_owned()))
    }
}
