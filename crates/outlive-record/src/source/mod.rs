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

use crate::error::Error;
use crate::recorder::Options;

pub use topic::NAME;

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
    /// Returns how many messages were lost, and how many of these are not told in the file.
    fn lost(&self) -> (u64, u64);
    /// So many more are told in the open group.
    fn tell_lost(&mut self, count: u64);
    /// Returns what its positions' keys begin with.
    fn prefix(&self) -> String;
    /// Writes down how far it is.
    fn note_positions(&mut self, positions: &mut Positions);
    /// The open group is in the file.
    fn acknowledge(&mut self) -> Result<(), Error> {
        Ok(())
    }
    /// Leaves the place of a recorder with a name to its successor. The open group has no sample any more.
    fn abandon(self: Box<Self>) {}
}

/// Opens a source. `is_late`: it came while the recorder ran, so what is there already is wanted, too.
/// `None`: it is the recorder's own.
pub fn open(
    kind: Kind,
    domain: &Domain,
    name: &str,
    options: &Options,
    positions: &Positions,
    is_late: bool,
) -> Result<Option<Box<dyn Source>>, Error> {
    Ok(Some(match kind {
        Kind::Queue => Box::new(queue::Queue::open(domain, name, options, positions, is_late)?),
        Kind::State => Box::new(state::State::open(domain, name, options, positions, is_late)?),
        Kind::Service => match service::Service::open(domain, name, positions, is_late)? {
            Some(service) => Box::new(service),
            None => return Ok(None),
        },
        _ => Box::new(topic::Topic::open(domain, name, options, positions, is_late)?),
    }))
}
