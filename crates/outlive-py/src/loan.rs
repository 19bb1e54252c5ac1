//! `Loan`: a publisher's memory, to be written in place.
//!
//! The loan lies in a box that stays until the object goes: the bytes of a short message lie in
//! there, and an array that the user keeps goes on pointing to them when they have been published.
//! Those of a long one lie in the topic's file, which the publisher keeps mapped.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use outlive::topic;
use pyo3::exceptions::{PyBufferError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use pyo3::{ffi, intern};

use crate::layout::Layout;
use crate::sample::{ASARRAY, WEAK_REFERENCE};
use crate::topic::Lender;
use crate::turn::process;
use crate::waiting::Until;

type Place = Box<MaybeUninit<topic::Loan<'static>>>;

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
#[pyclass(module = "outlive", frozen)]
pub(crate) struct Loan {
    place: Place,
    /// Whether `place` still holds a loan.
    is_there: AtomicBool,
    data: *mut u8,
    len: usize,
    layout: Layout,
    is_array: bool,
    timeout: Option<f64>,
    process: u32,
    /// What the block got: a weak reference to the array, or the memoryview.
    shown: Mutex<Option<Py<PyAny>>>,
    lender: Arc<Lender>,
}

// SAFETY: only the thread that swaps `is_there` to false takes the place, once; the user writes the
// bytes at `data` by Python's means.
unsafe impl Send for Loan {}
// SAFETY: the place is taken by an atomic swap; the user writes the bytes at `data` by Python's
// means.
unsafe impl Sync for Loan {}

impl Loan {
    pub(crate) fn new(
        loan: topic::Loan<'static>,
        layout: Layout,
        is_array: bool,
        timeout: Option<f64>,
        lender: Arc<Lender>,
    ) -> Loan {
        let len = loan.len();
        let mut place: Place = Box::new(MaybeUninit::new(loan));
        // SAFETY: just written; in a box, so it does not move.
        let data = unsafe { place.assume_init_mut() }.as_mut_ptr();
        let shown = Mutex::new(None);
        let is_there = AtomicBool::new(true);
        Loan {
            place,
            is_there,
            data,
            len,
            layout,
            is_array,
            timeout,
            process: process(),
            shown,
            lender,
        }
    }

    fn take(&self) -> Option<topic::Loan<'static>> {
        // SAFETY: it was there, and the swap says that no other thread takes it. Its bytes stay
        // where they are.
        self.is_there
            .swap(false, Ordering::AcqRel)
            .then(|| unsafe { self.place.assume_init_read() })
    }

    /// Makes what the block got read-only.
    fn hide(&self, py: Python<'_>) -> PyResult<()> {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(shown) = shown else { return Ok(()) };
        let shown = shown.into_bound(py);
        if self.is_array {
            let array = shown.call0()?;
            if !array.is_none() {
                array.call_method1(intern!(py, "setflags"), (false,))?;
            }
        } else if let Err(error) = shown.call_method0(intern!(py, "release")) {
            // There are views of it, which the user has to leave alone.
            if !error.is_instance_of::<PyBufferError>(py) {
                return Err(error);
            }
        }
        Ok(())
    }

    fn put(&self, py: Python<'_>) -> PyResult<u64> {
        let over = || PyRuntimeError::new_err("the loan was published or given back already");
        if !self.is_there.load(Ordering::Acquire) {
            return Err(over());
        }
        let inside = self.lender.enter(py)?;
        // Interrupted or timed out: the loan is still there, and may be published later.
        inside.make_way(py, Until::timeout(self.timeout)?)?;
        let loan = self.take().ok_or_else(over)?;
        self.hide(py)?;
        inside.publish(py, loan)
    }

    fn give_back(&self) {
        // In a forked child it belongs to the parent.
        if process() == self.process
            && let Some(loan) = self.take()
        {
            self.lender.give_back(loan);
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
        self.hide(py)?;
        self.give_back();
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let (view, keep) = if this.is_array {
            let array = ASARRAY.get(py)?.call1((slf,))?;
            // By a weak reference: the array refers to this object.
            let weak = WEAK_REFERENCE.get(py)?.call1((&array,))?;
            (array, weak)
        } else {
            let view = PyMemoryView::from(slf.as_any())?.into_any();
            (view.clone(), view)
        };
        let before =
            this.shown.lock().unwrap_or_else(PoisonError::into_inner).replace(keep.unbind());
        // Unlocked: the drop may run any code.
        drop(before);
        Ok(view)
    }

    #[pyo3(signature = (raised, *_more))]
    fn __exit__(
        &self,
        py: Python<'_>,
        raised: &Bound<'_, PyAny>,
        _more: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        if !self.is_there.load(Ordering::Acquire) {
            // Published or given back in the block.
            return Ok(());
        }
        if raised.is_none() {
            let published = self.put(py);
            if published.is_err() {
                self.discard(py)?;
            }
            return published.map(|_| ());
        }
        self.discard(py)
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
        let (data, len, layout) = (this.data, this.len, &raw const this.layout);
        // SAFETY: the view of `__getbuffer__`; the object does not move, and keeps layout, bytes
        // and publisher.
        unsafe { (*layout).show(view, flags, slf.into_any(), data, len, false) }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        self.give_back();
    }
}
