//! The layout of an array: type and extents; how it travels, and how Python gets it.
//!
//! It travels in the message's header, in the 32 bytes for the application's own use, so that the
//! payload is the array's bytes and nothing else, aligned as they lie in shared memory, for readers
//! in any language:
//!
//! | byte | |
//! | --- | --- |
//! | 0 | 0xA5: an array |
//! | 1 | dimensions, 0 to 7 |
//! | 2 | kind as in numpy: `b` (bool), `i`, `u`, `f`, `c` |
//! | 3 | bytes of an item |
//! | 4 … 31 | extents, 32 bits each, little-endian; row-major, native byte order |
//!
//! An array of records (numpy's structured types) has the kind `V`, 0 for the bytes of an item, six
//! dimensions at most, and the bytes of an item in the last 32 bits. Behind its bytes lies the text
//! that describes them, see `record`.
//!
//! A header that has these bytes and does not fit the payload is no array's: shared bytes are
//! checked before they are used.

use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::record::Record;
use crate::sample::DTYPE;

const MARK: u8 = 0xA5;
pub(crate) const MOST_DIMENSIONS: usize = 7;

/// The kind of an array of records.
const RECORDS: u8 = b'V';
/// Extents that such an array may have: the bytes of an item take the last one's place.
const MOST_OF_RECORDS: usize = MOST_DIMENSIONS - 1;

/// Kind, bytes, the buffer protocol's letter, DLPack's code.
pub(crate) type Number = (u8, u8, &'static CStr, u8);

/// The type of an array's items.
#[derive(Clone)]
pub(crate) enum Item {
    Number(&'static Number),
    Record(Arc<Record>),
}

impl Item {
    fn bytes(&self) -> usize {
        match self {
            Item::Number(number) => usize::from(number.1),
            Item::Record(record) => record.bytes() as usize,
        }
    }

    fn format(&self) -> &CStr {
        match self {
            Item::Number(number) => number.2,
            Item::Record(record) => record.format(),
        }
    }
}

static ITEMS: [Number; 14] = [
    (b'b', 1, c"?", 6),
    (b'u', 1, c"B", 1),
    (b'u', 2, c"H", 1),
    (b'u', 4, c"I", 1),
    (b'u', 8, c"L", 1),
    (b'i', 1, c"b", 0),
    (b'i', 2, c"h", 0),
    (b'i', 4, c"i", 0),
    (b'i', 8, c"l", 0),
    (b'f', 2, c"e", 2),
    (b'f', 4, c"f", 2),
    (b'f', 8, c"d", 2),
    (b'c', 8, c"Zf", 5),
    (b'c', 16, c"Zd", 5),
];
static BYTE: &Number = &ITEMS[1];

/// Returns the error of items that cannot be published.
pub(crate) fn no_items(format: &str) -> PyErr {
    PyTypeError::new_err(format!(
        "arrays of items '{format}' cannot be published: numbers and bool in native byte order can, \
         and records of fields; or publish their bytes"
    ))
}

/// Reads a shape as numpy takes it: a number, or several.
pub(crate) fn extents(shape: &Bound<'_, PyAny>) -> PyResult<Vec<usize>> {
    match shape.cast::<PyTuple>() {
        Ok(tuple) => tuple.extract(),
        Err(_) => match shape.extract() {
            Ok(extent) => Ok(vec![extent]),
            Err(error) => shape.extract().map_err(|_| error),
        },
    }
}

/// A row-major array's type and extents.
#[derive(Clone)]
pub(crate) struct Layout {
    item: Item,
    dimensions: usize,
    shape: [isize; MOST_DIMENSIONS],
    strides: [isize; MOST_DIMENSIONS],
}

impl Layout {
    /// Returns the layout of so many bytes.
    pub(crate) fn bytes(len: usize) -> Layout {
        Layout::bytes_checked(len).unwrap_or_else(|_| unreachable!("no message is that long"))
    }

    /// Returns the layout of so many bytes, if a message can have them.
    pub(crate) fn bytes_checked(len: usize) -> PyResult<Layout> {
        Layout::new(Item::Number(BYTE), &[len])
    }

    pub(crate) fn item(&self) -> &Item {
        &self.item
    }

    pub(crate) fn new(item: Item, extents: &[usize]) -> PyResult<Layout> {
        let most = match item {
            Item::Number(_) => MOST_DIMENSIONS,
            Item::Record(_) => MOST_OF_RECORDS,
        };
        if extents.len() > most {
            let count = extents.len();
            let why = format!("{count} dimensions; an array that is published has at most {most}");
            return Err(PyValueError::new_err(why));
        }
        let mut stride = item.bytes() as isize;
        let mut layout = Layout { item, dimensions: extents.len(), shape: [0; 7], strides: [0; 7] };
        for at in (0..extents.len()).rev() {
            let extent = u32::try_from(extents[at]).ok().filter(|extent| *extent <= 1 << 30);
            let extent = extent
                .ok_or_else(|| PyValueError::new_err("an extent is larger than any message"))?;
            layout.shape[at] = extent as isize;
            layout.strides[at] = stride;
            stride = stride.saturating_mul((extent as isize).max(1));
        }
        Ok(layout)
    }

    /// Returns the layout of an array of a type, which is anything that numpy takes for one.
    pub(crate) fn of_type(dtype: &Bound<'_, PyAny>, extents: &[usize]) -> PyResult<Layout> {
        let py = dtype.py();
        let dtype = DTYPE.get(py)?.call1((dtype,))?;
        if dtype.getattr(intern!(py, "names"))?.is_none() {
            let name: String = dtype.getattr(intern!(py, "str"))?.extract()?;
            return Layout::of_numpy(&name, extents);
        }
        let record = Record::of_type(&dtype)?;
        Layout::new(Item::Record(Arc::new(record)), extents)
    }

    /// Returns the layout of numpy's short form for a type: `<f4`.
    pub(crate) fn of_numpy(dtype: &str, extents: &[usize]) -> PyResult<Layout> {
        let other = || {
            PyTypeError::new_err(format!(
                "arrays of '{dtype}' cannot be published: numbers and bool can, in native byte order"
            ))
        };
        let (order, rest) = dtype.split_at_checked(1).ok_or_else(other)?;
        let (kind, bytes) = rest.split_at_checked(1).ok_or_else(other)?;
        let native = if cfg!(target_endian = "little") { "<" } else { ">" };
        let bytes: u8 = bytes.parse().map_err(|_| other())?;
        let item = ITEMS.iter().find(|item| kind.as_bytes() == [item.0] && item.1 == bytes);
        match item {
            Some(item) if order == native || order == "|" || order == "=" => {
                Layout::new(Item::Number(item), extents)
            }
            _ => Err(other()),
        }
    }

    /// Returns the layout of the buffer protocol's letters; `None`: bytes, or a type that has none
    /// here.
    pub(crate) fn of_format(
        format: &CStr,
        item_bytes: usize,
        extents: &[usize],
    ) -> PyResult<Option<Layout>> {
        let letters = format.to_bytes();
        let other = || no_items(&format.to_string_lossy());
        let letters = match letters {
            [b'@' | b'=', rest @ ..] => rest,
            [b'<', rest @ ..] if cfg!(target_endian = "little") => rest,
            [b'>', rest @ ..] if cfg!(target_endian = "big") => rest,
            all => all,
        };
        let kind = match letters {
            b"?" => b'b',
            b"b" | b"h" | b"i" | b"l" | b"q" | b"n" => b'i',
            b"B" | b"H" | b"I" | b"L" | b"Q" | b"N" => b'u',
            b"e" | b"f" | b"d" => b'f',
            b"Zf" | b"Zd" => b'c',
            b"c" if extents.len() == 1 => return Ok(None),
            _ => return Err(other()),
        };
        if kind == b'u' && item_bytes == 1 && extents.len() == 1 {
            return Ok(None);
        }
        let item = ITEMS.iter().find(|item| item.0 == kind && usize::from(item.1) == item_bytes);
        let item =
            item.ok_or_else(|| PyTypeError::new_err("arrays of such items cannot be published"))?;
        Layout::new(Item::Number(item), extents).map(Some)
    }

    /// Returns the layout of DLPack's type.
    pub(crate) fn of_dlpack(code: u8, bits: u8, lanes: u16, extents: &[usize]) -> PyResult<Layout> {
        let item = ITEMS
            .iter()
            .find(|item| item.3 == code && u16::from(item.1) * 8 == u16::from(bits) && lanes == 1);
        let item = item.ok_or_else(|| {
            PyTypeError::new_err("tensors of such items cannot be published: numbers and bool can")
        })?;
        Layout::new(Item::Number(item), extents)
    }

    /// Returns DLPack's code, and the bits of an item; `None` for records, which DLPack has not.
    pub(crate) fn dlpack(&self) -> Option<(u8, u8)> {
        match self.item {
            Item::Number(number) => Some((number.3, number.1 * 8)),
            Item::Record(_) => None,
        }
    }

    /// Returns it as it travels, except for the [`description`](Self::description).
    pub(crate) fn to_own(&self) -> [u8; 32] {
        let (kind, bytes) = match self.item {
            Item::Number(number) => (number.0, number.1),
            Item::Record(_) => (RECORDS, 0),
        };
        let mut own = [0; 32];
        own[..4].copy_from_slice(&[MARK, self.dimensions as u8, kind, bytes]);
        if let Item::Record(record) = &self.item {
            own[28..].copy_from_slice(&record.bytes().to_le_bytes());
        }
        for (bytes, extent) in own[4..].as_chunks_mut::<4>().0.iter_mut().zip(self.shape()) {
            *bytes = (*extent as u32).to_le_bytes();
        }
        own
    }

    /// Returns what lies behind the array's bytes in a message: records are described there.
    pub(crate) fn description(&self) -> &[u8] {
        match &self.item {
            Item::Number(_) => &[],
            Item::Record(record) => record.format().to_bytes(),
        }
    }

    /// Reads a message's layout, if it is an array: shared bytes, which may be of any program.
    pub(crate) fn of_message(own: &[u8; 32], bytes: &[u8]) -> Option<Layout> {
        let [MARK, dimensions @ 0..=6, RECORDS, 0] = own[..4] else {
            return Layout::of_own(own, bytes.len());
        };
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        let words = own[4..].as_chunks::<4>().0;
        let item = word(&words[MOST_OF_RECORDS]);
        let mut extents = words[..usize::from(dimensions)].iter().map(word);
        let len = extents.try_fold(item, usize::checked_mul)?;
        let description = bytes.get(len..)?;
        Layout::of_array(own, len, description)
    }

    /// Reads the layout of an array of so many bytes whose records, if it has any, are described elsewhere.
    pub(crate) fn of_array(own: &[u8; 32], len: usize, description: &[u8]) -> Option<Layout> {
        let [MARK, dimensions @ 0..=6, RECORDS, 0] = own[..4] else {
            return Layout::of_own(own, len);
        };
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
        let words = own[4..].as_chunks::<4>().0;
        let item = u32::try_from(word(&words[MOST_OF_RECORDS])).ok()?;
        let extents: Vec<usize> = words[..usize::from(dimensions)].iter().map(word).collect();
        let record = Record::new(description, item)?;
        let layout = Layout::new(Item::Record(Arc::new(record)), &extents).ok()?;
        (layout.len() == Some(len)).then_some(layout)
    }

    /// Reads the layout of an array of numbers as it travels, if it fits so many bytes.
    pub(crate) fn of_own(own: &[u8; 32], len: usize) -> Option<Layout> {
        let [MARK, dimensions @ 0..=7, kind, bytes] = own[..4] else { return None };
        let item = ITEMS.iter().find(|item| item.0 == kind && item.1 == bytes)?;
        let mut extents = [0; MOST_DIMENSIONS];
        for (extent, bytes) in extents.iter_mut().zip(own[4..].as_chunks::<4>().0) {
            *extent = u32::from_le_bytes(*bytes) as usize;
        }
        let layout = Layout::new(Item::Number(item), &extents[..usize::from(dimensions)]).ok()?;
        (layout.len() == Some(len)).then_some(layout)
    }

    /// Returns its bytes; `None`: more than there can be.
    pub(crate) fn len(&self) -> Option<usize> {
        let item = self.item.bytes();
        self.shape().iter().try_fold(item, |len, extent| len.checked_mul(*extent as usize))
    }

    pub(crate) fn shape(&self) -> &[isize] {
        &self.shape[..self.dimensions]
    }

    /// Returns numpy's short form, which says of records only how long they are.
    pub(crate) fn numpy(&self) -> String {
        let (kind, bytes) = match &self.item {
            Item::Number(number) => (number.0, usize::from(number.1)),
            Item::Record(record) => return format!("|V{}", record.bytes()),
        };
        let order = match bytes {
            1 => '|',
            _ if cfg!(target_endian = "little") => '<',
            _ => '>',
        };
        format!("{order}{}{bytes}", char::from(kind))
    }

    /// Returns whether its items are records.
    pub(crate) fn is_of_records(&self) -> bool {
        matches!(self.item, Item::Record(_))
    }

    /// Fills in a view of `len` bytes at `data` for the buffer protocol.
    ///
    /// # Safety
    /// `view` is the caller's of `__getbuffer__`; the bytes stay, and this does not move, as long
    /// as `owner` lives.
    pub(crate) unsafe fn show(
        &self,
        view: *mut ffi::Py_buffer,
        flags: c_int,
        owner: Bound<'_, PyAny>,
        data: *mut u8,
        len: usize,
        readonly: bool,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("nowhere to put it"));
        }
        let asked = |bits: c_int| flags & bits == bits;
        // SAFETY: the caller passes the view of `__getbuffer__`.
        let view = unsafe { &mut *view };
        view.obj = core::ptr::null_mut();
        if readonly && asked(ffi::PyBUF_WRITABLE) {
            return Err(PyBufferError::new_err("it is read-only"));
        }
        if asked(ffi::PyBUF_F_CONTIGUOUS) && !asked(ffi::PyBUF_C_CONTIGUOUS) && self.dimensions > 1
        {
            return Err(PyBufferError::new_err("it is row-major"));
        }
        view.buf = data.cast::<c_void>();
        view.len = len as isize;
        view.readonly = c_int::from(readonly);
        view.suboffsets = core::ptr::null_mut();
        view.internal = core::ptr::null_mut();
        let with_shape = asked(ffi::PyBUF_ND);
        view.itemsize = self.item.bytes() as isize;
        view.ndim = if with_shape { self.dimensions as c_int } else { 1 };
        view.shape =
            if with_shape { self.shape.as_ptr().cast_mut() } else { core::ptr::null_mut() };
        view.strides = if asked(ffi::PyBUF_STRIDES) {
            self.strides.as_ptr().cast_mut()
        } else {
            core::ptr::null_mut()
        };
        view.format = if asked(ffi::PyBUF_FORMAT) {
            self.item.format().as_ptr().cast_mut()
        } else {
            core::ptr::null_mut()
        };
        view.obj = owner.into_ptr();
        Ok(())
    }
}
