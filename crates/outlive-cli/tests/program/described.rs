//! `pub` and `echo` of a topic that describes its messages: JSON in, JSON out.

use std::fs;
use std::process::Stdio;

use outlive::Domain;
use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::{Durability, Topic};
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
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent);
    kept.description(pose()).create_new(&domain, "pose").expect("made");
    let line = r#"{"place": [1, 2.5, -3], "frame": 7}"#;
    stage.feed(&["topic", "pub", "pose"], line.as_bytes()).expect(0);
    let latest = ["topic", "echo", "pose", "--history", "1", "--count", "1"];
    let shown = stage.run(&latest).expect(0).json();
    assert_eq!(shown, json!({"place": [1.0, 2.5, -3.0], "frame": 7}));
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&told["value"], &told["bytes"]), (&shown, &json!(32)));
    // In a file it is JSON, too, a line each.
    let path = stage.path("latest");
    let mut command = stage.command(latest);
    command.stdout(fs::File::create(&path).expect("made")).stderr(Stdio::null());
    assert!(command.status().expect("run").success());
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).expect("JSON"), shown);
    assert!(text.ends_with("}\n"), "{text}");
    // With an option that says where messages end, they are bytes, as ever.
    assert_eq!(stage.run(&[&latest[..], &["--raw"]].concat()).expect(0).out.len(), 32);
    stage.feed(&["topic", "pub", "pose", "--frame", "32"], &[0; 32]).expect(0);
    assert_eq!(stage.run(&latest).expect(0).json()["frame"], 0);
    let info = stage.run(&["domain", "info", "pose"]).expect(0).text();
    assert!(info.contains("Pose, raw, 32 bytes, alignment 8\n"), "{info}");
    assert!(info.contains("place: f64[3] at byte 0\n"), "{info}");
    assert!(info.contains("persistent\n") && info.contains("best effort\n"), "{info}");
    let info = stage.run(&["topic", "info", "pose", "--json"]).expect(0).json();
    let fields = json!([{"name": "place", "type": "f64", "offset": 0, "extents": [3]},
                        {"name": "frame", "type": "u32", "offset": 24}]);
    assert_eq!(
        info["payload"],
        json!({"text": "Pose { place: f64[3], frame: u32 }", "name": "Pose", "encoding": "raw",
               "slice": false, "size": 32, "align": 8, "fields": fields})
    );
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
    let kept = Topic::<[[u8; 640]; 4]>::options().durability(Durability::Persistent);
    let frames = kept.described().create_new(&domain, "frame");
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
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent);
    kept.description(text).create_new(&domain, "pose").expect("made");
    stage.feed(&["topic", "pub", "pose"], b"{}\n").expect(0);
    let latest = ["topic", "echo", "pose", "--history", "1", "--count", "1"];
    assert_eq!(stage.run(&latest).expect(0).text(), "{}\n");
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(told["value"], json!({}));
    let info = stage.run(&["topic", "info", "pose"]).expect(0).text();
    assert!(info.contains("Pose, json\n"), "{info}");
    let info = stage.run(&["topic", "info", "pose", "--json"]).expect(0).json();
    let told = json!({"text": "Pose (json)", "name": "Pose", "encoding": "json", "slice": false});
    assert_eq!(info["payload"], told);
}

/// Messages in msgpack are JSON without an option, where the description says that they are.
#[test]
fn msgpack_is_json_where_the_description_names_it() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let packed = || Description::encoded("Drive", Encoding::Msgpack).expect("possible");
    let kept = Topic::<[u8]>::options().durability(Durability::Persistent);
    kept.description(packed()).create_new(&domain, "drive").expect("made");
    stage.feed(&["topic", "pub", "drive"], b"{\"speed\":1.5,\"gear\":[3]}\n").expect(0);
    let latest = ["topic", "echo", "drive", "--history", "1", "--count", "1"];
    let value = json!({"speed": 1.5, "gear": [3]});
    assert_eq!(stage.run(&latest).expect(0).json(), value);
    let told = stage.run(&[&latest[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(told["value"], value);
    assert_eq!(stage.run(&[&latest[..], &["--raw"]].concat()).expect(0).out[0], 0x82);
    stage.feed(&["topic", "pub", "drive"], b"hello\n").expect(16).says("Drive (msgpack)");
    // Of a program that keeps to nothing.
    stage.feed(&["topic", "pub", "drive", "--frame", "3"], &[0xc1; 3]).expect(0);
    assert_eq!(stage.run(&latest).expect(0).text(), "c1c1c1\n");
    // The same of a queue and a state.
    Queue::<[u8]>::options().description(packed()).create_new(&domain, "q").expect("made");
    stage.feed(&["queue", "send", "q"], b"{\"a\":1}\n").expect(0);
    assert_eq!(
        stage.run(&["queue", "recv", "q", "--count", "1"]).expect(0).json(),
        json!({"a": 1})
    );
    State::<[u8]>::options().description(packed()).create_new(&domain, "s").expect("made");
    stage.feed(&["state", "set", "s"], b"{\"a\":2}\n").expect(0);
    assert_eq!(stage.run(&["state", "get", "s"]).expect(0).json(), json!({"a": 2}));
}

/// A history of publishers that are gone, which the topic does not keep: that is said at once.
#[test]
fn a_history_that_is_not_kept_is_told() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let topic = Topic::<[u8]>::open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(b"yesterday's").expect("published");
    let echo = ["topic", "echo", "t", "--history", "1", "--count", "1", "--timeout", "0.05"];
    assert_eq!(stage.run(&echo).expect(0).text(), "yesterday's\n");
    drop(publisher);
    stage.run(&echo).expect(5).says("nothing is kept of 't': its publishers are gone");
}

/// Messages of a queue: JSON in and out, bytes with an option that says where they end.
#[test]
fn a_queue_of_a_described_type_is_json() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    Queue::<[u8]>::options().description(pose()).create_new(&domain, "q").expect("made");
    let line = r#"{"place":[1.0,2.5,-3.0],"frame":7}"#;
    stage.feed(&["queue", "send", "q"], format!("{line}\n\n{line}").as_bytes()).expect(0);
    stage
        .feed(&["queue", "send", "q", "--length-prefixed"], b"\x04\0\0\0\x01\x02\x03\x04")
        .expect(0);
    let one = ["queue", "recv", "q", "--count", "1"];
    assert_eq!(stage.run(&one).expect(0).text(), format!("{line}\n"));
    let told = stage.run(&[&one[..], &["--json"]].concat()).expect(0).json();
    assert_eq!((&told["value"]["frame"], &told["bytes"]), (&json!(7), &json!(32)));
    // Another length: of a program without the description.
    assert_eq!(stage.run(&one).expect(0).out, b"\x01\x02\x03\x04\n");
    let wrong = stage.feed(&["queue", "send", "q"], b"{}");
    wrong.expect(16).says("field 'place' is missing");
    let info = stage.run(&["queue", "info", "q"]).expect(0).text();
    assert!(info.contains("frame: u32 at byte 24\n"), "{info}");
}

#[test]
fn a_state_of_a_described_type_is_json() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    State::<[u8]>::options().description(pose()).create_new(&domain, "s").expect("made");
    let line = r#"{"place":[1.0,2.5,-3.0],"frame":7}"#;
    stage.run(&["state", "set", "s", line]).expect(0);
    assert_eq!(stage.run(&["state", "get", "s"]).expect(0).text(), format!("{line}\n"));
    let told = stage.run(&["state", "get", "s", "--json"]).expect(0).json();
    assert_eq!((&told["value"]["frame"], &told["version"]), (&json!(7), &json!(2)));
    let watched = stage.run(&["state", "watch", "s", "--count", "1"]).expect(0).text();
    assert_eq!(watched, format!("{line}\n"));
    assert_eq!(stage.run(&["state", "get", "s", "--raw"]).expect(0).out.len(), 32);
    stage.run(&["state", "set", "s", "[]"]).expect(16).says("an object with fields");
    stage.feed(&["state", "set", "s", "--raw"], &[0; 32]).expect(0);
    assert_eq!(stage.run(&["state", "get", "s"]).expect(0).json()["frame"], 0);
}

/// A command serves with JSON: the request comes as it is typed, and the reply is read as typed.
#[test]
fn a_service_of_described_types_is_json() {
    let stage = Stage::new();
    let domain = Domain::open_or_create_at(stage.domain()).expect("opens");
    let both = pose().with_reply(Description::of::<[u32; 2]>()).expect("possible");
    Service::<[u8], [u8]>::options().description(both).create_new(&domain, "r").expect("made");
    let script =
        r#"read -r line; case "$line" in *'"frame":7'*) echo '[7, 8]';; *) echo no;; esac"#;
    let serving = stage.start(&["service", "serve", "r", "--count", "3", "sh", "-c", script]);
    let line = r#"{"place": [1, 2.5, -3], "frame": 7}"#;
    let call = ["service", "call", "r", "--wait-for-server"];
    assert_eq!(stage.run(&[&call[..], &[line]].concat()).expect(0).text(), "[7,8]\n");
    let told = stage.run(&[&call[..], &["--json", line]].concat()).expect(0).json();
    assert_eq!((&told["value"], &told["bytes"]), (&json!([7, 8]), &json!(8)));
    let other = line.replace('7', "9");
    stage.run(&[&call[..], &[&other]].concat()).expect(1).says("a message is no u32[2]");
    serving.end().expect(0);
    stage.run(&["service", "call", "r", "{}"]).expect(16).says("field 'place' is missing");
    let info = stage.run(&["service", "info", "r"]).expect(0).text();
    assert!(
        info.contains("Pose, raw, 32 bytes") && info.contains("u32[2], raw, 8 bytes"),
        "{info}"
    );
}
