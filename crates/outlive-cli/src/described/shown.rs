//! The JSON of a message, written piece by piece: it may have many times the message's bytes.

use std::cell::Cell;

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::Value;

use super::{has_fields, room_of};
use crate::msgpack;
use crate::output;

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
