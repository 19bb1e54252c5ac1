//! What calling and serving can come to.

use std::fmt;

use crate::Error;
use crate::queue::{RecvError, SendError};

/// Why a call has no (further) reply.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CallError {
    /// There is no server, and none died: nobody has begun the call, and nobody will.
    NoServer,
    /// The server died.
    ServerDied {
        /// Whether it had begun the call: then how far it came nobody knows. If not, nobody will carry it out any more, and it
        /// may be made again.
        begun: bool,
    },
    /// The server let go of the request without a last word: it had nothing to say, or could not say it.
    Dropped,
    /// The deadline passed.
    TimedOut {
        /// Whether a server had begun the call. If not, and the call is over (as with [`Client::call_until`](super::Client::call_until)), nobody will
        /// carry it out any more.
        begun: bool,
    },
    /// Larger than a request may be, or than the service may grow.
    TooLarge {
        /// Bytes of the request.
        len: u64,
        /// The most it could have.
        most: u64,
    },
    /// The client has as many calls in flight as it can have: wait for some of them, or drop them.
    TooMany,
    /// The value cannot be written as msgpack; nothing was asked. Only with the feature `msgpack`.
    Encoding(String),
    /// A forked child has its parent's client: it needs one of its own.
    NotClient,
    /// The service's bytes make no sense: a stray write, or somebody hostile.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoServer => f.write_str("the service has no server; start one, or wait for one"),
            CallError::ServerDied { begun: true } => {
                f.write_str("the server died after it had begun the call; nobody knows how far it came")
            }
            CallError::ServerDied { begun: false } => f.write_str(
                "the server died and had not begun the call; nobody will carry it out, so it may be made again",
            ),
            CallError::Dropped => f.write_str("the server let go of the request without an answer"),
            CallError::TimedOut { begun: true } => {
                f.write_str("the deadline passed, and the server had begun the call; it may be carried out")
            }
            CallError::TimedOut { begun: false } => {
                f.write_str("the deadline passed, and no server had begun the call")
            }
            CallError::TooLarge { len, most } => {
                write!(f, "a request of {len} bytes does not fit, the most is {most}; split it, or raise max_bytes")
            }
            CallError::Encoding(why) => write!(f, "the value cannot be written as msgpack: {why}"),
            CallError::TooMany => f.write_str("too many calls in flight; wait for some of them"),
            CallError::NotClient => f.write_str("this is a forked child's copy of a client; open one of its own"),
            CallError::Damaged(error) | CallError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CallError {}

impl From<Error> for CallError {
    fn from(error: Error) -> CallError {
        match error {
            Error::Damaged { .. } => CallError::Damaged(error),
            other => CallError::System(other),
        }
    }
}

/// Why a request could not be sent.
impl From<SendError> for CallError {
    fn from(error: SendError) -> CallError {
        match error {
            SendError::ReceiverDied => CallError::ServerDied { begun: false },
            SendError::NoReceiver => CallError::NoServer,
            SendError::Full | SendError::TimedOut => CallError::TimedOut { begun: false },
            SendError::TooLarge { len, most } => CallError::TooLarge { len, most },
            SendError::Damaged(error) => CallError::Damaged(error),
            SendError::System(error) => CallError::System(error),
        }
    }
}

/// Why there is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServeError {
    /// Nothing there just now (only from [`Server::try_next`](super::Server::try_next)).
    Empty,
    /// Nothing came until the deadline passed.
    TimedOut,
    /// This is not the service's server (any more): a forked child's copy, or one that was taken for dead.
    NotServer,
    /// A request's bytes make no sense; it is skipped.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Empty => f.write_str("no request just now; wait, or try later"),
            ServeError::TimedOut => f.write_str("no request came until the deadline passed"),
            ServeError::NotServer => {
                f.write_str("this is not the service's server; a forked child needs one of its own")
            }
            ServeError::Damaged(error) | ServeError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<RecvError> for ServeError {
    fn from(error: RecvError) -> ServeError {
        match error {
            RecvError::Empty | RecvError::SendersGone => ServeError::Empty,
            RecvError::TimedOut => ServeError::TimedOut,
            RecvError::NotReceiver => ServeError::NotServer,
            RecvError::Damaged(error) => ServeError::Damaged(error),
            RecvError::System(error) => ServeError::System(error),
        }
    }
}

/// Why a reply did not reach its client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplyError {
    /// The client wants no (further) reply: it gave up, or took this server for dead.
    Cancelled,
    /// The client died.
    ClientDied,
    /// The client had not taken earlier replies of the stream when the deadline passed.
    TimedOut,
    /// Larger than a reply may be.
    TooLarge {
        /// Bytes of the reply.
        len: u64,
        /// The most it could have.
        most: u64,
    },
    /// The service is as large as it may grow, or the file system full. The client is told [`CallError::Dropped`], unless
    /// it is a stream's.
    NoSpace,
    /// The value cannot be written as msgpack. Only with the feature `msgpack`.
    Encoding(String),
    /// A forked child has its parent's request.
    NotServer,
    /// The service's bytes make no sense: a stray write, or somebody hostile.
    Damaged(Error),
    /// The calling thread could not get a token, or the system refused something.
    System(Error),
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Cancelled => f.write_str("the client wants no reply any more"),
            ReplyError::ClientDied => f.write_str("the client died"),
            ReplyError::TimedOut => f.write_str("the client had not taken earlier replies when the deadline passed"),
            ReplyError::TooLarge { len, most } => {
                write!(f, "a reply of {len} bytes does not fit, the most is {most}; stream it, or raise max_bytes")
            }
            ReplyError::NoSpace => f.write_str("there is no memory for the reply; raise max_bytes, or reply in pieces"),
            ReplyError::Encoding(why) => write!(f, "the value cannot be written as msgpack: {why}"),
            ReplyError::NotServer => f.write_str("this is a forked child's copy of a request, which is its parent's"),
            ReplyError::Damaged(error) | ReplyError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplyError {}

impl From<Error> for ReplyError {
    fn from(error: Error) -> ReplyError {
        match error {
            Error::NoSpace { .. } => ReplyError::NoSpace,
            Error::Damaged { .. } => ReplyError::Damaged(error),
            other => ReplyError::System(other),
        }
    }
}
