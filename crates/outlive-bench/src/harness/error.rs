//! Why a benchmark gave no figures.

use std::{error, fmt, io};

/// What stopped a benchmark. A slow contender is never an error; a contender that lost a message or
/// a count is.
#[derive(Debug)]
pub enum Error {
    /// The machine or the options do not allow this benchmark.
    Refused(String),
    /// A system call failed.
    System {
        /// What was being done, as in "while …".
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// A contender broke its promise: a lost message, a miscounted counter, a dead process called
    /// alive.
    Wrong(String),
    /// A process of the benchmark failed or was killed.
    Child(String),
    /// Something did not end in its time.
    TimedOut(String),
    /// A signal asked the benchmark to end.
    Interrupted(i32),
}

impl Error {
    /// Returns the last error of the C library, with what was being done.
    pub fn last(doing: &'static str) -> Self {
        Self::System { doing, source: io::Error::last_os_error() }
    }

    /// Returns an error of another crate, told inside a child of the benchmark.
    pub fn told(doing: &str, error: impl fmt::Display) -> Self {
        Self::Child(format!("{doing}: {error}"))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(why) => write!(f, "{why}"),
            Self::System { doing, source } => write!(f, "while {doing}: {source}"),
            Self::Wrong(what) => write!(f, "wrong result: {what}; this is a fault, not a slow run"),
            Self::Child(what) => write!(f, "{what}"),
            Self::TimedOut(what) => {
                write!(f, "{what} took too long; try --quick, or --limit for more time")
            }
            Self::Interrupted(signal) => write!(f, "ended by signal {signal}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Turns the C library's -1 into an error.
pub fn check(returned: libc::c_int, doing: &'static str) -> Result<libc::c_int, Error> {
    if returned == -1 { Err(Error::last(doing)) } else { Ok(returned) }
}

/// Returns what came of something, whose error is told as that of what was being done.
pub fn told<T, E: fmt::Display>(result: Result<T, E>, doing: &str) -> Result<T, Error> {
    result.map_err(|error| Error::told(doing, error))
}
