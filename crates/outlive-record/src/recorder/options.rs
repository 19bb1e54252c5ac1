//! How a recorder works, and what it has done.

use std::path::PathBuf;
use std::time::Duration;

use outlive_mcap::{Compression, Sync};
use serde_json::Value;

use crate::output::Split;
use crate::snapshot::Snapshot;
use crate::source::Kinds;

/// How a recorder works.
pub struct Options {
    /// The file, or the beginning of the files' names.
    pub output: PathBuf,
    /// Which topics and other things, by name.
    pub wanted: Box<dyn Fn(&str) -> bool>,
    /// Of which kinds.
    pub kinds: Kinds,
    /// What `wanted` and `kinds` choose, as any text. A successor that chooses something else does not know of what it
    /// finds whether it came while none recorded.
    pub selection: String,
    /// The recorder's name, under which a successor goes on.
    pub name: Option<String>,
    /// For how long publishers wait for a successor.
    pub patience: Duration,
    /// Publishers of topics that offer it wait for the recorder.
    pub reliable: bool,
    /// Continue the file if it is there. A recorder with a name continues an unfinished file in any case.
    pub resume: bool,
    /// When the next file begins.
    pub split: Split,
    /// Keep the last seconds in shared memory, and write them when told. The recorder needs a name.
    pub snapshot: Option<Snapshot>,
    /// How chunks are compressed.
    pub compression: Compression,
    /// When the disk has to have what was written.
    pub sync: Sync,
    /// How many bytes a group gathers.
    pub group_bytes: u64,
    /// For how long a message may wait in the open group.
    pub flush: Duration,
    /// One of so many messages of a topic is recorded.
    pub every: u64,
    /// The most messages of a topic in a second.
    pub max_rate: Option<f64>,
    /// Gets each event that the recorder writes into the file.
    pub told: Box<dyn Fn(&Value)>,
}

impl Options {
    /// Returns the options of a recording of all topics into that file.
    pub fn new(output: impl Into<PathBuf>) -> Options {
        Options {
            output: output.into(),
            wanted: Box::new(|_| true),
            kinds: Kinds::TOPICS,
            selection: String::new(),
            name: None,
            patience: Duration::from_secs(10),
            reliable: true,
            resume: false,
            snapshot: None,
            split: Split::default(),
            compression: Compression::None,
            sync: Sync::Never,
            group_bytes: 1 << 20,
            flush: Duration::from_secs(1),
            every: 1,
            max_rate: None,
            told: Box::new(|_| {}),
        }
    }
}

/// What a recorder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that are in the file, or in the open group.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were overwritten before they were taken.
    pub lost: u64,
    /// Messages that were sent while the recorder was stopped, or none was to record.
    pub skipped: u64,
    /// Topics.
    pub topics: usize,
    /// Queues.
    pub queues: usize,
    /// States.
    pub states: usize,
    /// Services.
    pub services: usize,
    /// Topics and other things that could not be opened.
    pub refused: usize,
    /// Publishers that died.
    pub deaths: u64,
}

impl Counts {
    /// The same, and nothing is recorded now.
    pub(crate) fn stopped(self) -> Counts {
        Counts { topics: 0, queues: 0, states: 0, services: 0, refused: 0, ..self }
    }

    /// Adds what was done after a stop; topics are those of now.
    pub(crate) fn and(self, later: Counts) -> Counts {
        Counts {
            messages: self.messages + later.messages,
            bytes: self.bytes + later.bytes,
            lost: self.lost.saturating_add(later.lost),
            skipped: self.skipped.saturating_add(later.skipped),
            deaths: self.deaths + later.deaths,
            ..later
        }
    }
}
