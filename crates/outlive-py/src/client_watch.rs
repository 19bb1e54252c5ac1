//! ``ClientWatch``: what becomes of a service's clients.

use std::time::Duration;

use outlive::rpc::{ClientEvent, ClientWatch as Core, Service};
use outlive::wait::WaitSet;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::handle_mutex::HandleMutex;
use crate::named::{GivenDomain, Named};
use crate::wait_set::{descriptor, has_news};
use crate::waiting::Until;

/// Tells which clients of a service do nothing, and which have died: ``Server.watch_clients`` makes
/// it, and in any other process ``ClientWatch.open``.
///
/// >>> server, client = Server("arm", folder), Client("arm", folder)
/// >>> watch = server.watch_clients(lease=0.01)
/// >>> watch.next() == ("not-lively", os.getpid())
/// True
/// >>> client.assert_liveliness()
/// >>> watch.next() == ("lively", os.getpid()), watch.lapses, watch.deaths
/// (True, 1, 0)
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct ClientWatch {
    pub(crate) handle: HandleMutex<Core>,
    set: HandleMutex<Option<WaitSet>>,
    domain: outlive::Domain,
    name: String,
}

/// Returns the lease of so many seconds.
pub(crate) fn lease_of(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What has become of a client, and its process.
type Told = (&'static str, u32);

impl ClientWatch {
    pub(crate) fn of(watch: Core, domain: &outlive::Domain, name: &str) -> ClientWatch {
        let (handle, set) = (HandleMutex::new(watch), HandleMutex::new(None));
        ClientWatch { handle, set, domain: domain.clone(), name: name.to_owned() }
    }
}

#[pymethods]
impl ClientWatch {
    /// Follows what becomes of the clients of the existing service of that name, as
    /// ``Server.watch_clients``, in a process that is not its server; raises ``NotFound`` if there is
    /// none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, lease))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        lease: f64,
    ) -> PyResult<ClientWatch> {
        let lease = lease_of(lease)?;
        let open = |d: &outlive::Domain, n: &str| -> Result<Core, outlive::Error> {
            Service::open_as_bytes(d, n)?.watch_clients(lease)
        };
        let (watch, named) = Named::find(py, name, domain, open)?;
        Ok(ClientWatch::of(watch, &named.domain, &named.name))
    }

    /// Waits until something has become of a client, and returns that, and the client's pid:
    /// ``"not-lively"``, ``"lively"`` or ``"died"``. None when the timeout passed first.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Told>> {
        let until = Until::timeout(timeout)?;
        let Some(mut watch) = self.handle.lock_until(py, until)? else { return Ok(None) };
        let told =
            watch.wait(py, until, |watch, deadline| watch.next_until(deadline).transpose())?;
        Ok(told.transpose().raised(py)?.map(|event| {
            let what = match &event {
                ClientEvent::NotLively(_) => "not-lively",
                ClientEvent::Lively(_) => "lively",
                _ => "died",
            };
            (what, event.client().pid)
        }))
    }

    /// Returns what has become of a client, for ``asyncio``: as ``async for what, pid in watch``.
    fn next_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("_try_next")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn _try_next(&self, py: Python<'_>) -> PyResult<Option<Told>> {
        self.next(py, Some(0.0))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        ClientWatch::next_async(slf)
    }

    /// How often a client's lease has passed.
    #[getter]
    fn lapses(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.lapses())
    }

    /// How many clients have died.
    #[getter]
    fn deaths(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.handle.lock(py)?.deaths())
    }

    /// A descriptor that is readable when there may be something to tell, for event loops; see
    /// ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.domain, |set| {
            set.add(&*self.handle.lock(py)?).raised(py)
        })
    }

    /// Whether a look is worth it. The descriptor is readable until this has returned False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        has_news(py, &mut *self.set.lock(py)?)
    }

    fn __repr__(&self) -> String {
        format!("<ClientWatch of '{}' in '{}'>", self.name, self.domain.path().display())
    }
}
