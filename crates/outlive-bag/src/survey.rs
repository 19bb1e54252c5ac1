//! What a file holds, by reading all of it: counts, times, and each fault.

use std::collections::BTreeMap;
use std::path::Path;

use outlive_mcap::{Error, Header, Item, Message, Reader};
use serde_json::Value;

use crate::exit::Failure;

/// The topic on which `outlive record` writes what happened besides messages.
const EVENTS: &str = "outlive/events";
/// More faults than these are counted and not kept.
const MOST_FAULTS: usize = 1000;

/// A channel.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    pub name: String,
    pub schema: String,
    pub encoding: String,
    pub messages: u64,
    pub bytes: u64,
    /// The first and the last log time, if there are messages.
    pub times: Option<(u64, u64)>,
}

/// A file.
#[derive(Debug, Default)]
pub struct Survey {
    pub header: Option<Header>,
    pub bytes: u64,
    /// By the channels' numbers.
    pub topics: BTreeMap<u16, Topic>,
    /// Names, and how many of each.
    pub metadata: BTreeMap<String, u64>,
    pub attachments: u64,
    pub lost: u64,
    pub deaths: u64,
    /// The end of its data was there.
    pub whole: bool,
    pub faults: Vec<Error>,
    pub more_faults: u64,
}

impl Survey {
    /// Reads a file. Faults in it are no failures.
    pub fn read(path: &Path) -> Result<Survey, Failure> {
        let mut reader = Reader::open(path)?;
        let mut survey = Survey { bytes: reader.file_len(), ..Survey::default() };
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

    fn take(&mut self, item: Item<'_>, schemas: &mut BTreeMap<u16, String>) {
        match item {
            Item::Header(header) => self.header = Some(header),
            Item::Schema(schema) => {
                schemas.insert(schema.header.id, schema.header.name.clone());
            }
            Item::Channel(channel) => {
                let topic = Topic {
                    name: channel.topic.clone(),
                    schema: schemas.get(&channel.schema_id).cloned().unwrap_or_default(),
                    encoding: channel.message_encoding.clone(),
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
                Some("lost") => self.lost += event["count"].as_u64().unwrap_or(0),
                Some("publisher_died") => self.deaths += 1,
                _ => {}
            }
        }
    }

    /// Returns the topics as a user counts them: a topic of arrays has a channel for each of their types and
    /// shapes.
    pub fn together(&self) -> Vec<Topic> {
        let mut all: Vec<Topic> = Vec::new();
        for one in self.topics.values() {
            let same = |known: &&mut Topic| {
                known.name == one.name
                    && known.schema == one.schema
                    && known.encoding == one.encoding
            };
            match all.iter_mut().find(same) {
                None => all.push(one.clone()),
                Some(known) => {
                    known.messages += one.messages;
                    known.bytes += one.bytes;
                    let times = [known.times, one.times].into_iter().flatten();
                    known.times = times.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
                }
            }
        }
        all
    }

    /// Returns how many messages there are.
    pub fn messages(&self) -> u64 {
        self.topics.values().map(|topic| topic.messages).sum()
    }

    /// Returns the first and the last log time, if there are messages.
    pub fn times(&self) -> Option<(u64, u64)> {
        let all = self.topics.values().filter_map(|topic| topic.times);
        all.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }
}
