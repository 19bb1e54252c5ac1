//! `State`: the latest value under a name.

use outlive::state::{Change, State as Core, StateOptions, Writer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::described::{self, Described};
use crate::domain;
use crate::errors::{Raised, raise};
use crate::handle_mutex::{HandleMutex, process};
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::stand_by::StandBy;
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached, wait};

/// The latest value under a name: bytes, at most ``capacity`` of them. Reading never waits, also
/// when a writer was stopped or killed in the middle of a ``set``.
///
/// Without ``capacity``, a new state has room for 4 KiB, or for ``initial`` if that is more; an
/// existing one that has another ``capacity`` raises ``BadOption``. ``State.open`` opens any
/// existing state, as bytes.
///
/// With ``fixed`` all values have ``capacity`` bytes, and the first is filled up with zeroes: then
/// it is the same as Rust's ``State<T>`` and C++'s ``State<T>`` with a ``T`` of as many bytes.
///
/// ``payload``: what a value is, for all languages, as for a ``Topic``; then ``set`` takes values of
/// that type, too.
///
/// The first ``set`` makes this process the state's one writer (``Taken`` while another is alive)
/// until ``close``, or the end of a ``with`` block.
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
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct State {
    writer: HandleMutex<Option<(u32, Writer)>>,
    pub(crate) state: Open<Core>,
    named: Named,
    described: Described,
}

fn options(
    capacity: Option<usize>,
    initial: Option<&[u8]>,
    fixed: bool,
    payload: Option<&Bound<'_, PyAny>>,
) -> PyResult<StateOptions> {
    let mut options = Core::options();
    if let Some(payload) = described::given(payload)? {
        options = options.description(payload);
    }
    if let Some(value) = initial {
        options = options.initial(value);
    }
    match capacity {
        Some(capacity) if fixed => Ok(options.fixed_size(capacity)),
        Some(capacity) => Ok(options.capacity(capacity)),
        None if fixed => Err(PyValueError::new_err("values of a fixed size need the 'capacity'")),
        None => Ok(options),
    }
}

impl State {
    fn of(py: Python<'_>, (state, named): (Core, Named)) -> PyResult<State> {
        let described = Described::new(state.description().raised(py)?);
        Ok(State { writer: HandleMutex::new(None), state: Open::new(state), named, described })
    }

    /// Does something as the writer, which this process becomes.
    fn as_writer<R>(&self, py: Python<'_>, work: impl FnOnce(&mut Writer) -> R) -> PyResult<R> {
        let mut inside = self.writer.lock(py)?;
        let writer = match &mut *inside {
            Some((of, writer)) if *of == process() => writer,
            other => &mut other.insert((process(), self.state.get()?.writer().raised(py)?)).1,
        };
        Ok(work(writer))
    }
}

#[pymethods]
impl State {
    #[new]
    #[pyo3(signature = (name, capacity=None, domain=None, *, initial=None, fixed=false, payload=None))]
    fn new(
        py: Python<'_>,
        name: String,
        capacity: Option<usize>,
        domain: GivenDomain<'_, '_>,
        initial: Option<&[u8]>,
        fixed: bool,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<State> {
        let options = options(capacity, initial, fixed, payload)?;
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n))
            .and_then(|opened| State::of(py, opened))
    }

    /// Opens the existing state of that name, whatever its values are; raises ``NotFound`` if there
    /// is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<State> {
        Named::find(py, name, domain, Core::open_as_bytes).and_then(|opened| State::of(py, opened))
    }

    /// Makes a new state of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, capacity=None, domain=None, *, initial=None, fixed=false, payload=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        capacity: Option<usize>,
        domain: GivenDomain<'_, '_>,
        initial: Option<&[u8]>,
        fixed: bool,
        payload: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<State> {
        let options = options(capacity, initial, fixed, payload)?;
        Named::make(py, name, domain, |d, n| options.create_new(d, n))
            .and_then(|opened| State::of(py, opened))
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

    /// Returns the latest value.
    fn get<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.state.get()?.get().raised(py)?))
    }

    /// numpy's type of the value, by the description that the state has of it; None if it has none:
    /// ``numpy.frombuffer(state.get(), state.dtype)[0]``.
    #[getter]
    fn dtype(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.described.dtype(py)?.map(|dtype| dtype.clone().unbind()))
    }

    /// The description that the state has of its values, as text; None if it has none.
    #[getter]
    fn payload(&self) -> Option<String> {
        self.described.text()
    }

    /// The latest value's version, from 1 on.
    #[getter]
    fn version(&self) -> PyResult<u64> {
        Ok(self.state.get()?.version())
    }

    /// How many bytes a value may have.
    #[getter]
    fn capacity(&self) -> PyResult<usize> {
        Ok(self.state.get()?.config().capacity)
    }

    /// Sets the value and returns its version.
    fn set(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<u64> {
        let value = self.described.message(value)?;
        let value = Given::of(&value)?;
        self.described.check(value.len())?;
        self.as_writer(py, |writer| value.with(py, |bytes| writer.set(bytes)))??.raised(py)
    }

    /// Makes buffers for so many readers that are in ``get`` at the same time, 64 at most, and brings the
    /// state's memory into this process, which becomes the writer. Raises ``NoSpace`` when there is no
    /// room for all of it.
    fn prefault(&self, py: Python<'_>, readers: usize) -> PyResult<()> {
        self.as_writer(py, |writer| detached(py, || writer.prefault(readers)))?.raised(py)
    }

    /// Makes this process the state's one writer, waiting for a living one to leave or to end: a
    /// process that stands by gets the role at once when that dies. Returns False when the timeout
    /// passed first. ``close`` gives the role up.
    #[pyo3(signature = (timeout=None))]
    fn wait_to_write(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let until = Until::timeout(timeout)?;
        let state = self.state.get()?;
        let Some(mut inside) = self.writer.lock_until(py, until)? else { return Ok(false) };
        if inside.as_ref().is_some_and(|(of, _)| *of == process()) {
            return Ok(true);
        }
        let taken = inside
            .wait(py, until, |_, deadline| state.wait_to_write_until(deadline).transpose())?;
        let Some(writer) = taken.transpose().raised(py)? else { return Ok(false) };
        *inside = Some((process(), writer));
        Ok(true)
    }

    /// Makes this process the state's one writer, for ``asyncio``, once no other process writes: so a
    /// process stands by while its tasks go on.
    fn wait_to_write_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let source = Awaited::of(py, &this.named.domain, &this.state.get()?.stand_by())?;
        let ask = slf.getattr("wait_to_write")?;
        py.import("outlive._waiting")?.call_method1("role", (source, ask))
    }

    /// Returns what a ``WaitSet`` waits for that stands by: it is ready while no living process writes.
    fn stand_by(&self) -> PyResult<StandBy> {
        Ok(StandBy::new(self.state.get()?.stand_by(), &self.named))
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
        let state = self.state.get()?;
        let changed =
            wait(py, until, |deadline| state.wait_changed_until(version, deadline).transpose())?;
        match changed {
            None => Ok(None),
            Some(changed) => match changed.raised(py)? {
                Change::Value { version } => Ok(Some(version)),
                _ => Err(raise(
                    py,
                    "PeerDied",
                    "the state's writer died; the value is what it set last, and another process may take over",
                )),
            },
        }
    }

    /// Closes this object, and gives up the writer's place if this process got it by this object's
    /// ``set``. Using it raises ``ValueError``; the value stays.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer.close(py)?;
        drop(writer);
        self.state.close();
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().state.get()?;
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
        self.close(py)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        let state = self.version().map(|version| format!("version {version}"));
        self.named.repr("State", state)
    }
}
