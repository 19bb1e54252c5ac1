//! The channels and schemas of one file in another one, where they have other numbers.

use std::collections::HashMap;
use std::sync::Arc;

use mcap::records::{Channel, MessageHeader};

use crate::contents::Schema;
use crate::error::Error;
use crate::write::Writer;

/// Which numbers the channels of a file that is read have in the file that is written.
///
/// ```
/// use outlive_mcap::{Item, Numbering, Options, Positions, Reader, Writer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = std::env::temp_dir().join(format!("outlive-mcap-numbers-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let (one, other) = (folder.join("one.mcap"), folder.join("other.mcap"));
/// # let mut made: Writer = Writer::create(&one, Options::default())?;
/// # made.add_channel(0, "camera", "", &Default::default())?;
/// # made.finish(&Positions::new())?;
/// let (mut reader, mut numbering) = (Reader::open(&one)?, Numbering::default());
/// let mut writer: Writer = Writer::create(&other, Options::default())?;
/// while let Some(item) = reader.next()? {
///     match item {
///         Item::Schema(schema) => numbering.meet_schema(schema),
///         Item::Channel(channel) => drop(numbering.add_channel(channel, &mut writer)?),
///         Item::Message(message) => {
///             if let Some(header) = numbering.header(message.header) {
///                 writer.put(&header, message.data)?;
///             }
///         }
///         _ => {}
///     }
/// }
/// writer.finish(&Positions::new())?;
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Numbering {
    schemas: HashMap<u16, Arc<Schema>>,
    channels: HashMap<u16, u16>,
}

impl Numbering {
    /// Notes a schema of the file that is read. It comes into the other one with a channel that has it.
    pub fn meet_schema(&mut self, schema: &Arc<Schema>) {
        self.schemas.insert(schema.header.id, Arc::clone(schema));
    }

    /// Adds a channel, with its schema, to the file that is written. Returns its number there.
    ///
    /// # Errors
    /// Those of [`Writer::add_schema`] and [`Writer::add_channel`].
    pub fn add_channel<O: AsRef<[u8]>>(
        &mut self,
        channel: &Channel,
        writer: &mut Writer<O>,
    ) -> Result<u16, Error> {
        let schema = match self.schemas.get(&channel.schema_id).map(Arc::as_ref) {
            Some(Schema { header, data }) => {
                writer.add_schema(&header.name, &header.encoding, data)?
            }
            None => 0,
        };
        let (topic, encoding) = (&channel.topic, &channel.message_encoding);
        let id = writer.add_channel(schema, topic, encoding, &channel.metadata)?;
        self.channels.insert(channel.id, id);
        Ok(id)
    }

    /// Returns a message's header with its channel's number in the file that is written. `None`: that file does not
    /// have the channel.
    #[must_use]
    pub fn header(&self, header: MessageHeader) -> Option<MessageHeader> {
        let channel_id = *self.channels.get(&header.channel_id)?;
        Some(MessageHeader { channel_id, ..header })
    }
}
