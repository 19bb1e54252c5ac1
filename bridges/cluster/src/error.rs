//! What can go wrong with a lock of several machines.

use std::fmt;

/// Says why a lock or permit of several machines was not got, or not kept.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The cluster's address cannot be used.
    Address(String),
    /// No server of the cluster answered in time.
    Unreachable {
        /// What was tried last, and how it failed.
        last: String,
    },
    /// The cluster knows the user not, or does not let it do this.
    Denied(String),
    /// The cluster refused, for another reason.
    Refused(String),
    /// The lease ended before the lock was unlocked: another machine may have had the lock meanwhile.
    Lost(Lost),
    /// A holder marked the lock so; [`Mutex::reset`](crate::Mutex::reset) makes it usable again.
    NotRecoverable,
    /// This thread has the lock already, and would wait for itself.
    Deadlock,
    /// The semaphore was made with another number of permits.
    OtherPermits {
        /// How many it has.
        permits: u32,
    },
    /// What the cluster keeps under the lock's name was not written by Outlive.
    Damaged(String),
    /// The local half failed: the domain, or a lock in it.
    Local(outlive::Error),
}

/// Says why a holder may not go on believing that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lost {
    /// The lease could not be renewed in time: no server answered, or this process did not run.
    OutOfTime,
    /// The cluster said that the lease is no more.
    Ended,
    /// This process is a child by `fork` of the holder, and holds nothing.
    Forked,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Lost::OutOfTime => {
                "the lease could not be renewed in time (no server answered, or this process did \
                 not run)"
            }
            Lost::Ended => "the cluster has ended the lease",
            Lost::Forked => "this process is a child of the holder (fork), and never had it",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address(why) => write!(f, "not a cluster's address: {why}"),
            Error::Unreachable { last } => {
                write!(f, "no server of the cluster answers ({last}); is one running there?")
            }
            Error::Denied(why) => {
                write!(f, "the cluster denies it: {why}; check user and password")
            }
            Error::Refused(why) => write!(f, "the cluster refuses: {why}"),
            Error::Lost(why) => {
                write!(f, "the lock was lost: {why}; another machine may have it by now")
            }
            Error::NotRecoverable => f.write_str(
                "a holder marked the lock not recoverable; reset it once what it guards is whole",
            ),
            Error::Deadlock => f.write_str(
                "this thread has the lock already and would wait for itself; unlock it first",
            ),
            Error::OtherPermits { permits } => {
                write!(f, "the semaphore was made with {permits} permits; say that number")
            }
            Error::Damaged(what) => {
                write!(
                    f,
                    "what the cluster keeps for the lock makes no sense ({what}); who wrote it?"
                )
            }
            Error::Local(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Local(error) => Some(error),
            _ => None,
        }
    }
}

impl From<outlive::Error> for Error {
    fn from(error: outlive::Error) -> Error {
        Error::Local(error)
    }
}

impl From<outlive::sync::AcquireError> for Error {
    fn from(error: outlive::sync::AcquireError) -> Error {
        use outlive::sync::AcquireError;
        match error {
            AcquireError::Deadlock => Error::Deadlock,
            AcquireError::System(error) => Error::Local(error),
            other => Error::Damaged(format!("the local lock: {other}")),
        }
    }
}

/// Says why a lock was not taken, or was taken with a warning; the shape of
/// [`outlive::sync::LockError`].
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError<G> {
    /// The caller has the lock, but an owner died, panicked or lost its lease while it held it, on
    /// this machine or another. [Repair](LockError::repair) what the lock guards; if the guard is
    /// dropped without [`mark_consistent`](crate::MutexGuard::mark_consistent), the next holder gets
    /// this error again.
    OwnerDied(G),
    /// The caller does not have the lock.
    Failed(Error),
}

impl<G> From<Error> for LockError<G> {
    fn from(error: Error) -> LockError<G> {
        LockError::Failed(error)
    }
}

impl<G> fmt::Display for LockError<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockError::OwnerDied(_) => f.write_str(
                "an owner died or lost its lease holding the lock; check what it guards, and \
                 repair it",
            ),
            LockError::Failed(error) => error.fmt(f),
        }
    }
}

impl<G: fmt::Debug> std::error::Error for LockError<G> {}
