//! One queue that is recorded, by a tap: its messages are copied while they lie there, and none is taken.
//!
//! The positions have the place of the first message that is not in the file, and how many were lost or skipped
//! and not told. So a successor goes on there, and what was overwritten meanwhile is lost.

use std::collections::BTreeMap;

use outlive::queue::{OnReceiverDeath, Place, Tap, Tapped};
use outlive::{Domain, Kind};
use outlive_mcap::{Positions, Writer};

use super::polled::{Copied, is_full, numbers};
use super::{Found, Payload, Source};
use crate::account::{Entry, Missing};
use crate::error::Error;
use crate::recorder::Options;

/// See the head of this file.
pub struct Queue {
    name: String,
    queue: outlive::queue::Queue,
    tap: Tap,
    copied: Copied,
    missing: Missing,
    /// Messages before that number were sent while no recorder was to record.
    skipped_to: u64,
    /// What is in the file, or in the open group, ends there.
    done: Option<Place>,
    /// What the tap has found last has no room in the open group.
    is_pending: bool,
    /// The tap could not go on.
    is_over: bool,
}

impl Queue {
    /// Opens a queue.
    pub fn open(
        domain: &Domain,
        name: &str,
        options: &Options,
        entry: &Entry<'_>,
    ) -> Result<Queue, Error> {
        let queue = outlive::queue::Queue::open_as_bytes(domain, name)?;
        let beginning = entry.beginning(queue.id());
        let config = queue.config();
        let value = |key: &str, value: String| (format!("outlive.{key}"), value);
        let mut metadata = BTreeMap::from([
            value("max_bytes", config.max_bytes.to_string()),
            value("slots", config.slots.to_string()),
            value("slot_bytes", config.slot_bytes.to_string()),
            value("need_receiver", config.need_receiver.to_string()),
            value(
                "on_receiver_death",
                match config.on_receiver_death {
                    OnReceiverDeath::Fail => "fail".to_owned(),
                    OnReceiverDeath::Keep => "keep".to_owned(),
                },
            ),
        ]);
        metadata.extend(config.max_messages.map(|most| value("max_messages", most.to_string())));
        let (description, attributes) = (queue.description()?, queue.attributes()?);
        let copied = Copied::new(Kind::Queue, name, description, &attributes, metadata, options);
        let mut missing = Missing::default();
        let from = match numbers(entry.positions().get(&key(queue.id()))) {
            Some([region, position, number, lost, skipped]) => {
                missing = Missing::of_predecessor(lost, skipped);
                let region = u32::try_from(region).unwrap_or(u32::MAX);
                Some(Place { region, position, number })
            }
            None => beginning.is_new.then_some(Place::FIRST),
        };
        let mut tap = queue.tap(from);
        // From here on each message is found, or counted as lost, also one that is received before the first look.
        tap.begin()?;
        let skipped_to = if beginning.is_skipped { queue.counters()?.sent } else { 0 };
        if from.is_some() && beginning.is_skipped && !beginning.is_all_wanted {
            missing.skip(pass_over(&mut tap, skipped_to)?);
        }
        Ok(Queue {
            name: name.to_owned(),
            queue,
            done: tap.place(),
            tap,
            copied,
            missing,
            skipped_to,
            is_pending: false,
            is_over: false,
        })
    }
}

/// Passes over the messages before that number, and returns how many these were.
fn pass_over(tap: &mut Tap, to: u64) -> Result<u64, outlive::Error> {
    let mut passed = 0_u64;
    while tap.place().is_some_and(|place| place.number < to) {
        passed = passed.saturating_add(match tap.next()? {
            // One that is being sent is recorded when it is there.
            None => break,
            Some(Tapped::Messages(messages)) => messages.iter().count() as u64,
            Some(Tapped::Lost(count)) => count,
            Some(Tapped::Damaged) => 0,
        });
    }
    Ok(passed)
}

fn key(id: u64) -> String {
    format!("{id:016x}.queue")
}

impl Source for Queue {
    fn kind(&self) -> Kind {
        Kind::Queue
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn channel(&self) -> &str {
        &self.copied.channel
    }

    fn is_removed(&self) -> bool {
        self.queue.is_removed()
    }

    fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        self.copied.add_channel(writer)
    }

    fn lag(&self) -> u64 {
        let number = self.done.map_or(0, |place| place.number);
        self.queue.counters().map_or(0, |counters| counters.sent.saturating_sub(number))
    }

    fn take(&mut self, writer: &mut Writer<Payload>, now: u64) -> Result<Found, Error> {
        if self.is_over {
            return Ok(Found::Nothing);
        }
        if !std::mem::take(&mut self.is_pending) {
            let found = match self.tap.next() {
                Ok(None) => Found::Nothing,
                Ok(Some(Tapped::Messages(_))) => Found::Full,
                Ok(Some(Tapped::Lost(count))) => {
                    let from = self.done.map_or(0, |place| place.number);
                    self.missing.miss(count, self.skipped_to.saturating_sub(from));
                    Found::Message { bytes: 0, written: 0 }
                }
                Ok(Some(Tapped::Damaged)) => Found::PassedOver("a message is damaged".to_owned()),
                Err(error) => {
                    self.is_over = true;
                    Found::PassedOver(format!("it is not recorded any more: {error}"))
                }
            };
            if !matches!(found, Found::Full) {
                self.done = self.tap.place();
                return Ok(found);
            }
        }
        let Some(messages) = self.tap.last() else { return Ok(Found::Nothing) };
        if is_full(writer, messages.len()) {
            self.is_pending = true;
            return Ok(Found::Full);
        }
        let (mut bytes, mut written, mut refused) = (0, 0, None);
        for (offset, message) in (0..).zip(messages.iter()) {
            let number = messages.first.saturating_add(offset);
            match self.copied.put(writer, message, number, now) {
                Ok(false) => {}
                Ok(true) => {
                    bytes += message.len();
                    written += 1;
                }
                Err(error @ outlive_mcap::Error::TooLarge { .. }) => {
                    refused = Some(error.to_string());
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.done = self.tap.place();
        Ok(refused.map_or(Found::Message { bytes, written }, Found::PassedOver))
    }

    fn missing(&self) -> &Missing {
        &self.missing
    }

    fn missing_mut(&mut self) -> &mut Missing {
        &mut self.missing
    }

    fn leave(&mut self, is_skipped: bool) -> Result<(), Error> {
        let count = pass_over(&mut self.tap, self.queue.counters()?.sent)?;
        self.missing.miss(count, if is_skipped { count } else { 0 });
        self.done = self.tap.place();
        Ok(())
    }

    fn instance(&self) -> u64 {
        self.queue.id()
    }

    fn note_positions(&mut self, positions: &mut Positions) {
        let Some(Place { region, position, number }) = self.done else { return };
        let (lost, skipped) = (self.missing.untold_lost(), self.missing.untold_skipped());
        let position = format!("{region} {position} {number} {lost} {skipped}");
        positions.insert(key(self.queue.id()), position);
    }
}
