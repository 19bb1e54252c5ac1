//! The errors of topics on a GPU.

use std::fmt;

use outlive::{RecvError, SendError, TokenId};

/// Says why a call failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GpuError {
    /// There is no driver here, none that can be used, or no GPU. Topics work as before, without
    /// this crate.
    NoGpu {
        /// What is missing.
        why: String,
    },
    /// The driver refused a call.
    Driver {
        /// The function that refused.
        function: &'static str,
        /// The code that it returned.
        code: i32,
        /// The driver's name for the code.
        name: String,
        /// The driver's description of the code.
        text: String,
    },
    /// The stream is captured into a graph: a replay would publish, or release, once more.
    Capturing,
    /// The deadline passed before the copies completed.
    TimedOut,
    /// The part is not inside the message.
    OutOfBounds {
        /// How many values the message has.
        len: usize,
    },
    /// This GPU's memory cannot be shared with other processes: it has no device topics.
    CannotShare {
        /// What is missing.
        why: &'static str,
    },
    /// The process that had the message's GPU memory has died, and this one had not mapped it. The
    /// message is lost.
    OwnerDied {
        /// The process, by its token.
        owner: TokenId,
    },
    /// The process that had the message's GPU memory has closed its topic, and this one had not
    /// mapped it. The message is lost.
    BlockGone {
        /// The process, by its token.
        owner: TokenId,
    },
    /// A message of the topic is no card: a stray write, or a hostile process. It is skipped.
    NoCard,
    /// The system refused a call that is needed to share GPU memory.
    System {
        /// What the call was for.
        what: &'static str,
        /// The system's error number.
        errno: i32,
    },
    /// The message lies in another GPU's memory than the subscriber's. It is skipped.
    OtherGpu,
    /// Publishing failed, also for a message that was due on a stream.
    Publish(SendError),
    /// Receiving failed.
    Subscribe(RecvError),
    /// The topic could not be opened.
    Topic(outlive::Error),
}

impl fmt::Display for GpuError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GpuError::NoGpu { why } => write!(f, "no GPU can be used here: {why}; topics work without one"),
            GpuError::Driver { function, code, name, text } => write!(f, "{function}: {text} ({name}, {code})"),
            GpuError::Capturing => {
                f.write_str("the stream is captured into a graph; publish and copy outside of what is captured")
            }
            GpuError::TimedOut => {
                f.write_str("copies were not over when the deadline passed; wait longer, or look at the streams")
            }
            GpuError::OutOfBounds { len } => write!(f, "the message has {len} values; copy a part of those"),
            GpuError::CannotShare { why } => {
                write!(f, "this GPU's memory cannot be shared: {why}; pinned topics need no such thing")
            }
            GpuError::OwnerDied { owner } => {
                write!(f, "process {owner} has died, and with it a message that was not mapped here yet")
            }
            GpuError::BlockGone { owner } => {
                write!(f, "process {owner} has closed its topic, and with it a message that was not mapped here yet")
            }
            GpuError::NoCard => {
                f.write_str("a message says no place on a GPU; a process wrote over it: look for the stray write")
            }
            GpuError::System { what, errno } => write!(f, "{what}: {}", std::io::Error::from_raw_os_error(*errno)),
            GpuError::OtherGpu => {
                f.write_str("the message lies on another GPU; subscribe by a topic that is open for that one")
            }
            GpuError::Publish(error) => error.fmt(f),
            GpuError::Subscribe(error) => error.fmt(f),
            GpuError::Topic(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for GpuError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GpuError::Publish(error) => Some(error),
            GpuError::Subscribe(error) => Some(error),
            GpuError::Topic(error) => Some(error),
            _ => None,
        }
    }
}

impl From<SendError> for GpuError {
    fn from(error: SendError) -> GpuError {
        GpuError::Publish(error)
    }
}

impl From<RecvError> for GpuError {
    fn from(error: RecvError) -> GpuError {
        GpuError::Subscribe(error)
    }
}

impl From<outlive::Error> for GpuError {
    fn from(error: outlive::Error) -> GpuError {
        GpuError::Topic(error)
    }
}
