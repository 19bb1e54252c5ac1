//! The error of waiting for an event, a latch or the like.

use std::fmt;

use crate::Error;
use crate::liveness::Registry;
use crate::sys::Errno;

/// Says why a wait ended without what it waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AwaitError {
    /// The deadline passed first.
    TimedOut,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl AwaitError {
    /// Makes the error of a wait in that registry's domain.
    pub(super) fn from_errno(registry: &Registry, errno: Errno) -> AwaitError {
        AwaitError::System(Error::from_errno("wait in", registry.path(), errno))
    }
}

impl fmt::Display for AwaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AwaitError::TimedOut => {
                f.write_str("the deadline passed before it came; wait again, or give up")
            }
            AwaitError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for AwaitError {}
