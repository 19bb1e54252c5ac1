//! A handle of the core's that one thread at a time may use, in an object that all Python threads
//! have.
//!
//! A thread that locks it while another has it waits without the interpreter, and can be
//! interrupted. A handle that a thread waits in (`recv` without a timeout) is occupied for that
//! time.
//!
//! In a forked child a thread that had it does not exist any more: the owner is named by its
//! process, by a number that `os.fork` changes.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::futex;
use pyo3::prelude::*;

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

/// See the file's head.
pub(crate) struct HandleMutex<T> {
    /// 0: free; else the process of the thread that has it.
    owner: AtomicU32,
    waiting: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: only the thread that has the mutex reaches the value, one at a time.
unsafe impl<T: Send> Sync for HandleMutex<T> {}

impl<T> HandleMutex<T> {
    pub(crate) fn new(value: T) -> HandleMutex<T> {
        HandleMutex {
            owner: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks it, waiting for the thread that has it.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<HandleGuard<'_, T>> {
        match self.lock_until(py, Until::NEVER)? {
            Some(guard) => Ok(guard),
            None => unreachable!("there is no deadline"),
        }
    }

    /// Locks it; returns `None` when that took too long.
    pub(crate) fn lock_until(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<HandleGuard<'_, T>>> {
        match self.try_lock() {
            Some(guard) => Ok(Some(guard)),
            None => self.lock_slow(py, until),
        }
    }

    /// Locks it if no thread has it.
    pub(crate) fn try_lock(&self) -> Option<HandleGuard<'_, T>> {
        let process = process();
        let found = self.owner.load(Ordering::Relaxed);
        if found == process {
            return None;
        }
        // Acquire pairs with the Release in `HandleGuard`'s drop: this thread sees what was done to
        // the value.
        let changed =
            self.owner.compare_exchange(found, process, Ordering::Acquire, Ordering::Relaxed);
        // Lazily: one that was made and dropped would free the mutex.
        changed.is_ok().then(|| HandleGuard { handle: self })
    }

    #[cold]
    fn lock_slow(&self, py: Python<'_>, until: Until) -> PyResult<Option<HandleGuard<'_, T>>> {
        // SeqCst, with the swap in the drop and the look in `try_lock` that follows: one of the
        // two threads sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let came = wait(py, until, |deadline| {
            self.try_lock().or_else(|| {
                // Whatever it returns: look again.
                let _ = futex::wait(&self.owner, process(), deadline);
                self.try_lock()
            })
        });
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        came
    }
}

/// Exclusive access to the value.
pub(crate) struct HandleGuard<'t, T> {
    handle: &'t HandleMutex<T>,
}

impl<T> Deref for HandleGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread alone has the mutex.
        unsafe { &*self.handle.value.get() }
    }
}

impl<T> DerefMut for HandleGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread alone has the mutex, and there is one `HandleGuard`.
        unsafe { &mut *self.handle.value.get() }
    }
}

impl<T> Drop for HandleGuard<'_, T> {
    fn drop(&mut self) {
        self.handle.owner.swap(0, Ordering::SeqCst);
        if self.handle.waiting.load(Ordering::SeqCst) != 0 {
            // It cannot fail; if it did, a waiter would look again at the end of its slice.
            let _ = futex::wake(&self.handle.owner, 1);
        }
    }
}
