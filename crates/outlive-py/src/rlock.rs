//! `RLock`: a lock that its thread may acquire several times, with `threading.RLock`'s methods.

use std::cell::Cell;

use outlive::sync::ReentrantMutex;
use pyo3::prelude::*;

use crate::domain;
use crate::levels::Inner;
use crate::lock::patience;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::waiting::Until;

/// A ``Lock`` that the thread that holds it may acquire again, with ``threading.RLock``'s methods.
///
/// As often as it was acquired it must be released, each time by the object that acquired it: the
/// thread may acquire it by several objects of that name. When a holder dies, however often it had
/// acquired the lock, the next ``acquire`` succeeds all the same, once is enough to release it, and
/// ``owner_died`` is set: see ``Lock``. ``Condition.wait`` releases it as a whole, and restores
/// that; it raises ``RuntimeError`` if the thread holds the lock by another object as well. In Rust
/// it is a ``ReentrantMutex<Cell<u64>>``.
///
/// >>> tree = RLock("tree", folder)
/// >>> with tree, tree:
/// ...     tree.acquire(), tree.locked()
/// (True, True)
/// >>> tree.locked()           # it was acquired three times and released twice
/// True
/// >>> tree.release()
/// >>> tree.locked()
/// False
#[pyclass(module = "outlive._outlive", frozen, weakref)]
pub(crate) struct RLock(pub(crate) Inner<ReentrantMutex<Cell<u64>>>);

#[pymethods]
impl RLock {
    #[new]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<RLock> {
        Named::make(py, name, domain, |d, n| {
            ReentrantMutex::options(Cell::new(value)).open_or_create(d, n)
        })
        .map(Inner::of)
        .map(RLock)
    }

    /// Opens the existing lock of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<RLock> {
        Named::find(py, name, domain, ReentrantMutex::open).map(Inner::of).map(RLock)
    }

    /// Makes a new lock of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<RLock> {
        Named::make(py, name, domain, |d, n| {
            ReentrantMutex::options(Cell::new(value)).create_new(d, n)
        })
        .map(Inner::of)
        .map(RLock)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.named.name
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.0.named.domain()
    }

    /// Acquires the lock, at once if this thread holds it; returns False when another thread holds
    /// it (``blocking=False``), or the timeout, in seconds, passed.
    #[pyo3(
        signature = (blocking=true, timeout=Some(-1.0)),
        text_signature = "($self, blocking=True, timeout=-1.0)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.0.take(py, patience(blocking, timeout)?)
    }

    /// Undoes one ``acquire``; the last one releases the lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.0.release(py)
    }

    /// Whether a living thread holds it.
    fn locked(&self) -> bool {
        self.0.locked()
    }

    /// The process that holds it, dead or alive; None if none does.
    #[getter]
    fn holder_pid(&self) -> Option<u32> {
        self.0.holder_pid()
    }

    /// Whether this thread holds it by this object, a holder died, and none has called
    /// ``mark_consistent`` since, by whichever object.
    #[getter]
    fn owner_died(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.owner_died(py)
    }

    /// Declares that what the lock guards is whole again. It has no effect if this thread has marked
    /// the lock not recoverable by another object.
    fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.0.mark_consistent(py)
    }

    /// Marks the lock not recoverable, because what it guards cannot be made whole, and releases
    /// it, however often it was acquired. Later calls of ``acquire`` raise ``NotRecoverable``, until a thread calls ``reset``. The
    /// end of a ``with`` block does not raise then.
    fn mark_not_recoverable(&self, py: Python<'_>) -> PyResult<()> {
        self.0.mark_not_recoverable(py)
    }

    /// Raises ``OwnerDied`` if a holder died without a repair since: for programs that cannot
    /// repair what it left. Leaving the ``with`` block by it leaves the repair to the next holder.
    fn check(&self, py: Python<'_>) -> PyResult<()> {
        self.0.check(py)
    }

    /// Makes a lock usable again that was marked not recoverable, with this value.
    #[pyo3(signature = (value=0, timeout=None))]
    fn reset(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<()> {
        self.0.reset(py, value, timeout)
    }

    /// The number that it guards; only the holder may use it.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        self.0.value(py)
    }

    #[setter]
    fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        self.0.set_value(py, value)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().0.take(slf.py(), Some(Until::NEVER))?;
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
        self.0.leave(py, exc_type)
    }

    /// Closes this object: using it raises ``ValueError``. If this thread holds the lock by it, the
    /// lock is released, however often it was acquired.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().0.reduce(slf)
    }

    fn __repr__(&self) -> String {
        self.0.repr("RLock")
    }
}
