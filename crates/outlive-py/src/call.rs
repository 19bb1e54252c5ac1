//! `Call`: a call in flight, made by `Client.begin`.
//!
//! A thread that waits for a reply, or for room for a part, is inside with the client only for a look,
//! and waits outside by a wait set: so the client's other threads go on meanwhile, and any of them may
//! cancel the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use outlive::Deadline;
use outlive::rpc::{self, CallError};
use outlive::wait::{Key, WaitSet};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::described::Both;
use crate::errors::{Raise, Raised, raise};
use crate::handle_mutex::HandleMutex;
use crate::lender;
use crate::named::Named;
use crate::open::Left;
use crate::reply::Reply;
use crate::stream_loan::{self, PartLoan};
use crate::wait_set::{Awaited, Outside, descriptor, has_news, wait_in};
use crate::waiting::{Until, detached, passed, wait};

/// A client of the core's, with its calls.
pub(crate) type Lender = lender::Lender<rpc::Client, Begun>;

/// A call of the core's, and its end once it was reported, which is reported again.
pub(crate) struct Begun {
    pending: Pending,
    failed: Option<CallError>,
}

/// A call, or one of whose request parts are still to be sent.
enum Pending {
    Call(rpc::Call<'static>),
    Parts(rpc::RequestStream<'static>),
    /// Its last parts could not be sent.
    Lost,
}

impl Pending {
    fn call(&mut self) -> Option<&mut rpc::Call<'static>> {
        match self {
            Pending::Call(call) => Some(call),
            // SAFETY: the call stays in the stream; what is returned borrows from it.
            Pending::Parts(parts) => Some(unsafe { parts.call_mut() }),
            Pending::Lost => None,
        }
    }

    fn is_begun(&mut self) -> bool {
        self.call().is_none_or(|call| call.is_begun())
    }
}

impl Begun {
    /// Returns the next reply; `None` after the last. `TimedOut`: none yet.
    fn look(&mut self) -> Result<Option<rpc::Reply>, CallError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let Some(call) = self.pending.call() else { return Err(CallError::Dropped) };
        match call.next_until(passed()) {
            Ok(Poll::Ready(found)) => Ok(found),
            Ok(Poll::Pending) => Err(CallError::TimedOut { begun: call.is_begun() }),
            Err(error) => {
                self.failed = Some(error.clone());
                Err(error)
            }
        }
    }
}

fn no_parts() -> PyErr {
    PyRuntimeError::new_err("the call takes no (more) parts: ``Client.stream`` makes one that does")
}

/// A call in flight, made by ``Client.begin``. Any thread may use it.
///
/// ``result`` is the reply; iterate over the call, also with ``async for``, when a server sends
/// several; ``await call`` is ``result`` for ``asyncio``.
///
/// The server's death ends the call at once with ``ServerDied``; replies that had arrived are
/// returned first. When the object is collected, or at the end of a ``with`` block, the call is
/// cancelled: if no server has begun it, none will.
///
/// >>> server, client = Server("count", folder), Client("count", folder)
/// >>> first, second = client.begin(b"2"), client.begin(b"x")
/// >>> with server.next(timeout=10).stream() as replies:     # in another process, as a rule
/// ...     replies.send(b"one")
/// ...     replies.send(b"two")
/// >>> server.next(timeout=10).reply(b"?")
/// >>> second.result(timeout=10)
/// b'?'
/// >>> list(first)
/// [b'one', b'two']
/// >>> third = client.begin(b"3")
/// >>> third.cancel(), server.try_next()       # no server had begun it, and none will
/// (True, None)
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Call {
    // They are dropped in this order.
    set: HandleMutex<Option<WaitSet>>,
    begun: lender::Lent<rpc::Client, Begun>,
    /// The first reply, if it was returned as bytes.
    answer: PyOnceLock<Py<PyBytes>>,
    /// Whether a reply was returned.
    answered: AtomicBool,
    cancelled: AtomicBool,
    of: Named,
    types: Arc<Both>,
}

impl Call {
    pub(crate) fn begin(
        py: Python<'_>,
        lender: &Arc<Lender>,
        of: &Named,
        types: &Arc<Both>,
        request: &Given<'_>,
        until: Until,
    ) -> PyResult<Call> {
        request.with(py, |bytes| {
            Call::begin_by(py, lender, of, types, until, |client, deadline| {
                client.begin_until(bytes, deadline)
            })
        })?
    }

    /// Begins a call by `begin`, which waits until the deadline that it gets.
    pub(crate) fn begin_by(
        py: Python<'_>,
        lender: &Arc<Lender>,
        of: &Named,
        types: &Arc<Both>,
        until: Until,
        mut begin: impl FnMut(&'static rpc::Client, Deadline) -> Result<rpc::Call<'static>, CallError>,
    ) -> PyResult<Call> {
        Call::made_by(py, lender, of, types, until, |client, deadline| {
            begin(client, deadline).map(Pending::Call)
        })
    }

    /// Begins a call of whose request parts follow.
    pub(crate) fn stream(
        py: Python<'_>,
        lender: &Arc<Lender>,
        of: &Named,
        types: &Arc<Both>,
        request: &Given<'_>,
        until: Until,
    ) -> PyResult<Call> {
        request.with(py, |bytes| {
            Call::made_by(py, lender, of, types, until, |client, deadline| {
                client.stream_until(bytes, deadline).map(Pending::Parts)
            })
        })?
    }

    fn made_by(
        py: Python<'_>,
        lender: &Arc<Lender>,
        of: &Named,
        types: &Arc<Both>,
        until: Until,
        mut begin: impl FnMut(&'static rpc::Client, Deadline) -> Result<Pending, CallError>,
    ) -> PyResult<Call> {
        let late = CallError::TimedOut { begun: false };
        let Some(inside) = lender.lock_until(py, until)? else { return Err(late.raise(py)) };
        // SAFETY: a `Lent` keeps the lender, and calls of this one are made inside.
        let client = unsafe { inside.lender() };
        let begun = wait(py, until, |deadline| match begin(client, deadline) {
            Err(CallError::TimedOut { .. }) => None,
            other => Some(other),
        })?;
        let pending = begun.unwrap_or(Err(late)).raised(py)?;
        Ok(Call {
            set: HandleMutex::new(None),
            begun: lender::Lent::new(Begun { pending, failed: None }, lender),
            answer: PyOnceLock::new(),
            answered: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            of: of.clone(),
            types: Arc::clone(types),
        })
    }

    /// Returns the reply where it lies; cancels the call when the time is over.
    pub(crate) fn reply_or_cancel(&self, py: Python<'_>, until: Until) -> PyResult<Reply> {
        match self.wait_for_reply(py, until, |reply| self.in_place(reply))? {
            Some(Some(reply)) => Ok(reply),
            Some(None) => Err(CallError::Dropped.raise(py)),
            // Whether it was begun is known once the call is over.
            None => Err(CallError::TimedOut { begun: !self.cancel(py)? }.raise(py)),
        }
    }

    fn in_place(&self, reply: rpc::Reply) -> Reply {
        self.answered.store(true, Ordering::Relaxed);
        Reply::new(reply, &self.of, &self.types)
    }

    /// Returns the next reply as bytes; `None` after the last.
    fn next_reply<'py>(
        &self,
        py: Python<'py>,
        until: Until,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = self.wait_for_reply(py, until, |reply| {
            let reply = PyBytes::new(py, &reply);
            self.answer.get_or_init(py, || reply.clone().unbind());
            self.answered.store(true, Ordering::Relaxed);
            reply
        })?;
        found.map_or_else(|| Err(self.late(py)), Ok)
    }

    /// Returns the error of a call that goes on after the time is over.
    fn late(&self, py: Python<'_>) -> PyErr {
        let begun = match self.begun.lock_until(py, Until::NEVER) {
            Ok(Some(mut begun)) => begun.as_mut().is_some_and(|begun| begun.pending.is_begun()),
            Ok(None) => false,
            Err(error) => return error,
        };
        CallError::TimedOut { begun }.raise(py)
    }

    /// Returns the next reply, as `made` makes it, by a look and, as long as there is none, a wait.
    /// `Some(None)`: there are no more. `None`: the time is over.
    fn wait_for_reply<T>(
        &self,
        py: Python<'_>,
        until: Until,
        made: impl Fn(rpc::Reply) -> T,
    ) -> PyResult<Option<Option<T>>> {
        loop {
            match self.look(py, until, &made)? {
                Ok(reply) => return Ok(Some(reply)),
                Err(CallError::TimedOut { .. }) if !until.has_passed() => {}
                Err(CallError::TimedOut { .. }) => return Ok(None),
                Err(other) => return Err(other.raise(py)),
            }
            // After the client, never inside it: a thread that waits has the set.
            let watch = |set: &mut WaitSet| self.watch(py, set).map(drop);
            wait_in(py, &self.set, until, &self.of.domain, watch)?;
        }
    }

    fn look<T>(
        &self,
        py: Python<'_>,
        until: Until,
        made: &impl Fn(rpc::Reply) -> T,
    ) -> PyResult<Result<Option<T>, CallError>> {
        let Some(mut begun) = self.begun.lock_until(py, until)? else {
            return Ok(Err(CallError::TimedOut { begun: false }));
        };
        let Some(begun) = begun.as_mut() else {
            return Err(raise(py, "Cancelled", "the call was cancelled"));
        };
        let found = detached(py, || begun.look());
        // Still inside: a thread that finds the call over finds its reply.
        Ok(found.map(|reply| reply.map(made)))
    }

    pub(crate) fn of(&self) -> &Named {
        &self.of
    }

    /// Sends a part that was written in place. It does not wait, and gives the part back when there is
    /// no room for it.
    pub(crate) fn send_lent(
        &self,
        py: Python<'_>,
        part: rpc::LentPart,
    ) -> PyResult<Option<rpc::LentPart>> {
        let mut part = Some(part);
        self.with_parts(py, Until::NEVER, |parts, _| {
            let Some(taken) = part.take() else {
                unreachable!("what follows is never asked again")
            };
            match parts.send_lent(taken) {
                None => Ok(None),
                Some((CallError::TimedOut { .. }, back)) => Ok(Some(back)),
                Some((error, _)) => Err(error),
            }
        })
    }

    /// Calls `once` with the stream of parts, and with a deadline that has passed, until it returns
    /// something else than that, or `until` has passed; waits for room in between, outside.
    fn with_parts<T: Send>(
        &self,
        py: Python<'_>,
        until: Until,
        mut once: impl FnMut(&mut rpc::RequestStream<'static>, Deadline) -> Result<T, CallError>,
    ) -> PyResult<T> {
        let mut room = Outside::default();
        loop {
            let Some(mut begun) = self.begun.lock_until(py, until)? else {
                return Err(CallError::TimedOut { begun: false }.raise(py));
            };
            let inside = begun.as_mut();
            let inside = inside.ok_or_else(|| raise(py, "Cancelled", "the call was cancelled"))?;
            let Pending::Parts(parts) = &mut inside.pending else { return Err(no_parts()) };
            match detached(py, || once(parts, passed())) {
                Err(CallError::TimedOut { .. }) if !until.has_passed() => {}
                other => return other.raised(py),
            }
            if !room.is_ready_to_wait(py, &self.of.domain, || parts.room_once())? {
                continue;
            }
            // The client's other threads go on meanwhile, and any of them may cancel the call, finish it, or
            // take its last reply.
            drop(begun);
            room.wait(py, until)?;
        }
    }

    /// Adds the call to a set.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Key> {
        let mut begun = self.begun.lock_until(py, Until::NEVER)?;
        let pending = begun.as_deref_mut().and_then(|begun| begun.as_mut());
        match pending.and_then(|begun| begun.pending.call()) {
            Some(call) => set.add(&*call).raised(py),
            None => Err(raise(py, "Cancelled", "the call was cancelled")),
        }
    }
}

#[pymethods]
impl Call {
    /// Waits for the reply and returns it; of several, the first. It may be called again.
    /// ``CallTimeout`` after so many seconds: the call goes on, and ``begun`` says whether a server
    /// has begun it.
    #[pyo3(signature = (timeout=None))]
    fn result<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let until = Until::timeout(timeout)?;
        if let Some(answer) = self.answer.get(py) {
            return Ok(answer.bind(py).clone());
        }
        match self.next_reply(py, until)? {
            Some(first) => Ok(self.answer.get(py).map_or(first, |answer| answer.bind(py).clone())),
            None => match self.answer.get(py) {
                // Another thread was first.
                Some(answer) => Ok(answer.bind(py).clone()),
                None if self.answered.load(Ordering::Relaxed) => {
                    Err(PyRuntimeError::new_err("the reply was returned already, by ``reply``"))
                }
                None => Err(CallError::Dropped.raise(py)),
            },
        }
    }

    /// Waits for the next reply and returns it; None after the last. ``CallTimeout`` as in
    /// ``result``.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.next_reply(py, Until::timeout(timeout)?)
    }

    /// Waits for the next reply and returns it where it lies in shared memory, without a copy; None
    /// after the last. ``CallTimeout`` as in ``result``.
    #[pyo3(signature = (timeout=None))]
    fn reply(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Reply>> {
        let until = Until::timeout(timeout)?;
        let found = self.wait_for_reply(py, until, |reply| self.in_place(reply))?;
        found.map_or_else(|| Err(self.late(py)), Ok)
    }

    /// Sends a part of the request, for a call that ``Client.stream`` returned: waits while eight parts
    /// are under way. ``CallTimeout`` after so many seconds; the call goes on. ``Answered`` when the
    /// server has replied already, and takes no more parts.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let data = self.types.request.sent(data)?;
        let data = Given::of(&data)?;
        let bytes = data.row(py)?;
        self.with_parts(py, until, |parts, deadline| parts.send_until(&bytes, deadline))
    }

    /// Lends memory for a part of the request, to be written in place, for ``with``: the part is sent at
    /// the end of its block. With a ``dtype`` the block gets a numpy array of that ``shape``; without, a
    /// ``memoryview`` of so many bytes. Its contents are arbitrary. Waits, and raises, as ``send``.
    #[pyo3(signature = (shape, dtype=None, *, timeout=None))]
    fn loan(
        slf: &Bound<'_, Self>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<PartLoan> {
        let (py, this) = (slf.py(), slf.get());
        let (shape, len, until) = stream_loan::asked(py, shape, dtype, timeout)?;
        this.types.request.check(len)?;
        let part =
            this.with_parts(py, until, |parts, deadline| parts.lend_part(len, Some(deadline)))?;
        Ok(PartLoan::new(slf, part, shape))
    }

    /// Sends a part of the request, for ``asyncio``, as ``send``.
    fn send_async<'py>(
        slf: &Bound<'py, Self>,
        data: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("send")?, slf.getattr("_room_source")?);
        slf.py().import("outlive._waiting")?.call_method1("told", (ask, source, data))
    }

    fn _room_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        let Some(mut begun) = self.begun.lock_until(py, Until::now())? else { return Ok(None) };
        let inside = begun.as_mut();
        let inside = inside.ok_or_else(|| raise(py, "Cancelled", "the call was cancelled"))?;
        let Pending::Parts(parts) = &inside.pending else { return Err(no_parts()) };
        Awaited::of(py, &self.of.domain, &parts.room_once()).map(Some)
    }

    /// Waits for the next reply, for ``asyncio``, and returns it where it lies, as ``reply``; None after
    /// the last.
    fn reply_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("reply_in_place", (slf,))
    }

    /// Says that no more parts of the request come: for a call that ``Client.stream`` returned. A server
    /// that takes all parts before it replies waits for that, and so does the call's ``result``.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let Some(mut begun) = self.begun.lock_until(py, Until::NEVER)? else { return Ok(()) };
        let begun =
            begun.as_mut().ok_or_else(|| raise(py, "Cancelled", "the call was cancelled"))?;
        match std::mem::replace(&mut begun.pending, Pending::Lost) {
            Pending::Parts(parts) => match parts.finish() {
                Ok(call) => begun.pending = Pending::Call(call),
                Err(error) => {
                    begun.failed = Some(error.clone());
                    return Err(error.raise(py));
                }
            },
            other => {
                begun.pending = other;
                return Err(no_parts());
            }
        }
        Ok(())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.next_reply(py, Until::NEVER)
    }

    /// Cancels the call. True: no server had begun it, and none will. False: a server had, or it
    /// was over; replies that are still to come are discarded.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(mut begun) = self.begun.lock_until(py, Until::NEVER)? else {
            return Ok(false);
        };
        match begun.take() {
            None => Ok(false),
            Some(begun) => {
                let was_begun = match begun.pending {
                    Pending::Call(call) => call.cancel(),
                    Pending::Parts(parts) => parts.cancel(),
                    Pending::Lost => true,
                };
                // A waiting thread looks again at the end of its slice.
                self.cancelled.store(true, Ordering::Relaxed);
                Ok(!was_begun)
            }
        }
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let answer = slf.py().import("outlive._waiting")?.call_method1("answer_of", (slf,))?;
        answer.call_method0("__await__")
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("reply_of", (slf,))
    }

    /// A descriptor that is readable when there is a reply or the call's end, for event loops; see
    /// ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.of.domain, |set| self.watch(py, set))
    }

    /// Whether a look for a reply is worth it. The descriptor is readable until this has returned
    /// False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        has_news(py, &mut *self.set.lock(py)?)
    }

    /// Cancels the call, as ``cancel``, if it is not over.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.cancel(py).map(|_| ())
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
        let _ = (exc_type, exc_value, traceback);
        self.close(py)
    }

    fn __repr__(&self) -> String {
        let state = if self.cancelled.load(Ordering::Relaxed) {
            "cancelled"
        } else if self.answered.load(Ordering::Relaxed) {
            "answered"
        } else {
            "in flight"
        };
        self.of.repr("Call", Ok(state.to_owned()))
    }
}
