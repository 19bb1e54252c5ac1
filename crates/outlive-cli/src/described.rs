//! Messages of which the topic has a description, and JSON: one as the other.
//!
//! JSON knows less: a floating-point number that is none becomes null, and null such a one.

use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use serde_json::{Map, Value};

/// Returns whether messages of that description have fields that can be shown.
pub fn has_fields(description: &Description) -> bool {
    description.encoding() == Encoding::Raw
}

/// Returns a message as JSON; `None` if its length is not the type's.
pub fn to_json(description: &Description, bytes: &[u8]) -> Option<Value> {
    if !has_fields(description) || !description.fits(bytes.len()) {
        return None;
    }
    if !description.is_slice() {
        return value_of(description, bytes);
    }
    let size = usize::try_from(description.size()).ok().filter(|size| *size > 0)?;
    bytes.chunks_exact(size).map(|one| value_of(description, one)).collect()
}

fn value_of(description: &Description, bytes: &[u8]) -> Option<Value> {
    match description.single() {
        Some(field) => field_of(field, bytes),
        None => struct_of(description.shape(), bytes),
    }
}

fn struct_of(shape: &Struct, bytes: &[u8]) -> Option<Value> {
    if shape.is_text() {
        let (length, text) = bytes.split_first_chunk()?;
        let text = text.get(..room_of(shape) as usize)?;
        let length = (u32::from_ne_bytes(*length) as usize).min(text.len());
        return Some(String::from_utf8_lossy(&text[..length]).into());
    }
    if let [_, items] = &shape.fields[..]
        && shape.is_list()
    {
        let Value::Array(mut all) = field_of(items, bytes)? else { return None };
        let length = u64::from_ne_bytes(*bytes.first_chunk()?);
        all.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        return Some(Value::Array(all));
    }
    let fields =
        shape.fields.iter().map(|field| Some((field.name.clone(), field_of(field, bytes)?)));
    fields.collect::<Option<Map<_, _>>>().map(Value::Object)
}

fn field_of(field: &Field, bytes: &[u8]) -> Option<Value> {
    let bytes = bytes.get(field.offset as usize..)?;
    let bytes = bytes.get(..usize::try_from(field.bytes()).ok()?)?;
    items_of(&field.extents, &field.item, bytes)
}

fn items_of(extents: &[u32], item: &Item, bytes: &[u8]) -> Option<Value> {
    let Some((count, inner)) = extents.split_first() else {
        return match item {
            Item::Number(number) => number_of(*number, bytes),
            Item::Struct(nested) => struct_of(nested, bytes),
            _ => None,
        };
    };
    match bytes.len().checked_div(*count as usize) {
        None | Some(0) => Some(Value::Array(Vec::new())),
        Some(each) => bytes.chunks_exact(each).map(|one| items_of(inner, item, one)).collect(),
    }
}

fn number_of(number: Number, bytes: &[u8]) -> Option<Value> {
    macro_rules! of {
        ($type:ty) => {
            <$type>::from_ne_bytes(bytes.try_into().ok()?)
        };
    }
    Some(match number {
        Number::Bool => match of!(u8) {
            0 => false.into(),
            1 => true.into(),
            other => other.into(),
        },
        Number::U8 => of!(u8).into(),
        Number::I8 => of!(i8).into(),
        Number::U16 => of!(u16).into(),
        Number::I16 => of!(i16).into(),
        Number::U32 => of!(u32).into(),
        Number::I32 => of!(i32).into(),
        Number::U64 => of!(u64).into(),
        Number::I64 => of!(i64).into(),
        // Its shortest form, not the digits of the same number with 64 bits.
        Number::F32 => of!(f32).to_string().parse::<f64>().map_or(Value::Null, Value::from),
        Number::F64 => of!(f64).into(),
        _ => return None,
    })
}

/// Returns the message that a line of JSON says.
pub fn of_json(description: &Description, line: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let size = description.size() as usize;
    let write = |value: &Value, to: &mut [u8]| match description.single() {
        Some(field) => write_field("the value", field, value, to),
        None => write_struct("", description.shape(), value, to),
    };
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

/// Returns how many bytes a text has room for, or items a list.
fn room_of(shape: &Struct) -> u32 {
    shape.fields.get(1).and_then(|field| field.extents.first()).copied().unwrap_or(0)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn number(name: &str, offset: u32, extents: &[u32], number: Number) -> Field {
        Field { name: name.into(), offset, extents: extents.to_vec(), item: Item::Number(number) }
    }

    fn track() -> Description {
        let fields = vec![number("x", 0, &[], Number::F32), number("n", 4, &[2], Number::I16)];
        let point = Item::Struct(Struct { size: 8, align: 4, fields });
        let points = Field { name: "points".into(), offset: 4, extents: vec![2], item: point };
        let fields = vec![number("ok", 0, &[], Number::Bool), points];
        Description::raw("Track", Struct { size: 20, align: 4, fields }).expect("possible")
    }

    #[test]
    fn what_was_written_comes_back() {
        let text = r#"{"ok":true,"points":[{"n":[-1,2],"x":0.1},{"n":[0,32767],"x":-3.0}]}"#;
        let line: Value = serde_json::from_str(text).expect("JSON");
        let bytes = of_json(&track(), text.as_bytes()).expect("a message");
        assert_eq!(bytes.len(), 20);
        assert_eq!(to_json(&track(), &bytes), Some(line.clone()));
        let tracks = track().slice().expect("possible");
        let both = format!("[{text},{text}]");
        let bytes = of_json(&tracks, both.as_bytes()).expect("a message");
        assert_eq!(to_json(&tracks, &bytes), Some(Value::Array(vec![line.clone(), line])));
        assert_eq!(to_json(&tracks, &bytes[1..]), None, "another length");
    }

    /// A name and a list of items, as every language declares them.
    #[test]
    fn texts_and_lists_are_json_of_their_own() {
        let points = Struct {
            size: 24,
            align: 8,
            fields: vec![
                number("length", 0, &[], Number::U64),
                number("items", 8, &[4], Number::F32),
            ],
        };
        let nested = |name: &str, offset, item| Field {
            name: name.into(),
            offset,
            extents: Vec::new(),
            item: Item::Struct(item),
        };
        let fields = vec![nested("name", 0, Struct::text(12)), nested("ranges", 16, points)];
        let scan = Description::raw("Scan", Struct { size: 40, align: 8, fields });
        let scan = scan.expect("possible");
        let line = r#"{"name":"größe","ranges":[0.5,1.5]}"#;
        let bytes = of_json(&scan, line.as_bytes()).expect("a message");
        assert_eq!((bytes[0], bytes[16], bytes.len()), (7, 2, 40));
        assert_eq!(to_json(&scan, &bytes).expect("JSON").to_string(), line);
        // Lengths of a hostile publisher.
        let all = to_json(&scan, &[0xff; 40]).expect("JSON");
        assert_eq!(all["ranges"].as_array().map(Vec::len), Some(4));
        let long = r#"{"name":"a","ranges":[1,2,3,4,5]}"#;
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'ranges' has room for 4 items".into()));
        let long = r#"{"name":"0123456789abc","ranges":[]}"#;
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'name' has room for 12 bytes".into()));
    }

    /// A C struct is padded behind its bytes or items, and an item can be a struct or an array.
    #[test]
    fn padding_behind_a_text_or_list_is_none_of_it() {
        let one = |name: &str, offset, item| Field {
            name: name.into(),
            offset,
            extents: Vec::new(),
            item: Item::Struct(item),
        };
        let list = |size, items: Field| Struct {
            size,
            align: 8,
            fields: vec![number("length", 0, &[], Number::U64), items],
        };
        let point = Struct { size: 12, align: 4, fields: vec![number("at", 0, &[3], Number::F32)] };
        let points = Field { extents: vec![3], ..one("items", 8, point) };
        let fields =
            vec![number("length", 0, &[], Number::U32), number("bytes", 4, &[5], Number::U8)];
        let fields = vec![
            one("name", 0, Struct { size: 12, align: 4, fields }),
            one("ranges", 16, list(24, number("items", 8, &[3], Number::F32))),
            one("points", 40, list(48, points)),
            one("pairs", 88, list(24, number("items", 8, &[3, 2], Number::I16))),
        ];
        let scan = Description::raw("Scan", Struct { size: 112, align: 8, fields });
        let scan = scan.expect("possible");
        let line = concat!(
            r#"{"name":"abcde","pairs":[[1,2],[3,4],[5,6]],"points":[{"at":[1.0,2.0,3.0]},"#,
            r#"{"at":[4.0,5.0,6.0]},{"at":[7.0,8.0,9.0]}],"ranges":[0.5,1.5,2.5]}"#
        );
        let bytes = of_json(&scan, line.as_bytes()).expect("a message");
        assert_eq!(bytes[32..36], 2.5_f32.to_ne_bytes(), "the third of the ranges");
        assert_eq!(to_json(&scan, &bytes).expect("JSON").to_string(), line);
        assert_eq!(to_json(&scan, &[b'x'; 112]).expect("JSON")["name"], "xxxxx");
        let long = line.replace("abcde", "abcdef");
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'name' has room for 5 bytes".into()));
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        for (line, why) in [
            ("[1]", "the value is an object with fields"),
            (r#"{"ok": 1}"#, "field 'points' is missing"),
            (r#"{"ok": 1, "points": [], "z": 1}"#, "there is no field 'z'"),
            (r#"{"ok": 1, "points": [1]}"#, "'points' is an array of 2"),
            (r#"{"ok": 1, "points": [1, 2]}"#, "points[0] is an object with fields"),
            (
                r#"{"ok": 1, "points": [{"x": 1, "n": [1, 40000]}, 1]}"#,
                "'points[0].n[1]' is a number of type i16, not 40000",
            ),
        ] {
            assert_eq!(of_json(&track(), line.as_bytes()), Err(why.to_owned()));
        }
    }
}
