//! `RwLock`: many readers or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlive::sync::{
    BegunReadUpgrade, BegunUpgradableUpgrade, LockError, OwnedReadGuard, OwnedUpgradableReadGuard,
    OwnedWriteGuard, RwLock as Core, UpgradeError,
};
use outlive::{Deadline, WaitError};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::{Raised, raise};
use crate::held::{Held, this_thread};
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::waiting::{Until, wait};

/// A lock between processes for many readers at once or one writer; it recovers when either dies.
///
/// A reader's death has no effect on others. After a writer's death, the next holder, reader or
/// writer, has the lock alone, as a writer, and ``owner_died`` is set; if it leaves without
/// ``mark_consistent``, the one after it is told again. An exception that ends a ``with`` block is
/// no death: the lock is released as usual, and the next holder is not told. It guards a number of
/// 64 bits, ``value``; in Rust it is an ``RwLock<u64>``.
///
/// >>> lock = RwLock("limits", folder)
/// >>> with lock.write() as held:
/// ...     held.value = 7
/// >>> with lock.read(timeout=1.0) as held:
/// ...     held.value, held.owner_died
/// (7, False)
/// >>> with lock.upgradable_read() as held:
/// ...     if held.value == 7:
/// ...         held.upgrade()
/// ...         held.value = 8
/// ...         held.downgrade()
/// ...     held.value
/// 8
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct RwLock {
    lock: Open<Core<u64>>,
    named: Named,
}

#[pymethods]
impl RwLock {
    #[new]
    #[pyo3(signature = (name, domain=None, *, value=0))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        value: u64,
    ) -> PyResult<RwLock> {
        Named::make(py, name, domain, |d, n| Core::options(value).open_or_create(d, n))
            .map(RwLock::of)
    }

    /// Opens the existing lock of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<RwLock> {
        Named::find(py, name, domain, Core::open).map(RwLock::of)
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
    ) -> PyResult<RwLock> {
        Named::make(py, name, domain, |d, n| Core::options(value).create_new(d, n)).map(RwLock::of)
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

    /// Takes the lock for reading, with ``with``. Raises ``Timeout`` when it was not free for so
    /// many seconds.
    #[pyo3(signature = (timeout=None))]
    fn read(&self, timeout: Option<f64>) -> PyResult<RwHold> {
        self.hold(How::Read, timeout)
    }

    /// Takes the lock for reading, with ``with``, and with the right to become the writer
    /// (``upgrade``), which is never refused. One thread at a time is such a reader; other readers
    /// enter beside it.
    #[pyo3(signature = (timeout=None))]
    fn upgradable_read(&self, timeout: Option<f64>) -> PyResult<RwHold> {
        self.hold(How::Upgradable, timeout)
    }

    /// Takes the lock for writing, with ``with``.
    #[pyo3(signature = (timeout=None))]
    fn write(&self, timeout: Option<f64>) -> PyResult<RwHold> {
        self.hold(How::Write, timeout)
    }

    /// Makes a lock usable again that was marked not recoverable, with this value.
    #[pyo3(signature = (value=0, timeout=None))]
    fn reset(&self, py: Python<'_>, value: u64, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let lock = self.lock.get()?;
        let done = wait(py, until, |deadline| match lock.write_to_reset_until(deadline) {
            Ok(guard) => guard.map(|mut guard| {
                *guard = value;
                guard.mark_consistent();
                Ok(())
            }),
            Err(error) => Some(Err(error)),
        })?;
        done.map_or_else(|| Err(WaitError::TimedOut).raised(py), |done| done.raised(py))
    }

    /// Closes this object: using it raises ``ValueError``. What ``read`` and ``write`` returned can
    /// be used to its end.
    fn close(&self) {
        self.lock.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().lock.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.lock.get().map(|lock| match lock.holders().len() {
            0 => "free".to_owned(),
            count => format!("{count} inside"),
        });
        self.named.repr("RwLock", state)
    }
}

impl RwLock {
    fn of((lock, named): (Core<u64>, Named)) -> RwLock {
        RwLock { lock: Open::new(lock), named }
    }

    fn hold(&self, how: How, timeout: Option<f64>) -> PyResult<RwHold> {
        // A wrong timeout is reported where it is given.
        Until::timeout(timeout)?;
        let (lock, of) = (self.lock.get()?, self.named.clone());
        Ok(RwHold {
            held: Held::nothing(),
            owner_died: AtomicBool::new(false),
            how,
            timeout,
            lock,
            of,
        })
    }
}

/// How a lock is to be taken.
#[derive(Clone, Copy)]
enum How {
    Read,
    Upgradable,
    Write,
}

enum Given {
    Read(OwnedReadGuard<u64>),
    Upgradable(OwnedUpgradableReadGuard<u64>),
    /// A reader that waits to become the writer, between two slices of that wait: new readers stay
    /// out.
    ReadUpgrading(BegunReadUpgrade<u64>),
    /// The same of the upgradable reader.
    UpgradableUpgrading(BegunUpgradableUpgrade<u64>),
    Write(OwnedWriteGuard<u64>),
}

impl Given {
    /// Ends a wait to become the writer.
    fn settled(self) -> Given {
        match self {
            Given::ReadUpgrading(begun) => Given::Read(begun.end()),
            Given::UpgradableUpgrading(begun) => Given::Upgradable(begun.end()),
            settled => settled,
        }
    }

    /// Upgrades at once; returns what is held then, and why it was refused.
    fn try_upgrade(self) -> (Given, Result<(), Refused>) {
        match self {
            Given::Read(guard) => upgraded(guard.try_upgrade(), Given::Read),
            Given::Upgradable(guard) => upgraded(guard.try_upgrade(), Given::Upgradable),
            Given::Write(guard) => (Given::Write(guard), Ok(())),
            // In a signal's handler, which interrupts such a wait.
            waiting => (waiting, Err(UpgradeError::InUse(()))),
        }
    }

    /// Waits until that deadline to become the writer; returns what is held then, and why it was
    /// refused. After `TimedOut` it goes on to wait.
    fn upgrade(self, deadline: Deadline) -> (Given, Result<(), Refused>) {
        match self {
            Given::Read(guard) => match guard.begin_upgrade() {
                Ok(begun) => upgraded(begun.upgrade_until(deadline), Given::ReadUpgrading),
                Err(refused) => upgraded(Err(refused), Given::Read),
            },
            Given::Upgradable(guard) => match guard.begin_upgrade() {
                Ok(begun) => upgraded(begun.upgrade_until(deadline), Given::UpgradableUpgrading),
                Err(refused) => upgraded(Err(refused), Given::Upgradable),
            },
            Given::ReadUpgrading(begun) => {
                upgraded(begun.upgrade_until(deadline), Given::ReadUpgrading)
            }
            Given::UpgradableUpgrading(begun) => {
                upgraded(begun.upgrade_until(deadline), Given::UpgradableUpgrading)
            }
            Given::Write(guard) => (Given::Write(guard), Ok(())),
        }
    }

    /// Becomes a reader; returns what is held then, and whether it has become one.
    fn downgrade(self, to_upgradable: bool) -> (Given, bool) {
        match self.settled() {
            Given::Write(guard) if to_upgradable => match guard.downgrade_to_upgradable() {
                Ok(guard) => (Given::Upgradable(guard), true),
                Err(guard) => (Given::Write(guard), false),
            },
            Given::Write(guard) => match guard.downgrade() {
                Ok(guard) => (Given::Read(guard), true),
                Err(guard) => (Given::Write(guard), false),
            },
            Given::Upgradable(guard) if !to_upgradable => match guard.downgrade() {
                Ok(guard) => (Given::Read(guard), true),
                Err(guard) => (Given::Upgradable(guard), false),
            },
            Given::Upgradable(guard) => (Given::Upgradable(guard), true),
            reading => (reading, !to_upgradable),
        }
    }
}

/// Why an upgrade was refused, without the guard.
type Refused = UpgradeError<()>;

fn upgraded<G>(
    got: Result<OwnedWriteGuard<u64>, UpgradeError<G>>,
    as_before: impl FnOnce(G) -> Given,
) -> (Given, Result<(), Refused>) {
    match got {
        Ok(guard) => (Given::Write(guard), Ok(())),
        Err(refused) => {
            let (guard, reason) = refused.split();
            (as_before(guard), Err(reason))
        }
    }
}

type Got = Result<Given, LockError<OwnedWriteGuard<u64>>>;

/// The lock inside a ``with`` block, made by ``RwLock.read`` and ``RwLock.write``. One thread at a
/// time may use it.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct RwHold {
    held: Held<Given>,
    owner_died: AtomicBool,
    how: How,
    timeout: Option<f64>,
    lock: Arc<Core<u64>>,
    of: Named,
}

impl RwHold {
    fn take(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.of.domain).raised(py)?;
        if !self.held.reserve(thread) {
            return Err(PyRuntimeError::new_err("this is in use: ask the lock for another one"));
        }
        let taken = self.take_reserved(py, thread);
        if taken.is_err() {
            self.held.take(thread);
        }
        taken
    }

    fn take_reserved(&self, py: Python<'_>, thread: u32) -> PyResult<()> {
        let lock = &self.lock;
        let first: Option<Got> = match self.how {
            How::Read => lock.try_read_owned().map(|guard| guard.map(Given::Read)).transpose(),
            How::Upgradable => lock
                .try_upgradable_read_owned()
                .map(|guard| guard.map(Given::Upgradable))
                .transpose(),
            How::Write => lock.try_write_owned().map(|guard| guard.map(Given::Write)).transpose(),
        };
        let got = match first {
            Some(got) => Some(got),
            None => wait(py, Until::timeout(self.timeout)?, |deadline| match self.how {
                How::Write => {
                    lock.write_owned_until(deadline).map(|got| got.map(Given::Write)).transpose()
                }
                How::Upgradable => lock
                    .upgradable_read_owned_until(deadline)
                    .map(|got| got.map(Given::Upgradable))
                    .transpose(),
                How::Read => {
                    lock.read_owned_until(deadline).map(|got| got.map(Given::Read)).transpose()
                }
            })?,
        };
        let (given, owner_died) = match got {
            None => return Err(WaitError::TimedOut).raised(py),
            Some(Ok(given)) => (given, false),
            Some(Err(LockError::OwnerDied(guard))) => (Given::Write(guard), true),
            Some(Err(other)) => return Err(other).raised(py),
        };
        self.owner_died.store(owner_died, Ordering::Relaxed);
        self.held.put(thread, given);
        Ok(())
    }

    /// Returns the calling thread's name; raises if it is not inside.
    fn inside(&self, py: Python<'_>) -> PyResult<u32> {
        self.with(py, |_| ())?;
        this_thread(&self.of.domain).raised(py)
    }

    /// Turns what the calling thread, of that name, has inside; `None` if it is not inside any more:
    /// a signal's handler may have left.
    fn turn<R>(&self, thread: u32, turn: impl FnOnce(Given) -> (Given, R)) -> Option<R> {
        self.held.turn(thread, turn)
    }

    fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Given) -> R) -> PyResult<R> {
        let thread = this_thread(&self.of.domain).raised(py)?;
        self.held.with(thread, with).ok_or_else(not_inside)
    }
}

fn not_inside() -> PyErr {
    PyRuntimeError::new_err("only inside its 'with' block")
}

#[pymethods]
impl RwHold {
    /// Whether a writer died holding the lock: then this holds it as a writer, however it was
    /// taken.
    #[getter]
    fn owner_died(&self) -> bool {
        self.owner_died.load(Ordering::Relaxed)
    }

    /// Declares that what the lock guards is whole again.
    fn mark_consistent(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |given| {
            if let Given::Write(guard) = given {
                guard.mark_consistent();
            }
        })?;
        self.owner_died.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Marks the lock not recoverable, because what it guards cannot be made whole, and releases
    /// it. Later readers and writers get ``NotRecoverable``, until a thread calls ``reset``. The
    /// end of the ``with`` block does not raise then.
    fn mark_not_recoverable(&self, py: Python<'_>) -> PyResult<()> {
        let thread = this_thread(&self.of.domain).raised(py)?;
        if !self.with(py, |given| matches!(given, Given::Write(_)))? {
            return Err(PyRuntimeError::new_err(
                "a reader may not mark a lock so: use lock.write()",
            ));
        }
        if let Some(Given::Write(guard)) = self.held.take(thread) {
            guard.mark_not_recoverable();
        }
        Ok(())
    }

    /// Becomes the writer once the other readers have left; no thread writes in between. Raises
    /// ``Timeout`` when they had not left after so many seconds: this reads on. Only a lock taken
    /// by ``upgradable_read`` is never refused; another reader gets ``Taken`` when a thread waits
    /// to write already. New readers wait meanwhile, also while a signal's handler runs.
    #[pyo3(signature = (timeout=None))]
    fn upgrade(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let until = Until::timeout(timeout)?;
        let thread = self.inside(py)?;
        let got = match self.turn(thread, Given::try_upgrade) {
            Some(Err(UpgradeError::InUse(()))) => {
                let got = wait(py, until, |deadline| {
                    match self.turn(thread, |given| given.upgrade(deadline)) {
                        Some(Err(UpgradeError::TimedOut(()))) => None,
                        got => Some(got),
                    }
                });
                // Also if a handler has raised. A writer, or one that has left, does not wait.
                self.turn(thread, |given| (given.settled(), ()));
                got?
            }
            got => Some(got),
        };
        match got {
            None => Err(WaitError::TimedOut).raised(py),
            Some(None) => Err(not_inside()),
            Some(Some(Ok(()))) => Ok(()),
            Some(Some(Err(UpgradeError::Failed((), error)))) => Err(error).raised(py),
            Some(Some(Err(refused))) => Err(raise(py, "Taken", refused)),
        }
    }

    /// Becomes a reader; no thread writes in between. With ``upgradable=True``, the writer becomes
    /// the upgradable reader.
    #[pyo3(signature = (*, upgradable=false))]
    fn downgrade(&self, py: Python<'_>, upgradable: bool) -> PyResult<()> {
        let thread = self.inside(py)?;
        if self.turn(thread, |given| given.downgrade(upgradable)).ok_or_else(not_inside)? {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "only a writer becomes upgradable, and only one of what is consistent a reader",
        ))
    }

    /// The number that the lock guards.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |given| match given {
            Given::Read(guard) => **guard,
            Given::Upgradable(guard) => **guard,
            Given::ReadUpgrading(begun) => **begun.guard(),
            Given::UpgradableUpgrading(begun) => **begun.guard(),
            Given::Write(guard) => **guard,
        })
    }

    #[setter]
    fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        let written = self.with(py, |given| match given {
            Given::Write(guard) => {
                **guard = value;
                true
            }
            _ => false,
        })?;
        if written {
            Ok(())
        } else {
            Err(PyRuntimeError::new_err("a reader may not write: use lock.write()"))
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().take(slf.py())?;
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
        let thread = this_thread(&self.of.domain).raised(py)?;
        drop(self.held.take(thread));
        self.owner_died.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn __repr__(&self) -> String {
        let how = match self.how {
            How::Read => "to read",
            How::Upgradable => "to read, upgradable",
            How::Write => "to write",
        };
        let state = if self.held.is_held() { "inside" } else { "not inside" };
        self.of.repr("RwHold", Ok(format!("{how}, {state}")))
    }
}
