//! Records: items of several fields, as numpy's structured types and structs of `ctypes` have them.
//!
//! The buffer protocol describes them by a text (PEP 3118): `T{f:x:f:y:}` is two floats, `x` and
//! `y`. A publisher sends that text along, and a reader shows it to numpy, which makes the same type
//! of it. The text of a received message comes from another process. So one that could make numpy
//! take a number for an address (`O`, an object) is no record's.

use std::ffi::{CStr, CString};

/// The longest description.
const LONGEST: usize = 16 << 10;
/// How deep records may lie in each other.
const DEEPEST: u32 = 8;

/// See the head of this file.
pub(crate) struct Record {
    format: CString,
    bytes: u32,
}

impl Record {
    /// Returns the record of that description and so many bytes; `None` if it is no record of
    /// numbers, texts and records of them.
    pub(crate) fn new(format: &[u8], bytes: u32) -> Option<Record> {
        let mut rest = format;
        let is_record = format.len() <= LONGEST
            && bytes > 0
            && core::str::from_utf8(format).is_ok()
            && skip_record(&mut rest, DEEPEST)
            && rest.is_empty();
        let format = is_record.then(|| CString::new(format).ok())??;
        Some(Record { format, bytes })
    }

    pub(crate) fn format(&self) -> &CStr {
        &self.format
    }

    /// The bytes of one record.
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }
}

/// Skips the first of these bytes that is there.
fn skip_one(rest: &mut &[u8], of: &[u8]) -> bool {
    match **rest {
        [first, ref more @ ..] if of.contains(&first) => {
            *rest = more;
            true
        }
        _ => false,
    }
}

fn skip_all(rest: &mut &[u8], of: &[u8]) {
    while skip_one(rest, of) {}
}

/// Skips `T{field:name:…}`. False: that is not there.
fn skip_record(rest: &mut &[u8], depth: u32) -> bool {
    if depth == 0 || !(skip_one(rest, b"T") && skip_one(rest, b"{")) {
        return false;
    }
    while !skip_one(rest, b"}") {
        if !skip_field(rest, depth) {
            return false;
        }
    }
    true
}

/// Skips a field: byte order, extents, count, letter, name.
fn skip_field(rest: &mut &[u8], depth: u32) -> bool {
    const ORDERS: &[u8] = b"@=<>^!";
    skip_all(rest, ORDERS);
    if skip_one(rest, b"(") {
        skip_all(rest, b"0123456789,");
        if !skip_one(rest, b")") {
            return false;
        }
        skip_all(rest, ORDERS);
    }
    skip_all(rest, b"0123456789");
    let is_there = match rest.first() {
        Some(b'T') => skip_record(rest, depth - 1),
        Some(b'Z') => skip_one(rest, b"Z") && skip_one(rest, b"fdg"),
        _ => skip_one(rest, b"?bBhHiIlLqQefdgcswx"),
    };
    if is_there && skip_one(rest, b":") {
        let name = rest.iter().position(|byte| *byte == b':');
        let Some(end) = name else { return false };
        *rest = &rest[end + 1..];
    }
    is_there
}
