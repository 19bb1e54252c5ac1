//! `Server`.

use std::sync::{Arc, Mutex, PoisonError};

use outlive::rpc;
use outlive::wait::WaitSet;
use pyo3::prelude::*;

use crate::client_watch::{ClientWatch, lease_of};
use crate::described::Both;
use crate::errors::{Raised, raise};
use crate::handle_mutex::HandleMutex;
use crate::named::{GivenDomain, Named};
use crate::open::{Left, closed};
use crate::request::Request;
use crate::requests::Requests;
use crate::service::Asked;
use crate::stand_by::StandBy;
use crate::wait_set::{Awaited, descriptor, has_news};
use crate::waiting::{Until, detached, passed, wait};

/// Receives a service's requests; a service has one server at a time, or as many as
/// its ``max_servers``, which share the calls. It waits ``timeout`` seconds
/// for a living one to leave or to end, by default not at all, and then raises ``Taken``; ``None``
/// is for ever. So several processes may stand by: when the server dies, one of them takes over at
/// once. It can be iterated over, and waits for each request. Any thread may reply to requests,
/// in any order.
///
/// A loop that goes on when a request cannot be carried out::
///
///     for request in server:
///         try:
///             with request:
///                 request.reply(handle(request.data))
///         except Exception:
///             logging.exception("a request failed")
///
/// >>> server, client = Server("double", folder), Client("double", folder)
/// >>> def serve():
/// ...     request = server.next(timeout=10)
/// ...     request.reply(request.data * 2)
/// >>> answering = threading.Thread(target=serve)
/// >>> answering.start()
/// >>> client.call(b"ab", timeout=10)
/// b'abab'
/// >>> answering.join()
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Server {
    pub(crate) handle: HandleMutex<rpc::Server>,
    service: rpc::Service,
    set: HandleMutex<Option<WaitSet>>,
    named: Named,
    types: Arc<Both>,
}

const LATE: &str = "no request came until the deadline passed";

impl Server {
    /// Becomes the server, waiting so many seconds for a living one to leave or to end.
    fn of(
        py: Python<'_>,
        (service, named): (rpc::Service, Named),
        timeout: Option<f64>,
    ) -> PyResult<Server> {
        let server = if timeout == Some(0.0) {
            // Waits for no living server, but for the last thread of a dead one.
            detached(py, || service.server())
        } else {
            let until = Until::timeout(timeout)?;
            let in_turn =
                wait(py, until, |deadline| service.wait_to_serve_until(deadline).transpose())?;
            // In the end the error names the process that serves.
            in_turn.unwrap_or_else(|| service.server_by(passed()))
        };
        Server::made(py, (service, named), server.raised(py)?)
    }

    fn made(
        py: Python<'_>,
        (service, named): (rpc::Service, Named),
        server: rpc::Server,
    ) -> PyResult<Server> {
        let types = Both::new(service.description().raised(py)?);
        let (handle, set) = (HandleMutex::new(server), HandleMutex::new(None));
        Ok(Server { handle, service, set, named, types })
    }

    pub(crate) fn take(&self, py: Python<'_>, until: Until) -> PyResult<Request> {
        let Some(mut inside) = self.handle.lock_until(py, until)? else {
            return Err(raise(py, "Timeout", LATE));
        };
        let taken =
            inside.wait(py, until, |server, deadline| server.next_until(deadline).transpose())?;
        match taken {
            Some(request) => Ok(Request::new(py, request.raised(py)?, &self.named, &self.types)),
            None => Err(raise(py, "Timeout", LATE)),
        }
    }
}

/// A process that stands by to serve, for `_waiting.py`.
#[pyclass(module = "outlive._outlive", frozen)]
struct StandingBy(Mutex<Option<(rpc::Service, Named)>>);

#[pymethods]
impl StandingBy {
    /// Returns the server; None while another process serves.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Server>> {
        let mut standing = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((service, _)) = &*standing else { return Ok(None) };
        let Some(server) = service.try_wait_to_serve().raised(py)? else { return Ok(None) };
        standing.take().map(|parts| Server::made(py, parts, server)).transpose()
    }
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, timeout=0.0, request=None, reply=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        timeout: Option<f64>,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Server> {
        let asked = Asked { max_bytes, max_servers, request, reply };
        Server::of(py, asked.make(py, name, domain, rpc::ServiceOptions::open_or_create)?, timeout)
    }

    /// Becomes the server as the constructor does, for ``asyncio``, once no living process serves:
    /// ``server = await Server.wait_to_serve_async("orders")``. So a process stands by while its tasks go
    /// on. A task that is cancelled before has taken nothing.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, request=None, reply=None))]
    fn wait_to_serve_async<'py>(
        py: Python<'py>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let asked = Asked { max_bytes, max_servers, request, reply };
        let (service, named) = asked.make(py, name, domain, rpc::ServiceOptions::open_or_create)?;
        let source = Awaited::of(py, &named.domain, &service.stand_by())?;
        let standing = Bound::new(py, StandingBy(Mutex::new(Some((service, named)))))?;
        let ask = standing.getattr("take")?;
        py.import("outlive._waiting")?.call_method1("take", (source, ask))
    }

    /// Returns what a ``WaitSet`` waits for that stands by for the service of that name, which is opened
    /// or made as by the constructor: it is ready while no living process serves, or, of several
    /// servers, while there is room for one. So a mistyped name makes a service, which is ready at once:
    /// ``Domain.names`` says which there are.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, request=None, reply=None))]
    fn stand_by(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<StandBy> {
        let asked = Asked { max_bytes, max_servers, request, reply };
        let (service, named) = asked.make(py, name, domain, rpc::ServiceOptions::open_or_create)?;
        Ok(StandBy::new(service.stand_by(), &named))
    }

    /// Becomes the server of the existing service of that name; raises ``NotFound`` if there is
    /// none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, timeout=0.0))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        timeout: Option<f64>,
    ) -> PyResult<Server> {
        let service = |d: &_, n: &_| rpc::Service::open_as_bytes(d, n);
        Server::of(py, Named::find(py, name, domain, service)?, timeout)
    }

    /// Makes a new service of that name, with the constructor's options, and becomes its server;
    /// raises ``AlreadyExists`` if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, timeout=0.0, request=None, reply=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        timeout: Option<f64>,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Server> {
        let asked = Asked { max_bytes, max_servers, request, reply };
        Server::of(py, asked.make(py, name, domain, rpc::ServiceOptions::create_new)?, timeout)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// Returns the next request, waiting for one; raises ``Timeout`` when none came for so many
    /// seconds.
    #[pyo3(signature = (timeout=None))]
    fn next(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Request> {
        self.take(py, Until::timeout(timeout)?)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Requests {
        Requests::of(slf)
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Request> {
        self.take(py, Until::NEVER)
    }

    /// Returns the next request, or None at once.
    pub(crate) fn try_next(&self, py: Python<'_>) -> PyResult<Option<Request>> {
        let mut inside = self.handle.lock(py)?;
        let request = inside.try_next().raised(py)?;
        Ok(request.map(|request| Request::new(py, request, &self.named, &self.types)))
    }

    /// Returns the next request, for ``asyncio``: as ``async for request in server``.
    fn next_async<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let ask = slf.getattr("try_next")?;
        slf.py().import("outlive._waiting")?.call_method1("take", (slf, ask))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Requests {
        Requests::of(slf)
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Server::next_async(slf)
    }

    /// A descriptor that is readable when a request is there, for event loops; see ``is_ready``.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        descriptor(py, &mut *self.set.lock(py)?, &self.named.domain, |set| {
            set.add(&*self.handle.lock(py)?).raised(py)
        })
    }

    /// Whether a look for a request is worth it. The descriptor is readable until this has returned
    /// False.
    fn is_ready(&self, py: Python<'_>) -> PyResult<bool> {
        has_news(py, &mut *self.set.lock(py)?)
    }

    /// Makes memory for so many requests and replies of up to so many bytes each, and brings it in.
    fn prefault(&self, py: Python<'_>, messages: usize, size: usize) -> PyResult<()> {
        let inside = self.handle.lock(py)?;
        detached(py, || inside.prefault(messages, size)).raised(py)
    }

    /// Follows what becomes of the service's clients: which of them live and have done nothing for
    /// ``lease`` seconds, and which have died. A client does something when it makes a call, takes a
    /// reply of a stream, or calls ``assert_liveliness``.
    fn watch_clients(&self, py: Python<'_>, lease: f64) -> PyResult<ClientWatch> {
        if self.handle.is_closing() {
            return Err(closed());
        }
        let watch = self.service.watch_clients(lease_of(lease)?).raised(py)?;
        Ok(ClientWatch::of(watch, &self.named.domain, &self.named.name))
    }

    /// Closes the server: the service has none until a process makes another, and using this one
    /// raises ``ValueError``. Requests that it has begun can still be answered.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let set = self.set.close(py)?;
        drop(set);
        self.handle.close(py).map(drop)
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        if slf.get().handle.is_closing() {
            return Err(closed());
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

    fn __repr__(&self) -> String {
        let state = if self.handle.is_closing() { Err(closed()) } else { Ok(String::new()) };
        self.named.repr("Server", state)
    }
}
