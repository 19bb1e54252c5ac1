//! Arrays as Python publishes them: their type and shape travel in the message's header, in the
//! bytes for the application's own use (`doc/python.md`), the payload is their items.

use std::fmt;

#[cfg(feature = "plot")]
use crate::described::pick::Step;

const MARK: u8 = 0xA5;
const MOST_DIMENSIONS: u8 = 7;
/// So many items are shown to a person.
const SHOWN: usize = 6;

/// The layout of an array that a message holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Array {
    /// As numpy calls it.
    pub dtype: &'static str,
    /// Its extents, the outermost first.
    pub shape: Vec<u32>,
    item_bytes: usize,
}

impl Array {
    /// Reads a header's own bytes; `None`: the message of `len` bytes holds no array.
    pub fn of(own: &[u8; 32], len: usize) -> Option<Array> {
        let [MARK, dimensions @ 0..=MOST_DIMENSIONS, kind, bytes] = own[..4] else { return None };
        let dtype = match (kind, bytes) {
            (b'b', 1) => "bool",
            (b'u', 1) => "uint8",
            (b'u', 2) => "uint16",
            (b'u', 4) => "uint32",
            (b'u', 8) => "uint64",
            (b'i', 1) => "int8",
            (b'i', 2) => "int16",
            (b'i', 4) => "int32",
            (b'i', 8) => "int64",
            (b'f', 2) => "float16",
            (b'f', 4) => "float32",
            (b'f', 8) => "float64",
            (b'c', 8) => "complex64",
            (b'c', 16) => "complex128",
            _ => return None,
        };
        let extents = own[4..].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let shape: Vec<u32> = extents.take(dimensions.into()).collect();
        let item_bytes = usize::from(bytes);
        let bytes = shape.iter().try_fold(item_bytes, |bytes, extent| {
            bytes.checked_mul(usize::try_from(*extent).ok()?)
        });
        (bytes == Some(len)).then_some(Array { dtype, shape, item_bytes })
    }

    /// Returns it on a line: type, shape and the first items of `payload`.
    pub fn shown(&self, payload: &[u8]) -> String {
        let items = payload.chunks_exact(self.item_bytes);
        let more = if items.len() > SHOWN { " …" } else { "" };
        let first: Option<Vec<String>> = items.take(SHOWN).map(|item| self.item(item)).collect();
        match first {
            Some(first) if !first.is_empty() => format!("{self}: {}{more}", first.join(" ")),
            _ => self.to_string(),
        }
    }

    /// Returns how one of its items is named; `None`: it has one alone.
    #[cfg(feature = "plot")]
    pub fn hint(&self) -> Option<String> {
        let first = "[0]".repeat(self.shape.len());
        (!first.is_empty())
            .then(|| format!("the items of an array, {self}: name one, as in {first}"))
    }

    /// Returns the item with these indices, if it is there and a number.
    #[cfg(feature = "plot")]
    pub fn number(&self, payload: &[u8], path: &[Step]) -> Option<f64> {
        if path.len() != self.shape.len() {
            return None;
        }
        // The extents' product fits: `of` has counted the bytes.
        let place = path.iter().zip(&self.shape).try_fold(0, |place, (step, extent)| {
            let Step::Index(index) = step else { return None };
            let extent = usize::try_from(*extent).ok()?;
            (*index < extent).then_some(place * extent + index)
        })?;
        let begin = place.checked_mul(self.item_bytes)?;
        let item = self.item(payload.get(begin..begin.checked_add(self.item_bytes)?)?)?;
        match item.as_str() {
            "true" => Some(1.0),
            "false" => Some(0.0),
            number => number.parse().ok(),
        }
    }

    /// Returns an item as text; `None` for types that Rust has no number for.
    fn item(&self, bytes: &[u8]) -> Option<String> {
        macro_rules! number {
            ($type:ty) => {
                <$type>::from_ne_bytes(bytes.try_into().ok()?).to_string()
            };
        }
        Some(match self.dtype {
            "bool" => (bytes != [0]).to_string(),
            "uint8" => number!(u8),
            "uint16" => number!(u16),
            "uint32" => number!(u32),
            "uint64" => number!(u64),
            "int8" => number!(i8),
            "int16" => number!(i16),
            "int32" => number!(i32),
            "int64" => number!(i64),
            "float32" => number!(f32),
            "float64" => number!(f64),
            _ => return None,
        })
    }
}

impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let extents: Vec<String> = self.shape.iter().map(u32::to_string).collect();
        // As Python writes a tuple.
        let comma = if extents.len() == 1 { "," } else { "" };
        write!(f, "{} ({}{comma})", self.dtype, extents.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(dimensions: u8, kind: u8, bytes: u8, extents: &[u32]) -> [u8; 32] {
        let mut own = [0; 32];
        own[..4].copy_from_slice(&[MARK, dimensions, kind, bytes]);
        for (place, extent) in own[4..].as_chunks_mut::<4>().0.iter_mut().zip(extents) {
            *place = extent.to_le_bytes();
        }
        own
    }

    #[test]
    fn type_and_shape_are_read_if_they_fit_the_payload() {
        let array = Array::of(&own(2, b'f', 4, &[2, 3]), 24).expect("an array");
        assert_eq!(array.to_string(), "float32 (2, 3)");
        let payload: Vec<u8> = [0.5f32, 1.0, -2.25, 3.0, 4.0, 5.0].map(f32::to_ne_bytes).concat();
        assert_eq!(array.shown(&payload), "float32 (2, 3): 0.5 1 -2.25 3 4 5");
        #[cfg(feature = "plot")]
        for (path, number) in [
            (&[1, 0][..], Some(3.0)),
            (&[0, 2], Some(-2.25)),
            (&[2, 0], None),
            (&[1, 3], None),
            (&[1], None),
        ] {
            let path: Vec<Step> = path.iter().copied().map(Step::Index).collect();
            assert_eq!(array.number(&payload, &path), number);
        }
        let long = Array::of(&own(1, b'u', 1, &[9]), 9).expect("an array");
        assert_eq!(long.shown(&[7; 9]), "uint8 (9,): 7 7 7 7 7 7 …");
        let one = Array::of(&own(0, b'i', 2, &[]), 2).expect("an array");
        assert_eq!(one.shown(&(-3i16).to_ne_bytes()), "int16 (): -3");
        let half = Array::of(&own(1, b'f', 2, &[1]), 2).expect("an array");
        assert_eq!(half.shown(&[0, 0]), "float16 (1,)");
        let none = Array::of(&own(2, b'f', 8, &[0, 3]), 0).expect("an array");
        assert_eq!(none.shown(&[]), "float64 (0, 3)");
        for (wrong, len) in [
            (own(2, b'f', 4, &[2, 3]), 23),
            (own(8, b'f', 4, &[]), 4),
            (own(1, b'f', 3, &[1]), 3),
            (own(7, b'f', 8, &[u32::MAX; 7]), 8),
            ([0; 32], 0),
        ] {
            assert_eq!(Array::of(&wrong, len), None);
        }
    }
}
