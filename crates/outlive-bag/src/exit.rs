//! How a run ends: the codes that all programs have, and texts.

use std::fmt;
use std::io::{self, ErrorKind};

use outlive_mcap::Error;
pub use outlive_program::exit::Code;
use outlive_program::exit::code_of_io;

/// Why a run ended before its work was done.
#[derive(Debug)]
pub enum Failure {
    /// Something to be told.
    Told {
        /// What the program exits with.
        code: Code,
        /// What happened, and what to do next.
        message: String,
    },
    /// The reader of the output has enough: no failure.
    BrokenPipe,
}

impl Failure {
    /// Makes a failure.
    pub fn new(code: Code, message: impl fmt::Display) -> Failure {
        Failure::Told { code, message: message.to_string() }
    }

    /// Returns what the system said while something was done.
    pub fn system(doing: impl fmt::Display, error: &io::Error) -> Failure {
        if error.kind() == ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::new(code_of_io(error), format!("could not {doing}: {error}"))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::Io { error, .. } => code_of_io(error),
            Error::NoSpace { .. } => Code::NoSpace,
            Error::NoRecording { .. } => Code::NotFound,
            Error::Locked { .. } => Code::Busy,
            Error::NotMcap { .. }
            | Error::OtherVersion { .. }
            | Error::NotResumable { .. }
            | Error::UnknownCompression { .. } => Code::NotOurs,
            // What is too large says so itself: no writer of a sound file does.
            Error::Damaged { .. }
            | Error::TwoChannels { .. }
            | Error::Cut { .. }
            | Error::TooLarge { .. } => Code::Damaged,
            _ => Code::System,
        };
        let hint = match code {
            // Nothing is there to be saved.
            _ if matches!(error, Error::Cut { offset: 0 }) => {
                "; 'outlive bag recover --in-place FILE' makes it a recording without messages"
            }
            Code::Damaged => "; 'outlive bag recover FILE -o NEW' saves what is whole",
            _ => "",
        };
        Failure::new(code, format!("{error}{hint}"))
    }
}
