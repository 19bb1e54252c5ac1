//! `CountingSemaphore`: permits that belong to no thread, for signals between threads.

use std::sync::Arc;

use outlive::sync::{AcquireError, Semaphore as Core, SemaphoreOptions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::lock::patience;
use crate::named::{GivenDomain, Named, Reduced, counted};
use crate::open::Left;
use crate::semaphore::{number, several, several_of};
use crate::waiting::Until;

/// A semaphore between processes whose permits belong to no thread, with ``threading.Semaphore``'s
/// methods: any thread may release, whichever acquired.
///
/// It counts what one thread makes and another uses up. A permit that was acquired is used up, so
/// the death of a process that acquired one and has not released it leaves one permit less; where
/// permits must come back, use ``Semaphore``. A process that is killed inside ``acquire`` has used a
/// permit up or not, and one that is killed inside ``release`` has added it or not: the count is
/// never wrong. With ``n`` permits, it has used up, or added, any number of them.
///
/// Without ``value``, a new semaphore has one permit. There are at most ``max_permits`` permits at a
/// time, 1024 unless a program chooses up to 65,536; all openers name the same number.
///
/// >>> parts = CountingSemaphore("parts", 0, folder)
/// >>> parts.acquire(timeout=0.01)
/// False
/// >>> threading.Thread(target=lambda: parts.release(2)).start()
/// >>> parts.acquire(n=2)
/// True
/// >>> parts.available_permits
/// 0
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct CountingSemaphore {
    semaphore: Arc<Core>,
    named: Named,
}

fn options(value: Option<i64>, max_permits: u32) -> PyResult<SemaphoreOptions> {
    let permits = number(value, "value")?;
    let options = permits.map_or_else(SemaphoreOptions::default, Core::options);
    Ok(options.max_permits(max_permits))
}

impl CountingSemaphore {
    fn of((semaphore, named): (Core, Named)) -> CountingSemaphore {
        CountingSemaphore { semaphore: Arc::new(semaphore), named }
    }

    fn take(&self, py: Python<'_>, until: Option<Until>, count: usize) -> PyResult<bool> {
        self.named.check()?;
        let Some(got) = several(py, &self.semaphore, until, count)? else { return Ok(false) };
        // Died just before: the permits were this thread's, and are free again.
        got.raised(py)?.consume();
        Ok(true)
    }

    fn add(&self, py: Python<'_>, count: u64) -> PyResult<()> {
        for added in 0..count {
            match self.semaphore.add_permit() {
                Err(AcquireError::Full) => {
                    return Err(PyValueError::new_err(format!(
                        "the semaphore has as many permits as it may have, {}; {added} of {count} \
                         were added",
                        self.semaphore.max_permits()
                    )));
                }
                other => other.raised(py)?,
            }
        }
        Ok(())
    }
}

#[pymethods]
impl CountingSemaphore {
    #[new]
    #[pyo3(signature = (name, value=None, domain=None, *, max_permits=1024))]
    fn new(
        py: Python<'_>,
        name: String,
        value: Option<i64>,
        domain: GivenDomain<'_, '_>,
        max_permits: u32,
    ) -> PyResult<CountingSemaphore> {
        let options = options(value, max_permits)?;
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n))
            .map(CountingSemaphore::of)
    }

    /// Opens the existing semaphore of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<CountingSemaphore> {
        Named::find(py, name, domain, Core::open).map(CountingSemaphore::of)
    }

    /// Makes a new semaphore of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, value=None, domain=None, *, max_permits=1024))]
    fn create_new(
        py: Python<'_>,
        name: String,
        value: Option<i64>,
        domain: GivenDomain<'_, '_>,
        max_permits: u32,
    ) -> PyResult<CountingSemaphore> {
        let options = options(value, max_permits)?;
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(CountingSemaphore::of)
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

    /// How many permits are there now.
    #[getter]
    fn available_permits(&self) -> usize {
        self.semaphore.available_permits()
    }

    /// Uses so many permits up, all or none; returns False when there were too few
    /// (``blocking=False``), or the timeout passed. A wait for several keeps what it has got, as that
    /// of ``Semaphore.acquire`` does.
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

    /// Adds so many permits, whether this thread has acquired any or not. Raises ``ValueError`` when
    /// there would be more than ``max_permits``.
    #[pyo3(signature = (n=1))]
    fn release(&self, py: Python<'_>, n: i64) -> PyResult<()> {
        match u32::try_from(n) {
            Ok(1..) => {
                self.named.check()?;
                self.add(py, n.unsigned_abs())
            }
            _ => Err(PyValueError::new_err("n must be one or more, and no more than there may be")),
        }
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
        // Also when it was closed in the block: the permit is the block's.
        self.add(py, 1)
    }

    /// Closes this object: using it raises ``ValueError``.
    fn close(&self) {
        self.named.close();
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let permits = || counted(self.semaphore.available_permits() as u64, "permit");
        self.named.repr("CountingSemaphore", self.named.check().map(|()| permits()))
    }
}
