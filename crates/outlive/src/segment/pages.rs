//! The two pages between a file's header and its body: free attributes, and the description of the
//! payload's type.
//!
//! The maker writes them with `pwrite` before the file has its name, and they are constant from
//! then on. No process touches them through a mapping: a file without them has holes there, which
//! use no memory and read as zeros, and a page that was touched would exist.
//!
//! A page begins with the length of what it holds (4 bytes), a reserved word (4 bytes, 0), and a
//! checksum of both and of what follows (8 bytes). Of a page of zeros the length is 0: it holds
//! nothing. A maker that dies while it writes leaves no name behind, so a page whose checksum is
//! wrong was damaged later.

use super::hash::fnv_1a;
use super::header::{ATTRIBUTES_AT, DESCRIPTION_AT, Spec};
use super::segment::Segment;
use crate::Error;
use crate::describe::Description;
use crate::sys::map::PAGE;

/// What is damaged when the description is.
const TYPE: &str = "the description of its type";
/// Bytes before what the page holds.
const HEAD: usize = 16;
/// The most bytes that a page holds.
pub(crate) const MOST_PAGE_BYTES: usize = PAGE as usize - HEAD;

impl Segment {
    /// Writes the attributes of a file that has no name yet: at most [`MOST_PAGE_BYTES`].
    pub(crate) fn write_attributes(&self, bytes: &[u8]) -> Result<(), Error> {
        self.write_page(ATTRIBUTES_AT, "attributes", bytes)
    }

    /// Returns the attributes that the file's maker wrote; none if it wrote none.
    pub(crate) fn read_attributes(&self) -> Result<Vec<u8>, Error> {
        self.read_page(ATTRIBUTES_AT, "its attributes")
    }

    /// Returns the description of the payload's type, if the file's maker gave one.
    pub(crate) fn description(&self) -> Result<Option<Description>, Error> {
        let bytes = self.read_page(DESCRIPTION_AT, TYPE)?;
        if bytes.is_empty() {
            return Ok(None);
        }
        Description::from_bytes(&bytes).map(Some).ok_or_else(|| self.damaged(TYPE))
    }

    /// Checks that the values inside have the wanted type: by their descriptions if both sides have
    /// one, otherwise by name, size and alignment.
    pub(super) fn check_type(&self, spec: &Spec) -> Result<(), Error> {
        let found = match &spec.description {
            Some(wanted) => self.check_description(wanted)?,
            None => false,
        };
        let header = self.header();
        if !found {
            return header.check_type(self.path(), spec);
        }
        // Both lie in the description, too, where an alignment of up to 8 does not count.
        let places = [
            (header.type_size(), header.type_align().max(8)),
            (spec.type_size, spec.type_align.max(8)),
        ];
        if places[0] == places[1] { Ok(()) } else { Err(self.damaged(TYPE)) }
    }

    /// Refuses a file whose description is another one; returns whether it has one.
    pub(crate) fn check_description(&self, wanted: &Description) -> Result<bool, Error> {
        let Some(found) = self.description()? else { return Ok(false) };
        match found.difference(wanted) {
            None => Ok(true),
            Some((found, wanted)) => {
                Err(Error::OtherType { path: self.path().to_path_buf(), found, wanted })
            }
        }
    }

    /// Writes the description of the payload's type into a file that has no name yet: at most
    /// [`MOST_PAGE_BYTES`].
    pub(super) fn write_description(&self, bytes: &[u8]) -> Result<(), Error> {
        self.write_page(DESCRIPTION_AT, "description", bytes)
    }

    fn write_page(&self, at: u64, what: &'static str, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        if bytes.len() > MOST_PAGE_BYTES {
            return Err(Error::InvalidOption {
                what,
                wanted: format!("{} bytes", bytes.len()).into(),
                why: "at most 4,080 bytes",
            });
        }
        let length = bytes.len() as u32;
        let mut page = Vec::with_capacity(HEAD + bytes.len());
        page.extend_from_slice(&length.to_le_bytes());
        page.extend_from_slice(&[0; 4]);
        page.extend_from_slice(&checksum(length, bytes).to_le_bytes());
        page.extend_from_slice(bytes);
        self.write(at, &page)
    }

    fn read_page(&self, at: u64, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut page = vec![0; PAGE as usize];
        self.read(at, &mut page)?;
        parse(&page).map(<[u8]>::to_vec).ok_or_else(|| self.damaged(what))
    }
}

/// Returns what the page holds; `None` if the page is damaged.
fn parse(page: &[u8]) -> Option<&[u8]> {
    let (length, rest) = page.split_first_chunk::<4>()?;
    let (reserved, rest) = rest.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let (length, sum) = (u32::from_le_bytes(*length), u64::from_le_bytes(*sum));
    let bytes = rest.get(..length as usize)?;
    let is_empty = length == 0 && sum == 0;
    let is_whole = is_empty || (length > 0 && checksum(length, bytes) == sum);
    (is_whole && *reserved == [0; 4]).then_some(bytes)
}

fn checksum(length: u32, bytes: &[u8]) -> u64 {
    fnv_1a(length.to_le_bytes().into_iter().chain([0; 4]).chain(bytes.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_was_changed_is_refused() {
        assert_eq!(parse(&[0; PAGE as usize]), Some(&[][..]), "a hole");
        let bytes = b"what the maker wrote";
        let mut page = vec![0; PAGE as usize];
        page[..4].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        page[8..HEAD].copy_from_slice(&checksum(bytes.len() as u32, bytes).to_le_bytes());
        page[HEAD..HEAD + bytes.len()].copy_from_slice(bytes);
        assert_eq!(parse(&page), Some(&bytes[..]));
        for at in 0..HEAD + bytes.len() {
            let mut damaged = page.clone();
            damaged[at] ^= 1;
            assert_eq!(parse(&damaged), None, "byte {at}");
        }
        page[..4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse(&page), None, "a length beyond the page");
    }
}
