//! libc's robust, process-shared mutex, the only thing that the kernel marks when a thread ends.
//! One lies in each registry slot, where a thread holds it all its life; one with priority
//! inheritance lies in each `sync::PiMutex`.
//!
//! No code here knows its layout. Two facts are found out by asking. First, which 32-bit words an
//! initialised, unlocked mutex sets (its kind; the rest is zero, so any thread can prepare a zeroed
//! slot by storing these words, any number of times). Second, where the lock word lies (lock one,
//! walk the robust list to the node inside it, add the list's `futex_offset`). Offsets differ:
//! glibc 0, musl 4.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::time::Duration;

use rustix::time::ClockId;

use super::clock::{Deadline, realtime_after};
use super::{Errno, check_pthread, robust};
use crate::shim::{AtomicU32, Ordering};

/// Bytes kept for the mutex in a slot: it has 40 on x86-64, 48 on aarch64 with glibc.
pub(crate) const ROOM: usize = 48;
const WORDS: usize = ROOM / 4;

/// The answers to these two questions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    /// Byte offset of the lock word in the mutex.
    pub(crate) word_offset: u32,
    /// The initialised mutex, word by word.
    template: [u32; WORDS],
}

impl Layout {
    /// Returns a number that differs where two libcs would not understand each other's mutexes: the
    /// lock word's offset in the low 8 bits, and a checksum of an initialised mutex.
    pub(crate) fn mark(&self) -> u32 {
        let sum = self
            .template
            .iter()
            .fold(0u32, |sum, word| (sum.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b1));
        self.word_offset | 1 << 8 | (sum & 0xffff_0000)
    }
}

/// libc's answer to a thread that wants the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Got {
    /// The caller has it.
    Clean,
    /// The caller has it, from a dead owner: libc requires [`mark_consistent`].
    OwnerDied,
    /// Another thread has it.
    Busy,
    /// Another thread still had it at the deadline.
    TimedOut,
}

/// The result of trying to take the mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was free, or its dead owner's.
    Mine,
    /// A living thread has it.
    Busy,
}

/// Returns the layout in this process's libc, asked once.
pub(crate) fn layout() -> Result<Layout, Errno> {
    static LAYOUT: OnceLock<Result<Layout, Errno>> = OnceLock::new();
    *LAYOUT.get_or_init(|| ask(libc::PTHREAD_PRIO_NONE))
}

/// Returns the same for mutexes that lend their holder the priority of its waiters; `ENOTSUP` where
/// kernel or libc lack them.
pub(crate) fn inheriting_layout() -> Result<Layout, Errno> {
    static LAYOUT: OnceLock<Result<Layout, Errno>> = OnceLock::new();
    *LAYOUT.get_or_init(|| ask(libc::PTHREAD_PRIO_INHERIT))
}

#[repr(C, align(64))]
struct Scratch([u8; ROOM]);

fn ask(protocol: libc::c_int) -> Result<Layout, Errno> {
    const { assert!(size_of::<libc::pthread_mutex_t>() <= ROOM) };
    let mut scratch = Scratch([0; ROOM]);
    let mutex: *mut libc::pthread_mutex_t = scratch.0.as_mut_ptr().cast();
    init(mutex, protocol)?;
    let mut template = [0u32; WORDS];
    for (word, bytes) in template.iter_mut().zip(scratch.0.chunks_exact(4)) {
        *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    let mutex: *mut libc::pthread_mutex_t = scratch.0.as_mut_ptr().cast();
    // SAFETY: the mutex is initialised, and only this thread knows it.
    check_pthread(unsafe { libc::pthread_mutex_lock(mutex) })?;
    let offset = find_word(mutex.cast());
    // SAFETY: this thread locked it above.
    check_pthread(unsafe { libc::pthread_mutex_unlock(mutex) })?;
    let word_offset = offset?;
    // A word that the template sets would be overwritten when a slot is prepared.
    if word_offset as usize + 4 > ROOM || template[word_offset as usize / 4] != 0 {
        return Err(Errno::NOTSUP);
    }
    Ok(Layout { word_offset, template })
}

fn init(mutex: *mut libc::pthread_mutex_t, protocol: libc::c_int) -> Result<(), Errno> {
    let mut attr = core::mem::MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
    // SAFETY: the first call initialises `attr`, which only this thread uses; `mutex` points to
    // ROOM bytes.
    unsafe {
        check_pthread(libc::pthread_mutexattr_init(attr.as_mut_ptr()))?;
        check_pthread(libc::pthread_mutexattr_setpshared(
            attr.as_mut_ptr(),
            libc::PTHREAD_PROCESS_SHARED,
        ))?;
        check_pthread(libc::pthread_mutexattr_setrobust(
            attr.as_mut_ptr(),
            libc::PTHREAD_MUTEX_ROBUST,
        ))?;
        if protocol != libc::PTHREAD_PRIO_NONE {
            check_pthread(libc::pthread_mutexattr_setprotocol(attr.as_mut_ptr(), protocol))?;
        }
        check_pthread(libc::pthread_mutex_init(mutex, attr.as_ptr()))?;
        check_pthread(libc::pthread_mutexattr_destroy(attr.as_mut_ptr()))
    }
}

/// Returns where the lock word of a mutex lies that this thread holds, as an offset into it.
fn find_word(mutex: *const u8) -> Result<u32, Errno> {
    let head = robust::list_head()?;
    if head.is_null() {
        return Err(Errno::NOTSUP);
    }
    // SAFETY: the head and its entries are this thread's own, kept by libc; an entry's first word
    // leads to the next one (its lowest bit marks a PI mutex). The walk is bounded as the kernel's
    // own is.
    unsafe {
        let offset = (*head).futex_offset;
        let mut entry = (*head).next;
        for _ in 0..2048 {
            if core::ptr::eq(entry.cast_const(), head.cast()) {
                break;
            }
            let clean = entry.map_addr(|a| a & !1);
            let inside = (clean as usize).wrapping_sub(mutex as usize);
            if inside < ROOM {
                let word = (clean as isize + offset) - mutex as isize;
                return u32::try_from(word).map_err(|_| Errno::NOTSUP);
            }
            entry = *clean.cast::<*mut u8>();
        }
    }
    Err(Errno::NOTSUP)
}

/// Returns whether the kernel will mark that mutex when the calling thread ends: whether it is in
/// the list that the kernel has of this very thread. A thread that libc did not start (a raw
/// `clone`) has no list, or borrows another's.
///
/// # Safety
/// The calling thread holds the mutex, as far as libc is concerned.
pub(crate) unsafe fn is_listed(layout: &Layout, mutex: *const u8) -> Result<bool, Errno> {
    match find_word(mutex) {
        Ok(word) => Ok(word == layout.word_offset),
        Err(Errno::NOTSUP) => Ok(false),
        // The kernel did not say which list the thread has.
        Err(errno) => Err(errno),
    }
}

/// Makes zeroed memory an unlocked mutex. It stores only words that are 0 and should not be, always
/// with the same values: so any number of threads may do it at once, and a death in between leaves
/// nothing to repair.
pub(crate) fn prepare(layout: &Layout, words: &[AtomicU32; WORDS]) {
    for (word, &wanted) in words.iter().zip(&layout.template) {
        if wanted != 0 && word.load(Ordering::Relaxed) != wanted {
            // Relaxed: trylock comes after it in this thread's program order; other threads store
            // the same values.
            word.store(wanted, Ordering::Relaxed);
        }
    }
}

/// Takes the mutex if it is free or its owner is dead.
///
/// # Safety
/// `mutex` points to a prepared mutex of this libc in memory that stays mapped until this thread
/// ends.
pub(crate) unsafe fn try_take(mutex: *mut u8) -> Result<Taken, Errno> {
    // SAFETY: the caller promises a prepared mutex of this libc that stays mapped until this thread
    // ends.
    match unsafe { try_lock(mutex) }? {
        Got::Clean => Ok(Taken::Mine),
        Got::OwnerDied => {
            // SAFETY: this thread has just got it as [`Got::OwnerDied`].
            unsafe { mark_consistent(mutex) }?;
            Ok(Taken::Mine)
        }
        Got::Busy | Got::TimedOut => Ok(Taken::Busy),
    }
}

/// Translates the result of a locking call of libc's.
fn understand(result: libc::c_int) -> Result<Got, Errno> {
    match result {
        0 => Ok(Got::Clean),
        libc::EOWNERDEAD => Ok(Got::OwnerDied),
        libc::EBUSY => Ok(Got::Busy),
        libc::ETIMEDOUT => Ok(Got::TimedOut),
        other => Err(Errno::from_raw_os_error(other)),
    }
}

/// Takes the mutex if it is free or its owner is dead, and leaves it to the caller to mark it
/// consistent.
///
/// # Safety
/// As [`try_take`].
pub(crate) unsafe fn try_lock(mutex: *mut u8) -> Result<Got, Errno> {
    // SAFETY: the caller promises a prepared mutex of this libc that stays mapped until this thread
    // ends.
    understand(unsafe { libc::pthread_mutex_trylock(mutex.cast()) })
}

/// Takes the mutex, and sleeps until the deadline while another thread has it.
///
/// On a libc that cannot wait for a mutex by the monotonic clock (before glibc 2.35, and musl) such
/// a deadline is translated to the time of day once, here: if the clock is set back meanwhile, this
/// call lasts so much longer.
///
/// # Safety
/// As [`try_take`].
pub(crate) unsafe fn lock_until(mutex: *mut u8, deadline: Deadline) -> Result<Got, Errno> {
    static CANNOT: AtomicBool = AtomicBool::new(false);
    let mutex: *mut libc::pthread_mutex_t = mutex.cast();
    let timespec = |deadline: Deadline| {
        let until =
            deadline.timespec().unwrap_or(rustix::time::Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
        libc::timespec { tv_sec: until.tv_sec as _, tv_nsec: until.tv_nsec as _ }
    };
    let mut deadline = deadline;
    if deadline.clock() == ClockId::Monotonic {
        if !CANNOT.load(StdOrdering::Relaxed)
            && let Some(clocklock) = clocklock()
        {
            // SAFETY: the caller promises a prepared mutex of this libc that stays mapped; the
            // function is libc's own, of that type (`clocklock`).
            match unsafe { clocklock(mutex, libc::CLOCK_MONOTONIC, &timespec(deadline)) } {
                // Not with priority inheritance, or not with this kernel.
                libc::EINVAL | libc::ENOSYS | libc::ENOTSUP => {
                    CANNOT.store(true, StdOrdering::Relaxed)
                }
                result => return understand(result),
            }
        }
        deadline = realtime_after(deadline.remaining().unwrap_or(Duration::MAX));
    }
    // SAFETY: the caller promises a prepared mutex of this libc that stays mapped until this thread
    // ends.
    understand(unsafe { libc::pthread_mutex_timedlock(mutex, &timespec(deadline)) })
}

type ClockLock = unsafe extern "C" fn(
    *mut libc::pthread_mutex_t,
    libc::clockid_t,
    *const libc::timespec,
) -> libc::c_int;

/// Returns `pthread_mutex_clocklock`, if libc has it (glibc from 2.30).
fn clocklock() -> Option<ClockLock> {
    static FOUND: OnceLock<Option<ClockLock>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // SAFETY: the name is a C string; a function of that name in libc has that type, or there
        // is none.
        unsafe {
            let found = libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_clocklock".as_ptr());
            (!found.is_null()).then(|| core::mem::transmute::<*mut libc::c_void, ClockLock>(found))
        }
    })
}

/// Tells libc to go on using a dead owner's mutex.
///
/// # Safety
/// This thread got the mutex as [`Got::OwnerDied`] and holds it.
pub(crate) unsafe fn mark_consistent(mutex: *mut u8) -> Result<(), Errno> {
    // SAFETY: the caller promises that this thread got the mutex as `OwnerDied` and holds it.
    check_pthread(unsafe { libc::pthread_mutex_consistent(mutex.cast()) })
}

/// Unlocks the mutex.
///
/// # Safety
/// This thread took the mutex by one of the functions above.
pub(crate) unsafe fn give_back(mutex: *mut u8) -> Result<(), Errno> {
    // SAFETY: the caller promises that this thread holds the mutex.
    check_pthread(unsafe { libc::pthread_mutex_unlock(mutex.cast()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_word_is_found_and_holds_the_tid() {
        let layout = layout().expect("libc answers");
        let words: [AtomicU32; WORDS] = core::array::from_fn(|_| AtomicU32::new(0));
        prepare(&layout, &words);
        let mutex = words.as_ptr().cast_mut().cast::<u8>();
        // SAFETY: prepared above; it lives until the end of this function, and is unlocked before
        // that.
        unsafe {
            assert_eq!(try_take(mutex), Ok(Taken::Mine));
            let word = words[layout.word_offset as usize / 4].load(Ordering::Relaxed);
            assert_eq!(word, super::super::process::thread_id());
            give_back(mutex).expect("held");
        }
    }
}
