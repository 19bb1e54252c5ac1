//! Exit codes: one table, from which the program, its help and its man page all speak.
//!
//! Scripts may rely on the numbers; a number is never given another meaning.

use std::fmt;

use outlive::sync::{AcquireError, LockError};
use outlive::{Error, RecvError, SendError, WaitError};

use crate::names;
use outlive_program::budget_behind;

/// What a run of the program came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Code {
    /// All is well.
    Done = 0,
    /// What was to be checked is not so.
    CheckFailed = 1,
    /// The command line is not valid.
    Usage = 2,
    /// A queue's receiver is dead.
    ReceiverDied = 3,
    /// A queue has no receiver and was made to refuse messages then.
    NoReceiver = 4,
    /// The time was over.
    TimedOut = 5,
    /// There is no such thing.
    NotFound = 6,
    /// The name is taken by something else.
    Mismatch = 7,
    /// Not a file of this version of Outlive.
    NotOurs = 8,
    /// No permission.
    Permission = 9,
    /// No room.
    NoSpace = 10,
    /// Shared bytes are damaged.
    Damaged = 11,
    /// A living process has it.
    Busy = 12,
    /// Not a name.
    BadName = 13,
    /// A lock is not recoverable.
    NotRecoverable = 14,
    /// The system refused for a reason of its own.
    System = 15,
    /// The input is not valid.
    BadInput = 16,
    /// `lock` or `sem` could not get in in time.
    LockTimedOut = 124,
    /// `lock` or `sem` itself failed.
    LockFailed = 125,
    /// `lock` or `sem` found the command but could not run it.
    NotExecutable = 126,
    /// `lock` or `sem` did not find the command.
    CommandNotFound = 127,
}

/// All codes, with what they mean to a reader of the manual.
pub const TABLE: &[(Code, &str)] = &[
    (Code::Done, "done; also when the reader of a pipe had enough"),
    (
        Code::CheckFailed,
        "a check failed: the demo lost something, doctor found a fault; call: the server had no answer, or could not do what was asked; work: a job was set aside",
    ),
    (Code::Usage, "the command line is not valid"),
    (
        Code::ReceiverDied,
        "the queue's receiver, or the service's server, died and none has taken over; what was sent before is kept for one",
    ),
    (
        Code::NoReceiver,
        "the service has no server, or the queue no receiver and was made to refuse messages then",
    ),
    (Code::TimedOut, "the time given by --timeout was over"),
    (Code::NotFound, "no such domain, name or file"),
    (
        Code::Mismatch,
        "the name is in use for a thing of another kind or type, or made with other options",
    ),
    (
        Code::NotOurs,
        "the file was not made by Outlive, or by a version with another memory layout; the folder holds other things than a domain",
    ),
    (Code::Permission, "no permission, or the folder belongs to another user or is open to others"),
    (
        Code::NoSpace,
        "no room: file system, quota, limit, tokens, or a message larger than its queue",
    ),
    (Code::Damaged, "shared bytes are damaged: a process wrote over them"),
    (
        Code::Busy,
        "a living process has it: the queue's other receiver, the state's other writer, the service's other server, the users \
         of what is to be removed, the address at which metrics would listen",
    ),
    (Code::BadName, "not a name: see 'outlive help domain list'"),
    (Code::NotRecoverable, "the lock is not recoverable, or its owner died"),
    (Code::System, "the system refused"),
    (
        Code::BadInput,
        "the input is not valid: a length prefix without its record, no JSON, no msgpack; a configuration file has a \
         fault",
    ),
    (
        Code::LockTimedOut,
        "lock, semaphore: no lock or permit became free in time (--timeout, --nonblock), unless -E says otherwise; cmd did not run",
    ),
    (Code::LockFailed, "lock, semaphore: could not get in, for any other reason; cmd did not run"),
    (Code::NotExecutable, "lock, semaphore, work: cmd was found but cannot be run"),
    (Code::CommandNotFound, "lock, semaphore, work: cmd was not found"),
];

/// What is no code of this program's own.
const ENDINGS: [(&str, &str); 2] = [
    ("bench", "128 + the signal that ended it"),
    ("lock, semaphore", "otherwise cmd's own code, or 128 + the signal that killed cmd"),
];

/// Returns the table as text, for help and man pages.
pub fn table() -> String {
    let mut text = String::from("Exit codes:\n");
    for (code, meaning) in TABLE {
        text.push_str(&format!("  {:>3}  {meaning}\n", *code as u8));
    }
    for (who, ending) in ENDINGS {
        text.push_str(&format!("       {who}: {ending}\n"));
    }
    text.truncate(text.trim_end().len());
    text
}

/// The codes with which a verb, by its long form, may end and others do not. `lock run` and
/// `semaphore run` have these alone.
const OF_VERBS: [(&str, &[Code]); 18] = [
    ("topic pub", &[Code::TimedOut, Code::BadInput]),
    ("topic echo", &[Code::TimedOut, Code::BadInput]),
    ("queue send", &[Code::ReceiverDied, Code::NoReceiver, Code::TimedOut, Code::BadInput]),
    ("queue recv", &[Code::Busy]),
    ("job put", &[Code::TimedOut, Code::BadInput]),
    ("job work", &[Code::CheckFailed, Code::NotExecutable, Code::CommandNotFound]),
    ("state set", &[Code::TimedOut, Code::Busy]),
    ("service call", &[Code::CheckFailed, Code::ReceiverDied, Code::NoReceiver, Code::TimedOut]),
    ("service serve", &[Code::Busy]),
    ("lock run", UNDER),
    ("semaphore run", UNDER),
    ("metrics", &[Code::Busy]),
    ("domain create", &[Code::Busy]),
    ("domain wait", &[Code::TimedOut]),
    ("domain remove", &[Code::Busy]),
    ("config check", &[Code::BadInput]),
    ("doctor", &[Code::CheckFailed]),
    ("demo", &[Code::CheckFailed]),
];
const UNDER: &[Code] =
    &[Code::LockTimedOut, Code::LockFailed, Code::NotExecutable, Code::CommandNotFound];

/// Returns the codes of a verb, and what each means, for its man page; all codes for the program
/// itself.
pub fn statuses(verb: &str) -> Vec<(String, String)> {
    let row = |(code, meaning): &(Code, &str)| ((*code as u8).to_string(), (*meaning).to_owned());
    if verb.is_empty() || verb == "exit-codes" {
        let endings = ENDINGS.iter().map(|(what, how)| ((*what).to_owned(), (*how).to_owned()));
        return TABLE.iter().map(row).chain(endings).collect();
    }
    let long = crate::cli::long_form(verb);
    let own = OF_VERBS.iter().find(|(verb, _)| *verb == long).map_or(&[][..], |(_, codes)| codes);
    let mut rows: Vec<_> = TABLE.iter().filter(|(code, _)| own.contains(code)).map(row).collect();
    if own == UNDER {
        rows.push((
            "any other".to_owned(),
            "the command's own, or 128 + the signal that killed it".to_owned(),
        ));
    } else {
        rows.insert(0, row(&TABLE[0]));
        rows.push(("others".to_owned(), "as for all verbs: outlive-exit-codes(1)".to_owned()));
    }
    rows
}

/// Why a verb ended before its work was done.
#[derive(Debug)]
pub enum Failure {
    /// Something to be told.
    Told {
        /// What the program exits with.
        code: Code,
        /// What happened, and what to do next.
        message: String,
    },
    /// The reader of the output has closed it: no failure at all.
    BrokenPipe,
    /// All has been said; exit with this.
    Silent(u8),
}

impl Failure {
    /// Makes a failure with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Failure {
        Failure::Told { code, message: message.into() }
    }

    /// Returns what the system said while something was done.
    pub fn system(doing: impl fmt::Display, error: &std::io::Error) -> Failure {
        let code = match error.kind() {
            std::io::ErrorKind::BrokenPipe => return Failure::BrokenPipe,
            std::io::ErrorKind::NotFound => Code::NotFound,
            std::io::ErrorKind::PermissionDenied => Code::Permission,
            std::io::ErrorKind::StorageFull
            | std::io::ErrorKind::QuotaExceeded
            | std::io::ErrorKind::FileTooLarge => Code::NoSpace,
            _ => Code::System,
        };
        Failure::new(code, format!("could not {doing}: {error}"))
    }

    /// Returns the same, with another code: for verbs that have codes of their own.
    pub fn with_code(self, code: Code) -> Failure {
        match self {
            Failure::Told { message, .. } => Failure::Told { code, message },
            other => other,
        }
    }

    /// Returns the number that the program exits with.
    pub fn number(&self) -> u8 {
        match self {
            Failure::Told { code, .. } => *code as u8,
            Failure::BrokenPipe => 0,
            Failure::Silent(code) => *code,
        }
    }
}

/// Returns the code of a core error.
pub fn code_of(error: &Error) -> Code {
    match error {
        Error::InvalidName { .. } => Code::BadName,
        Error::NotFound { .. } => Code::NotFound,
        Error::Untrusted { .. } | Error::Permission { .. } | Error::NoRealTime { .. } => {
            Code::Permission
        }
        Error::NotAFolder { .. }
        | Error::NotADomain { .. }
        | Error::NotASegment { .. }
        | Error::OtherVersion { .. } => Code::NotOurs,
        Error::OtherKind { .. }
        | Error::OtherType { .. }
        | Error::OtherEnvironment { .. }
        | Error::OtherDomain { .. }
        | Error::OtherOptions { .. } => Code::Mismatch,
        Error::InvalidOption { .. } => Code::Usage,
        Error::InvalidConfig { .. } => Code::BadInput,
        Error::AlreadyExists { .. } => Code::Busy,
        Error::NoSpace { .. }
        | Error::NoAddressSpace { .. }
        | Error::NoToken { .. }
        | Error::TooMany { .. } => Code::NoSpace,
        Error::Damaged { .. } | Error::DeclaredDead { .. } => Code::Damaged,
        Error::Taken { .. } | Error::Ending { .. } => Code::Busy,
        // A thread that no library started has no token: nothing that a user of the program can do.
        Error::ForeignThread { .. } => Code::System,
        // The enum may grow; the test below finds what is missing here.
        _ => Code::System,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let similar = match &error {
            Error::NotFound { path } => names::similar(path),
            _ => None,
        };
        let meant = similar.map(|name| format!(" (is '{}' meant?)", name.escape_debug()));
        let more = meant.or_else(|| budget_behind(&error)).unwrap_or_default();
        Failure::new(code_of(&error), format!("{error}{more}"))
    }
}

impl From<RecvError> for Failure {
    fn from(error: RecvError) -> Failure {
        let code = match &error {
            RecvError::Missed
            | RecvError::Lagged { .. }
            | RecvError::NewSession { .. }
            | RecvError::NotLively { .. }
            | RecvError::Lively { .. }
            | RecvError::PublisherDied { .. } => Code::TimedOut,
            RecvError::TooManyHeld => Code::NoSpace,
            RecvError::Encoding(_) => Code::BadInput,
            RecvError::Closed => Code::Done,
            RecvError::Cancelled => Code::System,
            RecvError::NotOwner => Code::Busy,
            RecvError::Damaged(_) => Code::Damaged,
            RecvError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Failure {
        let code = match &error {
            SendError::Full { slowest: None }
            | SendError::TooLarge { .. }
            | SendError::NoSpace { .. } => Code::NoSpace,
            SendError::Full { slowest: Some(_) } => Code::Busy,
            SendError::TimedOut { .. } => Code::TimedOut,
            SendError::NoReceiver => Code::NoReceiver,
            SendError::ReceiverDied => Code::ReceiverDied,
            SendError::Cancelled => Code::System,
            SendError::OtherLength { .. } => Code::Mismatch,
            SendError::Encoding(_) => Code::BadInput,
            SendError::NotOwner => Code::Busy,
            SendError::Damaged(_) => Code::Damaged,
            SendError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error.to_string())
    }
}

impl<G> From<LockError<G>> for Failure {
    fn from(error: LockError<G>) -> Failure {
        match error {
            LockError::Failed(error) => error.into(),
            LockError::OwnerDied(_) => Failure::new(Code::NotRecoverable, error.to_string()),
            other => Failure::new(Code::System, other.to_string()),
        }
    }
}

impl From<AcquireError> for Failure {
    fn from(error: AcquireError) -> Failure {
        let code = match &error {
            AcquireError::OwnerDied | AcquireError::NotRecoverable | AcquireError::Broken => {
                Code::NotRecoverable
            }
            AcquireError::Deadlock => Code::Busy,
            AcquireError::NotHeld => Code::System,
            AcquireError::AboveCeiling => Code::Permission,
            AcquireError::Full => Code::NoSpace,
            AcquireError::Damaged => Code::Damaged,
            AcquireError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error.to_string())
    }
}

impl From<WaitError> for Failure {
    fn from(error: WaitError) -> Failure {
        let code = match &error {
            WaitError::TimedOut => Code::TimedOut,
            WaitError::System(inner) => code_of(inner),
            _ => Code::System,
        };
        Failure::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    const THIS_FILE: &str = include_str!("exit.rs");

    /// Returns the variants of an enum, from the core's source.
    fn variants(source: &str, name: &str) -> Vec<String> {
        let body = source.split(&format!("pub enum {name}")).nth(1).expect("the enum is there");
        let body = &body[..body.find("\n}").expect("it ends")];
        let mut found = Vec::new();
        for line in body.lines().skip(1) {
            // Variants are indented by four spaces; their fields by more.
            let Some(rest) = line
                .strip_prefix("    ")
                .filter(|rest| rest.starts_with(|c: char| c.is_uppercase()))
            else {
                continue;
            };
            found.push(rest.chars().take_while(|c| c.is_alphanumeric()).collect());
        }
        found
    }

    #[test]
    fn each_error_of_the_core_has_a_code_of_its_own_choice() {
        let files = [
            ("Error", "crates/outlive/src/error.rs"),
            ("SendError", "crates/outlive/src/claim/transfer.rs"),
            ("RecvError", "crates/outlive/src/claim/transfer.rs"),
            ("LockError", "crates/outlive/src/sync/error.rs"),
            ("AcquireError", "crates/outlive/src/sync/error.rs"),
            ("WaitError", "crates/outlive/src/wake/error.rs"),
        ];
        for (name, file) in files {
            let Some(source) = repository::text(file) else { return };
            let variants = variants(&source, name);
            assert!(!variants.is_empty(), "{name}");
            for variant in variants {
                // `System` may fall into the last arm: it says the same.
                let named =
                    THIS_FILE.contains(&format!("{name}::{variant}")) || variant == "System";
                assert!(named, "{name}::{variant} has no exit code in exit.rs");
            }
        }
    }

    #[test]
    fn the_table_names_each_number_once() {
        let mut numbers: Vec<u8> = TABLE.iter().map(|(code, _)| *code as u8).collect();
        let before = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), before);
        assert!(numbers.is_sorted());
        let listed = variants(THIS_FILE, "Code").len();
        assert_eq!(listed, before, "a code is missing in the table");
    }

    #[test]
    fn a_broken_pipe_is_no_failure() {
        let error = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert_eq!(Failure::system("write", &error).number(), 0);
    }
}
