//! The errors of acquiring: a lock, a permit, a seat, the right to make a value.

use std::fmt;

use super::raw::Refused;
use crate::Error;
use crate::liveness::Me;

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
    /// A holder marked the lock so: see
    /// [`MutexGuard::mark_not_recoverable`](super::MutexGuard::mark_not_recoverable).
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
    /// The barrier is broken: a participant died, or a process aborted or reset it.
    /// [`Barrier::repair`](super::Barrier::repair) removes the dead ones and begins a new phase.
    Broken,
    /// All seats of the barrier are taken, the semaphore has as many permits as it may have, or
    /// this thread has taken the [`ReentrantMutex`](super::ReentrantMutex) 4,294,967,295 times.
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
                "a holder marked the lock not recoverable; reset it once what it guards is whole"
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
                "the barrier is broken (a participant died, or a process aborted or reset it); \
                 repair it to go on"
            }
            AcquireError::Full => {
                "it is full (all seats of a barrier are taken, a semaphore has as many permits as \
                 it may have, or this thread has taken a reentrant mutex as often as can be \
                 counted); make it larger, or give it back"
            }
            AcquireError::Damaged => {
                "its shared bytes make no sense; a process wrote over it: look for the stray write"
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

/// Says why a lock was not taken, or was taken with a warning.
///
/// `?` turns it into an [`AcquireError`], and drops the guard: the next locker is told again.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<G> {
    /// The caller has the lock, but an owner died or panicked holding it: what it guards may be
    /// half-written. [Repair it](LockError::repair), or repair it and call
    /// [`MutexGuard::mark_consistent`](super::MutexGuard::mark_consistent) on the guard inside; if
    /// the guard is dropped without that, the next locker gets this error again.
    OwnerDied(G),
    /// The caller does not have the lock.
    Failed(AcquireError),
}

impl<G> From<LockError<G>> for AcquireError {
    fn from(error: LockError<G>) -> AcquireError {
        match error {
            LockError::OwnerDied(_) => AcquireError::OwnerDied,
            LockError::Failed(error) => error,
        }
    }
}

impl<G> From<AcquireError> for LockError<G> {
    fn from(error: AcquireError) -> LockError<G> {
        LockError::Failed(error)
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::OwnerDied(_) => AcquireError::OwnerDied.fmt(f),
            LockError::Failed(error) => error.fmt(f),
        }
    }
}

impl<G: fmt::Debug> std::error::Error for LockError<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LockError::OwnerDied(_) => None,
            LockError::Failed(error) => Some(error),
        }
    }
}

/// Says why a reader of an [`RwLock`](super::RwLock) could not become a writer. It still reads, by
/// the guard inside, and is upgradable if it was.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpgradeError<G> {
    /// Another thread reads (only from `try_upgrade`); or it waits to write, or is the upgradable
    /// reader, which refuses every other reader that upgrades.
    InUse(G),
    /// Another thread still read when the deadline passed.
    TimedOut(G),
    /// Waiting longer would not help.
    Failed(G, AcquireError),
}

impl<G> UpgradeError<G> {
    /// Returns why the reader with that guard, which `me` is, was refused.
    pub(super) fn of(guard: G, refused: Refused, me: Me) -> UpgradeError<G> {
        let in_time = refused != Refused::TimedOut;
        match AcquireError::from_refused(refused, me) {
            Some(error) => UpgradeError::Failed(guard, error),
            None if in_time => UpgradeError::InUse(guard),
            None => UpgradeError::TimedOut(guard),
        }
    }

    /// Exchanges the guard for what `with` makes of it.
    pub(super) fn map<H>(self, with: impl FnOnce(G) -> H) -> UpgradeError<H> {
        match self {
            UpgradeError::InUse(guard) => UpgradeError::InUse(with(guard)),
            UpgradeError::TimedOut(guard) => UpgradeError::TimedOut(with(guard)),
            UpgradeError::Failed(guard, error) => UpgradeError::Failed(with(guard), error),
        }
    }

    /// Returns the reader's guard, and the reason without it.
    pub fn split(self) -> (G, UpgradeError<()>) {
        match self {
            UpgradeError::InUse(guard) => (guard, UpgradeError::InUse(())),
            UpgradeError::TimedOut(guard) => (guard, UpgradeError::TimedOut(())),
            UpgradeError::Failed(guard, error) => (guard, UpgradeError::Failed((), error)),
        }
    }

    /// Returns the reader's guard.
    pub fn into_guard(self) -> G {
        match self {
            UpgradeError::InUse(guard)
            | UpgradeError::TimedOut(guard)
            | UpgradeError::Failed(guard, _) => guard,
        }
    }
}

impl<G> fmt::Display for UpgradeError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UpgradeError::InUse(_) => {
                "another thread reads, or waits to write: give the lock back and take it as a writer"
            }
            UpgradeError::TimedOut(_) => "another thread still read when the deadline passed",
            UpgradeError::Failed(_, AcquireError::Deadlock) => {
                "this thread reads a second time; give that back first"
            }
            UpgradeError::Failed(_, error) => return error.fmt(f),
        })
    }
}

impl<G: fmt::Debug> std::error::Error for UpgradeError<G> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            UpgradeError::Failed(_, error) => Some(error),
            UpgradeError::InUse(_) | UpgradeError::TimedOut(_) => None,
        }
    }
}

impl AcquireError {
    /// Returns the error of a thread that was refused a lock; `None` if a living thread has it just
    /// now.
    #[cold]
    pub(super) fn from_refused(refused: Refused, me: Me) -> Option<AcquireError> {
        Some(match refused {
            Refused::WouldBlock | Refused::TimedOut => return None,
            Refused::NotRecoverable => AcquireError::NotRecoverable,
            Refused::Deadlock => AcquireError::Deadlock,
            Refused::Damaged => AcquireError::Damaged,
            Refused::Full => AcquireError::Full,
            Refused::AboveCeiling => AcquireError::AboveCeiling,
            Refused::NoRealTime(priority) => AcquireError::System(Error::NoRealTime { priority }),
            Refused::System(errno) => {
                let path = me.registry.path();
                AcquireError::System(Error::from_errno("wait in", path, errno))
            }
        })
    }

    /// Returns what a thread got; `None` if a living thread has it just now.
    pub(super) fn settle<T>(got: Result<T, Refused>, me: Me) -> Result<Option<T>, AcquireError> {
        match got {
            Ok(got) => Ok(Some(got)),
            Err(refused) => AcquireError::from_refused(refused, me).map_or(Ok(None), Err),
        }
    }
}
