//! The errors of publishing and receiving.

use std::fmt;

use crate::Error;
use crate::claim::Holder;

/// Says why a message was not published.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError {
    /// A reliable subscriber has not taken the message that would be overwritten. Only `try_`
    /// functions return it.
    Full {
        /// The subscriber in the way: of several, the one that is furthest behind.
        slowest: Holder,
    },
    /// The deadline passed while a reliable subscriber was in the way.
    TimedOut {
        /// The subscriber that the publisher waited for.
        slowest: Holder,
    },
    /// The topic's memory is at its largest, or the file system is full.
    NoSpace {
        /// The bytes that the message needs.
        wanted: u64,
        /// The number of samples that subscribers hold.
        held: u32,
    },
    /// The message is longer than a message may be.
    TooLarge {
        /// The message's length in bytes.
        len: u64,
        /// The largest possible length in bytes.
        most: u64,
    },
    /// A forked child does not have its parent's publisher: it makes its own.
    NotPublisher,
    /// The value could not be written as msgpack.
    Encoding(String),
    /// The topic's shared memory is damaged, by a stray write or by a hostile process.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for PublishError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PublishError::Full { slowest } => {
                write!(
                    f,
                    "process {} has not taken an older message yet; try later, or wait",
                    slowest.pid
                )
            }
            PublishError::TimedOut { slowest } => {
                write!(
                    f,
                    "process {} had not taken an older message when the deadline passed",
                    slowest.pid
                )
            }
            PublishError::NoSpace { wanted, held } => {
                write!(
                    f,
                    "no room for {wanted} bytes; subscribers hold {held} samples; drop some, or raise max_bytes"
                )
            }
            PublishError::TooLarge { len, most } => {
                write!(
                    f,
                    "a message of {len} bytes does not fit, the most is {most}; split it, or raise max_bytes"
                )
            }
            PublishError::NotPublisher => {
                f.write_str("a forked child needs a publisher of its own")
            }
            PublishError::Encoding(why) => {
                write!(f, "the value cannot be written as msgpack: {why}")
            }
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

/// Says why no sample was received.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubscribeError {
    /// The deadline passed before a message came.
    TimedOut,
    /// No message has come for longer than the subscriber's
    /// [`period`](super::SubscriberOptions::period). It is returned once for each period that
    /// passes.
    Missed,
    /// This subscriber holds as many samples as it can; drop some.
    TooManyHeld,
    /// A forked child does not have its parent's subscriber: it makes its own.
    NotSubscriber,
    /// The topic's shared memory is damaged, by a stray write or by a hostile process. The
    /// subscriber skips the damaged message.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for SubscribeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SubscribeError::TimedOut => f.write_str("nothing came until the deadline passed"),
            SubscribeError::Missed => {
                f.write_str("nothing has come for longer than the period that was asked for")
            }
            SubscribeError::TooManyHeld => {
                f.write_str("this subscriber holds 256 samples; drop some first")
            }
            SubscribeError::NotSubscriber => {
                f.write_str("a forked child needs a subscriber of its own")
            }
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
