//! A description as bytes: doc/memory-layout.md has the table.
//!
//! What is read may be of any program, so each length is checked, and nesting and the number of
//! fields are bounded before memory is taken for them. `Description::flaw` checks what the numbers
//! mean.

use super::{
    Description, ENCODINGS, Field, Item, MOST_DEPTH, MOST_EXTENTS, MOST_FIELDS, MOST_NAME, NUMBERS,
    Struct,
};

const VERSION: u8 = 1;
const SLICE: u8 = 1;
/// Of a service: the description of its replies follows that of its requests.
const REPLY: u8 = 2;
/// The tail follows behind the struct, as a field.
const TAIL: u8 = 4;
/// The code of a nested type; numbers have those of `NUMBERS`.
const NESTED: u8 = 64;

pub(super) fn written(description: &Description) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    let has_reply = u8::from(description.reply.is_some()) * REPLY;
    write_one(&mut bytes, description, has_reply);
    if let Some(reply) = description.reply() {
        write_one(&mut bytes, reply, 0);
    }
    bytes
}

fn write_one(bytes: &mut Vec<u8>, description: &Description, flags: u8) {
    let encoding =
        ENCODINGS.iter().find(|known| known.0 == description.encoding).map_or(0, |known| known.1);
    let flags = flags
        | (u8::from(description.is_slice) * SLICE)
        | (u8::from(description.tail.is_some()) * TAIL);
    bytes.extend_from_slice(&[encoding, flags, 0]);
    write_name(bytes, &description.name);
    write_struct(bytes, &description.shape);
    if let Some(tail) = &description.tail {
        write_field(bytes, tail);
    }
}

fn write_name(bytes: &mut Vec<u8>, name: &str) {
    // `Description::checked` has refused a longer one.
    let name = &name.as_bytes()[..name.len().min(255)];
    bytes.push(name.len() as u8);
    bytes.extend_from_slice(name);
}

fn write_struct(bytes: &mut Vec<u8>, shape: &Struct) {
    bytes.extend_from_slice(&shape.size.to_le_bytes());
    bytes.extend_from_slice(&shape.align.to_le_bytes());
    bytes.extend_from_slice(&(shape.fields.len() as u16).to_le_bytes());
    for field in &shape.fields {
        write_field(bytes, field);
    }
}

fn write_field(bytes: &mut Vec<u8>, field: &Field) {
    write_name(bytes, &field.name);
    bytes.extend_from_slice(&field.offset.to_le_bytes());
    bytes.push(field.extents.len() as u8);
    field.extents.iter().for_each(|extent| bytes.extend_from_slice(&extent.to_le_bytes()));
    match &field.item {
        Item::Number(number) => bytes.push(number.known().1),
        Item::Struct(nested) => {
            bytes.push(NESTED);
            write_struct(bytes, nested);
        }
    }
}

pub(super) fn read(bytes: &[u8]) -> Option<Description> {
    let mut reader = Reader { rest: bytes, fields: 0 };
    let [version] = reader.take()?;
    let (mut description, has_reply) = reader.one(REPLY)?;
    if has_reply {
        description.reply = Some(Box::new(reader.one(0)?.0));
    }
    (version == VERSION && reader.rest.is_empty()).then_some(description)
}

struct Reader<'a> {
    rest: &'a [u8],
    fields: usize,
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    /// Reads one description; `reply`: the flag that says that another one follows, if it may be set.
    fn one(&mut self, reply: u8) -> Option<(Description, bool)> {
        let [encoding, flags, reserved] = self.take()?;
        if flags & !(SLICE | TAIL | reply) != 0 || reserved != 0 {
            return None;
        }
        let encoding = ENCODINGS.iter().find(|known| known.1 == encoding)?.0;
        let name = self.name()?;
        let shape = self.shape(1)?;
        let tail = if flags & TAIL == 0 { None } else { Some(self.tail()?) };
        let is_slice = flags & SLICE != 0;
        let description = Description { name, encoding, is_slice, shape, tail, reply: None };
        Some((description, flags & REPLY != 0))
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn name(&mut self) -> Option<String> {
        let len = usize::from(self.byte()?);
        let (name, rest) = self.rest.split_at_checked(len).filter(|_| len <= MOST_NAME)?;
        self.rest = rest;
        String::from_utf8(name.to_vec()).ok()
    }

    fn shape(&mut self, depth: usize) -> Option<Struct> {
        if depth > MOST_DEPTH {
            return None;
        }
        let (size, align) = (self.word()?, self.word()?);
        let count = usize::from(u16::from_le_bytes(self.take()?));
        self.fields += count;
        if self.fields > MOST_FIELDS {
            return None;
        }
        let fields = (0..count).map(|_| self.field(depth)).collect::<Option<_>>()?;
        Some(Struct { size, align, fields })
    }

    fn tail(&mut self) -> Option<Field> {
        self.fields += 1;
        if self.fields > MOST_FIELDS { None } else { self.field(1) }
    }

    fn field(&mut self, depth: usize) -> Option<Field> {
        let name = self.name()?;
        let offset = self.word()?;
        let extents = usize::from(self.byte()?);
        if extents > MOST_EXTENTS {
            return None;
        }
        let extents = (0..extents).map(|_| self.word()).collect::<Option<_>>()?;
        let item = match self.byte()? {
            NESTED => Item::Struct(self.shape(depth + 1)?),
            code => Item::Number(NUMBERS.iter().find(|known| known.1 == code)?.0),
        };
        Some(Field { name, offset, extents, item })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::describe::{Encoding, Number};

    fn pose() -> Description {
        let number = |name: &str, offset, extents: &[u32], number| Field {
            name: name.into(),
            offset,
            extents: extents.to_vec(),
            item: Item::Number(number),
        };
        let point = Struct {
            size: 16,
            align: 8,
            fields: vec![number("x", 0, &[], Number::F64), number("y", 8, &[], Number::F64)],
        };
        let corners = Field {
            name: "corners".into(),
            offset: 8,
            extents: vec![2, 4],
            item: Item::Struct(point),
        };
        let fields = vec![number("id", 0, &[], Number::U32), corners];
        Description::raw("Pose", Struct { size: 136, align: 8, fields }).expect("possible")
    }

    fn with_tail() -> Description {
        let item = Item::Number(Number::U16);
        let tail = Field { name: "words".into(), offset: 136, extents: vec![3], item };
        pose().with_tail(tail).expect("possible")
    }

    #[test]
    fn what_is_written_is_read() {
        let encoded = Description::encoded("a/b", Encoding::Cdr).expect("possible");
        let slice = pose().slice().expect("possible");
        let service = slice.clone().with_reply(encoded.clone()).expect("possible");
        for one in [pose(), slice, encoded, service, with_tail()] {
            assert_eq!(Description::from_bytes(&one.to_bytes()), Some(one));
        }
    }

    /// Every byte changed to every value: it is refused, or means something that can be written.
    #[test]
    fn changed_bytes_are_refused_or_mean_something_else() {
        changed(&pose());
        changed(&pose().with_reply(Description::of::<u32>()).expect("possible"));
        changed(&with_tail());
    }

    fn changed(description: &Description) {
        let bytes = description.to_bytes();
        for at in 0..bytes.len() {
            assert_eq!(Description::from_bytes(&bytes[..at]), None, "cut at {at}");
            for value in 0..=255 {
                let mut changed = bytes.clone();
                changed[at] = value;
                if let Some(read) = Description::from_bytes(&changed) {
                    assert_eq!(read.to_bytes(), changed, "byte {at} is {value}");
                }
            }
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Description::from_bytes(&longer), None, "bytes behind it");
    }
}
