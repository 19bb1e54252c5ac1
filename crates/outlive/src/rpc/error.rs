//! The error of calling.

use std::fmt;

use crate::{Error, SendError};

/// Says why a call has no (further) reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There is no server, and none died: no server has begun the call, and none will.
    NoServer,
    /// The server died.
    ServerDied {
        /// Whether it had begun the call: then no process knows how far it came. If not, no server
        /// will begin it, and the caller may repeat it.
        begun: bool,
    },
    /// The server dropped the request without a last reply: it had none, or could not send it.
    Dropped,
    /// The server could not do what was asked, and said why in these words, by
    /// [`Request::fail`](super::Request::fail).
    Failed(String),
    /// The server has replied, or said why it does not, and takes no more parts of the request. The
    /// call has the reply.
    Answered,
    /// The deadline passed. A call that waited for its reply is cancelled by that.
    TimedOut {
        /// Whether a server had begun the call. If not, and the call is over (as with
        /// [`Client::call_until`](super::Client::call_until)), no server will begin it.
        begun: bool,
    },
    /// The request is longer than a request may be, or than the service may grow.
    TooLarge {
        /// The request's length in bytes.
        len: u64,
        /// The largest possible length in bytes.
        max: u64,
    },
    /// The client has as many calls in flight as it can have: wait for some of them, or drop them.
    TooMany,
    /// The request cannot be written as msgpack, and was not sent; or the reply is no value of the
    /// service's type.
    Encoding(String),
    /// A forked child does not have its parent's client: it opens its own.
    NotClient,
    /// The service's shared memory is damaged, by a stray write or by a hostile process.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused a call.
    System(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoServer => f.write_str("the service has no server; start one, or wait for one"),
            CallError::ServerDied { begun: true } => {
                f.write_str("the server died after it had begun the call; no process knows how far it came")
            }
            CallError::ServerDied { begun: false } => f.write_str(
                "the server died and had not begun the call; no server will carry it out, so it may be made again",
            ),
            CallError::Dropped => f.write_str("the server let go of the request without an answer"),
            CallError::Failed(text) => f.write_str(text),
            CallError::Answered => f.write_str("the server has replied, and takes no more parts of the request"),
            CallError::TimedOut { begun: true } => {
                f.write_str("the deadline passed, and the server had begun the call; it may be carried out")
            }
            CallError::TimedOut { begun: false } => {
                f.write_str("the deadline passed, and no server had begun the call")
            }
            CallError::TooLarge { len, max } => {
                write!(f, "a request of {len} bytes does not fit, the most is {max}; split it, or raise max_bytes")
            }
            CallError::Encoding(why) => write!(f, "a value cannot be written or read: {why}"),
            CallError::TooMany => f.write_str("too many calls in flight; wait for some of them"),
            CallError::NotClient => f.write_str("this is a forked child's copy of a client; open one of its own"),
            CallError::Damaged(error) | CallError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CallError::Damaged(error) | CallError::System(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        match error {
            Error::Damaged { .. } => CallError::Damaged(error),
            other => CallError::System(other),
        }
    }
}

/// The errors of sending a request.
impl From<SendError> for CallError {
    fn from(error: SendError) -> CallError {
        match error {
            SendError::ReceiverDied => CallError::ServerDied { begun: false },
            SendError::NoReceiver => CallError::NoServer,
            SendError::Full { .. } | SendError::TimedOut { .. } | SendError::NoSpace { .. } => {
                CallError::TimedOut { begun: false }
            }
            SendError::TooLarge { len, max } | SendError::OtherLength { len, wanted: max } => {
                CallError::TooLarge { len, max }
            }
            SendError::Cancelled => CallError::Dropped,
            SendError::Encoding(why) => CallError::Encoding(why),
            SendError::NotOwner => CallError::NotClient,
            SendError::Damaged(error) => CallError::Damaged(error),
            SendError::System(error) => CallError::System(error),
        }
    }
}
