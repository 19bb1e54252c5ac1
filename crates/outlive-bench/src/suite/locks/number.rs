//! The number that a lock guards which has no memory of its own.

use super::UNTOUCHED;
use crate::harness::shared::ZeroShared;
use std::cell::UnsafeCell;
use std::ptr;

/// A number alone on its cache lines, reached under the lock only.
#[repr(C, align(128))]
pub(super) struct Apart(pub(super) Number);

/// A number, reached under the lock only.
#[repr(transparent)]
pub(crate) struct Number(UnsafeCell<u64>);

// SAFETY: a process that reaches the number holds the lock (`raise`, `read`).
unsafe impl Sync for Number {}
// SAFETY: zero is valid, no pointers.
unsafe impl ZeroShared for Apart {}

impl Number {
    /// Gives it the value that readers expect; no process raises a number that is read.
    ///
    /// # Safety
    /// The caller guarantees that no other thread reaches the number meanwhile.
    pub(super) unsafe fn set_for_readers(&self) {
        // SAFETY: alone, by the caller.
        unsafe { *self.0.get() = UNTOUCHED };
    }

    /// Raises it by one and gives the new value.
    ///
    /// # Safety
    /// The caller holds the lock, alone.
    #[inline]
    pub(crate) unsafe fn raise(&self) -> u64 {
        // SAFETY: alone, by the lock.
        unsafe {
            *self.0.get() += 1;
            *self.0.get()
        }
    }

    /// Reads it.
    ///
    /// # Safety
    /// The caller holds the lock, perhaps among other readers.
    #[inline]
    pub(super) unsafe fn read(&self) -> u64 {
        // SAFETY: no process writes while there are readers. Volatile: the load is part of what is
        // measured.
        unsafe { ptr::read_volatile(self.0.get()) }
    }
}
