//! The counter of a lock that has no memory of its own.

use super::super::shared::ZeroShared;
use std::cell::UnsafeCell;

/// A number alone on its cache lines, reached under the lock only.
#[repr(C, align(128))]
pub(super) struct Counter(UnsafeCell<u64>);

// SAFETY: zero is valid, no pointers; who reaches the number holds the lock (`with`).
unsafe impl ZeroShared for Counter {}

impl Counter {
    /// The number, to read and change.
    ///
    /// # Safety
    /// The caller holds the lock, for as long as `body` runs.
    #[inline]
    pub(super) unsafe fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> R {
        // SAFETY: alone, by the lock.
        body(unsafe { &mut *self.0.get() })
    }
}
