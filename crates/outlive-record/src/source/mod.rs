//! What is recorded: topics, queues, states, services. One file for each kind; to the recorder they are alike.
//!
//! | kind | how it is read | its process |
//! | --- | --- | --- |
//! | topic | a subscriber, which publishers wait for | is woken by publishers |
//! | queue | a tap: messages are copied, none is taken | looks from time to time |
//! | state | a tap on its buffers | the same |
//! | service | its call slots' words | the same |

mod polled;
mod queue;
mod service;
mod state;
mod topic;

use outlive::topic::Sample;
use outlive::wait::WaitSet;
use outlive::{Domain, Kind, RecvError};
use outlive_mcap::{Positions, Writer};

use crate::account::{Entry, Missing};
use crate::error::Error;
use crate::recorder::Options;

pub use topic::{MISSING, NAME, note_present};

/// Which kinds of things are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kinds {
    /// Topics.
    pub topics: bool,
    /// Queues.
    pub queues: bool,
    /// States.
    pub states: bool,
    /// Services.
    pub services: bool,
}

impl Kinds {
    /// Topics alone.
    pub const TOPICS: Kinds = Kinds { topics: true, queues: false, states: false, services: false };

    /// Returns whether that kind is one of them.
    #[must_use]
    pub fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Topic => self.topics,
            Kind::Queue => self.queues,
            Kind::State => self.states,
            Kind::Service => self.services,
            _ => false,
        }
    }
}

/// A payload in shared memory, which stays there until it is in the file.
pub struct Payload {
    sample: Sample<[u8]>,
    len: usize,
}

impl AsRef<[u8]> for Payload {
    fn as_ref(&self) -> &[u8] {
        &self.sample.bytes()[..self.len]
    }
}

/// What one look at a source found.
pub enum Found {
    /// A message, or several: so many are in the open group, the others were passed over.
    Message {
        bytes: usize,
        written: u64,
    },
    /// Something to be told in the file.
    News(RecvError),
    Nothing,
    /// The open group has to be written first.
    Full,
    /// Something that is not in the file: why.
    PassedOver(String),
    /// Nothing can be taken: why.
    Broken(RecvError),
}

/// See the head of this file. What it has put into the open group is the recorder's, until that says that the
/// group is in the file.
pub trait Source {
    fn kind(&self) -> Kind;
    /// Returns its name in the domain.
    fn name(&self) -> &str;
    /// Returns its name in the file, which no source of another kind has.
    fn channel(&self) -> &str;
    fn is_removed(&self) -> bool;
    /// Adds its channel to a file.
    fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error>;
    /// The file ends, or the source goes: it has a channel there now, also if nothing of it came.
    fn complete(&mut self, _: &mut Writer<Payload>) -> Result<(), Error> {
        Ok(())
    }
    /// Returns whether no process wakes the recorder for it.
    fn is_polled(&self) -> bool {
        true
    }
    /// Adds it to a wait set, if some process wakes the recorder for it.
    fn watch(&mut self, _: &mut WaitSet) -> Result<(), Error> {
        Ok(())
    }
    fn unwatch(&mut self, _: &mut WaitSet) {}
    /// Returns whether anything was found since [`part_found`](Source::part_found) was asked. What does not wake
    /// the recorder has looks of its own.
    fn has_found(&self) -> bool {
        false
    }
    /// Returns how large a part of a ring was found since this was asked last.
    fn part_found(&mut self) -> f64 {
        0.0
    }
    /// Returns how much there is to be taken now, at most.
    fn lag(&self) -> u64;
    /// Takes one message, and puts it into the open group unless the file has it.
    fn take(&mut self, writer: &mut Writer<Payload>, now: u64) -> Result<Found, Error>;
    /// Returns how many messages are not in the file.
    fn missing(&self) -> &Missing;
    fn missing_mut(&mut self) -> &mut Missing;
    /// Returns the number by which its positions name it.
    fn instance(&self) -> u64;
    /// No recorder wants it from now on: counts what is there by now and not in the file. `is_skipped`: none was to
    /// record that, either.
    fn leave(&mut self, is_skipped: bool) -> Result<(), Error>;
    /// Writes down how far it is.
    fn note_positions(&mut self, positions: &mut Positions);
    /// The open group is in the file.
    fn acknowledge(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// Leaves the place of a recorder with a name to its successor. The open group has no sample any more.
    fn abandon(self: Box<Self>) {}
}

/// Opens a source. `None`: it is the recorder's own.
pub fn open(
    kind: Kind,
    domain: &Domain,
    name: &str,
    options: &Options,
    entry: &Entry<'_>,
) -> Result<Option<Box<dyn Source>>, Error> {
    Ok(Some(match kind {
        Kind::Queue => Box::new(queue::Queue::open(domain, name, options, entry)?),
        Kind::State => Box::new(state::State::open(domain, name, options, entry)?),
        Kind::Service => match service::Service::open(domain, name, entry)? {
            Some(service) => Box::new(service),
            None => return Ok(None),
        },
        _ => Box::new(topic::Topic::open(domain, name, options, entry)?),
    }))
}
