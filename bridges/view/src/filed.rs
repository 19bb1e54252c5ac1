//! What a channel of a file is to clients.
//!
//! | the channel | its messages there |
//! | --- | --- |
//! | of `outlive record`: described, or without an encoding | what those of the topic are, by the same [`Shape`]: CDR is first made the value again |
//! | msgpack of another program | JSON |
//! | of another program otherwise | as they are, with the file's schema |

use std::collections::BTreeMap;

use foxglove::Schema;
use outlive::Kind;
use outlive::describe::{Description, Encoding};
use outlive_described::array::Array;
use outlive_described::cdr::Cdr;
use outlive_described::form::{self, ATTRIBUTE, CONFIG, KIND};
use outlive_mcap::Channel;

use crate::shape::Shape;

/// See the head of this file.
pub struct Filed {
    /// The topic as clients see it.
    pub topic: String,
    /// `None`: clients read its messages as they are.
    shape: Option<Shape>,
    described: Option<Description>,
    /// Where the file's bytes are not those of the topic.
    cdr: Option<Cdr>,
    array: Option<Array>,
    encoding: String,
    schema: Option<Schema>,
    metadata: BTreeMap<String, String>,
}

impl Filed {
    /// Returns what a channel is.
    pub fn of(channel: &Channel, schema: Option<&outlive_mcap::Schema>) -> Filed {
        let metadata = channel.metadata.clone();
        let own = form::description(&metadata);
        let encoding = channel.message_encoding.clone();
        let msgpack = || Description::encoded("", Encoding::Msgpack).ok();
        let described = own.or_else(|| if encoding == "msgpack" { msgpack() } else { None });
        let cdr = described.clone().filter(|_| encoding == "cdr").and_then(Cdr::of);
        let is_seen = described.is_some() || encoding.is_empty();
        let attribute = |key: &str| metadata.get(&format!("{ATTRIBUTE}{key}")).cloned();
        let shape = is_seen.then(|| Shape::of(&channel.topic, described.clone(), &attribute));
        let schema = schema.map(|one| {
            let header = &one.header;
            Schema::new(header.name.clone(), header.encoding.clone(), one.data.clone())
        });
        let array = Array::of_channel(&metadata);
        let topic = channel.topic.clone();
        Filed { topic, shape, described, cdr, array, encoding, schema, metadata }
    }

    /// Returns the encoding of messages, and their schema.
    pub fn schema(&self) -> (String, Option<Schema>) {
        match &self.shape {
            Some(shape) => shape.schema(),
            None => (self.encoding.clone(), self.schema.clone()),
        }
    }

    /// Returns what the file says of the channel.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// Returns the name of the state whose values these are.
    pub fn state(&self) -> Option<&str> {
        let kind = Kind::State.to_string();
        self.metadata.get(KIND).filter(|said| **said == kind)?;
        self.topic.strip_prefix(&kind)?.strip_prefix('/')
    }

    /// Returns whether the last message says what is, however long ago it came.
    pub fn is_kept(&self) -> bool {
        let [.., durability] = CONFIG.map(|key| self.metadata.get(key));
        self.state().is_some() || durability.is_some_and(|said| said != "volatile")
    }

    /// Returns what describes the values.
    pub fn description(&self) -> Option<&Description> {
        self.described.as_ref()
    }

    /// Returns the value that is in these bytes. `room` is used where it does not lie there.
    ///
    /// # Errors
    /// They are none of the type.
    pub fn value<'a>(&self, bytes: &'a [u8], room: &'a mut Vec<u8>) -> Result<&'a [u8], String> {
        let Some(cdr) = &self.cdr else { return Ok(bytes) };
        if let Some(range) = cdr.lies_in(bytes) {
            return Ok(&bytes[range]);
        }
        room.clear();
        let len = cdr.decoded_len(bytes);
        len.and_then(|len| {
            room.resize(len, 0);
            cdr.decode(bytes, room)
        })
        .ok_or_else(|| format!("{} bytes of CDR are no {}", bytes.len(), cdr.description()))?;
        Ok(room)
    }

    /// Writes a message as clients have it, in the place of what `out` has. `false`: it is as it is.
    ///
    /// # Errors
    /// Why it cannot be shown.
    pub fn write(&self, bytes: &[u8], stamp: u64, out: &mut Vec<u8>) -> Result<bool, String> {
        let Some(shape) = &self.shape else { return Ok(false) };
        let mut room = Vec::new();
        let value = self.value(bytes, &mut room)?;
        let array = match shape.is_of_arrays() {
            true => self.array.as_ref().and_then(|array| array.description(value.len())),
            false => None,
        };
        shape.write(value, array.as_ref(), stamp, out)?;
        Ok(true)
    }
}
