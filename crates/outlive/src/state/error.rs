//! The errors of setting a value.

use std::fmt;

use crate::Error;

/// Says why a value was not set. The previous value stays the latest.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetError {
    /// The value is longer than the state has room for.
    TooLarge {
        /// The value's length in bytes.
        len: u64,
        /// The largest possible length in bytes.
        most: u64,
    },
    /// All values of this state have one size, and this one has another.
    OtherLength {
        /// The value's length in bytes.
        len: u64,
        /// The length that it must have.
        wanted: u64,
    },
    /// This handle is not the state's writer, or not any more: it is a forked child's copy, or
    /// its process was taken for dead.
    NotWriter,
    /// The state's shared memory is damaged, by a stray write or by a hostile process.
    Damaged(Error),
    /// The calling thread could not get a token, or there is no memory for one more buffer, which
    /// readers that are stopped made necessary.
    System(Error),
}

impl fmt::Display for SetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SetError::TooLarge { len, most } => {
                write!(
                    f,
                    "a value of {len} bytes does not fit, the most is {most}; make the state larger"
                )
            }
            SetError::OtherLength { len, wanted } => {
                write!(
                    f,
                    "a value of {len} bytes does not fit, all values of this state have {wanted}"
                )
            }
            SetError::NotWriter => {
                f.write_str("this is not the state's writer; a forked child needs one of its own")
            }
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
