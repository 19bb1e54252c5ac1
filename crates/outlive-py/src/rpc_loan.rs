//! `RequestLoan` and `ReplyLoan`: memory for a request or a reply, to be written in place; the other
//! side reads it there.
//!
//! A short one lies in the loan's object and is copied when it is sent: an array may point to it
//! afterwards. A long one lies in the service's memory, which the object keeps mapped.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use outlive::rpc::{self, CallError};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::call::{Call, Lender};
use crate::described::Both;
use crate::errors::{Raise, Raised, raise, reply_failed};
use crate::layout::Layout;
use crate::named::Named;
use crate::open::{Left, why};
use crate::reply::Reply;
use crate::service::begin_source;
use crate::wait_set::Awaited;
use crate::waiting::{Until, detached, wait};
use crate::writable::{Shape, Writable};

/// From so many bytes on, a loan is the service's memory: more than any slot holds.
pub(crate) const LONG: usize = 4096;

fn over() -> PyErr {
    PyRuntimeError::new_err("the loan was sent or given back already")
}

/// Returns the memory of a short loan: as words, for its alignment.
pub(crate) fn short(len: usize) -> Box<[u64]> {
    vec![0; len.div_ceil(8)].into_boxed_slice()
}

/// What is still to be sent. Locked for a moment, never during a wait.
struct Unsent<T>(Mutex<Option<T>>);

impl<T> Unsent<T> {
    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> PyResult<T> {
        self.lock().take().ok_or_else(over)
    }

    fn is_there(&self) -> bool {
        self.lock().is_some()
    }
}

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
    unsent: Unsent<LentRequest>,
    memory: Writable,
    _short: Option<Box<[u64]>>,
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
        let (unsent, data, own) = if len < LONG {
            let mut own = short(len);
            (LentRequest::Short, own.as_mut_ptr().cast(), Some(own))
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
            (LentRequest::Long(Box::new(loan)), data, None)
        };
        Ok(RequestLoan {
            unsent: Unsent(Mutex::new(Some(unsent))),
            memory: Writable::new(data, shape),
            _short: own,
            lender,
            of: of.clone(),
            types: Arc::clone(types),
        })
    }

    fn send(&self, py: Python<'_>, until: Until) -> PyResult<Call> {
        self.memory.hide(py)?;
        let mut unsent = self.unsent.take()?;
        let begun =
            Call::begin_by(py, &self.lender, &self.of, &self.types, until, |client, deadline| {
                match &mut unsent {
                    LentRequest::Long(loan) => loan.begin_or_keep(deadline),
                    LentRequest::Short => {
                        // SAFETY: the object keeps the memory.
                        client.begin_until(unsafe { self.memory.bytes() }, deadline)
                    }
                }
            });
        if begun.is_err() {
            // It may be sent later.
            *self.unsent.lock() = Some(unsent);
        }
        begun
    }
}

/// Returns how many bytes a loan of that layout has.
pub(crate) fn length(py: Python<'_>, layout: &Layout) -> PyResult<usize> {
    layout.len().ok_or_else(|| raise(py, "TooLarge", "more bytes than a message can have"))
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
        self.memory.hide(py)?;
        let unsent = self.unsent.lock().take();
        drop(unsent);
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if !slf.get().unsent.is_there() {
            return Err(over());
        }
        slf.get().memory.show(slf.as_any())
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
        if exc_type.is_none() { self.memory.hide(py) } else { self.discard(py) }
    }

    fn __repr__(&self) -> String {
        let state = match self.unsent.is_there() {
            true => format!("{} bytes", self.memory.len()),
            false => "sent or given back".to_owned(),
        };
        self.of.repr("RequestLoan", Ok(state))
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if !slf.get().unsent.is_there() {
            return Err(PyBufferError::new_err("the loan was sent or given back already"));
        }
        let memory = &raw const slf.get().memory;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory, or by
        // its lender the mapping.
        unsafe { (*memory).fill_in(slf.into_any(), view, flags) }
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
    unsent: Unsent<LentReply>,
    memory: Writable,
    _short: Option<Box<[u64]>>,
    _mapping: Box<dyn Send + Sync>,
}

impl LentPart {
    /// Tells the client why there is no reply, if none was sent.
    pub(crate) fn fail(&self, py: Python<'_>, why: &str) -> PyResult<()> {
        self.memory.hide(py)?;
        let unsent = self.unsent.lock().take();
        // No client waits any more: what was raised is the news.
        let _ = match unsent {
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
        let (unsent, data, own) = if len < LONG {
            let mut own = short(len);
            (LentReply::Short(Box::new(request)), own.as_mut_ptr().cast(), Some(own))
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
            (LentReply::Long(Box::new(loan)), data, None)
        };
        let part = LentPart {
            unsent: Unsent(Mutex::new(Some(unsent))),
            memory: Writable::new(data, shape),
            _short: own,
            _mapping: mapping,
        };
        Ok(ReplyLoan { part: Arc::new(part), of: of.clone() })
    }

    pub(crate) fn part(&self) -> Weak<LentPart> {
        Arc::downgrade(&self.part)
    }
}

#[pymethods]
impl ReplyLoan {
    /// Sends the reply. Raises ``ClientDied`` or ``Cancelled`` when no client waits for it any more.
    fn send(&self, py: Python<'_>) -> PyResult<()> {
        self.part.memory.hide(py)?;
        let sent = match self.part.unsent.take()? {
            // SAFETY: the object keeps the memory.
            LentReply::Short(request) => request.reply(unsafe { self.part.memory.bytes() }),
            LentReply::Long(loan) => loan.send(),
        };
        sent.map_err(|error| reply_failed(py, error))
    }

    /// Gives the memory back unsent: the client gets ``Dropped``.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.part.memory.hide(py)?;
        let unsent = self.part.unsent.lock().take();
        drop(unsent);
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if !slf.get().part.unsent.is_there() {
            return Err(over());
        }
        slf.get().part.memory.show(slf.as_any())
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
            // Sent or given back in the block.
            None if !self.part.unsent.is_there() => Ok(()),
            None => self.send(py),
        }
    }

    fn __repr__(&self) -> String {
        let state = match self.part.unsent.is_there() {
            true => format!("{} bytes", self.part.memory.len()),
            false => "sent or given back".to_owned(),
        };
        self.of.repr("ReplyLoan", Ok(state))
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if !slf.get().part.unsent.is_there() {
            return Err(PyBufferError::new_err("the loan was sent or given back already"));
        }
        let memory = &raw const slf.get().part.memory;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory or its
        // mapping.
        unsafe { (*memory).fill_in(slf.into_any(), view, flags) }
    }
}
