//! `Condition`: waiting for a change of what a lock guards.

use outlive::Error;
use outlive::sync::{BegunCondvarWait, Condvar};
use pyo3::Borrowed;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::levels::{Core, Inner, not_held_to};
use crate::lock::{Lock, patience as lock_patience};
use crate::named::Named;
use crate::open::Left;
use crate::rlock::RLock;
use crate::waiting::{Until, detached};

/// How many seconds longer a wait with a timeout waits for the lock, by default.
const RELOCK: f64 = 10.0;
/// How many notifications a condition variable notes one by one, while no waiter runs; of more, the
/// oldest end all waits.
const MOST_NOTED: usize = 24;

/// A condition variable between processes, of a ``Lock`` or an ``RLock``, with
/// ``threading.Condition``'s methods.
///
/// ``wait`` returns True only when a thread has notified since it began: ``notify`` ends one wait,
/// whatever the waiters are doing. (Of more than 24 notifications that come before any waiter has
/// run, a few may end more.) A notification survives the death of the waiter that got it: it goes to
/// the next one. A program whose notifier may die between a change and ``notify`` uses ``wait_for``,
/// which looks at the condition once a second besides, or a timeout.
///
/// ``wait`` releases an ``RLock`` as a whole, and has acquired it as often when it returns. It
/// raises ``RuntimeError`` if the thread has acquired it by another object of that name as well.
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
    lock: AnyLock,
    named: Named,
}

/// The lock of a condition variable.
#[derive(IntoPyObject)]
pub(crate) enum AnyLock {
    Lock(Py<Lock>),
    RLock(Py<RLock>),
}

impl<'py> FromPyObject<'_, 'py> for AnyLock {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<AnyLock> {
        if let Ok(lock) = given.cast::<Lock>() {
            return Ok(AnyLock::Lock(lock.to_owned().unbind()));
        }
        if let Ok(lock) = given.cast::<RLock>() {
            return Ok(AnyLock::RLock(lock.to_owned().unbind()));
        }
        let of = given.get_type().name()?;
        Err(PyTypeError::new_err(format!(
            "a Condition has a Lock or an RLock of outlive's, no '{of}'"
        )))
    }
}

/// Calls what both locks have.
macro_rules! of_either {
    ($lock:expr, $inner:ident => $call:expr) => {
        match &$lock {
            AnyLock::Lock(lock) => {
                let $inner = &lock.get().0;
                $call
            }
            AnyLock::RLock(lock) => {
                let $inner = &lock.get().0;
                $call
            }
        }
    };
}

impl AnyLock {
    fn clone_ref(&self, py: Python<'_>) -> AnyLock {
        match self {
            AnyLock::Lock(lock) => AnyLock::Lock(lock.clone_ref(py)),
            AnyLock::RLock(lock) => AnyLock::RLock(lock.clone_ref(py)),
        }
    }
}

impl Condition {
    fn of(
        py: Python<'_>,
        name: String,
        lock: AnyLock,
        open: impl FnOnce(&outlive::Domain, &str) -> Result<Condvar, Error>,
    ) -> PyResult<Condition> {
        let domain = of_either!(lock, inner => inner.named.domain.clone());
        let condvar = open(&domain, &name).raised(py)?;
        let named = Named::of(domain, name);
        Ok(Condition { condvar, lock, named })
    }

    /// Waits for one part of a wait that began there. The caller waits for another part if it is
    /// not over: nothing is lost in between.
    fn sleep(
        &self,
        py: Python<'_>,
        begun: &BegunCondvarWait<'_>,
        until: Until,
        relock: Option<f64>,
    ) -> PyResult<Slept> {
        let slept =
            of_either!(self.lock, inner => self.sleep_under(inner, py, begun, until, relock))?;
        // The lock is held, whatever a handler raises: the 'with' block releases it.
        if let Err(error) = py.check_signals() {
            if slept == Slept::Notified {
                // This wait does not return it: the next waiter has it.
                self.condvar.notify_one();
            }
            return Err(error);
        }
        Ok(slept)
    }

    fn sleep_under<L: Core>(
        &self,
        lock: &Inner<L>,
        py: Python<'_>,
        begun: &BegunCondvarWait<'_>,
        until: Until,
        relock: Option<f64>,
    ) -> PyResult<Slept> {
        let slept = lock.sleep(py, |guard| {
            // A signal ends the part at once; the slice is for one that comes just before it.
            detached(py, || L::wait(&self.condvar, guard, begun, until.long_slice_and_short()))
        })?;
        let notified = match slept {
            Ok(notified) => notified,
            // Another thread keeps it: by slices of the lock's own from here on.
            Err(more) => {
                lock.take_again(py, more, until.and_longer(relock)?)?;
                self.condvar.take_notification(begun) || lock.owner_died(py)?
            }
        };
        Ok(if notified { Slept::Notified } else { Slept::LookAgain })
    }

    /// Begins a wait, with the lock held.
    fn begin(&self, py: Python<'_>) -> PyResult<BegunCondvarWait<'_>> {
        self.check_held(py, "wait on")?;
        Ok(self.condvar.begin_wait())
    }

    fn check_held(&self, py: Python<'_>, verb: &str) -> PyResult<()> {
        let is_held =
            of_either!(self.lock, inner => inner.this_thread(py).map(|me| inner.is_held_by(me)))?;
        if is_held { Ok(()) } else { Err(not_held_to(verb)) }
    }
}

/// How a part of a wait ended.
#[derive(PartialEq)]
enum Slept {
    /// By a notification, or by the death of a holder, of which the lock tells.
    Notified,
    /// By a signal, or because it is time to look again.
    LookAgain,
}

/// What unpickles it: `Condition.open`, its name and its lock.
type Reduced<'py> = (Bound<'py, PyAny>, (String, AnyLock));

/// Returns how many seconds the relock may take; `None` is for ever.
fn patience(timeout: Option<f64>, relock: Option<f64>) -> PyResult<Option<f64>> {
    // A wrong value is reported before any wait.
    Until::timeout(relock)?;
    Ok(relock.or(timeout.map(|_| RELOCK)))
}

#[pymethods]
impl Condition {
    #[new]
    fn new(py: Python<'_>, name: String, lock: AnyLock) -> PyResult<Condition> {
        Condition::of(py, name, lock, Condvar::open_or_create)
    }

    /// Opens the existing condition variable of that name, in the lock's domain; raises
    /// ``NotFound`` if there is none.
    #[staticmethod]
    fn open(py: Python<'_>, name: String, lock: AnyLock) -> PyResult<Condition> {
        Condition::of(py, name, lock, Condvar::open)
    }

    /// Makes a new condition variable of that name, in the lock's domain; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    fn create_new(py: Python<'_>, name: String, lock: AnyLock) -> PyResult<Condition> {
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
    fn lock(&self, py: Python<'_>) -> AnyLock {
        self.lock.clone_ref(py)
    }

    /// Acquires its lock, as ``Lock.acquire``.
    #[pyo3(signature = (blocking=true, timeout=Some(-1.0)), text_signature = "($self, blocking=True, timeout=-1.0)")]
    fn acquire(&self, py: Python<'_>, blocking: bool, timeout: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        let until = lock_patience(blocking, timeout)?;
        of_either!(self.lock, inner => inner.take(py, until))
    }

    /// Releases its lock.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        of_either!(self.lock, inner => inner.release(py))
    }

    /// Releases the lock, waits for a notification, and takes the lock again; returns False when
    /// the timeout passed. Raises ``Timeout``, without the lock, when the lock is not free for
    /// ``relock`` seconds longer: 10 by default, and for ever (``math.inf``) in a wait without a
    /// timeout.
    #[pyo3(signature = (timeout=None, *, relock=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>, relock: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        let (until, relock) = (Until::timeout(timeout)?, patience(timeout, relock)?);
        let begun = self.begin(py)?;
        loop {
            if self.sleep(py, &begun, until, relock)? == Slept::Notified {
                return Ok(true);
            }
            if until.has_passed() {
                return Ok(false);
            }
        }
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
            let begun = self.begin(py)?;
            self.sleep(py, &begun, until, relock)?;
        }
    }

    /// Wakes one waiter, or so many; all, if more than 24 are to be woken at once. The caller holds
    /// the lock.
    #[pyo3(signature = (n=1))]
    fn notify(&self, py: Python<'_>, n: usize) -> PyResult<()> {
        self.check_held(py, "notify by")?;
        if n > MOST_NOTED {
            self.condvar.notify_all();
        } else {
            (0..n).for_each(|_| self.condvar.notify_one());
        }
        Ok(())
    }

    /// Wakes all waiters. The caller holds the lock.
    fn notify_all(&self, py: Python<'_>) -> PyResult<()> {
        self.check_held(py, "notify by")?;
        self.condvar.notify_all();
        Ok(())
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
        of_either!(self.lock, inner => inner.leave(py, exc_type))
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
        let lock = match &self.lock {
            AnyLock::Lock(lock) => lock.get().0.repr("Lock"),
            AnyLock::RLock(lock) => lock.get().0.repr("RLock"),
        };
        let state = self.named.check().map(|()| format!("of {lock}"));
        self.named.repr("Condition", state)
    }
}
