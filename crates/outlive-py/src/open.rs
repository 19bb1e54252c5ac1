//! A handle of the core's that all threads share, until its object is closed.
//!
//! A thread that uses the handle when another closes the object goes on with it; the memory is
//! unmapped when the last of them has finished. Handles that one thread at a time may use close by
//! their `turn`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Locked for a moment, with nothing of Python's inside.
pub(crate) struct Open<T>(Mutex<Option<Arc<T>>>);

impl<T> Open<T> {
    pub(crate) fn new(handle: T) -> Open<T> {
        Open::of(Arc::new(handle))
    }

    pub(crate) fn of(handle: Arc<T>) -> Open<T> {
        Open(Mutex::new(Some(handle)))
    }

    /// Returns the handle, unless the object was closed.
    pub(crate) fn get(&self) -> PyResult<Arc<T>> {
        self.lock().clone().ok_or_else(closed)
    }

    /// Closes the object: the handle is dropped now, or by the last thread that uses it.
    pub(crate) fn close(&self) {
        // Unlocked before the drop.
        let handle = self.lock().take();
        drop(handle);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error of an object that is used after `close`, as files have it.
pub(crate) fn closed() -> PyErr {
    PyValueError::new_err("the object is closed: open another")
}

/// One of the three arguments of `__exit__`.
pub(crate) type Left<'a, 'py> = Option<&'a Bound<'py, PyAny>>;
/// Says what a `with` block has raised, as the last line of a traceback does; `None`: nothing.
pub(crate) fn why(exc_type: Left<'_, '_>, exc_value: Left<'_, '_>) -> Option<String> {
    let exc_type = exc_type.filter(|exc_type| !exc_type.is_none())?;
    let class = exc_type.getattr("__name__").map(|name| name.to_string());
    let class = class.unwrap_or_else(|_| exc_type.to_string());
    // An exception whose `str` raises has its class alone.
    let message = exc_value.and_then(|value| value.str().ok());
    match message.map(|message| message.to_string_lossy().into_owned()) {
        Some(message) if !message.is_empty() => Some(format!("{class}: {message}")),
        _ => Some(class),
    }
}
