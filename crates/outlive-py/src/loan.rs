//! `Loan`: a publisher's memory, to be written in place.
//!
//! An array that the user keeps goes on pointing to the bytes when they have been published. Those
//! of a short message lie in the loan: a copy of it is published, and the loan stays until the
//! object goes. Those of a long one lie in the topic's file, which the publisher keeps mapped.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlive::topic::{self, Header, Outgoing, Publisher};
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::handle_mutex::{HandleMutex, process};
use crate::named::Named;
use crate::open::Left;
use crate::publisher::make_way;
use crate::waiting::Until;
use crate::writable::{Shape, Writable};

/// Memory for a message, made by ``Publisher.loan``.
///
/// >>> topic = Topic("frames", folder)
/// >>> subscriber, publisher = topic.subscriber(), topic.publisher()
/// >>> with publisher.loan(5) as view:
/// ...     view[:] = b"bytes"
/// >>> try:
/// ...     with publisher.loan((480, 640), np.uint8) as image:
/// ...         raise KeyError("no light")
/// ... except KeyError:
/// ...     pass                            # not published
/// >>> bytes(subscriber.recv()), subscriber.try_recv()
/// (b'bytes', None)
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Loan {
    /// Locked for a moment. The bytes of a short message lie in it.
    loan: Mutex<Option<topic::Loan>>,
    /// Whether it was neither published nor given back.
    is_there: AtomicBool,
    header: Option<Header>,
    /// Behind an array may lie its description, which is not shown.
    memory: Writable,
    timeout: Option<f64>,
    process: u32,
    publisher: Arc<HandleMutex<Publisher>>,
    of: Named,
}

fn over() -> PyErr {
    PyRuntimeError::new_err("the loan was published or given back already")
}

impl Loan {
    pub(crate) fn new(
        mut loan: topic::Loan,
        header: Option<Header>,
        shape: Shape,
        timeout: Option<f64>,
        publisher: Arc<HandleMutex<Publisher>>,
        of: Named,
    ) -> Loan {
        let memory = Writable::new(loan.as_mut_ptr(), shape);
        Loan {
            loan: Mutex::new(Some(loan)),
            is_there: AtomicBool::new(true),
            header,
            memory,
            timeout,
            process: process(),
            publisher,
            of,
        }
    }

    fn loan(&self) -> MutexGuard<'_, Option<topic::Loan>> {
        self.loan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the calling thread is the one that publishes it or gives it back.
    fn take(&self) -> bool {
        self.is_there.swap(false, Ordering::AcqRel)
    }

    fn put(&self, py: Python<'_>) -> PyResult<u64> {
        if !self.is_there.load(Ordering::Acquire) {
            return Err(over());
        }
        let mut inside = self.publisher.lock(py)?;
        // Interrupted or timed out: the loan is still there, and may be published later.
        make_way(py, &mut inside, Until::timeout(self.timeout)?)?;
        if !self.take() {
            return Err(over());
        }
        self.memory.hide(py)?;
        let mut place = self.loan();
        let published = match place.take() {
            Some(loan) if loan.is_short() => {
                let message = Outgoing::new(&*loan);
                let published = match self.header {
                    Some(header) => inside.publish(message.header(header)),
                    None => inside.publish(message),
                };
                *place = Some(loan);
                published
            }
            Some(mut loan) => {
                if let Some(header) = self.header {
                    loan.set_header(header);
                }
                inside.publish(loan)
            }
            None => return Err(over()),
        };
        Ok(published.raised(py)?.sequence())
    }

    fn give_back(&self) {
        // In a forked child it belongs to the parent. A short one stays where it is: an array may
        // point there.
        if process() == self.process && self.take() {
            let mut place = self.loan();
            if place.as_ref().is_some_and(|loan| !loan.is_short()) {
                drop(place.take());
            }
        }
    }
}

#[pymethods]
impl Loan {
    /// Publishes the message; returns its number among the publisher's messages.
    fn publish(&self, py: Python<'_>) -> PyResult<u64> {
        self.put(py)
    }

    /// Gives the memory back unpublished.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        self.memory.hide(py)?;
        self.give_back();
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        if !slf.get().is_there.load(Ordering::Acquire) {
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
        if !self.is_there.load(Ordering::Acquire) {
            // Published or given back in the block.
            return Ok(());
        }
        if exc_type.is_none() {
            let published = self.put(py);
            if published.is_err() {
                self.discard(py)?;
            }
            return published.map(|_| ());
        }
        self.discard(py)
    }

    fn __repr__(&self) -> String {
        let state = match self.is_there.load(Ordering::Relaxed) {
            true => format!("{} bytes", self.memory.len()),
            false => "published or given back".to_owned(),
        };
        self.of.repr("Loan", Ok(state))
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        if !this.is_there.load(Ordering::Acquire) {
            return Err(PyBufferError::new_err("the loan was published or given back already"));
        }
        let memory = &raw const this.memory;
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps bytes and
        // publisher.
        unsafe { (*memory).fill_in(slf.into_any(), view, flags) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let loan = self.loan.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if process() != self.process {
            // In a forked child it belongs to the parent.
            std::mem::forget(loan);
        }
    }
}
