//! `Publisher`.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};

use outlive::SendError;
use outlive::topic::{Due, Header, Publisher as Core, Writable};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::bytes::Given;
use crate::errors::{Raise, Raised, raise};
use crate::gpu_topic::OnGpus;
use crate::handle_mutex::{HandleGuard, HandleMutex};
use crate::layout::{Item, Layout};
use crate::loan::Loan;
use crate::msgpack;
use crate::named::{Named, counted};
use crate::open::{Left, closed};
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached};
use crate::writable::Shape;

/// Waits until no reliable subscriber is in the way of the next message, which then is published
/// without waiting.
pub(crate) fn make_way(
    py: Python<'_>,
    publisher: &mut HandleGuard<'_, Core>,
    until: Until,
) -> PyResult<()> {
    match publisher.try_wait_writable() {
        Err(SendError::Full { .. }) => {}
        other => return other.raised(py),
    }
    let mut slowest = None;
    let clear =
        publisher.wait(py, until, |core, deadline| match core.wait_writable_until(deadline) {
            Err(SendError::TimedOut { slowest: holder }) => {
                slowest = holder;
                None
            }
            other => Some(other),
        })?;
    match (clear, slowest) {
        (Some(clear), _) => clear.raised(py),
        (None, slowest @ Some(_)) => Err(SendError::TimedOut { slowest }.raise(py)),
        (None, None) => Err(raise(
            py,
            "Timeout",
            "a reliable subscriber was in the way when the timeout passed",
        )),
    }
}

/// Publishes messages to a topic. Any thread may use it, one at a time; a forked child makes its
/// own.
///
/// >>> topic = Topic("words", folder)
/// >>> subscriber, publisher = topic.subscriber(), topic.publisher()
/// >>> publisher.publish(b"hello", key=1)
/// 0
/// >>> publisher.publish_msgpack({"pi": 3.14, "seen": [1, 2, None]})
/// 1
/// >>> bytes(subscriber.recv()), subscriber.recv().msgpack()
/// (b'hello', {'pi': 3.14, 'seen': [1, 2, None]})
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Publisher {
    handle: Arc<HandleMutex<Core>>,
    /// The type of the last loan, and its item: so numpy need not be asked again. Locked for a
    /// moment.
    last_type: Mutex<Option<(Py<PyAny>, Item)>>,
    of: Named,
    gpus: Arc<OnGpus>,
}

impl Publisher {
    pub(crate) fn new(publisher: Core, of: Named, gpus: Arc<OnGpus>) -> Publisher {
        let handle = Arc::new(HandleMutex::new(publisher));
        Publisher { handle, last_type: Mutex::default(), of, gpus }
    }

    pub(crate) fn writable(&self, py: Python<'_>) -> PyResult<Writable> {
        Ok(self.handle.lock(py)?.writable())
    }

    pub(crate) fn due(&self, py: Python<'_>) -> PyResult<Due> {
        Ok(self.handle.lock(py)?.due())
    }

    fn layout_of(&self, dtype: &Bound<'_, PyAny>, extents: &[usize]) -> PyResult<Layout> {
        let mut last = self.last_type.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, item)) = &*last
            && known.is(dtype)
        {
            return Layout::new(item.clone(), extents);
        }
        // Unlocked: a type's own code may come back here.
        let other = last.take();
        drop(last);
        drop(other);
        let layout = Layout::of_type(dtype, extents)?;
        // Types and strings only, which do not change.
        if dtype.is_instance_of::<pyo3::types::PyType>()
            || dtype.is_instance_of::<pyo3::types::PyString>()
        {
            let known = (dtype.clone().unbind(), layout.item().clone());
            *self.last_type.lock().unwrap_or_else(PoisonError::into_inner) = Some(known);
        }
        Ok(layout)
    }
}

/// Returns the header that goes with a message: the array's layout, or the user's bytes.
pub(crate) fn header(
    layout: Option<&Layout>,
    key: u64,
    frame: u64,
    stamp: u64,
    own: Option<&[u8]>,
) -> PyResult<Option<Header>> {
    let own = match (layout, own) {
        (Some(_), Some(_)) => {
            return Err(PyValueError::new_err(
                "an array's type and extents are in 'own': publish its bytes instead",
            ));
        }
        (Some(layout), None) => layout.to_own(),
        (None, Some(given)) => {
            let mut own = [0; 32];
            let into = own.get_mut(..given.len());
            into.ok_or_else(|| PyValueError::new_err("'own' has at most 32 bytes"))?
                .copy_from_slice(given);
            own
        }
        (None, None) if key == 0 && frame == 0 && stamp == 0 => return Ok(None),
        (None, None) => [0; 32],
    };
    Ok(Some(Header { key, frame, stamp, own }))
}

#[pymethods]
impl Publisher {
    /// Publishes a copy of bytes, of an array, or of a tensor on the CPU (by DLPack), and returns
    /// its number among the publisher's messages.
    ///
    /// It waits only for reliable subscribers, as long as they live; raises ``Timeout`` when that
    /// takes longer than so many seconds.
    #[pyo3(signature = (data, *, key=0, frame=0, stamp=0, own=None, timeout=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn publish(
        &self,
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        key: u64,
        frame: u64,
        stamp: u64,
        own: Option<&[u8]>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let until = Until::timeout(timeout)?;
        let described = &self.gpus.described;
        let data = &described.message(data)?;
        let given = Given::array_of(data)?;
        // A described message is its value's bytes alone.
        let layout = if described.raw().is_some() { None } else { given.layout()? };
        described.check(given.len())?;
        let header = header(layout.as_ref(), key, frame, stamp, own)?;
        let (len, description) =
            (given.len(), layout.as_ref().map_or(&[][..], Layout::description));
        let mut inside = self.handle.lock(py)?;
        make_way(py, &mut inside, until)?;
        let mut loan = inside.loan(len.saturating_add(description.len())).raised(py)?;
        // SAFETY: the loan has at least as many bytes, and is this call's alone.
        unsafe { given.copy_to(py, loan.as_mut_ptr())? };
        loan[len..].copy_from_slice(description);
        if let Some(header) = header {
            loan.set_header(header);
        }
        Ok(inside.publish(loan).raised(py)?.sequence())
    }

    /// Publishes a value as msgpack: None, bool, int, float, str, bytes, list, tuple and dict.
    #[pyo3(signature = (value, *, timeout=None))]
    fn publish_msgpack(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<u64> {
        let until = Until::timeout(timeout)?;
        let mut inside = self.handle.lock(py)?;
        make_way(py, &mut inside, until)?;
        let raised = RefCell::new(None);
        let published = (*inside).publish(outlive::Msgpack(&msgpack::Value::new(value, &raised)));
        let published = published.map(|published| published.sequence());
        match raised.into_inner() {
            Some(raised) => Err(raised),
            None => published.raised(py),
        }
    }

    /// Makes memory for messages of up to so many bytes, brings it in, and keeps it for this
    /// publisher. ``held``: how many are in use at a time beside those in the ring, loans and
    /// samples. Raises ``NoSpace`` when there is no room for all of it; no message is given up.
    fn prefault(&self, py: Python<'_>, held: usize, size: usize) -> PyResult<()> {
        let inside = self.handle.lock(py)?;
        detached(py, || inside.prefault(held, size)).raised(py)
    }

    /// Lends memory for a message, to be written in place: for ``with``, which publishes it at the
    /// end of its block, or gives it back when the block ends by an exception.
    ///
    /// With a ``dtype`` the block gets a numpy array of that ``shape``; without, a ``memoryview``
    /// of so many bytes. Its contents are arbitrary. After the block the array is read-only, and
    /// views that the block made of it must not write to what was published.
    #[pyo3(signature = (shape, dtype=None, *, key=0, frame=0, stamp=0, own=None, timeout=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn loan(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        key: u64,
        frame: u64,
        stamp: u64,
        own: Option<&[u8]>,
        timeout: Option<f64>,
    ) -> PyResult<Loan> {
        Until::timeout(timeout)?;
        let shape = Shape::of(shape, dtype, |dtype, extents| self.layout_of(dtype, extents))?;
        let layout = &shape.layout;
        let len = layout
            .len()
            .ok_or_else(|| raise(py, "TooLarge", "more bytes than a message can have"))?;
        let is_described = self.gpus.described.raw().is_some();
        self.gpus.described.check(len)?;
        let said = dtype.filter(|_| !is_described).map(|_| layout);
        let header = header(said, key, frame, stamp, own)?;
        let inside = self.handle.lock(py)?;
        let description = if is_described { &[] } else { layout.description() };
        let mut loan = inside.loan(len.saturating_add(description.len())).raised(py)?;
        loan[len..].copy_from_slice(description);
        let handle = Arc::clone(&self.handle);
        Ok(Loan::new(loan, header, shape, timeout, handle, self.of.clone()))
    }

    /// Whether there is a living subscriber.
    #[getter]
    fn has_subscribers(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.handle.lock(py)?.has_subscribers())
    }

    /// How many living subscribers there are.
    #[getter]
    fn subscriber_count(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.handle.lock(py)?.subscriber_count())
    }

    /// Says that the publisher is there, although it has nothing to publish, to subscribers that ask
    /// for its ``liveliness``.
    fn assert_liveliness(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.lock(py)?.assert_liveliness();
        Ok(())
    }

    /// How often it has stopped waiting for a reliable subscriber that was in its way for longer than
    /// its ``max_blocking``.
    #[getter]
    fn stopped_waiting(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.stopped_waiting())
    }

    /// Returns the reliable subscriber that is furthest behind: its pid, and how many messages it has
    /// still to take. None without one that is waited for. ``WaitSet.slowest`` tells it also while
    /// another thread publishes.
    fn slowest(&self, py: Python<'_>) -> PyResult<Option<(u32, u64)>> {
        Ok(self.handle.lock(py)?.slowest().map(|slowest| (slowest.who.pid, slowest.lag)))
    }

    /// Periods that have passed without a message of this publisher.
    #[getter]
    fn missed(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.missed())
    }

    /// Waits until the publisher has published nothing for its period, for ``asyncio``, and returns how
    /// many periods have passed. Of a publisher without a ``period`` it waits until that is closed.
    fn due_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let source = Awaited::of(py, &this.of.domain, &this.due(py)?)?;
        let ask = slf.getattr("_take_due")?;
        py.import("outlive._waiting")?.call_method1("take", (source, ask))
    }

    fn _take_due(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(Some(self.due(py)?.take()).filter(|&periods| periods > 0))
    }

    /// Closes the publisher: its place is free for another one, and using it raises ``ValueError``.
    /// What it published stays; a loan that is not published yet can be published no more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.handle.close(py).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        drop(slf.get().handle.lock(slf.py())?);
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

    fn __repr__(&self) -> String {
        // Without waiting for a thread that publishes.
        let state = match self.handle.try_lock() {
            _ if self.handle.is_closing() => Err(closed()),
            Some(inside) => Ok(counted(inside.subscriber_count(), "subscriber")),
            None => Ok("publishing".to_owned()),
        };
        self.of.repr("Publisher", state)
    }
}
