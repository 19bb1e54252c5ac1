//! Messages from files into a file: channels and schemas get the numbers that they have there.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use outlive_mcap::{
    Header, Item, Message, MessageHeader, Numbering, POSITIONS, Positions, Reader, Writer,
};
use outlive_program::figures::counted;
use serde_json::json;

use crate::exit::{Code, Failure};
use crate::output::Output;
use crate::survey::EVENTS;
use crate::{Common, say};

/// A group is written when it has as many bytes.
pub const GROUP: u64 = 1 << 20;

/// Opens a file and reads its header.
pub fn open(path: &Path) -> Result<(Reader, Header), Failure> {
    let mut reader = Reader::open(path)?;
    match reader.next()? {
        Some(Item::Header(header)) => Ok((reader, header)),
        _ => {
            let text = format!("{} has no header", path.display());
            Err(Failure::new(Code::Damaged, text))
        }
    }
}

/// What of a file is wanted.
pub struct Choice<'c> {
    /// The topics.
    pub topic: &'c dyn Fn(&str) -> bool,
    /// The first log time.
    pub start: u64,
    /// The first log time that is wanted no more, if there is one.
    pub end: Option<u64>,
}

impl Choice<'_> {
    /// All of it.
    pub const ALL: Choice<'static> = Choice { topic: &|_| true, start: 0, end: None };
}

/// The file that is written.
pub struct Target {
    writer: Writer,
    group: u64,
    /// The channels of recorders' own events, as they are called there.
    events: HashSet<u16>,
    /// Messages so far.
    pub messages: u64,
    /// Of these, what was recorded: not the recorder's own events.
    pub recorded: u64,
}

impl Target {
    /// Begins with a file's writer.
    pub fn new(writer: Writer, group: u64) -> Target {
        Target { writer, group, events: HashSet::new(), messages: 0, recorded: 0 }
    }

    /// Takes over what a file holds, if it is chosen.
    pub fn take(
        &mut self,
        from: &mut Numbering,
        item: Item<'_>,
        choice: &Choice<'_>,
    ) -> Result<(), Failure> {
        match item {
            Item::Header(_) => {}
            Item::Schema(schema) => from.meet_schema(schema),
            Item::Channel(channel) if (choice.topic)(&channel.topic) => {
                let id = from.add_channel(channel, &mut self.writer)?;
                if channel.topic == EVENTS {
                    self.events.insert(id);
                }
            }
            Item::Channel(_) => {}
            Item::Message(Message { header, data, .. }) => {
                let time = header.log_time;
                if choice.start <= time && choice.end.is_none_or(|end| time < end) {
                    self.put_from(from, header, data)?;
                }
            }
            // Where the file's own recorder was; in another file it means nothing.
            Item::Metadata(metadata) if metadata.name == POSITIONS => {}
            Item::Metadata(metadata) => {
                self.writer.put_metadata(&metadata.name, &metadata.metadata)?;
                self.flush_if_full()?;
            }
            Item::Attachment(header, data) => {
                self.writer.put_attachment(&header, data)?;
                self.flush_if_full()?;
            }
        }
        Ok(())
    }

    /// Puts a message of a file, if its channel was taken over.
    pub fn put_from(
        &mut self,
        from: &Numbering,
        header: MessageHeader,
        data: &[u8],
    ) -> Result<(), Failure> {
        match from.header(header) {
            Some(header) => {
                self.recorded += u64::from(!self.events.contains(&header.channel_id));
                self.put(header, data)
            }
            None => Ok(()),
        }
    }

    fn put(&mut self, header: MessageHeader, data: &[u8]) -> Result<(), Failure> {
        // A message that is larger than a group has one of its own.
        if self.writer.open_messages() > 0
            && self.writer.open_len() + data.len() as u64 > self.group
        {
            self.writer.flush(&Positions::new())?;
        }
        self.writer.put(&header, data)?;
        self.messages += 1;
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> Result<(), Failure> {
        if self.writer.open_len() >= self.group {
            self.writer.flush(&Positions::new())?;
        }
        Ok(())
    }

    /// Writes the file's end.
    pub fn finish(mut self) -> Result<(), Failure> {
        Ok(self.writer.finish(&Positions::new())?)
    }

    /// Writes the file's end, gives the file its name, and says how much is in it.
    pub fn keep(self, output: Output, common: &Common) -> Result<(), Failure> {
        let (messages, events) = (self.recorded, self.events());
        self.finish()?;
        output.keep()?;
        say(common, json!({"messages": messages, "events": events}), || told(messages, events))
    }

    /// Returns how many of the messages are recorders' own events.
    pub fn events(&self) -> u64 {
        self.messages - self.recorded
    }
}

/// Says how many messages were recorded, and how many are events.
pub fn told(messages: u64, events: u64) -> String {
    match events {
        0 => counted(messages, "message"),
        _ => format!(
            "{}, and {} of the recorder",
            counted(messages, "message"),
            counted(events, "event")
        ),
    }
}

/// Takes over all that is chosen of files, one after another, into a file that is made with the first one's profile;
/// the first fault ends it.
pub fn files(
    files: &[PathBuf],
    make: impl FnOnce(&str) -> Result<Target, Failure>,
    choice: &Choice<'_>,
) -> Result<Target, Failure> {
    let mut make = Some(make);
    let mut target = None;
    for file in files {
        let (mut reader, header) = open(file)?;
        if let Some(make) = make.take() {
            target = Some(make(&header.profile)?);
        }
        if let Some(target) = &mut target {
            all(&mut reader, target, choice)?;
        }
    }
    target.ok_or_else(|| Failure::new(Code::NotFound, "no file was named"))
}

/// Takes over all of a reader's file that is chosen; the first fault ends it.
fn all(reader: &mut Reader, target: &mut Target, choice: &Choice<'_>) -> Result<(), Failure> {
    let mut numbering = Numbering::default();
    while let Some(item) = reader.next()? {
        target.take(&mut numbering, item, choice)?;
    }
    Ok(())
}
