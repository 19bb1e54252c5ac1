//! A handle of the core's that one thread at a time may use, in an object that all Python threads
//! have.
//!
//! A thread that locks it while another has it waits without the interpreter, and can be
//! interrupted. A handle that a thread waits in (`recv` without a timeout) is occupied for that
//! time. `close` drops the handle: a thread that waits with it is told at the end of its slice, and
//! each that comes later at once.
//!
//! A signal's handler runs inside the wait that it interrupts, so its thread may have the handle
//! already, and would wait for itself. It can close the handle all the same: the interrupted call
//! drops it when it ends. Any other use raises `RuntimeError`, as a reentrant call of `io` does.
//!
//! In a forked child a thread that had it does not exist any more: the owner is named by its
//! process, by a number that `os.fork` changes.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use outlive::{Deadline, futex};
use pyo3::exceptions::PyRuntimeError;
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

/// Returns a number of the calling thread's, never 0, which no other living thread of this process
/// has.
fn here() -> usize {
    thread_local! { static HERE: u8 = const { 0 } }
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

/// See the file's head.
pub(crate) struct HandleMutex<T> {
    /// 0: free; else the process of the thread that has it.
    owner: AtomicU32,
    /// The thread that has it: see [`here`]. Other threads read of it only that it is not theirs.
    thread: AtomicUsize,
    waiting: AtomicU32,
    /// A thread has closed it, or is waiting for the mutex to do so.
    is_closing: AtomicBool,
    /// The thread that has it has closed it, in a signal's handler; no other thread reads or writes.
    closes_at_end: AtomicBool,
    /// `None` once it is closed.
    value: UnsafeCell<Option<T>>,
}

// SAFETY: only the thread that has the mutex reaches the value, one at a time.
unsafe impl<T: Send> Sync for HandleMutex<T> {}

impl<T> HandleMutex<T> {
    pub(crate) fn new(value: T) -> HandleMutex<T> {
        HandleMutex {
            owner: AtomicU32::new(0),
            thread: AtomicUsize::new(0),
            waiting: AtomicU32::new(0),
            is_closing: AtomicBool::new(false),
            closes_at_end: AtomicBool::new(false),
            value: UnsafeCell::new(Some(value)),
        }
    }

    /// Locks it, waiting for the thread that has it.
    pub(crate) fn lock(&self, py: Python<'_>) -> PyResult<HandleGuard<'_, T>> {
        match self.lock_until(py, Until::NEVER)? {
            Some(guard) => Ok(guard),
            None => unreachable!("there is no deadline"),
        }
    }

    /// Locks it; returns `None` when that took too long. Raises `ValueError` once it is closed.
    pub(crate) fn lock_until(
        &self,
        py: Python<'_>,
        until: Until,
    ) -> PyResult<Option<HandleGuard<'_, T>>> {
        let guard = match self.try_lock_even_closed() {
            Some(guard) => Some(guard),
            None => self.lock_slow(py, until)?,
        };
        match guard {
            Some(guard) if guard.is_closed() => Err(closed()),
            None if self.is_closing() => Err(closed()),
            guard => Ok(guard),
        }
    }

    /// Closes it, when the thread that has it lets it go, and returns the value. `None`: it was
    /// closed before, or this thread has it and drops the value when it lets it go.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<Option<T>> {
        // Relaxed: a thread that does not see it yet waits for one more slice.
        self.is_closing.store(true, Ordering::Relaxed);
        if self.is_mine() {
            self.closes_at_end.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let guard = match self.try_lock_even_closed() {
            Some(guard) => Some(guard),
            None => self.lock_slow(py, Until::NEVER)?,
        };
        Ok(guard.and_then(|mut guard| guard.place().take()))
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed)
    }

    /// Returns whether the calling thread has it.
    fn is_mine(&self) -> bool {
        // Relaxed: a thread reads its own store, or another thread's.
        self.owner.load(Ordering::Relaxed) == process()
            && self.thread.load(Ordering::Relaxed) == here()
    }

    /// Locks it if no thread has it and it is not closed.
    pub(crate) fn try_lock(&self) -> Option<HandleGuard<'_, T>> {
        self.try_lock_even_closed().filter(|guard| !guard.is_closed())
    }

    /// Locks it if no thread has it, also when it is closed.
    fn try_lock_even_closed(&self) -> Option<HandleGuard<'_, T>> {
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
        changed.is_ok().then(|| {
            self.thread.store(here(), Ordering::Relaxed);
            HandleGuard { handle: self }
        })
    }

    #[cold]
    fn lock_slow(&self, py: Python<'_>, until: Until) -> PyResult<Option<HandleGuard<'_, T>>> {
        if self.is_mine() {
            return Err(PyRuntimeError::new_err(
                "this thread is in a call of this object already, which a signal's handler has \
                 interrupted: a handler can close it, and no more",
            ));
        }
        // SeqCst, with the swap in the drop and the look in `try_lock_even_closed` that follows: one of
        // the two threads sees the other.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let came = wait(py, until, |deadline| {
            self.try_lock_even_closed().or_else(|| {
                // Whatever it returns: look again.
                let _ = futex::wait(&self.owner, process(), deadline);
                self.try_lock_even_closed()
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

impl<T> HandleGuard<'_, T> {
    fn place(&mut self) -> &mut Option<T> {
        // SAFETY: this thread alone has the mutex, and there is one `HandleGuard`.
        unsafe { &mut *self.handle.value.get() }
    }

    fn is_closed(&self) -> bool {
        // SAFETY: this thread alone has the mutex.
        unsafe { (*self.handle.value.get()).is_none() }
    }

    /// Waits as [`wait`] does, with the value, and raises `ValueError` when another thread wants to
    /// close it meanwhile.
    pub(crate) fn wait<R>(
        &mut self,
        py: Python<'_>,
        until: Until,
        mut once: impl FnMut(&mut T, Deadline) -> Option<R>,
    ) -> PyResult<Option<R>> {
        let handle = self.handle;
        let found = wait(py, until, |deadline| match once(self, deadline) {
            None if handle.is_closing() => Some(None),
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
    "a guard is of a handle that is not closed, and its owner alone can close it";

impl<T> Deref for HandleGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread alone has the mutex.
        match unsafe { &*self.handle.value.get() } {
            Some(value) => value,
            None => unreachable!("{NOT_CLOSED}"),
        }
    }
}

impl<T> DerefMut for HandleGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self.place() {
            Some(value) => value,
            None => unreachable!("{NOT_CLOSED}"),
        }
    }
}

impl<T> Drop for HandleGuard<'_, T> {
    fn drop(&mut self) {
        if self.handle.closes_at_end.load(Ordering::Relaxed) {
            drop(self.place().take());
        }
        self.handle.thread.store(0, Ordering::Relaxed);
        self.handle.owner.swap(0, Ordering::SeqCst);
        if self.handle.waiting.load(Ordering::SeqCst) != 0 {
            // It cannot fail; if it did, a waiter would look again at the end of its slice.
            let _ = futex::wake(&self.handle.owner, 1);
        }
    }
}
