//! Descriptions of payloads' types.

use std::ffi::c_char;

use outlive::describe::{
    Description, Encoding, Field, Item, MOST_DEPTH, MOST_EXTENTS, MOST_FIELDS, Number, Struct,
};

use crate::argument::{borrow, items, text, text_or_none};
use crate::code::Failure;

/// In an `outlive_field_t`: a byte that is 0 or 1.
pub const OUTLIVE_TYPE_BOOL: u32 = 1;
/// In an `outlive_field_t`: 8 bits, without a sign; also the bytes of a text.
pub const OUTLIVE_TYPE_U8: u32 = 2;
/// In an `outlive_field_t`: 8 bits.
pub const OUTLIVE_TYPE_I8: u32 = 3;
/// In an `outlive_field_t`: 16 bits, without a sign.
pub const OUTLIVE_TYPE_U16: u32 = 4;
/// In an `outlive_field_t`: 16 bits.
pub const OUTLIVE_TYPE_I16: u32 = 5;
/// In an `outlive_field_t`: 32 bits, without a sign.
pub const OUTLIVE_TYPE_U32: u32 = 6;
/// In an `outlive_field_t`: 32 bits.
pub const OUTLIVE_TYPE_I32: u32 = 7;
/// In an `outlive_field_t`: 64 bits, without a sign.
pub const OUTLIVE_TYPE_U64: u32 = 8;
/// In an `outlive_field_t`: 64 bits.
pub const OUTLIVE_TYPE_I64: u32 = 9;
/// In an `outlive_field_t`: a floating-point number of 32 bits.
pub const OUTLIVE_TYPE_F32: u32 = 10;
/// In an `outlive_field_t`: a floating-point number of 64 bits.
pub const OUTLIVE_TYPE_F64: u32 = 11;
/// In an `outlive_field_t`: the type that `nested` describes.
pub const OUTLIVE_TYPE_STRUCT: u32 = 64;

/// In an `outlive_field_t`, as the outermost extent of a struct's last field: any number of items
/// follow the struct, as in a flexible array member. OUTLIVE_TAIL_FIELD sets it.
pub const OUTLIVE_TAIL: u32 = u32::MAX;

/// In an `outlive_payload_t`: values as they lie in memory, with fields.
pub const OUTLIVE_ENCODING_RAW: u32 = 0;
/// In an `outlive_payload_t`: msgpack.
pub const OUTLIVE_ENCODING_MSGPACK: u32 = 2;
/// In an `outlive_payload_t`: CDR, as DDS and ROS 2 have it.
pub const OUTLIVE_ENCODING_CDR: u32 = 3;
/// In an `outlive_payload_t`: Protocol Buffers.
pub const OUTLIVE_ENCODING_PROTOBUF: u32 = 4;
/// In an `outlive_payload_t`: JSON.
pub const OUTLIVE_ENCODING_JSON: u32 = 5;
/// In an `outlive_payload_t`: bytes of which no more is known than the name.
pub const OUTLIVE_ENCODING_BYTES: u32 = 6;

/// A field of a type: OUTLIVE_FIELD(type, member) and the macros beside it.
#[repr(C)]
pub struct outlive_field_t {
    /// Its name.
    pub name: *const c_char,
    /// Bytes from the beginning of the type.
    pub offset: u32,
    /// One of the OUTLIVE_TYPE numbers.
    pub type_number: u32,
    /// Of an array its extents, the outermost first, and 0 behind the last of them.
    pub extents: [u32; 4],
    /// Of a nested type its description; else NULL.
    pub nested: *const outlive_payload_t,
}

/// The description of a payload's type, the same for all languages: OUTLIVE_PAYLOAD.
#[repr(C)]
pub struct outlive_payload_t {
    /// The type's name, the same in all languages; NULL matches every name.
    pub name: *const c_char,
    /// Its size in bytes; of a payload that is not raw 0.
    pub size: u32,
    /// Its alignment in bytes; of a payload that is not raw 0.
    pub align: u32,
    /// One of the OUTLIVE_ENCODING numbers.
    pub encoding: u32,
    /// Not 0: a message has any number of such values.
    pub is_slice: u32,
    /// The fields of a raw payload, in the order of their places.
    pub fields: *const outlive_field_t,
    /// How many fields.
    pub field_count: usize,
}

fn number(code: u32) -> Result<Number, Failure> {
    Ok(match code {
        OUTLIVE_TYPE_BOOL => Number::Bool,
        OUTLIVE_TYPE_U8 => Number::U8,
        OUTLIVE_TYPE_I8 => Number::I8,
        OUTLIVE_TYPE_U16 => Number::U16,
        OUTLIVE_TYPE_I16 => Number::I16,
        OUTLIVE_TYPE_U32 => Number::U32,
        OUTLIVE_TYPE_I32 => Number::I32,
        OUTLIVE_TYPE_U64 => Number::U64,
        OUTLIVE_TYPE_I64 => Number::I64,
        OUTLIVE_TYPE_F32 => Number::F32,
        OUTLIVE_TYPE_F64 => Number::F64,
        _ => return Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_TYPE numbers")),
    })
}

/// Returns what a C caller describes; `None` for NULL.
///
/// # Safety
/// The C caller guarantees NULL, or a description whose pointers are NULL or valid, and nested ones
/// that are the same.
pub(crate) unsafe fn description(
    given: *const outlive_payload_t,
) -> Result<Option<Description>, Failure> {
    if given.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller guarantees a description.
    let given = unsafe { borrow(given, "a payload's description") }?;
    // SAFETY: the caller guarantees NULL or a text.
    let name = unsafe { text_or_none(given.name) }?.unwrap_or_default();
    let encoding = match given.encoding {
        OUTLIVE_ENCODING_RAW => Encoding::Raw,
        OUTLIVE_ENCODING_MSGPACK => Encoding::Msgpack,
        OUTLIVE_ENCODING_CDR => Encoding::Cdr,
        OUTLIVE_ENCODING_PROTOBUF => Encoding::Protobuf,
        OUTLIVE_ENCODING_JSON => Encoding::Json,
        OUTLIVE_ENCODING_BYTES => Encoding::Bytes,
        _ => return Err(Failure::new(libc::EINVAL, "none of the OUTLIVE_ENCODING numbers")),
    };
    if encoding != Encoding::Raw {
        return Ok(Some(Description::encoded(name, encoding)?));
    }
    // SAFETY: the caller guarantees valid fields.
    let (shape, tail) = unsafe { shape(given, 1, &mut 0) }?;
    let one = Description::raw(name, shape)?;
    let one = match tail {
        Some(tail) => one.with_tail(tail)?,
        None => one,
    };
    Ok(Some(if given.is_slice != 0 { one.slice()? } else { one }))
}

/// Returns a type's fields, and its tail if it has one.
///
/// # Safety
/// As with [`description`].
unsafe fn shape(
    given: &outlive_payload_t,
    depth: usize,
    count: &mut usize,
) -> Result<(Struct, Option<Field>), Failure> {
    *count += given.field_count;
    // A description that names itself would have no end.
    if depth > MOST_DEPTH || *count > MOST_FIELDS {
        let why = "a payload's description: at most 512 fields, nested at most 8 deep";
        return Err(Failure::new(libc::EINVAL, why));
    }
    // SAFETY: the caller guarantees so many fields.
    let given_fields = unsafe { items(given.fields, given.field_count, "fields") }?;
    let mut fields = Vec::with_capacity(given_fields.len());
    for field in given_fields {
        // SAFETY: the caller guarantees NULL or a text.
        let name = unsafe { text(field.name, "a field's name") }?.to_owned();
        let mut extents = field.extents.to_vec();
        while extents.last() == Some(&0) {
            extents.pop();
        }
        if extents.contains(&0) {
            let why = format!("the array '{name}' has no items in one of its extents");
            return Err(Failure::new(libc::EINVAL, &why));
        }
        let item = if field.type_number == OUTLIVE_TYPE_STRUCT {
            // SAFETY: the caller guarantees NULL or a description.
            let nested = unsafe { borrow(field.nested, "a nested type's description") }?;
            // SAFETY: the caller guarantees valid fields.
            let (nested, tail) = unsafe { shape(nested, depth + 1, count) }?;
            if tail.is_some() {
                let why = format!("the type of '{name}' has a tail, which a message alone has");
                return Err(Failure::new(libc::EINVAL, &why));
            }
            Item::Struct(nested)
        } else {
            Item::Number(number(field.type_number)?)
        };
        fields.push(Field { name, offset: field.offset, extents, item });
    }
    let tail = fields.pop_if(|field: &mut Field| field.extents.first() == Some(&OUTLIVE_TAIL));
    let tail = tail.map(|mut tail| {
        tail.extents.remove(0);
        tail
    });
    Ok((Struct { size: given.size, align: given.align, fields }, tail))
}

const _: () = assert!(MOST_EXTENTS == 4);
