//! The error of acquiring: a lock, a permit, a seat, the right to make a value.

use std::fmt;

use crate::Error;

/// Says why a thread did not get what it wanted to hold: a lock, a permit of a semaphore, a place
/// at a barrier or its next phase, the right to make a value once.
///
/// That others hold it just now, or that the time is over, is no error: the functions that do not
/// wait for ever return `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AcquireError {
    /// An owner died or panicked holding the lock, so what the lock guards may be half-written.
    /// The caller does not hold the lock; the next locker is told again, until one repairs.
    OwnerDied,
    /// A holder gave the lock up ([`MutexGuard::give_up`](super::MutexGuard::give_up)).
    /// [`Mutex::reset`](super::Mutex::reset) makes it usable again.
    NotRecoverable,
    /// This thread has it already: the lock, all permits, or the right to make the value. So it
    /// would wait for itself.
    Deadlock,
    /// The guard, permit or seat is not this thread's: it came with a `fork`, or another thread's
    /// repair or a stray write took it away.
    NotHeld,
    /// The thread's own priority is higher than the lock's ceiling (only from a
    /// [`CeilingMutex`](super::CeilingMutex)).
    AboveCeiling,
    /// A participant died, and the barrier breaks then.
    /// [`Barrier::repair`](super::Barrier::repair) removes the dead ones and begins a new phase.
    Broken,
    /// All seats of the barrier are taken, or the semaphore has as many permits as it may have.
    Full,
    /// The shared bytes hold an impossible value: a stray write or a hostile process changed them.
    Damaged,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AcquireError::OwnerDied => {
                "an owner died or panicked holding the lock; check what it guards, and repair it"
            }
            AcquireError::NotRecoverable => {
                "the lock was given up by a holder; reset it once what it guards is whole"
            }
            AcquireError::Deadlock => {
                "this thread has it already (the lock, all permits, or the making of the value), \
                 and would wait for itself; give it back first"
            }
            AcquireError::NotHeld => {
                "it is not this thread's (a guard, permit or seat stays with its thread, and with \
                 the parent after a fork); take one anew"
            }
            AcquireError::AboveCeiling => {
                "this thread's priority is above the lock's ceiling; give the lock a higher one"
            }
            AcquireError::Broken => {
                "a participant died, which broke the barrier; repair it to go on"
            }
            AcquireError::Full => {
                "it is full (all seats of a barrier are taken, or a semaphore has as many permits \
                 as it may have); make it larger"
            }
            AcquireError::Damaged => {
                "its shared bytes make no sense; somebody wrote over it: look for the stray write"
            }
            AcquireError::System(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for AcquireError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            AcquireError::System(error) => Some(error),
            _ => None,
        }
    }
}
