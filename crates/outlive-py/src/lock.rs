//! `Lock`: a mutex with `threading.Lock`'s methods.

use outlive::sync::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::domain;
use crate::levels::Inner;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::waiting::Until;

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
pub(crate) struct Lock(pub(crate) Inner<Mutex<u64>>);

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<Lock> {
        Named::make(py, name, domain, |d, n| Mutex::options(value).open_or_create(d, n))
            .map(Inner::of)
            .map(Lock)
    }

    /// Opens the existing lock of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Lock> {
        Named::find(py, name, domain, Mutex::open).map(Inner::of).map(Lock)
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
    ) -> PyResult<Lock> {
        Named::make(py, name, domain, |d, n| Mutex::options(value).create_new(d, n))
            .map(Inner::of)
            .map(Lock)
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

    /// Acquires the lock; returns False when it is held (``blocking=False``), or the timeout, in
    /// seconds, passed.
    #[pyo3(
        signature = (blocking=true, timeout=Some(-1.0)),
        text_signature = "($self, blocking=True, timeout=-1.0)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.0.take(py, patience(blocking, timeout)?)
    }

    /// Releases the lock. If its last owner died and it was not marked consistent, the next
    /// ``acquire`` is told again.
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

    /// Whether its last holder died, as the thread that holds it was told, and that thread has not
    /// called ``mark_consistent``.
    #[getter]
    fn owner_died(&self, py: Python<'_>) -> PyResult<bool> {
        self.0.owner_died(py)
    }

    /// Declares that what the lock guards is whole again.
    fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.0.mark_consistent(py)
    }

    /// Marks the lock not recoverable, because what it guards cannot be made whole, and releases
    /// it. Later calls of ``acquire`` raise ``NotRecoverable``, until a thread calls ``reset``. The
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
    /// lock is released.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.close(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().0.reduce(slf)
    }

    fn __repr__(&self) -> String {
        self.0.repr("Lock")
    }
}
