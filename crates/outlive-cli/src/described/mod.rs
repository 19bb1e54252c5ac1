//! Messages, values, requests and replies that are described, with fields or as msgpack, and JSON:
//! one as the other.
//!
//! | file | what it does |
//! | --- | --- |
//! | `shown.rs` | the JSON of a message |
//! | `read.rs` | the message that JSON says |
//! | `pick.rs` | one number of a message, by its path |
//! | `told.rs` | what a description says, for people and programs |
//!
//! JSON knows less: a floating-point number that is none becomes null, and null such a one.

#[cfg(feature = "plot")]
pub mod pick;
mod read;
mod shown;
mod told;

use outlive::describe::{Description, Encoding, Struct};

pub use read::{message, parsed};
pub use shown::{Shown, line};
pub use told::{Told, lines};

/// The most numbers of a message that a person is shown, and the most bytes of a text in it.
pub const SHOWN: usize = 256;

/// Returns whether messages of that description have fields that can be shown.
pub fn has_fields(description: &Description) -> bool {
    description.encoding() == Encoding::Raw
}

/// Returns whether the program prints and takes messages of that description as JSON: those with
/// fields, and msgpack.
pub fn is_json(description: &Description) -> bool {
    has_fields(description) || description.encoding() == Encoding::Msgpack
}

/// Returns how many bytes a text has room for, or items a list.
fn room_of(shape: &Struct) -> u32 {
    shape.fields.get(1).and_then(|field| field.extents.first()).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use outlive::describe::{Field, Item, Number};
    use serde_json::Value;

    use super::read::of_json;
    use super::*;

    fn shown(description: &Description, bytes: &[u8], most: usize) -> Option<String> {
        let shown = Shown::new(description, bytes, most)?;
        Some(serde_json::to_string(&shown).expect("JSON"))
    }

    fn to_json(description: &Description, bytes: &[u8]) -> Option<Value> {
        let text = shown(description, bytes, usize::MAX)?;
        Some(serde_json::from_str(&text).expect("JSON"))
    }

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

    #[test]
    fn a_tail_is_an_array_of_any_length() {
        let item = track().shape().fields[1].item.clone();
        let tail = Field { name: "dots".into(), offset: 20, extents: vec![2], item };
        let track = track().with_tail(tail).expect("possible");
        let head = r#""ok":true,"points":[{"x":0.5,"n":[1,2]},{"x":1.5,"n":[3,4]}]"#;
        let item = r#"[{"x":2.5,"n":[5,6]},{"x":3.5,"n":[7,8]}]"#;
        for (items, len) in [(String::new(), 20), (item.into(), 36), (format!("{item},{item}"), 52)]
        {
            let line = format!(r#"{{{head},"dots":[{items}]}}"#);
            let bytes = of_json(&track, line.as_bytes()).expect("a message");
            assert_eq!(bytes.len(), len);
            assert_eq!(shown(&track, &bytes, usize::MAX), Some(line));
        }
        assert_eq!(shown(&track, &[0; 35], SHOWN), None, "another length");
        let short = shown(&track, &[0; 20 + 16 * 100], 10).expect("shown");
        assert!(
            short.ends_with(r#""dots":[[{"x":0.0,"n":[0,0]},"… 1 more"],"… 99 more"]}"#),
            "{short}"
        );
        let why = |line: &str| of_json(&track, line.as_bytes()).expect_err("wrong");
        assert_eq!(why(&format!("{{{head}}}")), "field 'dots' is missing");
        assert_eq!(why(&format!(r#"{{{head},"dots":7}}"#)), "'dots' is an array of any length");
        assert_eq!(why(&format!(r#"{{{head},"dots":[[1]]}}"#)), "'dots[0]' is an array of 2");
        let told = lines(&track).pop().expect("the tail").1;
        assert_eq!(
            told,
            "dots: any number of { x: f32, n: i16[2] }[2], each of 16 bytes, from byte 20"
        );
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
        assert_eq!(shown(&scan, &bytes, SHOWN).as_deref(), Some(line));
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
            r#"{"name":"abcde","ranges":[0.5,1.5,2.5],"points":[{"at":[1.0,2.0,3.0]},"#,
            r#"{"at":[4.0,5.0,6.0]},{"at":[7.0,8.0,9.0]}],"pairs":[[1,2],[3,4],[5,6]]}"#
        );
        let bytes = of_json(&scan, line.as_bytes()).expect("a message");
        assert_eq!(bytes[32..36], 2.5_f32.to_ne_bytes(), "the third of the ranges");
        assert_eq!(shown(&scan, &bytes, SHOWN).as_deref(), Some(line));
        assert_eq!(to_json(&scan, &[b'x'; 112]).expect("JSON")["name"], "xxxxx");
        let long = line.replace("abcde", "abcdef");
        assert_eq!(of_json(&scan, long.as_bytes()), Err("'name' has room for 5 bytes".into()));
    }

    /// A person is shown the beginning of a long message, and a hostile one takes no memory.
    #[test]
    fn what_is_long_is_cut() {
        let frame = Description::of::<[[u8; 1920]; 1080]>();
        let bytes = vec![7; 1920 * 1080];
        let line = shown(&frame, &bytes, 3).expect("fits");
        assert_eq!(line, r#"[[7,7,7,"… 1,917 more"],"… 1,079 more"]"#);
        let slice = Description::of::<u16>().slice().expect("possible");
        let line = shown(&slice, &[1; 1000], 2).expect("fits");
        assert_eq!(line, r#"[257,257,"… 498 more"]"#);
        let one = Field { name: "a".into(), offset: 0, extents: Vec::new(), item: text(8) };
        let fields = vec![one, number("b", 12, &[4], Number::U8)];
        let named = Description::raw("N", Struct { size: 16, align: 1, fields }).expect("possible");
        let line = shown(&named, b"\x08\0\0\0abcdefgh\x01\x02\x03\x04", 3).expect("fits");
        assert_eq!(line, r#"{"a":"abc…","b":[1,2,"… 2 more"]}"#);
        let all = shown(&frame, &bytes, usize::MAX).expect("fits");
        assert_eq!(all.matches('7').count(), 1920 * 1080);
    }

    fn text(room: u32) -> Item {
        Item::Struct(Struct::text(room))
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
