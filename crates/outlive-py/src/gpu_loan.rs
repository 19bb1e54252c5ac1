//! `GpuLoan`: a GPU's memory for a message that will be published.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use outlive::Deadline;
use outlive_gpu::{GpuError, Stream};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::Raised;
use crate::gpu_array::GpuArray;
use crate::handle_mutex::HandleMutex;
use crate::open::Left;
use crate::waiting::{Until, detached, wait};

/// No subscriber was in the way at the last look: time for one that came since.
const MOMENT: Duration = Duration::from_secs(1);

/// What is lent. Dropped, it is given back.
pub(crate) trait Lent: Send {
    /// Returns the mutex of the threads that publish by the same publisher.
    fn publishing(&self) -> Arc<HandleMutex<()>>;
    /// Waits until no reliable subscriber is in the way.
    fn wait_writable(&self, deadline: Deadline) -> Result<(), GpuError>;
    /// Publishes it when the stream has completed all work enqueued so far.
    fn publish(self: Box<Self>, stream: &Stream, deadline: Deadline) -> Result<(), GpuError>;
}

/// A GPU's memory for a message, made by ``Topic.loan_gpu``. For ``with``, which publishes it when
/// its block ends, as soon as the stream has got there.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct GpuLoan {
    /// Until it is published or given back.
    lent: Mutex<Option<Box<dyn Lent>>>,
    array: Py<GpuArray>,
    stream: Stream,
    timeout: Option<f64>,
}

impl GpuLoan {
    pub(crate) fn new(
        py: Python<'_>,
        lent: Box<dyn Lent>,
        array: GpuArray,
        stream: Stream,
        timeout: Option<f64>,
    ) -> PyResult<GpuLoan> {
        Ok(GpuLoan { lent: Mutex::new(Some(lent)), array: Py::new(py, array)?, stream, timeout })
    }

    fn take(&self) -> Option<Box<dyn Lent>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Puts it back where it was, to be published later.
    fn put_back(&self, lent: Box<dyn Lent>) {
        *self.lent.lock().unwrap_or_else(PoisonError::into_inner) = Some(lent);
    }
}

/// Waits until no reliable subscriber is in the way.
fn make_way(py: Python<'_>, lent: &dyn Lent, timeout: Option<f64>) -> PyResult<()> {
    let clear =
        wait(py, Until::timeout(timeout)?, |deadline| match lent.wait_writable(deadline) {
            Err(GpuError::TimedOut) => None,
            other => Some(other),
        })?;
    clear.unwrap_or(Err(GpuError::TimedOut)).raised(py)
}

#[pymethods]
impl GpuLoan {
    /// Publishes the message when the stream has completed all work enqueued so far.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let over = || PyRuntimeError::new_err("the loan was published or given back already");
        let lent = self.take().ok_or_else(over)?;
        // Interrupted or timed out: the loan is still there, and may be published later.
        let publishing = lent.publishing();
        let inside = publishing
            .lock(py)
            .and_then(|inside| make_way(py, &*lent, self.timeout).map(|()| inside));
        let _inside = match inside {
            Ok(inside) => inside,
            Err(error) => {
                self.put_back(lent);
                return Err(error);
            }
        };
        detached(py, || lent.publish(&self.stream, Deadline::after(MOMENT))).raised(py)
    }

    /// Gives the memory back unpublished.
    fn discard(&self, py: Python<'_>) {
        let lent = self.take();
        detached(py, || drop(lent));
    }

    fn __enter__(&self, py: Python<'_>) -> Py<GpuArray> {
        self.array.clone_ref(py)
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
        let is_there = self.lent.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        if !is_there {
            // Published or given back in the block.
            return Ok(());
        }
        let published = if exc_type.is_none() { self.publish(py) } else { Ok(()) };
        self.discard(py);
        published
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let is_there = self.lent.lock().unwrap_or_else(PoisonError::into_inner).is_some();
        let state = if is_there { "" } else { ", published or given back" };
        Ok(format!("<GpuLoan of {}{state}>", self.array.bind(py).repr()?))
    }
}
