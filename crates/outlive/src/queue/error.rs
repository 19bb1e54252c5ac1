//! The errors of sending and receiving.

use std::fmt;

use crate::Error;

/// Says why a message was not sent, in whole or in part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The queue is full and at its largest size. Only `try_` functions return it.
    Full,
    /// The receiver died, and no process has taken over. The messages in the queue stay for its
    /// successor.
    ReceiverDied,
    /// The queue has no receiver, and its options say to refuse messages then.
    NoReceiver,
    /// The deadline passed while the queue was full.
    TimedOut,
    /// The message is larger than any message may be, or than this queue may grow.
    TooLarge {
        /// The message's length in bytes.
        len: u64,
        /// The largest possible length in bytes.
        most: u64,
    },
    /// The queue's shared memory is damaged, by a stray write or by a hostile process.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full => {
                f.write_str("the queue is full; try again, wait, or raise max_bytes")
            }
            SendError::ReceiverDied => f.write_str(
                "the queue's receiver died; start another, which takes over what is unread",
            ),
            SendError::NoReceiver => f.write_str("the queue has no receiver; start one first"),
            SendError::TimedOut => f.write_str("the queue was still full when the deadline passed"),
            SendError::TooLarge { len, most } => {
                write!(
                    f,
                    "a message of {len} bytes does not fit, the most is {most}; split it, or raise max_bytes"
                )
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

/// Says why no message was received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The queue is empty. Only `try_` functions return it.
    Empty,
    /// The deadline passed while the queue was empty.
    TimedOut,
    /// The queue is empty and all senders are gone: see
    /// [`Receiver::end_when_senders_gone`](super::Receiver::end_when_senders_gone).
    SendersGone,
    /// This handle is not the queue's receiver, or not any more: it is a forked child's copy, or
    /// its process was taken for dead.
    NotReceiver,
    /// The message lies in memory that this process could not map (`RLIMIT_AS`), or its shared
    /// words are damaged.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Empty => f.write_str("nothing to receive just now; wait, or try later"),
            RecvError::TimedOut => f.write_str("nothing came until the deadline passed"),
            RecvError::SendersGone => {
                f.write_str("nothing left to receive, and all senders are gone")
            }
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
