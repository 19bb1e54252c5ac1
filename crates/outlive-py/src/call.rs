//! `Call`: a call in flight, of `Client.begin`.
//!
//! Who waits for a reply is inside with the client only for a look, and waits outside by a set of the call's own: so the client's other
//! threads go on meanwhile, and any of them may cancel the call.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlive::rpc::{self, CallError, Pending, Reply};
use outlive::sync::AwaitError;
use outlive::wait::{Key, WaitSet};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};

use crate::bytes::Given;
use crate::errors::{Raise, Raised, raise};
use crate::lender;
use crate::turn::Turn;
use crate::wait_set::descriptor;
use crate::waiting::{Until, detached, passed, wait};

/// A client of the core's, with its calls.
pub(crate) type Lender = lender::Lender<rpc::Client, Begun>;

/// A call of the core's, and what was told of its end, which is told again.
pub(crate) struct Begun {
    pending: Pending<'static>,
    failed: Option<CallError>,
}

impl Begun {
    /// The next reply; `None` after the last. `TimedOut`: nothing yet.
    fn look(&mut self) -> Result<Option<Reply>, CallError> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        let found = self.pending.next_until(passed());
        if let Err(error) = &found
            && !matches!(error, CallError::TimedOut { .. })
        {
            self.failed = Some(error.clone());
        }
        found
    }
}

/// A call that was begun and goes on: what ``Client.begin`` gives. Any thread may use it. ``result`` is the answer; a server that sends
/// several replies is iterated over, also with ``async for``; ``await call`` is ``result`` for ``asyncio``.
///
/// The server's death ends it at once with ``ServerDied``; replies that had arrived are given first. Collected, or at the end of a ``with``
/// block, it is cancelled: if no server has begun it, none will.
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
/// >>> third.cancel(), server.try_recv()       # nobody had begun it, and nobody will
/// (True, None)
#[pyclass(module = "outlive", frozen, weakref)]
pub(crate) struct Call {
    // In this order they are dropped.
    set: Turn<Option<WaitSet>>,
    pending: lender::Lent<rpc::Client, Begun>,
    /// The first reply.
    answer: PyOnceLock<Py<PyBytes>>,
    cancelled: AtomicBool,
    domain: outlive::Domain,
}

impl Call {
    pub(crate) fn begin(
        py: Python<'_>,
        lender: &Arc<Lender>,
        domain: &outlive::Domain,
        request: &Given<'_>,
        until: Until,
    ) -> PyResult<Call> {
        let late = CallError::TimedOut { begun: false };
        let Some(inside) = lender.enter_until(py, until)? else { return Err(late.raise(py)) };
        // SAFETY: a `Lent` keeps the lender, and what is called on the call is called inside.
        let client = unsafe { inside.lender() };
        let begun = request.with(py, |bytes| {
            wait(py, until, |deadline| match client.begin_until(bytes, deadline) {
                Err(CallError::TimedOut { .. }) => None,
                other => Some(other),
            })
        })??;
        let pending = begun.unwrap_or(Err(late)).raised(py)?;
        Ok(Call {
            set: Turn::new(None),
            pending: lender::Lent::new(Begun { pending, failed: None }, lender),
            answer: PyOnceLock::new(),
            cancelled: AtomicBool::new(false),
            domain: domain.clone(),
        })
    }

    /// The next reply, by a look and, as long as there is none, a wait; `None` after the last.
    fn next_reply<'py>(&self, py: Python<'py>, until: Until) -> PyResult<Option<Bound<'py, PyBytes>>> {
        loop {
            match self.look(py, until)? {
                Ok(reply) => return Ok(reply),
                Err(CallError::TimedOut { .. }) if !until.has_passed() => {}
                Err(other) => return Err(other.raise(py)),
            }
            // After the client, never inside it: who waits has the set.
            let Some(mut set) = self.set.enter_until(py, until)? else { continue };
            let set = match &mut *set {
                Some(set) => set,
                none => {
                    let mut made = WaitSet::new(&self.domain);
                    self.watch(py, &mut made)?;
                    none.insert(made)
                }
            };
            let woken = wait(py, until, |deadline| match set.wait(deadline) {
                Err(AwaitError::TimedOut) if self.cancelled.load(Ordering::Relaxed) => Some(Ok(())),
                Err(AwaitError::TimedOut) => None,
                other => Some(other.map(drop)),
            })?;
            woken.unwrap_or(Ok(())).raised(py)?;
        }
    }

    fn look<'py>(&self, py: Python<'py>, until: Until) -> PyResult<Result<Option<Bound<'py, PyBytes>>, CallError>> {
        let Some(mut pending) = self.pending.enter_until(py, until)? else {
            return Ok(Err(CallError::TimedOut { begun: false }));
        };
        let Some(begun) = pending.as_mut() else {
            return Err(raise(py, "Cancelled", "the call was cancelled"));
        };
        let found = detached(py, || begun.look());
        // Inside still: who finds the call over finds its answer.
        Ok(found.map(|reply| {
            let reply = PyBytes::new(py, &reply?);
            self.answer.get_or_init(py, || reply.clone().unbind());
            Some(reply)
        }))
    }

    /// Adds it to a set.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<Key> {
        match self.pending.enter_until(py, Until::NEVER)?.as_deref() {
            Some(Some(begun)) => set.add(&begun.pending).raised(py),
            _ => Err(raise(py, "Cancelled", "the call was cancelled")),
        }
    }
}

#[pymethods]
impl Call {
    /// The answer, waiting for it; of several replies, the first. May be asked for again. ``CallTimeout`` when it took longer than so
    /// many seconds: the call goes on, and ``begun`` says whether a server has begun it.
    #[pyo3(signature = (timeout=None))]
    fn result<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let until = Until::timeout(timeout)?;
        if let Some(answer) = self.answer.get(py) {
            return Ok(answer.bind(py).clone());
        }
        match self.next_reply(py, until)? {
            Some(first) => Ok(self.answer.get(py).map_or(first, |answer| answer.bind(py).clone())),
            None => match self.answer.get(py) {
                // Another thread was quicker.
                Some(answer) => Ok(answer.bind(py).clone()),
                None => Err(CallError::Dropped.raise(py)),
            },
        }
    }

    /// The next reply, waiting for it; None after the last. An answer is one reply. ``CallTimeout`` as ``result``.
    #[pyo3(signature = (timeout=None))]
    fn next<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.next_reply(py, Until::timeout(timeout)?)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.next_reply(py, Until::NEVER)
    }

    /// Lets go of it. True: no server had begun it, and none will. False: one had, or it was over; what is still to come is not told
    /// any more.
    fn cancel(&self, py: Python<'_>) -> PyResult<bool> {
        let Some(mut pending) = self.pending.enter_until(py, Until::NEVER)? else { return Ok(false) };
        match pending.take() {
            None => Ok(false),
            Some(begun) => {
                let was_begun = begun.pending.cancel();
                // Who waits for it looks again at the end of its slice.
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

    /// A descriptor that is readable when there is something to be told, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.enter(py)?, &self.domain, |set| self.watch(py, set))
    }

    /// Whether it is worth to look for a reply. The descriptor is readable until this has said no.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut *self.set.enter(py)? {
            Some(set) => Ok(set.try_wait().raised(py)?.next().is_some()),
            // A look tells.
            None => Ok(true),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.cancel(py).map(|_| ())
    }
}
