//! `pub` and `echo` of a topic that describes its messages: JSON in, JSON out.

use outlive::Domain;
use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use outlive::topic::Topic;
use serde_json::json;

use crate::stage::Stage;

fn pose() -> Description {
    let number = |name: &str, offset, extents: &[u32], number| Field {
        name: name.into(),
        offset,
        extents: extents.to_vec(),
        item: Item::Number(number),
    };
    let fields = vec![number("place", 0, &[3], Number::F64), number("frame", 24, &[], Number::U32)];
    Description::raw("Pose", Struct { size: 32, align: 8, fields }).expect("possible")
}

#[test]
fn fields_are_json() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    Topic::<[u8]>::options().description(pose()).create_new(&domain, "pose").expect("made");
    let line = r#"{"place": [1, 2.5, -3], "frame": 7}"#;
    stage.feed(&["topic", "pub", "pose"], line.as_bytes()).expect(0);
    let latest = ["topic", "echo", "pose", "--history", "1", "--count", "1"];
    let shown = stage.run(&latest).expect(0).json();
    assert_eq!(shown, json!({"place": [1.0, 2.5, -3.0], "frame": 7}));
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&told["value"], &told["bytes"]), (&shown, &json!(32)));
    // With an option that says where messages end, they are bytes, as ever.
    assert_eq!(stage.run(&[&latest[..], &["--raw"]].concat()).expect(0).out.len(), 32);
    stage.feed(&["topic", "pub", "pose", "--frame", "32"], &[0; 32]).expect(0);
    assert_eq!(stage.run(&latest).expect(0).json()["frame"], 0);
    let info = stage.run(&["domain", "info", "pose"]).expect(0).text();
    assert!(info.contains("Pose { place: f64[3], frame: u32 }"), "{info}");
    // What is wrong with a message.
    let wrong = stage.feed(&["topic", "pub", "pose"], b"{\"place\": [1, 2], \"frame\": 7}\n");
    wrong.expect(16).says("'place' is an array of 3");
    stage.feed(&["topic", "pub", "pose"], b"hello\n").expect(16).says("Pose");
}

/// A person is shown the beginning of a long array, and a program all of it.
#[test]
fn a_frame_is_cut_unless_it_is_wanted() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let frames = Topic::<[[u8; 640]; 4]>::options().described().create_new(&domain, "frame");
    frames.and_then(|topic| topic.publisher()).expect("made").publish(&[[7; 640]; 4]).expect("out");
    let latest = ["topic", "echo", "frame", "--history", "1", "--count", "1"];
    let shown = stage.run(&latest).expect(0).text();
    assert!(shown.ends_with("7,7,\"… 384 more\"],\"… 3 more\"]\n"), "{shown}");
    let full = stage.run(&[&latest[..], &["--full"]].concat()).expect(0).json();
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(full, told["value"]);
    assert_eq!(full[3].as_array().map(Vec::len), Some(640));
}

#[test]
fn other_encodings_are_bytes() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let text = Description::encoded("Pose", Encoding::Json).expect("possible");
    Topic::<[u8]>::options().description(text).create_new(&domain, "pose").expect("made");
    stage.feed(&["topic", "pub", "pose"], b"{}\n").expect(0);
    let latest = ["topic", "echo", "pose", "--history", "1", "--count", "1"];
    assert_eq!(stage.run(&latest).expect(0).text(), "{}\n");
}
