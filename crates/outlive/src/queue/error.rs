//! What sending and receiving can come to.

use std::fmt;

use crate::Error;

/// Why a message was not sent. It was not sent in part either.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is as large as it may grow and full (only from `try_` forms).
    Full,
    /// The receiver died, and none has taken over. What was sent before is kept for one that does.
    ReceiverDied,
    /// There is no receiver, and the queue was made to refuse messages then.
    NoReceiver,
    /// The queue was still full when the deadline passed.
    TimedOut,
    /// Larger than a message may be, or than the queue may grow.
    TooLarge {
        /// Bytes of the message.
        len: u64,
        /// The most it could have.
        most: u64,
    },
    /// The queue's bytes make no sense: a stray write, or somebody hostile.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => f.write_str("the queue is full; try again, wait, or raise max_bytes"),
            SendError::ReceiverDied => {
                f.write_str("the queue's receiver died; start another, which takes over what is unread")
            }
            SendError::NoReceiver => f.write_str("the queue has no receiver; start one first"),
            SendError::TimedOut => f.write_str("the queue was still full when the deadline passed"),
            SendError::TooLarge { len, most } => {
                write!(f, "a message of {len} bytes does not fit, the most is {most}; split it, or raise max_bytes")
            }
            SendError::Damaged(error) | SendError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {}

impl From<Error> for SendError {
    fn from(error: Error) -> SendError {
        match error {
            Error::NoSpace { .. } => SendError::Full,
            Error::Damaged { .. } => SendError::Damaged(error),
            other => SendError::System(other),
        }
    }
}

/// Why there was nothing to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// Nothing there just now (only from `try_` forms).
    Empty,
    /// Nothing came until the deadline passed.
    TimedOut,
    /// Nothing there, and all senders are gone: see
    /// [`Receiver::end_when_senders_gone`](super::Receiver::end_when_senders_gone).
    SendersGone,
    /// This is not the queue's receiver (any more): a forked child's copy, or one that was taken for dead.
    NotReceiver,
    /// The message lies in memory that this process could not map (`RLIMIT_AS`), or its bytes make no sense.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("nothing to receive just now; wait, or try later"),
            RecvError::TimedOut => f.write_str("nothing came until the deadline passed"),
            RecvError::SendersGone => f.write_str("nothing left to receive, and all senders are gone"),
            RecvError::NotReceiver => {
                f.write_str("this is not the queue's receiver; a forked child needs one of its own")
            }
            RecvError::Damaged(error) | RecvError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {}

impl From<Error> for RecvError {
    fn from(error: Error) -> RecvError {
        match error {
            Error::Damaged { .. } => RecvError::Damaged(error),
            other => RecvError::System(other),
        }
    }
}
