//! `Barrier`: a barrier that knows its participants.

use std::sync::Arc;

use outlive::WaitError;
use outlive::sync::{Barrier as Core, BarrierOptions, BarrierWaitResult, OwnedSeat, WhenOneDies};
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
/// ``repair`` or ``reset``, or, with ``count_out``, the others go on without it. Without
/// ``count_out``, a new barrier breaks, and an existing one does what its maker chose.
///
/// ``action`` and ``timeout`` are this object's own. ``timeout`` is what ``wait`` takes if it gets
/// none. ``action()`` is called by one participant each time, after all have arrived and before any
/// goes on; if it raises, the barrier breaks. Each process that waits gives the barrier an action,
/// or none does: with one, a wait takes two phases.
///
/// >>> step = Barrier("step", 2, folder)
/// >>> other = threading.Thread(target=lambda: (step.wait(timeout=10), step.leave()))
/// >>> other.start()
/// >>> step.wait(timeout=10) in (0, 1)             # 0 for the thread that came first
/// True
/// >>> other.join()
/// >>> step.leave()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Barrier {
    seats: Kept<Place>,
    barrier: Arc<Core>,
    named: Named,
    own: Own,
}

/// A thread's seat, and how far its wait has come.
struct Place {
    seat: OwnedSeat,
    /// With an action: it has passed the first of the two phases. A wait whose time ran out in the
    /// second one goes on there, or this thread would be one phase behind the others for good.
    has_acted: bool,
}

/// What is not in shared memory: each process has its own.
struct Own {
    action: Option<Py<PyAny>>,
    timeout: Option<f64>,
}

impl Own {
    fn of(action: Option<Py<PyAny>>, timeout: Option<f64>) -> PyResult<Own> {
        // Refused here, and not by the first wait.
        Until::timeout(timeout)?;
        Ok(Own { action, timeout })
    }
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
    fn of((barrier, named): (Core, Named), own: Own) -> Barrier {
        Barrier { seats: Kept::nothing(), barrier: Arc::new(barrier), named, own }
    }

    /// Arrives, and waits until `until`, which then breaks the barrier if `abort` says so.
    fn arrive(
        &self,
        py: Python<'_>,
        place: &mut Place,
        until: Until,
        abort: bool,
    ) -> PyResult<BarrierWaitResult> {
        // The arrival counts: the next slice goes on with it, or the next wait.
        let passed = wait(py, until, |deadline| place.seat.wait_until(deadline).transpose())?;
        let turn = match passed {
            Some(turn) => turn,
            None if abort => place.seat.abort(),
            None => return Err(WaitError::TimedOut.raise(py)),
        };
        // It has passed, or the barrier is broken and all begin anew.
        place.has_acted = false;
        turn.raised(py)
    }

    fn mend(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        mut once: impl FnMut(outlive::Deadline) -> Result<(), WaitError>,
    ) -> PyResult<()> {
        let done = wait(py, Until::timeout(timeout)?, |deadline| match once(deadline) {
            Err(WaitError::TimedOut) => None,
            other => Some(other),
        })?;
        done.unwrap_or(Err(WaitError::TimedOut)).raised(py)
    }

    /// Arrives likewise. With an action, in two phases: the leader of the first one acts, and all
    /// wait in the second until it has. A leader that dies in the action is absent in the second,
    /// and dead.
    fn arrive_and_act(
        &self,
        py: Python<'_>,
        place: &mut Place,
        until: Until,
        abort: bool,
    ) -> PyResult<BarrierWaitResult> {
        if !place.has_acted {
            let turn = self.arrive(py, place, until, abort)?;
            let Some(action) = &self.own.action else { return Ok(turn) };
            if turn.is_leader()
                && let Err(error) = action.call0(py)
            {
                self.barrier.abort();
                return Err(error);
            }
            place.has_acted = true;
        }
        self.arrive(py, place, until, abort)
    }
}

#[pymethods]
impl Barrier {
    #[new]
    #[pyo3(signature = (name, parties, domain=None, *, count_out=None, action=None, timeout=None))]
    fn new(
        py: Python<'_>,
        name: String,
        parties: i64,
        domain: GivenDomain<'_, '_>,
        count_out: Option<bool>,
        action: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Barrier> {
        let (options, own) = (options(parties, count_out)?, Own::of(action, timeout)?);
        let made = Named::make(py, name, domain, |d, n| options.open_or_create(d, n))?;
        Ok(Barrier::of(made, own))
    }

    /// Opens the existing barrier of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, action=None, timeout=None))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        action: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Barrier> {
        let own = Own::of(action, timeout)?;
        Ok(Barrier::of(Named::find(py, name, domain, Core::open)?, own))
    }

    /// Makes a new barrier of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, parties, domain=None, *, count_out=None, action=None, timeout=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        parties: i64,
        domain: GivenDomain<'_, '_>,
        count_out: Option<bool>,
        action: Option<Py<PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Barrier> {
        let (options, own) = (options(parties, count_out)?, Own::of(action, timeout)?);
        let made = Named::make(py, name, domain, |d, n| options.create_new(d, n))?;
        Ok(Barrier::of(made, own))
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

    /// Arrives, and waits until all participants have. Returns this thread's index, from 0 to
    /// ``parties`` - 1, which no other participant has: the number of its seat, the same each time.
    ///
    /// If the time runs out first, this breaks the barrier for all, as ``threading.Barrier`` does,
    /// and raises ``BarrierBroken``. With ``abort=False`` it raises ``Timeout`` and breaks nothing:
    /// the arrival counts, and waiting again goes on with it.
    #[pyo3(signature = (timeout=None, *, abort=true))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>, abort: bool) -> PyResult<usize> {
        self.named.check()?;
        let until = Until::timeout(timeout.or(self.own.timeout))?;
        let thread = this_thread(&self.named.domain).raised(py)?;
        let mut place = match self.seats.take(thread) {
            Some(place) => place,
            None => Place { seat: self.barrier.join_owned().raised(py)?, has_acted: false },
        };
        let passed = self.arrive_and_act(py, &mut place, until, abort);
        self.seats.put(thread, place);
        passed.map(BarrierWaitResult::index)
    }

    /// Breaks the barrier: all waits end at once with ``BarrierBroken``, and so do later ones,
    /// until a process calls ``reset`` or ``repair``.
    fn abort(&self) -> PyResult<()> {
        self.named.check()?;
        self.barrier.abort();
        Ok(())
    }

    /// Makes the barrier empty and whole again: participants that wait get ``BarrierBroken``, dead
    /// ones lose their seats. ``timeout`` limits the wait for another process that is doing so.
    #[pyo3(signature = (timeout=None))]
    fn reset(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        self.named.check()?;
        self.mend(py, timeout, |deadline| self.barrier.reset_until(deadline))
    }

    /// Gives up this thread's seat.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        drop(self.seats.take(thread));
        Ok(())
    }

    /// Whether the barrier is broken, by a death, an abort or a timeout.
    #[getter]
    fn broken(&self) -> bool {
        self.barrier.is_broken()
    }

    /// How many participants it has seats for.
    #[getter]
    fn parties(&self) -> usize {
        self.barrier.parties()
    }

    /// How many participants have arrived and wait for the others; 0 when it is broken.
    #[getter]
    fn n_waiting(&self) -> usize {
        self.barrier.arrived()
    }

    /// Returns the participants: process, and whether it has arrived in the present phase.
    fn participants(&self) -> PyResult<Vec<(u32, bool)>> {
        self.named.check()?;
        let known = self.barrier.participants().into_iter();
        Ok(known.map(|(holder, arrived)| (holder.pid, arrived)).collect())
    }

    /// Closes this object: using it raises ``ValueError``. If this thread has a seat by it, it
    /// gives that up.
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
        self.mend(py, timeout, |deadline| self.barrier.repair_until(deadline))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let this = slf.get();
        let reduced = this.named.reduce(slf, &[])?;
        let options = &reduced.1.3;
        if let Some(action) = &this.own.action {
            options.set_item("action", action)?;
        }
        if let Some(timeout) = this.own.timeout {
            options.set_item("timeout", timeout)?;
        }
        Ok(reduced)
    }

    fn __repr__(&self) -> String {
        let state = self.participants().map(|known| match self.broken() {
            true => "broken".to_owned(),
            false => format!("{} joined, {} waiting", known.len(), self.n_waiting()),
        });
        self.named.repr("Barrier", state)
    }
}
