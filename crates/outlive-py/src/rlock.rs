//! `RLock`: a lock that its thread may acquire several times, with `threading.RLock`'s methods.

use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::domain;
use crate::lock::{Lock, patience};
use crate::named::{GivenDomain, Reduced};
use crate::open::Left;
use crate::waiting::Until;

/// A ``Lock`` that the thread that holds it may acquire again, with ``threading.RLock``'s methods.
///
/// As often as it was acquired it must be released. How often that was is the thread's own
/// knowledge: in shared memory it is a ``Lock``, and a ``Lock`` of the same name is the same lock.
/// When a holder dies, however often it had acquired the lock, the next ``acquire`` succeeds all the
/// same, and ``owner_died`` is set: see ``Lock``.
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
pub(crate) struct RLock {
    lock: Lock,
    /// How often the thread that holds the lock has acquired it; only that thread reads and writes.
    depth: AtomicU32,
}

impl RLock {
    fn of(lock: Lock) -> RLock {
        RLock { lock, depth: AtomicU32::new(0) }
    }

    fn take(&self, py: Python<'_>, until: Option<Until>) -> PyResult<bool> {
        // Relaxed, here and below: a thread's own number.
        if self.lock.is_held_here(py)? {
            self.depth.fetch_add(1, Ordering::Relaxed);
            return Ok(true);
        }
        let got = self.lock.take(py, until)?;
        if got {
            self.depth.store(1, Ordering::Relaxed);
        }
        Ok(got)
    }
}

#[pymethods]
impl RLock {
    #[new]
    #[pyo3(signature = (name, domain=None))]
    fn new(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<RLock> {
        Lock::new(py, name, domain, 0).map(RLock::of)
    }

    /// Opens the existing lock of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<RLock> {
        Lock::open(py, name, domain).map(RLock::of)
    }

    /// Makes a new lock of that name; raises ``AlreadyExists`` if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None))]
    fn create_new(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<RLock> {
        Lock::create_new(py, name, domain, 0).map(RLock::of)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        self.lock.name()
    }

    /// The domain that it is in.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.lock.domain()
    }

    /// Acquires the lock, at once if this thread holds it; returns False when another thread holds it
    /// (``blocking=False``), or the timeout, in seconds, passed.
    #[pyo3(
        signature = (blocking=true, timeout=Some(-1.0)),
        text_signature = "($self, blocking=True, timeout=-1.0)"
    )]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.take(py, patience(blocking, timeout)?)
    }

    /// Undoes one ``acquire``; the last one releases the lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if !self.lock.is_held_here(py)? {
            return Err(PyRuntimeError::new_err(
                "cannot release a lock that this thread has not acquired",
            ));
        }
        if self.depth.load(Ordering::Relaxed) > 1 {
            self.depth.fetch_sub(1, Ordering::Relaxed);
            return Ok(());
        }
        self.lock.release(py)
    }

    /// Whether a living thread holds it.
    fn locked(&self) -> bool {
        self.lock.locked()
    }

    /// The process that holds it, dead or alive; None if none does.
    #[getter]
    fn holder_pid(&self) -> Option<u32> {
        self.lock.holder_pid()
    }

    /// Whether its last holder died, as the thread that holds it was told, and that thread has not
    /// called ``mark_consistent``.
    #[getter]
    fn owner_died(&self, py: Python<'_>) -> PyResult<bool> {
        self.lock.owner_died(py)
    }

    /// Declares that what the lock guards is whole again.
    fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.lock.mark_consistent(py)
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
        let _ = (exc_type, exc_value, traceback);
        if self.lock.is_closed() && !self.lock.is_held_here(py)? {
            // Closed in the block by this thread, which released the lock.
            return Ok(());
        }
        self.release(py)
    }

    /// Closes this object: using it raises ``ValueError``. If this thread holds the lock by it, the
    /// lock is released, however often it was acquired.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.lock.close(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().lock.reduce_as(slf.as_any())
    }

    fn __repr__(&self) -> String {
        self.lock.repr_as("RLock")
    }
}
