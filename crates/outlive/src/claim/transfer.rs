//! The errors of moving messages: one type for sending and one for receiving, for queues, topics,
//! states and replies alike.

use std::fmt;

use super::Holder;
use crate::Error;

/// Says why a message was not sent, in whole or in part: by a queue's sender, a topic's publisher,
/// a state's writer, or the server that replies.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// There is no room just now. Only `try_` functions return it.
    Full {
        /// The reliable subscriber of a topic that has not taken the message which would be
        /// overwritten: of several, the one that is furthest behind. `None` for a queue.
        slowest: Option<Holder>,
    },
    /// The deadline passed before there was room.
    TimedOut {
        /// The subscriber that the publisher waited for, as in [`SendError::Full`].
        slowest: Option<Holder>,
    },
    /// The queue has no receiver, and its options say to refuse messages then.
    NoReceiver,
    /// The receiving process died: a queue's receiver, or the client that a reply was for. The
    /// messages in a queue stay for the receiver's successor.
    ReceiverDied,
    /// The client wants no (further) reply: it gave up, or took this server for dead.
    Cancelled,
    /// The message is longer than a message may be, or than there can ever be room for.
    TooLarge {
        /// The message's length in bytes.
        len: u64,
        /// The largest possible length in bytes.
        max: u64,
    },
    /// No value of this state, or job of this queue, has such a length: all have one, or lengths that
    /// are multiples of the size of their type.
    OtherLength {
        /// The value's length in bytes.
        len: u64,
        /// The length that it must have, or the next one that it may have.
        wanted: u64,
    },
    /// The memory is at its largest, or the file system is full.
    NoSpace {
        /// The bytes that the message needs; 0 if that is not known.
        wanted: u64,
        /// The number of samples that a topic's subscribers hold.
        held: u32,
    },
    /// The value cannot be written as msgpack. Only with the feature `msgpack`.
    Encoding(String),
    /// This handle does not send, or not any more: it is a forked child's copy, or its process was
    /// taken for dead. Or the loan is another publisher's.
    NotOwner,
    /// The shared memory is damaged, by a stray write or by a hostile process.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full { slowest: None } => {
                f.write_str("it is full; try again, wait, or make it larger")
            }
            SendError::Full { slowest: Some(slowest) } => {
                write!(
                    f,
                    "process {} has not taken an older message yet; try later, or wait",
                    slowest.pid
                )
            }
            SendError::TimedOut { slowest: None } => {
                f.write_str("there was still no room when the deadline passed")
            }
            SendError::TimedOut { slowest: Some(slowest) } => {
                write!(
                    f,
                    "process {} had not taken an older message when the deadline passed",
                    slowest.pid
                )
            }
            SendError::NoReceiver => f.write_str("there is no receiver; start one first"),
            SendError::ReceiverDied => f.write_str(
                "the receiver died; start another: a queue's next receiver takes over what is unread",
            ),
            SendError::Cancelled => f.write_str("the client wants no reply any more"),
            SendError::TooLarge { len, max } => {
                write!(
                    f,
                    "a message of {len} bytes does not fit, the most is {max}; split it, or make room for larger ones"
                )
            }
            SendError::OtherLength { len, wanted } => {
                write!(
                    f,
                    "a value of {len} bytes does not fit the type; one of {wanted} would"
                )
            }
            SendError::NoSpace { wanted: 0, held: 0 } => f.write_str(
                "no room for so many; take some messages, or prefault less, or raise max_bytes",
            ),
            SendError::NoSpace { wanted, held: 0 } => write!(
                f,
                "no room for {wanted} bytes; take some messages, or prefault less, or raise max_bytes"
            ),
            SendError::NoSpace { wanted, held } => {
                write!(
                    f,
                    "no room for {wanted} bytes; subscribers hold {held} samples; drop some, or raise max_bytes"
                )
            }
            SendError::Encoding(why) => write!(f, "the value cannot be written as msgpack: {why}"),
            SendError::NotOwner => f.write_str(
                "this handle cannot send: it is a forked child's copy, its process was taken for dead, or it did not lend this loan; use another",
            ),
            SendError::Damaged(error) | SendError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SendError::Damaged(error) | SendError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for SendError {
    fn from(error: Error) -> SendError {
        match error {
            Error::Damaged { .. } => SendError::Damaged(error),
            other => SendError::System(other),
        }
    }
}

/// Says why no message was received: by a queue's receiver, a topic's subscriber, or a server.
///
/// That nothing is there (yet) is no error: the functions that do not wait for ever return `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The queue is empty and all senders are gone: see
    /// [`Receiver::end_when_senders_gone`](crate::queue::Receiver::end_when_senders_gone).
    Closed,
    /// No message has come for longer than the subscriber's
    /// [`period`](crate::topic::SubscriberOptions::period). It is returned once for the
    /// periods that have passed since the last message or report.
    Missed,
    /// A publisher has stopped waiting for this reliable subscriber, which was in its way for longer
    /// than its [`max_blocking`](crate::topic::PublisherOptions::max_blocking), and has overwritten
    /// messages. It is told once; the next receive returns the oldest message that is there, and
    /// publishers wait for the subscriber again.
    Lagged {
        /// How many messages of one publisher were overwritten.
        lost: u64,
    },
    /// The next message is the first one of a session of a publisher: of one start of it. It is told
    /// once for each session, to a subscriber that
    /// [asks for it](crate::topic::SubscriberOptions::sessions); the next receive returns the
    /// message.
    NewSession {
        /// The session's number: [`Sample::session`](crate::topic::Sample::session).
        session: u32,
    },
    /// A publisher is alive and has done nothing for longer than the
    /// [lease](crate::topic::SubscriberOptions::liveliness) that this subscriber asked for. It is
    /// told once, behind the publisher's messages; the next receive goes on.
    NotLively {
        /// The publisher's session: [`Sample::session`](crate::topic::Sample::session).
        session: u32,
        /// Its process.
        publisher: Holder,
    },
    /// A publisher that was told as not lively has published, or asserted that it is there. It is
    /// told once, before the message; the next receive goes on.
    Lively {
        /// The publisher's session.
        session: u32,
        /// Its process.
        publisher: Holder,
    },
    /// A publisher has died. It is told once, behind the publisher's messages, to a subscriber that
    /// asks for [liveliness](crate::topic::SubscriberOptions::liveliness); the next receive goes on.
    PublisherDied {
        /// The publisher's session.
        session: u32,
        /// Its process, as far as that is still known.
        publisher: Holder,
    },
    /// This subscriber holds as many samples as it can; drop some.
    TooManyHeld,
    /// No client waits for a reply to the request whose next part was to be received: it let go of the
    /// call, or died.
    Cancelled,
    /// The bytes of the message are no value of the type asked for, or no msgpack of it.
    Encoding(String),
    /// This handle does not receive, or not any more: it is a forked child's copy, or its process
    /// was taken for dead.
    NotOwner,
    /// The message lies in memory that this process could not map (`RLIMIT_AS`), or its shared
    /// words are damaged, by a stray write or by a hostile process. The message is skipped.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecvError::Closed => f.write_str("nothing left to receive, and all senders are gone"),
            RecvError::Missed => {
                f.write_str("nothing has come for longer than the period that was asked for")
            }
            RecvError::Lagged { lost } => write!(
                f,
                "a publisher did not wait any longer and has overwritten messages that were still to be received: {lost}; receive on, or faster"
            ),
            RecvError::NewSession { session } => {
                write!(f, "a publisher has started: its session is number {session}; receive on")
            }
            RecvError::NotLively { session, publisher } => write!(
                f,
                "the publisher of session {session} (pid {}) is alive and has done nothing for longer than its lease; receive on",
                publisher.pid
            ),
            RecvError::Lively { session, publisher } => write!(
                f,
                "the publisher of session {session} (pid {}) does something again; receive on",
                publisher.pid
            ),
            RecvError::PublisherDied { session, publisher } => write!(
                f,
                "the publisher of session {session} (pid {}) has died; receive on",
                publisher.pid
            ),
            RecvError::Cancelled => f.write_str("no client waits for a reply any more"),
            RecvError::TooManyHeld => {
                f.write_str("this subscriber holds as many samples as the topic's max_samples allows; drop some first")
            }
            RecvError::Encoding(why) => write!(f, "the message cannot be read: {why}"),
            RecvError::NotOwner => f.write_str(
                "this handle cannot receive: it is a forked child's copy, or its process was taken for dead; open another",
            ),
            RecvError::Damaged(error) | RecvError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecvError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RecvError::Damaged(error) | RecvError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for RecvError {
    fn from(error: Error) -> RecvError {
        match error {
            Error::Damaged { .. } => RecvError::Damaged(error),
            other => RecvError::System(other),
        }
    }
}
