//! Where in a file which time lies, and which channels it has: known before the first message is read.
//!
//! A finished file says so in its index. Of another one, and of one with messages of which the index does not
//! know, the heads of all records are walked over, as [`Scan`] does; channels that stand in chunks alone are not
//! known then.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcap::records::{Channel, Record, Statistics, op};

use crate::contents::Schema;
use crate::error::Error;
use crate::index::Index;
use crate::record::u64_at;
use crate::scan::{Place, Scan, Step};

/// A chunk's place and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Where the chunk begins.
    pub offset: u64,
    /// Its first log time.
    pub first: u64,
    /// Its last log time.
    pub last: u64,
}

/// See the head of this file.
#[derive(Debug, Default)]
pub struct Outline {
    /// The chunks, in the file's order.
    pub chunks: Vec<Span>,
    /// The first and the last log time, if there are messages.
    pub times: Option<(u64, u64)>,
    /// Where the first message outside of chunks is, and the last time of these.
    alone: Option<(u64, u64)>,
    /// Where a record begins that is cut off, in which messages of any time may be.
    torn: Option<u64>,
    /// The counts that a finished file says of itself.
    pub statistics: Option<Statistics>,
    channels_in: BTreeMap<u64, Box<[u16]>>,
    pub(crate) schemas: BTreeMap<u16, Schema>,
    pub(crate) channels: BTreeMap<u16, Channel>,
    /// Another number whenever the schemas and channels are others: no two outlines have the same one, but for those
    /// that have none of either. So a reader takes them in once, and not at each chunk that it is sent to.
    pub(crate) edition: u64,
}

/// Returns an edition that no outline of this process has.
fn next_edition() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Only its value counts, and it orders nothing else.
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Outline {
    /// Reads the outline of a file. What is damaged is not in it: reading the messages tells of that.
    ///
    /// # Errors
    /// The system's; [`Error::NotMcap`], [`Error::OtherVersion`], [`Error::Cut`].
    pub fn read(path: impl AsRef<Path>) -> Result<Outline, Error> {
        let path: Arc<Path> = path.as_ref().into();
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let mut scan = Scan::new(&Arc::new(file), &path)?;
        match Index::read(&*path) {
            Ok(Some(index)) if !index.times.is_empty() && !index.channels.is_empty() => {
                let Index { times, schemas, channels, channels_in, statistics, .. } = index;
                let edition = next_edition();
                let mut outline =
                    Outline { schemas, channels, channels_in, edition, ..Outline::default() };
                for (offset, (first, last)) in times {
                    outline.add_chunk(Span { offset, first, last });
                }
                // If there are messages outside of chunks, too, their times may show it.
                let are_all = |(first, last): (u64, u64)| {
                    let said = statistics.as_ref().filter(|said| said.message_count > 0);
                    said.is_none_or(|said| {
                        said.message_start_time >= first && said.message_end_time <= last
                    })
                };
                if outline.times.is_none_or(are_all) {
                    outline.statistics = statistics;
                    return Ok(outline);
                }
            }
            Ok(_)
            | Err(
                Error::Damaged { .. }
                | Error::TwoChannels { .. }
                | Error::TooLarge { .. }
                | Error::Cut { .. },
            ) => {}
            Err(error) => return Err(error),
        }
        let mut outline = Outline { edition: next_edition(), ..Outline::default() };
        loop {
            let place = match scan.step() {
                Ok(Step::Record(place)) => place,
                Ok(Step::Torn(place)) => {
                    outline.torn = Some(place.offset);
                    // Its head may be whole, with the times of all that was to be in it.
                    if place.op == op::CHUNK
                        && let Ok((header, _)) = scan.chunk_head(&place)
                    {
                        let times = (header.message_start_time, header.message_end_time);
                        outline.add_chunk_times(times);
                    }
                    return Ok(outline);
                }
                // It was cut by another process since it was opened.
                Ok(Step::End) | Err(Error::Cut { .. }) => return Ok(outline),
                Err(error) => return Err(error),
            };
            match outline.look_at(&mut scan, &place) {
                Ok(()) => {}
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// Returns from which byte on the file has to be read for all messages of that time, or later ones; older ones
    /// are among them. `None`: it has none.
    pub fn begin(&self, time: u64) -> Option<u64> {
        let chunk = self.chunks.iter().find(|span| span.last >= time).map(|span| span.offset);
        let alone = self.alone.filter(|(_, last)| *last >= time).map(|(offset, _)| offset);
        [chunk, alone, self.torn].into_iter().flatten().min()
    }

    /// Returns the channels.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }

    /// Returns a channel.
    pub fn channel(&self, id: u16) -> Option<&Channel> {
        self.channels.get(&id)
    }

    /// Returns whether it has a channel of that topic.
    pub fn has_topic(&self, topic: &str) -> bool {
        self.channels.values().any(|channel| channel.topic == topic)
    }

    /// Returns a schema.
    pub fn schema(&self, id: u16) -> Option<&Schema> {
        self.schemas.get(&id)
    }

    /// Returns whether it has all channels of the file. Other programs leave theirs in chunks, each in the first
    /// that has a message of it, and only a finished file has them once more.
    pub fn has_all_channels(&self) -> bool {
        match &self.statistics {
            Some(counts) => counts.channel_count as usize == self.channels.len(),
            None => !self.channels.is_empty(),
        }
    }

    /// Takes in a channel with its schema that was met in a chunk. A reader that is sought by this outline knows
    /// it from there on.
    pub fn add_channel(&mut self, channel: &Channel, schema: Option<&Schema>) {
        if let Some(schema) = schema {
            self.schemas.entry(schema.header.id).or_insert_with(|| schema.clone());
        }
        self.channels.entry(channel.id).or_insert_with(|| channel.clone());
        self.edition = next_edition();
    }

    /// Takes in the times of messages that were met in a chunk whose head does not say them.
    pub fn add_time(&mut self, time: u64) {
        self.add_times((time, time));
    }

    /// Returns whether there are messages outside of chunks.
    pub fn has_loose(&self) -> bool {
        self.alone.is_some()
    }

    /// Returns whether a chunk may have messages of these channels: true where the file does not say.
    pub fn may_have(&self, chunk: &Span, channels: &[u16]) -> bool {
        let there = self.channels_in.get(&chunk.offset);
        there.is_none_or(|there| there.iter().any(|channel| channels.contains(channel)))
    }

    fn look_at(&mut self, scan: &mut Scan, place: &Place) -> Result<(), Error> {
        match place.op {
            op::CHUNK => {
                let (header, _) = scan.chunk(place)?;
                let (first, last) = (header.message_start_time, header.message_end_time);
                self.add_chunk(Span { offset: place.offset, first, last });
            }
            op::MESSAGE if place.len >= 22 => {
                let time = u64_at(scan.read(place.body(), 22)?, 6).unwrap_or(0);
                self.add_times((time, time));
                let (offset, last) = self.alone.unwrap_or((place.offset, time));
                self.alone = Some((offset, last.max(time)));
            }
            op::SCHEMA | op::CHANNEL => match scan.parse(place)? {
                Record::Schema { header, data } => {
                    let data = data.into_owned();
                    self.schemas.entry(header.id).or_insert(Schema { header, data });
                }
                Record::Channel(channel) => {
                    self.channels.entry(channel.id).or_insert(channel);
                }
                _ => {}
            },
            _ => {}
        }
        Ok(())
    }

    fn add_chunk(&mut self, span: Span) {
        self.chunks.push(span);
        self.add_chunk_times((span.first, span.last));
    }

    fn add_chunk_times(&mut self, times: (u64, u64)) {
        // So says one without messages, and one whose writer died before it knew better.
        if times != (0, 0) {
            self.add_times(times);
        }
    }

    fn add_times(&mut self, times: (u64, u64)) {
        let known = self.times.unwrap_or(times);
        self.times = Some((known.0.min(times.0), known.1.max(times.1)));
    }
}
