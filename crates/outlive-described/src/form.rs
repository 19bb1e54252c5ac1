//! What a topic's messages are in the file: their schema, and the bytes that readers decode.
//!
//! | payloads | in the file | schema |
//! | --- | --- | --- |
//! | described by fields | CDR | `ros2msg`, made from the description; of a type of ROS 2 its own, from the attributes |
//! | CDR of ROS 2 | the same | `ros2msg`, where the topic's attribute `ros2.definition` has it; else its name alone |
//! | ROS 1's, with the attribute `ros1.definition` | the same | `ros1msg` |
//! | JSON, msgpack, protobuf | the same | none |
//! | bytes, or not described | the same | none |
//! | an array from Python, not described | the array's bytes | none; the channel says type and extents, see [`array`](crate::array) |
//!
//! The channel's metadata has what a replay needs to make the topic again: its description, its depth and
//! what it offers.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use outlive::describe::{Description, Encoding};
use outlive::topic::Topic;
use outlive_mcap::{Contents, Error, Writer};

use crate::array::Array;
use crate::cdr::Cdr;

/// The attribute of a topic with the definition of its messages, in `ros2msg`.
const DEFINITION: &str = "ros2.definition";
/// The attributes by which a topic says that its messages are ROS's, and what is in them.
pub const ROS1: [&str; 2] = ["ros1.type", "ros1.definition"];
/// The same of ROS 2.
pub const ROS2: [&str; 2] = ["ros2.type", DEFINITION];
/// The key of a channel's metadata with the description of its messages.
pub const DESCRIPTION: &str = "outlive.description";
/// The keys with what its topic was made with.
pub const CONFIG: [&str; 4] =
    ["outlive.depth", "outlive.max_bytes", "outlive.reliable", "outlive.durability"];

/// The kind of what is no topic.
pub const KIND: &str = "outlive.kind";
/// What stands before an attribute's key.
pub const ATTRIBUTE: &str = "attribute.";

/// See the head of this file.
pub struct Form {
    /// The type's own; of other values in CDR it is made from their description.
    schema: Option<Schema>,
    encoding: &'static str,
    metadata: BTreeMap<String, String>,
    /// Where the bytes are not as they are in the topic.
    pub cdr: Option<Cdr>,
}

/// What a channel says of its messages' type.
struct Schema {
    name: String,
    encoding: &'static str,
    text: String,
}

impl Schema {
    fn new(name: impl Into<String>, encoding: &'static str, text: impl Into<String>) -> Schema {
        Schema { name: name.into(), encoding, text: text.into() }
    }
}

impl Form {
    /// Returns the form of a topic's messages.
    ///
    /// # Errors
    /// Those of [`Topic::description`] and [`Topic::attributes`].
    pub fn of(topic: &Topic<[u8]>) -> Result<Form, outlive::Error> {
        let description = topic.description()?;
        let mut metadata = BTreeMap::new();
        let config = topic.config();
        let values = [
            config.depth.to_string(),
            config.max_bytes.to_string(),
            config.reliable.to_string(),
            config.durability.to_string(),
        ];
        metadata.extend(CONFIG.iter().map(|key| (*key).to_owned()).zip(values));
        let attributes = topic.attributes()?;
        let attributes = attributes.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
        Ok(Form::new(description, &attributes.collect(), metadata))
    }

    /// Returns the form of values that are described so; `metadata` says what they are values of.
    pub fn new(
        description: Option<Description>,
        attributes: &BTreeMap<String, String>,
        mut metadata: BTreeMap<String, String>,
    ) -> Form {
        for (key, value) in attributes {
            metadata.insert(format!("{ATTRIBUTE}{key}"), value.clone());
        }
        let mut form = Form { schema: None, encoding: "", metadata, cdr: None };
        if let Some(description) = description {
            let bytes = hex(&description.to_bytes());
            form.metadata.insert(DESCRIPTION.to_owned(), bytes);
            form.metadata.insert("outlive.type".to_owned(), description.name().to_owned());
            let of = |[name, text]: [&str; 2]| {
                Some((attributes.get(name)?.as_str(), attributes.get(text)?.as_str()))
            };
            form.describe(description, of(ROS1), of(ROS2));
        }
        form
    }

    /// Returns whether messages are what their topic says. Else each may be an array of its own layout.
    pub fn is_described(&self) -> bool {
        self.metadata.contains_key(DESCRIPTION)
    }

    /// `ros1`, `ros2`: name and definition of the type, where it is one of ROS.
    fn describe(
        &mut self,
        description: Description,
        ros1: Option<(&str, &str)>,
        ros2: Option<(&str, &str)>,
    ) {
        let encoding = description.encoding();
        if let (Some((name, text)), Encoding::Raw | Encoding::Bytes) = (ros1, encoding) {
            // As they lie in the topic they are ROS 1's.
            self.schema = Some(Schema::new(name, "ros1msg", text));
            self.encoding = "ros1";
            return;
        }
        self.encoding = match encoding {
            Encoding::Raw | Encoding::Cdr => "cdr",
            Encoding::Json => "json",
            Encoding::Msgpack => "msgpack",
            Encoding::Protobuf => "protobuf",
            _ => "",
        };
        let ros2 = ros2.map(|(name, text)| Schema::new(name, "ros2msg", text));
        match encoding {
            // A schema without an encoding is a name, by which readers may know the type.
            Encoding::Cdr => {
                self.schema = ros2.or_else(|| Some(Schema::new(description.name(), "", "")));
            }
            Encoding::Raw => match Cdr::of(description) {
                None => self.encoding = "",
                cdr => (self.schema, self.cdr) = (ros2, cdr),
            },
            _ => {}
        }
    }

    /// Adds the channel to a file, or finds it there.
    ///
    /// # Errors
    /// Those of [`Writer::add_channel`].
    pub fn channel<O: AsRef<[u8]>>(
        &self,
        topic: &str,
        writer: &mut Writer<O>,
    ) -> Result<u16, Error> {
        let made = match (&self.schema, &self.cdr) {
            (None, Some(cdr)) => Some(made(cdr, topic, writer.contents())),
            _ => None,
        };
        let schema = match self.schema.as_ref().or(made.as_ref()) {
            None => 0,
            Some(Schema { name, encoding, text }) => {
                writer.add_schema(name, encoding, text.as_bytes())?
            }
        };
        writer.add_channel(schema, topic, self.encoding, &self.metadata)
    }

    /// Does the same for the arrays of one layout, of a topic that does not describe its messages.
    ///
    /// # Errors
    /// Those of [`Writer::add_channel`].
    pub fn channel_of_arrays<O: AsRef<[u8]>>(
        &self,
        topic: &str,
        array: &Array,
        writer: &mut Writer<O>,
    ) -> Result<u16, Error> {
        let mut metadata = self.metadata.clone();
        array.describe(&mut metadata);
        writer.add_channel(0, topic, self.encoding, &metadata)
    }
}

/// Returns the description that a channel's metadata has.
pub fn description(metadata: &BTreeMap<String, String>) -> Option<Description> {
    Description::from_bytes(&bytes(metadata.get(DESCRIPTION)?)?)
}

/// Reads hexadecimal digits.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect();
    rest.is_empty().then_some(bytes).flatten()
}

/// Returns the schema of values whose type is described. Two types have two names in a file, because
/// some readers know a type by its name alone.
fn made(cdr: &Cdr, topic: &str, contents: &Contents) -> Schema {
    let base = cdr.base(topic);
    let mut number = 1;
    loop {
        let (name, text) = match number {
            1 => cdr.schema(&base),
            _ => cdr.schema(&format!("{base}{number}")),
        };
        let mut there = contents.schemas().filter(|schema| schema.header.name == name);
        if there.all(|schema| schema.data == text.as_bytes()) {
            return Schema::new(name, "ros2msg", text);
        }
        number += 1;
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
