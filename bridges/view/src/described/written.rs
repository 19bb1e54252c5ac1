//! The JSON of a message with fields, and the JSON Schema of all such messages.
//!
//! | a message is | its JSON |
//! | --- | --- |
//! | a struct | an object; a tail is a field of it |
//! | a number, an array | `{"value": …}`: Foxglove wants an object |
//! | a slice | `{"values": […]}` |
//!
//! Arrays of many bytes are base64, as JSON Schema has it (`contentEncoding`): numbers would take four
//! times the room, and a picture or a piece of a file means nothing by its numbers.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use outlive::describe::{Description, Field, Item, Number, Struct};
use serde_json::{Value, json};

use super::room_of;

/// The most bytes of a message's JSON: the publisher decides how long its arrays are.
const MOST: usize = 32 << 20;
/// As many bytes are numbers; more are base64.
const FEW_BYTES: u32 = 64;

/// How arrays of bytes are written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blobs {
    /// As base64, if they may be many.
    Base64,
    /// As numbers: what is read again.
    Numbers,
}

/// Returns the schema of all messages of that description.
pub fn schema(description: &Description, blobs: Blobs) -> Value {
    let whole = match description.single() {
        Some(field) => of_items(&field.extents, &field.item, blobs),
        None => of_struct(description.shape(), blobs),
    };
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let mut schema = match (description.is_slice(), description.single()) {
        (true, _) => object(json!({"values": {"type": "array", "items": whole}})),
        (false, Some(_)) => object(json!({"value": whole})),
        (false, None) => whole,
    };
    if let Some(tail) = description.tail()
        && let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut)
    {
        let each = of_items(&tail.extents, &tail.item, blobs);
        let all = match is_blob(u32::MAX, &tail.extents, &tail.item, blobs) {
            true => blob(),
            false => json!({"type": "array", "items": each}),
        };
        properties.insert(tail.name.clone(), all);
    }
    if !description.name().is_empty()
        && let Some(schema) = schema.as_object_mut()
    {
        schema.insert("title".to_owned(), description.name().into());
    }
    schema
}

fn blob() -> Value {
    json!({"type": "string", "contentEncoding": "base64"})
}

fn is_blob(count: u32, inner: &[u32], item: &Item, blobs: Blobs) -> bool {
    let is_bytes = inner.is_empty() && *item == Item::Number(Number::U8);
    is_bytes && count > FEW_BYTES && blobs == Blobs::Base64
}

fn of_struct(shape: &Struct, blobs: Blobs) -> Value {
    if shape.is_text() {
        return json!({"type": "string"});
    }
    if let Some((room, inner, item)) = list(shape) {
        return match is_blob(room, inner, item, blobs) {
            true => blob(),
            false => json!({"type": "array", "items": of_items(inner, item, blobs)}),
        };
    }
    let of = |field: &Field| (field.name.clone(), of_items(&field.extents, &field.item, blobs));
    json!({"type": "object", "properties": Value::Object(shape.fields.iter().map(of).collect())})
}

fn list(shape: &Struct) -> Option<(u32, &[u32], &Item)> {
    let items = shape.fields.get(1).filter(|_| shape.is_list())?;
    let (room, inner) = items.extents.split_first()?;
    Some((*room, inner, &items.item))
}

fn of_items(extents: &[u32], item: &Item, blobs: Blobs) -> Value {
    match extents {
        [count, inner @ ..] if is_blob(*count, inner, item, blobs) => blob(),
        [_, inner @ ..] => json!({"type": "array", "items": of_items(inner, item, blobs)}),
        [] => match item {
            Item::Struct(nested) => of_struct(nested, blobs),
            Item::Number(Number::Bool) => json!({"type": "boolean"}),
            Item::Number(Number::F32 | Number::F64) => json!({"type": "number"}),
            _ => json!({"type": "integer"}),
        },
    }
}

/// Writes a message as JSON behind what `out` has.
///
/// # Errors
/// It is not what its description says; its JSON would take more than 32 MiB.
pub fn write(
    description: &Description,
    bytes: &[u8],
    blobs: Blobs,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    if !description.fits(bytes.len()) {
        return Err(format!("a message of {} bytes is no {description}", bytes.len()));
    }
    let mut writer = Writer { out, blobs };
    let size = usize::try_from(description.size()).map_err(|_| OUTSIDE)?;
    if description.is_slice() {
        writer.text("{\"values\":[")?;
        for (at, bytes) in bytes.chunks_exact(size.max(1)).enumerate() {
            writer.comma(at)?;
            match description.single() {
                Some(field) => writer.items(&field.extents, &field.item, bytes)?,
                None => writer.structure(description.shape(), bytes, None)?,
            }
        }
        return writer.text("]}");
    }
    if let Some(field) = description.single() {
        writer.text("{\"value\":")?;
        writer.items(&field.extents, &field.item, bytes)?;
        return writer.text("}");
    }
    let (head, rest) = bytes.split_at_checked(size).ok_or(OUTSIDE)?;
    let tail = description.tail().map(|tail| (tail, rest));
    writer.structure(description.shape(), head, tail)
}

const OUTSIDE: &str = "a field lies outside of the message";

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    blobs: Blobs,
}

impl Writer<'_> {
    fn text(&mut self, text: &str) -> Result<(), String> {
        self.out.extend_from_slice(text.as_bytes());
        match self.out.len() > MOST {
            true => Err("its JSON would take more than 32 MiB".to_owned()),
            false => Ok(()),
        }
    }

    fn comma(&mut self, at: usize) -> Result<(), String> {
        if at > 0 { self.text(",") } else { Ok(()) }
    }

    fn string(&mut self, text: &str) -> Result<(), String> {
        self.text(&Value::from(text).to_string())
    }

    fn structure(
        &mut self,
        shape: &Struct,
        bytes: &[u8],
        tail: Option<(&Field, &[u8])>,
    ) -> Result<(), String> {
        if shape.is_text() {
            let (length, text) = bytes.split_first_chunk().ok_or(OUTSIDE)?;
            let room = text.len().min(room_of(shape) as usize);
            let length = (u32::from_ne_bytes(*length) as usize).min(room);
            return self.string(&String::from_utf8_lossy(&text[..length]));
        }
        if let Some((room, inner, item)) = list(shape) {
            let (length, bytes) = bytes.split_first_chunk().ok_or(OUTSIDE)?;
            let count = u64::from_ne_bytes(*length).min(room.into()) as usize;
            return self.array(count, is_blob(room, inner, item, self.blobs), inner, item, bytes);
        }
        self.text("{")?;
        for (at, field) in shape.fields.iter().enumerate() {
            self.comma(at)?;
            self.string(&field.name)?;
            self.text(":")?;
            let end = u64::from(field.offset) + field.bytes();
            let end = usize::try_from(end).map_err(|_| OUTSIDE)?;
            let bytes = bytes.get(field.offset as usize..end).ok_or(OUTSIDE)?;
            self.items(&field.extents, &field.item, bytes)?;
        }
        if let Some((tail, rest)) = tail {
            self.comma(shape.fields.len())?;
            self.string(&tail.name)?;
            self.text(":")?;
            let each = usize::try_from(tail.bytes()).map_err(|_| OUTSIDE)?;
            let count = rest.len().checked_div(each).unwrap_or(0);
            let is_blob = is_blob(u32::MAX, &tail.extents, &tail.item, self.blobs);
            self.array(count, is_blob, &tail.extents, &tail.item, rest)?;
        }
        self.text("}")
    }

    fn items(&mut self, extents: &[u32], item: &Item, bytes: &[u8]) -> Result<(), String> {
        match (extents, item) {
            ([count, inner @ ..], _) => {
                let is_blob = is_blob(*count, inner, item, self.blobs);
                self.array(*count as usize, is_blob, inner, item, bytes)
            }
            ([], Item::Struct(nested)) => self.structure(nested, bytes, None),
            ([], Item::Number(number)) => self.number(*number, bytes),
            _ => self.text("null"),
        }
    }

    fn array(
        &mut self,
        count: usize,
        is_blob: bool,
        inner: &[u32],
        item: &Item,
        bytes: &[u8],
    ) -> Result<(), String> {
        if is_blob {
            let blob = STANDARD.encode(bytes.get(..count).ok_or(OUTSIDE)?);
            self.text("\"")?;
            self.text(&blob)?;
            return self.text("\"");
        }
        let each = inner.iter().fold(1_u64, |all, one| all.saturating_mul((*one).into()));
        let each = each.saturating_mul(item.bytes().into());
        let each = usize::try_from(each).map_err(|_| OUTSIDE)?;
        // Items without bytes can be as many as they like.
        let count = if each == 0 { 0 } else { count };
        self.text("[")?;
        for (at, bytes) in bytes.chunks_exact(each.max(1)).take(count).enumerate() {
            self.comma(at)?;
            self.items(inner, item, bytes)?;
        }
        self.text("]")
    }

    fn number(&mut self, number: Number, bytes: &[u8]) -> Result<(), String> {
        macro_rules! of {
            ($type:ty) => {
                <$type>::from_ne_bytes(bytes.try_into().map_err(|_| OUTSIDE)?)
            };
        }
        macro_rules! put {
            ($form:literal, $value:expr) => {{
                // A vector takes all that is written.
                let _ = write!(self.out, $form, $value);
            }};
        }
        match number {
            Number::Bool => put!("{}", of!(u8) != 0),
            Number::U8 => put!("{}", of!(u8)),
            Number::I8 => put!("{}", of!(i8)),
            Number::U16 => put!("{}", of!(u16)),
            Number::I16 => put!("{}", of!(i16)),
            Number::U32 => put!("{}", of!(u32)),
            Number::I32 => put!("{}", of!(i32)),
            Number::U64 => put!("{}", of!(u64)),
            Number::I64 => put!("{}", of!(i64)),
            // The shortest form of each, not the digits of the same number with 64 bits.
            Number::F32 if of!(f32).is_finite() => put!("{:?}", of!(f32)),
            Number::F64 if of!(f64).is_finite() => put!("{:?}", of!(f64)),
            _ => put!("{}", "null"),
        }
        self.text("")
    }
}

#[cfg(test)]
mod tests {
    use outlive::Payload;
    use outlive::describe::{InlineString, InlineVec};
    use outlive::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

    use super::*;

    #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Payload)]
    #[repr(C)]
    struct Scan {
        name: InlineString<12>,
        ranges: InlineVec<f32, 2>,
        blob: [u8; 72],
        few: [u8; 8],
    }

    fn json(description: &Description, bytes: &[u8], blobs: Blobs) -> Result<Value, String> {
        let mut out = Vec::new();
        write(description, bytes, blobs, &mut out)?;
        serde_json::from_slice(&out).map_err(|error| error.to_string())
    }

    #[test]
    fn a_message_is_what_its_schema_says() {
        let scan = Scan {
            name: InlineString::new("größe").expect("fits"),
            ranges: InlineVec::from_slice(&[0.1, f32::NAN]).expect("fits"),
            blob: [255; 72],
            few: [1; 8],
        };
        let description = Description::of::<Scan>();
        let said = json(&description, scan.as_bytes(), Blobs::Base64).expect("JSON");
        assert_eq!(said["name"], "größe");
        assert_eq!(said["ranges"], json!([0.1, null]));
        assert_eq!(said["blob"], "/".repeat(96));
        assert_eq!(said["few"], json!([1, 1, 1, 1, 1, 1, 1, 1]));
        let properties = &schema(&description, Blobs::Base64)["properties"];
        assert_eq!(properties["name"], json!({"type": "string"}));
        assert_eq!(properties["ranges"], json!({"type": "array", "items": {"type": "number"}}));
        assert_eq!(properties["blob"], blob());
        assert_eq!(properties["few"], json!({"type": "array", "items": {"type": "integer"}}));
        let numbers = json(&description, scan.as_bytes(), Blobs::Numbers).expect("JSON");
        assert_eq!(numbers["blob"].as_array().map(Vec::len), Some(72));
        // What was written is read again as it was, but for the number that is none.
        let again = super::super::parsed(&description, numbers.to_string().as_bytes());
        assert_eq!(again.expect("a message").len(), size_of::<Scan>());
    }

    #[test]
    fn what_is_no_struct_is_in_an_object() {
        let number = Description::of::<f64>();
        assert_eq!(json(&number, &1.5_f64.to_ne_bytes(), Blobs::Base64), Ok(json!({"value": 1.5})));
        let slice = Description::of::<[u16; 2]>().slice().expect("possible");
        let said = json(&slice, &[1, 0, 2, 0, 3, 0, 4, 0], Blobs::Base64);
        assert_eq!(said, Ok(json!({"values": [[1, 2], [3, 4]]})));
        assert_eq!(schema(&slice, Blobs::Base64)["properties"]["values"]["type"], "array");
        assert!(json(&number, &[0; 7], Blobs::Base64).is_err());
    }

    #[test]
    fn hostile_lengths_and_long_messages_end() {
        let description = Description::of::<Scan>();
        let said = json(&description, &[255; size_of::<Scan>()], Blobs::Base64).expect("JSON");
        assert_eq!(said["ranges"].as_array().map(Vec::len), Some(2));
        let long = Description::of::<f64>().slice().expect("possible");
        assert!(json(&long, &vec![1; 64 << 20], Blobs::Base64).is_err());
    }
}
