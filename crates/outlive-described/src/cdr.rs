//! Described values as ROS 2's readers know them: a schema in `ros2msg`, and bytes in CDR.
//!
//! A value that lies in memory as C lays it out lies in CDR alike, but for padding before and behind
//! nested types. Where there is none of that, the value's own bytes are its CDR, behind four bytes
//! that say so, and nothing is copied. Other values are copied, field by field.

mod decode;

use std::ops::Range;

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};

pub use self::decode::SOME;

/// What CDR begins with: version 1, little-endian.
const HEAD: [u8; 4] = [0, 1, 0, 0];
/// Elements of an array whose places show those of all: places repeat after so many at the latest.
const PERIOD: u64 = 16;

/// How the values of one type become CDR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdr {
    description: Description,
    /// A value's own bytes are its CDR, up to the padding at their end.
    is_direct: bool,
}

/// A value in CDR.
pub enum Encoded {
    /// These bytes, and then so many of the value's own.
    Direct {
        /// The bytes in front of them.
        prefix: Prefix,
        /// How many of the value's bytes follow.
        len: usize,
    },
    /// The bytes are in the buffer.
    Copied,
}

/// What stands before a value's own bytes.
#[derive(Clone, Copy)]
pub struct Prefix {
    bytes: [u8; 12],
    len: usize,
}

impl Prefix {
    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Cdr {
    /// Returns how values of that type become CDR; `None`: they are not described by fields.
    pub fn of(description: Description) -> Option<Cdr> {
        if description.encoding() != Encoding::Raw || cfg!(target_endian = "big") {
            return None;
        }
        let shape = description.shape();
        let begin = list_begin(&description);
        let is_direct = match description.is_slice() {
            // The first elements show all of them.
            true => {
                let mut at = begin;
                (0..PERIOD).all(|number| {
                    let from = begin + number * u64::from(shape.size);
                    walk(shape, &mut at, from)
                })
            }
            false => description.tail().is_none() && walk(shape, &mut 0, 0),
        };
        Some(Cdr { description, is_direct })
    }

    /// Returns the description of the values.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// Returns where in its CDR the bytes of a value lie as they are, to the last one. `None`: the value has to
    /// be decoded, also where nothing but the padding at its end is missing.
    pub fn lies_in(&self, cdr: &[u8]) -> Option<Range<usize>> {
        let shape = self.description.shape();
        if !self.is_direct || end_of(shape) != shape.size {
            return None;
        }
        let len = self.decoded_len(cdr)?;
        let from = HEAD.len() + if len == 0 { 0 } else { list_begin(&self.description) as usize };
        Some(from..from + len)
    }

    /// Returns the type's own name; that of its topic if it has none.
    pub fn base(&self, topic: &str) -> String {
        match self.description.name() {
            "" => base_name(topic),
            name => base_name(name),
        }
    }

    /// Returns the type's name in ROS's form, and its definition, with those that it uses, in `ros2msg`.
    /// The names of those begin with `base`.
    pub fn schema(&self, base: &str) -> (String, String) {
        let mut nested = Vec::new();
        let mut text = String::new();
        match self.description.is_slice() {
            false => write_fields(&mut text, self.description.shape(), base, &mut nested),
            true => {
                let item = match self.description.single() {
                    Some(field) if field.extents.is_empty() => {
                        type_name(&field.item, "", &mut nested)
                    }
                    _ => {
                        nested.push((format!("{base}Item"), self.description.shape().clone()));
                        format!("{base}Item")
                    }
                };
                text.push_str(&format!("{item}[] items\n"));
            }
        }
        if let Some(tail) = self.description.tail() {
            let names = field_names(&self.description.shape().fields);
            let name = unlike(field_name(&tail.name), |name| names.iter().any(|one| one == name));
            let item = type_name(&tail.item, &format!("{base}_{name}"), &mut nested);
            text.push_str(&format!("{item}[] {name}\n"));
        }
        let mut at = 0;
        while at < nested.len() {
            let (name, shape) = nested[at].clone();
            text.push_str(&format!("{}\nMSG: outlive/{name}\n", "=".repeat(80)));
            write_fields(&mut text, &shape, &name, &mut nested);
            at += 1;
        }
        (format!("outlive/msg/{base}"), text)
    }

    /// Returns a value in CDR, or `None` if the bytes are no value of the type. `copy` is emptied, and
    /// used where the bytes have to be copied.
    pub fn encode(&self, value: &[u8], copy: &mut Vec<u8>) -> Option<Encoded> {
        if !self.description.fits(value.len()) {
            return None;
        }
        let shape = self.description.shape();
        let size = shape.size as usize;
        let count = value.len().checked_div(size).unwrap_or(0);
        if self.is_direct {
            let mut prefix = Prefix { bytes: [0; 12], len: HEAD.len() };
            prefix.bytes[..4].copy_from_slice(&HEAD);
            if self.description.is_slice() {
                prefix.bytes[4..8].copy_from_slice(&(count as u32).to_le_bytes());
                prefix.len =
                    if count == 0 { 8 } else { 4 + list_begin(&self.description) as usize };
            }
            let padding = (shape.size - end_of(shape)) as usize;
            let len = if count == 0 { 0 } else { value.len() - padding };
            return Some(Encoded::Direct { prefix, len });
        }
        copy.clear();
        copy.extend_from_slice(&HEAD);
        match self.description.is_slice() {
            true => {
                push_number(copy, &(count as u32).to_le_bytes());
                for value in value.chunks_exact(size.max(1)) {
                    push_struct(copy, shape, value);
                }
            }
            false => push_struct(copy, shape, value.get(..size)?),
        }
        if let Some(tail) = self.description.tail() {
            let items = value.get(tail.offset as usize..).unwrap_or_default();
            let one = tail.item.bytes().max(1) as usize;
            push_number(copy, &((items.len() / one) as u32).to_le_bytes());
            match &tail.item {
                Item::Number(number) if !items.is_empty() => {
                    align(copy, number.bytes() as usize);
                    copy.extend_from_slice(&items[..items.len() / one * one]);
                }
                item => items.chunks_exact(one).for_each(|bytes| push_item(copy, item, bytes)),
            }
        }
        Some(Encoded::Copied)
    }
}

/// Returns where a list's first element begins behind the head: its count, and padding.
fn list_begin(description: &Description) -> u64 {
    match (description.is_slice(), description.shape().align) {
        (false, _) => 0,
        (true, ..=4) => 4,
        (true, _) => 8,
    }
}

/// Moves `at` over a struct in CDR that lies at `from` in memory; returns whether all its numbers have the
/// same places in both.
fn walk(shape: &Struct, at: &mut u64, from: u64) -> bool {
    shape.fields.iter().all(|field| {
        let begin = from + u64::from(field.offset);
        match &field.item {
            Item::Number(number) => {
                let bytes = u64::from(number.bytes());
                *at = at.next_multiple_of(bytes);
                let is_there = *at == begin;
                *at += bytes * field.count();
                is_there
            }
            Item::Struct(nested) => {
                let size = u64::from(nested.size);
                let some = field.count().min(PERIOD);
                let are_there = (0..some).all(|number| walk(nested, at, begin + number * size));
                *at += (field.count() - some) * size;
                are_there
            }
            _ => false,
        }
    })
}

/// Returns where the last number of a struct ends.
fn end_of(shape: &Struct) -> u32 {
    shape.fields.last().map_or(0, |field| {
        let before = field.bytes() as u32 - field.item.bytes();
        field.offset
            + before
            + match &field.item {
                Item::Struct(nested) => end_of(nested),
                item => item.bytes(),
            }
    })
}

fn align(bytes: &mut Vec<u8>, to: usize) {
    let at = bytes.len() - HEAD.len();
    bytes.resize(HEAD.len() + at.next_multiple_of(to), 0);
}

fn push_number(bytes: &mut Vec<u8>, number: &[u8]) {
    align(bytes, number.len());
    bytes.extend_from_slice(number);
}

fn push_item(bytes: &mut Vec<u8>, item: &Item, value: &[u8]) {
    match item {
        Item::Struct(nested) => push_struct(bytes, nested, value),
        _ => push_number(bytes, value),
    }
}

fn push_struct(bytes: &mut Vec<u8>, shape: &Struct, value: &[u8]) {
    for field in &shape.fields {
        let begin = field.offset as usize;
        let Some(value) = value.get(begin..begin + field.bytes() as usize) else { continue };
        match &field.item {
            Item::Number(number) => {
                align(bytes, number.bytes() as usize);
                bytes.extend_from_slice(value);
            }
            item => {
                let one = item.bytes().max(1) as usize;
                value.chunks_exact(one).for_each(|value| push_item(bytes, item, value));
            }
        }
    }
}

/// Returns a name that none of these have: with a number behind it, if it needs one.
fn unlike(name: String, taken: impl Fn(&str) -> bool) -> String {
    if !taken(&name) {
        return name;
    }
    let numbered = (2_u32..).map(|number| format!("{name}{number}"));
    numbered.into_iter().find(|name| !taken(name)).unwrap_or(name)
}

/// Returns the name of a type as ROS's names may be: letters and digits, a letter first.
fn base_name(name: &str) -> String {
    let last = name.rsplit(['/', ':', '.']).next().unwrap_or_default();
    let last = last.trim_matches(['[', ']']).split(['<', ';']).next().unwrap_or_default();
    let name: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
    match name.chars().next() {
        Some(first) if first.is_ascii_alphabetic() => {
            first.to_ascii_uppercase().to_string() + &name[1..]
        }
        _ => format!("Message{name}"),
    }
}

/// Returns the name of a field as ROS's may be: small letters, digits and single underscores.
fn field_name(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' };
        if c != '_' || !out.ends_with('_') {
            out.push(c);
        }
    }
    let out = out.trim_matches('_');
    match out.chars().next() {
        None => "data".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("f{out}"),
        Some(_) => out.to_owned(),
    }
}

/// Returns the names of a struct's fields. Two that differ by what ROS's names do not have would be one: the
/// second one has a number behind it.
fn field_names(fields: &[Field]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for field in fields {
        let name = unlike(field_name(&field.name), |name| names.iter().any(|one| one == name));
        names.push(name);
    }
    names
}

fn number_name(number: Number) -> &'static str {
    match number {
        Number::Bool => "bool",
        Number::U8 => "uint8",
        Number::I8 => "int8",
        Number::U16 => "uint16",
        Number::I16 => "int16",
        Number::U32 => "uint32",
        Number::I32 => "int32",
        Number::U64 => "uint64",
        Number::I64 => "int64",
        Number::F32 => "float32",
        _ => "float64",
    }
}

/// Returns the name of an item's type; that of a nested one is noted, with its fields.
fn type_name(item: &Item, own: &str, nested: &mut Vec<(String, Struct)>) -> String {
    match item {
        Item::Number(number) => number_name(*number).to_owned(),
        Item::Struct(shape) => {
            let name: String = own.split('_').map(capital).collect();
            // Two types' names may differ by more than ROS's names can.
            let is_other = |name: &str| nested.iter().any(|(one, of)| one == name && of != shape);
            let name = unlike(name, is_other);
            if !nested.iter().any(|(one, _)| *one == name) {
                nested.push((name.clone(), shape.clone()));
            }
            format!("outlive/{name}")
        }
        _ => "uint8".to_owned(),
    }
}

fn capital(word: &str) -> String {
    let mut chars = word.chars();
    chars
        .next()
        .map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + chars.as_str())
}

fn write_fields(
    text: &mut String,
    shape: &Struct,
    owner: &str,
    nested: &mut Vec<(String, Struct)>,
) {
    for (field, name) in shape.fields.iter().zip(field_names(&shape.fields)) {
        let kind = type_name(&field.item, &format!("{owner}_{name}"), nested);
        let array = match field {
            Field { extents, .. } if extents.is_empty() => String::new(),
            field => format!("[{}]", field.count()),
        };
        text.push_str(&format!("{kind}{array} {name}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, offset: u32, number: Number, extents: &[u32]) -> Field {
        let item = Item::Number(number);
        Field { name: name.to_owned(), offset, extents: extents.to_vec(), item }
    }

    fn nested(name: &str, offset: u32, shape: &Struct, extents: &[u32]) -> Field {
        let item = Item::Struct(shape.clone());
        Field { name: name.to_owned(), offset, extents: extents.to_vec(), item }
    }

    fn shape(size: u32, align: u32, fields: Vec<Field>) -> Struct {
        Struct { size, align, fields }
    }

    fn cdr(shape: &Struct) -> Cdr {
        Cdr::of(Description::raw("t", shape.clone()).expect("no flaw")).expect("fields")
    }

    fn list(shape: &Struct) -> Cdr {
        let description = Description::raw("t", shape.clone()).and_then(Description::slice);
        Cdr::of(description.expect("no flaw")).expect("fields")
    }

    /// Encodes by copying, whatever the way is that was chosen.
    fn copied(cdr: &Cdr, value: &[u8]) -> Vec<u8> {
        let copying = Cdr { description: cdr.description.clone(), is_direct: false };
        let mut out = Vec::new();
        assert!(matches!(copying.encode(value, &mut out), Some(Encoded::Copied)));
        out
    }

    #[test]
    fn what_is_taken_as_it_lies_is_what_a_copy_would_be() {
        let padded =
            shape(16, 8, vec![number("a", 0, Number::F64, &[]), number("b", 8, Number::U8, &[])]);
        let small =
            shape(6, 2, vec![number("a", 0, Number::U16, &[2]), number("b", 4, Number::U8, &[])]);
        let late =
            shape(24, 8, vec![number("x", 0, Number::U32, &[]), nested("in", 8, &padded, &[])]);
        let rows = shape(64, 8, vec![nested("rows", 0, &padded, &[2, 2])]);
        let wide = shape(4, 4, vec![number("a", 0, Number::F32, &[])]);
        let odd =
            shape(12, 4, vec![nested("in", 0, &small, &[]), number("c", 8, Number::U32, &[])]);
        for (at, (shape, is_direct, is_direct_list)) in [
            // Its end is padding, which the next element's first number finds as well.
            (&padded, true, true),
            (&small, true, true),
            // A nested type begins at its own alignment in memory.
            (&late, true, false),
            (&rows, true, true),
            (&wide, true, true),
            (&odd, true, true),
        ]
        .into_iter()
        .enumerate()
        {
            for count in [0, 1, 2, 5] {
                let (cdr, is_direct) = match count {
                    1 => (cdr(shape), is_direct),
                    _ => (list(shape), is_direct_list),
                };
                let value: Vec<u8> = (1..=255).cycle().take(count * shape.size as usize).collect();
                let mut out = Vec::new();
                let Some(Encoded::Direct { prefix, len }) = cdr.encode(&value, &mut out) else {
                    assert!(!is_direct, "{at}: {count}");
                    continue;
                };
                let direct = [prefix.bytes(), &value[..len]].concat();
                let mut wanted = copied(&cdr, &value);
                assert_eq!(direct.len(), wanted.len(), "{at}: {count}");
                // Padding may have any value.
                for (byte, found) in wanted.iter_mut().zip(&direct) {
                    if *byte == 0 {
                        *byte = *found;
                    }
                }
                assert_eq!(direct, wanted, "{at}: {count}");
            }
        }
        // A byte before a nested type with a larger alignment, which CDR does not have.
        let inner =
            shape(8, 4, vec![number("b", 0, Number::U8, &[]), number("w", 4, Number::U32, &[])]);
        let outer =
            shape(12, 4, vec![number("a", 0, Number::U8, &[]), nested("in", 4, &inner, &[])]);
        assert!(!cdr(&outer).is_direct);
        let value = [1, 9, 9, 9, 2, 9, 9, 9, 3, 4, 5, 6];
        assert_eq!(copied(&cdr(&outer), &value), [0, 1, 0, 0, 1, 2, 0, 0, 3, 4, 5, 6]);
    }

    #[test]
    fn bytes_that_are_no_value_are_none() {
        let value = shape(4, 4, vec![number("a", 0, Number::F32, &[])]);
        assert!(cdr(&value).encode(&[0; 3], &mut Vec::new()).is_none());
        assert!(list(&value).encode(&[0; 6], &mut Vec::new()).is_none());
    }

    #[test]
    fn names_are_such_as_ros_has() {
        for (name, wanted) in [
            ("robot::Pose", "Pose"),
            ("sensor_msgs/msg/Image", "Image"),
            ("f64", "F64"),
            // It has the name of the topic.
            ("", "Front"),
            ("[u8; 4]", "U8"),
            ("9x", "Message9x"),
        ] {
            let shape = shape(1, 1, vec![number("a", 0, Number::U8, &[])]);
            let Ok(description) = Description::raw(name, shape) else { continue };
            let cdr = Cdr::of(description).expect("fields");
            assert_eq!(cdr.base("camera.front"), wanted, "{name}");
        }
        for (name, wanted) in
            [("Angle", "angle"), ("x__y_", "x_y"), ("3d", "f3d"), ("", "data"), ("größe", "gr_e")]
        {
            assert_eq!(field_name(name), wanted);
        }
    }

    /// ROS has small letters alone.
    #[test]
    fn names_that_differ_by_case_are_two_fields_and_two_types() {
        let (one, other) = (
            shape(1, 1, vec![number("x", 0, Number::U8, &[])]),
            shape(1, 1, vec![number("y", 0, Number::I8, &[])]),
        );
        let shape = shape(
            8,
            1,
            vec![
                number("Speed", 0, Number::U8, &[]),
                number("speed", 1, Number::U8, &[]),
                number("speed2", 2, Number::U8, &[]),
                number("SPEED", 3, Number::U8, &[]),
                nested("in_a", 4, &one, &[]),
                nested("inA", 5, &one, &[]),
                nested("In_A", 6, &other, &[]),
                number("_", 7, Number::U8, &[]),
            ],
        );
        let (_, text) = cdr(&shape).schema("T");
        let fields: Vec<_> =
            text.lines().take(8).map(|line| line.replace("outlive/", "")).collect();
        assert_eq!(
            fields,
            [
                "uint8 speed",
                "uint8 speed2",
                "uint8 speed22",
                "uint8 speed3",
                "TInA in_a",
                "TIna ina",
                "TInA2 in_a2",
                "uint8 data"
            ]
        );
        for name in ["TInA", "TIna", "TInA2"] {
            assert_eq!(text.matches(&format!("MSG: outlive/{name}\n")).count(), 1, "{text}");
        }
    }
}
