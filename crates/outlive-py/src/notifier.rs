//! `Notifier` and `Listener`: notices that each listener counts.

use std::collections::BTreeMap;

use outlive::notify::{
    Listener as CoreListener, Notices, Notifier as CoreNotifier, NotifierEnd, NotifierOptions,
};
use outlive::wait::WaitSet;
use pyo3::prelude::*;

use crate::domain;
use crate::errors::Raised;
use crate::handle_mutex::HandleMutex;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::wait_set::{descriptor, has_news};
use crate::waiting::{Until, detached};

fn options<E: NotifierEnd>(
    mut options: NotifierOptions<E>,
    on_created: Option<u32>,
    on_left: Option<u32>,
    on_died: Option<u32>,
) -> NotifierOptions<E> {
    if let Some(id) = on_created {
        options = options.on_created(id);
    }
    if let Some(id) = on_left {
        options = options.on_left(id);
    }
    if let Some(id) = on_died {
        options = options.on_died(id);
    }
    options
}

/// Tells all listeners of a name that something with a number, 0 to 63, has happened: each
/// ``Listener`` is told how often.
///
/// ``on_created``, ``on_left`` and ``on_died`` are numbers of notices that all listeners get when a
/// notifier comes, is closed, or dies with its process.
///
/// >>> doors = Listener("doors", folder, on_left=63)
/// >>> with Notifier("doors", folder) as notifier:
/// ...     notifier.notify(3), notifier.notify(3), notifier.notify(7)
/// (1, 1, 1)
/// >>> doors.wait()
/// {3: 2, 7: 1, 63: 1}
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Notifier {
    notifier: Open<CoreNotifier>,
    named: Named,
}

impl Notifier {
    fn of((notifier, named): (CoreNotifier, Named)) -> Notifier {
        Notifier { notifier: Open::new(notifier), named }
    }
}

#[pymethods]
impl Notifier {
    #[new]
    #[pyo3(signature = (name, domain=None, *, on_created=None, on_left=None, on_died=None))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        on_created: Option<u32>,
        on_left: Option<u32>,
        on_died: Option<u32>,
    ) -> PyResult<Notifier> {
        let options = options(CoreNotifier::options(), on_created, on_left, on_died);
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n)).map(Notifier::of)
    }

    /// Opens a notifier of the existing name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Notifier> {
        Named::find(py, name, domain, CoreNotifier::open).map(Notifier::of)
    }

    /// Makes a new one of that name, with the constructor's options; raises ``AlreadyExists`` if
    /// the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, on_created=None, on_left=None, on_died=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        on_created: Option<u32>,
        on_left: Option<u32>,
        on_died: Option<u32>,
    ) -> PyResult<Notifier> {
        let options = options(CoreNotifier::options(), on_created, on_left, on_died);
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(Notifier::of)
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

    /// Adds a notice of that number, 0 to 63, to the counts of each listener, and wakes those that
    /// wait; returns how many living listeners there were.
    fn notify(&self, py: Python<'_>, number: u32) -> PyResult<u32> {
        self.notifier.get()?.notify(number).raised(py)
    }

    /// Closes this object: listeners are told, if there is an ``on_left``. Using it afterwards
    /// raises ``ValueError``.
    fn close(&self, py: Python<'_>) {
        detached(py, || self.notifier.close());
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().notifier.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) {
        let _ = (exc_type, exc_value, traceback);
        self.close(py);
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        slf.get().named.reduce(slf, &[])
    }

    fn __repr__(&self) -> String {
        self.named.repr("Notifier", self.notifier.get().map(|_| String::new()))
    }
}

/// Is told by all ``Notifier`` objects of a name how often each of 64 things has happened. Each
/// listener has counts of its own, beginning with its opening.
///
/// >>> listener = Listener("alarms", folder)
/// >>> listener.wait(timeout=0.01)
/// {}
/// >>> Notifier("alarms", folder).notify(5)
/// 1
/// >>> for number, count in listener.wait().items():
/// ...     print(number, "happened", count, "times")
/// 5 happened 1 times
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Listener {
    pub(crate) handle: HandleMutex<CoreListener>,
    /// For event loops, once one asks.
    set: HandleMutex<Option<WaitSet>>,
    named: Named,
}

impl Listener {
    fn of((listener, named): (CoreListener, Named)) -> Listener {
        Listener { handle: HandleMutex::new(listener), set: HandleMutex::new(None), named }
    }
}

#[pymethods]
impl Listener {
    #[new]
    #[pyo3(signature = (name, domain=None, *, on_created=None, on_left=None, on_died=None))]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        on_created: Option<u32>,
        on_left: Option<u32>,
        on_died: Option<u32>,
    ) -> PyResult<Listener> {
        let options = options(CoreListener::options(), on_created, on_left, on_died);
        Named::make(py, name, domain, |d, n| options.open_or_create(d, n)).map(Listener::of)
    }

    /// Opens a listener of the existing name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None))]
    fn open(py: Python<'_>, name: String, domain: GivenDomain<'_, '_>) -> PyResult<Listener> {
        Named::find(py, name, domain, CoreListener::open).map(Listener::of)
    }

    /// Makes a new one of that name, with the constructor's options; raises ``AlreadyExists`` if
    /// the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, on_created=None, on_left=None, on_died=None))]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        on_created: Option<u32>,
        on_left: Option<u32>,
        on_died: Option<u32>,
    ) -> PyResult<Listener> {
        let options = options(CoreListener::options(), on_created, on_left, on_died);
        Named::make(py, name, domain, |d, n| options.create_new(d, n)).map(Listener::of)
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

    /// Waits until there are notices, and takes all that are there: by number, how many. Empty when
    /// the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<BTreeMap<u32, u64>> {
        let until = Until::timeout(timeout)?;
        let Some(mut listener) = self.handle.lock_until(py, until)? else {
            return Ok(BTreeMap::new());
        };
        let told = listener
            .wait(py, until, |listener, deadline| listener.wait_until(deadline).transpose())?;
        let told: Option<Notices> = told.transpose().raised(py)?;
        Ok(told.iter().flatten().collect())
    }

    /// Takes the notices that are there: by number, how many; None if there are none. Never waits.
    fn try_wait(&self, py: Python<'_>) -> PyResult<Option<BTreeMap<u32, u64>>> {
        let told = self.handle.lock(py)?.try_wait().raised(py)?;
        Ok(told.map(|told| told.iter().collect()))
    }

    /// Waits until there are notices, and takes them, for ``asyncio``.
    fn wait_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_wait")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    /// A descriptor that is readable when there are notices, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.named.domain, |set| {
            set.add(&*self.handle.lock(py)?).raised(py)
        })
    }

    /// Whether a look for notices is worth a try. The descriptor is readable until this has
    /// returned False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        self.fileno(py)?;
        has_news(py, &mut *self.set.lock(py)?)
    }

    /// Closes this object: using it afterwards raises ``ValueError``.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let set = self.set.close(py)?;
        detached(py, || drop(set));
        let listener = self.handle.close(py)?;
        detached(py, || drop(listener));
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().handle.is_closing() {
            return Err(crate::open::closed());
        }
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
        let state =
            if self.handle.is_closing() { Err(crate::open::closed()) } else { Ok(String::new()) };
        self.named.repr("Listener", state)
    }
}
