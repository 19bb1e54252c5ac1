//! The topics into which the messages of a recording go.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use outlive::topic::{Header, Loan, Publisher, Topic};
use outlive::{Deadline, Domain, SendError};
use outlive_described::array::Array;
use outlive_mcap::{Channel, Schema};
use outlive_program::names::shown;

use super::channel::Made;
use super::input::Data;
use super::wanted::Asked;
use crate::cdr::SOME;
use crate::error::Error;
use crate::form::KIND;

/// One topic.
pub struct Sink {
    /// Its name in the file.
    topic: String,
    /// Its name here.
    pub name: String,
    made: Made,
    publisher: Publisher<[u8]>,
    /// Its publisher waits for reliable subscribers.
    waits: bool,
    /// The CDR of a long message that is not in memory as it is in the file.
    copy: Vec<u8>,
    /// The last message's channel, and the layout of its arrays if it has some from Python; a topic may have several.
    arrays: Option<(Arc<Channel>, Option<Array>)>,
    /// It was told that some of its messages are none.
    is_told: bool,
}

/// A message before its time has come.
pub struct Payload {
    memory: Memory,
    /// What its header has: of an array its type and extents.
    own: [u8; 32],
}

enum Memory {
    Lent(Loan<[u8]>),
    /// There was no memory for it yet.
    Kept(Vec<u8>),
}

/// What became of a message.
pub enum Prepared {
    Payload(Payload),
    /// The bytes are no value of the type, or no memory was there for them; if so, why, once.
    Refused(Option<String>),
}

/// Where the messages of a channel go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It was not met.
    Unknown,
    /// It is not wanted.
    Nowhere,
    /// Into that topic.
    Sink(u32),
}

impl Prepared {
    fn lent(loan: Loan<[u8]>) -> Prepared {
        Prepared::Payload(Payload { memory: Memory::Lent(loan), own: [0; 32] })
    }
}

/// Which topics there are, and how they are opened.
pub struct Sinks {
    domain: Domain,
    asked: Asked,
    /// The topic that the player itself has.
    clock: Option<String>,
    reliable: bool,
    /// Of the topics that are made; `None`: what they had.
    depth: Option<u32>,
    all: Vec<Sink>,
    /// By file and channel.
    by_channel: Vec<Vec<Place>>,
    /// What the user should know.
    pub notices: Vec<String>,
    /// What was told of channels that are none of topics.
    told: BTreeSet<String>,
}

impl Sinks {
    pub fn new(
        domain: &Domain,
        asked: Asked,
        clock: Option<String>,
        reliable: bool,
        depth: Option<u32>,
    ) -> Sinks {
        let (all, by_channel) = (Vec::new(), Vec::new());
        Sinks {
            domain: domain.clone(),
            asked,
            clock,
            reliable,
            depth,
            all,
            by_channel,
            notices: Vec::new(),
            told: BTreeSet::new(),
        }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns what was asked for and not met so far.
    pub fn unmet(&self) -> Option<Error> {
        self.asked.unmet()
    }

    /// Returns how many subscribers there are, of all topics together.
    pub fn subscribers(&self) -> u64 {
        self.all.iter().map(|sink| u64::from(sink.publisher.subscriber_count())).sum()
    }

    /// Returns which topic a channel of a file goes into.
    #[inline]
    pub fn of(&self, file: usize, channel: u16) -> Option<usize> {
        match self.by_channel.get(file)?.get(usize::from(channel))? {
            Place::Sink(at) => Some(*at as usize),
            Place::Unknown | Place::Nowhere => None,
        }
    }

    fn place(&mut self, file: usize, channel: u16) -> &mut Place {
        if self.by_channel.len() <= file {
            self.by_channel.resize_with(file + 1, Vec::new);
        }
        let (places, at) = (&mut self.by_channel[file], usize::from(channel));
        if places.len() <= at {
            places.resize(at + 1, Place::Unknown);
        }
        &mut places[at]
    }

    pub fn get(&mut self, at: usize) -> &mut Sink {
        &mut self.all[at]
    }

    /// Fails where [`Sinks::add`] would for one of these channels: a replay that is refused has made no topic.
    pub fn check<'c>(
        &mut self,
        channels: impl Iterator<Item = (&'c Channel, Option<&'c Schema>)>,
    ) -> Result<(), Error> {
        let mut all: HashMap<String, (&str, Made)> = HashMap::new();
        for (channel, schema) in channels {
            let topic = channel.topic.as_str();
            let met = self.asked.meet(channel).map(|(name, _)| name);
            let met = met.filter(|name| Some(name) != self.clock.as_ref());
            let Some(name) = met.filter(|_| !channel.metadata.contains_key(KIND)) else { continue };
            let made = Made::of(channel, schema);
            if let Some((one, known)) = all.get(&name) {
                if *one != topic || !made.is_of_the_type_of(known) {
                    let (one, other) = ((*one).to_owned(), topic.to_owned());
                    return Err(Error::TwoTopics { one, other, name });
                }
                continue;
            }
            let failed = |error| Error::Topic { topic: topic.to_owned(), error };
            made.check(&self.domain, &name).map_err(failed)?;
            all.insert(name, (topic, made));
        }
        Ok(())
    }

    /// Opens the topic of a channel, unless it is there or not wanted.
    pub fn add(
        &mut self,
        file: usize,
        channel: &Channel,
        schema: Option<&Schema>,
    ) -> Result<(), Error> {
        let id = channel.id;
        if *self.place(file, id) != Place::Unknown {
            return Ok(());
        }
        let topic = channel.topic.as_str();
        let met = self.asked.meet(channel);
        let Some((name, is_renamed)) = met.filter(|(name, _)| Some(name) != self.clock.as_ref())
        else {
            *self.place(file, id) = Place::Nowhere;
            return Ok(());
        };
        if let Some(kind) = channel.metadata.get(KIND) {
            // A queue's messages were for its receiver, and a state has a writer.
            let notice = format!("{} is a {} and no topic: passed over", shown(topic), shown(kind));
            // A recording of several files has it in each.
            if self.told.insert(notice.clone()) {
                self.notices.push(notice);
            }
            *self.place(file, id) = Place::Nowhere;
            return Ok(());
        }
        let made = Made::of(channel, schema);
        if let Some(at) = self.all.iter().position(|sink| sink.name == name) {
            let sink = &self.all[at];
            if sink.topic != topic || !made.is_of_the_type_of(&sink.made) {
                let (one, other) = (sink.topic.clone(), topic.to_owned());
                return Err(Error::TwoTopics { one, other, name });
            }
            *self.place(file, id) = Place::Sink(at as u32);
            return Ok(());
        }
        let failed = |error| Error::Topic { topic: topic.to_owned(), error };
        let opened = made.open(&self.domain, &name, self.reliable, self.depth).map_err(failed)?;
        let publisher = publisher_of(&opened, self.reliable).map_err(failed)?;
        if !is_renamed && name != topic {
            self.notices.push(format!("{} is {} here", shown(topic), shown(&name)));
        }
        let waits = self.reliable && opened.config().reliable;
        *self.place(file, id) = Place::Sink(self.all.len() as u32);
        self.all.push(Sink {
            topic: topic.to_owned(),
            name,
            made,
            publisher,
            waits,
            copy: Vec::new(),
            arrays: None,
            is_told: false,
        });
        Ok(())
    }
}

fn publisher_of(topic: &Topic<[u8]>, reliable: bool) -> Result<Publisher<[u8]>, outlive::Error> {
    let options = Publisher::options();
    // Else nothing is in the way of the timetable.
    topic.publisher_with(if reliable { options } else { options.max_blocking(Duration::ZERO) })
}

impl Sink {
    /// Copies a message to where its subscribers will read it.
    #[inline]
    pub fn prepare(&mut self, channel: &Arc<Channel>, data: Data<'_>) -> Result<Prepared, Error> {
        if self.made.cdr.is_some() {
            return self.prepare_value(data);
        }
        if let Some((own, text)) = self.array_of(channel, data.len()) {
            return self.prepare_array(own, &text, data);
        }
        match self.publisher.loan(data.len()) {
            Ok(mut loan) => {
                data.copy_to(&mut loan)?;
                Ok(Prepared::lent(loan))
            }
            Err(error) => {
                self.prepare_kept(error, data.len(), |out| data.copy_to(out).map(|()| Some(())))
            }
        }
    }

    /// An array from Python: its type and extents are in the header, the names of its fields behind its bytes.
    fn prepare_array(
        &mut self,
        own: [u8; 32],
        text: &[u8],
        data: Data<'_>,
    ) -> Result<Prepared, Error> {
        let fill = |out: &mut [u8]| {
            let (array, behind) = out.split_at_mut(data.len());
            behind.copy_from_slice(text);
            data.copy_to(array)
        };
        let len = data.len() + text.len();
        let mut prepared = match self.publisher.loan(len) {
            Ok(mut loan) => {
                fill(&mut loan)?;
                Prepared::lent(loan)
            }
            Err(error) => self.prepare_kept(error, len, |out| fill(out).map(Some))?,
        };
        if let Prepared::Payload(payload) = &mut prepared {
            payload.own = own;
        }
        Ok(prepared)
    }

    /// Makes a value out of its CDR, where its subscribers will read it.
    fn prepare_value(&mut self, data: Data<'_>) -> Result<Prepared, Error> {
        if let Data::Long(long) = &data
            && let Some(cdr) = &self.made.cdr
        {
            let mut head = [0; SOME];
            long.read(0, &mut head)?;
            if let Some((len, range)) = cdr.direct(&head, long.len()) {
                let fill = |out: &mut [u8]| {
                    let (value, padding) = out.split_at_mut(range.len());
                    padding.fill(0);
                    long.read(range.start, value)
                };
                return match self.publisher.loan(len) {
                    Ok(mut loan) => {
                        fill(&mut loan)?;
                        Ok(Prepared::lent(loan))
                    }
                    Err(error) => self.prepare_kept(error, len, |out| Ok(Some(fill(out)?))),
                };
            }
        }
        let mut copy = std::mem::take(&mut self.copy);
        let bytes = match &data {
            Data::Read(bytes) => bytes,
            Data::Long(long) => {
                copy.resize(long.len(), 0);
                long.read(0, &mut copy)?;
                &copy[..]
            }
        };
        let cdr = self.made.cdr.as_ref();
        let prepared = match cdr.and_then(|cdr| Some((cdr, cdr.decoded_len(bytes)?))) {
            None => Ok(self.refused(NO_VALUE)),
            Some((cdr, len)) => match self.publisher.loan(len) {
                Ok(mut loan) => match cdr.decode(bytes, &mut loan) {
                    Some(()) => Ok(Prepared::lent(loan)),
                    None => Ok(self.refused(NO_VALUE)),
                },
                Err(error) => {
                    let cdr = cdr.clone();
                    self.prepare_kept(error, len, |out| Ok(cdr.decode(bytes, out)))
                }
            },
        };
        self.copy = copy;
        prepared
    }

    /// There is no loan for a message: it is kept in this process if subscribers have all memory.
    #[cold]
    fn prepare_kept(
        &mut self,
        error: SendError,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<Option<()>, Error>,
    ) -> Result<Prepared, Error> {
        match error {
            SendError::NoSpace { .. } if self.waits => {
                let mut kept = vec![0; len];
                match fill(&mut kept)? {
                    Some(()) => {
                        Ok(Prepared::Payload(Payload { memory: Memory::Kept(kept), own: [0; 32] }))
                    }
                    None => Ok(self.refused(NO_VALUE)),
                }
            }
            SendError::NoSpace { .. } | SendError::TooLarge { .. } => {
                Ok(self.refused(&error.to_string()))
            }
            error => Err(self.failed(error)),
        }
    }

    /// Returns what a topic has of an array and the file's bytes have not: a part of the header, and the text
    /// that describes records.
    #[inline]
    fn array_of(&mut self, channel: &Arc<Channel>, len: usize) -> Option<([u8; 32], Vec<u8>)> {
        let is_known = self.arrays.as_ref().is_some_and(|(known, _)| Arc::ptr_eq(known, channel));
        if !is_known {
            let is_array = !self.made.is_described();
            let array = is_array.then(|| Array::of_channel(&channel.metadata)).flatten();
            self.arrays = Some((Arc::clone(channel), array));
        }
        let array = self.arrays.as_ref()?.1.as_ref()?;
        Some((array.own(len)?, array.text().to_vec()))
    }

    fn refused(&mut self, why: &str) -> Prepared {
        let is_told = std::mem::replace(&mut self.is_told, true);
        Prepared::Refused(
            (!is_told).then(|| format!("{}: {why}; it is passed over", shown(&self.name))),
        )
    }

    fn failed(&self, error: SendError) -> Error {
        Error::Publish { topic: self.name.clone(), error }
    }

    /// Publishes a message, and returns `None`; or what is to be published again, since a subscriber
    /// was in the way until the deadline.
    #[inline]
    pub fn publish(
        &mut self,
        payload: Payload,
        stamp: Option<u64>,
    ) -> Result<Option<Payload>, Error> {
        if self.waits && self.publisher.try_wait_writable().is_err() && !self.wait_for_room()? {
            return Ok(Some(payload));
        }
        let Payload { memory, own } = payload;
        let mut loan = match memory {
            Memory::Lent(loan) => loan,
            Memory::Kept(bytes) => match self.publisher.loan(bytes.len()) {
                Ok(mut loan) => {
                    loan.copy_from_slice(&bytes);
                    loan
                }
                // Subscribers have it.
                Err(SendError::NoSpace { .. }) if self.publisher.has_subscribers() => {
                    std::thread::sleep(Duration::from_millis(1));
                    return Ok(Some(Payload { memory: Memory::Kept(bytes), own }));
                }
                Err(error) => return Err(self.failed(error)),
            },
        };
        if stamp.is_some() || own != [0; 32] {
            let stamp = stamp.unwrap_or(0);
            loan.set_header(Header { stamp, own, ..Header::default() });
        }
        self.publisher.publish(loan).map_err(|error| self.failed(error))?;
        Ok(None)
    }

    /// Waits for a subscriber that is in the way. Returns false if it still is after a while.
    #[cold]
    fn wait_for_room(&self) -> Result<bool, Error> {
        match self.publisher.wait_writable_until(Deadline::after(PATIENCE)) {
            Ok(()) => Ok(true),
            Err(SendError::TimedOut { .. }) => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }
}

const NO_VALUE: &str = "a message is no value of the topic's type";
/// For how long one call waits for a subscriber.
const PATIENCE: Duration = Duration::from_millis(50);
