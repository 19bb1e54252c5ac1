//! What publishing and receiving can come to.

use std::fmt;

use crate::Error;
use crate::claim::Holder;

/// Why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// A reliable subscriber has not taken what lies in the way (only from `try_` forms).
    Full {
        /// Which one: of several, the one that is most behind.
        slowest: Holder,
    },
    /// The deadline passed first.
    TimedOut {
        /// Who was waited for.
        slowest: Holder,
    },
    /// The topic's memory is at its largest, or the file system is full.
    NoSpace {
        /// Bytes that were wanted.
        wanted: u64,
        /// Samples that subscribers hold.
        held: u32,
    },
    /// More bytes than a message may have.
    TooLarge {
        /// Bytes of the message.
        len: u64,
        /// The most it could have.
        most: u64,
    },
    /// A forked child has no publisher: make one there.
    NotPublisher,
    /// The value could not be written as msgpack.
    Encoding(String),
    /// The topic's bytes make no sense: a stray write, or somebody hostile.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Full { slowest } => {
                write!(f, "process {} has not taken an older message yet; try later, or wait", slowest.pid)
            }
            PublishError::TimedOut { slowest } => {
                write!(f, "process {} had not taken an older message when the deadline passed", slowest.pid)
            }
            PublishError::NoSpace { wanted, held } => {
                write!(f, "no room for {wanted} bytes; subscribers hold {held} samples; drop some, or raise max_bytes")
            }
            PublishError::TooLarge { len, most } => {
                write!(f, "a message of {len} bytes does not fit, the most is {most}; split it, or raise max_bytes")
            }
            PublishError::NotPublisher => f.write_str("a forked child needs a publisher of its own"),
            PublishError::Encoding(why) => write!(f, "the value cannot be written as msgpack: {why}"),
            PublishError::Damaged(error) | PublishError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for PublishError {}

impl From<Error> for PublishError {
    fn from(error: Error) -> PublishError {
        match error {
            Error::Damaged { .. } => PublishError::Damaged(error),
            other => PublishError::System(other),
        }
    }
}

/// Why there was no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// Nothing came until the deadline passed.
    TimedOut,
    /// Nothing has come for longer than the subscriber's [`period`](super::SubscriberOptions::period). Told once for each
    /// period that passes.
    Missed,
    /// This subscriber holds as many samples as it can; drop some.
    TooManyHeld,
    /// A forked child has no subscriber: make one there.
    NotSubscriber,
    /// The topic's bytes make no sense: a stray write, or somebody hostile. What was there is passed over.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubscribeError::TimedOut => f.write_str("nothing came until the deadline passed"),
            SubscribeError::Missed => f.write_str("nothing has come for longer than the period that was asked for"),
            SubscribeError::TooManyHeld => f.write_str("this subscriber holds 256 samples; drop some first"),
            SubscribeError::NotSubscriber => f.write_str("a forked child needs a subscriber of its own"),
            SubscribeError::Damaged(error) | SubscribeError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SubscribeError {}

impl From<Error> for SubscribeError {
    fn from(error: Error) -> SubscribeError {
        match error {
            Error::Damaged { .. } => SubscribeError::Damaged(error),
            other => SubscribeError::System(other),
        }
    }
}
