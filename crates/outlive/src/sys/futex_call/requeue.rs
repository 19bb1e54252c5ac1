use rustix::thread::futex::{self as rx, Flags};

use super::{FutexError, at_most};
use crate::shim::AtomicU32;

/// Wakes some sleepers on `word`, and moves others to `to`, where they sleep on without having run
/// (`FUTEX_REQUEUE`).
///
/// Returns how many it woke *and* moved (the manual page says: woken only). The kernel does not
/// look at the word, so a thread that falls asleep meanwhile may be missed: use [`cmp_requeue`].
///
/// ```
/// use outlive::futex;
/// use std::sync::atomic::AtomicU32;
/// let (from, to) = (AtomicU32::new(0), AtomicU32::new(0));
/// assert_eq!(futex::requeue(&from, 1, futex::ALL, &to), Ok(0), "no thread sleeps");
/// ```
///
/// # Errors
/// As [`cmp_requeue`], except `Again`.
///
/// # If a process dies
/// As [`cmp_requeue`].
pub fn requeue(
    word: &AtomicU32,
    wake: u32,
    move_on: u32,
    to: &AtomicU32,
) -> Result<u32, FutexError> {
    Ok(rx::requeue(word, Flags::empty(), at_most(wake), at_most(move_on), to)? as u32)
}

/// Wakes some sleepers on the word and moves others to `to`, if the word has the expected value
/// (`FUTEX_CMP_REQUEUE`). Returns how many both are together.
///
/// So a broadcast does not wake a herd that would only queue at the lock behind it: wake one, and
/// move the rest to the lock's word. The thread that unlocks it must then wake them: they sleep
/// there without having set its "contended" state.
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
///     // One runs; the others sleep on, now on the lock (a late thread did not sleep at all) ...
///     let met = futex::cmp_requeue(&bell, 1, 1, futex::ALL, &lock).unwrap();
///     assert!(met <= 3);
///     // ... until it is unlocked.
///     assert_eq!(futex::wake(&lock, futex::ALL), Ok(met.saturating_sub(1)));
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: the word does not have the expected value; no sleeper was woken or
///   moved.
/// - [`FutexError::Invalid`]: a thread sleeps on the word by a PI call.
/// - [`FutexError::Fault`]: the memory is gone.
///
/// Both words may be the same: "moved" sleepers then stay and are counted.
///
/// # If a process dies
/// If the process that moved a sleeper dies, the sleeper sleeps on at the new word, and no other
/// process knows about it. So a sleeper that must not hang also watches the end of the thread that
/// it waits for ([`waitv`](super::waitv); but a sleeper by `waitv` is moved for the one word only).
pub fn cmp_requeue(
    word: &AtomicU32,
    expected: u32,
    wake: u32,
    move_on: u32,
    to: &AtomicU32,
) -> Result<u32, FutexError> {
    Ok(rx::cmp_requeue(word, Flags::empty(), at_most(wake), at_most(move_on), to, expected)? as u32)
}
