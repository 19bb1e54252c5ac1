//! `Latch`: opens once, for good.

use outlive::WaitError;
use outlive::sync::Latch as Core;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::waiting::{Until, wait};

/// A gate between processes that opens for good after so many ``arrivals``; an existing latch that
/// began with another number raises ``BadOption``.
///
/// An arrival counts, also when its process is killed afterwards. A missing arrival names no
/// process: if the one that ought to arrive dies before, waiters do not learn of it. So wait with a
/// timeout, or let a process that watches it (``Peer.wait_dead``) arrive in its place.
///
/// >>> ready = Latch("ready", 2, folder)
/// >>> ready.arrive(), ready.wait(timeout=0.01)
/// (1, False)
/// >>> other = threading.Thread(target=ready.arrive)
/// >>> other.start()
/// >>> ready.wait(timeout=10), ready.is_open(), ready.missing
/// (True, True, 0)
/// >>> other.join()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Latch {
    pub(crate) latch: Open<Core>,
    named: Named,
}

impl Latch {
    fn of((latch, named): (Core, Named)) -> Latch {
        Latch { latch: Open::new(latch), named }
    }
}

#[pymethods]
impl Latch {
    #[new]
    #[pyo3(signature = (name, arrivals, domain=None))]
    fn new(
        py: Python<'_>,
        name: String,
        arrivals: u32,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<Latch> {
        Named::make(py, name, domain, |d, n| Core::options(arrivals).open_or_create(d, n))
            .map(Latch::of)
    }

    /// Opens the existing latch of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Latch> {
        Named::find(py, name, domain, Core::open).map(Latch::of)
    }

    /// Makes a new latch of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, arrivals, domain=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        arrivals: u32,
        domain: GivenDomain<'_, '_>,
    ) -> PyResult<Latch> {
        Named::make(py, name, domain, |d, n| Core::options(arrivals).create_new(d, n))
            .map(Latch::of)
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

    /// Counts so many arrivals, and returns how many are missing now. The last one opens the latch.
    #[pyo3(signature = (n=1))]
    fn arrive(&self, n: u32) -> PyResult<u32> {
        Ok(self.latch.get()?.arrive(n))
    }

    /// Opens the latch, however many arrivals are missing.
    fn release(&self) -> PyResult<()> {
        self.latch.get()?.release();
        Ok(())
    }

    /// How many arrivals are missing.
    #[getter]
    fn missing(&self) -> PyResult<u32> {
        Ok(self.latch.get()?.missing())
    }

    /// Whether the latch is open.
    fn is_open(&self) -> PyResult<bool> {
        Ok(self.latch.get()?.is_open())
    }

    /// Waits until the latch is open; returns False when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = Until::timeout(timeout)?;
        let latch = self.latch.get()?;
        if latch.is_open() {
            return Ok(true);
        }
        let opened = wait(py, until, |deadline| match latch.wait_until(deadline) {
            Err(WaitError::TimedOut) => None,
            other => Some(other),
        })?;
        match opened {
            None => Ok(false),
            Some(opened) => opened.raised(py).map(|()| true),
        }
    }

    /// Closes this object: using it raises ``ValueError``. The latch stays as it is.
    fn close(&self) {
        self.latch.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().latch.get()?;
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
        let state = self.missing().map(|missing| match missing {
            0 => "open".to_owned(),
            missing => format!("{missing} missing"),
        });
        self.named.repr("Latch", state)
    }
}
