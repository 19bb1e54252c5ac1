//! `Barrier`: a barrier that knows its participants.

use std::sync::Arc;

use outlive::WaitError;
use outlive::sync::{Barrier as Core, BarrierOptions, OwnedSeat, WhenOneDies};
use pyo3::prelude::*;

use crate::domain;
use crate::errors::{Raise, Raised};
use crate::held::{Kept, this_thread};
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::semaphore::number;
use crate::waiting::{Until, wait};

/// A barrier between processes: each phase begins when all participants have arrived in the one
/// before.
///
/// A thread takes its seat with its first ``wait``, and keeps it until ``leave``. If a participant
/// that has not arrived dies, all waits end at once: with ``BarrierBroken``, until a process calls
/// ``repair``, or, with ``count_out``, the others go on without it. Without ``count_out``, a new
/// barrier breaks, and an existing one does what its maker chose.
///
/// >>> step = Barrier("step", 2, folder)
/// >>> other = threading.Thread(target=lambda: (step.wait(timeout=10), step.leave()))
/// >>> other.start()
/// >>> step.wait(timeout=10) in (True, False)      # True for one of them
/// True
/// >>> other.join()
/// >>> step.leave()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Barrier {
    seats: Kept<OwnedSeat>,
    barrier: Arc<Core>,
    named: Named,
}

fn options(parties: i64, count_out: Option<bool>) -> PyResult<BarrierOptions> {
    let parties = number(Some(parties), "parties")?.unwrap_or(0);
    Ok(match count_out {
        None => Core::options(parties),
        Some(false) => Core::options(parties).when_one_dies(WhenOneDies::Break),
        Some(true) => Core::options(parties).when_one_dies(WhenOneDies::CountOut),
    })
}

impl Barrier {
    fn of((barrier, named): (Core, Named)) -> Barrier {
        Barrier { seats: Kept::nothing(), barrier: Arc::new(barrier), named }
    }

    fn arrive(&self, py: Python<'_>, seat: &mut OwnedSeat, until: Until) -> PyResult<bool> {
        // The arrival counts: the next slice goes on with it.
        let passed = wait(py, until, |deadline| seat.wait_until(deadline).transpose())?;
        match passed {
            Some(turn) => Ok(turn.raised(py)?.is_leader()),
            None => Err(WaitError::TimedOut.raise(py)),
        }
    }
}

#[pymethods]
impl Barrier {
    #[new]
    #[pyo3(signature = (name, parties, domain=None, *, count_out=None))]
    fn new(
        py: Python<'_>,
        name: String,
        parties: i64,
        domain: GivenDomain<'_, '_>,
        count_out: Option<bool>,
    ) -> PyResult<Barrier> {
        let options = options(parties, count_out)?;
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n)).map(Barrier::of)
    }

    /// Opens the existing barrier of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Barrier> {
        Named::find(py, name, domain, Core::open).map(Barrier::of)
    }

    /// Makes a new barrier of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, parties, domain=None, *, count_out=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        parties: i64,
        domain: GivenDomain<'_, '_>,
        count_out: Option<bool>,
    ) -> PyResult<Barrier> {
        let options = options(parties, count_out)?;
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(Barrier::of)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.named.domain()
    }

    /// Arrives, and waits until all participants have. Returns True for one of them, the leader of
    /// this phase, which may do what is done once. ``Timeout``: the arrival counts, and waiting again goes on with it.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        let until = Until::timeout(timeout)?;
        let thread = this_thread(&self.named.domain).raised(py)?;
        let mut seat = match self.seats.take(thread) {
            Some(seat) => seat,
            None => self.barrier.join_owned().raised(py)?,
        };
        let passed = self.arrive(py, &mut seat, until);
        self.seats.put(thread, seat);
        passed
    }

    /// Gives up this thread's seat.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        drop(self.seats.take(thread));
        Ok(())
    }

    /// Whether a death has broken the barrier.
    #[getter]
    fn broken(&self) -> bool {
        self.barrier.is_broken()
    }

    /// Returns the participants: process, and whether it has arrived in the present phase.
    fn participants(&self) -> PyResult<Vec<(u32, bool)>> {
        self.named.check()?;
        let known = self.barrier.participants().into_iter();
        Ok(known.map(|(holder, arrived)| (holder.pid, arrived)).collect())
    }

    /// Closes this object: using it raises ``ValueError``. If this thread has a seat by it, it gives
    /// that up.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.named.close();
        self.leave(py)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().named.check()?;
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

    /// Makes a broken barrier whole: the dead lose their seats.
    #[pyo3(signature = (timeout=None))]
    fn repair(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let done = wait(py, Until::timeout(timeout)?, |deadline| {
            match self.barrier.repair_until(deadline) {
                Err(WaitError::TimedOut) => None,
                other => Some(other),
            }
        })?;
        done.unwrap_or(Err(WaitError::TimedOut)).raised(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.participants().map(|known| match self.broken() {
            true => "broken".to_owned(),
            false => format!("{} joined", known.len()),
        });
        self.named.repr("Barrier", state)
    }
}
