//! `RwLock`: many readers or one writer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use outlive::WaitError;
use outlive::sync::{LockError, OwnedReadGuard, OwnedWriteGuard, RwLock as Core};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
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
        self.hold(false, timeout)
    }

    /// Takes the lock for writing, with ``with``.
    #[pyo3(signature = (timeout=None))]
    fn write(&self, timeout: Option<f64>) -> PyResult<RwHold> {
        self.hold(true, timeout)
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

    fn hold(&self, to_write: bool, timeout: Option<f64>) -> PyResult<RwHold> {
        // A wrong timeout is reported where it is given.
        Until::timeout(timeout)?;
        let (lock, of) = (self.lock.get()?, self.named.clone());
        Ok(RwHold {
            held: Held::nothing(),
            owner_died: AtomicBool::new(false),
            to_write,
            timeout,
            lock,
            of,
        })
    }
}

enum Given {
    Read(OwnedReadGuard<u64>),
    Write(OwnedWriteGuard<u64>),
}

type Got = Result<Given, LockError<OwnedWriteGuard<u64>>>;

/// The lock inside a ``with`` block, made by ``RwLock.read`` and ``RwLock.write``. One thread at a
/// time may use it.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct RwHold {
    held: Held<Given>,
    owner_died: AtomicBool,
    to_write: bool,
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
        let first: Option<Got> = if self.to_write {
            lock.try_write_owned().map(|guard| guard.map(Given::Write)).transpose()
        } else {
            lock.try_read_owned().map(|guard| guard.map(Given::Read)).transpose()
        };
        let got = match first {
            Some(got) => Some(got),
            None => wait(py, Until::timeout(self.timeout)?, |deadline| match self.to_write {
                true => {
                    lock.write_owned_until(deadline).map(|got| got.map(Given::Write)).transpose()
                }
                false => {
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

    fn with<R>(&self, py: Python<'_>, with: impl FnOnce(&mut Given) -> R) -> PyResult<R> {
        let thread = this_thread(&self.of.domain).raised(py)?;
        self.held
            .with(thread, with)
            .ok_or_else(|| PyRuntimeError::new_err("only inside its 'with' block"))
    }
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

    /// The number that the lock guards.
    #[getter]
    fn value(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |given| match given {
            Given::Read(guard) => **guard,
            Given::Write(guard) => **guard,
        })
    }

    #[setter]
    fn set_value(&self, py: Python<'_>, value: u64) -> PyResult<()> {
        let written = self.with(py, |given| match given {
            Given::Read(_) => false,
            Given::Write(guard) => {
                **guard = value;
                true
            }
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
        let how = if self.to_write { "to write" } else { "to read" };
        let state = if self.held.is_held() { "inside" } else { "not inside" };
        self.of.repr("RwHold", Ok(format!("{how}, {state}")))
    }
}
