//! Messages, values, requests and replies that are described, with fields or as msgpack, and JSON:
//! one as the other.
//!
//! JSON knows less: a floating-point number that is none becomes null, and null such a one.
//!
//! A message is written piece by piece: its JSON may have many times its bytes.

use std::cell::Cell;

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::exit::{Code, Failure};
use crate::msgpack;
use crate::output;

/// The most numbers of a message that a person is shown, and the most bytes of a text in it.
pub const SHOWN: usize = 256;

/// Returns whether messages of that description have fields that can be shown.
pub fn has_fields(description: &Description) -> bool {
    description.encoding() == Encoding::Raw
}

/// Returns whether the program prints and takes messages of that description as JSON: those with
/// fields, and msgpack.
pub fn is_json(description: &Description) -> bool {
    has_fields(description) || description.encoding() == Encoding::Msgpack
}

/// A message as JSON.
pub struct Shown<'a>(Message<'a>);

enum Message<'a> {
    Fields(Fields<'a>),
    Value(Value),
}

/// A message with fields.
struct Fields<'a> {
    description: &'a Description,
    bytes: &'a [u8],
    /// How many numbers are shown of it.
    most: usize,
}

impl<'a> Shown<'a> {
    /// Returns a message as JSON, with at most so many numbers in its arrays if it has fields;
    /// `None` if it is neither that nor msgpack, or not what its description says.
    pub fn new(description: &'a Description, bytes: &'a [u8], most: usize) -> Option<Shown<'a>> {
        if description.encoding() == Encoding::Msgpack {
            return msgpack::to_json(bytes).ok().map(Message::Value).map(Shown);
        }
        let fits = has_fields(description) && description.fits(bytes.len());
        fits.then_some(Shown(Message::Fields(Fields { description, bytes, most })))
    }
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Message::Fields(fields) => fields.serialize(to),
            Message::Value(value) => value.serialize(to),
        }
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (left, bytes) = (&Cell::new(self.most), self.bytes);
        let what = match self.description.single() {
            Some(field) => What::Field(field),
            None => What::Struct(self.description.shape()),
        };
        if let Some(tail) = self.description.tail() {
            let outside = || S::Error::custom("a head lies outside of the message");
            let shape = self.description.shape();
            let split = bytes.split_at_checked(shape.size as usize);
            let (head, items) = split.ok_or_else(outside)?;
            let part = Part { what, bytes: head, left, most: self.most };
            let mut map = to.serialize_map(Some(shape.fields.len() + 1))?;
            for field in &shape.fields {
                map.serialize_entry(&field.name, &part.part(What::Field(field), head))?;
            }
            map.serialize_entry(&tail.name, &part.part(What::Tail(tail), items))?;
            return map.end();
        }
        if !self.description.is_slice() {
            return Part { what, bytes, left, most: self.most }.serialize(to);
        }
        let each = self.description.size() as usize;
        let count = bytes.len().checked_div(each).unwrap_or(0);
        Part { what, bytes, left, most: self.most }.sequence(to, count, each, what)
    }
}

/// A part of a message, which is of that kind.
struct Part<'a> {
    what: What<'a>,
    bytes: &'a [u8],
    /// How many numbers of the message may still be shown.
    left: &'a Cell<usize>,
    most: usize,
}

#[derive(Clone, Copy)]
enum What<'a> {
    Struct(&'a Struct),
    /// A field, of bytes that begin with its type's.
    Field(&'a Field),
    /// Any number of items.
    Tail(&'a Field),
    /// Arrays within each other, the outermost first, or a single item.
    Items(&'a [u32], &'a Item),
}

impl<'a> Part<'a> {
    fn part(&self, what: What<'a>, bytes: &'a [u8]) -> Part<'a> {
        Part { what, bytes, ..*self }
    }

    /// Writes so many parts that lie one after the other, as far as they are shown.
    fn sequence<S: Serializer>(
        &self,
        to: S,
        count: usize,
        each: usize,
        what: What<'a>,
    ) -> Result<S::Ok, S::Error> {
        // Items without bytes can be as many as they like.
        let count = if each == 0 { 0 } else { count };
        let mut list = to.serialize_seq(None)?;
        for (at, bytes) in self.bytes.chunks_exact(each.max(1)).take(count).enumerate() {
            if self.left.get() == 0 {
                let more = output::count((count - at) as u64);
                list.serialize_element(&format!("… {more} more"))?;
                break;
            }
            list.serialize_element(&self.part(what, bytes))?;
        }
        list.end()
    }

    fn structure<S: Serializer>(&self, shape: &'a Struct, to: S) -> Result<S::Ok, S::Error> {
        let outside = || S::Error::custom("a field lies outside of the message");
        if shape.is_text() {
            let (length, text) = self.bytes.split_first_chunk().ok_or_else(outside)?;
            let text = text.get(..room_of(shape) as usize).ok_or_else(outside)?;
            let length = (u32::from_ne_bytes(*length) as usize).min(text.len());
            let shown = String::from_utf8_lossy(&text[..length.min(self.most)]);
            self.left.set(self.left.get().saturating_sub(1));
            let rest = if length > self.most { "…" } else { "" };
            return to.serialize_str(&format!("{shown}{rest}"));
        }
        if let [_, items] = &shape.fields[..]
            && let Some((room, inner)) = items.extents.split_first()
            && shape.is_list()
        {
            let length = u64::from_ne_bytes(*self.bytes.first_chunk().ok_or_else(outside)?);
            let count = length.min((*room).into()) as usize;
            let each = items.bytes().checked_div((*room).into()).unwrap_or(0) as usize;
            let part = self.part(self.what, self.bytes.get(8..).ok_or_else(outside)?);
            return part.sequence(to, count, each, What::Items(inner, &items.item));
        }
        let mut map = to.serialize_map(Some(shape.fields.len()))?;
        for field in &shape.fields {
            map.serialize_entry(&field.name, &self.part(What::Field(field), self.bytes))?;
        }
        map.end()
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let outside = || S::Error::custom("a field lies outside of the message");
        match self.what {
            What::Struct(shape) => self.structure(shape, to),
            What::Field(field) => {
                let end = u64::from(field.offset) + field.bytes();
                let bytes = usize::try_from(end).ok();
                let bytes = bytes.and_then(|end| self.bytes.get(field.offset as usize..end));
                let what = What::Items(&field.extents, &field.item);
                self.part(what, bytes.ok_or_else(outside)?).serialize(to)
            }
            What::Tail(field) => {
                let each = usize::try_from(field.bytes()).map_err(|_| outside())?;
                let count = self.bytes.len().checked_div(each).unwrap_or(0);
                self.sequence(to, count, each, What::Items(&field.extents, &field.item))
            }
            What::Items([], Item::Struct(nested)) => {
                self.part(What::Struct(nested), self.bytes).serialize(to)
            }
            What::Items([], Item::Number(number)) => {
                self.left.set(self.left.get().saturating_sub(1));
                write_as_json(*number, self.bytes, to)
            }
            What::Items([], _) => Err(S::Error::custom("a type that this program does not know")),
            What::Items([count, inner @ ..], item) => {
                let count = *count as usize;
                let each = self.bytes.len().checked_div(count).unwrap_or(0);
                self.sequence(to, count, each, What::Items(inner, item))
            }
        }
    }
}

fn write_as_json<S: Serializer>(number: Number, bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_ne_bytes(
                bytes.try_into().map_err(|_| S::Error::custom("a number of another size"))?,
            )
        };
    }
    match number {
        Number::Bool => match of!(u8) {
            0 => to.serialize_bool(false),
            1 => to.serialize_bool(true),
            other => to.serialize_u8(other),
        },
        Number::U8 => to.serialize_u8(of!(u8)),
        Number::I8 => to.serialize_i8(of!(i8)),
        Number::U16 => to.serialize_u16(of!(u16)),
        Number::I16 => to.serialize_i16(of!(i16)),
        Number::U32 => to.serialize_u32(of!(u32)),
        Number::I32 => to.serialize_i32(of!(i32)),
        Number::U64 => to.serialize_u64(of!(u64)),
        Number::I64 => to.serialize_i64(of!(i64)),
        // Its shortest form, not the digits of the same number with 64 bits.
        Number::F32 => to.serialize_f32(of!(f32)),
        Number::F64 => to.serialize_f64(of!(f64)),
        _ => Err(S::Error::custom("a type that this program does not know")),
    }
}

/// Returns a message as a line of JSON, whole.
pub fn line(description: &Description, bytes: &[u8]) -> Option<String> {
    let shown = Shown::new(description, bytes, usize::MAX)?;
    // Writing to memory fails for a type of a later version alone.
    serde_json::to_string(&shown).ok()
}

/// Returns the message that JSON says, or why it says none.
pub fn message(description: &Description, json: &[u8]) -> Result<Vec<u8>, Failure> {
    parsed(description, json).map_err(|why| Failure::new(Code::BadInput, why))
}

/// Returns the message that JSON says, or why it says none.
pub fn parsed(description: &Description, json: &[u8]) -> Result<Vec<u8>, String> {
    of_json(description, json).map_err(|why| format!("a message is no {description}: {why}"))
}

/// Returns the message that a line of JSON says.
fn of_json(description: &Description, line: &[u8]) -> Result<Vec<u8>, String> {
    if description.encoding() == Encoding::Msgpack {
        return msgpack::of_json(line);
    }
    let mut value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let size = description.size() as usize;
    let write = |value: &Value, to: &mut [u8]| match description.single() {
        Some(field) => write_field("the value", field, value, to),
        None => write_struct("", description.shape(), value, to),
    };
    if let Some(tail) = description.tail() {
        let items = value.as_object_mut().and_then(|fields| fields.remove(&tail.name));
        let items = items.ok_or_else(|| format!("field '{}' is missing", tail.name))?;
        let items =
            items.as_array().ok_or_else(|| format!("'{}' is an array of any length", tail.name))?;
        let each = usize::try_from(tail.bytes()).map_err(|_| "an item lies outside")?;
        let mut bytes = vec![0; size + each * items.len()];
        let (head, rest) = bytes.split_at_mut(size);
        write(&value, head)?;
        for (at, (item, to)) in items.iter().zip(rest.chunks_exact_mut(each.max(1))).enumerate() {
            write_items(&format!("{}[{at}]", tail.name), &tail.extents, &tail.item, item, to)?;
        }
        return Ok(bytes);
    }
    if !description.is_slice() {
        let mut bytes = vec![0; size];
        write(&value, &mut bytes)?;
        return Ok(bytes);
    }
    let values = value.as_array().ok_or("an array of values is needed")?;
    let mut bytes = vec![0; size * values.len()];
    for (value, to) in values.iter().zip(bytes.chunks_exact_mut(size.max(1))) {
        write(value, to)?;
    }
    Ok(bytes)
}

fn write_struct(path: &str, shape: &Struct, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let what = if path.is_empty() { "the value" } else { path.trim_end_matches('.') };
    if let (true, Some(text)) = (shape.is_text(), value.as_str()) {
        let (length, bytes) = to.split_at_mut_checked(4).ok_or("a text lies outside")?;
        // Behind the bytes a struct may have padding, which is none of the text's.
        let room = room_of(shape);
        let bytes = bytes.get_mut(..room as usize).ok_or("a text lies outside")?;
        let place = bytes.get_mut(..text.len());
        let place = place.ok_or_else(|| format!("'{what}' has room for {room} bytes"))?;
        place.copy_from_slice(text.as_bytes());
        length.copy_from_slice(&(text.len() as u32).to_ne_bytes());
        return Ok(());
    }
    if let (true, [_, items], Some(values)) = (shape.is_list(), &shape.fields[..], value.as_array())
    {
        let (room, inner) = items.extents.split_first().ok_or("a list without room")?;
        if values.len() > *room as usize {
            return Err(format!("'{what}' has room for {room} items"));
        }
        let (length, bytes) = to.split_at_mut_checked(8).ok_or("a list lies outside")?;
        length.copy_from_slice(&(values.len() as u64).to_ne_bytes());
        // Of the items that are given, not of the bytes: behind the room there may be padding.
        let one = Field { extents: inner.to_vec(), offset: 0, ..items.clone() };
        let each = usize::try_from(one.bytes()).map_err(|_| "a list lies outside")?;
        for (at, value) in values.iter().enumerate() {
            let to = bytes.get_mut(at * each..).ok_or("an item lies outside")?;
            write_field(&format!("{what}[{at}]"), &one, value, to)?;
        }
        return Ok(());
    }
    let given = value.as_object().ok_or_else(|| format!("{what} is an object with fields"))?;
    if let Some(other) = given.keys().find(|key| shape.fields.iter().all(|one| one.name != **key)) {
        return Err(format!("there is no field '{path}{other}'"));
    }
    for field in &shape.fields {
        let path = format!("{path}{}", field.name);
        let value = given.get(&field.name).ok_or_else(|| format!("field '{path}' is missing"))?;
        write_field(&path, field, value, to)?;
    }
    Ok(())
}

/// Returns how many bytes a text has room for, or items a list.
fn room_of(shape: &Struct) -> u32 {
    shape.fields.get(1).and_then(|field| field.extents.first()).copied().unwrap_or(0)
}

/// Writes a field into the bytes of the type that it belongs to.
fn write_field(path: &str, field: &Field, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let end = u64::from(field.offset) + field.bytes();
    let to = to.get_mut(field.offset as usize..end as usize).ok_or("a field lies outside")?;
    write_items(path, &field.extents, &field.item, value, to)
}

fn write_items(
    path: &str,
    extents: &[u32],
    item: &Item,
    value: &Value,
    to: &mut [u8],
) -> Result<(), String> {
    let Some((count, inner)) = extents.split_first() else {
        return match item {
            Item::Number(number) => write_number(path, *number, value, to),
            Item::Struct(nested) => write_struct(&format!("{path}."), nested, value, to),
            _ => Err(format!("'{path}' is of a type that this program does not know")),
        };
    };
    let values = value.as_array().filter(|values| values.len() == *count as usize);
    let values = values.ok_or_else(|| format!("'{path}' is an array of {count}"))?;
    let each = to.len().checked_div(values.len()).unwrap_or(0);
    for (at, value) in values.iter().enumerate() {
        let to = to.get_mut(at * each..(at + 1) * each).ok_or("an item lies outside")?;
        write_items(&format!("{path}[{at}]"), inner, item, value, to)?;
    }
    Ok(())
}

fn write_number(path: &str, number: Number, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let other = || format!("'{path}' is a number of type {}, not {value}", number.name());
    macro_rules! whole {
        ($type:ty) => {{
            let signed = value.as_i64().and_then(|number| <$type>::try_from(number).ok());
            let number = signed.or_else(|| value.as_u64().and_then(|n| <$type>::try_from(n).ok()));
            to.copy_from_slice(&number.ok_or_else(other)?.to_ne_bytes());
        }};
    }
    let real = || if value.is_null() { Some(f64::NAN) } else { value.as_f64() }.ok_or_else(other);
    match number {
        Number::Bool if value.is_boolean() => to[0] = u8::from(value == &Value::Bool(true)),
        Number::Bool | Number::U8 => whole!(u8),
        Number::I8 => whole!(i8),
        Number::U16 => whole!(u16),
        Number::I16 => whole!(i16),
        Number::U32 => whole!(u32),
        Number::I32 => whole!(i32),
        Number::U64 => whole!(u64),
        Number::I64 => whole!(i64),
        Number::F32 => to.copy_from_slice(&(real()? as f32).to_ne_bytes()),
        Number::F64 => to.copy_from_slice(&real()?.to_ne_bytes()),
        _ => return Err(other()),
    }
    Ok(())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(description: &Description, bytes: &[u8], most: usize) -> Option<String> {
        let shown = Shown::new(description, bytes, most)?;
        Some(serde_json::to_string(&shown).expect("JSON"))
    }

    fn to_json(description: &Description, bytes: &[u8]) -> Option<Value> {
        let text = shown(description, bytes, usize::MAX)?;
        Some(serde_json::from_str(&text).expect("JSON"))
    }

    fn number(name: &str, offset: u32, extents: &[u32], number: Number) -> Field {
        Field { name: name.into(), offset, extents: extents.to_vec(), item: Item::Number(number) }
    }

    fn track() -> Description {
        let fields = vec![number("x", 0, &[], Number::F32), number("n", 4, &[2], Number::I16)];
        let point = Item::Struct(Struct { size: 8, align: 4, fields });
        let points = Field { name: "points".into(), offset: 4, extents: vec![2], item: point };
        let fields = vec![number("ok", 0, &[], Number::Bool), points];
        Description::raw("Track", Struct { size: 20, align: 4, fields }).expect("possible")
    }

    #[test]
    fn what_was_written_comes_back() {
        let text = r#"{"ok":true,"points":[{"n":[-1,2],"x":0.1},{"n":[0,32767],"x":-3.0}]}"#;
        let line: Value = serde_json::from_str(text).expect("JSON");
        let bytes = of_json(&track(), text.as_bytes()).expect("a message");
        assert_eq!(bytes.len(), 20);
        assert_eq!(to_json(&track(), &bytes), Some(line.clone()));
        let tracks = track().slice().expect("possible");
        let both = format!("[{text},{text}]");
        let bytes = of_json(&tracks, both.as_bytes()).expect("a message");
        assert_eq!(to_json(&tracks, &bytes), Some(Value::Array(vec![line.clone(), line])));
        assert_eq!(to_json(&tracks, &bytes[1..]), None, "another length");
    }

    #[test]
    fn a_tail_is_an_array_of_any_length() {
        let item = track().shape().fields[1].item.clone();
        let tail = Field { name: "dots".into(), offset: 20, extents: vec![2], item };
        let track = track().with_tail(tail).expect("possible");
        let head = r#""ok":true,"points":[{"x":0.5,"n":[1,2]},{"x":1.5,"n":[3,4]}]"#;
        let item = r#"[{"x":2.5,"n":[5,6]},{"x":3.5,"n":[7,8]}]"#;
        for (items, len) in [(String::new(), 20), (item.into(), 36), (format!("{item},{item}"), 52)]
        {
            let line = format!(r#"{{{head},"dots":[{items}]}}"#);
            let bytes = of_json(&track, line.as_bytes()).expect("a message");
            assert_eq!(bytes.len(), len);
            assert_eq!(shown(&track, &bytes, usize::MAX), Some(line));
        }
        assert_eq!(shown(&track, &[0; 35], SHOWN), None, "another length");
        let short = shown(&track, &[0; 20 + 16 * 100], 10).expect("shown");
        assert!(
            short.ends_with(r#""dots":[[{"x":0.0,"n":[0,0]},"… 1 more"],"… 99 more"]}"#),
            "{short}"
        );
        let why = |line: &str| of_json(&track, line.as_bytes()).expect_err("wrong");
        assert_eq!(why(&format!("{{{head}}}")), "field 'dots' is missing");
        assert_eq!(why(&format!(r#"{{{head},"dots":7}}"#)), "'dots' is an array of any length");
        assert_eq!(why(&format!(r#"{{{head},"dots":[[1]]}}"#)), "'dots[0]' is an array of 2");
        let told = lines(&track).pop().expect("the tail").1;
        assert_eq!(
            told,
            "dots: any number of { x: f32, n: i16[2] }[2], each of 16 bytes, from byte 20"
        );
    }

    /// A name and a list of items, as every language declares them.
    #[test]
    fn texts_and_lists_are_json_of_their_own() {
        let points = Struct {
            size: 24,
            align: 8,
            fields: vec![
                number("length", 0, &[], Number::U64),
                number("items", 8, &[4], Number::F32),
            ],
        };
        let nested = |name: &str, offset, item| Field {
            name: name.into(),
            offset,
            extents: Vec::new(),
            item: Item::Struct(item),
        };
        let fields = vec![nested("name", 0, Struct::text(12)), nested("ranges", 16, points)];
        let scan = Description::raw("Scan", Struct { size: 40, align: 8, fields });
        let scan = scan.expect("possible");
        let line = r#"{"name":"größe","ranges":[0.5,1.5]}"#;
        let bytes = of_json(&scan, line.as_bytes()).expect("a message");
        assert_eq!((bytes[0], bytes[16], bytes.len()), (7, 2, 40));
        assert_eq!(shown(&scan, &bytes, SHOWN).as_deref(), Some(line));
        // Lengths of a hostile publisher.
        let all = to_json(&scan, &[0xff; 40]).expect("JSON");
        assert_eq!(all["ranges"].as_array().map(Vec::len), Some(4));
        let long = r#"{"name":"a","ranges":[1,2,3,4,5]}"#;
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'ranges' has room for 4 items".into()));
        let long = r#"{"name":"0123456789abc","ranges":[]}"#;
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'name' has room for 12 bytes".into()));
    }

    /// A C struct is padded behind its bytes or items, and an item can be a struct or an array.
    #[test]
    fn padding_behind_a_text_or_list_is_none_of_it() {
        let one = |name: &str, offset, item| Field {
            name: name.into(),
            offset,
            extents: Vec::new(),
            item: Item::Struct(item),
        };
        let list = |size, items: Field| Struct {
            size,
            align: 8,
            fields: vec![number("length", 0, &[], Number::U64), items],
        };
        let point = Struct { size: 12, align: 4, fields: vec![number("at", 0, &[3], Number::F32)] };
        let points = Field { extents: vec![3], ..one("items", 8, point) };
        let fields =
            vec![number("length", 0, &[], Number::U32), number("bytes", 4, &[5], Number::U8)];
        let fields = vec![
            one("name", 0, Struct { size: 12, align: 4, fields }),
            one("ranges", 16, list(24, number("items", 8, &[3], Number::F32))),
            one("points", 40, list(48, points)),
            one("pairs", 88, list(24, number("items", 8, &[3, 2], Number::I16))),
        ];
        let scan = Description::raw("Scan", Struct { size: 112, align: 8, fields });
        let scan = scan.expect("possible");
        let line = concat!(
            r#"{"name":"abcde","ranges":[0.5,1.5,2.5],"points":[{"at":[1.0,2.0,3.0]},"#,
            r#"{"at":[4.0,5.0,6.0]},{"at":[7.0,8.0,9.0]}],"pairs":[[1,2],[3,4],[5,6]]}"#
        );
        let bytes = of_json(&scan, line.as_bytes()).expect("a message");
        assert_eq!(bytes[32..36], 2.5_f32.to_ne_bytes(), "the third of the ranges");
        assert_eq!(shown(&scan, &bytes, SHOWN).as_deref(), Some(line));
        assert_eq!(to_json(&scan, &[b'x'; 112]).expect("JSON")["name"], "xxxxx");
        let long = line.replace("abcde", "abcdef");
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'name' has room for 5 bytes".into()));
    }

    /// A person is shown the beginning of a long message, and a hostile one takes no memory.
    #[test]
    fn what_is_long_is_cut() {
        let frame = Description::of::<[[u8; 1920]; 1080]>();
        let bytes = vec![7; 1920 * 1080];
        let line = shown(&frame, &bytes, 3).expect("fits");
        assert_eq!(line, r#"[[7,7,7,"… 1,917 more"],"… 1,079 more"]"#);
        let slice = Description::of::<u16>().slice().expect("possible");
        let line = shown(&slice, &[1; 1000], 2).expect("fits");
        assert_eq!(line, r#"[257,257,"… 498 more"]"#);
        let one = Field { name: "a".into(), offset: 0, extents: Vec::new(), item: text(8) };
        let fields = vec![one, number("b", 12, &[4], Number::U8)];
        let named = Description::raw("N", Struct { size: 16, align: 1, fields }).expect("possible");
        let line = shown(&named, b"\x08\0\0\0abcdefgh\x01\x02\x03\x04", 3).expect("fits");
        assert_eq!(line, r#"{"a":"abc…","b":[1,2,"… 2 more"]}"#);
        let all = shown(&frame, &bytes, usize::MAX).expect("fits");
        assert_eq!(all.matches('7').count(), 1920 * 1080);
    }

    fn text(room: u32) -> Item {
        Item::Struct(Struct::text(room))
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (line, why) in [
            ("[1]", "the value is an object with fields"),
            (r#"{"ok": 1}"#, "field 'points' is missing"),
            (r#"{"ok": 1, "points": [], "z": 1}"#, "there is no field 'z'"),
            (r#"{"ok": 1, "points": [1]}"#, "'points' is an array of 2"),
            (r#"{"ok": 1, "points": [1, 2]}"#, "points[0] is an object with fields"),
            (
                r#"{"ok": 1, "points": [{"x": 1, "n": [1, 40000]}, 1]}"#,
                "'points[0].n[1]' is a number of type i16, not 40000",
            ),
        ] {
            assert_eq!(of_json(&track(), line.as_bytes()), Err(why.to_owned()));
        }
    }
}
