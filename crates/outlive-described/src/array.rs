//! Type and extents of an array that Python has published.
//!
//! In a topic they travel in the message's header, and the text that describes records behind the array's
//! bytes (crates/outlive-py/src/layout.rs has both). A file has no such header: there the channel says them,
//! and the payload is the array's bytes alone. A topic has a channel for each type and for all extents but
//! the first, which follows from the payload's length: so scans of any number of points are one channel.
//!
//! | key of the channel | |
//! | --- | --- |
//! | `outlive.dtype` | as numpy has it: `<f4`; of records the buffer protocol's text: `T{<f:x:<f:y:}` |
//! | `outlive.itemsize` | the bytes of a record |
//! | `outlive.shape` | `-1,1080,3`, as numpy's `reshape` takes it |

use std::collections::BTreeMap;
use std::fmt::Write;

use outlive::describe::{Description, Field, Item, Number, Struct};

const MARK: u8 = 0xA5;
const RECORDS: u8 = b'V';
/// Extents that an array has at most, and one of records: the bytes of an item take the last one's place.
const MOST: usize = 7;
const MOST_OF_RECORDS: usize = 6;
/// The longest text of a record.
const LONGEST: usize = 16 << 10;

const DTYPE: &str = "outlive.dtype";
const ITEMSIZE: &str = "outlive.itemsize";
const SHAPE: &str = "outlive.shape";

/// The part of a header that arrays have.
type Own = [u8; 32];

/// An array's layout, with the first extent 0 where it follows from the length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    own: Own,
    /// Of records: what describes them.
    text: Vec<u8>,
}

/// A message that is an array, as its header and its bytes say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    own: Own,
    text: &'a [u8],
    /// How many of the message's bytes are the array.
    pub len: usize,
}

impl Found<'_> {
    /// Returns whether the message is of that layout.
    pub fn is(&self, array: &Array) -> bool {
        self.own == array.own && self.text == array.text
    }

    /// Returns the layout.
    pub fn array(&self) -> Array {
        Array { own: self.own, text: self.text.to_vec() }
    }
}

/// Reads a message's header, which may be of any program; `None`: the message is no array.
pub fn find<'a>(own: &Own, bytes: &'a [u8]) -> Option<Found<'a>> {
    let [MARK, dimensions, kind, _] = own[..4] else { return None };
    let dimensions = usize::from(dimensions);
    let (most, item) = match kind {
        RECORDS => (MOST_OF_RECORDS, word(own, MOST_OF_RECORDS) as usize),
        _ => (MOST, usize::from(own[3])),
    };
    if dimensions > most || !b"biufcV".contains(&kind) || item == 0 {
        return None;
    }
    let mut own = *own;
    // What is behind the extents says nothing, but of records.
    let last = if kind == RECORDS { MOST_OF_RECORDS } else { MOST };
    own[4 + 4 * dimensions..4 + 4 * last].fill(0);
    let rest =
        (1..dimensions).try_fold(item, |count, at| count.checked_mul(word(&own, at) as usize))?;
    let first = if dimensions == 0 { 1 } else { word(&own, 0) as usize };
    let len = rest.checked_mul(first)?;
    let (_, text) = bytes.split_at_checked(len)?;
    let is_sound = match kind {
        RECORDS => text.starts_with(b"T{") && text.len() <= LONGEST && str::from_utf8(text).is_ok(),
        _ => text.is_empty(),
    };
    if !is_sound {
        return None;
    }
    if dimensions > 0 && rest > 0 {
        own[4..8].fill(0);
    }
    Some(Found { own, text, len })
}

fn word(own: &Own, at: usize) -> u32 {
    let at = 4 + 4 * at;
    u32::from_le_bytes([own[at], own[at + 1], own[at + 2], own[at + 3]])
}

impl Array {
    fn dimensions(&self) -> usize {
        usize::from(self.own[1])
    }

    fn item(&self) -> usize {
        match self.own[2] {
            RECORDS => word(&self.own, MOST_OF_RECORDS) as usize,
            _ => usize::from(self.own[3]),
        }
    }

    /// Returns the bytes of what one step of the first extent has.
    fn rest(&self) -> Option<usize> {
        (1..self.dimensions())
            .try_fold(self.item(), |count, at| count.checked_mul(word(&self.own, at) as usize))
    }

    /// Returns the header's part of a message with so many bytes of an array; `None`: it is none of this
    /// layout.
    pub fn own(&self, len: usize) -> Option<Own> {
        let mut own = self.own;
        let rest = self.rest()?;
        let first = match self.dimensions() {
            0 => (rest == len).then_some(0)?,
            _ if rest == 0 => (len == 0).then(|| word(&own, 0))?,
            _ => len.is_multiple_of(rest).then(|| u32::try_from(len / rest).ok())??,
        };
        own[4..8].copy_from_slice(&first.to_le_bytes());
        Some(own)
    }

    /// Returns the text that follows an array of records in a message of a topic.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns what describes an array of this layout with so many bytes; `None`: it is of records, or of numbers
    /// that no description has.
    pub fn description(&self, len: usize) -> Option<Description> {
        let own = self.own(len)?;
        let number = match (self.own[2], self.item()) {
            (b'b', 1) => Number::Bool,
            (b'u', 1) => Number::U8,
            (b'u', 2) => Number::U16,
            (b'u', 4) => Number::U32,
            (b'u', 8) => Number::U64,
            (b'i', 1) => Number::I8,
            (b'i', 2) => Number::I16,
            (b'i', 4) => Number::I32,
            (b'i', 8) => Number::I64,
            (b'f', 4) => Number::F32,
            (b'f', 8) => Number::F64,
            _ => return None,
        };
        let extents = (0..self.dimensions()).map(|at| word(&own, at)).collect();
        let field = Field { name: String::new(), offset: 0, extents, item: Item::Number(number) };
        let (size, align) = (u32::try_from(len).ok()?, number.bytes());
        Description::raw("", Struct { size, align, fields: vec![field] }).ok()
    }

    /// Adds what a channel says of it.
    pub fn describe(&self, metadata: &mut BTreeMap<String, String>) {
        let (kind, item) = (char::from(self.own[2]), self.item());
        let dtype = match (self.own[2], item) {
            (RECORDS, _) => {
                metadata.insert(ITEMSIZE.to_owned(), item.to_string());
                String::from_utf8_lossy(&self.text).into_owned()
            }
            (_, 1) => format!("|{kind}1"),
            _ => format!("<{kind}{item}"),
        };
        let mut shape = String::new();
        for at in 0..self.dimensions() {
            let extent = word(&self.own, at);
            let comma = if at > 0 { "," } else { "" };
            let _ = match at == 0 && self.rest() != Some(0) {
                true => write!(shape, "-1"),
                false => write!(shape, "{comma}{extent}"),
            };
        }
        metadata.insert(DTYPE.to_owned(), dtype);
        metadata.insert(SHAPE.to_owned(), shape);
    }

    /// Reads what a channel says of it; `None`: its messages are no arrays.
    pub fn of_channel(metadata: &BTreeMap<String, String>) -> Option<Array> {
        let (dtype, shape) = (metadata.get(DTYPE)?, metadata.get(SHAPE)?);
        let mut own = [0; 32];
        let mut extents = 0;
        for extent in shape.split(',').filter(|extent| !extent.is_empty()) {
            let is_free = extents == 0 && extent == "-1";
            let extent: u32 = if is_free { 0 } else { extent.parse().ok()? };
            let at = 4 + 4 * extents;
            own.get_mut(at..at + 4)?.copy_from_slice(&extent.to_le_bytes());
            extents += 1;
        }
        let text = if dtype.starts_with("T{") {
            let item: u32 = metadata.get(ITEMSIZE)?.parse().ok()?;
            if extents > MOST_OF_RECORDS || item == 0 || dtype.len() > LONGEST {
                return None;
            }
            own[2] = RECORDS;
            own[28..].copy_from_slice(&item.to_le_bytes());
            dtype.as_bytes().to_vec()
        } else {
            let [b'<' | b'|', kind, rest @ ..] = dtype.as_bytes() else { return None };
            own[2] = *b"biufc".iter().find(|known| *known == kind)?;
            own[3] = str::from_utf8(rest).ok()?.parse().ok().filter(|item| *item > 0)?;
            Vec::new()
        };
        (own[0], own[1]) = (MARK, extents as u8);
        Some(Array { own, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(kind: u8, item: u8, extents: &[u32]) -> Own {
        let mut own = [0; 32];
        own[..4].copy_from_slice(&[MARK, extents.len() as u8, kind, item]);
        for (at, extent) in extents.iter().enumerate() {
            own[4 + 4 * at..8 + 4 * at].copy_from_slice(&extent.to_le_bytes());
        }
        own
    }

    fn there_and_back(own: Own, bytes: &[u8]) -> BTreeMap<String, String> {
        let found = find(&own, bytes).expect("an array");
        let array = found.array();
        assert!(found.is(&array));
        let mut metadata = BTreeMap::new();
        array.describe(&mut metadata);
        assert_eq!(Array::of_channel(&metadata).as_ref(), Some(&array), "{metadata:?}");
        assert_eq!(array.own(found.len), Some(own), "{metadata:?}");
        assert_eq!(array.text(), &bytes[found.len..]);
        metadata
    }

    #[test]
    fn layouts_come_back() {
        let metadata = there_and_back(own(b'f', 4, &[5, 3]), &[0; 60]);
        assert_eq!((&*metadata[DTYPE], &*metadata[SHAPE]), ("<f4", "-1,3"));
        let metadata = there_and_back(own(b'f', 8, &[]), &[0; 8]);
        assert_eq!((&*metadata[DTYPE], &*metadata[SHAPE]), ("<f8", ""));
        let metadata = there_and_back(own(b'u', 1, &[7, 0]), &[]);
        assert_eq!((&*metadata[DTYPE], &*metadata[SHAPE]), ("|u1", "7,0"));
        there_and_back(own(b'i', 2, &[0, 4]), &[]);
        there_and_back(own(b'i', 2, &[1; 7]), &[0; 2]);
        let mut records = own(b'V', 0, &[2]);
        records[28..].copy_from_slice(&8_u32.to_le_bytes());
        let mut bytes = vec![0; 16];
        bytes.extend_from_slice(b"T{<f:x:<f:y:}");
        let metadata = there_and_back(records, &bytes);
        assert_eq!((&*metadata[DTYPE], &*metadata[ITEMSIZE]), ("T{<f:x:<f:y:}", "8"));
    }

    #[test]
    fn an_array_of_numbers_is_described_as_one_of_rust() {
        let of = |own: Own, len: usize| {
            find(&own, &vec![0; len]).expect("an array").array().description(len)
        };
        let matrix = of(own(b'u', 2, &[2, 4]), 16);
        assert_eq!(matrix, Some(Description::of::<[[u16; 4]; 2]>()));
        assert_eq!(of(own(b'f', 8, &[]), 8), Some(Description::of::<f64>()));
        assert_eq!(of(own(b'f', 2, &[3]), 6), None);
        assert_eq!(of(own(b'c', 8, &[3]), 24), None);
        let points = find(&own(b'f', 4, &[5, 3]), &[0; 60]).expect("an array").array();
        assert_eq!(points.description(24), Some(Description::of::<[[f32; 3]; 2]>()));
        assert_eq!(points.description(23), None);
    }

    #[test]
    fn any_number_of_points_is_one_layout() {
        let [few, many] = [2_u32, 900].map(|count| {
            let bytes = vec![0; 12 * count as usize];
            find(&own(b'f', 4, &[count, 3]), &bytes).expect("an array").array()
        });
        assert_eq!(few, many);
        assert_eq!(few.own(13), None);
    }

    #[test]
    fn headers_that_lie_are_no_arrays() {
        for (own, len) in [
            (own(b'f', 4, &[5, 3]), 59),
            (own(b'f', 4, &[u32::MAX; 7]), 60),
            (own(b'x', 4, &[5]), 20),
            (own(b'f', 0, &[5]), 0),
            (own(b'V', 0, &[5]), 0),
            ([0xff; 32], 4),
            ([0; 32], 0),
        ] {
            assert_eq!(find(&own, &vec![0; len]), None, "{own:?}");
        }
        for (dtype, shape) in [
            ("", ""),
            ("<", "1"),
            ("<f0", "1"),
            ("<f4", "-1,-1"),
            ("T{", "1"),
            ("<f4", "1,1,1,1,1,1,1,1"),
            ("<f999", "1"),
            ("é4", "1"),
        ] {
            let said =
                [(DTYPE, dtype), (SHAPE, shape)].map(|(key, value)| (key.into(), value.into()));
            assert_eq!(Array::of_channel(&BTreeMap::from(said)), None, "{dtype} {shape}");
        }
    }
}
