//! `PartLoan` and `StreamLoan`: memory for a part of a request or for a reply of a stream, to be written in
//! place; the other side reads it there.
//! A part always lies in the service's memory.

use std::ffi::c_int;

use outlive::{SendError, rpc};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::call::Call;
use crate::errors::Raise;
use crate::layout::Layout;
use crate::lent::{Lent, length};
use crate::named::Named;
use crate::open::Left;
use crate::stream::Stream;
use crate::waiting::Until;
use crate::writable::Shape;

/// Memory for a part of a request, made by ``Call.loan`` of a call that ``Client.stream`` returned: the
/// server reads it where it was written. ``with`` gives a numpy array, or a ``memoryview``, to write, and
/// sends the part at the end of its block; when the block raises, the memory goes back, and the call goes
/// on.
///
/// >>> server, client = Server("film", folder), Client("film", folder)
/// >>> film = client.stream(b"holiday")
/// >>> with film.loan((480, 640), np.uint8) as image:        # in the service's memory
/// ...     image[:] = 2
/// >>> film.finish()
/// >>> with server.next(timeout=10).stream() as replies:     # in another process, as a rule
/// ...     image = np.frombuffer(replies.next_part(), np.uint8)
/// ...     with replies.loan(1, np.uint64) as total:
/// ...         total[0] = image.sum()
/// >>> int(film.reply(timeout=10).numpy(np.uint64)[0])
/// 614400
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct PartLoan {
    lent: Lent<rpc::LentPart>,
    /// Whose part it is. It keeps the mapping.
    call: Py<Call>,
    of: Named,
}

impl PartLoan {
    pub(crate) fn new(call: &Bound<'_, Call>, mut part: rpc::LentPart, shape: Shape) -> PartLoan {
        let data = part.bytes().as_mut_ptr();
        let of = call.get().of().clone();
        PartLoan { lent: Lent::long(part, data, shape), call: call.clone().unbind(), of }
    }
}

#[pymethods]
impl PartLoan {
    /// Sends the part. Never waits. Raises ``Answered`` when the server has replied already, and takes no
    /// more parts; ``Full`` when other parts have taken the place since it was lent: of several loans open
    /// at once, no more go than there are places. Then the loan has its part still, for another ``send``.
    fn send(&self, py: Python<'_>) -> PyResult<()> {
        let part = self.lent.taken(py)?;
        match self.call.get().send_lent(py, part)? {
            None => Ok(()),
            Some(back) => {
                self.lent.put_back(back);
                Err(SendError::Full { slowest: None }.raise(py))
            }
        }
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
        self.lent.leave(py, exc_type.is_some(), || self.send(py))
    }

    fn __repr__(&self) -> String {
        self.lent.repr(&self.of, "PartLoan")
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lent = &raw const slf.get().lent;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps by its call the
        // mapping.
        unsafe { (*lent).fill_in(slf.into_any(), view, flags) }
    }
}

/// A short reply is copied when it is sent.
pub(crate) enum Reply {
    Short,
    Long(Box<rpc::LentReply>),
}

/// Memory for a reply of a stream, made by ``Stream.loan``: the client reads it where it was written.
/// ``with`` gives a numpy array, or a ``memoryview``, to write, and sends the reply at the end of its
/// block; when the block raises, the memory goes back, and the stream goes on. See ``PartLoan`` for an
/// example.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct StreamLoan {
    lent: Lent<Reply>,
    stream: Py<Stream>,
    _mapping: Box<dyn Send + Sync>,
    of: Named,
}

impl StreamLoan {
    /// `lent`: the memory of a long reply.
    pub(crate) fn new(
        py: Python<'_>,
        stream: &Bound<'_, Stream>,
        lent: Option<rpc::LentReply>,
        shape: Shape,
        mapping: Box<dyn Send + Sync>,
    ) -> PyResult<StreamLoan> {
        let len = length(py, &shape.layout)?;
        let lent = match lent {
            Some(mut reply) => {
                let data = reply.bytes().as_mut_ptr();
                Lent::long(Reply::Long(Box::new(reply)), data, shape)
            }
            None => Lent::short(Reply::Short, len, shape),
        };
        let of = stream.get().of.clone();
        Ok(StreamLoan { lent, stream: stream.clone().unbind(), _mapping: mapping, of })
    }
}

#[pymethods]
impl StreamLoan {
    /// Sends the reply. Never waits. Raises ``ClientDied`` or ``Cancelled`` when no client waits for it
    /// any more; ``Full`` when other replies have taken the place since it was lent: of several loans
    /// open at once, no more go than there are places. The reply is lost then.
    fn send(&self, py: Python<'_>) -> PyResult<()> {
        let reply = self.lent.taken(py)?;
        // SAFETY: the object keeps the memory.
        self.stream.get().send_lent(py, reply, unsafe { self.lent.bytes() })
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
        self.lent.leave(py, exc_type.is_some(), || self.send(py))
    }

    fn __repr__(&self) -> String {
        self.lent.repr(&self.of, "StreamLoan")
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let lent = &raw const slf.get().lent;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps the memory or its
        // mapping.
        unsafe { (*lent).fill_in(slf.into_any(), view, flags) }
    }
}

/// Reads the shape of a loan, and how many bytes that are.
pub(crate) fn asked(
    py: Python<'_>,
    shape: &Bound<'_, PyAny>,
    dtype: Option<&Bound<'_, PyAny>>,
    timeout: Option<f64>,
) -> PyResult<(Shape, usize, Until)> {
    let shape = Shape::of(shape, dtype, Layout::of_type)?;
    let len = length(py, &shape.layout)?;
    Ok((shape, len, Until::timeout(timeout)?))
}
