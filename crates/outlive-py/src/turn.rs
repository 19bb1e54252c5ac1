//! A handle of the core's that one thread at a time may use, in an object that all Python threads
//! have.
//!
//! A thread that enters while another is inside waits without the interpreter, and can be
//! interrupted. A handle that a thread waits in (`recv` without a timeout) is occupied for that
//! time. `close` drops the handle: a thread that waits inside is told at the end of its slice, and
//! each that comes later at once.
//!
//! In a forked child a thread that was inside does not exist any more: the thread inside is named
//! by its process, by a number that `os.fork` changes.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use outlive::{Deadline, futex};
use pyo3::prelude::*;

use crate::open::closed;
use crate::waiting::{Until, wait};

/// This process's number among its forks: never 0.
static PROCESS: AtomicU32 = AtomicU32::new(1);

/// Called in the child by `os.fork`.
#[pyfunction]
pub(crate) fn _after_fork() {
    PROCESS.fetch_add(1, Ordering::Relaxed);
}

/// Returns which of a process and its forked children this is.
pub(crate) fn process() -> u32 {
    PROCESS.load(Ordering::Relaxed)
}

pub(crate) struct Turn<T> {
    /// 0: none; else the process of the thread that is inside.
    inside: AtomicU32,
    waiting: AtomicU32,
    /// A thread has closed it, or is waiting for its turn to do so.
    is_closing: AtomicBool,
    /// `None` once it is closed.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: only the thread that is inside reaches the value, one at a time.
unsafe impl<T: Send> Sync for Turn<T> {}

impl<T> Turn<T> {
    pub(crate) fn new(value: T) -> Turn<T> {
        Turn {
            inside: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// Enters, waiting for the thread that is inside.
    pub(crate) fn enter(&self, py: Python<'_>) -> PyResult<Inside<'_, T>> {
        match self.enter_until(py, Until::NEVER)? {
            Some(inside) => Ok(inside),
            None => unreachable!("there is no deadline"),
        }
    }

    /// Enters; returns `None` when that took too long. Raises `ValueError` once it is closed.
    pub(crate) fn enter_until(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<Inside<'_, T>>> {
        let inside = match self.try_enter() {
            Some(inside) => Some(inside),
            None => self.enter_slow(py, until)?,
        };
        match inside {
            Some(inside) if inside.is_closed() => Err(closed()),
            None if self.is_closing() => Err(closed()),
            inside => Ok(inside),
        }
    }

    /// Closes it, when the thread that is inside leaves, and returns the value. `None`: it was
    /// closed before.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<Option<T>> {
        // Relaxed: a thread that does not see it yet waits for one more slice.
        self.is_closing.store(true, Ordering::Relaxed);
        let inside = match self.try_enter() {
            Some(inside) => Some(inside),
            None => self.enter_slow(py, Until::NEVER)?,
        };
        Ok(inside.and_then(|mut inside| inside.value_mut().take()))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Enters if no thread is inside.
    pub(crate) fn try_enter(&self) -> Option<Inside<'_, T>> {
        let process = process();
        let found = self.inside.load(Ordering::Relaxed);
        if found == process {
            return None;
        }
        // Acquire pairs with the Release in `Inside`'s drop: this thread sees what was done to the
        // value.
        let changed =
            self.inside.compare_exchange(found, process, Ordering::Acquire, Ordering::Relaxed);
        // Lazily: one that was made and dropped would let the other thread out.
        changed.is_ok().then(|| Inside { turn: self })
    }

    #[cold]
    fn enter_slow(&self, py: Python<'_>, until: Until) -> PyResult<Option<Inside<'_, T>>> {
        // SeqCst, with the swap in the drop and the look in `try_enter` that follows: one of the
        // two threads sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let came = wait(py, until, |deadline| {
            self.try_enter().or_else(|| {
                // Whatever it returns: look again.
                let _ = futex::wait(&self.inside, process(), deadline);
                self.try_enter()
            })
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        came
    }
}

/// Exclusive access to the value.
pub(crate) struct Inside<'t, T> {
    turn: &'t Turn<T>,
}

impl<T> Inside<'_, T> {
    fn value_mut(&mut self) -> &mut Option<T> {
        // SAFETY: this thread is inside, alone, and there is one `Inside`.
        unsafe { &mut *self.turn.value.get() }
    }

    fn is_closed(&self) -> bool {
        // SAFETY: this thread is inside, alone.
        unsafe { (*self.turn.value.get()).is_none() }
    }

    /// Waits as [`wait`] does, with the value, and raises `ValueError` when another thread wants to
    /// close it meanwhile.
    pub(crate) fn wait<R>(
        &mut self,
        py: Python<'_>,
        until: Until,
        mut once: impl FnMut(&mut T, Deadline) -> Option<R>,
    ) -> PyResult<Option<R>> {
        let turn = self.turn;
        let found = wait(py, until, |deadline| match once(self, deadline) {
            None if turn.is_closing() => Some(None),
            found => found.map(Some),
        })?;
        match found {
            Some(None) => Err(closed()),
            found => Ok(found.flatten()),
        }
    }
}

/// What keeps [`Deref`] from failing.
const NOT_CLOSED: &str =
    "who enters has found that it is not closed, and only one inside closes it";

impl<T> Deref for Inside<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread is inside, alone.
        match unsafe { &*self.turn.value.get() } {
            Some(value) => value,
            None => unreachable!("{NOT_CLOSED}"),
        }
    }
}

impl<T> DerefMut for Inside<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.value_mut() {
            Some(value) => value,
            None => unreachable!("{NOT_CLOSED}"),
        }
    }
}

impl<T> Drop for Inside<'_, T> {
    fn drop(&mut self) {
        self.turn.inside.swap(0, Ordering::SeqCst);
        if self.turn.waiting.load(Ordering::SeqCst) != 0 {
            // It cannot fail; if it did, a waiter would look again at the end of its slice.
            let _ = futex::wake(&self.turn.inside, 1);
        }
    }
}
