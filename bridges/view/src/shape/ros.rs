//! Topics with a type of ROS, which Foxglove reads as they are.
//!
//! A bridge to ROS 1 puts type and definition into the topic's attributes (`ros1.type`,
//! `ros1.definition`), and its messages are ROS's bytes. A topic of ROS 2 has its type (`ros2.type`);
//! its definition is looked for in `ros2.definition`. Without one, messages are seen by their
//! description.

use foxglove::Schema;
use outlive::describe::Description;
use outlive_described::cdr::{Cdr, Encoded};

use super::hints::Attribute;

/// See the head of this file.
pub struct Ros {
    encoding: &'static str,
    schema_encoding: &'static str,
    name: String,
    definition: String,
    /// Messages are values in the domain, and their CDR there.
    cdr: Option<Cdr>,
}

impl Ros {
    /// Returns a topic's type of ROS, if it has one with a definition.
    pub fn of(description: Option<&Description>, attribute: Attribute<'_>) -> Option<Ros> {
        let of = |version: &str| {
            let name = attribute(&format!("{version}.type"))?;
            Some((name, attribute(&format!("{version}.definition"))?))
        };
        if let Some((name, definition)) = of("ros1") {
            let (encoding, schema_encoding, cdr) = ("ros1", "ros1msg", None);
            return Some(Ros { encoding, schema_encoding, name, definition, cdr });
        }
        let (name, definition) = of("ros2")?;
        let cdr = description.cloned().and_then(Cdr::of);
        Some(Ros { encoding: "cdr", schema_encoding: "ros2msg", name, definition, cdr })
    }

    /// Returns the encoding of messages, and their schema.
    pub fn schema(&self) -> (String, Option<Schema>) {
        let definition = self.definition.clone().into_bytes();
        let schema = Schema::new(&self.name, self.schema_encoding, definition);
        (self.encoding.to_owned(), Some(schema))
    }

    /// Writes a message behind what `out` has.
    ///
    /// # Errors
    /// It is not what its description says.
    pub fn write(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
        let mut copy = Vec::new();
        match self.cdr.as_ref().map(|cdr| cdr.encode(bytes, &mut copy)) {
            None => out.extend_from_slice(bytes),
            Some(Some(Encoded::Direct { prefix, len })) => {
                out.extend_from_slice(prefix.bytes());
                out.extend_from_slice(bytes.get(..len).unwrap_or(bytes));
            }
            Some(Some(Encoded::Copied)) => out.append(&mut copy),
            Some(None) => {
                return Err(format!("a message of {} bytes is no {}", bytes.len(), self.name));
            }
        }
        Ok(())
    }
}
