//! The way back: from CDR, which may be hostile, to the bytes of a value.
//!
//! Each length is compared with the bytes that are there before it is used, so a value never takes more
//! memory than its CDR and the padding that its type has.

use std::ops::Range;

use outlive::describe::{Item, Struct};

use super::{Cdr, HEAD, end_of, list_begin};

/// So many bytes of a value's CDR say how long it is.
pub const SOME: usize = HEAD.len() + 4;
/// The most bytes of a value: what a chunk of a file holds at most.
const MOST: u64 = 1 << 30;

impl Cdr {
    /// Returns the length of the value; `None`: these bytes are none of the type.
    pub fn decoded_len(&self, cdr: &[u8]) -> Option<usize> {
        let description = &self.description;
        let body = cdr.strip_prefix(&HEAD)?;
        if self.is_direct {
            return self.direct_len(body, body.len());
        }
        let shape = description.shape();
        let size = u64::from(shape.size);
        let len = if description.is_slice() {
            let count = u64::from(u32_at(body, 0)?);
            has_room(shape, count, body.len())?;
            count.checked_mul(size)?
        } else {
            match description.tail() {
                None => size,
                Some(tail) => {
                    let mut walk = Walk { body, at: 0, out: None };
                    walk.value(shape, 0)?;
                    let count = u64::from(walk.count()?);
                    let left = body.len() - walk.at;
                    match &tail.item {
                        Item::Struct(item) => has_room(item, count, left)?,
                        item if count * u64::from(item.bytes()) > left as u64 => return None,
                        _ => {}
                    }
                    u64::from(tail.offset) + count.checked_mul(tail.item.bytes().into())?
                }
            }
        };
        let len = usize::try_from(len).ok().filter(|_| len <= MOST)?;
        description.fits(len).then_some(len)
    }

    /// Returns how long the value is whose CDR has `len` bytes, of which `head` are the first [`SOME`], and where its
    /// bytes lie in there, if they are as they lie in memory. Padding behind them is not among them.
    pub fn direct(&self, head: &[u8], len: usize) -> Option<(usize, Range<usize>)> {
        let body = head.strip_prefix(&HEAD).filter(|_| self.is_direct)?;
        let there = len.checked_sub(HEAD.len())?;
        let whole = self.direct_len(body, there)?;
        let from = if whole == 0 { 0 } else { list_begin(&self.description) as usize };
        let some = whole.min(there.checked_sub(from)?);
        Some((whole, HEAD.len() + from..HEAD.len() + from + some))
    }

    /// Returns the length of such a value, by the first bytes behind the head, and how many there are.
    fn direct_len(&self, body: &[u8], there: usize) -> Option<usize> {
        let (description, there) = (&self.description, there as u64);
        let (shape, size) = (description.shape(), u64::from(description.shape().size));
        let len = match description.is_slice() {
            true => {
                let count = u64::from(u32_at(body, 0)?);
                let len = count.checked_mul(size)?;
                let padding = size - u64::from(end_of(shape));
                let there = there.saturating_sub(list_begin(description));
                (count == 0 || there >= len - padding).then_some(len)?
            }
            false => (there >= u64::from(end_of(shape))).then_some(size)?,
        };
        let len = usize::try_from(len).ok().filter(|_| len <= MOST)?;
        description.fits(len).then_some(len)
    }

    /// Writes the value, which has [`decoded_len`](Cdr::decoded_len) bytes. `None`: these bytes are none of
    /// the type, and `out` has anything.
    pub fn decode(&self, cdr: &[u8], out: &mut [u8]) -> Option<()> {
        let description = &self.description;
        let body = cdr.strip_prefix(&HEAD)?;
        let shape = description.shape();
        if self.is_direct {
            let from = if out.is_empty() { 0 } else { list_begin(description) };
            let bytes = body.get(from as usize..)?;
            // Behind the last value's end there may be nothing.
            let (value, padding) = out.split_at_mut(out.len().min(bytes.len()));
            value.copy_from_slice(&bytes[..value.len()]);
            padding.fill(0);
            return Some(());
        }
        out.fill(0);
        let len = out.len();
        let mut walk = Walk { body, at: 0, out: Some(out) };
        let size = shape.size as usize;
        match description.is_slice() {
            true => {
                let count = walk.count()? as usize;
                for number in 0..count {
                    walk.value(shape, number.checked_mul(size)?)?;
                }
            }
            false => walk.value(shape, 0)?,
        }
        if let Some(tail) = description.tail() {
            let count = walk.count()? as usize;
            let (begin, one) = (tail.offset as usize, tail.item.bytes().max(1) as usize);
            if begin.checked_add(count.checked_mul(one)?)? > len {
                return None;
            }
            match &tail.item {
                Item::Number(_) if count == 0 => {}
                Item::Number(number) => {
                    walk.numbers(number.bytes() as usize, begin, count * one)?;
                }
                item => {
                    for number in 0..count {
                        walk.item(item, begin + number * one)?;
                    }
                }
            }
        }
        Some(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Returns how many bytes a struct has in CDR at least.
fn least(shape: &Struct) -> u64 {
    let fields = shape.fields.iter();
    fields.fold(0, |sum, field| {
        let one = match &field.item {
            Item::Struct(nested) => least(nested),
            item => item.bytes().into(),
        };
        sum.saturating_add(field.count().saturating_mul(one))
    })
}

/// Returns whether so many structs can be in so many bytes. Of a type without fields none can: what it has is
/// not in CDR.
fn has_room(shape: &Struct, count: u64, bytes: usize) -> Option<()> {
    let least = least(shape);
    let is_there = count == 0 || least > 0 && count.checked_mul(least)? <= bytes as u64;
    is_there.then_some(())
}

/// A walk over a value in CDR, which is written where it belongs; without `out` it is looked at alone.
struct Walk<'a> {
    body: &'a [u8],
    at: usize,
    out: Option<&'a mut [u8]>,
}

impl Walk<'_> {
    fn count(&mut self) -> Option<u32> {
        self.at = self.at.next_multiple_of(4);
        let count = u32_at(self.body, self.at)?;
        self.at += 4;
        Some(count)
    }

    /// Takes numbers of `one` byte or more each, `len` bytes in all.
    fn numbers(&mut self, one: usize, to: usize, len: usize) -> Option<()> {
        self.at = self.at.next_multiple_of(one);
        let bytes = self.body.get(self.at..self.at.checked_add(len)?)?;
        if let Some(out) = &mut self.out {
            out.get_mut(to..to.checked_add(len)?)?.copy_from_slice(bytes);
        }
        self.at += len;
        Some(())
    }

    fn item(&mut self, item: &Item, to: usize) -> Option<()> {
        match item {
            Item::Struct(nested) => self.value(nested, to),
            item => self.numbers(item.bytes().max(1) as usize, to, item.bytes() as usize),
        }
    }

    fn value(&mut self, shape: &Struct, to: usize) -> Option<()> {
        for field in &shape.fields {
            let begin = to.checked_add(field.offset as usize)?;
            match &field.item {
                Item::Number(number) => {
                    let len = usize::try_from(field.bytes()).ok()?;
                    self.numbers(number.bytes() as usize, begin, len)?;
                }
                // Of what has no numbers there may be a great many.
                Item::Struct(nested) if field.count() > 64 && least(nested) == 0 => {}
                item => {
                    let one = item.bytes().max(1) as usize;
                    for number in 0..field.count() as usize {
                        self.item(item, begin.checked_add(number.checked_mul(one)?)?)?;
                    }
                }
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use outlive::describe::{Description, Field, Number};

    use super::super::Encoded;
    use super::*;

    fn field(name: &str, offset: u32, extents: &[u32], item: Item) -> Field {
        Field { name: name.to_owned(), offset, extents: extents.to_vec(), item }
    }

    fn number(name: &str, offset: u32, number: Number, extents: &[u32]) -> Field {
        field(name, offset, extents, Item::Number(number))
    }

    fn shape(size: u32, align: u32, fields: Vec<Field>) -> Struct {
        Struct { size, align, fields }
    }

    /// Types with padding in all places, alone, as lists, and with tails.
    fn types() -> Vec<Description> {
        let padded =
            shape(16, 8, vec![number("a", 0, Number::F64, &[]), number("b", 8, Number::U8, &[])]);
        let small =
            shape(6, 2, vec![number("a", 0, Number::U16, &[2]), number("b", 4, Number::U8, &[])]);
        let inner =
            shape(8, 4, vec![number("b", 0, Number::U8, &[]), number("w", 4, Number::U32, &[])]);
        let outer = shape(
            28,
            4,
            vec![
                number("a", 0, Number::U8, &[]),
                field("in", 4, &[3], Item::Struct(inner.clone())),
            ],
        );
        let head = shape(8, 8, vec![number("n", 0, Number::U32, &[])]);
        let raw = |shape: &Struct| Description::raw("t", shape.clone()).expect("no flaw");
        let mut all = Vec::new();
        for shape in [&padded, &small, &inner, &outer] {
            all.push(raw(shape));
            all.push(raw(shape).slice().expect("no flaw"));
        }
        for tail in [
            number("tail", 8, Number::F64, &[]),
            number("tail", 8, Number::U8, &[]),
            field("tail", 8, &[], Item::Struct(outer)),
        ] {
            all.push(raw(&head).with_tail(tail).expect("no flaw"));
        }
        all
    }

    /// Returns the bytes that are fields, which padding is not.
    fn mask(shape: &Struct, out: &mut [bool]) {
        for field in &shape.fields {
            let one = field.item.bytes() as usize;
            for at in 0..field.count() as usize {
                let begin = field.offset as usize + at * one;
                match &field.item {
                    Item::Struct(nested) => mask(nested, &mut out[begin..begin + one]),
                    _ => out[begin..begin + one].fill(true),
                }
            }
        }
    }

    fn mask_of(description: &Description, len: usize) -> Vec<bool> {
        let mut out = vec![false; len];
        let size = description.shape().size as usize;
        match description.is_slice() {
            true => out.chunks_mut(size).for_each(|one| mask(description.shape(), one)),
            false => {
                mask(description.shape(), &mut out[..size]);
                if let Some(tail) = description.tail() {
                    for one in out[size..].chunks_mut(tail.item.bytes() as usize) {
                        match &tail.item {
                            Item::Struct(nested) => mask(nested, one),
                            _ => one.fill(true),
                        }
                    }
                }
            }
        }
        out
    }

    fn lens(description: &Description) -> Vec<usize> {
        let size = description.shape().size as usize;
        match (description.is_slice(), description.tail()) {
            (true, _) => [0, 1, 2, 7].map(|count| count * size).to_vec(),
            (false, None) => vec![size],
            (false, Some(tail)) => {
                [0, 1, 2, 7].map(|count| size + count * tail.item.bytes() as usize).to_vec()
            }
        }
    }

    fn encoded(cdr: &Cdr, value: &[u8]) -> Vec<u8> {
        let mut copy = Vec::new();
        match cdr.encode(value, &mut copy).expect("a value") {
            Encoded::Copied => copy,
            Encoded::Direct { prefix, len } => [prefix.bytes(), &value[..len]].concat(),
        }
    }

    #[test]
    fn a_value_comes_back_but_for_its_padding() {
        for description in types() {
            let cdr = Cdr::of(description.clone()).expect("fields");
            for len in lens(&description) {
                let value: Vec<u8> = (1..=251).cycle().take(len).collect();
                let bytes = encoded(&cdr, &value);
                assert_eq!(cdr.decoded_len(&bytes), Some(len), "{description}");
                let mut out = vec![0xee; len];
                cdr.decode(&bytes, &mut out).expect("a value");
                // The same, from where its bytes lie.
                let direct = cdr.direct(&bytes[..bytes.len().min(SOME)], bytes.len());
                assert_eq!(direct.is_some(), cdr.is_direct, "{description}");
                if let Some((whole, range)) = direct {
                    assert_eq!(whole, len, "{description}");
                    assert_eq!(out[..range.len()], bytes[range.clone()], "{description}");
                    assert!(out[range.len()..].iter().all(|byte| *byte == 0), "{description}");
                }
                for (at, is_field) in mask_of(&description, len).into_iter().enumerate() {
                    assert!(!is_field || out[at] == value[at], "{description}: {at} of {len}");
                }
            }
        }
    }

    /// Cut at each byte, and with each length of four bytes that lies.
    #[test]
    fn hostile_bytes_are_no_value_and_take_no_memory() {
        for description in types() {
            let cdr = Cdr::of(description.clone()).expect("fields");
            for len in lens(&description) {
                let value: Vec<u8> = (1..=251).cycle().take(len).collect();
                let bytes = encoded(&cdr, &value);
                let decode = |bytes: &[u8]| {
                    let len = cdr.decoded_len(bytes)?;
                    if let Some(head) = bytes.get(..SOME).filter(|_| cdr.is_direct) {
                        let (whole, range) = cdr.direct(head, bytes.len())?;
                        assert!(
                            whole == len && range.end <= bytes.len(),
                            "{description}: {range:?}"
                        );
                    }
                    assert!(len <= 16 * bytes.len() + 64, "{description}: {len}");
                    let mut out = vec![0; len];
                    cdr.decode(bytes, &mut out)
                };
                for end in 0..bytes.len() {
                    assert!(decode(&bytes[..end]).is_none(), "{description}: {end} of {len}");
                }
                for at in 0..bytes.len().saturating_sub(3) {
                    for lie in [u32::MAX, 1 << 31, 1 << 16, 1 << 30] {
                        let mut bytes = bytes.clone();
                        bytes[at..at + 4].copy_from_slice(&lie.to_le_bytes());
                        let _ = decode(&bytes);
                    }
                }
            }
        }
        // A type of which nothing is in CDR, in any number.
        let empty = Description::raw("t", shape(1 << 20, 1, Vec::new())).and_then(|t| t.slice());
        if let Some(cdr) = empty.ok().and_then(Cdr::of) {
            let bytes = [&HEAD[..], &u32::MAX.to_le_bytes()].concat();
            assert_eq!(cdr.decoded_len(&bytes), None);
        }
    }
}
