//! `Event`: `threading.Event`, and 31 bits of it.

use outlive::sync::{Event as Core, EventOptions, Reset};
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::Left;
use crate::waiting::{Until, wait};

/// An event between processes with ``threading.Event``'s methods, and 31 of them in one: ``bits``.
///
/// A bit that was set stays set, also when the process that set it is killed. All that wait when a
/// bit is set go on, also when it is cleared at once. With ``automatic``, each bit lets one waiter
/// through and is clear again.
///
/// >>> ready = Event("ready", folder)
/// >>> ready.wait(timeout=0.01)
/// False
/// >>> ready.set()
/// >>> ready.wait(), ready.is_set()
/// (True, True)
/// >>> ready.set(0b110)
/// >>> bin(ready.wait_bits(0b100))
/// '0b100'
/// >>> ready.clear()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Event {
    pub(crate) event: Core,
    named: Named,
}

fn options(automatic: Option<bool>) -> EventOptions {
    match automatic {
        None => Core::options(),
        Some(false) => Core::options().reset(Reset::Manual),
        Some(true) => Core::options().reset(Reset::Automatic),
    }
}

impl Event {
    fn of((event, named): (Core, Named)) -> Event {
        Event { event, named }
    }

    fn until(&self, py: Python<'_>, bits: u32, all: bool, timeout: Option<f64>) -> PyResult<u32> {
        let event = &self.event;
        // One wait, however many slices it has: a bit that comes and goes between two counts.
        let mut begun = event.begin_wait();
        let got = if all { event.try_wait_all(bits) } else { event.try_wait_any(bits) };
        if let Some(got) = got.raised(py)? {
            return Ok(got);
        }
        let got = wait(py, Until::timeout(timeout)?, |deadline| {
            event.continue_wait(&mut begun, bits, all, deadline).transpose()
        })?;
        got.unwrap_or(Ok(0)).raised(py)
    }
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (name, domain=None, *, automatic=None))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        automatic: Option<bool>,
    ) -> PyResult<Event> {
        Named::make(py, name, domain, |d, n| options(automatic).open_or_create(d, n)).map(Event::of)
    }

    /// Opens the existing event of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Event> {
        Named::find(py, name, domain, Core::open).map(Event::of)
    }

    /// Makes a new event of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, automatic=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        automatic: Option<bool>,
    ) -> PyResult<Event> {
        Named::make(py, name, domain, |d, n| options(automatic).create_new(d, n)).map(Event::of)
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

    /// The bits that are set.
    #[getter]
    fn bits(&self) -> u32 {
        self.event.bits()
    }

    /// Sets the event, or these bits of it (0 to 30), and wakes all waiters.
    #[pyo3(signature = (bits=1))]
    fn set(&self, bits: u32) -> PyResult<()> {
        self.named.check()?;
        if bits & !Core::ALL != 0 {
            return Err(pyo3::exceptions::PyValueError::new_err("an event has 31 bits, 0 to 30"));
        }
        self.event.set(bits);
        Ok(())
    }

    /// Clears the event, or these bits of it.
    #[pyo3(signature = (bits=0xffff_ffff))]
    fn clear(&self, bits: u32) -> PyResult<()> {
        self.named.check()?;
        self.event.clear(bits);
        Ok(())
    }

    /// Whether any bit is set.
    fn is_set(&self) -> bool {
        self.event.bits() != 0
    }

    /// Waits until any bit is set; returns False when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.named.check()?;
        Ok(self.until(py, u32::MAX, false, timeout)? != 0)
    }

    /// Waits until any of these bits is set, or all; returns those that are, or 0 when the timeout
    /// passed first.
    #[pyo3(signature = (bits, *, all=false, timeout=None))]
    fn wait_bits(
        &self,
        py: Python<'_>,
        bits: u32,
        all: bool,
        timeout: Option<f64>,
    ) -> PyResult<u32> {
        self.named.check()?;
        self.until(py, bits, all, timeout)
    }

    /// Closes this object: using it raises ``ValueError``. The event stays as it is.
    fn close(&self) {
        self.named.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().named.check()?;
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
        let state = self.named.check().map(|()| match self.bits() {
            0 => "not set".to_owned(),
            1 => "set".to_owned(),
            bits => format!("bits {bits:#b} set"),
        });
        self.named.repr("Event", state)
    }
}
