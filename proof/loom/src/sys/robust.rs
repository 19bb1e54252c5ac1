//! The robust list as loom sees it: only `list_op_pending`, and the walk at a thread's end.

use super::{Errno, futex};
use crate::liveness::Slot;
use crate::shim::AtomicU32;

/// One thread's list head.
pub(crate) struct ListHead {
    pending: *const AtomicU32,
}

impl ListHead {
    pub(crate) fn new() -> ListHead {
        ListHead { pending: core::ptr::null() }
    }
}

/// Returns a list head for the calling thread, for one that asks once.
pub(crate) fn list_head() -> Result<*mut ListHead, Errno> {
    Ok(Box::leak(Box::new(ListHead::new())))
}

pub(crate) struct WakeRelay {
    head: *mut ListHead,
    saved: *const AtomicU32,
}

impl WakeRelay {
    pub(crate) fn begin(head: *mut ListHead) -> WakeRelay {
        // SAFETY: the test keeps each thread's head alive and to that thread.
        WakeRelay { head, saved: unsafe { (*head).pending } }
    }

    pub(crate) fn to(&self, word: &AtomicU32) {
        // SAFETY: the test keeps each thread's head alive and to that thread.
        unsafe {
            let before = (*self.head).pending;
            if core::ptr::eq(before, word) {
                return;
            }
            if core::ptr::eq(before, self.saved) && !before.is_null() {
                // SAFETY: a relay word outlives each thread that points at it: the test's world has it.
                futex::wake_one(&*before);
            }
            (*self.head).pending = word;
        }
    }
}

impl Drop for WakeRelay {
    fn drop(&mut self) {
        // SAFETY: the test keeps each thread's head alive and to that thread.
        unsafe { (*self.head).pending = self.saved };
    }
}

/// What a call of libc's that locks or unlocks a robust mutex does to the list: it takes the field,
/// after the library has woken a sleeper there, and the library gives the field back.
///
/// # Safety
/// `head` is the calling thread's.
pub(crate) unsafe fn beside_libc_of<T>(head: *mut ListHead, uses_libc: impl FnOnce() -> T) -> T {
    // SAFETY: the test keeps each thread's head alive and to that thread.
    let saved = unsafe { core::mem::replace(&mut (*head).pending, core::ptr::null()) };
    if !saved.is_null() {
        // SAFETY: a relay word outlives each thread that points at it: the test's world has it.
        futex::wake_one(unsafe { &*saved });
    }
    let result = uses_libc();
    // SAFETY: the test keeps each thread's head alive and to that thread.
    unsafe { (*head).pending = saved };
    result
}

/// What the kernel does when the thread that holds `slot` ends: mark, wake one, relay.
pub(crate) fn end_thread(slot: &Slot, head: &ListHead) {
    if slot.mark_died() {
        futex::wake_one(slot.word());
    }
    if !head.pending.is_null() {
        // SAFETY: pending points to a slot's wake relay, which outlives the test's threads.
        futex::wake_one(unsafe { &*head.pending });
    }
}

/// Sleeps of one wait have one number: only the library's own list looks at it.
pub(crate) fn begin_acquisition() {}
