use rustix::thread::futex::{self as rx, Flags};

use super::{FutexError, at_most};
use crate::shim::AtomicU32;

/// `FUTEX_REQUEUE`: wakes some who sleep on `word`, and lets others go on sleeping, on `to`, without having run.
///
/// Says how many it woke *and* moved (the manual page says: woken only). It does not look at the word; whoever falls
/// asleep meanwhile may be missed: use [`cmp_requeue`].
///
/// ```
/// use outlive::futex;
/// use std::sync::atomic::AtomicU32;
/// let (from, to) = (AtomicU32::new(0), AtomicU32::new(0));
/// assert_eq!(futex::requeue(&from, 1, futex::ALL, &to), Ok(0), "nobody sleeps");
/// ```
///
/// # Errors
/// As [`cmp_requeue`], save `Again`.
///
/// # If a process dies
/// As [`cmp_requeue`].
pub fn requeue(word: &AtomicU32, wake: u32, move_on: u32, to: &AtomicU32) -> Result<u32, FutexError> {
    Ok(rx::requeue(word, Flags::empty(), at_most(wake), at_most(move_on), to)? as u32)
}

/// `FUTEX_CMP_REQUEUE`: if the word is as expected, wakes some who sleep on it and moves others to `to`; says how many
/// both are together.
///
/// So a broadcast does not wake a herd that would only queue up at the lock behind it: wake one, move the rest to the
/// lock's word. Whoever unlocks it then must wake them: they sleep there without having set its "somebody waits" state.
///
/// ```
/// use outlive::{Deadline, futex};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// let (bell, lock) = (AtomicU32::new(0), AtomicU32::new(2));
/// std::thread::scope(|scope| {
///     for _ in 0..3 {
///         scope.spawn(|| {
///             while bell.load(Ordering::Acquire) == 0 {
///                 let _ = futex::wait(&bell, 0, Deadline::NEVER);
///             }
///         });
///     }
///     bell.store(1, Ordering::Release);
///     // One runs; the others go on sleeping, now on the lock (whoever came late did not sleep at all) ...
///     let met = futex::cmp_requeue(&bell, 1, 1, futex::ALL, &lock).unwrap();
///     assert!(met <= 3);
///     // ... until it is given back.
///     assert_eq!(futex::wake(&lock, futex::ALL), Ok(met.saturating_sub(1)));
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word is not as expected; nobody was woken or moved.
/// - [`FutexError::Invalid`]: somebody sleeps on the word by a PI call.
/// - [`FutexError::Fault`]: memory is gone.
///
/// The same word twice is allowed: those who are "moved" stay and are counted.
///
/// # If a process dies
/// A sleeper moved by somebody who dies sleeps on where it was moved to: nobody else knows about it. That is why a
/// sleeper that must not hang watches the end of whoever it waits for as well ([`waitv`](super::waitv); but those who
/// sleep by `waitv` are moved for the one word only).
pub fn cmp_requeue(
    word: &AtomicU32,
    expected: u32,
    wake: u32,
    move_on: u32,
    to: &AtomicU32,
) -> Result<u32, FutexError> {
    Ok(rx::cmp_requeue(word, Flags::empty(), at_most(wake), at_most(move_on), to, expected)? as u32)
}
