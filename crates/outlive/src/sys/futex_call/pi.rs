use rustix::thread::futex::{self as rx, ClockId, Flags};

use super::{FutexError, at_most, clock_flag};
use crate::Deadline;
use crate::shim::AtomicU32;
use crate::sys::process;

/// The bit of a PI or robust word that says that somebody sleeps in the kernel, so that the fast unlock must not be used.
pub const WAITERS: u32 = rx::WAITERS;
/// The bit that the kernel sets when the owner ended with the lock in hand.
pub const OWNER_DIED: u32 = rx::OWNER_DIED;
/// The bits of a PI or robust word that say which thread owns it.
pub const TID_MASK: u32 = 0x3fff_ffff;

/// The calling thread's number, which stands in PI words that it owns; valid in its own pid namespace only.
///
/// ```
/// assert_ne!(outlive::futex::thread_id(), 0);
/// ```
pub fn thread_id() -> u32 {
    process::thread_id()
}

/// `FUTEX_LOCK_PI`, with a monotonic deadline `FUTEX_LOCK_PI2` (Linux 5.14): takes a lock whose word names its owner,
/// lending the owner the caller's priority while it waits.
///
/// Unlike with the other calls the kernel decides by the word, so its values are fixed: 0 is free; else the owner's
/// thread number, with [`WAITERS`] when somebody sleeps. Try 0 → [`thread_id`] by compare-exchange first, and call only
/// when that fails. On return the word names the caller: no loop. Signals do not end the wait.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering::{Acquire, Relaxed, Release}};
/// fn lock(word: &AtomicU32) -> Result<(), futex::FutexError> {
///     match word.compare_exchange(0, futex::thread_id(), Acquire, Relaxed) {
///         Ok(_) => Ok(()),
///         Err(_) => futex::lock_pi(word, Deadline::NEVER),
///     }
/// }
/// fn unlock(word: &AtomicU32) -> Result<(), futex::FutexError> {
///     match word.compare_exchange(futex::thread_id(), 0, Release, Relaxed) {
///         Ok(_) => Ok(()),
///         // WAITERS is set: the kernel hands the lock to the one with the highest priority.
///         Err(_) => futex::unlock_pi(word),
///     }
/// }
/// let (word, inside) = (AtomicU32::new(0), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             lock(&word).unwrap();
///             // No atomic addition is needed: one at a time, by the lock.
///             inside.store(inside.load(Relaxed) + 1, Relaxed);
///             unlock(&word).unwrap();
///         });
///     }
/// });
/// assert_eq!((inside.load(Relaxed), word.load(Relaxed)), (2, 0));
/// ```
///
/// # Errors
/// - [`FutexError::TimedOut`].
/// - [`FutexError::Deadlock`]: the caller has it already, or waits, through others, for itself.
/// - [`FutexError::NoSuchThread`]: the word names nobody who lives (and nobody slept when it ended).
/// - [`FutexError::Again`]: the word changed meanwhile, or its owner is just ending: try again.
/// - [`FutexError::NotPermitted`]: the word names a kernel thread.
/// - [`FutexError::Invalid`]: word and kernel disagree about the owner, or somebody sleeps on it by another call.
/// - [`FutexError::NoMemory`], [`FutexError::Fault`]; [`FutexError::Absent`] for a monotonic deadline before Linux 5.14
///   (a time of day works since 2.6.18) and on processors without the right instructions.
///
/// # If a process dies
/// Holding the lock, with somebody asleep: the sleeper gets it, `Ok`, and [`OWNER_DIED`] stands in the word until it is
/// unlocked or cleared; so look. With nobody asleep the kernel knows nothing of the lock, and the word keeps the dead
/// one's number ([`FutexError::NoSuchThread`] from then on), unless it was on the dead one's robust list. That list is
/// libc's: where deaths can happen, take a lock of [`sync`](crate::sync).
pub fn lock_pi(word: &AtomicU32, deadline: impl Into<Deadline>) -> Result<(), FutexError> {
    let deadline = deadline.into();
    let moment = deadline.timespec();
    // LOCK_PI counts on the time of day and knows no flag for it; without a deadline the clock is nobody's business.
    if moment.is_none() || deadline.clock() == ClockId::Realtime {
        Ok(rx::lock_pi(word, Flags::empty(), moment.as_ref())?)
    } else {
        Ok(rx::lock_pi2(word, Flags::empty(), moment.as_ref())?)
    }
}

/// `FUTEX_TRYLOCK_PI`: takes the lock if the kernel can without waiting.
///
/// For words that a compare-exchange from 0 does not get: with [`OWNER_DIED`] and no owner, which it takes and keeps
/// the bit, so that the caller knows.
///
/// ```
/// use outlive::futex::{self, OWNER_DIED};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let word = AtomicU32::new(OWNER_DIED);
/// assert_eq!(futex::trylock_pi(&word), Ok(()));
/// assert_eq!(word.load(Ordering::Relaxed) & futex::TID_MASK, futex::thread_id());
/// assert_ne!(word.load(Ordering::Relaxed) & OWNER_DIED, 0);
/// ```
///
/// # Errors
/// As [`lock_pi`], with [`FutexError::Again`] when somebody who lives has it.
///
/// # If a process dies
/// As [`lock_pi`].
pub fn trylock_pi(word: &AtomicU32) -> Result<(), FutexError> {
    if rx::trylock_pi(word, Flags::empty())? { Ok(()) } else { Err(FutexError::Again) }
}

/// `FUTEX_UNLOCK_PI`: hands the lock to the sleeper with the highest priority, or sets the word to 0.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let word = AtomicU32::new(0);
/// futex::lock_pi(&word, Deadline::NEVER)?;
/// futex::unlock_pi(&word)?;
/// assert_eq!(word.load(Ordering::Relaxed), 0);
/// # Ok::<(), futex::FutexError>(())
/// ```
///
/// # Errors
/// - [`FutexError::NotPermitted`]: the word does not name the caller.
/// - [`FutexError::Invalid`]: word and kernel disagree, or somebody sleeps on it by another call.
/// - [`FutexError::Again`]: the word was changed meanwhile: try again.
pub fn unlock_pi(word: &AtomicU32) -> Result<(), FutexError> {
    Ok(rx::unlock_pi(word, Flags::empty())?)
}

/// `FUTEX_WAIT_REQUEUE_PI`: sleeps on a word that is no PI word, to be moved to one by [`cmp_requeue_pi`], and returns
/// with the PI lock in hand. A condition variable's wait, for real-time threads.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let (bell, lock) = (AtomicU32::new(0), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     let waiter = scope.spawn(|| {
///         futex::wait_requeue_pi(&bell, 0, Deadline::NEVER, &lock)?;
///         // The lock is ours already.
///         assert_eq!(lock.load(Ordering::Relaxed) & futex::TID_MASK, futex::thread_id());
///         futex::unlock_pi(&lock)
///     });
///     // Nobody has the lock, so the first is woken and gets it at once.
///     while futex::cmp_requeue_pi(&bell, 0, futex::ALL, &lock) == Ok(0) {
///         std::thread::yield_now();
///     }
///     assert_eq!(waiter.join().unwrap(), Ok(()));
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word is not as expected, or the wait ended before it was moved (a signal, a [`wake`]
///   that found it): the lock is not the caller's. Look at the word again.
/// - [`FutexError::TimedOut`]: the lock is not the caller's either.
/// - [`FutexError::Invalid`]: the two words are one and the same.
/// - [`FutexError::Deadlock`], [`FutexError::NoSuchThread`], [`FutexError::Interrupted`] and the rest: as [`lock_pi`].
///
/// [`wake`]: super::wake
///
/// # If a process dies
/// As [`lock_pi`].
pub fn wait_requeue_pi(
    word: &AtomicU32,
    expected: u32,
    deadline: impl Into<Deadline>,
    lock: &AtomicU32,
) -> Result<(), FutexError> {
    let deadline = deadline.into();
    Ok(rx::wait_requeue_pi(word, clock_flag(deadline), expected, deadline.timespec().as_ref(), lock)?)
}

/// `FUTEX_CMP_REQUEUE_PI`: if the word is as expected, moves those who sleep on it by [`wait_requeue_pi`] to the PI lock
/// that they named; the first gets it if it is free. Says how many were woken and moved.
///
/// The kernel insists on waking one at most, so that is no argument here. `move_on` is how many more may be moved.
///
/// ```
/// use outlive::futex::{self, FutexError};
/// use std::sync::atomic::AtomicU32;
/// let (bell, lock) = (AtomicU32::new(7), AtomicU32::new(0));
/// assert_eq!(futex::cmp_requeue_pi(&bell, 7, futex::ALL, &lock), Ok(0), "nobody sleeps");
/// assert_eq!(futex::cmp_requeue_pi(&bell, 8, futex::ALL, &lock), Err(FutexError::Again));
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word is not as expected, or the lock's owner is just ending: try again.
/// - [`FutexError::Invalid`]: a sleeper waits for another lock, or by another call; or the two words are one.
/// - [`FutexError::NoSuchThread`], [`FutexError::NotPermitted`]: as [`lock_pi`].
pub fn cmp_requeue_pi(word: &AtomicU32, expected: u32, move_on: u32, lock: &AtomicU32) -> Result<u32, FutexError> {
    Ok(rx::cmp_requeue_pi(word, Flags::empty(), at_most(move_on), lock, expected)? as u32)
}
