//! Why a round failed.

use std::fmt;
use std::io;

/// What went wrong in a round.
#[derive(Debug)]
pub enum Failure {
    /// A process was still blocked when the time allowed was over.
    Hang(String),
    /// A survivor was kept waiting beside a stopped victim for longer than is promised.
    Late(String),
    /// Something came out otherwise than it must: a lost or damaged message, a wrong count, a
    /// leaked object, an error.
    Wrong(String),
    /// The test itself could not be carried out.
    Broken(String),
}

impl Failure {
    /// A result other than it must be.
    pub fn wrong(what: impl Into<String>) -> Failure {
        Failure::Wrong(what.into())
    }

    /// The same with more about when it was.
    #[must_use]
    pub fn with(self, more: &str) -> Failure {
        match self {
            Failure::Hang(what) => Failure::Hang(format!("{what}, {more}")),
            Failure::Late(what) => Failure::Late(format!("{what}, {more}")),
            Failure::Wrong(what) => Failure::Wrong(format!("{what}, {more}")),
            Failure::Broken(what) => Failure::Broken(format!("{what}, {more}")),
        }
    }

    /// A test that could not be carried out.
    pub fn broken(what: impl Into<String>) -> Failure {
        Failure::Broken(what.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Hang(what) => write!(formatter, "HANG: {what}"),
            Failure::Late(what) => write!(formatter, "LATE: {what}"),
            Failure::Wrong(what) => write!(formatter, "WRONG: {what}"),
            Failure::Broken(what) => write!(formatter, "test could not run: {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Broken(error.to_string())
    }
}
