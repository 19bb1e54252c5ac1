//! The message that JSON says.

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use serde_json::Value;

use super::room_of;
use crate::exit::{Code, Failure};
use crate::msgpack;

/// Returns the message that JSON says, or why it says none.
pub fn message(description: &Description, json: &[u8]) -> Result<Vec<u8>, Failure> {
    parsed(description, json).map_err(|why| Failure::new(Code::BadInput, why))
}

/// Returns the message that JSON says, or why it says none.
pub fn parsed(description: &Description, json: &[u8]) -> Result<Vec<u8>, String> {
    of_json(description, json).map_err(|why| format!("a message is no {description}: {why}"))
}

/// Returns the message that a line of JSON says.
pub(super) fn of_json(description: &Description, line: &[u8]) -> Result<Vec<u8>, String> {
    if description.encoding() == Encoding::Msgpack {
        return msgpack::of_json(line);
    }
    let mut value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let size = description.size() as usize;
    let write = |value: &Value, to: &mut [u8]| match description.single() {
        Some(field) => write_field("the value", field, value, to),
        None => write_struct("", description.shape(), value, to),
    };
    if let Some(tail) = description.tail() {
        let items = value.as_object_mut().and_then(|fields| fields.remove(&tail.name));
        let items = items.ok_or_else(|| format!("field '{}' is missing", tail.name))?;
        let items =
            items.as_array().ok_or_else(|| format!("'{}' is an array of any length", tail.name))?;
        let each = usize::try_from(tail.bytes()).map_err(|_| "an item lies outside")?;
        let mut bytes = vec![0; size + each * items.len()];
        let (head, rest) = bytes.split_at_mut(size);
        write(&value, head)?;
        for (at, (item, to)) in items.iter().zip(rest.chunks_exact_mut(each.max(1))).enumerate() {
            write_items(&format!("{}[{at}]", tail.name), &tail.extents, &tail.item, item, to)?;
        }
        return Ok(bytes);
    }
    if !description.is_slice() {
        let mut bytes = vec![0; size];
        write(&value, &mut bytes)?;
        return Ok(bytes);
    }
    let values = value.as_array().ok_or("an array of values is needed")?;
    let mut bytes = vec![0; size * values.len()];
    for (value, to) in values.iter().zip(bytes.chunks_exact_mut(size.max(1))) {
        write(value, to)?;
    }
    Ok(bytes)
}

fn write_struct(path: &str, shape: &Struct, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let what = if path.is_empty() { "the value" } else { path.trim_end_matches('.') };
    if let (true, Some(text)) = (shape.is_text(), value.as_str()) {
        let (length, bytes) = to.split_at_mut_checked(4).ok_or("a text lies outside")?;
        // Behind the bytes a struct may have padding, which is none of the text's.
        let room = room_of(shape);
        let bytes = bytes.get_mut(..room as usize).ok_or("a text lies outside")?;
        let place = bytes.get_mut(..text.len());
        let place = place.ok_or_else(|| format!("'{what}' has room for {room} bytes"))?;
        place.copy_from_slice(text.as_bytes());
        length.copy_from_slice(&(text.len() as u32).to_ne_bytes());
        return Ok(());
    }
    if let (true, [_, items], Some(values)) = (shape.is_list(), &shape.fields[..], value.as_array())
    {
        let (room, inner) = items.extents.split_first().ok_or("a list without room")?;
        if values.len() > *room as usize {
            return Err(format!("'{what}' has room for {room} items"));
        }
        let (length, bytes) = to.split_at_mut_checked(8).ok_or("a list lies outside")?;
        length.copy_from_slice(&(values.len() as u64).to_ne_bytes());
        // Of the items that are given, not of the bytes: behind the room there may be padding.
        let one = Field { extents: inner.to_vec(), offset: 0, ..items.clone() };
        let each = usize::try_from(one.bytes()).map_err(|_| "a list lies outside")?;
        for (at, value) in values.iter().enumerate() {
            let to = bytes.get_mut(at * each..).ok_or("an item lies outside")?;
            write_field(&format!("{what}[{at}]"), &one, value, to)?;
        }
        return Ok(());
    }
    let given = value.as_object().ok_or_else(|| format!("{what} is an object with fields"))?;
    if let Some(other) = given.keys().find(|key| shape.fields.iter().all(|one| one.name != **key)) {
        return Err(format!("there is no field '{path}{other}'"));
    }
    for field in &shape.fields {
        let path = format!("{path}{}", field.name);
        let value = given.get(&field.name).ok_or_else(|| format!("field '{path}' is missing"))?;
        write_field(&path, field, value, to)?;
    }
    Ok(())
}

/// Writes a field into the bytes of the type that it belongs to.
fn write_field(path: &str, field: &Field, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let end = u64::from(field.offset) + field.bytes();
    let to = to.get_mut(field.offset as usize..end as usize).ok_or("a field lies outside")?;
    write_items(path, &field.extents, &field.item, value, to)
}

fn write_items(
    path: &str,
    extents: &[u32],
    item: &Item,
    value: &Value,
    to: &mut [u8],
) -> Result<(), String> {
    let Some((count, inner)) = extents.split_first() else {
        return match item {
            Item::Number(number) => write_number(path, *number, value, to),
            Item::Struct(nested) => write_struct(&format!("{path}."), nested, value, to),
            _ => Err(format!("'{path}' is of a type that this program does not know")),
        };
    };
    let values = value.as_array().filter(|values| values.len() == *count as usize);
    let values = values.ok_or_else(|| format!("'{path}' is an array of {count}"))?;
    let each = to.len().checked_div(values.len()).unwrap_or(0);
    for (at, value) in values.iter().enumerate() {
        let to = to.get_mut(at * each..(at + 1) * each).ok_or("an item lies outside")?;
        write_items(&format!("{path}[{at}]"), inner, item, value, to)?;
    }
    Ok(())
}

fn write_number(path: &str, number: Number, value: &Value, to: &mut [u8]) -> Result<(), String> {
    let other = || format!("'{path}' is a number of type {}, not {value}", number.name());
    macro_rules! whole {
        ($type:ty) => {{
            let signed = value.as_i64().and_then(|number| <$type>::try_from(number).ok());
            let number = signed.or_else(|| value.as_u64().and_then(|n| <$type>::try_from(n).ok()));
            to.copy_from_slice(&number.ok_or_else(other)?.to_ne_bytes());
        }};
    }
    let real = || if value.is_null() { Some(f64::NAN) } else { value.as_f64() }.ok_or_else(other);
    match number {
        Number::Bool if value.is_boolean() => to[0] = u8::from(value == &Value::Bool(true)),
        Number::Bool | Number::U8 => whole!(u8),
        Number::I8 => whole!(i8),
        Number::U16 => whole!(u16),
        Number::I16 => whole!(i16),
        Number::U32 => whole!(u32),
        Number::I32 => whole!(i32),
        Number::U64 => whole!(u64),
        Number::I64 => whole!(i64),
        Number::F32 => to.copy_from_slice(&(real()? as f32).to_ne_bytes()),
        Number::F64 => to.copy_from_slice(&real()?.to_ne_bytes()),
        _ => return Err(other()),
    }
    Ok(())
}
