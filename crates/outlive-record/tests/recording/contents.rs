//! What is in a file: each topic's messages, in order, in an encoding that readers know.

use std::time::Duration;

use outlive::describe::{Description, Field, Item, Number, Struct};
use outlive::topic::{Subscriber, Topic};

use crate::support::{Contents, Place, eventually, message, number, signal, stop};

/// A value as C lays it out: with padding, and a nested type.
fn reading() -> Description {
    let field = |name: &str, offset, extents: &[u32], item| Field {
        name: name.to_owned(),
        offset,
        extents: extents.to_vec(),
        item,
    };
    let inner = Struct {
        size: 16,
        align: 8,
        fields: vec![
            field("small", 0, &[], Item::Number(Number::U8)),
            field("wide", 8, &[], Item::Number(Number::F64)),
        ],
    };
    let shape = Struct {
        size: 48,
        align: 8,
        fields: vec![
            field("valid", 0, &[], Item::Number(Number::Bool)),
            field("at", 8, &[], Item::Number(Number::U64)),
            field("axes", 16, &[3], Item::Number(Number::F32)),
            field("inner", 32, &[], Item::Struct(inner)),
        ],
    };
    Description::raw("robot::Reading", shape).expect("no flaw")
}

#[test]
fn messages_of_all_sizes_are_in_the_file_once_and_in_order() {
    let place = Place::new("sizes");
    let topic = Topic::<[u8]>::options().depth(8).reliable(true);
    let topic = topic.open_or_create(&place.domain, "raw").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap"], 1);
    let lens = [8, 64, 168, 169, 4096, 4097, 65_536, 3 << 20];
    for at in 0..400 {
        let len = lens[at as usize % lens.len()];
        publisher.publish(&message(at, len)).map(drop).expect("published");
    }
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert!(contents.is_whole);
    let messages = contents.messages("raw");
    assert_eq!(messages.len(), 400);
    for (at, found) in messages.iter().enumerate() {
        assert_eq!((number(&found.bytes), found.sequence), (at as u64, at as u32));
        assert_eq!(found.bytes.len(), lens[at % lens.len()]);
    }
    assert_eq!(contents.topics["raw"].metadata["outlive.depth"], "8");
    let pid = contents.events("started")[0]["pid"].as_u64();
    assert!(pid.is_some() && contents.events("ended").len() == 1);
    assert_eq!(contents.events("lost").len(), 0);
}

/// Described values are CDR, with a schema that says what is where.
#[test]
fn described_values_are_what_ros_2_reads() {
    let place = Place::new("described");
    let topic = Topic::<[u8]>::options().description(reading());
    let topic = topic.open_or_create(&place.domain, "reading").expect("made");
    let list = Topic::<[f64]>::options().described().open_or_create(&place.domain, "list");
    let list = list.expect("made");
    let recording = place.record(&["reading", "list", "-o", "out.mcap"], 2);
    let mut reading = vec![0; 48];
    (reading[0], reading[32]) = (1, 7);
    reading[8..16].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
    for (at, axis) in [1.0_f32, 2.0, 3.0].iter().enumerate() {
        reading[16 + 4 * at..20 + 4 * at].copy_from_slice(&axis.to_le_bytes());
    }
    reading[40..48].copy_from_slice(&(-1.5_f64).to_le_bytes());
    topic.publisher().expect("a ring").publish(&reading).map(drop).expect("published");
    let items = [0.5, 1.5];
    list.publisher().expect("a ring").publish(&items).map(drop).expect("published");
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let channel = &contents.topics["reading"];
    let (name, encoding, text) = channel.schema.as_ref().expect("described");
    assert_eq!((channel.encoding.as_str(), encoding.as_str()), ("cdr", "ros2msg"));
    assert_eq!(name, "outlive/msg/Reading");
    assert_eq!(
        *text,
        format!(
            "bool valid\nuint64 at\nfloat32[3] axes\noutlive/ReadingInner inner\n{}\nMSG: \
             outlive/ReadingInner\nuint8 small\nfloat64 wide\n",
            "=".repeat(80)
        )
    );
    // 1 and 7 of padding, 8, 12, 1 and 3 of padding, 8.
    let mut wanted = vec![0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    wanted.extend(0x0102_0304_0506_0708_u64.to_le_bytes());
    wanted.extend([1.0_f32, 2.0, 3.0].iter().flat_map(|axis| axis.to_le_bytes()));
    wanted.extend([7, 0, 0, 0]);
    wanted.extend((-1.5_f64).to_le_bytes());
    assert_eq!(channel.messages[0].bytes, wanted);
    let channel = &contents.topics["list"];
    assert_eq!(channel.schema.as_ref().expect("described").2, "float64[] items\n");
    let mut wanted = vec![0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    wanted.extend(items.iter().flat_map(|item| item.to_le_bytes()));
    assert_eq!(channel.messages[0].bytes, wanted);
}

#[test]
fn topics_that_come_and_go_are_recorded_and_a_death_is_told() {
    let place = Place::new("late");
    let recording = place.begin(&["--regex", "^camera", "-o", "out.mcap"], "out.mcap");
    for round in 0..3 {
        let topic = Topic::<[u8]>::options().depth(64).reliable(true);
        let topic = topic.open_or_create(&place.domain, "camera").expect("made");
        let other = Topic::<[u8]>::open_or_create(&place.domain, "other").expect("made");
        other.publisher().expect("a ring").publish(b"not wanted").map(drop).expect("published");
        // Before the recorder has come, and after.
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&message(3 * round, 64)).map(drop).expect("published");
        assert!(eventually(|| !topic.subscribers().is_empty()));
        for at in 1..3 {
            publisher.publish(&message(3 * round + at, 64)).map(drop).expect("published");
        }
        drop(publisher);
        place.domain.remove("camera").expect("removed");
        std::thread::sleep(Duration::from_millis(if round == 0 { 0 } else { 50 }));
    }
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let numbers: Vec<u64> =
        contents.messages("camera").iter().map(|found| number(&found.bytes)).collect();
    assert_eq!(numbers, (0..9).collect::<Vec<_>>());
    assert!(!contents.topics.contains_key("other"));
}

#[test]
fn what_is_lost_is_told_in_the_file() {
    let place = Place::new("lost");
    let topic = Topic::<[u8]>::options().depth(4).open_or_create(&place.domain, "fast");
    let topic = topic.expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap", "--json"], 1);
    stop(&recording.0);
    std::thread::sleep(Duration::from_millis(20));
    for at in 0..100 {
        publisher.publish(&message(at, 64)).map(drop).expect("published");
    }
    signal(&recording.0, libc::SIGCONT);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let found = contents.messages("fast").len() as u64;
    assert!(found >= 4, "the last ones are there");
    let lost: u64 =
        contents.events("lost").iter().map(|line| line["count"].as_u64().expect("a count")).sum();
    assert_eq!(found + lost, 100);
}

#[test]
fn thinning_passes_over_what_is_not_wanted() {
    let place = Place::new("thin");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap", "--every", "10"], 1);
    for at in 0..1000 {
        publisher.publish(&message(at, 64)).map(drop).expect("published");
    }
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let numbers: Vec<u64> =
        contents.messages("t").iter().map(|found| number(&found.bytes)).collect();
    assert_eq!(numbers, (0..100).map(|at| 10 * at).collect::<Vec<_>>());
    let _subscriber: Subscriber = topic.subscriber().expect("it left its slot");
}
