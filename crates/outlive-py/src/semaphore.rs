//! `Semaphore`: permits that come back when their holder dies.

use std::sync::Arc;

use outlive::sync::{AcquireError, OwnedPermit, OwnedPermits, Semaphore as Core, SemaphoreOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::held::{Kept, this_thread};
use crate::lock::patience;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::waiting::{Until, sleep_out, wait};

/// A semaphore between processes whose permits come back when their holder dies, with
/// ``threading.BoundedSemaphore``'s methods.
///
/// A permit belongs to the thread that acquired it, which releases it; a ``CountingSemaphore`` has
/// permits that any thread may release. Without ``value``, a new
/// semaphore has one permit, and an existing one what it has; an existing one that began with
/// another ``value`` raises ``BadOption``.
///
/// >>> slots = Semaphore("encoders", 2, folder)
/// >>> with slots:
/// ...     slots.available_permits
/// 1
/// >>> slots.acquire(), slots.acquire(timeout=1), slots.acquire(blocking=False)
/// (True, True, False)
/// >>> slots.release(2)
/// >>> slots.acquire(n=2)
/// True
/// >>> slots.release(2)
/// >>> slots.available_permits
/// 2
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Semaphore {
    permits: Kept<OwnedPermit>,
    semaphore: Arc<Core>,
    named: Named,
}

/// Without a number: as many as an existing one has; a new one has one.
fn options(value: Option<i64>) -> PyResult<SemaphoreOptions> {
    Ok(number(value, "value")?.map_or_else(SemaphoreOptions::default, Core::options))
}

/// Returns a number that is not negative; the core says which are too large.
pub(crate) fn number(value: Option<i64>, what: &str) -> PyResult<Option<u32>> {
    if value.is_some_and(|value| value < 0) {
        return Err(PyValueError::new_err(format!("{what} must not be negative")));
    }
    Ok(value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
}

/// Acquires so many permits, all or none.
pub(crate) fn several(
    py: Python<'_>,
    semaphore: &Arc<Core>,
    until: Option<Until>,
    count: usize,
) -> PyResult<Option<Result<OwnedPermits, AcquireError>>> {
    if count > semaphore.max_permits() {
        return Err(PyValueError::new_err(format!(
            "there are never {count} permits, but {} at most",
            semaphore.max_permits()
        )));
    }
    let one = |permit| OwnedPermits::from_iter([permit]);
    let tried = match count {
        1 => semaphore.try_acquire_owned().map(|got| got.map(one)),
        _ => semaphore.try_acquire_many_owned(count),
    };
    match (tried.transpose(), until) {
        (None, Some(until)) if count == 1 => wait(py, until, |deadline| {
            semaphore.acquire_owned_until(deadline).map(|got| got.map(one)).transpose()
        }),
        (None, Some(until)) => {
            // It keeps its turn and its permits between the slices, and gives them back when it is
            // dropped: also when a signal's handler raises.
            let mut begun = semaphore.begin_acquire_many(count).raised(py)?;
            wait(py, until, |deadline| begun.continue_acquire(deadline).transpose())
        }
        (got, _) => Ok(got),
    }
}

/// Returns a number of permits, one or more; the core says whether it is too large.
pub(crate) fn several_of(n: i64) -> PyResult<usize> {
    match usize::try_from(n) {
        Ok(n @ 1..) => Ok(n),
        _ => Err(PyValueError::new_err("n must be one or more")),
    }
}

impl Semaphore {
    fn of((semaphore, named): (Core, Named)) -> Semaphore {
        Semaphore { permits: Kept::nothing(), semaphore: Arc::new(semaphore), named }
    }

    fn take(&self, py: Python<'_>, until: Option<Until>, count: usize) -> PyResult<bool> {
        self.named.check()?;
        let thread = this_thread(&self.named.domain).raised(py)?;
        let got = several(py, &self.semaphore, until, count)?;
        let got = match (got, until) {
            (None, _) => return Ok(false),
            // As with threading: no other thread gives one back in time.
            (Some(Err(AcquireError::Deadlock)), Some(until)) if until.is_limited() => {
                return sleep_out(py, until);
            }
            (Some(got), _) => got,
        };
        got.raised(py)?.into_iter().for_each(|permit| self.permits.put(thread, permit));
        Ok(true)
    }

    fn give_back(&self, py: Python<'_>, count: usize) -> PyResult<()> {
        let thread = this_thread(&self.named.domain).raised(py)?;
        let mine = self.permits.count(thread);
        if mine < count {
            return Err(PyValueError::new_err(format!(
                "this thread has {mine} permits and cannot release {count}"
            )));
        }
        (0..count).for_each(|_| drop(self.permits.take(thread)));
        Ok(())
    }
}

#[pymethods]
impl Semaphore {
    #[new]
    #[pyo3(signature = (name, value=None, domain=None))]
    fn new(
        py: Python<'_>,
        name: String,
        value: Option<i64>,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<Semaphore> {
        let options = options(value)?;
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n)).map(Semaphore::of)
    }

    /// Opens the existing semaphore of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Semaphore> {
        Named::find(py, name, domain, Core::open).map(Semaphore::of)
    }

    /// Makes a new semaphore of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, value=None, domain=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        value: Option<i64>,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<Semaphore> {
        let options = options(value)?;
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(Semaphore::of)
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

    /// How many permits no thread holds now.
    #[getter]
    fn available_permits(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// Acquires so many permits, all or none; returns False when too few were free
    /// (``blocking=False``), or the timeout passed. Threads that want several have their turns one
    /// after the other, and keep what they have got while they wait for the rest; also while a
    /// signal's handler runs.
    #[pyo3(signature = (blocking=true, timeout=None, *, n=1))]
    fn acquire(
        &self,
        py: Python<'_>,
        blocking: bool,
        timeout: Option<f64>,
        n: i64,
    ) -> PyResult<bool> {
        self.take(py, patience(blocking, timeout)?, several_of(n)?)
    }

    /// Gives back so many of this thread's permits.
    #[pyo3(signature = (n=1))]
    fn release(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        self.give_back(py, several_of(n)?)
    }

    /// Closes this object: using it raises ``ValueError``. Permits that this thread got by it are
    /// given back.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.named.close();
        let thread = this_thread(&self.named.domain).raised(py)?;
        while let Some(permit) = self.permits.take(thread) {
            drop(permit);
        }
        Ok(())
    }

    fn __enter__(&self, py: Python<'_>) -> PyResult<bool> {
        self.take(py, Some(Until::NEVER), 1)
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
        if self.named.check().is_err() {
            // Closed in the block: by this thread, which gave its permits back and has none here, or
            // by another one.
            let thread = this_thread(&self.named.domain).raised(py)?;
            drop(self.permits.take(thread));
            return Ok(());
        }
        self.give_back(py, 1)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.named.check().map(|()| format!("{} free", self.available_permits()));
        self.named.repr("Semaphore", state)
    }
}
