use std::fmt;

use crate::sys::Errno;

/// Says what the kernel answered instead of doing what was asked.
///
/// Several are ordinary: see [`FutexError::is_look_again`].
///
/// ```
/// use outlive::{Deadline, futex::{self, FutexError}};
/// use std::sync::atomic::AtomicU32;
/// use std::time::Duration;
/// let (word, soon) = (AtomicU32::new(1), Deadline::after(Duration::from_millis(1)));
/// assert_eq!(futex::wait(&word, 0, Deadline::NEVER), Err(FutexError::Again), "it is 1, not 0");
/// assert_eq!(futex::wait(&word, 1, soon), Err(FutexError::TimedOut));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FutexError {
    /// `EAGAIN`: the word did not have the expected value, so the thread did not sleep. From the PI
    /// calls: the owner is just ending, or, from [`trylock_pi`](super::trylock_pi), lives and has
    /// the lock.
    Again,
    /// `EINTR`: a signal handler ran.
    Interrupted,
    /// `ETIMEDOUT`: the moment passed. The word may have changed without a wake-up.
    TimedOut,
    /// `EINVAL`: impossible arguments, or a word whose sleepers use it in another way (PI and not
    /// PI).
    Invalid,
    /// `EDEADLK`: this thread has the PI word already, or a chain of owners leads back to it.
    Deadlock,
    /// `ESRCH`: no thread has the number that the PI word holds.
    NoSuchThread,
    /// `EPERM`: this thread does not own the PI word that it wants to unlock, or the number in a PI
    /// word is a kernel thread's. From [`waitv`](super::waitv) also: a filter forbids the call.
    NotPermitted,
    /// `EFAULT`: the memory is gone, or may not be written.
    Fault,
    /// `ENOMEM`: the kernel has no memory for its part of a PI lock.
    NoMemory,
    /// `ENOSYS`: this kernel does not know the operation.
    Absent,
    /// Another error, by its number.
    Other(i32),
}

impl FutexError {
    /// Returns whether this is no failure: the word has changed or a signal came, so look at the
    /// word again.
    ///
    /// ```
    /// use outlive::{Deadline, futex};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    /// /// Sleeps until the word is no longer 0.
    /// fn wait_for_change(word: &AtomicU32) -> Result<(), futex::FutexError> {
    ///     while word.load(Ordering::Acquire) == 0 {
    ///         match futex::wait(word, 0, Deadline::NEVER) {
    ///             Err(error) if !error.is_look_again() => return Err(error),
    ///             _ => {}
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// wait_for_change(&AtomicU32::new(1))?;
    /// # Ok::<(), futex::FutexError>(())
    /// ```
    pub fn is_look_again(self) -> bool {
        matches!(self, FutexError::Again | FutexError::Interrupted)
    }

    /// Returns the error's number, as in `errno`.
    ///
    /// ```
    /// assert_eq!(outlive::futex::FutexError::TimedOut.errno(), 110);
    /// ```
    pub fn errno(self) -> i32 {
        let errno = match self {
            FutexError::Again => Errno::AGAIN,
            FutexError::Interrupted => Errno::INTR,
            FutexError::TimedOut => Errno::TIMEDOUT,
            FutexError::Invalid => Errno::INVAL,
            FutexError::Deadlock => Errno::DEADLK,
            FutexError::NoSuchThread => Errno::SRCH,
            FutexError::NotPermitted => Errno::PERM,
            FutexError::Fault => Errno::FAULT,
            FutexError::NoMemory => Errno::NOMEM,
            FutexError::Absent => Errno::NOSYS,
            FutexError::Other(number) => return number,
        };
        errno.raw_os_error()
    }
}

impl From<Errno> for FutexError {
    fn from(errno: Errno) -> FutexError {
        match errno {
            Errno::AGAIN => FutexError::Again,
            Errno::INTR => FutexError::Interrupted,
            Errno::TIMEDOUT => FutexError::TimedOut,
            Errno::INVAL => FutexError::Invalid,
            Errno::DEADLK => FutexError::Deadlock,
            Errno::SRCH => FutexError::NoSuchThread,
            Errno::PERM => FutexError::NotPermitted,
            Errno::FAULT => FutexError::Fault,
            Errno::NOMEM => FutexError::NoMemory,
            Errno::NOSYS => FutexError::Absent,
            other => FutexError::Other(other.raw_os_error()),
        }
    }
}

impl fmt::Display for FutexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FutexError::Again => "the word is not as expected; look at it again",
            FutexError::Interrupted => "a signal handler ran; look at the word again",
            FutexError::TimedOut => "the deadline passed; look at the word once more before giving up",
            FutexError::Invalid => {
                "the kernel makes no sense of it; check bits, counts, and that PI words are used by PI calls only"
            }
            FutexError::Deadlock => "this thread has the lock already, itself or through others; give it back first",
            FutexError::NoSuchThread => {
                "no thread has the number in the word; its owner is dead, or the word is no PI lock's"
            }
            FutexError::NotPermitted => {
                "not this thread's to give back, or the call is forbidden here; look who owns the word"
            }
            FutexError::Fault => "the word's memory is gone or read-only; keep it mapped while it is in use",
            FutexError::NoMemory => "the kernel is out of memory; free some and try again",
            FutexError::Absent => "this kernel does not know the operation; use another, or a newer kernel",
            FutexError::Other(number) => {
                return write!(f, "{}; see futex(2)", std::io::Error::from_raw_os_error(*number));
            }
        })
    }
}

impl std::error::Error for FutexError {}

impl From<FutexError> for std::io::Error {
    fn from(error: FutexError) -> std::io::Error {
        std::io::Error::from_raw_os_error(error.errno())
    }
}
