//! Errors of writing and reading MCAP files.

use std::io;
use std::path::{Path, PathBuf};
use std::{error, fmt};

use crate::lock::Holder;

/// Says why a file could not be written or read, and what to do next.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The system refused.
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The file system, a quota or the limit on a file's size has no room. The file ends after its
    /// last whole group; the group that did not fit is still open.
    NoSpace {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No file has this name, and no recording of several files.
    NoRecording {
        /// The name.
        path: PathBuf,
    },
    /// Another process has locked this file, as its writer does.
    Locked {
        /// The file.
        path: PathBuf,
        /// That process, if this one can see it.
        holder: Option<Holder>,
    },
    /// The file does not begin as an MCAP file.
    NotMcap {
        /// The file.
        path: PathBuf,
    },
    /// The file is an MCAP file of another version.
    OtherVersion {
        /// The file.
        path: PathBuf,
        /// The version's character; this library knows '0'.
        version: u8,
    },
    /// The file was not written in groups that end with their positions, so that no writer can tell
    /// where to go on.
    NotResumable {
        /// The file.
        path: PathBuf,
        /// What shows it.
        why: &'static str,
    },
    /// Something is larger than a file of this library may hold.
    TooLarge {
        /// What it is.
        what: &'static str,
        /// Its length in bytes.
        len: u64,
        /// The longest that is allowed.
        limit: u64,
    },
    /// The open group is full: flush it.
    GroupFull,
    /// No channel has this number.
    UnknownChannel(u16),
    /// No schema has this number.
    UnknownSchema(u16),
    /// A file holds at most 65535 channels and as many schemas.
    TooMany(&'static str),
    /// The owner of a payload gave other bytes at the flush than when the message was put.
    OtherPayload,
    /// The file is finished: nothing more can be written.
    Finished,
    /// Bytes of the file contradict the format.
    Damaged {
        /// Where the record with these bytes begins.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// A channel's number is another channel's already, as in [`Error::Damaged`].
    TwoChannels {
        /// Where the record of the second one begins.
        offset: u64,
        /// Their number.
        id: u16,
    },
    /// The file ends in the middle of a record.
    Cut {
        /// Where that record begins. 0: not even the format's mark is there, with which each file begins; such a file
        /// may be empty.
        offset: u64,
    },
    /// A chunk is compressed in a way that this library does not know.
    UnknownCompression {
        /// Where the chunk begins.
        offset: u64,
        /// The way's name.
        name: String,
    },
}

impl Error {
    /// Makes the error of a system call; a full disk is told apart.
    pub(crate) fn io(doing: &'static str, path: &Path, error: io::Error) -> Error {
        let path = path.to_owned();
        match error.kind() {
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Error::NoSpace { path, error },
            _ => Error::Io { doing, path, error },
        }
    }

    pub(crate) fn damaged(offset: u64, why: impl fmt::Display) -> Error {
        Error::Damaged { offset, why: why.to_string() }
    }

    /// Makes the error of a record that the library's own reader refuses. What that says of it is several lines
    /// long, with a trace of its own calls.
    pub(crate) fn unreadable(offset: u64) -> Error {
        Error::damaged(offset, "a record's fields cannot be read")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, path, error } => {
                write!(f, "could not {doing} {}: {error}", path.display())
            }
            Error::NoSpace { path, error } => write!(
                f,
                "no room for {}: {error}; the file is whole up to what was written before: make room, or \
                 write to another disk",
                path.display()
            ),
            Error::NoRecording { path } => {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let number = path.with_file_name(format!("{stem}_0.mcap"));
                write!(f, "there is no file {}", path.display())?;
                match path.extension() {
                    None => write!(f, ", and neither {}.mcap nor", path.display())?,
                    Some(_) => write!(f, ", and no recording of several files, which begins with")?,
                }
                write!(f, " {}", number.display())
            }
            Error::Locked { path, holder } => {
                match holder {
                    Some(holder) => write!(f, "{holder}")?,
                    None => f.write_str("another process has locked")?,
                }
                write!(f, " {}: wait until it has ended", path.display())
            }
            Error::NotMcap { path } => write!(f, "{} is not an MCAP file", path.display()),
            Error::OtherVersion { path, version } => write!(
                f,
                "{} is an MCAP file of version '{}', and only version '0' is known",
                path.display(),
                version.escape_ascii()
            ),
            Error::NotResumable { path, why } => write!(
                f,
                "{} cannot be continued: {why}; record into another file",
                path.display()
            ),
            Error::TooLarge { what, len, limit } => {
                write!(f, "a {what} of {len} bytes is too large: at most {limit} fit")
            }
            Error::GroupFull => f.write_str("the open group is full: flush it first"),
            Error::UnknownChannel(id) => write!(f, "no channel has the number {id}: add it first"),
            Error::UnknownSchema(id) => write!(f, "no schema has the number {id}: add it first"),
            Error::TooMany(what) => {
                write!(f, "no more {what}: a file holds at most 65535; begin another file")
            }
            Error::OtherPayload => f.write_str(
                "a payload's owner gave other bytes at the flush than before; the open group must be \
                 discarded",
            ),
            Error::Finished => f.write_str("the file is finished: resume it to continue"),
            Error::Damaged { offset, why } => write!(f, "damaged at byte {offset}: {why}"),
            Error::TwoChannels { offset, id } => {
                write!(f, "damaged at byte {offset}: two channels have the number {id}")
            }
            Error::Cut { offset: 0 } => f.write_str(
                "the file is empty, or ends before its first record: its writer was killed, or had no room, when it \
                 made the file",
            ),
            Error::Cut { offset } => {
                write!(f, "the file ends in the middle of the record at byte {offset}")
            }
            Error::UnknownCompression { offset, name } => write!(
                f,
                "the chunk at byte {offset} is compressed by '{}', which is not known: zstd and lz4 are",
                name.escape_debug()
            ),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Io { error, .. } | Error::NoSpace { error, .. } => Some(error),
            _ => None,
        }
    }
}
