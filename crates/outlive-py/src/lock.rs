//! `Lock`: a mutex with `threading.Lock`'s methods.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};

use outlive::WaitError;
use outlive::sync::{AcquireError, LockError, Mutex, OwnedMutexGuard};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::domain;
use crate::errors::{Raised, raise};
use crate::held::{Held, this_thread};
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::waiting::{Until, sleep_out, wait};

pub(crate) type Given = OwnedMutexGuard<u64>;

/// A lock between processes that recovers when its holder dies, with ``threading.Lock``'s methods.
///
/// It belongs to a thread, as ``threading.RLock`` does: only the thread that acquired it can
/// release it. A second ``acquire`` by the same thread raises ``Deadlock`` if it would wait for ever,
/// and returns False after its timeout. When a holder dies, the
/// next ``acquire`` succeeds all the same, and ``owner_died`` is set: check what the lock guards,
/// repair it, and call ``mark_consistent``; after a release without that call, the next ``acquire``
/// is told again. A program that cannot repair it calls ``check``, and leaves the lock to those
/// that can, or ``mark_not_recoverable``: then all others get ``NotRecoverable`` until a thread
/// calls ``reset``.
///
/// An exception that ends a ``with`` block is no death: the lock is released as usual, as with
/// ``threading.Lock``, and the next holder is not told. Repair half-made changes in an ``except``
/// inside the block.
///
/// The lock guards a number of 64 bits, ``value``, for you to use or not; in Rust it is a
/// ``Mutex<u64>``. Pickled, or inherited by ``fork``, it is the same lock, not held. An object that
/// is collected while its thread holds the lock releases it.
///
/// >>> lock = Lock("total", folder)
/// >>> with lock as held:
/// ...     if held.owner_died:         # a holder was killed in here; a number is always whole
/// ...         held.mark_consistent()
/// ...     held.value += 1
/// >>> lock.acquire(timeout=1.0)
/// True
/// >>> lock.locked(), lock.value
/// (True, 1)
/// >>> lock.release()
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct Lock {
    held: Held<Given>,
    owner_died: AtomicBool,
    /// The threads that marked the lock not recoverable inside a ``with`` block: the end of that
    /// block must not raise. There can be several, since another thread may reset the lock, acquire
    /// it and mark it so before the first thread's block ends. A thread takes its number out when
    /// its block ends or when it acquires the lock again; one that ends before leaves its number.
    marked_by: std::sync::Mutex<Vec<u32>>,
    mutex: Arc<Mutex<u64>>,
    named: Named,
}

/// Returns how long to try, from the arguments of `threading.Lock.acquire`; `None`: not at all.
pub(crate) fn patience(blocking: bool, timeout: Option<f64>) -> PyResult<Option<Until>> {
    match (blocking, timeout) {
        (true, None) => Ok(Some(Until::NEVER)),
        (true, Some(-1.0)) => Ok(Some(Until::NEVER)),
        (true, seconds) => Until::timeout(seconds).map(Some),
        (false, None | Some(-1.0)) => Ok(None),
        (false, Some(_)) => {
            Err(PyValueError::new_err("can't specify a timeout for a non-blocking call"))
        }
    }
}

impl Lock {
    fn of((mutex, named): (Mutex<u64>, Named)) -> Lock {
        let (owner_died, marked_by) = (AtomicBool::new(false), std::sync::Mutex::default());
        Lock { held: Held::nothing(), owner_died, marked_by, mutex: Arc::new(mutex), named }
    }

    pub(crate) fn take(&self, py: Python<'_>, until: Option<Until>) -> PyResult<bool> {
        self.named.check()?;
        match self.mutex.try_lock_owned() {
            Ok(None) => {}
            Err(LockError::Failed(AcquireError::Deadlock)) => match until {
                None => return Ok(false),
                // As with `threading.Lock`: no other thread releases it in time.
                Some(until) if until.is_limited() => return sleep_out(py, until),
                Some(_) => return Err(AcquireError::Deadlock).raised(py),
            },
            Ok(Some(guard)) => return self.settle(py, Ok(guard)),
            Err(error) => return self.settle(py, Err(error)),
        }
        let Some(until) = until else { return Ok(false) };
        let got = wait(py, until, |deadline| match self.mutex.lock_owned_until(deadline) {
            Ok(guard) => guard.map(Ok),
            Err(error) => Some(Err(error)),
        })?;
        match got {
            None => Ok(false),
            Some(got) => self.settle(py, got),
        }
    }

    pub(crate) fn settle(
        &self,
        py: Python<'_>,
        got: Result<Given, LockError<Given>>,
    ) -> PyResult<bool> {
        let (guard, owner_died) = match got {
            Ok(guard) => (guard, false),
            Err(LockError::OwnerDied(guard)) => (guard, true),
            Err(other) => return Err(other).raised(py),
        };
        let thread = this_thread(&self.named.domain).raised(py)?;
        self.owner_died.store(owner_died, Ordering::Relaxed);
        self.forget_marking(thread);
        self.held.put(thread, guard);
        Ok(true)
    }

    /// Takes the thread's number out of the list. Returns whether it was there: whether the thread
    /// marked the lock not recoverable, and has neither acquired it nor ended a block since.
    fn forget_marking(&self, thread: u32) -> bool {
        let mut marked_by = self.marked_by.lock().unwrap_or_else(PoisonError::into_inner);
        let at = marked_by.iter().position(|&one| one == thread);
        at.map(|at| marked_by.swap_remove(at)).is_some()
    }

    pub(crate) fn core_domain(&self) -> &outlive::Domain {
        &self.named.domain
    }

    /// Returns whether the calling thread holds the lock.
    pub(crate) fn is_held_here(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.held.is_of(this_thread(&self.named.domain).raised(py)?))
    }

    /// Returns the pickle of `thing`, which is this lock under another class.
    pub(crate) fn reduce_as<'py>(&self, thing: &Bound<'py, PyAny>) -> PyResult<Reduced<'py>> {
        self.named.reduce(thing, &[])
    }

    /// Returns how Python shows it, under the name of a class.
    pub(crate) fn repr_as(&self, class: &str) -> String {
        let state = match self.mutex.holder() {
            Some(holder) if holder.alive => format!("locked by process {}", holder.pid),
            Some(holder) => format!("process {} died holding it", holder.pid),
            None => "unlocked".to_owned(),
        };
        self.named.repr(class, self.named.check().map(|()| state))
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.named.check().is_err()
    }

    pub(crate) fn is_held_by(&self, thread: u32) -> bool {
        self.held.is_of(thread)
    }

    /// Takes the guard, for a wait that releases the lock and takes it again.
    pub(crate) fn take_guard(&self, thread: u32) -> Option<Given> {
        self.held.take(thread)
    }

    /// Takes the lock again after a wait that released it and did not get it back.
    #[cold]
    pub(crate) fn take_again(&self, py: Python<'_>, until: Until) -> PyResult<()> {
        if self.take(py, Some(until))? {
            return Ok(());
        }
        let who = self.mutex.holder().map_or_else(
            || "another thread".to_owned(),
            |holder| format!("process {}", holder.pid),
        );
        Err(raise(
            py,
            "Timeout",
            format!(
                "the wait is over, but {who} keeps the lock: this thread does not hold it any more"
            ),
        ))
    }

    /// Ends a `with` block. One that an exception ends may have lost the lock: in a wait that did
    /// not get it back.
    pub(crate) fn leave(&self, py: Python<'_>, exc_type: Left<'_, '_>) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        match self.held.take(thread) {
            Some(guard) => drop(guard),
            None if self.forget_marking(thread) => {}
            None if exc_type.is_some() => {}
            // Closed in the block.
            None if self.named.check().is_err() => {}
            None => return Err(not_held()),
        }
        Ok(())
    }

    fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Given) -> R) -> PyResult<R> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        self.held
            .with(thread, with)
            .ok_or_else(|| PyRuntimeError::new_err("this thread does not hold the lock"))
    }

    fn give_back(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        match self.held.take(thread) {
            Some(guard) => {
                drop(guard);
                Ok(())
            }
            None => Err(not_held()),
        }
    }
}

fn not_held() -> PyErr {
    PyRuntimeError::new_err("cannot release a lock that this thread has not acquired")
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    pub(crate) fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<Lock> {
        Named::make(py, name, domain, |d, n| Mutex::options(value).open_or_create(d, n))
            .map(Lock::of)
    }

    /// Opens the existing lock of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    pub(crate) fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<Lock> {
        Named::find(py, name, domain, Mutex::open).map(Lock::of)
    }

    /// Makes a new lock of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    pub(crate) fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<Lock> {
        Named::make(py, name, domain, |d, n| Mutex::options(value).create_new(d, n)).map(Lock::of)
    }

    /// Its name.
    #[getter]
    pub(crate) fn name(&self) -> &str {
        &self.named.name
    }

    /// The domain that it is in.
    #[getter]
    pub(crate) fn domain(&self) -> domain::Domain {
        self.named.domain()
    }

    /// Acquires the lock; returns False when it is held (``blocking=False``), or the timeout, in
    /// seconds, passed.
    #[pyo3(signature = (blocking=true, timeout=Some(-1.0)), text_signature = "($self, blocking=True, timeout=-1.0)")]
    pub(crate) fn acquire(
        &self,
        py: Python<'_>,
        blocking: bool,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        self.take(py, patience(blocking, timeout)?)
    }

    /// Releases the lock. If its last owner died and it was not marked consistent, the next
    /// ``acquire`` is told again.
    pub(crate) fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.give_back(py)
    }

    /// Whether a living thread holds it.
    pub(crate) fn locked(&self) -> bool {
        self.mutex.holder().is_some_and(|holder| holder.alive)
    }

    /// The process that holds it, dead or alive; None if none does.
    #[getter]
    pub(crate) fn holder_pid(&self) -> Option<u32> {
        self.mutex.holder().map(|holder| holder.pid)
    }

    /// Whether its last holder died, as the thread that holds it was told, and that thread has not
    /// called ``mark_consistent``.
    #[getter]
    pub(crate) fn owner_died(&self, py: Python<'_>) -> PyResult<bool> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        Ok(self.held.is_of(thread) && self.owner_died.load(Ordering::Relaxed))
    }

    /// Declares that what the lock guards is whole again.
    pub(crate) fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |guard| guard.mark_consistent())?;
        self.owner_died.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Marks the lock not recoverable, because what it guards cannot be made whole, and releases
    /// it. Later calls of ``acquire`` raise ``NotRecoverable``, until a thread calls ``reset``. The
    /// end of a ``with`` block does not raise then.
    fn mark_not_recoverable(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        self.held.take(thread).ok_or_else(not_held)?.mark_not_recoverable();
        // The number is not there yet: the thread's acquisition took it out.
        self.marked_by.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    /// Raises ``OwnerDied`` if a holder died without a repair since: for programs that cannot
    /// repair what it left. Leaving the ``with`` block by it leaves the repair to the next holder.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        if self.owner_died(py)? {
            return Err(raise(
                py,
                "OwnerDied",
                "the last owner died holding the lock; what it guards may be half-written",
            ));
        }
        Ok(())
    }

    /// Makes a lock usable again that was marked not recoverable, with this value.
    #[pyo3(signature = (value=0, timeout=None))]
    fn reset(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let done = wait(py, until, |deadline| match self.mutex.lock_to_reset_until(deadline) {
            Ok(guard) => guard.map(|mut guard| {
                *guard = value;
                guard.mark_consistent();
                Ok(())
            }),
            Err(error) => Some(Err(error)),
        })?;
        done.map_or_else(|| Err(WaitError::TimedOut).raised(py), |done| done.raised(py))
    }

    /// The number that it guards; only the holder may use it.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |guard| **guard)
    }

    #[setter]
    fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        self.with(py, |guard| **guard = value)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().take(slf.py(), Some(Until::NEVER))?;
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
        let _ = (exc_value, traceback);
        self.leave(py, exc_type)
    }

    /// Closes this object: using it raises ``ValueError``. If this thread holds the lock by it, the
    /// lock is released.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.named.close();
        let thread = this_thread(&self.named.domain).raised(py)?;
        drop(self.held.take(thread));
        Ok(())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        self.repr_as("Lock")
    }
}
