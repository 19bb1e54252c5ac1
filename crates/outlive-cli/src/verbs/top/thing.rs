//! A row of the screen: a thing, or a dead process, and what is known about it.

use std::cmp::Ordering;

use crate::output::{bytes, count};
use crate::verbs::measuring::rate;

/// The kinds of things, in their order on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Section {
    /// Topics.
    Topics,
    /// Queues.
    Queues,
    /// Locks, and records with locks in them.
    Locks,
    /// Pools.
    Pools,
    /// What is none of these.
    Others,
    /// Processes that died or ended, and what they left.
    Dead,
}

impl Section {
    /// Headings of its columns. The first column takes the room that is left; the second of two
    /// texts at the end is cut off first.
    pub fn headings(self) -> &'static [&'static str] {
        match self {
            Section::Topics => {
                &["TOPIC", "MSG/S", "PUBS", "SUBS", "LAG", "LOST/S", "HELD", "SIZE", "WAITS FOR"]
            }
            Section::Queues => &["QUEUE", "MSG/S", "WAITING", "SENDERS", "SIZE", "RECEIVER"],
            Section::Locks => &["LOCK", "WAITING", "SINCE", "STATE"],
            Section::Pools => &["POOL", "USED", "CACHED", "FREE", "FAILED", "SIZE"],
            Section::Others => &["OTHER", "SIZE", "STATE"],
            Section::Dead => &["DEAD OR ENDED", "PID", "LEFT"],
        }
    }

    /// Returns whether the last column is text.
    pub fn ends_with_text(self) -> bool {
        !matches!(self, Section::Pools)
    }
}

/// How much attention something needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alarm {
    /// None.
    #[default]
    None,
    /// Something is waited for, or left.
    Note,
    /// Something goes wrong.
    Bad,
}

/// The text of a column, and its figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// As it is shown.
    pub text: String,
    /// The figure that the text says, if it says one.
    pub figure: Option<f64>,
}

impl Cell {
    /// Returns a figure with its text.
    pub fn new(text: String, figure: f64) -> Cell {
        Cell { text, figure: Some(figure) }
    }

    /// Returns a number of things.
    pub fn count(number: u64) -> Cell {
        Cell::new(count(number), number as f64)
    }

    /// Returns a number of bytes.
    pub fn bytes(number: u64) -> Cell {
        Cell::new(bytes(number), number as f64)
    }

    /// Returns how many a second.
    pub fn rate(figure: f64) -> Cell {
        Cell::new(rate(figure), figure)
    }

    /// Orders cells of a column: the largest figure first, then texts by their letters, empty ones
    /// last.
    pub fn compare(&self, other: &Cell) -> Ordering {
        match (self.figure, other.figure) {
            (Some(figure), Some(other)) => other.total_cmp(&figure),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => {
                self.text.is_empty().cmp(&other.text.is_empty()).then(self.text.cmp(&other.text))
            }
        }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, figure: None }
    }
}

/// One row.
#[derive(Clone, Debug)]
pub struct Thing {
    /// Its section.
    pub section: Section,
    /// What it is called, fit for a terminal.
    pub name: String,
    /// Its row.
    pub cells: Vec<Cell>,
    /// What is drawn of it over time, the first in its row, too.
    pub figures: Vec<(&'static str, f64)>,
    /// By which the busiest is found.
    pub activity: f64,
    /// Bytes that it takes.
    pub bytes: u64,
    /// How it is shown.
    pub alarm: Alarm,
    /// All that is known about it.
    pub about: Vec<(&'static str, String)>,
}
