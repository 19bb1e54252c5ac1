//! Exit codes of the programs beside `outlive`: its own, as far as they fit.
//! `crates/outlive-cli/src/exit.rs` has them all; the program is no library.

use std::fmt;
use std::io::{self, ErrorKind};

/// What a run came to. The numbers are `outlive`'s: `outlive help exit-codes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// A check failed: what was looked at has a fault, a part of it was lost, or the other side says that it could
    /// not do what was asked.
    CheckFailed = 1,
    /// The command line is not valid.
    Usage = 2,
    /// The process that was asked has died.
    ReceiverDied = 3,
    /// The deadline passed.
    TimedOut = 5,
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

/// What the system's errors come to, in a program that works on files.
pub fn code_of_io(error: &io::Error) -> Code {
    match error.kind() {
        ErrorKind::NotFound => Code::NotFound,
        ErrorKind::PermissionDenied => Code::Permission,
        ErrorKind::AlreadyExists => Code::Mismatch,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            Code::NoSpace
        }
        _ => Code::System,
    }
}
