//! A topic's work that is under way on streams: host functions that have not been called, and what
//! must stay until they have.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use outlive::Deadline;

use crate::gpu::Gpu;
use crate::{GpuError, host_function};

/// How often a thread that waits for host functions checks that the context has no error: after
/// one, no host function is called.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// How many host functions of a topic have still to be called. It has nothing of the driver's: a
/// host function drops it last.
#[derive(Default)]
pub(crate) struct UnderWay {
    outstanding: Mutex<usize>,
    over: Condvar,
}

/// A topic's memory, as the driver knows it in this process. Kept by the topic's ends, and by each
/// host function.
pub(crate) trait Keeps: Send + Sync {
    fn under_way(&self) -> &Arc<UnderWay>;

    fn gpu(&self) -> &Gpu;

    /// Waits as [`UnderWay::wait_until`].
    fn wait_until(
        &self,
        deadline: Deadline,
        is_so: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), GpuError> {
        self.under_way().wait_until(self.gpu(), deadline, is_so)
    }
}

/// What only the driver can undo, and whose last user was a host function: the next thread to call
/// the driver drops it.
static LEFT: Mutex<Vec<Box<dyn Send>>> = Mutex::new(Vec::new());

/// Undoes what host functions could not.
pub(crate) fn look_after_left() {
    // As with malloc: a child forked while a thread is in here must not come here before exec.
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    drop(left);
}

/// Drops what calls the driver when it is dropped: at once, or, in a host function, by the next
/// thread to call the driver.
pub(crate) fn undo(last: impl Send + 'static) {
    if host_function::is_inside() {
        LEFT.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(last));
    }
}

impl UnderWay {
    /// Counts one more host function.
    pub(crate) fn one_more(&self) {
        *self.lock() += 1;
    }

    /// Counts one less.
    pub(crate) fn one_is_over(&self) {
        *self.lock() -= 1;
        self.over.notify_all();
    }

    /// Waits until `is_so`, called with the number that is outstanding, returns true: checked
    /// whenever a host function has been called, and from time to time.
    ///
    /// # Errors
    /// [`GpuError::TimedOut`], and the context's error.
    fn wait_until(
        &self,
        gpu: &Gpu,
        deadline: Deadline,
        is_so: &mut dyn FnMut(usize) -> bool,
    ) -> Result<(), GpuError> {
        let mut outstanding = self.lock();
        loop {
            if is_so(*outstanding) {
                return Ok(());
            }
            if deadline.has_passed() {
                return Err(GpuError::TimedOut);
            }
            // Locked since the look: a function that is over meanwhile notifies this wait.
            let waited = self.over.wait_timeout(outstanding, ASK_AGAIN);
            drop(waited);
            gpu.check()?;
            outstanding = self.lock();
        }
    }

    /// Returns how many host functions have still to be called.
    pub(crate) fn outstanding(&self) -> usize {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.outstanding.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
