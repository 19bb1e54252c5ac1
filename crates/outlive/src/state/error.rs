//! What setting a value can come to.

use std::fmt;

use crate::Error;

/// Why a value was not set. The value before is the latest still.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// Longer than the state has room for.
    TooLarge {
        /// Bytes of the value.
        len: u64,
        /// The most it could have.
        most: u64,
    },
    /// All values of this state are of one size.
    OtherLength {
        /// Bytes of the value.
        len: u64,
        /// What it has to be.
        wanted: u64,
    },
    /// This is not the state's writer (any more): a forked child's copy, or one that was taken for dead.
    NotWriter,
    /// The state's bytes make no sense: a stray write, or somebody hostile.
    Damaged(Error),
    /// The calling thread could not get a token, or there is no memory for one more buffer, which readers that stand still
    /// made necessary.
    System(Error),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::TooLarge { len, most } => {
                write!(f, "a value of {len} bytes does not fit, the most is {most}; make the state larger")
            }
            SetError::OtherLength { len, wanted } => {
                write!(f, "a value of {len} bytes does not fit, all values of this state have {wanted}")
            }
            SetError::NotWriter => f.write_str("this is not the state's writer; a forked child needs one of its own"),
            SetError::Damaged(error) | SetError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SetError {}

impl From<Error> for SetError {
    fn from(error: Error) -> SetError {
        match error {
            Error::Damaged { .. } => SetError::Damaged(error),
            other => SetError::System(other),
        }
    }
}
