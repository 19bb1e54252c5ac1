//! `Client` and `Server`.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use outlive::describe::Description;
use outlive::rpc::{self, CallError};
use outlive::wait::WaitSet;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::call::{Call, Lender};
use crate::client_watch::{ClientWatch, lease_of};
use crate::described::{self, Both};
use crate::errors::{Raise, Raised, raise};
use crate::handle_mutex::HandleMutex;
use crate::layout::Layout;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open, closed, why};
use crate::request::Request;
use crate::rpc_loan::RequestLoan;
use crate::stand_by::StandBy;
use crate::wait_set::{Awaited, descriptor, has_news};
use crate::waiting::{Until, detached, passed, wait};
use crate::writable::Shape;

/// Calls a service. A service has any number of clients; any thread may use one, one at a time.
/// ``max_bytes``: the most bytes that requests and replies may take together, 1 GiB in a new
/// service unless given; an existing one that has another limit raises ``BadOption``.
/// ``max_servers``: the most servers at a time, 1 in a new service unless given, at most 64; several
/// share the load.
///
/// ``request`` and ``reply``: what they are, for all languages, as a ``Topic``'s ``payload``; then
/// objects of such a class, dictionaries and numbers are sent as such, and where they are
/// ``"msgpack"``, what msgpack knows. ``Request.value`` and ``client.value(reply)`` read them;
/// ``domain.payload(name)`` says what a service has.
///
/// The server's death ends every call at once with ``ServerDied``, whose ``begun`` says whether the
/// call may be repeated.
///
/// >>> client = Client("clock", folder)
/// >>> client.call(b"now")
/// Traceback (most recent call last):
/// outlive.errors.NoServer: the service has no server; start one, or wait for one
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Client {
    lender: Open<Lender>,
    named: Named,
    wait_for_server: bool,
    types: Arc<Both>,
}

/// Asks for what a client and a server need besides the service: a process that cannot have it
/// makes none.
fn ready(domain: &outlive::Domain) -> Result<(), outlive::Error> {
    domain.token()?;
    domain.process_token().map(drop)
}

fn options(
    max_bytes: Option<u64>,
    max_servers: Option<u32>,
    types: Option<Description>,
) -> rpc::ServiceOptions {
    let mut options = rpc::Service::<[u8], [u8]>::options();
    if let Some(servers) = max_servers {
        options = options.max_servers(servers);
    }
    if let Some(types) = types {
        options = options.description(types);
    }
    match max_bytes {
        None => options,
        Some(bytes) => options.max_bytes(bytes),
    }
}

/// Returns what a begin waits for that found no memory, or no server; `None` while a thread of this
/// client is inside.
pub(crate) fn begin_source(
    py: Python<'_>,
    lender: &Arc<Lender>,
    of: &Named,
) -> PyResult<Option<Awaited>> {
    let Some(inside) = lender.lock_until(py, Until::now())? else { return Ok(None) };
    let source = inside.begin_source().raised(py)?;
    Awaited::of(py, &of.domain, &source).map(Some)
}

impl Client {
    fn of(
        (service, named): (rpc::Service, Named),
        py: Python<'_>,
        wait_for_server: bool,
    ) -> PyResult<Client> {
        let client = service.client().raised(py)?;
        client.set_wait_for_server(wait_for_server);
        let types = Both::new(service.description().raised(py)?);
        Ok(Client { lender: Open::of(Lender::new(client)), named, wait_for_server, types })
    }
}

#[pymethods]
impl Client {
    #[new]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, wait_for_server=false, request=None, reply=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        wait_for_server: bool,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Client> {
        let types = described::given_pair(request, reply)?;
        let client = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).open_or_create(d, n)
        };
        Client::of(Named::make(py, name, domain, client)?, py, wait_for_server)
    }

    /// Opens the existing service of that name; raises ``NotFound`` if there is none.
    #[staticmethod]
    #[pyo3(signature = (name, *, domain=None, wait_for_server=false))]
    fn open(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        wait_for_server: bool,
    ) -> PyResult<Client> {
        let client = |d: &_, n: &_| rpc::Service::open_as_bytes(d, n);
        Client::of(Named::find(py, name, domain, client)?, py, wait_for_server)
    }

    /// Makes a new service of that name, with the constructor's options; raises ``AlreadyExists``
    /// if the name is in use.
    #[staticmethod]
    #[pyo3(signature = (name, domain=None, *, max_bytes=None, max_servers=None, wait_for_server=false, request=None, reply=None))]
    #[expect(clippy::too_many_arguments, reason = "Python's keywords")]
    fn create_new(
        py: Python<'_>,
        name: String,
        domain: GivenDomain<'_, '_>,
        max_bytes: Option<u64>,
        max_servers: Option<u32>,
        wait_for_server: bool,
        request: Option<&Bound<'_, PyAny>>,
        reply: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Client> {
        let types = described::given_pair(request, reply)?;
        let client = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).create_new(d, n)
        };
        Client::of(Named::make(py, name, domain, client)?, py, wait_for_server)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.named.name
    }

    /// Says that the client is there, although it has nothing to ask, to servers that watch it.
    fn assert_liveliness(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(client) = self.lender.get()?.lock_until(py, Until::NEVER)? {
            client.assert_liveliness();
        }
        Ok(())
    }

    /// Sends a request and waits for the reply; raises ``CallTimeout`` after so many seconds, and
    /// then the call is cancelled.
    #[pyo3(signature = (request, timeout=None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        request: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let until = Until::timeout(timeout)?;
        let request = self.types.request.sent(request)?;
        let request = Given::of(&request)?;
        let late = CallError::TimedOut { begun: false };
        let lender = self.lender.get()?;
        let Some(inside) = lender.lock_until(py, until)? else { return Err(late.raise(py)) };
        let client = &*inside;
        let begun = request.with(py, |bytes| {
            wait(py, until, |deadline| match client.begin_until(bytes, deadline) {
                Err(CallError::TimedOut { .. }) => None,
                other => Some(other),
            })
        })??;
        let Some(begun) = begun else { return Err(late.raise(py)) };
        // If it is interrupted, it is dropped, which cancels the call.
        let mut pending = begun.raised(py)?;
        let answer = wait(py, until, |deadline| match pending.next_until(deadline) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(answer)) => Some(Ok(answer)),
            Err(error) => Some(Err(error)),
        })?;
        match answer {
            Some(answer) => match answer.raised(py)? {
                Some(reply) => Ok(PyBytes::new(py, &reply)),
                None => Err(CallError::Dropped.raise(py)),
            },
            None => Err(CallError::TimedOut { begun: pending.cancel() }.raise(py)),
        }
    }

    /// Sends a request and returns a call, which waits for the reply later. Up to 1,024 may be in
    /// flight. Raises ``CallTimeout`` when the request could not be sent for so many seconds.
    #[pyo3(signature = (request, timeout=None))]
    fn begin(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let until = Until::timeout(timeout)?;
        let request = self.types.request.sent(request)?;
        let lender = self.lender.get()?;
        Call::begin(py, &lender, &self.named, &self.types, &Given::of(&request)?, until)
    }

    /// Sends a request of which further parts follow: ``send`` of the call that it returns sends them,
    /// and ``finish`` says that there are no more. The server takes them by ``Request.next_part``.
    /// Raises ``CallTimeout`` as ``begin``.
    ///
    /// >>> server, client = Server("store", folder), Client("store", folder)
    /// >>> call = client.stream(b"holiday.mp4")
    /// >>> call.send(b"x" * 1000)
    /// >>> call.send(b"y" * 1000)
    /// >>> call.finish()
    /// >>> request = server.next(timeout=10)                     # in another process, as a rule
    /// >>> request.reply(b"%d" % sum(len(part) for part in iter(request.next_part, None)))
    /// >>> call.result(timeout=10)
    /// b'2000'
    #[pyo3(signature = (request, timeout=None))]
    fn stream(
        &self,
        py: Python<'_>,
        request: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Call> {
        let until = Until::timeout(timeout)?;
        let request = self.types.request.sent(request)?;
        let lender = self.lender.get()?;
        Call::stream(py, &lender, &self.named, &self.types, &Given::of(&request)?, until)
    }

    /// Lends memory for a request, to be written in place, for ``with``; then ``call`` or ``begin`` of
    /// the loan sends it, without a copy. Waits while the service's memory is in use.
    ///
    /// With a ``dtype`` the block gets a numpy array of that ``shape``; without, a ``memoryview`` of so
    /// many bytes. Its contents are arbitrary. After the block the array is read-only, and views that
    /// the block made of it must not write to what is sent.
    #[pyo3(signature = (shape, dtype=None, *, timeout=None))]
    fn loan(
        &self,
        py: Python<'_>,
        shape: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<RequestLoan> {
        let until = Until::timeout(timeout)?;
        let shape = Shape::of(shape, dtype, Layout::of_type)?;
        RequestLoan::new(py, self.lender.get()?, shape, &self.named, &self.types, until)
    }

    /// Sends a request and waits for the reply, for ``asyncio``: ``await client.call_async(b"...",
    /// timeout=1.0)``. Any number may be in flight; when its task is cancelled, so is the call. With
    /// ``copy=False`` the reply is a ``Reply``, read where it lies, in place of ``bytes``.
    #[pyo3(signature = (request, timeout=None, *, copy=true))]
    fn call_async<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        timeout: Option<f64>,
        copy: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("call", (slf, request, timeout, copy))
    }

    /// Sends a request and returns a call, for ``asyncio``, as ``begin``: waits for memory, and with
    /// ``wait_for_server`` for a server.
    #[pyo3(signature = (request, timeout=None))]
    fn begin_async<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("begin")?, slf.getattr("_begin_source")?);
        let begin = slf.py().import("outlive._waiting")?;
        begin.call_method1("told_within", (timeout, ask, source, request))
    }

    /// Sends a request of which further parts follow, for ``asyncio``, as ``stream``.
    #[pyo3(signature = (request, timeout=None))]
    fn stream_async<'py>(
        slf: &Bound<'py, Self>,
        request: &Bound<'py, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("stream")?, slf.getattr("_begin_source")?);
        let begin = slf.py().import("outlive._waiting")?;
        begin.call_method1("told_within", (timeout, ask, source, request))
    }

    /// Lends memory for a request, for ``asyncio``, as ``loan``: waits while the service's memory is in
    /// use.
    #[pyo3(signature = (shape, dtype=None, *, timeout=None))]
    fn loan_async<'py>(
        slf: &Bound<'py, Self>,
        shape: &Bound<'py, PyAny>,
        dtype: Option<&Bound<'py, PyAny>>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("loan")?, slf.getattr("_begin_source")?);
        let begin = slf.py().import("outlive._waiting")?;
        begin.call_method1("told_within", (timeout, ask, source, shape, dtype))
    }

    /// None: a thread is inside.
    fn _begin_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        begin_source(py, &self.lender.get()?, &self.named)
    }

    /// Returns the value that a reply is, by the service's description: a record or a number of
    /// numpy's, an object of msgpack; without a description the bytes.
    fn value<'py>(&self, reply: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.types.reply.value(reply)
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let this = slf.get();
        this.named.reduce(slf, &[("wait_for_server", this.wait_for_server)])
    }

    /// Makes memory for so many requests and replies of up to so many bytes each, and brings it in.
    fn prefault(&self, py: Python<'_>, messages: usize, size: usize) -> PyResult<()> {
        let lender = self.lender.get()?;
        match lender.lock_until(py, Until::NEVER)? {
            Some(client) => detached(py, || client.prefault(messages, size)).raised(py),
            None => Ok(()),
        }
    }

    /// Closes the client: using it raises ``ValueError``. Its place is free for another one when its
    /// calls in flight are over.
    fn close(&self) {
        self.lender.close();
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        slf.get().lender.get()?;
        Ok(slf)
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(&self, exc_type: Left<'_, '_>, exc_value: Left<'_, '_>, traceback: Left<'_, '_>) {
        let _ = (exc_type, exc_value, traceback);
        self.close();
    }

    fn __repr__(&self) -> String {
        self.named.repr("Client", self.lender.get().map(|_| String::new()))
    }
}

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

    fn take(&self, py: Python<'_>, until: Until) -> PyResult<Request> {
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
        let types = described::given_pair(request, reply)?;
        let service = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).open_or_create(d, n)
        };
        Server::of(py, Named::make(py, name, domain, service)?, timeout)
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
        let types = described::given_pair(request, reply)?;
        let service = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).open_or_create(d, n)
        };
        let (service, named) = Named::make(py, name, domain, service)?;
        let source = Awaited::of(py, &named.domain, &service.stand_by())?;
        let standing = Bound::new(py, StandingBy(Mutex::new(Some((service, named)))))?;
        let ask = standing.getattr("take")?;
        py.import("outlive._waiting")?.call_method1("take", (source, ask))
    }

    /// Returns what a ``WaitSet`` waits for that stands by for the service of that name, which is opened
    /// or made as by the constructor: it is ready while no living process serves, or, of several
    /// servers, while there is room for one.
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
        let types = described::given_pair(request, reply)?;
        let service = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).open_or_create(d, n)
        };
        let (service, named) = Named::make(py, name, domain, service)?;
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
        let types = described::given_pair(request, reply)?;
        let service = |d: &_, n: &_| {
            ready(d)?;
            options(max_bytes, max_servers, types).create_new(d, n)
        };
        Server::of(py, Named::make(py, name, domain, service)?, timeout)
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
    fn try_next(&self, py: Python<'_>) -> PyResult<Option<Request>> {
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

/// A server's requests, one after the other: what `for` and `async for` ask.
///
/// A loop that an exception leaves drops this object while the exception is on its way, so this
/// object sees it, and tells the client of the request that the loop was at. That request itself may
/// live on in the exception's traceback.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Requests {
    server: Py<Server>,
    last: Mutex<Last>,
}

/// The request that a loop is at.
struct Last {
    /// None before the first one, and from when the loop asks for the next.
    request: Option<Py<Request>>,
    /// The code of the function that asked: of the loop, as a rule.
    asked: Option<Py<PyAny>>,
}

/// Returns the code of the Python function that runs now, if one does. The code and not the
/// frame: a frame that this object kept would keep this object.
fn running(py: Python<'_>) -> Option<Py<PyAny>> {
    // SAFETY: the thread is attached, as the token says. The frame is borrowed from the thread, and
    // lives as long as it runs; the code is a new reference.
    unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return None;
        }
        Bound::from_owned_ptr_or_opt(py, ffi::PyFrame_GetCode(frame).cast()).map(Bound::unbind)
    }
}

impl Requests {
    fn of(server: Bound<'_, Server>) -> Requests {
        let last = Mutex::new(Last { request: None, asked: None });
        Requests { server: server.unbind(), last }
    }

    /// Says that the function that runs now asks for the next one.
    fn is_asked(&self, py: Python<'_>) {
        let asked = running(py);
        self.set(|last| std::mem::replace(last, Last { request: None, asked }));
    }

    /// Sets which request the loop is at.
    fn is_at(&self, request: Py<Request>) {
        self.set(|last| last.request.replace(request));
    }

    fn set<F>(&self, change: impl FnOnce(&mut Last) -> F) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let former = change(&mut last);
        // Dropping the former may run Python's code.
        drop(last);
        drop(former);
    }
}

#[pymethods]
impl Requests {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<Request>> {
        // What ends this wait has nothing to do with the former request.
        self.is_asked(py);
        let request = Py::new(py, self.server.get().take(py, Until::NEVER)?)?;
        self.is_at(request.clone_ref(py));
        Ok(request)
    }

    fn _try_next(&self, py: Python<'_>) -> PyResult<Option<Py<Request>>> {
        let Some(request) = self.server.get().try_next(py)? else { return Ok(None) };
        let request = Py::new(py, request)?;
        self.is_at(request.clone_ref(py));
        Ok(Some(request))
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().is_asked(slf.py());
        let ask = slf.getattr("_try_next")?;
        let server = slf.get().server.bind(slf.py());
        slf.py().import("outlive._waiting")?.call_method1("take", (server, ask))
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        let Last { request, asked } = self.last.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(last) = request.take() else { return };
        Python::attach(|py| {
            // Another function has asked: the request is that one's, and what this one raises is
            // not about it.
            if !asked.as_ref().zip(running(py)).is_some_and(|(asked, now)| asked.is(&now)) {
                return;
            }
            // The loop was left by `break`, or is over: the request is the caller's.
            let Some(raised) = PyErr::take(py) else { return };
            let (class, value) = (raised.get_type(py), raised.value(py));
            let why = why(Some(class.as_any()), Some(value.as_any()));
            // What the loop has raised is the news.
            let _ = last.get().leave(py, why);
            raised.restore(py);
        });
    }
}
