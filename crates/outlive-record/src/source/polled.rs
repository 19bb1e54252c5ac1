//! What the sources have in common that copy values: which ones are passed over, their form, what was lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use outlive::describe::Description;
use outlive::{Attributes, Kind};
use outlive_mcap::{MessageHeader, Writer};

use super::Payload;
use crate::cdr::Encoded;
use crate::error::Error;
use crate::form::{Form, KIND};
use crate::recorder::Options;

/// A group has no more messages, however short they are.
pub const MOST_MESSAGES: u64 = 1 << 20;

/// Which messages are passed over on purpose.
pub struct Thinning {
    every: u64,
    seen: u64,
    gap: Duration,
    last: Option<Instant>,
}

impl Thinning {
    pub fn of(options: &Options) -> Thinning {
        let gap = options.max_rate.map_or(Duration::ZERO, |rate| {
            Duration::try_from_secs_f64(1.0 / rate).unwrap_or(Duration::MAX)
        });
        Thinning { every: options.every, seen: 0, gap, last: None }
    }

    pub fn takes(&mut self) -> bool {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.every.max(1)) {
            return false;
        }
        if self.gap.is_zero() {
            return true;
        }
        let now = Instant::now();
        let is_due = self.last.is_none_or(|last| now - last >= self.gap);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

/// Returns whether the open group has no room for so many bytes more.
pub fn is_full(writer: &Writer<Payload>, bytes: usize) -> bool {
    // In CDR it may be longer, never twice as long.
    let grown = (bytes as u64).saturating_mul(2).saturating_add(writer.open_len() + 1024);
    let is_full = grown > outlive_mcap::MAX_CHUNK || writer.open_messages() >= MOST_MESSAGES;
    is_full && writer.open_messages() > 0
}

/// The channel of a source that copies, and what it puts there.
pub struct Copied {
    /// Its name in the file.
    pub channel: String,
    form: Form,
    id: u16,
    thinning: Thinning,
    copy: Vec<u8>,
}

impl Copied {
    pub fn new(
        kind: Kind,
        name: &str,
        description: Option<Description>,
        attributes: &Attributes,
        mut metadata: BTreeMap<String, String>,
        options: &Options,
    ) -> Copied {
        metadata.insert(KIND.to_owned(), kind.to_string());
        let attributes = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Copied {
            channel: format!("{kind}/{name}"),
            form: Form::new(description, &attributes.collect(), metadata),
            id: 0,
            thinning: Thinning::of(options),
            copy: Vec::new(),
        }
    }

    pub fn add_channel(&mut self, writer: &mut Writer<Payload>) -> Result<(), Error> {
        self.id = self.form.channel(&self.channel, writer)?;
        Ok(())
    }

    /// Puts a value into the open group. `false`: it is passed over on purpose.
    pub fn put(
        &mut self,
        writer: &mut Writer<Payload>,
        bytes: &[u8],
        number: u64,
        now: u64,
    ) -> Result<bool, outlive_mcap::Error> {
        if !self.thinning.takes() {
            return Ok(false);
        }
        let header = MessageHeader {
            channel_id: self.id,
            sequence: number as u32,
            log_time: now,
            publish_time: now,
        };
        let encoded = self.form.cdr.as_ref().and_then(|cdr| cdr.encode(bytes, &mut self.copy));
        match encoded {
            Some(Encoded::Direct { prefix, len }) => {
                self.copy.clear();
                self.copy.extend_from_slice(prefix.bytes());
                self.copy.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
                writer.put(&header, &self.copy)?;
            }
            Some(Encoded::Copied) => writer.put(&header, &self.copy)?,
            // No value of the type, or of no described one.
            None => writer.put(&header, bytes)?,
        }
        Ok(true)
    }
}

/// Returns the numbers of a position, if there are so many.
pub fn numbers<const COUNT: usize>(position: Option<&String>) -> Option<[u64; COUNT]> {
    let numbers: Option<Vec<u64>> =
        position?.split(' ').map(|number| number.parse().ok()).collect();
    numbers?.try_into().ok()
}
