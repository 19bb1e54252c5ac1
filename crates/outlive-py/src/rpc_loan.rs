//! `RequestLoan` and `ReplyLoan`: memory for a request or a reply, to be written in place; the other
//! side reads it there.

use std::ffi::c_int;
use std::sync::{Arc, Weak};

use outlive::rpc::{self, CallError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::call::{Call, Lender};
use crate::client::begin_source;
use crate::described::Both;
use crate::errors::{Raise, Raised, reply_failed};
use crate::lent::{LONG, Lent, length};
use crate::named::Named;
use crate::open::{Left, why};
use crate::reply::Reply;
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached, wait};
use crate::writable::Shape;

enum LentRequest {
    Short,
    Long(Box<rpc::RequestLoan<'static>>),
}

/// Memory for a request, made by ``Client.loan``: the server reads it where it was written. ``with``
/// gives a numpy array, or a ``memoryview``, to write; ``call`` or ``begin`` sends it afterwards. A
/// block that raises gives the memory back.
///
/// >>> server, client = Server("sum", folder), Client("sum", folder)
/// >>> loan = client.loan((480, 640), np.uint8)
/// >>> with loan as image:                 # in the service's memory
/// ...     image[:] = 2
/// >>> call = loan.begin()
/// >>> request = server.next(timeout=10)   # in another process, as a rule
/// >>> request.reply(b"%d" % request.numpy(np.uint8).sum())
/// >>> call.result(timeout=10)
/// b'614400'
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct RequestLoan {
    // They are dropped in this order.
    lent: Lent<LentRequest>,
    lender: Arc<Lender>,
    of: Named,
    types: Arc<Both>,
}

impl RequestLoan {
    pub(crate) fn new(
        py: Python<'_>,
        lender: Arc<Lender>,
        shape: Shape,
        of: &Named,
        types: &Arc<Both>,
        until: Until,
    ) -> PyResult<RequestLoan> {
        let len = length(py, &shape.layout)?;
        types.request.check(len)?;
        let lent = if len < LONG {
            Lent::short(LentRequest::Short, len, shape)
        } else {
            let late = || CallError::TimedOut { begun: false };
            let inside = lender.lock_until(py, until)?.ok_or_else(|| late().raise(py))?;
            // SAFETY: the loan lies in an object that keeps the lender, and drops it afterwards.
            let client = unsafe { inside.lender() };
            let lent = wait(py, until, |deadline| match client.loan_until(len, deadline) {
                Err(CallError::TimedOut { .. }) => None,
                other => Some(other),
            })?;
            let mut loan = lent.unwrap_or_else(|| Err(late())).raised(py)?;
            let data = loan.as_mut_ptr();
            Lent::long(LentRequest::Long(Box::new(loan)), data, shape)
        };
        Ok(RequestLoan { lent, lender, of: of.clone(), types: Arc::clone(types) })
    }

    fn send(&self, py: Python<'_>, until: Until) -> PyResult<Call> {
        let mut unsent = self.lent.taken(py)?;
        let begun =
            Call::begin_by(py, &self.lender, &self.of, &self.types, until, |client, deadline| {
                match &mut unsent {
                    LentRequest::Long(loan) => loan.begin_or_keep(deadline),
                    LentRequest::Short => {
                        // SAFETY: the object keeps the memory.
                        client.begin_until(unsafe { self.lent.bytes() }, deadline)
                    }
                }
            });
        if begun.is_err() {
            // It may be sent later.
            self.lent.put_back(unsent);
        }
        begun
    }
}

#[pymethods]
impl RequestLoan {
    /// Sends the request and returns a call, which waits for the reply later, as ``Client.begin``.
    /// After an error, the loan is still there, and may be sent again.
    #[pyo3(signature = (timeout=None))]
    fn begin(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Call> {
        self.send(py, Until::timeout(timeout)?)
    }

    /// Sends the request, waits for the reply, and returns it where it lies. ``CallTimeout`` after so
    /// many seconds: then the call is cancelled.
    #[pyo3(signature = (timeout=None))]
    fn call(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Reply> {
        let until = Until::timeout(timeout)?;
        self.send(py, until)?.reply_or_cancel(py, until)
    }

    /// Sends the request and returns a call, for ``asyncio``, as ``begin``: with ``wait_for_server`` it
    /// waits for a server.
    #[pyo3(signature = (timeout=None))]
    fn begin_async<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (ask, source) = (slf.getattr("begin")?, slf.getattr("_begin_source")?);
        let begin = slf.py().import("outlive._waiting")?;
        begin.call_method1("told_within", (timeout, ask, source))
    }

    /// Sends the request and waits for the reply, for ``asyncio``: ``reply = await loan.call_async()``.
    /// The ``Reply`` is read where it lies. When its task is cancelled, so is the call.
    #[pyo3(signature = (timeout=None))]
    fn call_async<'py>(
        slf: &Bound<'py, Self>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("outlive._waiting")?.call_method1("call_by_loan", (slf, timeout))
    }

    fn _begin_source(&self, py: Python<'_>) -> PyResult<Option<Awaited>> {
        begin_source(py, &self.lender, &self.of)
    }

    /// Gives the memory back unsent.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.lent.discard(py)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().lent.show(slf.as_any())
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = (exc_value, traceback);
        if exc_type.is_none() { self.lent.hide(py) } else { self.lent.discard(py) }
    }

    fn __repr__(&self) -> String {
        self.lent.repr(&self.of, "RequestLoan")
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lent = &raw const slf.get().lent;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory, or by
        // its lender the mapping.
        unsafe { (*lent).fill_in(slf.into_any(), view, flags) }
    }
}

enum LentReply {
    Short(Box<rpc::Request>),
    Long(Box<rpc::ReplyLoan>),
}

/// Memory for the reply to a request, made by ``Request.loan``: the client reads it where it was
/// written. ``with`` gives a numpy array, or a ``memoryview``, to write, and sends the reply at the end
/// of its block; when the block raises, the client gets a ``ServiceError`` with the exception's type
/// and message. See ``Reply`` for an example.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct ReplyLoan {
    part: Arc<LentPart>,
    of: Named,
}

/// What a loan's object and its request's have of the loan: a `with` block of the request's that
/// raises ends the loan, too.
pub(crate) struct LentPart {
    // They are dropped in this order.
    lent: Lent<LentReply>,
    _mapping: Box<dyn Send + Sync>,
}

impl LentPart {
    /// Tells the client why there is no reply, if none was sent.
    pub(crate) fn fail(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        // No client waits any more: what was raised is the news.
        let _ = match self.lent.take(py)? {
            Some(LentReply::Short(request)) => request.fail(why),
            Some(LentReply::Long(loan)) => loan.fail(why),
            None => Ok(()),
        };
        Ok(())
    }
}

impl ReplyLoan {
    /// `take` returns the request, which is answered by the loan from then on; after an error
    /// `put_back` gets it again.
    pub(crate) fn new(
        py: Python<'_>,
        take: impl FnOnce() -> PyResult<rpc::Request>,
        put_back: impl FnOnce(rpc::Request),
        shape: Shape,
        of: &Named,
        types: &Both,
    ) -> PyResult<ReplyLoan> {
        let len = length(py, &shape.layout)?;
        types.reply.check(len)?;
        let request = take()?;
        let mapping = Box::new(request.mapping());
        let lent = if len < LONG {
            Lent::short(LentReply::Short(Box::new(request)), len, shape)
        } else {
            let mut loan = match detached(py, || request.loan_or_keep(len)) {
                Ok(loan) => loan,
                Err(kept) => {
                    let (error, request) = *kept;
                    put_back(request);
                    return Err(reply_failed(py, error));
                }
            };
            let data = loan.as_mut_ptr();
            Lent::long(LentReply::Long(Box::new(loan)), data, shape)
        };
        Ok(ReplyLoan { part: Arc::new(LentPart { lent, _mapping: mapping }), of: of.clone() })
    }

    pub(crate) fn part(&self) -> Weak<LentPart> {
        Arc::downgrade(&self.part)
    }
}

#[pymethods]
impl ReplyLoan {
    /// Sends the reply. Raises ``ClientDied`` or ``Cancelled`` when no client waits for it any more.
    fn send(&self, py: Python<'_>) -> PyResult<()> {
        let sent = match self.part.lent.taken(py)? {
            // SAFETY: the object keeps the memory.
            LentReply::Short(request) => request.reply(unsafe { self.part.lent.bytes() }),
            LentReply::Long(loan) => loan.send(),
        };
        sent.map_err(|error| reply_failed(py, error))
    }

    /// Gives the memory back unsent: the client gets ``Dropped``.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.part.lent.discard(py)
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.get().part.lent.show(slf.as_any())
    }

    #[pyo3(signature = (exc_type=None, exc_value=None, traceback=None))]
    fn __exit__(
        &self,
        py: Python<'_>,
        exc_type: Left<'_, '_>,
        exc_value: Left<'_, '_>,
        traceback: Left<'_, '_>,
    ) -> PyResult<()> {
        let _ = traceback;
        match why(exc_type, exc_value) {
            Some(why) => self.part.fail(py, &why),
            None => self.part.lent.leave(py, false, || self.send(py)),
        }
    }

    fn __repr__(&self) -> String {
        self.part.lent.repr(&self.of, "ReplyLoan")
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lent = &raw const slf.get().part.lent;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory or its
        // mapping.
        unsafe { (*lent).fill_in(slf.into_any(), view, flags) }
    }
}
