//! `Subscriber`: receiving messages by a call, by an iterator, by `async`.

use std::sync::Arc;

use outlive::topic::Subscriber as Core;
use outlive::wait::WaitSet;
use pyo3::prelude::*;

use crate::errors::{Raised, raise};
use crate::gpu_topic::OnGpus;
use crate::handle_mutex::HandleMutex;
use crate::named::Named;
use crate::open::{Left, closed};
use crate::sample::Sample;
use crate::wait_set::descriptor;
use crate::waiting::Until;

/// Receives the messages of a topic: each subscriber gets all of them. Any thread may use it, one
/// at a time; a forked child makes its own.
///
/// It is an iterator, also with ``async for``, that waits for each message and does not end.
///
/// >>> topic = Topic("ticks", folder, depth=4)
/// >>> publisher = topic.publisher()
/// >>> for tick in range(10):
/// ...     _ = publisher.publish(b"%d" % tick)
/// >>> subscriber = topic.subscriber(history=4)
/// >>> bytes(next(subscriber)), bytes(subscriber.latest()), subscriber.try_recv()
/// (b'6', b'9', None)
/// >>> subscriber.recv(timeout=0.01)
/// Traceback (most recent call last):
/// outlive.errors.Timeout: nothing came until the deadline passed
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Subscriber {
    pub(crate) handle: HandleMutex<Core>,
    /// For the descriptor, made when that is first used.
    set: HandleMutex<Option<WaitSet>>,
    of: Named,
    gpus: Arc<OnGpus>,
}

/// The exception of a receive that took too long.
pub(crate) fn nothing_came(py: Python<'_>) -> PyErr {
    raise(py, "Timeout", "nothing came until the deadline passed")
}

impl Subscriber {
    pub(crate) fn new(subscriber: Core, of: Named, gpus: Arc<OnGpus>) -> Subscriber {
        Subscriber { handle: HandleMutex::new(subscriber), set: HandleMutex::new(None), of, gpus }
    }

    fn sample(&self, sample: outlive::topic::Sample) -> Sample {
        Sample::new(sample, &self.gpus)
    }

    fn take(&self, py: Python<'_>, until: Until) -> PyResult<Sample> {
        let Some(mut inside) = self.handle.lock_until(py, until)? else {
            return Err(nothing_came(py));
        };
        if let Some(sample) = inside.try_recv().raised(py)? {
            return Ok(self.sample(sample));
        }
        let taken = inside
            .wait(py, until, |subscriber, deadline| subscriber.recv_until(deadline).transpose())?;
        match taken {
            Some(taken) => Ok(self.sample(taken.raised(py)?)),
            None => Err(nothing_came(py)),
        }
    }
}

#[pymethods]
impl Subscriber {
    /// Receives the next message, the oldest first, waiting for one; raises ``Timeout`` when none
    /// came for so many seconds.
    #[pyo3(signature = (timeout=None))]
    fn recv(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Sample> {
        self.take(py, Until::timeout(timeout)?)
    }

    /// Receives the next message, or returns None at once.
    fn try_recv(&self, py: Python<'_>) -> PyResult<Option<Sample>> {
        let mut inside = self.handle.lock(py)?;
        Ok(inside.try_recv().raised(py)?.map(|sample| self.sample(sample)))
    }

    /// Returns the newest message, taken before or not; None when there is none.
    fn latest(&self, py: Python<'_>) -> PyResult<Option<Sample>> {
        let mut inside = self.handle.lock(py)?;
        Ok(inside.latest().raised(py)?.map(|sample| self.sample(sample)))
    }

    /// Messages that were overwritten or skipped before they were taken.
    #[getter]
    fn lost(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.lost())
    }

    /// Messages that were passed over because they were older than its ``max_age``, or their ``lifespan``.
    #[getter]
    fn expired(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.expired())
    }

    /// How often a publisher was alive and did nothing for its ``liveliness``.
    #[getter]
    fn lapses(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.lapses())
    }

    /// Periods that have passed without a message.
    #[getter]
    fn missed(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.missed())
    }

    /// Messages that are waiting for this subscriber.
    #[getter]
    fn lag(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.lag())
    }

    /// How many living publishers there are.
    #[getter]
    fn publisher_count(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.handle.lock(py)?.publisher_count())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Sample> {
        self.take(py, Until::NEVER)
    }

    /// Receives the next message, for ``asyncio``.
    fn recv_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_recv")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Subscriber::recv_async(slf)
    }

    /// A descriptor that is readable when a message is there, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.of.domain, |set| {
            set.add(&*self.handle.lock(py)?).raised(py)
        })
    }

    /// Whether a receive is worth a try. The descriptor is readable until this has returned False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        match &mut *self.set.lock(py)? {
            Some(set) => Ok(set.try_wait().raised(py)?.next().is_some()),
            None => Ok(self.handle.lock(py)?.lag() > 0),
        }
    }

    /// Closes the subscriber: it gets no more messages, publishers wait for it no more, and using
    /// it raises ``ValueError``. Samples that it returned stay.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let set = self.set.close(py)?;
        drop(set);
        self.handle.close(py).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().handle.is_closing() {
            return Err(closed());
        }
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
        // Without waiting for a thread that receives.
        let state = match self.handle.try_lock() {
            _ if self.handle.is_closing() => Err(closed()),
            Some(inside) => Ok(format!("{} waiting, {} lost", inside.lag(), inside.lost())),
            None => Ok("receiving".to_owned()),
        };
        self.of.repr("Subscriber", state)
    }
}
