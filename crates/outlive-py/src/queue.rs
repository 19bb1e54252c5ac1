//! `Queue`: `multiprocessing.Queue`'s methods for objects, and plain ones for bytes.

use std::sync::atomic::Ordering;

use outlive::queue::{OnReceiverDeath, Queue as Core, QueueOptions};
use outlive::wait::WaitSet;
use outlive::{RecvError, SendError, WaitError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::bytes::Given;
use crate::described::{self, Described};
use crate::domain;
use crate::errors::{Raised, raise};
use crate::handle_mutex::{HandleMutex, process};
use crate::named::{GivenDomain, Named, Reduced, counted};
use crate::open::Left;
use crate::peeked::Peeked;
use crate::queue_ends::{End, Ends};
use crate::stand_by::StandBy;
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached};

/// A queue between processes, growing in shared memory, whose messages outlive their senders.
///
/// **Objects**, with ``multiprocessing.Queue``'s methods: ``put`` and ``get`` pickle, and any
/// number of processes may do either. There is no feeder thread: once ``put`` has returned, the
/// object is in the queue, also when this process is killed. A process that is killed in ``get``
/// delays no other. ``maxsize`` is the most messages that no process has got yet, as there, and 0
/// sets no such bound: then ``max_bytes`` alone bounds the queue. Never ``get`` from a queue to which a
/// process that you do not trust may send.
///
/// ``task_done`` and ``join`` are those of ``multiprocessing.JoinableQueue``, except that ``join``
/// waits for no process that has been killed: what it had got and not done is gone with it. A
/// ``JobQueue`` gives such a job to another worker.
///
/// **Bytes**: ``send``, ``recv``, ``send_many``, ``recv_many`` and iteration. The first ``recv``
/// makes this process the queue's one receiver (``Taken`` while another is alive) until ``close``;
/// senders are told at once when it dies (``ReceiverDied``), and the messages that they sent before
/// are there for the next receiver. A queue that is made with ``on_receiver_death="keep"`` goes on
/// taking messages instead, until it is full, and the next receiver gets them.
///
/// ``payload``: what a message is, for all languages, as for a ``Topic``; then the methods for bytes
/// take values of that type, too.
///
/// Pickled, or inherited by ``fork`` or ``spawn``, it is the same queue.
///
/// >>> queue = Queue("orders", folder)
/// >>> queue.put({"buy": 10})
/// >>> queue.qsize(), queue.get(timeout=1.0), queue.empty()
/// (1, {'buy': 10}, True)
/// >>> queue.send(b"sell")
/// >>> queue.recv()
/// b'sell'
/// >>> queue.send_many([b"one", b"two", b"three"])
/// 3
/// >>> queue.recv_many(2), queue.recv_many()
/// ([b'one', b'two'], [b'three'])
/// >>> try:
/// ...     queue.get_nowait()
/// ... except stdlib_queue.Empty:
/// ...     print("nothing")
/// nothing
/// >>> queue.close()
/// >>> queue = Queue("requests", folder, maxsize=1)
/// >>> queue.put("build")
/// >>> queue.full(), queue.get(), queue.full()
/// (True, 'build', False)
/// >>> queue.task_done()
/// >>> queue.join()                             # all are got and done
/// >>> queue.close()
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Queue {
    // They are dropped in this order.
    set: HandleMutex<End<WaitSet>>,
    pub(crate) ends: Ends,
    described: Described,
}

fn options(
    maxsize: i64,
    max_bytes: Option<u64>,
    need_receiver: Option<bool>,
    on_receiver_death: Option<&str>,
    payload: Option<&Bound<'_, PyAny>>,
) -> PyResult<QueueOptions> {
    let mut options = Core::options();
    if let Some(payload) = described::given(payload)? {
        options = options.description(payload);
    }
    // As in `queue.Queue`: 0 or less is no bound.
    if maxsize > 0 {
        options = options.max_messages(u32::try_from(maxsize).unwrap_or(u32::MAX));
    }
    if let Some(bytes) = max_bytes {
        options = options.max_bytes(bytes);
    }
    if let Some(needed) = need_receiver {
        options = options.need_receiver(needed);
    }
    options = match on_receiver_death {
        None => options,
        Some("fail") => options.on_receiver_death(OnReceiverDeath::Fail),
        Some("keep") => options.on_receiver_death(OnReceiverDeath::Keep),
        Some(other) => {
            let text = format!("on_receiver_death is 'fail' or 'keep', not '{other}'");
            return Err(PyValueError::new_err(text));
        }
    };
    Ok(options)
}

impl Queue {
    fn of(
        py: Python<'_>,
        (queue, named): (Core, Named),
        end_when_senders_gone: bool,
    ) -> PyResult<Queue> {
        let described = Described::new(queue.description().raised(py)?);
        let ends = Ends::new(queue, named, end_when_senders_gone);
        Ok(Queue { set: HandleMutex::new(None), ends, described })
    }

    /// Returns the bytes of a value that is sent, if the queue's messages are described.
    fn message<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.described.message(data)?;
        if self.described.raw().is_some() {
            self.described.check(Given::of(&data)?.len())?;
        }
        Ok(data)
    }
}

/// What was received, or the exception that says that nothing was.
fn some<T>(py: Python<'_>, received: Result<Option<T>, RecvError>) -> PyResult<T> {
    received.raised(py)?.ok_or_else(|| raise(py, "Empty", "nothing came until the deadline passed"))
}

/// An argument of which only the truth matters, as ``block`` in `multiprocessing.Queue`'s methods.
struct Truth(bool);

impl<'py> FromPyObject<'_, 'py> for Truth {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Truth> {
        given.is_truthy().map(Truth)
    }
}

/// Returns how long to try, from the arguments of `multiprocessing.Queue`'s methods.
fn patience(Truth(block): Truth, timeout: Option<f64>) -> PyResult<Option<Until>> {
    match (block, timeout) {
        (false, _) => Ok(None),
        // A timeout that has passed already does not wait, there.
        (true, Some(seconds)) if seconds < 0.0 => Ok(None),
        (true, seconds) => Until::timeout(seconds).map(Some),
    }
}

#[pymethods]
impl Queue {
    #[new]
    #[pyo3(signature = (name, domain=None, *, maxsize=0, max_bytes=None, need_receiver=None, on_receiver_death=None, end_when_senders_gone=false, payload=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        maxsize: i64,
        max_bytes: Option<u64>,
        need_receiver: Option<bool>,
        on_receiver_death: Option<&str>,
        end_when_senders_gone: bool,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Queue> {
        let options = options(maxsize, max_bytes, need_receiver, on_receiver_death, payload)?;
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n))
            .and_then(|opened| Queue::of(py, opened, end_when_senders_gone))
    }

    /// Opens the existing queue of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, end_when_senders_gone=false))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        end_when_senders_gone: bool,
    ) -> PyResult<Queue> {
        Named::find(py, name, domain, Core::open_as_bytes)
            .and_then(|opened| Queue::of(py, opened, end_when_senders_gone))
    }

    /// Makes a new queue of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, maxsize=0, max_bytes=None, need_receiver=None, on_receiver_death=None, end_when_senders_gone=false, payload=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        maxsize: i64,
        max_bytes: Option<u64>,
        need_receiver: Option<bool>,
        on_receiver_death: Option<&str>,
        end_when_senders_gone: bool,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Queue> {
        let options = options(maxsize, max_bytes, need_receiver, on_receiver_death, payload)?;
        Named::make(py, name, domain, |d, n| options.create_new(d, n))
            .and_then(|opened| Queue::of(py, opened, end_when_senders_gone))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.ends.named.name
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.ends.named.domain()
    }

    /// numpy's type of a message's value, by the description that the queue has of its messages;
    /// None if it has none: ``numpy.frombuffer(queue.recv(), queue.dtype)``.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.described.dtype(py)?.map(|dtype| dtype.clone().unbind()))
    }

    /// The description that the queue has of its messages, as text; None if it has none.
    #[getter]
    fn payload(&self) -> Option<String> {
        self.described.text()
    }

    /// The most messages that no process has got yet; 0: no bound.
    #[getter]
    fn maxsize(&self) -> u32 {
        self.ends.queue.config().max_messages.unwrap_or(0)
    }

    /// Puts an object, pickled. Raises ``queue.Full`` when the queue holds ``maxsize`` messages or
    /// may not grow any more.
    #[pyo3(
        signature = (obj, block=Truth(true), timeout=None),
        text_signature = "($self, obj, block=True, timeout=None)"
    )]
    fn put(
        &self,
        py: Python<'_>,
        obj: &Bound<'_, PyAny>,
        block: Truth,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let until = patience(block, timeout)?;
        let pickled = pickler(py)?.call_method1("dumps", (obj,))?;
        let given = Given::of(&pickled)?;
        let send = || given.with(py, |bytes| self.ends.send_bytes(py, bytes, until))?;
        let mut sent = send()?;
        if sent == Err(SendError::ReceiverDied) {
            self.ends.get_over_a_death();
            sent = send()?;
        }
        sent.raised(py)
    }

    /// Gets an object. Raises ``queue.Empty`` when none came.
    #[pyo3(
        signature = (block=Truth(true), timeout=None),
        text_signature = "($self, block=True, timeout=None)"
    )]
    fn get<'py>(
        &self,
        py: Python<'py>,
        block: Truth,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = some(py, self.ends.get_bytes(py, patience(block, timeout)?)?)?;
        py.import("pickle")?.call_method1("loads", (PyBytes::new(py, &bytes),))
    }

    /// Puts an object, as ``put`` with ``block=False``.
    fn put_nowait(&self, py: Python<'_>, obj: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(py, obj, Truth(false), None)
    }

    /// Gets an object, as ``get`` with ``block=False``.
    fn get_nowait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.get(py, Truth(false), None)
    }

    /// Returns how many messages are in the queue now.
    fn qsize(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.ends.queue.counters().raised(py)?.pending)
    }

    /// Whether the queue is empty now.
    fn empty(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.qsize(py)? == 0)
    }

    /// Whether the queue holds ``maxsize`` messages, or has grown as large as it may; then a short
    /// message may still fit.
    fn full(&self, py: Python<'_>) -> PyResult<bool> {
        if self.ends.queue.is_full().raised(py)? {
            return Ok(true);
        }
        let counters = self.ends.queue.counters().raised(py)?;
        Ok(counters.pending > 0 && counters.bytes >= counters.max_bytes)
    }

    /// Says that an object is done which this process got by ``get``. Raises ``ValueError`` when all
    /// that it got are done.
    fn task_done(&self, py: Python<'_>) -> PyResult<()> {
        self.ends.check()?;
        if self.ends.tasks(py)?.done() {
            return Ok(());
        }
        Err(PyValueError::new_err("task_done: this process has got no object that is not done"))
    }

    /// Waits until all objects that were put have been got, and each is done: its process has called
    /// ``task_done`` or has ended. Bytes are done when they are received, or committed. Raises
    /// ``Timeout`` after so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn join(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.ends.check()?;
        let until = Until::timeout(timeout)?;
        let joined =
            self.ends.wait(py, until, |deadline| match self.ends.queue.join_until(deadline) {
                Err(WaitError::TimedOut) => None,
                other => Some(other),
            })?;
        joined.unwrap_or(Err(WaitError::TimedOut)).raised(py)
    }

    /// Makes room for so many messages of up to so many bytes each, and brings it into this process:
    /// each process of the queue calls it. Raises ``NoSpace`` when there is no room for all of it.
    fn prefault(&self, py: Python<'_>, messages: usize, size: usize) -> PyResult<()> {
        detached(py, || self.ends.queue.prefault(messages, size)).raised(py)
    }

    /// Returns what has happened to the queue: sent, received, pending, abandoned, redelivered,
    /// bytes, max_bytes; with a ``maxsize`` also places, the most messages that it can hold: as
    /// many, or fewer if there was no memory for more when they were needed.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.ends.queue.counters().raised(py)?;
        let dict = PyDict::new(py);
        for (name, count) in [
            ("sent", counters.sent),
            ("received", counters.received),
            ("pending", counters.pending),
            ("abandoned", counters.abandoned),
            ("redelivered", counters.redelivered),
            ("bytes", counters.bytes),
            ("max_bytes", counters.max_bytes),
        ] {
            dict.set_item(name, count)?;
        }
        if let Some(places) = counters.places {
            dict.set_item("places", places)?;
        }
        Ok(dict)
    }

    /// Closes this object, and gives up this process's sender and receiver if it got them by this
    /// object. Using it raises ``ValueError``; messages stay.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.ends.closed.store(true, Ordering::Relaxed);
        drop(self.set.close(py)?);
        drop(self.ends.sender.close(py)?);
        drop(self.ends.receiver.close(py)?);
        drop(self.ends.tasks.close(py)?);
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().ends.check()?;
        Ok(slf)
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

    /// Does nothing: there is no feeder thread to wait for.
    fn join_thread(&self) {}

    /// Does nothing: there is no feeder thread.
    fn cancel_join_thread(&self) {}

    /// Sends bytes. Raises ``Full`` when the queue may not grow and had no room for so many
    /// seconds, ``ReceiverDied`` at once when the receiver died, ``NoReceiver`` if the queue was
    /// made to refuse messages without one.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python<'_>, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        Given::of(&self.message(data)?)?
            .with(py, |bytes| self.ends.send_bytes(py, bytes, Some(until)))??
            .raised(py)
    }

    /// Sends bytes if there is room, else raises ``Full`` at once.
    fn try_send(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = &self.message(data)?;
        Given::of(data)?.with(py, |bytes| self.ends.send_bytes(py, bytes, None))??.raised(py)
    }

    /// Makes this process the queue's one receiver, waiting for a living one to leave or to end: a
    /// process that stands by gets the role at once when that dies. Returns False when the timeout
    /// passed first. ``close`` gives the role up.
    #[pyo3(signature = (timeout=None))]
    fn wait_to_receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.ends.wait_to_receive(py, Until::timeout(timeout)?)
    }

    /// Makes this process the queue's one receiver, for ``asyncio``, once no other process receives: so a
    /// process stands by while its tasks go on.
    fn wait_to_receive_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let ends = &slf.get().ends;
        ends.check()?;
        let source = Awaited::of(py, &ends.named.domain, &ends.queue.stand_by())?;
        let ask = slf.getattr("wait_to_receive")?;
        py.import("outlive._waiting")?.call_method1("role", (source, ask))
    }

    /// Returns what a ``WaitSet`` waits for that stands by: it is ready while no living process receives.
    /// (The queue itself, in a set, makes this process the receiver.)
    fn stand_by(&self) -> PyResult<StandBy> {
        self.ends.check()?;
        Ok(StandBy::new(self.ends.queue.stand_by(), &self.ends.named))
    }

    /// Receives bytes, as the queue's one receiver; raises ``Empty`` when none came for so many
    /// seconds.
    #[pyo3(signature = (timeout=None))]
    fn recv<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = some(py, self.ends.recv_bytes(py, Some(Until::timeout(timeout)?))?)?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Receives bytes, or returns None at once.
    fn try_recv<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let bytes = self.ends.recv_bytes(py, None)?.raised(py)?;
        Ok(bytes.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// Sends many messages in one step, and returns their number: either all are in the queue, one
    /// after the other, or none is. Costs little more than one.
    #[pyo3(signature = (messages, timeout=None))]
    fn send_many(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let until = Until::timeout(timeout)?;
        let given = messages
            .try_iter()?
            .map(|message| Given::of(&self.message(&message?)?))
            .collect::<PyResult<Vec<_>>>()?;
        let rows = given.iter().map(|given| given.row(py)).collect::<PyResult<Vec<_>>>()?;
        let Some(mut inside) = self.ends.sender(py, until)? else {
            return Err(SendError::Full { slowest: None }).raised(py);
        };
        let sender = self.ends.sender_in(py, &mut inside)?;
        let sent = self.ends.wait(py, until, |deadline| {
            match sender.send_batch_until(&rows, deadline) {
                Err(SendError::TimedOut { .. }) => None,
                other => Some(other),
            }
        })?;
        sent.unwrap_or(Err(SendError::TimedOut { slowest: None })).raised(py)?;
        Ok(given.len())
    }

    /// Receives the messages that are there, at most so many, as the queue's one receiver; waits
    /// for the first as ``recv``. They are taken out of the queue: use ``peek`` where they must not
    /// be lost with this process.
    #[pyo3(signature = (max_messages=1024, timeout=None))]
    fn recv_many<'py>(
        &self,
        py: Python<'py>,
        max_messages: usize,
        timeout: Option<f64>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let until = Until::timeout(timeout)?;
        if max_messages == 0 {
            return Err(PyValueError::new_err("max_messages must be one or more"));
        }
        let Some(mut inside) = self.ends.receiver(py, until)? else {
            return some(py, Ok(None));
        };
        let Some((_, receiver)) = &mut *inside else {
            return Err(RecvError::NotOwner).raised(py);
        };
        let mut received = vec![some(py, self.ends.receive(py, receiver, None, Some(until))?)?];
        // An error, or the end, is reported by the next receive.
        while received.len() < max_messages
            && let Ok(Some(message)) = receiver.try_recv()
        {
            received.push(message);
        }
        // The first is counted.
        self.ends.taken.fetch_add(received.len() as u64 - 1, Ordering::Relaxed);
        Ok(received.iter().map(|message| PyBytes::new(py, message)).collect())
    }

    /// Returns the next message without taking it out, as the queue's one receiver: it stays in the
    /// queue until ``commit``, or the end of a ``with`` block that no exception ended. So it is not
    /// lost when this process dies in between: the next receiver gets the same message, with
    /// ``redelivered``. Raises ``Empty`` when none came for so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn peek(slf: &Bound<'_, Self>, timeout: Option<f64>) -> PyResult<Peeked> {
        let (py, this) = (slf.py(), slf.get());
        let until = Until::timeout(timeout)?;
        let look = |found: outlive::queue::Peeked<'_>| (found.to_vec(), found.redelivered());
        let mut inside = this.ends.receiver(py, until)?;
        let receiver = inside.as_mut().and_then(|inside| inside.as_mut());
        let Some((_, receiver)) = receiver else { return some(py, Ok(None)) };
        let found = match receiver.try_peek().map(|found| found.map(look)) {
            Ok(None) => this
                .ends
                .wait(py, until, |deadline| {
                    receiver.peek_until(deadline).map(|found| found.map(look)).transpose()
                })?
                .transpose(),
            found => found,
        };
        let (data, redelivered) = some(py, found)?;
        let data = PyBytes::new(py, &data).unbind();
        let at = this.ends.taken.load(Ordering::Relaxed);
        Ok(Peeked::new(slf.clone().unbind(), at, data, redelivered))
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Waits for each message; with ``end_when_senders_gone``, ends when the senders are.
    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        match self.ends.recv_bytes(py, Some(Until::NEVER))? {
            Err(RecvError::Closed) => Ok(None),
            other => Ok(Some(PyBytes::new(py, &some(py, other)?))),
        }
    }

    /// Receives the next bytes, for ``asyncio``.
    fn recv_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_recv")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_recv")?;
        slf.py().import("outlive._waiting")?.call_method1("next_of", (slf, ask))
    }

    /// A descriptor that is readable when bytes are there, for event loops; see ``is_ready``. It
    /// makes this process the receiver.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        use std::os::fd::AsRawFd;
        let mut set = self.set.lock(py)?;
        let set = match &mut *set {
            Some((of, set)) if *of == process() => set,
            other => {
                let mut made = WaitSet::new(&self.ends.named.domain);
                self.watch(py, &mut made)?;
                &mut other.insert((process(), made)).1
            }
        };
        Ok(set.as_fd().raised(py)?.as_raw_fd())
    }

    /// Whether a receive is worth a try. The descriptor is readable until this has returned False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut *self.set.lock(py)? {
            Some((of, set)) if *of == process() => Ok(set.try_wait().raised(py)?.next().is_some()),
            _ => Ok(!self.empty(py)?),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let this = slf.get();
        this.ends.named.reduce(slf, &[("end_when_senders_gone", this.ends.end_when_senders_gone)])
    }

    fn __repr__(&self) -> String {
        let state = self.ends.check().map(|()| match self.ends.queue.counters() {
            Ok(counters) => counted(counters.pending, "message"),
            Err(error) => error.to_string(),
        });
        self.ends.named.repr("Queue", state)
    }
}

impl Queue {
    /// Adds the receiver, which this process becomes, to a set.
    pub(crate) fn watch(&self, py: Python<'_>, set: &mut WaitSet) -> PyResult<outlive::wait::Key> {
        let inside = self.ends.receiver(py, Until::NEVER)?;
        match inside.as_ref().and_then(|inside| inside.as_ref()) {
            Some((_, receiver)) => set.add(receiver).raised(py),
            None => Err(raise(py, "NotYours", "this is not the queue's receiver")),
        }
    }
}

/// Returns the pickler of `multiprocessing`.
fn pickler(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("multiprocessing.reduction")?.getattr("ForkingPickler")
}
