use rustix::thread::futex::{self as rx, ClockId, Flags};

use super::{FutexError, at_most, clock_flag};
use crate::Deadline;
use crate::shim::AtomicU32;
use crate::sys::process;

/// The bit of a PI or robust word that says that a thread sleeps in the kernel, so that the fast
/// unlock must not be used.
pub const WAITERS: u32 = rx::WAITERS;
/// The bit that the kernel sets when the owner ended while it held the lock.
pub const OWNER_DIED: u32 = rx::OWNER_DIED;
/// The bits of a PI or robust word that name the thread that owns it.
pub const TID_MASK: u32 = 0x3fff_ffff;

/// Returns the calling thread's number, which PI words hold when the thread owns them; valid in its
/// own pid namespace only.
///
/// ```
/// assert_ne!(outlive::futex::thread_id(), 0);
/// ```
pub fn thread_id() -> u32 {
    process::thread_id()
}

/// Takes a lock whose word names its owner, and lends the owner the caller's priority while it
/// waits (`FUTEX_LOCK_PI`; with a monotonic deadline, `FUTEX_LOCK_PI2`, Linux 5.14).
///
/// Unlike with the other calls, the kernel decides by the word, so its values are fixed: 0 is free;
/// otherwise it holds the owner's thread number, with [`WAITERS`] when a thread sleeps. First try 0
/// → [`thread_id`] by compare-exchange, and call this only if that fails. On return the word names
/// the caller: no loop is needed. Signals do not end the wait.
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
///         // WAITERS is set: the kernel hands the lock to the sleeper with the highest priority.
///         Err(_) => futex::unlock_pi(word),
///     }
/// }
/// let (word, inside) = (AtomicU32::new(0), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             lock(&word).unwrap();
///             // No atomic addition is needed: the lock lets in one thread at a time.
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
/// - [`FutexError::Deadlock`]: the caller has the lock already, or waits, through others, for
///   itself.
/// - [`FutexError::NoSuchThread`]: the word names no living thread (and none slept when its owner
///   ended).
/// - [`FutexError::Again`]: the word changed meanwhile, or its owner is just ending: try again.
/// - [`FutexError::NotPermitted`]: the word names a kernel thread.
/// - [`FutexError::Invalid`]: word and kernel disagree about the owner, or a thread sleeps on the
///   word by another call.
/// - [`FutexError::NoMemory`], [`FutexError::Fault`]; [`FutexError::Absent`] for a monotonic
///   deadline before Linux 5.14 (a time of day works since 2.6.18) and on processors without the
///   right instructions.
///
/// # If a process dies
/// While it holds the lock, with a thread asleep: the sleeper gets the lock, `Ok`, and the word has
/// [`OWNER_DIED`] until it is unlocked or cleared; so check it. With no thread asleep, the kernel
/// knows nothing of the lock, and the word keeps the dead owner's number
/// ([`FutexError::NoSuchThread`] from then on), unless it was on the dead owner's robust list. That
/// list is libc's: where deaths can happen, use a lock of [`sync`](crate::sync).
pub fn lock_pi(word: &AtomicU32, deadline: Deadline) -> Result<(), FutexError> {
    let moment = deadline.timespec();
    // LOCK_PI counts on the time of day and has no flag for it; without a deadline the clock does
    // not matter.
    if moment.is_none() || deadline.clock() == ClockId::Realtime {
        Ok(rx::lock_pi(word, Flags::empty(), moment.as_ref())?)
    } else {
        Ok(rx::lock_pi2(word, Flags::empty(), moment.as_ref())?)
    }
}

/// `FUTEX_TRYLOCK_PI`: takes the lock if the kernel can without waiting.
///
/// For words that a compare-exchange from 0 cannot take: those with [`OWNER_DIED`] and no owner.
/// The kernel takes such a word and keeps the bit, so that the caller knows.
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
/// As [`lock_pi`], with [`FutexError::Again`] when a living thread has it.
///
/// # If a process dies
/// As [`lock_pi`].
pub fn trylock_pi(word: &AtomicU32) -> Result<(), FutexError> {
    if rx::trylock_pi(word, Flags::empty())? { Ok(()) } else { Err(FutexError::Again) }
}

/// Hands the lock to the sleeper with the highest priority, or sets the word to 0
/// (`FUTEX_UNLOCK_PI`).
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
/// - [`FutexError::Invalid`]: word and kernel disagree, or a thread sleeps on the word by another
///   call.
/// - [`FutexError::Again`]: the word was changed meanwhile: try again.
pub fn unlock_pi(word: &AtomicU32) -> Result<(), FutexError> {
    Ok(rx::unlock_pi(word, Flags::empty())?)
}

/// Sleeps on a plain word, to be moved to a PI word by [`cmp_requeue_pi`], and returns with the PI
/// lock in hand (`FUTEX_WAIT_REQUEUE_PI`): a condition variable's wait, for real-time threads.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let (bell, lock) = (AtomicU32::new(0), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     let waiter = scope.spawn(|| {
///         futex::wait_requeue_pi(&bell, 0, Deadline::NEVER, &lock)?;
///         // This thread has the lock already.
///         assert_eq!(lock.load(Ordering::Relaxed) & futex::TID_MASK, futex::thread_id());
///         futex::unlock_pi(&lock)
///     });
///     // The lock is free, so the first is woken and gets it at once.
///     while futex::cmp_requeue_pi(&bell, 0, futex::ALL, &lock) == Ok(0) {
///         std::thread::yield_now();
///     }
///     assert_eq!(waiter.join().unwrap(), Ok(()));
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word does not have the expected value, or the wait ended before the
///   sleeper was moved (a signal, or a [`wake`] that found it): the caller does not have the lock.
///   Look at the word again.
/// - [`FutexError::TimedOut`]: the caller does not have the lock either.
/// - [`FutexError::Invalid`]: the two words are one and the same.
/// - [`FutexError::Deadlock`], [`FutexError::NoSuchThread`], [`FutexError::Interrupted`] and the
///   rest: as [`lock_pi`].
///
/// [`wake`]: super::wake
///
/// # If a process dies
/// As [`lock_pi`].
pub fn wait_requeue_pi(
    word: &AtomicU32,
    expected: u32,
    deadline: Deadline,
    lock: &AtomicU32,
) -> Result<(), FutexError> {
    Ok(rx::wait_requeue_pi(
        word,
        clock_flag(deadline),
        expected,
        deadline.timespec().as_ref(),
        lock,
    )?)
}

/// Moves the sleepers of [`wait_requeue_pi`] on the word to the PI lock that they named, if the
/// word has the expected value; the first gets the lock if it is free (`FUTEX_CMP_REQUEUE_PI`).
/// Returns how many were woken and moved.
///
/// The kernel insists on waking at most one, so there is no argument for that. `move_on` is how
/// many more may be moved.
///
/// ```
/// use outlive::futex::{self, FutexError};
/// use std::sync::atomic::AtomicU32;
/// let (bell, lock) = (AtomicU32::new(7), AtomicU32::new(0));
/// assert_eq!(futex::cmp_requeue_pi(&bell, 7, futex::ALL, &lock), Ok(0), "no thread sleeps");
/// assert_eq!(futex::cmp_requeue_pi(&bell, 8, futex::ALL, &lock), Err(FutexError::Again));
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word does not have the expected value, or the lock's owner is just
///   ending: try again.
/// - [`FutexError::Invalid`]: a sleeper waits for another lock, or by another call; or the two
///   words are one.
/// - [`FutexError::NoSuchThread`], [`FutexError::NotPermitted`]: as [`lock_pi`].
pub fn cmp_requeue_pi(
    word: &AtomicU32,
    expected: u32,
    move_on: u32,
    lock: &AtomicU32,
) -> Result<u32, FutexError> {
    Ok(rx::cmp_requeue_pi(word, Flags::empty(), at_most(move_on), lock, expected)? as u32)
}
