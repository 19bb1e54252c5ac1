//! Free pairs of a key and a value, and their form in a file.
//!
//! Each pair is the length of its key and the length of its value (two bytes each, little-endian),
//! then both as UTF-8. The pairs are sorted by their keys, which differ, and are not empty. All of
//! them together take at most [`MOST_BYTES`].

use std::collections::BTreeMap;
use std::collections::btree_map;

use super::segment::Segment;
use crate::Error;

/// The most bytes that all pairs take, with four bytes for each.
pub(crate) const MOST_BYTES: usize = 4080;

/// Holds free pairs of a key and a value, which a thing of a domain or a node carries.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-attributes-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// let node = domain.node("planner").attribute("host", "arm-7").register()?;
/// let attributes = node.info()?.attributes;
/// assert_eq!(attributes.get("host"), Some("arm-7"));
/// assert_eq!(attributes.iter().count(), 1);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pairs: BTreeMap<String, String>,
}

impl Attributes {
    /// Returns the value of that key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    /// Returns all pairs, sorted by their keys.
    pub fn iter(&self) -> AttributesIter<'_> {
        AttributesIter(self.pairs.iter())
    }

    /// Returns the number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Sets a pair; the value of a key that is set twice is the later one.
    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.pairs.insert(key.to_owned(), value.to_owned());
    }

    /// Returns the pairs as they lie in a file.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let all: usize = self.pairs.iter().map(|(key, value)| 4 + key.len() + value.len()).sum();
        if all > MOST_BYTES {
            return Err(Error::InvalidOption {
                what: "attributes",
                wanted: format!("of {all} bytes").into(),
                why: "up to 4,080 bytes in all, four for each pair counted",
            });
        }
        let mut bytes = Vec::new();
        for (key, value) in &self.pairs {
            if key.is_empty() {
                return Err(refused(key, "a key of one letter or more"));
            }
            put(&mut bytes, key, value)?;
        }
        Ok(bytes)
    }

    /// Reads pairs; `None` if the bytes cannot be what [`Attributes::to_bytes`] returns.
    pub(crate) fn from_bytes(mut bytes: &[u8]) -> Option<Attributes> {
        let mut pairs = BTreeMap::new();
        while !bytes.is_empty() {
            let (key, value, rest) = take(bytes)?;
            let is_next =
                pairs.last_key_value().is_none_or(|(last, _): (&String, _)| **last < *key);
            if key.is_empty() || !is_next {
                return None;
            }
            pairs.insert(key.to_owned(), value.to_owned());
            bytes = rest;
        }
        Some(Attributes { pairs })
    }
}

/// Appends a pair to those before it.
pub(crate) fn put(bytes: &mut Vec<u8>, key: &str, value: &str) -> Result<(), Error> {
    if bytes.len() + 4 + key.len() + value.len() > MOST_BYTES {
        return Err(refused(key, "pairs of 4,080 bytes in all, four for each counted"));
    }
    // Both fit: they are shorter than all that may be.
    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
    bytes.extend_from_slice(&(value.len() as u16).to_le_bytes());
    bytes.extend_from_slice(key.as_bytes());
    bytes.extend_from_slice(value.as_bytes());
    Ok(())
}

/// Returns the first pair, and what is behind it; `None` if there is none whole.
pub(crate) fn take(bytes: &[u8]) -> Option<(&str, &str, &[u8])> {
    let (key, rest) = bytes.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(u16::from_le_bytes(*key).into())?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes(*value).into())?;
    Some((std::str::from_utf8(key).ok()?, std::str::from_utf8(value).ok()?, rest))
}

fn refused(key: &str, why: &'static str) -> Error {
    Error::InvalidOption {
        what: "an attribute",
        wanted: format!("'{}'", key.escape_debug()).into(),
        why,
    }
}

/// Iterates over attributes: see [`Attributes::iter`].
#[derive(Clone, Debug)]
pub struct AttributesIter<'a>(btree_map::Iter<'a, String, String>);

impl<'a> Iterator for AttributesIter<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<(&'a str, &'a str)> {
        self.0.next().map(|(key, value)| (&**key, &**value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for AttributesIter<'_> {}

impl<'a> IntoIterator for &'a Attributes {
    type Item = (&'a str, &'a str);
    type IntoIter = AttributesIter<'a>;

    fn into_iter(self) -> AttributesIter<'a> {
        self.iter()
    }
}

impl Segment {
    /// Returns the attributes that the file was made with.
    pub(crate) fn attributes(&self) -> Result<Attributes, Error> {
        Attributes::from_bytes(&self.read_attributes()?)
            .ok_or_else(|| self.damaged("its attributes"))
    }

    /// Refuses a file that was made without one of those attributes, or with another value of it.
    pub(crate) fn check_attributes(&self, wanted: &Attributes) -> Result<(), Error> {
        let found = self.attributes()?;
        let Some((key, value)) = wanted.iter().find(|(key, value)| found.get(key) != Some(value))
        else {
            return Ok(());
        };
        let shown = |value: Option<&str>| match value {
            Some(value) => format!("{key:?} = {value:?}").into(),
            None => format!("without {key:?}").into(),
        };
        Err(Error::OtherOptions {
            path: self.path().into(),
            what: "attribute",
            found: shown(found.get(key)),
            wanted: shown(Some(value)),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn pairs_come_back_and_nothing_else_is_taken() {
        let mut some = Attributes::default();
        assert_eq!(Attributes::from_bytes(&some.to_bytes().expect("fits")), Some(some.clone()));
        for (key, value) in [("unit", "m/s"), ("größe", ""), ("a", "=\n\0"), ("unit", "km/h")] {
            some.set(key, value);
        }
        let bytes = some.to_bytes().expect("fits");
        assert_eq!(Attributes::from_bytes(&bytes), Some(some.clone()));
        assert_eq!((some.get("unit"), some.len()), (Some("km/h"), 3));
        // Cut anywhere but between two pairs, or with lengths that lie.
        let whole = [0, 4 + 1 + 3, 4 + 1 + 3 + 4 + 7].map(|_| ()).len();
        let taken = (0..bytes.len()).filter(|end| Attributes::from_bytes(&bytes[..*end]).is_some());
        assert_eq!(taken.count(), whole, "none, one and two pairs");
        for wrong in [
            &[0, 0, 1, 0, b'x'][..],
            &[1, 0, 0, 0, 0xff],
            &[1, 0, 0, 0, b'b', 1, 0, 0, 0, b'a'],
            &[1, 0, 0, 0, b'a', 1, 0, 0, 0, b'a'],
            &[0xff; 64],
        ] {
            assert_eq!(Attributes::from_bytes(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn too_much_is_refused() {
        let mut some = Attributes::default();
        some.set("k", &"x".repeat(MOST_BYTES - 5));
        assert_eq!(some.to_bytes().expect("fits").len(), MOST_BYTES);
        some.set("l", "");
        assert!(matches!(some.to_bytes(), Err(Error::InvalidOption { .. })));
        let mut some = Attributes::default();
        some.set("", "x");
        assert!(matches!(some.to_bytes(), Err(Error::InvalidOption { .. })));
    }
}
