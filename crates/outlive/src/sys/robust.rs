//! The calling thread's robust list, as libc registered it (`get_robust_list(2)`).
//!
//! The list itself is libc's. This file only reads it, to learn where libc keeps a mutex's lock
//! word, and borrows one field, `list_op_pending`, during a sleep. If a thread ends while that
//! field points to a word whose owner bits are 0, the kernel wakes one waiter there and leaves the
//! word alone: so it relays a wake-up that a dying thread had swallowed.

use super::Errno;
use crate::shim::AtomicU32;

/// The kernel's `struct robust_list_head`.
#[repr(C)]
pub(crate) struct ListHead {
    /// First entry, or the head itself when the list is empty.
    pub(crate) next: *mut u8,
    /// Added to an entry's address, it gives the lock word's address.
    pub(crate) futex_offset: isize,
    /// The entry that is being locked or unlocked just now.
    pub(crate) list_op_pending: *mut u8,
}

/// Returns the address of the calling thread's list head; null if libc has registered none (musl,
/// before its first robust lock).
pub(crate) fn list_head() -> Result<*mut ListHead, Errno> {
    let mut head: *mut ListHead = core::ptr::null_mut();
    let mut size: usize = 0;
    // SAFETY: get_robust_list writes one pointer and one size to the two places given, which live
    // on this stack.
    let result =
        unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size) };
    if result == 0 { Ok(head) } else { Err(last_errno()) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

thread_local! {
    static ACQUISITIONS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Returns the number of the thread's present or last slow acquisition: all sleeps of one
/// acquisition have one number.
pub(crate) fn acquisition() -> u32 {
    ACQUISITIONS.with(std::cell::Cell::get)
}

/// Notes that a slow acquisition begins.
pub(crate) fn begin_acquisition() {
    ACQUISITIONS.with(|count| count.set(count.get().wrapping_add(1)));
}

/// Wakes one sleeper on the word to which that entry leads, as the kernel does when the thread
/// ends.
///
/// # Safety
/// `head` is the calling thread's list head.
#[cold]
unsafe fn hand_on(head: *mut ListHead, entry: *mut u8) {
    if entry.is_null() {
        return;
    }
    // The lowest bit marks a PI mutex of libc's.
    // SAFETY: the caller promises that `head` is the calling thread's list head.
    let word =
        entry.map_addr(|address| address & !1).wrapping_offset(unsafe { (*head).futex_offset });
    // By address: the word's memory may be gone (EFAULT), and then no thread sleeps there.
    // SAFETY: FUTEX_WAKE reads and writes no memory of the caller's.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
}

/// Runs code that uses libc's robust mutexes, which take `list_op_pending` for themselves and leave
/// it null. Before that, it wakes a sleeper on the word to which the field points; afterwards the
/// field points there again.
pub(crate) fn beside_libc<T>(uses_libc: impl FnOnce() -> T) -> T {
    // SAFETY: `list_head` returns the calling thread's own head, or null.
    unsafe { beside_libc_of(list_head().unwrap_or(core::ptr::null_mut()), uses_libc) }
}

/// Does the same as [`beside_libc`], for a thread that knows its list head.
///
/// # Safety
/// `head` is the calling thread's list head, or null.
#[inline]
pub(crate) unsafe fn beside_libc_of<T>(head: *mut ListHead, uses_libc: impl FnOnce() -> T) -> T {
    let saved = if head.is_null() {
        core::ptr::null_mut()
    } else {
        // SAFETY: the caller promises that it is this thread's own head, which lives as long as the
        // thread; volatile as in `to`.
        unsafe { (&raw const (*head).list_op_pending).read_volatile() }
    };
    if !saved.is_null() {
        // SAFETY: the caller promises that `head` is the calling thread's own, and it is not null
        // here.
        unsafe { hand_on(head, saved) };
    }
    let result = uses_libc();
    if !saved.is_null() {
        // SAFETY: the caller promises that `head` is the calling thread's own, and it is not null
        // here.
        unsafe { (&raw mut (*head).list_op_pending).write_volatile(saved) };
    }
    result
}

/// `list_op_pending`, borrowed during one slow acquisition and given back when dropped.
///
/// In between, libc must not lock or unlock a robust mutex in this thread: callers make only system
/// calls. A signal handler that does so overwrites the field; the recheck makes up for that.
pub(crate) struct WakeRelay {
    head: *mut ListHead,
    saved: *mut u8,
    /// Another owner's word to which the field points, lent by its former user: `saved`, or what
    /// was kept.
    lent: *mut u8,
}

impl WakeRelay {
    /// Borrows the field. `head` is the calling thread's list head.
    pub(crate) fn begin(head: *mut ListHead) -> WakeRelay {
        begin_acquisition();
        let mut saved = core::ptr::null_mut();
        if !head.is_null() {
            // SAFETY: `head` is this thread's own (get_robust_list) and lives as long as the
            // thread; WakeRelay holds a raw pointer, so it is neither Send nor Sync.
            saved = unsafe { (*head).list_op_pending };
        }
        WakeRelay { head, saved, lent: saved }
    }

    /// Makes this thread's end wake one sleeper on `word`, which must always be 0, from now on.
    ///
    /// The field can point to one word only. If it points to a lent word (a condition variable's,
    /// whose wake-up this thread has received and not used up), this first wakes one sleeper there,
    /// which goes on in this thread's place.
    pub(crate) fn to(&self, word: &AtomicU32) {
        if self.head.is_null() {
            return;
        }
        // SAFETY: `head` is this thread's own, as in `begin`. The kernel adds futex_offset to the
        // stored address and so arrives at `word`. Volatile, because only the kernel reads it, at
        // any moment.
        unsafe {
            let entry = word
                .as_ptr()
                .cast::<u8>()
                .wrapping_offset((*self.head).futex_offset.wrapping_neg());
            let before = (&raw const (*self.head).list_op_pending).read_volatile();
            if before == entry {
                return;
            }
            if before == self.lent {
                // Died just after: one sleeper is woken for nothing.
                hand_on(self.head, before);
            }
            (&raw mut (*self.head).list_op_pending).write_volatile(entry);
        }
    }
}

impl WakeRelay {
    /// Keeps the field borrowed until [`WakeRelay::resume`], and returns true; if it was lent to
    /// this thread, gives it back now.
    pub(crate) fn keep(self) -> bool {
        if self.head.is_null() || !self.saved.is_null() {
            return false;
        }
        core::mem::forget(self);
        true
    }

    /// Wakes one sleeper on the word to which the field points, which goes on in this thread's place,
    /// and gives the field back.
    pub(crate) fn hand_on(self) {
        if !self.head.is_null() {
            // SAFETY: `head` is this thread's own, as in `begin`; volatile as in `WakeRelay::to`.
            unsafe {
                hand_on(self.head, (&raw const (*self.head).list_op_pending).read_volatile())
            };
        }
    }

    /// Takes back what was kept, unchanged. `head` is the calling thread's list head.
    pub(crate) fn resume(head: *mut ListHead) -> WakeRelay {
        let mut lent = core::ptr::null_mut();
        if !head.is_null() {
            // SAFETY: `head` is this thread's own, as in `begin`; volatile as in `WakeRelay::to`.
            lent = unsafe { (&raw const (*head).list_op_pending).read_volatile() };
        }
        WakeRelay { head, saved: core::ptr::null_mut(), lent }
    }
}

impl Drop for WakeRelay {
    fn drop(&mut self) {
        if !self.head.is_null() {
            // SAFETY: `head` is this thread's own, as in `begin`.
            unsafe { (&raw mut (*self.head).list_op_pending).write_volatile(self.saved) };
        }
    }
}
