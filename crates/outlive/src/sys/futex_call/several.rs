use rustix::thread::futex::{self as rx, WaitFlags, WaitPtr, WaitvFlags};

use super::FutexError;
use crate::Deadline;
use crate::shim::AtomicU32;
use crate::sys::Errno;

/// The most words that [`waitv`] takes.
pub const MOST_WATCHES: usize = 128;

/// Names a word, and the value that it must still have for the sleep to begin.
#[derive(Clone, Copy, Debug)]
pub struct Watch<'a> {
    /// The word.
    pub word: &'a AtomicU32,
    /// The value that it must have.
    pub expected: u32,
}

/// Sleeps while all the words have the expected values, until one of them is woken (`futex_waitv`,
/// Linux 5.16). Returns the index of a woken word.
///
/// **The index is only a hint.** If several words are woken, it is one of them, usually the last in
/// the list, and the wake-ups of the others are used up all the same. So look at all words again,
/// and pass a wake-up on if you do not use it.
///
/// ```
/// use outlive::{Deadline, futex::{self, FutexError, Watch}};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use std::time::Duration;
/// let (a, b) = (AtomicU32::new(0), AtomicU32::new(0));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         b.store(1, Ordering::Release);
///         futex::wake(&b, 1)
///     });
///     while a.load(Ordering::Acquire) == 0 && b.load(Ordering::Acquire) == 0 {
///         let set = [Watch { word: &a, expected: 0 }, Watch { word: &b, expected: 0 }];
///         match futex::waitv(&set, Deadline::after(Duration::from_secs(9))) {
///             Ok(_) | Err(FutexError::Again) => {}
///             // Absent, or denied by a container: poll instead.
///             Err(_) => std::thread::yield_now(),
///         }
///     }
/// });
/// ```
///
/// # Errors
/// - [`FutexError::Again`]: a word does not have the expected value; the kernel does not say which.
/// - [`FutexError::TimedOut`].
/// - [`FutexError::Interrupted`]: a signal handler ran that was set without `SA_RESTART`.
/// - [`FutexError::Invalid`]: no words, or more than [`MOST_WATCHES`].
/// - [`FutexError::Absent`]: before Linux 5.16. A container runtime may forbid the call: then
///   [`FutexError::NotPermitted`], or any number that the runtime chooses.
/// - [`FutexError::Fault`]: the memory is gone.
///
/// # If a process dies
/// As [`wait`](super::wait). This call makes a death harmless: let one of the words be one that the
/// kernel marks when a thread ends (a robust lock's).
pub fn waitv(watches: &[Watch<'_>], deadline: Deadline) -> Result<usize, FutexError> {
    if watches.len() > MOST_WATCHES {
        return Err(FutexError::Invalid);
    }
    Ok(wait_for_any::<MOST_WATCHES>(watches, deadline)?)
}

/// Sleeps on at most `N` words; `N` decides how much stack it takes.
pub(crate) fn wait_for_any<const N: usize>(
    watches: &[Watch<'_>],
    deadline: Deadline,
) -> Result<usize, Errno> {
    let mut waits = [rx::Wait::new(); N];
    let watches = &watches[..watches.len().min(N)];
    for (wait, watch) in waits.iter_mut().zip(watches) {
        wait.val = u64::from(watch.expected);
        wait.uaddr = WaitPtr::new(watch.word.as_ptr().cast());
        // Always shared: no PRIVATE among the flags.
        wait.flags = WaitFlags::SIZE_U32;
    }
    rx::waitv(
        &waits[..watches.len()],
        WaitvFlags::empty(),
        deadline.timespec().as_ref(),
        deadline.clock(),
    )
}
