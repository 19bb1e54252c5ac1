//! Records: items of several fields, as numpy's structured types and structs of `ctypes` have them.
//!
//! The buffer protocol describes them by a text (PEP 3118): `T{f:x:f:y:}` is two floats, `x` and
//! `y`. A publisher sends such a text along, with the byte order of each number and all padding, and
//! a reader shows it to numpy, which makes the same type of it. The text of a received message comes from another process. So one that could make numpy
//! take a number for an address (`O`, an object) is no record's.

use std::ffi::{CStr, CString};
use std::fmt::Write;

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;

use crate::layout::no_items;

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
    /// Returns the record of that type of numpy's.
    pub(crate) fn of_type(dtype: &Bound<'_, PyAny>) -> PyResult<Record> {
        let mut text = String::new();
        describe(dtype, &mut text, DEEPEST)?;
        let bytes = dtype.getattr(intern!(dtype.py(), "itemsize"))?.extract()?;
        Record::new(text.as_bytes(), bytes).ok_or_else(|| no_items(&text))
    }

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

/// Appends the description of a type of numpy's: with the byte order of each number, which also says
/// that nothing is aligned but by the padding that is there.
fn describe(dtype: &Bound<'_, PyAny>, text: &mut String, depth: u32) -> PyResult<()> {
    let py = dtype.py();
    let other = || no_items(&dtype.to_string());
    let names = dtype.getattr(intern!(py, "names"))?;
    if !names.is_none() && depth > 0 {
        let fields = dtype.getattr(intern!(py, "fields"))?;
        let mut end = 0_usize;
        text.push_str("T{");
        for name in names.try_iter()? {
            let name = name?;
            let (field, offset) = {
                let field = fields.get_item(&name)?;
                (field.get_item(0)?, field.get_item(1)?.extract::<usize>()?)
            };
            pad(text, end, offset)?;
            describe(&field, text, depth - 1)?;
            let name: String = name.extract()?;
            if name.is_empty() || name.contains([':', '\0']) {
                return Err(other());
            }
            let _ = write!(text, ":{name}:");
            end = offset + field.getattr(intern!(py, "itemsize"))?.extract::<usize>()?;
        }
        pad(text, end, dtype.getattr(intern!(py, "itemsize"))?.extract()?)?;
        text.push('}');
        return Ok(());
    }
    let array = dtype.getattr(intern!(py, "subdtype"))?;
    if !array.is_none() && depth > 0 {
        let extents: Vec<usize> = array.get_item(1)?.extract()?;
        let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
        let _ = write!(text, "({})", extents.join(","));
        return describe(&array.get_item(0)?, text, depth - 1);
    }
    let short: String = dtype.getattr(intern!(py, "str"))?.extract()?;
    let (order, kind) = short.split_at_checked(1).ok_or_else(other)?;
    let (kind, bytes) = kind.split_at_checked(1).ok_or_else(other)?;
    let letter = match (kind, bytes) {
        ("b", "1") => "?",
        ("i", "1") => "b",
        ("i", "2") => "h",
        ("i", "4") => "i",
        ("i", "8") => "q",
        ("u", "1") => "B",
        ("u", "2") => "H",
        ("u", "4") => "I",
        ("u", "8") => "Q",
        ("f", "2") => "e",
        ("f", "4") => "f",
        ("f", "8") => "d",
        ("c", "8") => "Zf",
        ("c", "16") => "Zd",
        // Letters of one byte, and of four: numpy counts the letters of both.
        ("S", _) => "s",
        ("U", _) => "w",
        _ => return Err(other()),
    };
    let native = if cfg!(target_endian = "little") { "<" } else { ">" };
    text.push_str(if order == "|" { native } else { order });
    if kind == "S" || kind == "U" {
        text.push_str(bytes);
    }
    text.push_str(letter);
    Ok(())
}

/// Appends bytes of padding.
fn pad(text: &mut String, from: usize, to: usize) -> PyResult<()> {
    match to.checked_sub(from) {
        Some(0) => Ok(()),
        Some(bytes) => {
            let _ = write!(text, "{bytes}x");
            Ok(())
        }
        None => Err(PyTypeError::new_err(
            "records whose fields lie in each other or not in their order cannot be published",
        )),
    }
}
