//! `Event`: `threading.Event`, and 31 bits of it.

use std::sync::Arc;

use outlive::Error;
use outlive::sync::{Event as Core, Reset};
use pyo3::prelude::*;

use crate::domain;
use crate::errors::{Raise, Raised, raise};
use crate::waiting::{Until, wait};

/// An event between processes with ``threading.Event``'s methods, and 31 of them in one: ``bits``.
///
/// A bit that was set stays set, also when the process that set it is killed. With ``automatic``,
/// each bit lets one waiter through and is clear again.
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
#[pyclass(module = "outlive", frozen)]
pub(crate) struct Event {
    pub(crate) event: Arc<Core>,
    pub(crate) domain: outlive::Domain,
    name: String,
    automatic: bool,
}

impl Event {
    fn until(&self, py: Python<'_>, bits: u32, all: bool, timeout: Option<f64>) -> PyResult<u32> {
        let event = &self.event;
        let got = if all { event.try_wait_all(bits) } else { event.try_wait_any(bits) };
        if let Some(got) = got.raised(py)? {
            return Ok(got);
        }
        let got = wait(py, Until::timeout(timeout)?, |deadline| {
            let got = if all {
                event.wait_all_until(bits, deadline)
            } else {
                event.wait_any_until(bits, deadline)
            };
            got.transpose()
        })?;
        got.unwrap_or(Ok(0)).raised(py)
    }
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (name, domain=None, *, automatic=false))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: Option<&Bound<'_, PyAny>>,
        automatic: bool,
    ) -> PyResult<Event> {
        let domain = domain::of(py, domain)?;
        let reset = if automatic { Reset::Automatic } else { Reset::Manual };
        let opened = Core::options().reset(reset).open_or_create(&domain, &name);
        let event = Arc::new(opened.map_err(|error| match error {
            Error::OtherOptions { .. } => raise(py, "WrongKind", error),
            error => error.raise(py),
        })?);
        Ok(Event { event, domain, name, automatic })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn domain(&self) -> domain::Domain {
        domain::Domain { domain: self.domain.clone() }
    }

    /// The bits that are set.
    #[getter]
    fn bits(&self) -> u32 {
        self.event.bits()
    }

    /// Sets the event, or these bits of it (0 to 30), and wakes all waiters.
    #[pyo3(signature = (bits=1))]
    fn set(&self, bits: u32) -> PyResult<()> {
        if bits & !Core::ALL != 0 {
            return Err(pyo3::exceptions::PyValueError::new_err("an event has 31 bits, 0 to 30"));
        }
        self.event.set(bits);
        Ok(())
    }

    /// Clears the event, or these bits of it.
    #[pyo3(signature = (bits=u32::MAX))]
    fn clear(&self, bits: u32) {
        self.event.clear(bits);
    }

    /// Whether any bit is set.
    fn is_set(&self) -> bool {
        self.event.bits() != 0
    }

    /// Waits until any bit is set; returns False when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
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
        self.until(py, bits, all, timeout)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (String, domain::Domain, bool))> {
        let open = slf.py().import("outlive._reopen")?.getattr("event")?;
        Ok((open, (slf.get().name.clone(), slf.get().domain(), slf.get().automatic)))
    }

    fn __repr__(&self) -> String {
        format!("<Event '{}', {:#b}>", self.name, self.bits())
    }
}
