//! msgpack and JSON, one as the other.
//!
//! JSON knows less: bytes become text of two digits each, keys that are no strings become their
//! text, or their bytes where they have parts, numbers that are none become null, and an extension
//! becomes its number and its bytes.

use rmpv::Value as Packed;
use serde_json::{Map, Number, Value, json};

/// Returns a line of JSON as msgpack.
pub fn of_json(line: &[u8]) -> Result<Vec<u8>, String> {
    let value: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    rmp_serde::to_vec_named(&value).map_err(|error| error.to_string())
}

/// Returns msgpack as JSON; all of the bytes must be one value.
pub fn to_json(bytes: &[u8]) -> Result<Value, String> {
    let mut rest = bytes;
    // The publisher decides how deep it is; this many levels fit on any stack.
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, 128)
        .map_err(|error| error.to_string())?;
    if rest.is_empty() {
        Ok(plain(&value))
    } else {
        Err(format!("{} bytes are left behind the value", rest.len()))
    }
}

fn plain(value: &Packed) -> Value {
    match value {
        Packed::Nil => Value::Null,
        Packed::Boolean(flag) => Value::Bool(*flag),
        Packed::Integer(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into(),
            (None, Some(number)) => number.into(),
            (None, None) => Value::Null,
        },
        Packed::F32(number) => {
            Number::from_f64(f64::from(*number)).map_or(Value::Null, Value::Number)
        }
        Packed::F64(number) => Number::from_f64(*number).map_or(Value::Null, Value::Number),
        Packed::String(text) => match text.as_str() {
            Some(text) => text.into(),
            None => hex(text.as_bytes()).into(),
        },
        Packed::Binary(bytes) => hex(bytes).into(),
        Packed::Array(values) => values.iter().map(plain).collect(),
        Packed::Map(pairs) => {
            let pairs = pairs.iter().map(|(key, value)| (key_text(key), plain(value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        Packed::Ext(number, bytes) => json!({"extension": number, "bytes": hex(bytes)}),
    }
}

/// Returns a key as text. One that has parts becomes its bytes: as JSON, each level of keys within
/// keys would double the text.
fn key_text(key: &Packed) -> String {
    match key {
        Packed::Array(_) | Packed::Map(_) | Packed::Ext(..) => {
            let mut bytes = Vec::new();
            // A vector takes all that is written.
            let _ = rmpv::encode::write_value(&mut bytes, key);
            hex(&bytes)
        }
        _ => match plain(key) {
            Value::String(text) => text,
            other => other.to_string(),
        },
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_knows_comes_back_as_it_was() {
        for text in [
            "null",
            "[1,-2,1.5,\"größe\",true,{}]",
            "{\"a\":{\"b\":[]},\"c\":18446744073709551615}",
        ] {
            let packed = of_json(text.as_bytes()).expect("JSON");
            assert_eq!(to_json(&packed).expect("msgpack").to_string(), text);
        }
        assert!(of_json(b"{1}").is_err());
    }

    #[test]
    fn what_json_does_not_know_is_told_all_the_same() {
        assert_eq!(to_json(b"\xc4\x02\xff\x00").expect("bytes"), "ff00");
        assert_eq!(to_json(b"\x81\x01\xc0").expect("a number as key"), json!({"1": null}));
        assert_eq!(
            to_json(b"\xd4\x05\xaa").expect("an extension"),
            json!({"extension": 5, "bytes": "aa"})
        );
        assert_eq!(to_json(b"\xcb\x7f\xf8\0\0\0\0\0\0").expect("not a number"), Value::Null);
        for wrong in [&b""[..], b"\x92\x01", b"\x01\x01", b"\xdf\xff\xff\xff\xff"] {
            assert!(to_json(wrong).is_err(), "{wrong:x?}");
        }
        assert!(to_json(&[0x91; 100_000]).is_err(), "deeper than any stack");
        let keys_of_keys = [[0x81; 40].as_slice(), &[0xc0; 41]].concat();
        let text = to_json(&keys_of_keys).expect("maps as keys of maps").to_string();
        assert!(text.len() < 1_000, "{} bytes", text.len());
    }
}
