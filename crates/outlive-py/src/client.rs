//! `Client`.

use std::sync::Arc;
use std::task::Poll;

use outlive::rpc::{self, CallError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::bytes::Given;
use crate::call::{Call, Lender};
use crate::described::Both;
use crate::errors::{Raise, Raised};
use crate::layout::Layout;
use crate::named::{GivenDomain, Named, Reduced};
use crate::open::{Left, Open};
use crate::rpc_loan::RequestLoan;
use crate::service::Asked;
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached, wait};
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
        let asked = Asked { max_bytes, max_servers, request, reply };
        Client::of(
            asked.make(py, name, domain, rpc::ServiceOptions::open_or_create)?,
            py,
            wait_for_server,
        )
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
        let asked = Asked { max_bytes, max_servers, request, reply };
        Client::of(
            asked.make(py, name, domain, rpc::ServiceOptions::create_new)?,
            py,
            wait_for_server,
        )
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
