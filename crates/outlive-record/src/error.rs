//! Errors of recording and of playing.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::{error, fmt};

use outlive_program::date;
use outlive_program::names::{nearest, shown, those};

use crate::replay::name_of;

/// Says why a recorder or a player could not begin, or has to end.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The domain, a topic or the system.
    Outlive(outlive::Error),
    /// A receive.
    Receive {
        /// The topic.
        topic: String,
        /// What it said.
        error: outlive::RecvError,
    },
    /// A wait.
    Wait(outlive::WaitError),
    /// The file. After [`NoSpace`](outlive_mcap::Error::NoSpace) it is whole up to its last group.
    File(outlive_mcap::Error),
    /// The file is there, and was not to be continued.
    Exists(PathBuf),
    /// No file was named.
    NoFile,
    /// A file of a snapshot's name is there, or another snapshot will have the name.
    NameTaken(PathBuf),
    /// A snapshot was asked for, and another one that was asked for is not written yet.
    Busy,
    /// A snapshot cannot be called that.
    NoName(String),
    /// A recorder of this name runs.
    Running {
        /// The name.
        name: String,
        /// Its process, if this one can see it.
        pid: Option<u32>,
    },
    /// A recorder of this name has no window.
    NoWindow(String),
    /// Another process was writing this snapshot, and has not.
    Elsewhere(PathBuf),
    /// The recorder keeps no window.
    NoSnapshots,
    /// The recorder keeps a window, and has no file to be split.
    NoSplit,
    /// The recorder was told to stop.
    Stopped,
    /// What is wrong with a file that is played.
    Fault {
        /// The file.
        path: PathBuf,
        /// What was found.
        error: outlive_mcap::Error,
    },
    /// A file's index has a channel otherwise than its data: whose messages these are is not known.
    OtherChannel {
        /// The file.
        path: PathBuf,
        /// The channel's number.
        id: u16,
        /// Its topic, as the index has it.
        said: String,
        /// Its topic, as the data has it: where it is the same, its encoding, schema or metadata differ.
        there: String,
    },
    /// A topic of a file cannot be opened here, or made.
    Topic {
        /// Its name in the file.
        topic: String,
        /// Why.
        error: outlive::Error,
    },
    /// Two topics of the files would have the same name here, or one has messages of two types.
    TwoTopics {
        /// One of them, as it is called in a file.
        one: String,
        /// The other one.
        other: String,
        /// The name here.
        name: String,
    },
    /// No file that is played has a topic of that name.
    NoTopic {
        /// The name that was asked for.
        name: String,
        /// The topics that the files have.
        there: Vec<String>,
    },
    /// No topic of the files that are played has that pattern in its name.
    NoneLike {
        /// The pattern.
        regex: String,
        /// The topics that the files have.
        there: Vec<String>,
    },
    /// No message that is played has a time between the start and the end that were asked for.
    NothingThen {
        /// The first log time of the files, in nanoseconds since 1970.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// A message could not be published.
    Publish {
        /// The topic.
        topic: String,
        /// Why.
        error: outlive::SendError,
    },
    /// The system refused.
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What it said.
        error: std::io::Error,
    },
}

impl Error {
    /// Returns whether there was no room: on the disk, by a quota, or by a limit of a file's size.
    pub(crate) fn is_no_room(&self) -> bool {
        match self {
            Error::File(outlive_mcap::Error::NoSpace { .. }) => true,
            Error::Io { error, .. } => matches!(
                error.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
            ),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Outlive(error) => error.fmt(f),
            Error::Receive { topic, error } => write!(f, "{}: {error}", topic.escape_debug()),
            Error::Wait(error) => error.fmt(f),
            Error::File(error) => error.fmt(f),
            Error::Exists(path) => write!(
                f,
                "{} is there already: record into another file, or continue it with --resume",
                path.display()
            ),
            Error::NameTaken(path) => write!(
                f,
                "{} is there already: give the snapshot another name, or none",
                path.display()
            ),
            Error::Busy => f.write_str("busy: another snapshot is being written; ask again"),
            Error::NoFile => f.write_str("no file was named"),
            Error::NoName(name) => write!(
                f,
                "'{}' is no name for a snapshot: it goes into the folder of the recorder's file, so the \
                 name has no '/', and does not begin with '.'",
                name.escape_debug()
            ),
            Error::Running { name, pid } => {
                let name = name.escape_debug();
                let (process, end) = match pid {
                    Some(pid) => (format!("process {pid}"), format!("'kill {pid}'")),
                    None => ("a process that this one cannot see".to_owned(), "Ctrl-C".to_owned()),
                };
                write!(
                    f,
                    "a recorder '{name}' runs already ({process}): record under another name by --as, or end that one \
                     first by {end}; 'outlive record status --as {name}' says what it does"
                )
            }
            Error::NoWindow(name) => write!(
                f,
                "no recorder '{}' runs with --snapshot, and no killed one has left its last seconds",
                name.escape_debug()
            ),
            Error::Elsewhere(path) => write!(
                f,
                "another process began to write {}, and has not finished: try again",
                path.display()
            ),
            Error::NoSplit => f.write_str(
                "the recorder writes no file that could be split: it runs with --snapshot",
            ),
            Error::Stopped => f.write_str("the recorder is stopped: start it first"),
            Error::NoSnapshots => {
                f.write_str("the recorder keeps no last seconds: start it with --snapshot")
            }
            Error::Fault { path, error } => write!(f, "{}: {error}", path.display()),
            Error::OtherChannel { path, id, said, there } => {
                let path = path.display();
                match said == there {
                    true => write!(
                        f,
                        "{path}: its index and its data differ in the type or metadata of channel {id} ('{}')",
                        shown(there)
                    )?,
                    false => write!(
                        f,
                        "{path}: its index says that channel {id} is of the topic '{}', and its data says '{}'",
                        shown(said),
                        shown(there)
                    )?,
                }
                f.write_str(": 'outlive bag recover FILE -o NEW' writes an index of the data")
            }
            Error::Topic { topic, error } => {
                write!(f, "{}: {error}; --rename gives it another name", shown(topic))
            }
            Error::TwoTopics { one, other, name } if one == other => write!(
                f,
                "{} has messages of two types in these files: play the files one by one, or leave it out by --topics",
                shown(name)
            ),
            Error::TwoTopics { one, other, name } => write!(
                f,
                "{} and {} would both be {} here: --rename gives one of them another name",
                shown(one),
                shown(other),
                shown(name)
            ),
            Error::NoTopic { name, there } => {
                // As a file has it, or as it is called here.
                let of_file = nearest(name, there.iter().cloned());
                let here = || nearest(name, there.iter().map(|topic| name_of(topic)));
                let near = of_file.or_else(|| {
                    let here = here()?;
                    there.iter().find(|topic| name_of(topic) == here).cloned()
                });
                let meant = near.map(|near| format!(" (is '{}' meant?)", shown(&near)));
                let (name, meant) = (shown(name), meant.unwrap_or_default());
                write!(
                    f,
                    "there is no topic '{name}'{meant} in what is played; {}",
                    those(there.iter().map(String::as_str))
                )
            }
            Error::NoneLike { regex, there } => write!(
                f,
                "there is no topic with the pattern '{}' in what is played; {}",
                shown(regex),
                those(there.iter().map(String::as_str))
            ),
            Error::NothingThen { first, last } => write!(
                f,
                "no message that is played lies between --start and --end: the recording lasts {:.3} s, from @{} to @{}",
                last.saturating_sub(*first) as f64 / 1e9,
                date::seconds(*first),
                date::seconds(*last)
            ),
            Error::Publish { topic, error } => write!(f, "{}: {error}", topic.escape_debug()),
            Error::Io { doing, path, error } => {
                write!(f, "could not {doing} {}: {error}", path.display())
            }
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Outlive(error) => Some(error),
            Error::Receive { error, .. } => Some(error),
            Error::Wait(error) => Some(error),
            Error::File(error) => Some(error),
            Error::Io { error, .. } => Some(error),
            Error::Fault { error, .. } => Some(error),
            Error::Topic { error, .. } => Some(error),
            Error::Publish { error, .. } => Some(error),
            Error::Exists(_)
            | Error::NameTaken(_)
            | Error::Busy
            | Error::NoFile
            | Error::NoName(_)
            | Error::Running { .. }
            | Error::NoWindow(_)
            | Error::NoSnapshots
            | Error::Elsewhere(_)
            | Error::NoSplit
            | Error::Stopped
            | Error::OtherChannel { .. }
            | Error::TwoTopics { .. }
            | Error::NoTopic { .. }
            | Error::NoneLike { .. }
            | Error::NothingThen { .. } => None,
        }
    }
}

impl From<outlive::Error> for Error {
    fn from(error: outlive::Error) -> Error {
        Error::Outlive(error)
    }
}

impl From<outlive_mcap::Error> for Error {
    fn from(error: outlive_mcap::Error) -> Error {
        Error::File(error)
    }
}
