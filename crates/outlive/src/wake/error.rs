//! The error of waits that yield no value: for an end, bits, arrivals, a barrier's repair.

use std::fmt;

use crate::Error;
use crate::liveness::Registry;
use crate::sys::Errno;

/// Says why a wait ended without what it waited for: the end of a thread or process, an event, a
/// latch, a source of a wait set, another thread's repair of a barrier.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The deadline passed first, or the caller asked not to wait.
    TimedOut,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl WaitError {
    /// Makes the error of a wait in that registry's domain.
    pub(crate) fn from_errno(registry: &Registry, errno: Errno) -> WaitError {
        WaitError::System(Error::from_errno("wait in", registry.path(), errno))
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::TimedOut => {
                f.write_str("the time was over before it happened; wait again, or give up")
            }
            WaitError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WaitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            WaitError::TimedOut => None,
            WaitError::System(error) => Some(error),
        }
    }
}
