//! `futex(2)` and `futex_waitv(2)`: sleep until one of several words changes or is woken.
//!
//! Always shared (never `FUTEX_PRIVATE_FLAG`): the words lie in memory that several processes map.
//! `EAGAIN` and `EINTR` are ordinary answers. The index that `futex_waitv` returns is only a hint,
//! so it is not passed on: callers read all their words again.

use std::sync::atomic::{AtomicU8, Ordering as StdOrdering};
use std::time::Duration;

use rustix::thread::futex::{self as rx, ClockId, Wait, WaitFlags, WaitPtr, WaitvFlags};

use super::Errno;
use super::clock::Deadline;
pub(crate) use super::futex_call::ALL;
pub(crate) use super::futex_call::Watch;
use super::futex_call::{self, Change, Comparison, FutexError, WakeOp};
use crate::shim::{AtomicU32, Ordering};

/// Says why a sleep ended. Neither says that what the caller waits for has come: look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Woken, or a word had changed before the sleep began, or a signal came.
    LookAgain,
    /// The deadline passed.
    TimedOut,
}

/// The largest wait set that the kernel takes.
pub(crate) const MOST_WATCHES: usize = 128;
/// Large enough for most wait sets.
const FEW_WATCHES: usize = 8;

/// How long one sleep lasts at most where the kernel has no `futex_waitv`: the caller looks at the
/// other words in between.
const SLICE: Duration = Duration::from_millis(10);

/// 0 not asked yet, 1 available, 2 absent.
static WAITV: AtomicU8 = AtomicU8::new(0);

/// Returns whether the kernel lets this process call `futex_waitv`, as far as this process knows.
///
/// The call is absent before Linux 5.16, and a seccomp filter may deny it, with any errno, from the
/// start or from any later moment. The first refused sleep finds that out (`wait_any`), and from
/// then on this returns false.
pub(crate) fn has_waitv() -> bool {
    match WAITV.load(StdOrdering::Relaxed) {
        1 => true,
        2 => false,
        _ => {
            // An empty set: a kernel that knows the call answers EINVAL, and nothing else.
            let there = futex_call::wait_for_any::<0>(&[], Deadline::NEVER) == Err(Errno::INVAL);
            WAITV.store(if there { 1 } else { 2 }, StdOrdering::Relaxed);
            there
        }
    }
}

/// Makes this process wait as if the kernel had no `futex_waitv` (for tests of the fallback).
#[cfg(feature = "testing")]
pub(crate) fn pretend_no_waitv() {
    WAITV.store(2, StdOrdering::Relaxed);
}

/// Sleeps until one of the words is woken or the deadline passes; returns at once when a word does
/// not have the expected value.
///
/// The words are queued in the order given: a word that may be woken only once, by a process that
/// may be gone then, goes first. Where `futex_waitv` is absent, the caller sleeps in slices on the
/// word with index `principal`.
pub(crate) fn wait_any(
    set: &[Watch<'_>],
    principal: usize,
    deadline: Deadline,
) -> Result<Wakeup, Errno> {
    debug_assert!(set.len() <= MOST_WATCHES && principal < set.len());
    if !has_waitv() {
        return wait_in_slices(set, principal, deadline);
    }
    let ended = if set.len() <= FEW_WATCHES {
        futex_call::wait_for_any::<FEW_WATCHES>(set, deadline)
    } else {
        futex_call::wait_for_any::<MOST_WATCHES>(set, deadline)
    };
    match ended {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(Wakeup::LookAgain),
        Err(Errno::TIMEDOUT) => Ok(Wakeup::TimedOut),
        // The memory is gone: a slice would fail in the same way.
        Err(Errno::FAULT) => Err(Errno::FAULT),
        // The kernel has no memory for it just now: this sleep is a slice, the next one may be
        // whole.
        Err(Errno::NOMEM) => wait_in_slices(set, principal, deadline),
        // The set is well-formed, so the kernel returns nothing else: a filter that was installed
        // after the first question denies the call. Relaxed: a hint of this process's own.
        Err(_) => {
            WAITV.store(2, StdOrdering::Relaxed);
            wait_in_slices(set, principal, deadline)
        }
    }
}

/// Sleeps on words by their addresses, which may be unmapped meanwhile, in that order, and on one
/// of ours behind them, without a deadline. Only the kernel reads them.
pub(crate) fn wait_any_at(words: &[(usize, u32)], own: Watch<'_>) -> Result<(), Errno> {
    let mut waits = [Wait::new(); MOST_WATCHES];
    let own = (own.word.as_ptr().expose_provenance(), own.expected);
    let mut len = 0;
    for (wait, &(address, expected)) in waits.iter_mut().zip(words.iter().chain([&own])) {
        wait.val = u64::from(expected);
        wait.uaddr = WaitPtr::new(core::ptr::with_exposed_provenance_mut(address));
        // Always shared: no PRIVATE among the flags.
        wait.flags = WaitFlags::SIZE_U32;
        len += 1;
    }
    rx::waitv(&waits[..len], WaitvFlags::empty(), None, ClockId::Monotonic).map(drop)
}

/// Sleeps on the `principal` alone, for one slice; the caller looks at the others in between.
#[cold]
pub(crate) fn wait_in_slices(
    set: &[Watch<'_>],
    principal: usize,
    deadline: Deadline,
) -> Result<Wakeup, Errno> {
    if set.iter().any(|w| w.word.load(Ordering::Acquire) != w.expected) {
        return Ok(Wakeup::LookAgain);
    }
    if deadline.has_passed() {
        return Ok(Wakeup::TimedOut);
    }
    let span = deadline.remaining().unwrap_or(SLICE).min(SLICE);
    let watch = set[principal];
    match futex_call::wait_for(watch.word, watch.expected, span) {
        // The end of a slice is a reason to look again, and not yet the deadline.
        Ok(()) | Err(FutexError::Again | FutexError::Interrupted | FutexError::TimedOut) => {
            Ok(Wakeup::LookAgain)
        }
        Err(other) => Err(Errno::from_raw_os_error(other.errno())),
    }
}

/// Gives back a word that is `held`: stores `free` there and wakes all its sleepers, in one step of
/// the kernel's.
///
/// Stopped or killed before that step, this thread still holds the word; after it, all sleepers are
/// woken. So the word is never free beside sleepers that no thread has woken. `held` is not 0,
/// `free` is less than 2048. The store has release order: the kernel's atomic operations on futex
/// words are full barriers on all supported machines.
#[cold]
pub(crate) fn set_and_wake_all(word: &AtomicU32, held: u32, free: u16) {
    // A held word is never 0, so the comparison fails: if it held, the kernel would wake one more,
    // but no sleeper is left there.
    let step = WakeOp { change: Change::Set(free), when: Comparison::Eq, than: 0 };
    if futex_call::wake_op(word, ALL, word, 0, step).is_err() {
        // A filter denies the operation (or, by mistake, a PI call sleeps on the word): two steps
        // must do. By compare-exchange, because in the second case the kernel has stored already,
        // and the word may be another thread's by now.
        let _ = word.compare_exchange(held, u32::from(free), Ordering::Release, Ordering::Relaxed);
        wake_all(word);
    }
}

/// Sets a bit of a word that is `held`, and wakes all its sleepers, in one step of the kernel's:
/// the bit is never set beside sleepers that no thread has woken. The store has release order, as
/// in [`set_and_wake_all`].
#[cold]
pub(crate) fn set_bit_and_wake_all(word: &AtomicU32, held: u32, bit: u8) {
    let step = WakeOp { change: Change::SetBit(bit), when: Comparison::Eq, than: 0 };
    if futex_call::wake_op(word, ALL, word, 0, step).is_err() {
        // As in `set_and_wake_all`.
        let set = held | 1 << bit;
        let _ = word.compare_exchange(held, set, Ordering::Release, Ordering::Relaxed);
        wake_all(word);
    }
}

/// Wakes all sleepers on the word.
///
/// A word that is no longer mapped, or is read-only here, cannot have sleepers that rely on this
/// process: that is no error.
#[cold]
pub(crate) fn wake_all(word: &AtomicU32) {
    let _ = futex_call::wake(word, ALL);
}

/// Wakes one sleeper on the word, and returns how many it woke: 0 or 1.
#[cold]
pub(crate) fn wake_one(word: &AtomicU32) -> usize {
    futex_call::wake(word, 1).unwrap_or(0) as usize
}

/// Returns whether there is memory behind that mapped address. The kernel answers, where a load of
/// a page behind a file's end would raise SIGBUS. Returns false also where the kernel's answer says
/// nothing.
#[cold]
pub(crate) fn is_backed(word: *const u32) -> bool {
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel reads the word and checks its address; the time lives on this stack.
    let slept =
        unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 1u32, &raw const at_once) };
    slept == 0
        || matches!(super::robust::last_errno(), Errno::AGAIN | Errno::TIMEDOUT | Errno::INTR)
}

/// Raises `sequence` by one and wakes at most so many sleepers on `through`, in one step
/// (`FUTEX_WAKE_OP`): a thread that is killed or stopped has done both or neither. A sleeper has
/// the former number and is woken, or finds the new one and does not sleep. Returns how many were
/// woken.
#[cold]
pub(crate) fn raise_and_wake(sequence: &AtomicU32, through: &AtomicU32, most: u32) -> u32 {
    // The comparison holds for one number of 2^32 (-2048): then a sleeper on `sequence` alone is
    // woken as well, in vain.
    let op = WakeOp { change: Change::Add(1), when: Comparison::Eq, than: 0x800 };
    match futex_call::wake_op(through, most, sequence, 1, op) {
        Ok(woken) => woken,
        // A filter that knows only the two older calls denies it, or the kernel could not get a
        // page: two steps must do. Or a PI call sleeps there: the change is then made once more. A
        // failed wake may have woken no sleeper: the caller must not believe that all are awake.
        Err(_) => {
            sequence.fetch_add(1, Ordering::AcqRel);
            futex_call::wake(through, most).unwrap_or(most)
        }
    }
}

/// Raises `sequence` by one and wakes all sleepers on it and on `other`, in one step. Returns how
/// many were woken.
#[cold]
pub(crate) fn raise_and_wake_both(sequence: &AtomicU32, other: &AtomicU32) -> u32 {
    // Sleepers on `sequence` are woken unless it was this number, -2048. Relaxed: notifiers that
    // raise it in between are fewer than 4,096.
    if sequence.load(Ordering::Relaxed) < 0xffff_f000 {
        let op = WakeOp { change: Change::Add(1), when: Comparison::Ne, than: 0x800 };
        if let Ok(woken) = futex_call::wake_op(other, ALL, sequence, ALL, op) {
            return woken;
        }
    }
    // As two steps, which must do also where a filter denies the operation: stopped or killed in
    // between, this thread has woken the sleepers on `sequence`, and the caller's note that a waiter
    // may sleep is still there. So is it where the second wake fails, which may have woken no sleeper:
    // as many as could be, and the caller does not believe that all are awake.
    let woken = raise_and_wake(sequence, sequence, ALL);
    woken.saturating_add(futex_call::wake(other, ALL).unwrap_or(ALL))
}

/// A change that the kernel can make in the same step as a wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InOneStep {
    Set(u16),
    Or(u16),
    SetBit(u8),
    ClearBit(u8),
}

impl InOneStep {
    /// Returns the step that sets these bits; `None` if its argument cannot express them: it takes
    /// one bit, or any of the lower eleven (the twelfth is a sign).
    pub(crate) fn or(bits: u32) -> Option<InOneStep> {
        match bits {
            0..=0x7ff => Some(InOneStep::Or(bits as u16)),
            _ if bits.is_power_of_two() => Some(InOneStep::SetBit(bits.trailing_zeros() as u8)),
            _ => None,
        }
    }

    /// Changes the word and wakes at most so many of its sleepers, in one step: see
    /// [`raise_and_wake`].
    #[cold]
    pub(crate) fn and_wake(self, word: &AtomicU32, most: u32) -> u32 {
        let change = match self {
            InOneStep::Set(value) => Change::Set(value),
            InOneStep::Or(bits) => Change::Or(bits),
            InOneStep::SetBit(bit) => Change::SetBit(bit),
            InOneStep::ClearBit(bit) => Change::ClearBit(bit),
        };
        // Both wakes go through the same word: if the comparison holds, no sleeper is left for the
        // second.
        let op = WakeOp { change, when: Comparison::Eq, than: 0x800 };
        match futex_call::wake_op(word, most, word, 1, op) {
            Ok(woken) => woken,
            Err(_) => {
                self.apply(word);
                futex_call::wake(word, most).unwrap_or(0)
            }
        }
    }

    /// Makes the change without a wake.
    fn apply(self, word: &AtomicU32) {
        use Ordering::AcqRel;
        match self {
            InOneStep::Set(value) => word.swap(u32::from(value), AcqRel),
            InOneStep::Or(bits) => word.fetch_or(u32::from(bits), AcqRel),
            InOneStep::SetBit(bit) => word.fetch_or(1 << bit, AcqRel),
            InOneStep::ClearBit(bit) => word.fetch_and(!(1 << bit), AcqRel),
        };
    }
}
