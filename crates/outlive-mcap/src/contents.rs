//! What a file has in its whole groups: schemas, channels, and how many messages.

use std::collections::BTreeMap;

use mcap::records::{Channel, Record, SchemaHeader, Statistics, op};

use crate::error::Error;
use crate::record::{self, MAX_SMALL};
use crate::scan::{Place, Scan};

/// A schema with its number and name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The number, the name and the encoding.
    pub header: SchemaHeader,
    /// The schema's text.
    pub data: Vec<u8>,
}

/// What is in a file; memory grows with schemas and channels, and not with messages.
#[derive(Debug, Default)]
pub struct Contents {
    pub(crate) schemas: BTreeMap<u16, Schema>,
    pub(crate) channels: BTreeMap<u16, Channel>,
    pub(crate) counts: BTreeMap<u16, u64>,
    pub(crate) messages: u64,
    pub(crate) chunks: u32,
    pub(crate) attachments: u32,
    pub(crate) metadata: u32,
    /// The first and the last log time, if there are messages.
    pub(crate) times: Option<(u64, u64)>,
}

impl Contents {
    /// Returns the file's statistics, as they stand in its summary.
    pub fn statistics(&self) -> Statistics {
        let (message_start_time, message_end_time) = self.times.unwrap_or((0, 0));
        Statistics {
            message_count: self.messages,
            schema_count: self.schemas.len() as u16,
            channel_count: self.channels.len() as u32,
            attachment_count: self.attachments,
            metadata_count: self.metadata,
            chunk_count: self.chunks,
            message_start_time,
            message_end_time,
            channel_message_counts: self.counts.clone(),
        }
    }

    /// Returns how many messages there are.
    pub fn messages(&self) -> u64 {
        self.messages
    }

    /// Returns the channels.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }

    /// Returns the schemas.
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        self.schemas.values()
    }

    /// Counts a chunk's messages in.
    pub(crate) fn count_chunk(&mut self, times: (u64, u64)) {
        self.chunks += 1;
        let known = self.times.unwrap_or(times);
        self.times = Some((known.0.min(times.0), known.1.max(times.1)));
    }

    /// Counts messages of a channel in.
    pub(crate) fn count_messages(&mut self, channel: u16, messages: u64) {
        *self.counts.entry(channel).or_default() += messages;
        self.messages += messages;
    }

    /// Takes in a schema; the number of the same one if it is there already.
    pub(crate) fn add_schema(
        &mut self,
        out: &mut Vec<u8>,
        name: &str,
        encoding: &str,
        data: &[u8],
    ) -> Result<u16, Error> {
        let same = |schema: &&Schema| {
            schema.header.name == name && schema.header.encoding == encoding && schema.data == data
        };
        if let Some(schema) = self.schemas.values().find(same) {
            return Ok(schema.header.id);
        }
        check_size("schema", name.len() + encoding.len() + data.len())?;
        // The number 0 says "no schema".
        let last = self.schemas.last_key_value().map_or(0, |(id, _)| *id);
        let id = last.checked_add(1).ok_or(Error::TooMany("schemas"))?;
        let header = SchemaHeader { id, name: name.to_owned(), encoding: encoding.to_owned() };
        record::push_schema(out, &header, data);
        self.schemas.insert(id, Schema { header, data: data.to_owned() });
        Ok(id)
    }

    /// Takes in a channel; the number of the same one if it is there already.
    pub(crate) fn add_channel(
        &mut self,
        out: &mut Vec<u8>,
        schema_id: u16,
        topic: &str,
        message_encoding: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<u16, Error> {
        if schema_id != 0 && !self.schemas.contains_key(&schema_id) {
            return Err(Error::UnknownSchema(schema_id));
        }
        let same = |channel: &&Channel| {
            channel.topic == topic
                && channel.schema_id == schema_id
                && channel.message_encoding == message_encoding
                && channel.metadata == *metadata
        };
        if let Some(channel) = self.channels.values().find(same) {
            return Ok(channel.id);
        }
        check_size("channel", topic.len() + message_encoding.len() + map_len(metadata))?;
        let last = self.channels.last_key_value().map_or(0, |(id, _)| *id);
        let id = last.checked_add(1).ok_or(Error::TooMany("channels"))?;
        let channel = Channel {
            id,
            schema_id,
            topic: topic.to_owned(),
            message_encoding: message_encoding.to_owned(),
            metadata: metadata.clone(),
        };
        record::push(out, op::CHANNEL, &channel);
        self.channels.insert(id, channel);
        Ok(id)
    }

    /// Takes in a record of a file that this library wrote, and says why if it did not.
    pub(crate) fn absorb(
        &mut self,
        scan: &mut Scan,
        place: &Place,
    ) -> Result<Result<(), &'static str>, Error> {
        match place.op {
            op::SCHEMA => {
                if let Record::Schema { header, data } = scan.parse(place)? {
                    let data = data.into_owned();
                    self.schemas.insert(header.id, Schema { header, data });
                }
            }
            op::CHANNEL => {
                if let Record::Channel(channel) = scan.parse(place)? {
                    self.channels.insert(channel.id, channel);
                }
            }
            op::CHUNK => {
                let (header, _) = scan.chunk(place)?;
                self.count_chunk((header.message_start_time, header.message_end_time));
            }
            op::MESSAGE_INDEX => {
                let (channel, messages) = scan.message_index(place)?;
                if !self.channels.contains_key(&channel) {
                    return Ok(Err("its channels stand in its chunks"));
                }
                self.count_messages(channel, messages);
            }
            op::MESSAGE => return Ok(Err("it has messages outside of chunks")),
            op::ATTACHMENT => self.attachments += 1,
            op::METADATA => self.metadata += 1,
            _ => {}
        }
        Ok(Ok(()))
    }
}

pub(crate) fn map_len(map: &BTreeMap<String, String>) -> usize {
    map.iter().map(|(key, value)| 8 + key.len() + value.len()).sum()
}

pub(crate) fn check_size(what: &'static str, len: usize) -> Result<(), Error> {
    // What stands around the texts is less than a kilobyte.
    let limit = MAX_SMALL - 1024;
    if len as u64 > limit {
        return Err(Error::TooLarge { what, len: len as u64, limit });
    }
    Ok(())
}
