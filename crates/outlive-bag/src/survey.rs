//! What a file holds, by reading all of it: counts, times, and each fault.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use outlive_mcap::{Channel, Error, Header, Item, Message, Outline, Reader, Schema};
use serde_json::Value;

use crate::exit::Failure;
use crate::fault::MOST_FAULTS;
use crate::records::{CHUNK, Records};

/// The topic on which `outlive record` writes what happened besides messages. It is none that was recorded.
pub const EVENTS: &str = "outlive/events";
/// The most ways of compression that are told apart.
const MOST_WAYS: usize = 16;

/// A channel.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    pub name: String,
    pub schema: String,
    pub schema_encoding: String,
    pub encoding: String,
    /// Of arrays that Python published, their type and extents; `None`: it has none.
    pub array: Option<String>,
    pub messages: u64,
    pub bytes: u64,
    /// The first and the last log time, if there are messages.
    pub times: Option<(u64, u64)>,
}

/// Chunks that are compressed in the same way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packed {
    pub chunks: u64,
    /// In the file.
    pub bytes: u64,
    pub unpacked: u64,
    /// Those of them without a checksum: other bits in them do not show.
    pub unverified: u64,
}

/// A file.
#[derive(Debug, Default)]
pub struct Survey {
    pub header: Option<Header>,
    pub bytes: u64,
    /// By the channels' numbers.
    pub topics: BTreeMap<u16, Topic>,
    /// The channels and schemas of its data, and nothing else of it.
    pub definitions: Outline,
    /// By the way of compression; not compressed: `""`.
    pub chunks: BTreeMap<String, Packed>,
    /// Names, and how many of each.
    pub metadata: BTreeMap<String, u64>,
    pub attachments: u64,
    pub lost: u64,
    /// Sent while the recorder was stopped, or between two.
    pub skipped: u64,
    pub deaths: u64,
    /// The end of its data was there.
    pub whole: bool,
    pub faults: Vec<Error>,
    pub more_faults: u64,
}

/// Adds what an event counts: a file may say anything.
fn add(to: &mut u64, event: &Value) {
    *to = to.saturating_add(event["count"].as_u64().unwrap_or(0));
}

impl Survey {
    /// Reads a file. Faults in it are no failures.
    pub fn read(path: &Path) -> Result<Survey, Failure> {
        let mut reader = match Reader::open(path) {
            // Nothing is there.
            Err(error @ Error::Cut { offset: 0 }) => {
                let metadata = path.metadata().map_err(|error| Failure::system("read", &error))?;
                let (bytes, faults) = (metadata.len(), vec![error]);
                return Ok(Survey { bytes, faults, ..Survey::default() });
            }
            opened => opened?,
        };
        let (bytes, chunks) = (reader.file_len(), chunks(path)?);
        let mut survey = Survey { bytes, chunks, ..Survey::default() };
        let mut schemas = BTreeMap::new();
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(item)) => survey.take(item, &mut schemas),
                Err(error @ Error::Io { .. }) => return Err(error.into()),
                Err(_) if survey.faults.len() == MOST_FAULTS => survey.more_faults += 1,
                Err(error) => survey.faults.push(error),
            }
        }
        survey.whole = reader.is_whole();
        Ok(survey)
    }

    fn take(&mut self, item: Item<'_>, schemas: &mut BTreeMap<u16, Arc<Schema>>) {
        match item {
            Item::Header(header) => self.header = Some(header),
            Item::Schema(schema) => {
                schemas.insert(schema.header.id, Arc::clone(schema));
            }
            Item::Channel(channel) => {
                let schema = schemas.get(&channel.schema_id).map(Arc::as_ref);
                self.definitions.add_channel(channel, schema);
                let header = schema.map(|schema| &schema.header);
                let topic = Topic {
                    name: channel.topic.clone(),
                    schema: header.map_or_else(String::new, |header| header.name.clone()),
                    schema_encoding: header.map_or_else(String::new, |head| head.encoding.clone()),
                    encoding: channel.message_encoding.clone(),
                    array: array_of(channel),
                    ..Topic::default()
                };
                self.topics.insert(channel.id, topic);
            }
            Item::Message(message) => self.count(&message),
            Item::Metadata(metadata) => *self.metadata.entry(metadata.name).or_default() += 1,
            Item::Attachment(..) => self.attachments += 1,
        }
    }

    fn count(&mut self, message: &Message<'_>) {
        let Some(topic) = self.topics.get_mut(&message.channel.id) else { return };
        topic.messages += 1;
        topic.bytes += message.data.len() as u64;
        let time = message.header.log_time;
        let (first, last) = topic.times.unwrap_or((time, time));
        topic.times = Some((first.min(time), last.max(time)));
        if topic.name == EVENTS {
            let Ok(event) = serde_json::from_slice::<Value>(message.data) else { return };
            match event["event"].as_str() {
                Some("lost") => add(&mut self.lost, &event),
                Some("skipped") => add(&mut self.skipped, &event),
                Some("publisher_died") => self.deaths += 1,
                _ => {}
            }
        }
    }

    /// Returns the topics as a user counts them: a topic of arrays has a channel for each of their types and
    /// shapes, and the recorder's own events are none.
    pub fn together(&self) -> Vec<Topic> {
        let mut all: Vec<Topic> = Vec::new();
        for one in self.recorded() {
            let same = |known: &&mut Topic| {
                known.name == one.name
                    && known.schema == one.schema
                    && known.schema_encoding == one.schema_encoding
                    && known.encoding == one.encoding
            };
            match all.iter_mut().find(same) {
                None => all.push(one.clone()),
                Some(known) => {
                    if one.messages > 0 {
                        let is_first = known.messages == 0 || known.array == one.array;
                        let several = || Some("arrays of several types".to_owned());
                        known.array = if is_first { one.array.clone() } else { several() };
                    }
                    known.messages += one.messages;
                    known.bytes += one.bytes;
                    let times = [known.times, one.times].into_iter().flatten();
                    known.times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                }
            }
        }
        all
    }

    /// Returns the channels of what was recorded.
    fn recorded(&self) -> impl Iterator<Item = &Topic> {
        self.topics.values().filter(|topic| topic.name != EVENTS)
    }

    /// Returns how many messages were recorded.
    pub fn messages(&self) -> u64 {
        self.recorded().map(|topic| topic.messages).sum()
    }

    /// Returns how many events the recorder has written.
    pub fn events(&self) -> u64 {
        self.topics.values().map(|topic| topic.messages).sum::<u64>() - self.messages()
    }

    /// Returns how many chunks there are, and how many of them have no checksum.
    pub fn chunks(&self) -> (u64, u64) {
        let all = self.chunks.values();
        all.fold((0, 0), |sum, way| (sum.0 + way.chunks, sum.1 + way.unverified))
    }

    /// Returns the first and the last log time of all messages, if there are some: the recorder's own events, too.
    pub fn all_times(&self) -> Option<(u64, u64)> {
        let all = self.topics.values().filter_map(|topic| topic.times);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Returns the first and the last log time of what was recorded, if there are messages.
    pub fn times(&self) -> Option<(u64, u64)> {
        let all = self.recorded().filter_map(|topic| topic.times);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}

/// Counts the chunks by their heads, which say how they are compressed.
fn chunks(path: &Path) -> Result<BTreeMap<String, Packed>, Failure> {
    let mut records = Records::of(path)?;
    let mut ways: BTreeMap<String, Packed> = BTreeMap::new();
    while let Ok(Some(place)) = records.next() {
        if place.op != CHUNK {
            continue;
        }
        let Ok((header, _)) = records.scan.chunk(&place) else { continue };
        let is_known = ways.contains_key(&header.compression);
        let way = match is_known || ways.len() < MOST_WAYS {
            true => header.compression,
            false => "others".to_owned(),
        };
        let way = ways.entry(way).or_default();
        way.chunks += 1;
        // The checksum of no bytes is 0 as well.
        way.unverified += u64::from(header.uncompressed_crc == 0 && header.uncompressed_size > 0);
        way.bytes = way.bytes.saturating_add(header.compressed_size);
        way.unpacked = way.unpacked.saturating_add(header.uncompressed_size);
    }
    Ok(ways)
}

/// Returns what a channel says of arrays (crates/outlive-described/src/array.rs has the keys).
fn array_of(channel: &Channel) -> Option<String> {
    let dtype = channel.metadata.get("outlive.dtype")?;
    let shape = channel.metadata.get("outlive.shape").map_or("", String::as_str);
    Some(format!("array {dtype} [{shape}]"))
}
