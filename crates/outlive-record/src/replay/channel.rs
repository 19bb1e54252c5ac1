//! What a channel of a file is as a topic.
//!
//! | the channel | the topic's messages |
//! | --- | --- |
//! | of `outlive record`, described by fields, in CDR | the values, made from their CDR |
//! | of `outlive record`, other | as they were |
//! | `cdr`, `json`, `msgpack`, `protobuf` of another program | the same, described as such |
//! | another encoding | bytes, described by the schema's name |
//! | | a schema in `ros2msg` or `ros1msg` is in the topic's attributes, with its name |
//! | no encoding | bytes |

use std::collections::BTreeMap;

use outlive::describe::{Description, Encoding};
use outlive::topic::{Durability, Topic, TopicOptions};
use outlive::{Domain, Error};
use outlive_mcap::{Channel, Schema};

use crate::cdr::Cdr;
use crate::form::{self, ATTRIBUTE, CONFIG, ROS1, ROS2};

/// See the head of this file.
#[derive(Debug, PartialEq, Eq)]
pub struct Made {
    description: Option<Description>,
    /// Where the file's bytes are not those of the topic.
    pub cdr: Option<Cdr>,
    depth: Option<u32>,
    max_bytes: Option<u64>,
    reliable: bool,
    durability: Option<Durability>,
    attributes: Vec<(String, String)>,
}

impl Made {
    /// Returns what the channel is.
    pub fn of(channel: &Channel, schema: Option<&Schema>) -> Made {
        let metadata = &channel.metadata;
        let own = form::description(metadata);
        let mut attributes: Vec<_> = metadata
            .iter()
            .filter_map(|(key, value)| {
                Some((key.strip_prefix(ATTRIBUTE)?.to_owned(), value.clone()))
            })
            .collect();
        let is_cdr = channel.message_encoding == "cdr";
        let cdr = own.as_ref().filter(|_| is_cdr).and_then(|own| Cdr::of(own.clone()));
        let description = own.or_else(|| {
            attributes.extend(schema.and_then(definition).into_iter().flatten());
            foreign(&channel.message_encoding, schema)
        });
        let [depth, max_bytes, reliable, durability] = CONFIG.map(|key| value(metadata, key));
        Made {
            description,
            cdr,
            depth: depth.and_then(|depth| depth.parse().ok()),
            max_bytes: max_bytes.and_then(|bytes| bytes.parse().ok()),
            reliable: reliable == Some("true"),
            durability: durability.and_then(durability_of),
            attributes,
        }
    }

    /// Returns whether the topic says what its messages are.
    pub fn is_described(&self) -> bool {
        self.description.is_some()
    }

    /// Returns whether messages of both are of one type.
    pub fn is_of_the_type_of(&self, other: &Made) -> bool {
        self.description == other.description
    }

    /// Fails where [`Made::open`] would because of the name, or of the topic that has it, and makes no topic.
    pub fn check(&self, domain: &Domain, name: &str) -> Result<(), Error> {
        match self.options().as_is().open(domain, name) {
            Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Opens the topic of that name, which must be of the same type, or makes it as it was, but for a depth that
    /// is asked for.
    pub fn open(
        &self,
        domain: &Domain,
        name: &str,
        reliable: bool,
        depth: Option<u32>,
    ) -> Result<Topic<[u8]>, Error> {
        // What is there is taken as it is, attributes, too.
        match self.options().as_is().open(domain, name) {
            Err(Error::NotFound { .. }) => {}
            other => return other,
        }
        let (mut has_attributes, mut has_sizes) = (true, true);
        loop {
            let mut options = self.options().reliable(self.reliable || reliable);
            if let Some(depth) = depth.or(self.depth.filter(|_| has_sizes)) {
                options = options.depth(depth);
            }
            if let (Some(bytes), true) = (self.max_bytes, has_sizes) {
                options = options.max_bytes(bytes);
            }
            if let Some(durability) = self.durability {
                options = options.durability(durability);
            }
            let attributes = self.attributes.iter().filter(|_| has_attributes);
            let attributes = attributes.map(|(key, value)| (key.as_str(), value.as_str()));
            // Another process may make it meanwhile.
            let options = options.as_is();
            match options.open_or_create(&domain.with_attributes(attributes), name) {
                // Those of a file may be longer than those of a topic, and sizes may lie.
                Err(Error::InvalidOption { what, .. })
                    if has_attributes && what.contains("attribute") =>
                {
                    has_attributes = false;
                }
                Err(Error::InvalidOption { .. }) if has_sizes => has_sizes = false,
                other => return other,
            }
        }
    }

    fn options(&self) -> TopicOptions<[u8]> {
        let options = Topic::<[u8]>::options();
        match &self.description {
            Some(description) => options.description(description.clone()),
            None => options,
        }
    }
}

/// Returns how messages of other programs are described.
fn foreign(encoding: &str, schema: Option<&Schema>) -> Option<Description> {
    let encoding = match encoding {
        "" => return None,
        other => Encoding::of_name(other).filter(|encoding| *encoding != Encoding::Raw),
    };
    let encoding = encoding.unwrap_or(Encoding::Bytes);
    let name = schema.map_or("", |schema| &schema.header.name);
    Description::encoded(name, encoding).or_else(|_| Description::encoded("", encoding)).ok()
}

/// Returns the attributes by which a topic of ROS says its type.
fn definition(schema: &Schema) -> Option<[(String, String); 2]> {
    let keys = match schema.header.encoding.as_str() {
        "ros2msg" => ROS2,
        "ros1msg" => ROS1,
        _ => return None,
    };
    let text = String::from_utf8(schema.data.clone()).ok().filter(|text| !text.is_empty())?;
    let [name, definition] = keys.map(str::to_owned);
    Some([(name, schema.header.name.clone()), (definition, text)])
}

fn value<'a>(metadata: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    metadata.get(key).map(String::as_str)
}

fn durability_of(text: &str) -> Option<Durability> {
    let all = [Durability::Volatile, Durability::TransientLocal, Durability::Persistent];
    all.into_iter().find(|one| one.to_string() == text)
}

/// Returns the name that a topic of a file has here: `/camera/front` is `camera.front`.
pub fn name_of(topic: &str) -> String {
    let parts: Vec<&str> = topic.split('/').filter(|part| !part.is_empty()).collect();
    let name = parts.join(".");
    name.trim_start_matches('.').to_owned()
}
