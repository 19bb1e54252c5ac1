//! What a description says: JSON for programs, lines for people.

use outlive::describe::{Description, Field, Item, Struct};
use serde::Serialize;

use super::has_fields;
use crate::output;

/// A description, for programs.
#[derive(Serialize)]
pub struct Told {
    /// All of it.
    text: String,
    name: String,
    encoding: &'static str,
    /// Whether a message has any number of values.
    slice: bool,
    /// Bytes of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    align: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<ToldField>>,
    /// What follows the fields, any number of times.
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<ToldField>,
    /// Of a service: what its replies are. All else is of its requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Box<Told>>,
}

#[derive(Serialize)]
struct ToldField {
    name: String,
    /// A number's type, or `struct`.
    #[serde(rename = "type")]
    of: &'static str,
    offset: u32,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extents: Vec<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fields: Option<Vec<ToldField>>,
}

impl Told {
    /// Returns a description in words that JSON knows.
    pub fn of(description: &Description) -> Told {
        let is_raw = has_fields(description);
        Told {
            text: description.to_string(),
            name: description.name().to_owned(),
            encoding: description.encoding().name(),
            slice: description.is_slice(),
            size: is_raw.then(|| description.size()),
            align: is_raw.then(|| description.align()),
            fields: is_raw.then(|| fields_of(description.shape())),
            tail: description.tail().map(told),
            reply: description.reply().map(|reply| Box::new(Told::of(reply))),
        }
    }
}

fn fields_of(shape: &Struct) -> Vec<ToldField> {
    shape.fields.iter().map(told).collect()
}

fn told(field: &Field) -> ToldField {
    let (of, fields) = match &field.item {
        Item::Number(number) => (number.name(), None),
        Item::Struct(nested) => ("struct", Some(fields_of(nested))),
        _ => ("unknown", None),
    };
    let (name, extents) = (field.name.clone(), field.extents.clone());
    ToldField { name, of, offset: field.offset, extents, fields }
}

/// Returns what a person is told of a description, a line each, with what the line is about.
pub fn lines(description: &Description) -> Vec<(&'static str, String)> {
    let Some(reply) = description.reply() else {
        return lines_of(description, ["payload", "field"]);
    };
    let mut lines = lines_of(description, ["request", "of request"]);
    lines.extend(lines_of(reply, ["reply", "of reply"]));
    lines
}

fn lines_of(
    description: &Description,
    [whole, part]: [&'static str; 2],
) -> Vec<(&'static str, String)> {
    let name = description.name().escape_debug();
    let encoding = description.encoding().name();
    if !has_fields(description) {
        let space = if description.name().is_empty() { "" } else { ", " };
        return vec![(whole, format!("{name}{space}{encoding}"))];
    }
    let named = match description.single() {
        Some(field) => field.to_string(),
        None if description.name().is_empty() => "without a name".to_owned(),
        None => name.to_string(),
    };
    let slices = if description.is_slice() { "any number, each of " } else { "" };
    let size = output::counted(description.size(), "byte");
    let align = description.align();
    let mut lines =
        vec![(whole, format!("{named}, {encoding}, {slices}{size}, alignment {align}"))];
    let fields = description.fields().iter().filter(|field| !field.name.is_empty());
    lines.extend(fields.map(|field| {
        let (name, of) = (field.name.escape_debug(), field.to_string());
        (part, format!("{name}: {} at byte {}", of.escape_debug(), field.offset))
    }));
    if let Some(tail) = description.tail() {
        let (name, of) = (tail.name.escape_debug(), tail.to_string());
        let each = output::counted(tail.bytes(), "byte");
        let said = format!(
            "{name}: any number of {}, each of {each}, from byte {}",
            of.escape_debug(),
            tail.offset
        );
        lines.push((part, said));
    }
    lines
}
