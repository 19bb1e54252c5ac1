//! Exit codes: those of the program `outlive`, as far as they fit.

use std::fmt;

use outlive::{Error, RecvError, SendError};

/// What a run came to. The numbers are `outlive`'s: `outlive help exit-codes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// The command line is not valid.
    Usage = 2,
    /// There is no such domain, queue, stream or file.
    NotFound = 6,
    /// A thing of that name is there, and is another than the one meant.
    Mismatch = 7,
    /// The file is not of this version of Outlive.
    NotOurs = 8,
    /// No permission, in the domain or at the server.
    Permission = 9,
    /// No room; a message that one of the sides does not take.
    NoSpace = 10,
    /// Shared bytes are damaged.
    Damaged = 11,
    /// A living process has it.
    Busy = 12,
    /// Not a name.
    BadName = 13,
    /// The system or the server refused.
    System = 15,
    /// A file that was named is not valid.
    BadInput = 16,
}

/// Why a run ended before its work was done.
#[derive(Debug)]
pub struct Failure {
    /// What the program exits with.
    pub code: Code,
    /// What happened, and what to do next.
    pub message: String,
}

impl Failure {
    /// Makes a failure.
    pub fn new(code: Code, message: impl fmt::Display) -> Failure {
        Failure { code, message: message.to_string() }
    }
}

fn code_of(error: &Error) -> Code {
    match error {
        Error::InvalidName { .. } => Code::BadName,
        Error::NotFound { .. } => Code::NotFound,
        Error::Untrusted { .. } | Error::Permission { .. } => Code::Permission,
        Error::NotAFolder { .. }
        | Error::NotADomain { .. }
        | Error::NotASegment { .. }
        | Error::OtherVersion { .. } => Code::NotOurs,
        Error::OtherKind { .. } | Error::OtherType { .. } | Error::OtherOptions { .. } => {
            Code::Mismatch
        }
        Error::InvalidOption { .. } => Code::Usage,
        Error::InvalidConfig { .. } => Code::BadInput,
        Error::NoSpace { .. }
        | Error::NoAddressSpace { .. }
        | Error::NoToken { .. }
        | Error::TooMany { .. } => Code::NoSpace,
        Error::Damaged { .. } | Error::DeclaredDead { .. } => Code::Damaged,
        Error::Taken { .. } | Error::Ending { .. } | Error::AlreadyExists { .. } => Code::Busy,
        _ => Code::System,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::new(code_of(&error), error)
    }
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Failure {
        let code = match &error {
            RecvError::NotOwner => Code::Busy,
            RecvError::Damaged(_) => Code::Damaged,
            RecvError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error)
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let code = match &error {
            SendError::TooLarge { .. } | SendError::NoSpace { .. } | SendError::Full { .. } => {
                Code::NoSpace
            }
            SendError::Damaged(_) => Code::Damaged,
            SendError::NotOwner => Code::Busy,
            SendError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error)
    }
}
