//! The calling thread's robust list, as libc registered it (`get_robust_list(2)`).
//!
//! The list itself is libc's: we only read it to learn where libc keeps a mutex's lock word, and borrow one field,
//! `list_op_pending`, while we sleep. When a thread ends while that field points to a word whose owner bits are 0, the
//! kernel wakes one waiter there and leaves the word alone: so a wake-up that a dying thread had swallowed is passed on.

use super::Errno;
use crate::shim::AtomicU32;

/// `struct robust_list_head` of the kernel.
#[repr(C)]
pub(crate) struct ListHead {
    /// First entry, or the head itself when the list is empty.
    pub(crate) next: *mut u8,
    /// Added to an entry's address, gives its lock word.
    pub(crate) futex_offset: isize,
    /// The entry that is being locked or unlocked just now.
    pub(crate) list_op_pending: *mut u8,
}

/// Where the calling thread's list head lies. Null when libc has registered none (musl, before its first robust lock).
pub(crate) fn list_head() -> Result<*mut ListHead, Errno> {
    let mut head: *mut ListHead = core::ptr::null_mut();
    let mut size: usize = 0;
    // SAFETY: get_robust_list writes one pointer and one size to the two places given, which live on this stack.
    let result = unsafe { libc::syscall(libc::SYS_get_robust_list, 0, &raw mut head, &raw mut size) };
    if result == 0 { Ok(head) } else { Err(last_errno()) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

thread_local! {
    static ACQUISITIONS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Which slow acquisition of this thread is under way, or was last: sleeps of one have one number.
pub(crate) fn acquisition() -> u32 {
    ACQUISITIONS.with(std::cell::Cell::get)
}

/// A slow acquisition begins.
pub(crate) fn begin_acquisition() {
    ACQUISITIONS.with(|count| count.set(count.get().wrapping_add(1)));
}

/// Wakes one sleeper on the word to which that entry leads, as the kernel does at the thread's end.
///
/// # Safety
/// `head` is the calling thread's list head.
#[cold]
unsafe fn hand_on(head: *mut ListHead, entry: *mut u8) {
    if entry.is_null() {
        return;
    }
    // The lowest bit marks a PI mutex of libc's.
    // SAFETY: the caller promises it (`# Safety` above).
    let word = entry.map_addr(|address| address & !1).wrapping_offset(unsafe { (*head).futex_offset });
    // By address: the word's memory may be gone (EFAULT), and then nobody sleeps there.
    // SAFETY: FUTEX_WAKE reads and writes no memory of the caller's.
    unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAKE, 1) };
}

/// Runs something that uses libc's robust mutexes, which take `list_op_pending` for themselves and leave it null: what it
/// pointed to before is handed on first, and points there again afterwards.
pub(crate) fn beside_libc<T>(uses_libc: impl FnOnce() -> T) -> T {
    // SAFETY: the calling thread's own head, or null.
    unsafe { beside_libc_of(list_head().unwrap_or(core::ptr::null_mut()), uses_libc) }
}

/// As [`beside_libc`], for a thread that knows its list head.
///
/// # Safety
/// `head` is the calling thread's list head, or null.
#[inline]
pub(crate) unsafe fn beside_libc_of<T>(head: *mut ListHead, uses_libc: impl FnOnce() -> T) -> T {
    let saved = if head.is_null() {
        core::ptr::null_mut()
    } else {
        // SAFETY: the calling thread's own head, which lives as long as the thread; volatile as in `WakeRelay::to`.
        unsafe { (&raw const (*head).list_op_pending).read_volatile() }
    };
    if !saved.is_null() {
        // SAFETY: the calling thread's own head.
        unsafe { hand_on(head, saved) };
    }
    let result = uses_libc();
    if !saved.is_null() {
        // SAFETY: as above.
        unsafe { (&raw mut (*head).list_op_pending).write_volatile(saved) };
    }
    result
}

/// `list_op_pending`, borrowed for the length of one slow acquisition and given back when dropped.
///
/// Between the two libc must not lock or unlock a robust mutex in this thread: callers make only system calls. A signal
/// handler that does so clobbers the field; the coarse re-check is for that.
pub(crate) struct WakeRelay {
    head: *mut ListHead,
    saved: *mut u8,
    /// Somebody else's word to which the field points, lent by whoever had it before: `saved`, or what was kept.
    lent: *mut u8,
}

impl WakeRelay {
    /// Borrows the field. `head` is the calling thread's list head.
    pub(crate) fn begin(head: *mut ListHead) -> WakeRelay {
        begin_acquisition();
        let mut saved = core::ptr::null_mut();
        if !head.is_null() {
            // SAFETY: head came from get_robust_list in this thread, whose list head lives as long as the thread; WakeRelay
            // holds a raw pointer and is therefore neither Send nor Sync.
            saved = unsafe { (*head).list_op_pending };
        }
        WakeRelay { head, saved, lent: saved }
    }

    /// From now on this thread's end wakes one sleeper on `word`, which must always be 0.
    ///
    /// The field can point to one word only. Points it to one that somebody lent us (a condition variable's, whose wake-up
    /// this thread has and has not used up), then one sleeper there is woken first: it goes on in our place.
    pub(crate) fn to(&self, word: &AtomicU32) {
        if self.head.is_null() {
            return;
        }
        // SAFETY: as in `begin`. The kernel adds futex_offset to what we store: so it arrives at `word`. Volatile,
        // because only the kernel reads it, at any moment.
        unsafe {
            let entry = word.as_ptr().cast::<u8>().wrapping_offset((*self.head).futex_offset.wrapping_neg());
            let before = (&raw const (*self.head).list_op_pending).read_volatile();
            if before == entry {
                return;
            }
            if before == self.lent {
                // Died just after: somebody is woken for nothing.
                hand_on(self.head, before);
            }
            (&raw mut (*self.head).list_op_pending).write_volatile(entry);
        }
    }
}

impl WakeRelay {
    /// Lends the field on, to be taken back by [`WakeRelay::resume`], unless somebody lent it to us: then it goes back now.
    pub(crate) fn keep(self) -> bool {
        if self.head.is_null() || !self.saved.is_null() {
            return false;
        }
        core::mem::forget(self);
        true
    }

    /// Takes back what was kept, as it is. `head` is the calling thread's list head.
    pub(crate) fn resume(head: *mut ListHead) -> WakeRelay {
        let mut lent = core::ptr::null_mut();
        if !head.is_null() {
            // SAFETY: as in `begin`; volatile as in `WakeRelay::to`.
            lent = unsafe { (&raw const (*head).list_op_pending).read_volatile() };
        }
        WakeRelay { head, saved: core::ptr::null_mut(), lent }
    }
}

impl Drop for WakeRelay {
    fn drop(&mut self) {
        if !self.head.is_null() {
            // SAFETY: as in `begin`.
            unsafe { (&raw mut (*self.head).list_op_pending).write_volatile(self.saved) };
        }
    }
}
