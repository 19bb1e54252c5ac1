//! Segments, one after another, into one finished file.
//!
//! Segments are read as they are: of one that is still written, what is whole. Channels and schemas get new
//! numbers, because each segment has its own.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use outlive_mcap::{Item, MessageHeader, Numbering, Options, POSITIONS, Positions, Reader, Writer};
use serde_json::json;

use crate::error::Error;
use crate::recorder::{EVENTS, now};

/// A group is written when it has as many bytes.
const GROUP: u64 = 1 << 20;

/// What went into a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// Messages that were recorded.
    pub messages: u64,
    /// The recorder's own events, of which the last one tells of the snapshot.
    pub events: u64,
    /// Segments that were gone when their turn came, and parts of others that are damaged.
    pub faults: u64,
}

/// Writes the segments into a file, with an event at its end. `copied` is told how many are in it.
pub fn join(
    segments: &[PathBuf],
    path: &Path,
    options: &Options,
    reason: &str,
    copied: &dyn Fn(usize),
) -> Result<Joined, Error> {
    let options =
        Options { resumable: false, sync: outlive_mcap::Sync::OnFinish, ..options.clone() };
    let mut out = Out { writer: Writer::create(path, options)?, joined: Joined::default() };
    let mut is_begun = false;
    for (at, segment) in segments.iter().enumerate() {
        match Reader::open(segment) {
            Ok(reader) => {
                out.take_all(reader)?;
                is_begun = true;
            }
            // Of one that was just begun there may be nothing.
            Err(outlive_mcap::Error::Cut { .. }) => {}
            // Another process's recorder goes on meanwhile: the oldest have left its window, and a last one
            // in which nothing was written has been removed. Between these, there is a gap.
            Err(outlive_mcap::Error::Io { error, .. })
                if error.kind() == ErrorKind::NotFound
                    && (!is_begun || at + 1 == segments.len()) => {}
            Err(_) => out.joined.faults += 1,
        }
        copied(at + 1);
    }
    out.finish(reason)
}

struct Out {
    writer: Writer,
    joined: Joined,
}

impl Out {
    fn take_all(&mut self, mut reader: Reader) -> Result<(), Error> {
        let mut numbering = Numbering::default();
        loop {
            match reader.next() {
                Ok(Some(item)) => self.take(&mut numbering, item)?,
                Ok(None) => return Ok(()),
                // The end of what its writer has written, or had when it died.
                Err(outlive_mcap::Error::Cut { .. }) => {}
                Err(error @ outlive_mcap::Error::Io { .. }) => return Err(error.into()),
                Err(_) => self.joined.faults += 1,
            }
        }
    }

    fn take(&mut self, numbering: &mut Numbering, item: Item<'_>) -> Result<(), Error> {
        match item {
            Item::Header(_) => {}
            Item::Schema(schema) => numbering.meet_schema(schema),
            Item::Channel(channel) => {
                numbering.add_channel(channel, &mut self.writer)?;
            }
            Item::Message(message) => {
                // The reader has shown the channel before.
                let Some(header) = numbering.header(message.header) else { return Ok(()) };
                self.put(&header, message.data)?;
                match message.channel.topic == EVENTS {
                    true => self.joined.events += 1,
                    false => self.joined.messages += 1,
                }
            }
            // How far the recorder was in the segment: nothing goes on in this file.
            Item::Metadata(metadata) if metadata.name == POSITIONS => {}
            Item::Metadata(metadata) => {
                self.writer.put_metadata(&metadata.name, &metadata.metadata)?;
            }
            Item::Attachment(header, data) => {
                self.writer.flush(&Positions::new())?;
                self.writer.put_attachment(&header, data)?;
            }
        }
        Ok(())
    }

    fn put(&mut self, header: &MessageHeader, data: &[u8]) -> Result<(), Error> {
        let grown = self.writer.open_len() + data.len() as u64;
        // A message that is larger than a group has one of its own.
        if grown > GROUP && self.writer.open_len() > 0 {
            self.writer.flush(&Positions::new())?;
        }
        Ok(self.writer.put(header, data)?)
    }

    fn finish(mut self, reason: &str) -> Result<Joined, Error> {
        self.joined.events += 1;
        let Joined { messages, events, faults } = self.joined;
        let channel_id = self.writer.add_channel(0, EVENTS, "json", &BTreeMap::new())?;
        let time = now();
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        let event = json!({"event": "snapshot", "reason": reason, "messages": messages,
            "events": events, "faults": faults});
        self.put(&header, event.to_string().as_bytes())?;
        self.writer.finish(&Positions::new())?;
        Ok(self.joined)
    }
}
