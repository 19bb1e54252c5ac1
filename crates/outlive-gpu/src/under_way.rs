//! What a topic has left to its streams: host functions that have not been called, and what must stay until they have.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::Deadline;

use crate::gpu::Gpu;
use crate::{Error, host_function};

/// How often who waits for host functions asks whether the context is without error: after one, nobody tells.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// How many host functions of a topic's have still to be called. Nothing of the driver's: a host function drops it last.
#[derive(Default)]
pub(crate) struct UnderWay {
    outstanding: Mutex<usize>,
    over: Condvar,
}

/// A topic's memory, as the driver knows it in this process. Kept by the topic's ends, and by each host function.
pub(crate) trait Keeps: Send + Sync {
    fn under_way(&self) -> &Arc<UnderWay>;

    fn gpu(&self) -> &Gpu;

    /// As [`UnderWay::wait_until`].
    fn wait_until(&self, deadline: Deadline, is_so: &mut dyn FnMut(usize) -> bool) -> Result<(), Error> {
        self.under_way().wait_until(self.gpu(), deadline, is_so)
    }
}

/// What only the driver can undo, and whose last user was a host function: to be undone by the next who comes.
static LEFT: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());

/// Undoes what host functions could not.
pub(crate) fn look_after_left() {
    // As with malloc: a child forked from several threads, one of them in here, must not come here before exec.
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
}

/// Drops what calls the driver when it is dropped: at once, or by the next who comes.
pub(crate) fn undo(last: impl Send + 'static) {
    if host_function::is_inside() {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(last));
    }
}

impl UnderWay {
    /// One more host function.
    pub(crate) fn one_more(&self) {
        *self.lock() += 1;
    }

    /// One less.
    pub(crate) fn one_is_over(&self) {
        *self.lock() -= 1;
        self.over.notify_all();
    }

    /// Waits until `is_so` says so of how many are outstanding: asked whenever a host function has been called, and now and then.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and what the context has come to.
    fn wait_until(&self, gpu: &Gpu, deadline: Deadline, is_so: &mut dyn FnMut(usize) -> bool) -> Result<(), Error> {
        let mut outstanding = self.lock();
        loop {
            if is_so(*outstanding) {
                return Ok(());
            }
            if deadline.has_passed() {
                return Err(Error::TimedOut);
            }
            // Locked since the look: one that is over meanwhile is waited for here.
            let waited = self.over.wait_timeout(outstanding, ASK_AGAIN);
            drop(waited);
            gpu.check()?;
            outstanding = self.lock();
        }
    }

    /// How many host functions have still to be called.
    pub(crate) fn outstanding(&self) -> usize {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
