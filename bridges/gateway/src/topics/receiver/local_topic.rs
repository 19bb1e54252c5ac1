//! The local topic for one elsewhere: it is opened if its type is the same, and made if a rule says so.

use outlive::Domain;
use outlive::describe::Description;
use outlive::topic::{Durability, Topic};

use crate::rules::Rule;
use crate::wire::{self, Meta};

/// The most bytes of a topic that is made here.
const MOST_BYTES: u64 = 6 << 30;

/// Why a topic elsewhere cannot come in.
pub enum Unfit {
    /// The topic here has another type; its subscribers are to be told.
    OtherType(Box<Topic>, String),
    /// Anything else.
    Refused(String),
}

impl From<String> for Unfit {
    fn from(why: String) -> Unfit {
        Unfit::Refused(why)
    }
}

/// Returns why the topic here has another type, if it has.
fn difference(
    domain: &Domain,
    name: &str,
    topic: &Topic,
    meta: &Meta,
    description: Option<&Description>,
) -> Result<Option<String>, String> {
    let text = |error: outlive::Error| error.to_string();
    let type_name = domain.type_name_of(name).map_err(text)?;
    let own = topic.description().map_err(text)?;
    let bytes = own.as_ref().map(Description::to_bytes);
    if wire::fingerprint(&type_name, bytes.as_deref()) == meta.fingerprint {
        return Ok(None);
    }
    let field = own.zip(description).and_then(|(own, other)| own.difference(other));
    let (here, there) = field.unwrap_or_else(|| (type_name.clone(), meta.type_name.clone()));
    Ok(Some(format!("another type: here {here}, there {there}")))
}

/// Returns the local topic, which is made if need be.
pub(super) fn open(
    domain: &Domain,
    name: &str,
    meta: &Meta,
    rule: &Rule,
) -> Result<(Topic, Option<Description>), Unfit> {
    let text = |error: outlive::Error| error.to_string();
    let description = match &meta.description {
        None => None,
        Some(bytes) => {
            let read = Description::from_bytes(bytes);
            Some(read.ok_or_else(|| "the type's description is damaged".to_owned())?)
        }
    };
    let topic = match Topic::open_as_bytes(domain, name) {
        Ok(topic) => topic,
        Err(outlive::Error::NotFound { .. }) if rule.create => {
            make(domain, name, meta, rule, description.as_ref())?
        }
        Err(error) => return Err(Unfit::Refused(text(error))),
    };
    match difference(domain, name, &topic, meta, description.as_ref())? {
        None => Ok((topic, description)),
        Some(why) => Err(Unfit::OtherType(Box::new(topic), why)),
    }
}

/// Makes the topic as it is elsewhere.
fn make(
    domain: &Domain,
    name: &str,
    meta: &Meta,
    rule: &Rule,
    description: Option<&Description>,
) -> Result<Topic, String> {
    let bytes = rule.max_bytes.unwrap_or(meta.max_bytes).min(MOST_BYTES);
    let mut options = Topic::<[u8]>::options()
        .as_is()
        .depth(meta.depth)
        .max_bytes(bytes)
        .reliable(meta.reliable)
        .durability(match meta.durability {
            0 => Durability::Volatile,
            1 => Durability::TransientLocal,
            _ => Durability::Persistent,
        });
    match description {
        Some(description) => options = options.description(description.clone()),
        None if wire::fingerprint(&meta.type_name, None) == meta.fingerprint
            && is_bytes(&meta.type_name) => {}
        None => {
            return Err(format!(
                "its type '{}' has no description, by which it could be made here: make the topic first",
                meta.type_name
            ));
        }
    }
    options.open_or_create(domain, name).map_err(|error| error.to_string())
}

/// Whether a type's name is that of plain bytes.
fn is_bytes(type_name: &str) -> bool {
    type_name.is_empty() || type_name == "u8" || type_name == "[u8]"
}
