//! What the sources have in common that copy values: which ones are passed over, their form, what was lost.

use std::collections::BTreeMap;

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
    /// Between two messages, in nanoseconds; 0: as they come.
    gap: u64,
    /// When the next one is due, if they come evenly.
    due: u64,
    /// When the recorder took the last messages, and those before.
    turns: [u64; 2],
}

impl Thinning {
    pub fn of(options: &Options) -> Thinning {
        // As a float it ends at the largest number.
        let gap = options.max_rate.map_or(0, |rate| (1e9 / rate) as u64);
        Thinning { every: options.every, seen: 0, gap, due: 0, turns: [0; 2] }
    }

    /// Returns whether a message is wanted that was published at `stamp` and taken at `now`, in nanoseconds since 1970.
    ///
    /// Each one moves the time on at which the next is due by the gap, and may come half a gap before that. So all
    /// messages of a topic that has just the wanted rate are recorded, though they come unevenly, or several are taken
    /// at a time.
    pub fn takes(&mut self, stamp: u64, now: u64) -> bool {
        self.seen += 1;
        if !(self.seen - 1).is_multiple_of(self.every.max(1)) {
            return false;
        }
        if self.gap == 0 {
            return true;
        }
        if self.turns[0] != now {
            self.turns = [now, self.turns[0]];
        }
        // A publisher's clock may be wrong; it was published since the recorder looked before.
        let time = stamp.clamp(self.turns[1].min(now), now);
        if self.due > now.saturating_add(self.gap.saturating_mul(2)) {
            // The system's clock was set back.
            self.due = 0;
        }
        let is_due = time.saturating_add(self.gap / 2) >= self.due;
        if is_due {
            self.due = self.due.max(time).saturating_add(self.gap);
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
        if !self.thinning.takes(now, now) {
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

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000_000_000_000;
    const MS: u64 = 1_000_000;

    fn thinning(rate: f64) -> Thinning {
        Thinning { every: 1, seen: 0, gap: (1e9 / rate) as u64, due: 0, turns: [0; 2] }
    }

    /// How many are taken of those that come at these moments, each a little later.
    fn taken(thinning: &mut Thinning, moments: impl Iterator<Item = u64>) -> usize {
        moments.filter(|moment| thinning.takes(START + moment, START + moment + MS / 10)).count()
    }

    #[test]
    fn a_topic_of_the_wanted_rate_is_recorded_whole_though_it_is_uneven() {
        // 30 a second, up to 8 ms too early or too late.
        let uneven = |at: u64| 10 * MS + at * 1_000_000_000 / 30 + at * 7_919 % (16 * MS);
        let count = |rate| taken(&mut thinning(rate), (0..3000).map(uneven));
        assert!(count(30.0) >= 2999, "{}", count(30.0));
        assert_eq!(count(31.0), 3000);
        // In 100 s at most one more than was said.
        for rate in [29.0, 20.0, 15.0, 10.0, 1.0] {
            let (most, count) = (rate as usize * 100 + 1, count(rate));
            assert!(count <= most && count * 10 >= most * 9, "{rate}: {count}");
        }
    }

    #[test]
    fn messages_that_are_taken_at_a_time_count_by_their_own_times() {
        let mut own = thinning(100.0);
        let all = (0..1000_u64).filter(|at| {
            let turn = START + (at / 10 + 1) * 100 * MS;
            own.takes(START + at * 10 * MS, turn)
        });
        assert_eq!(all.count(), 1000);
    }

    #[test]
    fn wrong_clocks_change_no_rate() {
        let mut own = thinning(10.0);
        // One that is an hour ahead, one behind, and one that is right, each 100 times a second for 10 s.
        let hour = 3_600_000 * MS;
        let all = (0..3000_u64).filter(|at| {
            let now = START + at * 10 * MS / 3;
            let stamp = [now + hour, now - hour, now][*at as usize % 3];
            own.takes(stamp, now + MS / 10)
        });
        let count = all.count();
        assert!((90..=101).contains(&count), "{count}");
        // The system's clock is set back.
        assert!(own.takes(START - hour, START - hour));
    }
}
