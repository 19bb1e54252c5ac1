//! `futex(2)` and `futex_waitv(2)`: sleep until one of several words changes or is woken.
//!
//! Always shared (never `FUTEX_PRIVATE_FLAG`): the words lie in memory that several processes map. `EAGAIN` and `EINTR`
//! are ordinary answers. The index that `futex_waitv` returns is only a hint, so it is not even handed on: callers read
//! all their words again.

use std::sync::atomic::{AtomicU8, Ordering as StdOrdering};
use std::time::Duration;

use rustix::thread::futex::{self as rx, ClockId, Flags, WaitFlags, WaitPtr, WaitvFlags};

use super::Errno;
use super::clock::Deadline;
use crate::shim::AtomicU32;

/// A word and the value it must still have for the sleep to begin.
#[derive(Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) expected: u32,
}

/// Why a sleep ended. None of them says that what was waited for has come: look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Woken, or a word had changed before the sleep began, or a signal came.
    LookAgain,
    /// The deadline passed.
    TimedOut,
}

/// The largest wait set that the kernel takes.
pub(crate) const MOST_WATCHES: usize = 128;
/// As large as most wait sets are.
const FEW_WATCHES: usize = 8;

/// How long one sleep may last where the kernel has no `futex_waitv`: the other words are looked at in between.
const SLICE: Duration = Duration::from_millis(10);

/// 0 not asked yet, 1 there, 2 absent.
static WAITV: AtomicU8 = AtomicU8::new(0);

/// Whether the kernel lets this process call `futex_waitv`. Asked once.
///
/// Absent before Linux 5.16, and denied by some container runtimes (`EPERM`, `EACCES`, `ENOSYS`).
pub(crate) fn has_waitv() -> bool {
    match WAITV.load(StdOrdering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            // An empty set: a kernel that knows the call answers EINVAL.
            let there = !matches!(
                rx::waitv(&[], WaitvFlags::empty(), None, ClockId::Monotonic),
                Err(Errno::NOSYS | Errno::PERM | Errno::ACCESS)
            );
            WAITV.store(if there { 1 } else { 2 }, StdOrdering::Relaxed);
            there
        }
    }
}

/// Makes this process wait as if the kernel had no `futex_waitv` (for tests of the fallback).
pub(crate) fn pretend_no_waitv() {
    WAITV.store(2, StdOrdering::Relaxed);
}

/// Sleeps until one of the words is woken or the deadline passes; returns at once when a word is not as expected.
///
/// The words are queued in the order given: a word that may be woken only once, by somebody who may be gone then, goes
/// first. `principal` is the index of the word to sleep on, in slices, where `futex_waitv` is absent.
pub(crate) fn wait_any(set: &[Watch<'_>], principal: usize, deadline: Deadline) -> Result<Wakeup, Errno> {
    debug_assert!(set.len() <= MOST_WATCHES && principal < set.len());
    if !has_waitv() {
        return wait_in_slices(set, principal, deadline);
    }
    if set.len() <= FEW_WATCHES { waitv::<FEW_WATCHES>(set, deadline) } else { waitv::<MOST_WATCHES>(set, deadline) }
}

fn waitv<const N: usize>(set: &[Watch<'_>], deadline: Deadline) -> Result<Wakeup, Errno> {
    let mut waits = [rx::Wait::new(); N];
    for (wait, watch) in waits.iter_mut().zip(set) {
        wait.val = u64::from(watch.expected);
        wait.uaddr = WaitPtr::new(watch.word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
    }
    let timeout = deadline.timespec();
    match rx::waitv(&waits[..set.len()], WaitvFlags::empty(), timeout.as_ref(), deadline.clock()) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Wakeup::LookAgain),
        Err(Errno::TIMEDOUT) => Ok(Wakeup::TimedOut),
        Err(other) => Err(other),
    }
}

#[cold]
fn wait_in_slices(set: &[Watch<'_>], principal: usize, deadline: Deadline) -> Result<Wakeup, Errno> {
    if set.iter().any(|w| w.word.load(crate::shim::Ordering::Acquire) != w.expected) {
        return Ok(Wakeup::LookAgain);
    }
    if deadline.has_passed() {
        return Ok(Wakeup::TimedOut);
    }
    let span = deadline.remaining().unwrap_or(SLICE).min(SLICE);
    let span = rx::Timespec { tv_sec: 0, tv_nsec: span.as_nanos() as _ };
    let watch = set[principal];
    match rx::wait(watch.word, Flags::empty(), watch.expected, Some(&span)) {
        // The end of a slice is a reason to look again, not yet the deadline.
        Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(Wakeup::LookAgain),
        Err(other) => Err(other),
    }
}

/// Wakes everybody who sleeps on the word.
///
/// A word that is not mapped any more or is read-only here cannot have sleepers that rely on us: that is no error.
#[cold]
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = rx::wake(word, Flags::empty(), i32::MAX as u32);
}
