//! `Condition`: waiting for a change of what a lock guards.

use outlive::Error;
use outlive::sync::{Condvar, LockError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::held::this_thread;
use crate::lock::Lock;
use crate::named::Named;
use crate::open::Left;
use crate::waiting::{Until, detached};

/// How many seconds longer a wait with a timeout waits for the lock, by default.
const RELOCK: f64 = 10.0;

/// A condition variable between processes, of a ``Lock``, with ``threading.Condition``'s methods.
///
/// ``wait`` may return without a notification, at the latest when it looks for signals: check the
/// condition in a loop, or use ``wait_for``. A notification survives the death of the waiter that
/// got it: it goes to the next one.
///
/// To return, ``wait`` takes the lock again. A holder that dies does not keep it from that. One
/// that is alive and does not release it (stopped, say) does, for ``relock`` seconds longer: 10
/// where there is a timeout, for ever where there is none. Then it raises ``Timeout`` (a timeout
/// that passes otherwise is no exception but False), the lock is not held, and the end of the
/// ``with`` block knows. The same happens when a signal's handler raises in that part of the wait;
/// ``threading.Condition`` waits for ever there.
///
/// >>> lock = Lock("stock", folder)
/// >>> delivered = Condition("delivered", lock)
/// >>> def deliver():
/// ...     with delivered:
/// ...         lock.value = 3
/// ...         delivered.notify_all()
/// >>> supplier = threading.Thread(target=deliver)
/// >>> with delivered:
/// ...     supplier.start()
/// ...     delivered.wait_for(lambda: lock.value == 3, timeout=10)
/// True
/// >>> supplier.join()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Condition {
    condvar: Condvar,
    lock: Py<Lock>,
    named: Named,
}

impl Condition {
    fn of(
        py: Python<'_>,
        name: String,
        lock: Py<Lock>,
        open: impl FnOnce(&outlive::Domain, &str) -> Result<Condvar, Error>,
    ) -> PyResult<Condition> {
        let domain = lock.get().core_domain();
        let condvar = open(domain, &name).raised(py)?;
        let named = Named::of(domain.clone(), name);
        Ok(Condition { condvar, lock, named })
    }

    /// Waits for one slice: the caller checks what changed between two slices.
    fn sleep(&self, py: Python<'_>, until: Until, relock: Option<f64>) -> PyResult<bool> {
        let lock = self.lock.get();
        let thread = this_thread(lock.core_domain()).raised(py)?;
        let guard = lock.take_guard(thread);
        let guard = guard.ok_or_else(|| {
            PyRuntimeError::new_err("cannot wait on a lock that this thread does not hold")
        })?;
        let ended = detached(py, || {
            let (slice, next) = until.two_slices();
            self.condvar.wait_and_relock_until(guard, slice, next)
        });
        match ended {
            Ok(Some((guard, _))) => lock.settle(py, Ok(guard)).map(|_| ())?,
            Err(error @ LockError::OwnerDied(_)) => lock.settle(py, Err(error)).map(|_| ())?,
            // Another thread keeps it: by slices of the lock's own from here on.
            Ok(None) => lock.take_again(py, Until::timeout(relock)?)?,
            Err(other) => return Err(other).raised(py),
        }
        // The lock is held, whatever a handler raises: the 'with' block releases it.
        py.check_signals()?;
        Ok(!until.has_passed())
    }
}

/// What unpickles it: `Condition.open`, its name and its lock.
type Reduced<'py> = (Bound<'py, PyAny>, (String, Py<Lock>));

/// Returns how many seconds the relock may take; `None` is for ever.
fn patience(timeout: Option<f64>, relock: Option<f64>) -> PyResult<Option<f64>> {
    // A wrong value is reported before any wait.
    Until::timeout(relock)?;
    Ok(relock.or(timeout.map(|_| RELOCK)))
}

#[pymethods]
impl Condition {
    #[new]
    fn new(py: Python<'_>, name: String, lock: Py<Lock>) -> PyResult<Condition> {
        Condition::of(py, name, lock, Condvar::open_or_create)
    }

    /// Opens the existing condition variable of that name, in the lock's domain; raises
    /// ``NotFound`` if there is none.
    #[staticmethod]
    fn open(py: Python<'_>, name: String, lock: Py<Lock>) -> PyResult<Condition> {
        Condition::of(py, name, lock, Condvar::open)
    }

    /// Makes a new condition variable of that name, in the lock's domain; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    fn create_new(py: Python<'_>, name: String, lock: Py<Lock>) -> PyResult<Condition> {
        Condition::of(py, name, lock, |d, n| Condvar::options().create_new(d, n))
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// The domain that it is in: its lock's.
    #[getter]
    fn domain(&self) -> domain::Domain {
        self.named.domain()
    }

    /// Its lock.
    #[getter]
    fn lock(&self, py: Python<'_>) -> Py<Lock> {
        self.lock.clone_ref(py)
    }

    /// Acquires its lock, as ``Lock.acquire``.
    #[pyo3(signature = (blocking=true, timeout=Some(-1.0)), text_signature = "($self, blocking=True, timeout=-1.0)")]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        self.lock.get().acquire(py, blocking, timeout)
    }

    /// Releases its lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        self.lock.get().release(py)
    }

    /// Releases the lock, waits for a notification, and takes the lock again; returns False when
    /// the timeout passed. Raises ``Timeout``, without the lock, when the lock is not free for
    /// ``relock`` seconds longer: 10 by default, and for ever (``math.inf``) in a wait without a
    /// timeout.
    #[pyo3(signature = (timeout=None, *, relock=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>, relock: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        self.sleep(py, Until::timeout(timeout)?, patience(timeout, relock)?)
    }

    /// Waits until ``predicate()``, called under the lock, is true; returns its last result. Raises
    /// ``Timeout``, without the lock, as ``wait``.
    #[pyo3(signature = (predicate, timeout=None, *, relock=None))]
    fn wait_for<'py>(
        &self,
        py: Python<'py>,
        predicate: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        relock: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.named.check()?;
        let (until, relock) = (Until::timeout(timeout)?, patience(timeout, relock)?);
        loop {
            let said = predicate.call0()?;
            if said.is_truthy()? || until.has_passed() {
                return Ok(said);
            }
            self.sleep(py, until, relock)?;
        }
    }

    /// Wakes one waiter, or so many. The caller should hold the lock.
    #[pyo3(signature = (n=1))]
    fn notify(&self, n: usize) {
        for _ in 0..n {
            self.condvar.notify_one();
        }
    }

    /// Wakes all waiters.
    fn notify_all(&self) {
        self.condvar.notify_all();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().acquire(slf.py(), true, None)?;
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
        self.lock.get().leave(py, exc_type)
    }

    /// Closes this object: using it raises ``ValueError``. Its lock stays open, and held if it is.
    fn close(&self) {
        self.named.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let open = slf.get_type().getattr("open")?;
        Ok((open, (slf.get().named.name.clone(), slf.get().lock.clone_ref(slf.py()))))
    }

    fn __repr__(&self) -> String {
        let state = self.named.check().map(|()| format!("of {}", self.lock.get().__repr__()));
        self.named.repr("Condition", state)
    }
}
