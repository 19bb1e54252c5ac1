//! One topic that is recorded, by a subscriber: what of it is in the file, and what has been taken since.
//!
//! A message is known by its ring and its number there. The positions have the number of each ring's first message
//! that is not accounted for: in the file, counted as lost, or refused. A successor begins there. If its place in the
//! ring is further on, as with a topic that came while none recorded, the messages in between are missing.

use std::time::Duration;

use outlive::topic::{Sample, Subscriber};
use outlive::wait::{Key, WaitSet};
use outlive::{Domain, Kind, RecvError};
use outlive_described::array::{self, Array};
use outlive_mcap::{MessageHeader, Positions, Writer};

use super::polled::{Thinning, is_full, numbers};
use super::{Found, Payload, Source};
use crate::account::{Account, Beginning, Closing, Entry, Identity, Missing, prefix};
use crate::cdr::Encoded;
use crate::error::Error;
use crate::form::Form;
use crate::recorder::Options;

/// See the head of this file.
pub struct Topic {
    name: String,
    topic: outlive::topic::Topic<[u8]>,
    subscriber: Subscriber<[u8]>,
    key: Option<Key>,
    form: Form,
    /// In the file that is written now. Of a topic that does not say what its messages are it comes with the first
    /// one that is no array, so that a topic of arrays has theirs alone.
    channel: Option<u16>,
    /// The channels of arrays, which have one for each layout; those of the file that is written now.
    arrays: Vec<(Array, u16)>,
    /// In this file or one before.
    has_had_arrays: bool,
    missing: Missing,
    /// What the subscriber had counted as lost when it was asked last.
    lost: u64,
    /// Names the topic among those that have had its name.
    instance: u64,
    /// By ring: what the positions say.
    noted: Vec<u64>,
    /// Messages found since the last question, and how many a ring holds.
    found: u32,
    depth: u32,
    /// Messages taken since the last acknowledgement, and how many may be before publishers wait.
    taken: u64,
    most_taken: u64,
    /// The bytes of these, and how many may be before publishers have no memory.
    bytes: u64,
    most_bytes: u64,
    /// One that was taken and has no room in the open group.
    pending: Option<Sample<[u8]>>,
    /// Samples that the open group holds, and how many it may.
    held: u32,
    most_held: u32,
    /// How many were damaged, one after the other.
    bad: u32,
    thinning: Thinning,
    copy: Vec<u8>,
}

impl Topic {
    /// Opens a topic and subscribes.
    pub fn open(
        domain: &Domain,
        name: &str,
        options: &Options,
        entry: &Entry<'_>,
    ) -> Result<Topic, Error> {
        let topic = outlive::topic::Topic::open_as_bytes(domain, name)?;
        let config = topic.config();
        let form = Form::of(&topic)?;
        let instance = topic.instance()?;
        let beginning = entry.beginning(instance);
        let mut wanted = Subscriber::options()
            .reliable(options.reliable && config.reliable)
            .acknowledging(true)
            .sessions(true)
            .liveliness(NEVER);
        if beginning.is_all_wanted {
            wanted = wanted.history(u32::MAX).unvouched(true);
        }
        if let Some(name) = &options.name {
            wanted = wanted.kept(&format!("{PREFIX}{name}"), options.patience);
        }
        let mut subscriber = topic.subscriber_with(wanted)?;
        let missing = begin(&mut subscriber, instance, entry.positions(), beginning);
        Ok(Topic {
            name: name.to_owned(),
            topic,
            // A predecessor's losses are in its place, and accounted for.
            lost: subscriber.lost() + subscriber.expired(),
            subscriber,
            key: None,
            form,
            channel: None,
            arrays: Vec::new(),
            has_had_arrays: false,
            depth: config.depth,
            found: 0,
            missing,
            instance,
            noted: Vec::new(),
            taken: 0,
            most_taken: u64::from(config.depth / 2).max(1),
            bytes: 0,
            most_bytes: config.max_bytes / 4,
            pending: None,
            held: 0,
            bad: 0,
            most_held: (config.max_samples / 2).max(1),
            thinning: Thinning::of(options),
            copy: Vec::new(),
        })
    }

    fn put(
        &mut self,
        writer: &mut Writer<Payload>,
        sample: Sample<[u8]>,
        now: u64,
    ) -> Result<Found, Error> {
        let bytes = sample.bytes().len();
        if is_full(writer, bytes) {
            self.pending = Some(sample);
            return Ok(Found::Full);
        }
        let stamp = sample.header().stamp;
        if !self.thinning.takes(stamp, now) {
            return Ok(Found::Message { bytes: 0, written: 0 });
        }
        let (channel_id, len) = match self.form.is_described() {
            true => (self.own_channel(writer)?, bytes),
            false => self.channel_of(&sample, writer)?,
        };
        let header = MessageHeader {
            channel_id,
            sequence: sample.sequence() as u32,
            log_time: now,
            publish_time: if stamp == 0 { now } else { stamp },
        };
        let is_kept = bytes > outlive_mcap::COPIED;
        let put = match &self.form.cdr {
            None => writer.put_owned(&header, Payload { sample, len }),
            Some(cdr) => match cdr.encode(sample.bytes(), &mut self.copy) {
                Some(Encoded::Direct { prefix, len }) => {
                    writer.put_owned_behind(&header, prefix.bytes(), Payload { sample, len })
                }
                Some(Encoded::Copied) => writer.put(&header, &self.copy),
                // No value of the type: of a program that opened the topic as bytes.
                None => writer.put_owned(&header, Payload { sample, len: bytes }),
            },
        };
        match put {
            Ok(()) => {}
            Err(error @ outlive_mcap::Error::TooLarge { .. }) => {
                return Ok(Found::PassedOver(error.to_string()));
            }
            Err(error) => return Err(error.into()),
        }
        self.held += u32::from(is_kept);
        Ok(Found::Message { bytes, written: 1 })
    }

    /// Returns the channel of a message whose topic does not say what it is, and how many of its bytes go into
    /// the file.
    fn channel_of(
        &mut self,
        sample: &Sample<[u8]>,
        writer: &mut Writer<Payload>,
    ) -> Result<(u16, usize), Error> {
        let bytes = sample.bytes();
        let Some(found) = array::find(&sample.header().own, bytes) else {
            return Ok((self.own_channel(writer)?, bytes.len()));
        };
        if let Some((_, channel)) = self.arrays.iter().find(|(array, _)| found.is(array)) {
            return Ok((*channel, found.len));
        }
        if self.arrays.len() == MOST_LAYOUTS {
            return Ok((self.own_channel(writer)?, bytes.len()));
        }
        let array = found.array();
        let channel = self.form.channel_of_arrays(&self.name, &array, writer)?;
        self.arrays.push((array, channel));
        self.has_had_arrays = true;
        Ok((channel, found.len))
    }

    /// Returns the channel of all that is no array of Python's, which it adds to the file if it is not there.
    #[inline]
    fn own_channel(&mut self, writer: &mut Writer<Payload>) -> Result<u16, Error> {
        match self.channel {
            Some(channel) => Ok(channel),
            None => {
                let channel = self.form.channel(&self.name, writer)?;
                Ok(*self.channel.insert(channel))
            }
        }
    }

    /// Counts what the subscriber has missed since the last look: what was overwritten, and what had expired.
    fn count_lost(&mut self) {
        let lost = self.subscriber.lost().saturating_add(self.subscriber.expired());
        self.missing.lose(lost.saturating_sub(self.lost));
        self.lost = lost;
    }
}

/// Passes over what a predecessor has accounted for, and returns what is missing between that and the place in which
/// the subscriber begins.
fn begin(
    subscriber: &mut Subscriber<[u8]>,
    instance: u64,
    positions: &Positions,
    beginning: Beginning,
) -> Missing {
    let prefix = prefix(instance);
    let own = positions.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
    let is_known = own.count() > 0;
    let position = |ring: u32| positions.get(&format!("{prefix}{ring}"))?.parse().ok();
    let mut counted = match numbers(positions.get(&format!("{prefix}{MISSING}"))) {
        Some([lost, skipped]) => Missing::of_predecessor(lost, skipped),
        None => Missing::default(),
    };
    let rings = subscriber.next_numbers().len() as u32;
    for ring in 0..rings {
        let next = |subscriber: &Subscriber<[u8]>| subscriber.next_numbers()[ring as usize];
        let accounted = match position(ring) {
            Some(number) => number,
            // A ring that has come since, or that of a topic that has.
            None if is_known || beginning.is_new => 0,
            None => next(subscriber),
        };
        subscriber.pass_over(ring, accounted);
        let missing = next(subscriber).saturating_sub(accounted);
        counted.miss(missing, if beginning.is_skipped { missing } else { 0 });
    }
    counted
}

/// Notes how far a topic is that cannot be recorded yet, if what it has by now is not to be recorded, or will not be.
///
/// # Errors
/// It cannot be read.
pub fn note_present(
    domain: &Domain,
    name: &str,
    identity: Option<&Identity>,
    account: &mut Account,
) -> Result<(), Error> {
    let topic = outlive::topic::Topic::open_as_bytes(domain, name)?;
    let instance = topic.instance()?;
    let closing = account.entry(name, identity).closing(Some(instance));
    if closing == Closing::Not {
        return Ok(());
    }
    let prefix = prefix(instance);
    let key = format!("{prefix}{MISSING}");
    let [mut lost, mut skipped] = numbers(account.positions.get(&key)).unwrap_or_default();
    for (ring, next) in topic.next_numbers().into_iter().enumerate() {
        let ring = format!("{prefix}{ring}");
        let accounted = account.positions.get(&ring).and_then(|number| number.parse().ok());
        // One without a position has come since the others were written.
        let count = next.saturating_sub(accounted.unwrap_or(0));
        match closing {
            Closing::Not | Closing::Outside => {}
            Closing::Skipped => skipped = skipped.saturating_add(count),
            Closing::Lost => lost = lost.saturating_add(count),
        }
        account.positions.insert(ring, next.max(accounted.unwrap_or(0)).to_string());
    }
    account.positions.insert(key, format!("{lost} {skipped}"));
    account.follow(name, instance);
    Ok(())
}

impl Source for Topic {
    fn kind(&self) -> Kind {
        Kind::Topic
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn channel(&self) -> &str {
        &self.name
    }

    fn is_removed(&self) -> bool {
        self.topic.is_removed()
    }

    fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        self.channel = None;
        self.arrays.clear();
        // One that says what its messages are has one channel, whichever come.
        if self.form.is_described() {
            self.own_channel(writer)?;
        }
        Ok(())
    }

    fn complete(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        if !self.has_had_arrays {
            self.own_channel(writer)?;
        }
        Ok(())
    }

    fn is_polled(&self) -> bool {
        false
    }

    fn watch(&mut self, set: &mut WaitSet) -> Result<(), Error> {
        self.key = Some(set.add(&self.subscriber)?);
        Ok(())
    }

    fn unwatch(&mut self, set: &mut WaitSet) {
        if let Some(key) = self.key.take() {
            set.remove(key);
        }
    }

    fn lag(&self) -> u64 {
        self.subscriber.lag()
    }

    fn take(&mut self, writer: &mut Writer<Payload>, now: u64) -> Result<Found, Error> {
        if let Some(sample) = self.pending.take() {
            return self.put(writer, sample, now);
        }
        let is_much = self.taken >= self.most_taken || self.bytes >= self.most_bytes;
        if is_much || self.held >= self.most_held {
            return Ok(Found::Full);
        }
        let received = self.subscriber.try_recv();
        self.count_lost();
        let sample = match received {
            Ok(Some(sample)) => {
                self.found = self.found.saturating_add(1);
                sample
            }
            Ok(None) => return Ok(Found::Nothing),
            Err(
                told @ (RecvError::Lagged { .. }
                | RecvError::NewSession { .. }
                | RecvError::PublisherDied { .. }),
            ) => return Ok(Found::News(told)),
            // In the place of a message.
            Err(told @ RecvError::Encoding(_)) => {
                self.taken += 1;
                return Ok(Found::News(told));
            }
            // The same, once; where there are many, the topic's own words may be damaged.
            Err(told @ RecvError::Damaged(_)) if self.bad < MOST_BAD => {
                self.taken += 1;
                self.bad += 1;
                return Ok(Found::News(told));
            }
            Err(RecvError::NotLively { .. } | RecvError::Lively { .. }) => {
                return Ok(Found::Message { bytes: 0, written: 0 });
            }
            // Others hold samples of this subscriber's slot: those of the open group.
            Err(RecvError::TooManyHeld) if self.held > 0 => return Ok(Found::Full),
            Err(error) => return Ok(Found::Broken(error)),
        };
        self.bad = 0;
        self.taken += 1;
        self.bytes += sample.bytes().len() as u64;
        self.put(writer, sample, now)
    }

    fn missing(&self) -> &Missing {
        &self.missing
    }

    fn missing_mut(&mut self) -> &mut Missing {
        &mut self.missing
    }

    fn leave(&mut self, is_skipped: bool) -> Result<(), Error> {
        for ring in 0..self.subscriber.next_numbers().len() as u32 {
            let next = self.subscriber.next_numbers()[ring as usize];
            // All that is published.
            self.subscriber.pass_over(ring, u64::MAX);
            let count = self.subscriber.next_numbers()[ring as usize].saturating_sub(next);
            self.missing.miss(count, if is_skipped { count } else { 0 });
        }
        Ok(())
    }

    fn instance(&self) -> u64 {
        self.instance
    }

    fn note_positions(&mut self, positions: &mut Positions) {
        // What was taken is in the open group, but for one that has no room there.
        let pending = self.pending.as_ref().map(|sample| (sample.ring(), sample.sequence()));
        let numbers = self.subscriber.next_numbers();
        self.noted.resize(numbers.len(), 0);
        for ((ring, &taken), noted) in (0_u32..).zip(numbers).zip(&mut self.noted) {
            let next = match pending {
                Some((own, number)) if own == ring => number,
                _ => taken,
            };
            if *noted != next {
                *noted = next;
                positions.insert(format!("{:016x}.{ring}", self.instance), next.to_string());
            }
        }
        let (lost, skipped) = (self.missing.untold_lost(), self.missing.untold_skipped());
        let missing = format!("{lost} {skipped}");
        positions.insert(format!("{:016x}.{MISSING}", self.instance), missing);
    }

    /// All that was taken is in the file: publishers may overwrite it. All but one that waits for room.
    fn acknowledge(&mut self) -> Result<(), Error> {
        self.held = 0;
        if self.pending.is_some() {
            return Ok(());
        }
        // Also without a message: it may have passed over some.
        let acknowledged = self.subscriber.acknowledge();
        acknowledged.map_err(|error| Error::Receive { topic: self.name.clone(), error })?;
        (self.taken, self.bytes) = (0, 0);
        Ok(())
    }

    fn abandon(self: Box<Self>) {
        let Topic { subscriber, pending, .. } = *self;
        drop(pending);
        subscriber.abandon();
    }

    fn has_found(&self) -> bool {
        self.found > 0
    }

    fn part_found(&mut self) -> f64 {
        f64::from(std::mem::take(&mut self.found)) / f64::from(self.depth.max(1))
    }
}

/// The position that says how many messages are missing, and not told.
pub const MISSING: &str = "missing";
/// What a recorder's name has in front in a topic.
const PREFIX: &str = crate::control::PREFIX;
/// The most bytes of a recorder's name: topics take 64.
pub const NAME: usize = 64 - PREFIX.len();
/// A topic with more that are damaged, one after the other, is set aside for a while.
const MOST_BAD: u32 = 16;
/// Channels that a topic's arrays have at most; those of further layouts are bytes in the file.
const MOST_LAYOUTS: usize = 256;
/// A lease that no publisher misses: only deaths are told.
const NEVER: Duration = crate::snapshot::FAR;
