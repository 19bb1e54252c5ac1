//! `State`: the latest value under a name.

use outlive::Error;
use outlive::state::{Change, State as Core, Writer};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::domain;
use crate::errors::{Raised, raise};
use crate::turn::{Turn, process};
use crate::waiting::{Until, wait};

/// The latest value under a name: bytes, at most ``size`` of them. Reading never waits, also when a
/// writer was stopped or killed in the middle of a ``set``.
///
/// With ``fixed`` all values have ``size`` bytes, and the first is filled up with zeroes: then it
/// is the same as Rust's ``State<T>`` and C++'s ``State<T>`` with a ``T`` of as many bytes.
///
/// The first ``set`` makes this process the state's one writer (``Taken`` while another is alive)
/// until ``close``.
///
/// >>> mode = State("mode", 64, folder, initial=b"idle")
/// >>> mode.get(), mode.version
/// (b'idle', 1)
/// >>> mode.set(b"driving")
/// 2
/// >>> mode.wait_changed(1), mode.get()
/// (2, b'driving')
/// >>> mode.wait_changed(2, timeout=0.01) is None
/// True
/// >>> mode.close()
#[pyclass(module = "outlive", frozen)]
pub(crate) struct State {
    writer: Turn<Option<(u32, Writer)>>,
    state: Core,
    domain: outlive::Domain,
    name: String,
}

#[pymethods]
impl State {
    #[new]
    #[pyo3(signature = (name, size=None, domain=None, *, initial=None, fixed=false))]
    fn new(
        py: Python<'_>,
        name: String,
        size: Option<usize>,
        domain: Option<&Bound<'_, PyAny>>,
        initial: Option<&[u8]>,
        fixed: bool,
    ) -> PyResult<State> {
        let domain = domain::of(py, domain)?;
        let options = Core::<[u8]>::options().initial(initial.unwrap_or_default());
        let state = match size {
            Some(size) if fixed => options.fixed_size(size).open_or_create(&domain, &name),
            Some(size) => match options.capacity(size).open_or_create(&domain, &name) {
                // An existing state keeps its size.
                Err(Error::OtherOptions { .. }) => Core::open(&domain, &name),
                other => other,
            },
            // Without a size the state must exist.
            None => Core::open_as_bytes(&domain, &name),
        };
        Ok(State { writer: Turn::new(None), state: state.raised(py)?, domain, name })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn domain(&self) -> domain::Domain {
        domain::Domain { domain: self.domain.clone() }
    }

    /// Returns the latest value.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.state.get().raised(py)?))
    }

    /// The latest value's version, from 1 on.
    #[getter]
    fn version(&self) -> u64 {
        self.state.version()
    }

    /// The most bytes of a value.
    #[getter]
    fn size(&self) -> usize {
        self.state.config().capacity
    }

    /// Sets the value and returns its version.
    fn set(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let value = Given::of(value)?;
        let mut inside = self.writer.enter(py)?;
        let writer = match &mut *inside {
            Some((of, writer)) if *of == process() => writer,
            other => &mut other.insert((process(), self.state.writer().raised(py)?)).1,
        };
        value.with(py, |bytes| writer.set(bytes))?.raised(py)
    }

    /// Waits until the value has another version than this one, and returns that; None when the
    /// timeout passed first. Raises ``PeerDied`` when the writer died, after its last value.
    #[pyo3(signature = (version, timeout=None))]
    fn wait_changed(
        &self,
        py: Python<'_>,
        version: u64,
        timeout: Option<f64>,
    ) -> PyResult<Option<u64>> {
        let until = Until::timeout(timeout)?;
        let changed = wait(py, until, |deadline| {
            self.state.wait_changed_until(version, deadline).transpose()
        })?;
        match changed {
            None => Ok(None),
            Some(changed) => match changed.raised(py)? {
                Change::Value { version } => Ok(Some(version)),
                _ => Err(raise(
                    py,
                    "PeerDied",
                    "the state's writer died; the value is what it set last, and somebody may take over",
                )),
            },
        }
    }

    /// Gives up the writer's place.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        *self.writer.enter(py)? = None;
        Ok(())
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> (Bound<'py, PyAny>, (String, Option<usize>, domain::Domain)) {
        (slf.get_type().into_any(), (slf.get().name.clone(), None, slf.get().domain()))
    }

    fn __repr__(&self) -> String {
        format!("<State '{}', version {}>", self.name, self.version())
    }
}
