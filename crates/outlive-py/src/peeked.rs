//! `Peeked`: a message that is still in its queue.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::Raised;
use crate::handle_mutex::process;
use crate::open::Left;
use crate::queue::Queue;

/// A message that was peeked at and is still in the queue, returned by ``Queue.peek``.
///
/// >>> queue = Queue("jobs", folder)
/// >>> queue.send(b"weld")
/// >>> try:
/// ...     with queue.peek() as job:
/// ...         raise OSError("no gas")
/// ... except OSError:
/// ...     pass                                # it stays
/// >>> with queue.peek() as job:               # taken out at the end of the block
/// ...     job.data, job.redelivered
/// (b'weld', False)
/// >>> queue.try_recv() is None
/// True
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct Peeked {
    queue: Py<Queue>,
    /// The value of the queue's `taken`.
    at: u64,
    data: Py<PyBytes>,
    redelivered: bool,
    committed: AtomicBool,
}

impl Peeked {
    pub(crate) fn new(queue: Py<Queue>, at: u64, data: Py<PyBytes>, redelivered: bool) -> Peeked {
        Peeked { queue, at, data, redelivered, committed: AtomicBool::new(false) }
    }
}

#[pymethods]
impl Peeked {
    /// The message's bytes.
    #[getter]
    fn data<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        self.data.bind(py).clone()
    }

    /// Whether an earlier receiver got it too and died before it committed it: it may have acted on
    /// it.
    #[getter]
    fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Takes the message out of the queue for good. Raises ``RuntimeError`` if it is gone already:
    /// by a commit, by a ``recv``, or because the queue was closed.
    fn commit(&self, py: Python<'_>) -> PyResult<()> {
        let queue = self.queue.get();
        let over = || {
            PyRuntimeError::new_err(
                "the message has been taken out of the queue already, or the queue was closed",
            )
        };
        let mut inside = queue.ends.receiver.lock(py)?;
        let receiver = match &mut *inside {
            Some((of, receiver))
                if *of == process() && queue.ends.taken.load(Ordering::Relaxed) == self.at =>
            {
                receiver
            }
            _ => return Err(over()),
        };
        // The same message: no thread has taken it since.
        receiver.try_peek().raised(py)?.ok_or_else(over)?.commit();
        queue.ends.taken.fetch_add(1, Ordering::Relaxed);
        self.committed.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.data.bind(py).as_bytes().len()
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
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
        if exc_type.is_none() && !self.committed.load(Ordering::Relaxed) {
            self.commit(py)
        } else {
            Ok(())
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let state = match self.committed.load(Ordering::Relaxed) {
            true => "committed".to_owned(),
            false => format!("{} bytes", self.__len__(py)),
        };
        self.queue.get().ends.named.repr("Peeked", Ok(state))
    }
}
