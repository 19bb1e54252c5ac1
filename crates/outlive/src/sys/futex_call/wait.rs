use std::num::NonZeroU32;
use std::time::Duration;

use rustix::thread::futex::{self as rx, Flags, Timespec};

use super::{FutexError, at_most, clock_flag};
use crate::Deadline;
use crate::shim::AtomicU32;

/// All sleepers on the word, as a count.
pub const ALL: u32 = i32::MAX as u32;

/// The bits that [`wait`] and [`wake`] use: all of them.
const ANY: NonZeroU32 = NonZeroU32::MAX;

/// Sleeps while the word has the expected value, until woken (`FUTEX_WAIT`; with an absolute
/// timeout, `FUTEX_WAIT_BITSET`).
///
/// The kernel compares and puts the thread to sleep in one step, so a wake-up between the caller's
/// look and its sleep is not lost. A [`Deadline`] is a moment, so a wait that is repeated with the
/// same one does not grow longer; [`wait_for`] is the kernel's relative form.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let word = AtomicU32::new(0);
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         word.store(1, Ordering::Release);
///         futex::wake(&word, 1)
///     });
///     // A loop: a wake-up may be meant for another waiter, or come before the sleep.
///     while word.load(Ordering::Acquire) == 0 {
///         let _ = futex::wait(&word, 0, Deadline::NEVER);
///     }
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word does not have the expected value. The kernel compares first,
///   even if the deadline has passed already.
/// - [`FutexError::TimedOut`].
/// - [`FutexError::Interrupted`]: a signal handler ran. Without a deadline, and if the handler was
///   set with `SA_RESTART`, the kernel continues the sleep instead; with a deadline it never does.
/// - [`FutexError::Fault`]: the memory is gone.
///
/// `Ok` does not mean that the word has changed: the wake-up may have had another reason.
///
/// # If a process dies
/// A sleeper that is killed takes with it a wake-up that it had received already; a thread that
/// wakes only one sleeper must allow for that. If the thread that should wake this one dies first,
/// the wake-up never comes: wait for that thread's end as well, or with a deadline.
pub fn wait(word: &AtomicU32, expected: u32, deadline: Deadline) -> Result<(), FutexError> {
    match deadline.timespec() {
        None => Ok(rx::wait(word, Flags::empty(), expected, None)?),
        Some(moment) => {
            Ok(rx::wait_bitset(word, clock_flag(deadline), expected, Some(&moment), ANY)?)
        }
    }
}

/// Sleeps like [`wait`], with a relative timeout (`FUTEX_WAIT`): the span counts anew in each call.
///
/// It counts on the monotonic clock. After a stop and a `SIGCONT` the kernel goes on with what was
/// left of it.
///
/// ```
/// use outlive::futex::{self, FutexError};
/// use std::sync::atomic::AtomicU32;
/// use std::time::Duration;
/// let span = Duration::from_millis(2);
/// assert_eq!(futex::wait_for(&AtomicU32::new(0), 0, span), Err(FutexError::TimedOut));
/// ```
///
/// # Errors
/// As [`wait`].
///
/// # If a process dies
/// As [`wait`].
pub fn wait_for(word: &AtomicU32, expected: u32, span: Duration) -> Result<(), FutexError> {
    // A span too long for the clock means for ever.
    let span = i64::try_from(span.as_secs())
        .ok()
        .map(|seconds| Timespec { tv_sec: seconds, tv_nsec: span.subsec_nanos().into() });
    Ok(rx::wait(word, Flags::empty(), expected, span.as_ref())?)
}

/// Wakes at most so many sleepers on the word, and returns how many it woke (`FUTEX_WAKE`).
///
/// The kernel wakes by priority, then in the order in which the sleepers came. A `most` of 0 wakes
/// one all the same, because the kernel counts after it has woken.
///
/// ```
/// use outlive::futex;
/// use std::sync::atomic::AtomicU32;
/// assert_eq!(futex::wake(&AtomicU32::new(0), futex::ALL), Ok(0), "no thread sleeps");
/// ```
///
/// # Errors
/// [`FutexError::Invalid`] when a thread sleeps on the word by a PI call; [`FutexError::Fault`]
/// when the memory is gone.
pub fn wake(word: &AtomicU32, most: u32) -> Result<u32, FutexError> {
    Ok(rx::wake(word, Flags::empty(), at_most(most))? as u32)
}

/// Sleeps like [`wait`], and is woken only by a [`wake_bitset`] that shares one of these bits, or
/// by [`wake`] (`FUTEX_WAIT_BITSET`).
///
/// The bits allow up to 32 groups of sleepers on one word, such as readers and writers.
///
/// ```
/// use outlive::{Deadline, futex::{self, FutexError}};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// const READERS: u32 = 1;
/// const WRITERS: u32 = 2;
/// let word = AtomicU32::new(0);
/// std::thread::scope(|scope| {
///     let reader = scope.spawn(|| futex::wait_bitset(&word, 0, READERS, Deadline::NEVER));
///     // Not for readers; then for them, until it finds the sleeper asleep.
///     assert_eq!(futex::wake_bitset(&word, futex::ALL, WRITERS), Ok(0));
///     while futex::wake_bitset(&word, futex::ALL, READERS) == Ok(0) {
///         std::thread::yield_now();
///     }
///     assert_eq!(reader.join().unwrap(), Ok(()));
/// });
/// ```
///
/// # Errors
/// As [`wait`], and [`FutexError::Invalid`] without any bit.
///
/// # If a process dies
/// As [`wait`].
pub fn wait_bitset(
    word: &AtomicU32,
    expected: u32,
    bits: u32,
    deadline: Deadline,
) -> Result<(), FutexError> {
    let bits = NonZeroU32::new(bits).ok_or(FutexError::Invalid)?;
    Ok(rx::wait_bitset(word, clock_flag(deadline), expected, deadline.timespec().as_ref(), bits)?)
}

/// Wakes at most so many sleepers whose bits share one with these (`FUTEX_WAKE_BITSET`). See
/// [`wait_bitset`].
///
/// Sleepers of [`wait`] have all bits, and so have those of [`waitv`](super::waitv).
///
/// ```
/// use outlive::futex::{self, FutexError};
/// use std::sync::atomic::AtomicU32;
/// let word = AtomicU32::new(0);
/// assert_eq!(futex::wake_bitset(&word, 1, 1 << 31), Ok(0), "no thread sleeps");
/// assert_eq!(futex::wake_bitset(&word, 1, 0), Err(FutexError::Invalid));
/// ```
///
/// # Errors
/// As [`wake`], and [`FutexError::Invalid`] without any bit.
pub fn wake_bitset(word: &AtomicU32, most: u32, bits: u32) -> Result<u32, FutexError> {
    let bits = NonZeroU32::new(bits).ok_or(FutexError::Invalid)?;
    Ok(rx::wake_bitset(word, Flags::empty(), at_most(most), bits)? as u32)
}
