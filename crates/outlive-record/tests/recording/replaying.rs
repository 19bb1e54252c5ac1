//! A recording is published again: the same messages, in their order, whatever happens beside it.

use std::process::Stdio;
use std::time::{Duration, Instant};

use outlive::RecvError;
use outlive::describe::{Description, Encoding, Field, Item, Number, Struct};
use outlive::topic::{Subscriber, Topic};
use outlive_mcap::{MessageHeader, Options, Positions, Writer};

use crate::support::{Contents, LONG, Place, Recording, eventually, message, number};

const MILLISECOND: u64 = 1_000_000;

/// Writes a file of other programs' making: messages of one topic at these log times, each with its number.
fn write(place: &Place, name: &str, topic: &str, times: &[u64], len: usize) {
    let mut writer: Writer = Writer::create(place.file(name), Options::default()).expect("made");
    let channel_id = writer.add_channel(0, topic, "", &Default::default()).expect("added");
    for (at, &time) in times.iter().enumerate() {
        let sequence = at as u32;
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time - 1 };
        writer.put(&header, &message(at as u64, len)).expect("put");
        if at % 10 == 9 {
            writer.flush(&Positions::new()).expect("written");
        }
    }
    writer.finish(&Positions::new()).expect("finished");
}

fn every_ms(count: u64) -> Vec<u64> {
    (0..count).map(|at| (1_000 + at) * MILLISECOND).collect()
}

fn open(place: &Place, name: &str) -> Topic<[u8]> {
    let topic = Topic::<[u8]>::options().depth(1024).reliable(true);
    topic.open_or_create(&place.domain, name).expect("made")
}

/// All numbers that a subscriber has got.
fn numbers(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(sample) = subscriber.try_recv().expect("nothing is lost") {
        numbers.push(number(&sample));
    }
    numbers
}

fn padded() -> Description {
    let field = |name: &str, offset, item| Field {
        name: name.to_owned(),
        offset,
        extents: Vec::new(),
        item: Item::Number(item),
    };
    let inner = Struct {
        size: 8,
        align: 4,
        fields: vec![field("b", 0, Number::U8), field("w", 4, Number::U32)],
    };
    let nested =
        Field { name: "in".to_owned(), offset: 4, extents: vec![2], item: Item::Struct(inner) };
    let shape = Struct { size: 20, align: 4, fields: vec![field("a", 0, Number::U8), nested] };
    Description::raw("robot::Padded", shape).expect("no flaw")
}

#[test]
fn what_is_recorded_played_and_recorded_again_is_the_same() {
    let (first, second) = (Place::new("again-1"), Place::new("again-2"));
    let raw = Topic::<[u8]>::options().depth(8).reliable(true);
    let raw = raw.attribute("unit", "m").open_or_create(&first.domain, "raw").expect("made");
    let value = Topic::<[u8]>::options().depth(64).reliable(true).description(padded());
    let value = value.open_or_create(&first.domain, "value").expect("made");
    let list = Topic::<[u8]>::options().depth(64).reliable(true);
    let list = list.description(padded().slice().expect("no flaw"));
    let list = list.open_or_create(&first.domain, "list").expect("made");
    let json = Description::encoded("plan", Encoding::Json).expect("no flaw");
    let json = Topic::<[u8]>::options().depth(64).reliable(true).description(json);
    let json = json.open_or_create(&first.domain, "plan").expect("made");
    let recording = first.record(&["--all", "-o", "out.mcap"], 4);
    {
        let publisher = |topic: &Topic<[u8]>| topic.publisher().expect("a ring");
        let (raw, value, list, json) =
            (publisher(&raw), publisher(&value), publisher(&list), publisher(&json));
        for at in 0..200_u64 {
            raw.publish(&message(at, [8, 200, 4096, 1 << 20][at as usize % 4]))
                .map(drop)
                .expect("sent");
            // Padding is zero, which is what comes back.
            let mut one = [at as u8, 0, 0, 0, 1, 0, 0, 0, 2, 3, 4, 5, 6, 0, 0, 0, 7, 8, 9, 10];
            one[4] = at as u8;
            value.publish(&one).map(drop).expect("sent");
            list.publish(&one.repeat(at as usize % 5)).map(drop).expect("sent");
            json.publish(format!("[{at}]").as_bytes()).map(drop).expect("sent");
        }
    }
    recording.end();
    let file = first.file("out.mcap");
    // The player makes the topics, so the recorder comes after it, and before the first message.
    let mut player = second.player(&[file.to_str().expect("text"), "--rate", "max", "--wait", "4"]);
    let mut player = Recording(player.stderr(Stdio::null()).spawn().expect("starts"));
    assert!(eventually(|| second.domain.contents().expect("readable").names.len() == 4));
    let recording = second.record(&["--all", "-o", "out.mcap"], 4);
    assert!(player.wait().success());
    recording.end();
    let (before, after) = (Contents::of(&file), Contents::of(&second.file("out.mcap")));
    assert_eq!(after.events("lost").len(), 0);
    for topic in ["raw", "value", "list", "plan"] {
        let bytes = |contents: &Contents| -> Vec<Vec<u8>> {
            contents.messages(topic).iter().map(|message| message.bytes.clone()).collect()
        };
        assert_eq!(before.messages(topic).len(), 200, "{topic}");
        assert!(bytes(&before) == bytes(&after), "{topic}");
        let (before, after) = (&before.topics[topic], &after.topics[topic]);
        assert_eq!(before.metadata, after.metadata, "{topic}");
        assert_eq!(before.schema, after.schema, "{topic}");
    }
}

/// Long values whose CDR is as they are in memory come from the file by one copy; others are unpacked.
#[test]
fn long_lists_of_numbers_come_back() {
    let place = Place::new("long-lists");
    let lens = [3_u32, 5_000, 0, 20_000, 2_100];
    let list =
        |at: u32| -> Vec<f64> { (0..lens[at as usize]).map(|one| f64::from(one + at)).collect() };
    for compression in ["none", "zstd"] {
        let options = Topic::<[f64]>::options().described().depth(8).reliable(true);
        let topic = options.open_or_create(&place.domain, "list").expect("made");
        let publisher = topic.publisher().expect("a ring");
        let file = format!("{compression}.mcap");
        let recording = place.record(&["list", "-o", &file, "--compress", compression], 1);
        for at in 0..5 {
            publisher.publish(&list(at)).map(drop).expect("sent");
        }
        recording.end();
        assert_eq!(Contents::of(&place.file(&file)).topics["list"].encoding, "cdr");
        let mut subscriber = topic.subscriber().expect("joins");
        let told = place.replay(&[&file, "--rate", "max"]);
        assert_eq!(told["refused"], 0);
        for at in 0..5 {
            let sample = subscriber.recv_timeout(LONG).expect("nothing is lost").expect("in time");
            assert!(*sample == list(at)[..], "{compression}: {at}");
        }
    }
}

/// The spacing is kept in all: it takes the recording's time by the rate, at the least.
#[test]
fn it_takes_the_time_of_the_recording_and_less_at_a_rate() {
    let place = Place::new("spacing");
    write(&place, "in.mcap", "t", &every_ms(400), 64);
    let topic = open(&place, "t");
    for (rate, least) in [("1", 399), ("4", 99)] {
        let mut subscriber = topic.subscriber().expect("joins");
        let begun = Instant::now();
        let told = place.replay(&["in.mcap", "--rate", rate, "--clock"]);
        assert!(begun.elapsed() >= Duration::from_millis(least), "{rate}");
        assert_eq!(numbers(&mut subscriber), (0..400).collect::<Vec<_>>());
        assert_eq!((told["messages"].as_u64(), told["refused"].as_u64()), (Some(400), Some(0)));
        let late = ["late_p50_us", "late_p99_us", "late_max_us"].map(|key| told[key].as_f64());
        assert!(late.is_sorted() && late[0].is_some(), "{told}");
    }
    let clock = Topic::<u64>::options().described().open(&place.domain, "clock").expect("made");
    assert!(clock.config().depth > 0);
}

#[test]
fn the_clock_tells_the_time_of_the_recording() {
    let place = Place::new("clock");
    write(&place, "in.mcap", "t", &every_ms(300), 64);
    let clock = Topic::<u64>::options().described().depth(1024);
    let clock = clock.open_or_create(&place.domain, "clock").expect("made");
    let mut subscriber = clock.subscriber().expect("joins");
    place.replay(&["in.mcap", "--clock", "--rate", "max"]);
    let mut times = Vec::new();
    while let Some(sample) = subscriber.try_recv().expect("nothing is lost") {
        times.push(*sample);
    }
    assert_eq!(times.first(), Some(&(1_000 * MILLISECOND)));
    assert!(times.is_sorted() && times.len() == 30, "{times:?}");
    // One that the file has is not published beside it.
    write(&place, "own.mcap", "/clock", &every_ms(3), 64);
    let told = place.replay(&["own.mcap", "--clock", "--rate", "max"]);
    assert_eq!(told["messages"].as_u64(), Some(0));
}

#[test]
fn a_part_of_the_time_of_the_topics_and_of_the_files() {
    let place = Place::new("parts");
    // Eleven files: their names' order is not that of their times.
    for part in 0..11 {
        let times: Vec<u64> = (0..10).map(|at| (1_000 + 10 * part + at) * MILLISECOND).collect();
        write(&place, &format!("in_{part}.mcap"), "/camera/front", &times, 64);
    }
    let topic = open(&place, "camera.front");
    let mut subscriber = topic.subscriber().expect("joins");
    let mut play = |args: &[&str]| {
        let told = place.replay(&[&["--rate", "max"], args].concat());
        (told["messages"].as_u64().expect("a count"), numbers(&mut subscriber))
    };
    let all: Vec<u64> = (0..11).flat_map(|_| 0..10).collect();
    assert_eq!(play(&["in.mcap"]), (110, all.clone()));
    assert_eq!(play(&["in_10.mcap", "in_9.mcap", "in_8.mcap"]).1, all[80..]);
    assert_eq!(play(&["in.mcap", "--start", "25ms"]).1, all[25..]);
    assert_eq!(play(&["in.mcap", "--start", "@1.095", "--end", "98ms"]).1, all[95..98]);
    assert_eq!(play(&["in.mcap", "--topics", "/camera/front"]).0, 110);
    assert_eq!(play(&["in.mcap", "--topics", "camera.front"]).0, 110);
    assert_eq!(play(&["in.mcap", "--regex", "^camera"]).0, 110);
    assert_eq!(play(&["in.mcap", "--rename", "/camera/front=b"]), (110, Vec::new()));
    let as_it_was = Topic::open_as_bytes(&place.domain, "b").expect("made").config().depth;
    // A topic that is there stays as it is, and one that is made is as deep as it should be.
    for (name, depth) in [("b", as_it_was), ("c", 512)] {
        let rename = format!("/camera/front={name}");
        assert_eq!(play(&["in.mcap", "--depth", "512", "--rename", &rename]), (110, Vec::new()));
        assert_eq!(Topic::open_as_bytes(&place.domain, name).expect("made").config().depth, depth);
    }
}

/// A recording that was stopped and started has several files, and its first one names them all.
#[test]
fn a_recording_is_played_whole_by_the_name_of_its_first_file() {
    let place = Place::new("whole");
    let topic = open(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let publish = |numbers: std::ops::Range<u64>| {
        for at in numbers {
            publisher.publish(&message(at, 64)).map(drop).expect("published");
        }
    };
    let recording = place.record(&["t", "--as", "rec", "-o", "out.mcap"], 1);
    assert!(eventually(|| place.tell(&["status", "--as", "rec"]).is_ok()));
    for round in 0..3 {
        publish(10 * round..10 * round + 10);
        place.tell(&["stop"]).expect("stopped");
        if round < 2 {
            place.tell(&["start"]).expect("started");
        }
    }
    recording.end();
    // Another recording's, by the number of a next one.
    let other = place.record(&["t", "-o", "out_3.mcap"], 1);
    publish(100..103);
    other.end();
    drop(publisher);
    let mut subscriber = topic.subscriber().expect("joins");
    let mut play = |args: &[&str]| {
        let told = place.replay(&[&["--rate", "max"], args].concat());
        (told["messages"].as_u64().expect("a count"), numbers(&mut subscriber))
    };
    assert_eq!(play(&["out.mcap"]), (30, (0..30).collect()));
    assert_eq!(play(&["out.mcap", "out_1.mcap"]), (30, (0..30).collect()));
    assert_eq!(play(&["out.mcap", "--exact"]), (10, (0..10).collect()));
    assert_eq!(play(&["out_1.mcap"]), (10, (10..20).collect()));
    // The recorder's event `started` is older than the first message, and does not count.
    assert_eq!(play(&["out.mcap", "--start", "0s"]).0, 30);
    let mut player = place.player(&["out.mcap", "--rate", "max"]);
    let said = player.output().expect("starts").stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("plays 3 files, out.mcap to out_2.mcap"), "{said}");
}

#[test]
fn it_begins_again_until_its_time_is_over() {
    let place = Place::new("loop");
    write(&place, "in.mcap", "t", &every_ms(5), 64);
    let mut subscriber = open(&place, "t").subscriber().expect("joins");
    // A busy machine may leave it no time in its tenth of a second.
    assert!(eventually(|| {
        let told = place.replay(&["in.mcap", "--loop", "--rate", "2", "--duration", "100ms"]);
        let numbers = numbers(&mut subscriber);
        assert_eq!(told["messages"].as_u64(), Some(numbers.len() as u64));
        assert!(numbers.iter().enumerate().all(|(at, number)| at as u64 % 5 == *number));
        numbers.len() > 10
    }));
}

#[test]
fn stamps_are_those_of_now_or_the_original_ones() {
    let place = Place::new("stamps");
    write(&place, "in.mcap", "t", &every_ms(3), 64);
    let mut subscriber = open(&place, "t").subscriber().expect("joins");
    let mut stamp = |args: &[&str]| {
        place.replay(&[&["in.mcap", "--rate", "max"], args].concat());
        let stamp = subscriber.recv_timeout(LONG).expect("there").expect("there").header().stamp;
        numbers(&mut subscriber);
        stamp
    };
    assert!(stamp(&[]) > 1_700_000_000_000_000_000);
    assert_eq!(stamp(&["--stamps", "original"]), 1_000 * MILLISECOND - 1);
}

#[test]
fn a_slow_reliable_subscriber_loses_nothing_and_one_that_is_killed_stops_nothing() {
    let place = Place::new("slow");
    write(&place, "in.mcap", "t", &every_ms(300), 200_000);
    let topic = Topic::<[u8]>::options().depth(4).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    for args in [&["--reliable", "--rate", "1000"][..], &["--rate", "max"]] {
        let mut slow = topic.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
        let mut player = place.player(&[&["in.mcap"], args].concat());
        let mut player = Recording(player.stderr(Stdio::null()).spawn().expect("starts"));
        for at in 0..300 {
            let sample = slow.recv_timeout(LONG).expect("nothing is lost").expect("in time");
            assert_eq!(number(&sample), at);
            if at % 16 == 0 {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        assert!(player.wait().success());
    }
    // A recorder that stands still is in its way, until it is killed.
    let mut recording = place.record(&["t", "-o", "out.mcap"], 1);
    crate::support::stop(&recording.0);
    let mut player = place.player(&["in.mcap", "--rate", "max"]);
    let mut player = Recording(player.stderr(Stdio::null()).spawn().expect("starts"));
    std::thread::sleep(Duration::from_millis(100));
    assert!(player.0.try_wait().expect("a child").is_none(), "it waits");
    recording.kill();
    assert!(player.wait().success());
    // Without --reliable it waits for none: the subscriber is told what it lost.
    let mut slow = topic.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
    place.replay(&["in.mcap", "--rate", "1000"]);
    assert!(matches!(slow.recv(), Err(RecvError::Lagged { lost }) if lost > 200));
}

#[test]
fn one_that_is_killed_leaves_topics_that_go_on() {
    let place = Place::new("player-killed");
    write(&place, "in.mcap", "t", &every_ms(20), 50_000);
    let topic = open(&place, "t");
    for round in 0..20 {
        let mut subscriber = topic.subscriber().expect("joins");
        let player = place.player(&["in.mcap", "--loop", "--rate", "1000"]).spawn();
        let mut player = Recording(player.expect("starts"));
        let first = subscriber.recv_timeout(LONG).expect("nothing is lost").expect("in time");
        assert_eq!(number(&first), 0);
        std::thread::sleep(Duration::from_micros(137 * round));
        player.kill();
        while let Ok(Some(sample)) = subscriber.try_recv() {
            // Whole, whatever it was at.
            number(&sample);
        }
        topic.publisher().expect("a ring").publish(&message(7, 64)).map(drop).expect("sent");
        let sample = subscriber.recv_timeout(LONG).expect("it goes on").expect("in time");
        assert_eq!(number(&sample), 7);
    }
}

#[test]
fn what_cannot_be_played_is_told() {
    let place = Place::new("refused");
    write(&place, "in.mcap", "t", &every_ms(100), 2000);
    std::fs::write(place.file("none.mcap"), b"no MCAP").expect("written");
    let whole = std::fs::read(place.file("in.mcap")).expect("read");
    std::fs::write(place.file("cut.mcap"), &whole[..whole.len() / 2]).expect("written");
    let mut damaged = whole.clone();
    damaged[whole.len() / 4] ^= 1;
    std::fs::write(place.file("damaged.mcap"), &damaged).expect("written");
    let ask = |args: &[&str]| {
        let output = place.player(args).output().expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (args, code, says) in [
        (&["nowhere.mcap"][..], 6, "nowhere.mcap"),
        (&["none.mcap"], 8, "not an MCAP file"),
        (&["in.mcap", "--paused"], 2, "terminal"),
        (&["in.mcap", "--rate", "max", "--fifo"], 2, "--fifo"),
        (&["in.mcap", "--rename", "t=a/b"], 13, "'a.b' can"),
        (&["in.mcap", "--topics", "other"], 6, "no topic 'other' in what is played; there is 't'"),
        (&["in.mcap", "--topics", "t", "tt"], 6, "no topic 'tt' (is 't' meant?)"),
        (&["in.mcap", "--rename", "x=y"], 6, "no topic 'x'"),
        (&["in.mcap", "--regex", "^x"], 6, "no topic with the pattern '^x'"),
        (&["in.mcap", "--regex", "("], 2, "--regex"),
        (&["--topics", "t", "in.mcap"], 2, "taken in.mcap as one: name the files first"),
        (&["--rate", "2"], 2, "required"),
        (&["in.mcap", "--depth", "0"], 2, "--depth"),
        (&["in.mcap", "--depth", "4294967295"], 2, "depth"),
    ] {
        let (found, told) = ask(args);
        assert_eq!(found, Some(code), "{args:?}: {told}");
        assert!(told.contains(says), "{args:?}: {told}");
    }
    let typed = Topic::<u64>::options().described();
    typed.open_or_create(&place.domain, "other").expect("made");
    let (code, told) = ask(&["in.mcap", "--rename", "t=other"]);
    assert_eq!(code, Some(7), "{told}");
    assert!(told.contains("u64") && told.contains("--rename"), "{told}");
    // Nor of the topics that come before the one for which it is refused.
    Topic::<u32>::options().described().open_or_create(&place.domain, "clock").expect("made");
    write(&place, "first.mcap", "first", &every_ms(3), 64);
    for (args, code) in [
        (&["--rename", "t=other"][..], 7),
        (&["--rename", "t=first"], 7),
        (&["--rename", "t=a/b"], 13),
        (&["--clock"], 7),
    ] {
        let (found, told) = ask(&[&["first.mcap", "in.mcap"], args].concat());
        assert_eq!(found, Some(code), "{args:?}: {told}");
    }
    for name in ["t", "first"] {
        let opened = Topic::open_as_bytes(&place.domain, name);
        assert!(matches!(opened, Err(outlive::Error::NotFound { .. })), "{name}");
    }
    // What is whole is played. Nothing was made by those before.
    let mut subscriber = open(&place, "t").subscriber().expect("joins");
    let (code, told) = ask(&["cut.mcap", "--rate", "max"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("ends in the middle"), "{told}");
    let found = numbers(&mut subscriber);
    assert!(found.len() > 30 && found.iter().enumerate().all(|(at, one)| at as u64 == *one));
    // One without an index may have other topics further on: it tells at its end.
    let (code, told) = ask(&["cut.mcap", "--rate", "max", "--topics", "t", "other"]);
    assert_eq!(code, Some(6), "{told}");
    assert!(told.contains("no topic 'other'"), "{told}");
    assert_eq!(numbers(&mut subscriber), found);
    let (code, told) = ask(&["damaged.mcap", "--rate", "max"]);
    assert_eq!(code, Some(11), "{told}");
    assert_eq!(numbers(&mut subscriber).len(), 90, "{told}");
    // Two topics that would be one.
    write(&place, "slash.mcap", "/t", &every_ms(3), 64);
    let (code, told) = ask(&["in.mcap", "slash.mcap", "--rate", "max"]);
    assert_eq!(code, Some(7), "{told}");
    assert!(told.contains("--rename"), "{told}");
}

#[test]
fn a_time_without_messages_and_a_file_that_is_not_there_are_told() {
    let place = Place::new("nothing-then");
    write(&place, "in.mcap", "t", &every_ms(300), 64);
    let asked = |args: &[&str]| {
        let output = place.player(&[args, &["--rate", "max"]].concat()).output().expect("starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for bounds in [&["--start", "1h"][..], &["--end", "0s"], &["--start", "@99999999"]] {
        let (code, said) = asked(&[&["in.mcap"], bounds].concat());
        assert_eq!(code, Some(6), "{said}");
        let told =
            "no message that is played lies between --start and --end: the recording lasts 0.299 s";
        assert!(said.contains(told) && said.contains("from @1.0"), "{said}");
        // Before any topic is made.
        assert!(Topic::open_as_bytes(&place.domain, "t").is_err());
    }
    let (code, said) = asked(&["nosuch"]);
    assert_eq!(code, Some(6), "{said}");
    let told = "there is no file nosuch, and neither nosuch.mcap nor nosuch_0.mcap";
    assert!(said.contains(told), "{said}");
    let (code, said) = asked(&["no.mcap"]);
    assert!(code == Some(6) && said.contains("there is no file no.mcap, and"), "{said}");
}

/// What other programs' channels say is in the topics; what lies is told, or left out.
#[test]
fn files_of_other_programs_become_topics_that_say_what_they_have() {
    let place = Place::new("foreign");
    let mut writer: Writer =
        Writer::create(place.file("in.mcap"), Options::default()).expect("made");
    let text = b"float64 x\n";
    let pose = writer.add_schema("geometry_msgs/msg/Pose", "ros2msg", text).expect("added");
    let scan = writer.add_schema("sensor_msgs/LaserScan", "ros1msg", b"uint8 a\n").expect("added");
    let long = writer.add_schema("long/msg/Long", "ros2msg", &[b'#'; 100_000]).expect("added");
    let lies = [("outlive.description", "zz"), ("outlive.depth", "-1"), ("attribute.a", "b")];
    let lies = lies.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let huge = [("outlive.depth", "4294967295"), ("outlive.max_bytes", "18446744073709551615")];
    let huge = huge.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let none = Default::default();
    let described = padded().to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let described = [("outlive.description".to_owned(), described)].into();
    let channels = [
        (pose, "/robot/pose", "cdr", &none),
        (scan, "scan", "ros1", &none),
        (long, "long", "cdr", &none),
        (0, "plan", "json", &none),
        (0, "lies", "", &lies),
        (0, "huge", "", &huge),
        (0, "value", "cdr", &described),
    ];
    for (sequence, (schema, topic, encoding, metadata)) in channels.into_iter().enumerate() {
        let channel_id = writer.add_channel(schema, topic, encoding, metadata).expect("added");
        let time = 1 + sequence as u64;
        let sequence = sequence as u32;
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        writer.put(&header, b"\0\x01\0\0 any bytes").expect("put");
    }
    writer.flush(&Positions::new()).expect("written");
    // Its writer dies here: it has no index.
    drop(writer);
    let told = place.replay(&["in.mcap", "--rate", "max"]);
    // The last one is no value of the type that it claims.
    assert_eq!((told["messages"].as_u64(), told["refused"].as_u64()), (Some(6), Some(1)));
    for (name, type_name, encoding, attributes) in [
        ("robot.pose", "geometry_msgs/msg/Pose", Encoding::Cdr, ["ros2.type", "ros2.definition"]),
        ("scan", "sensor_msgs/LaserScan", Encoding::Bytes, ["ros1.type", "ros1.definition"]),
        ("long", "long/msg/Long", Encoding::Cdr, ["", ""]),
        ("plan", "", Encoding::Json, ["", ""]),
    ] {
        let topic = Topic::open_as_bytes(&place.domain, name).expect("made");
        let description = topic.description().expect("readable").expect("described");
        assert_eq!((description.name(), description.encoding()), (type_name, encoding));
        let found = topic.attributes().expect("readable");
        match attributes {
            ["", _] => assert!(found.is_empty(), "{name}: {found:?}"),
            keys => {
                assert_eq!(found.get(keys[0]), Some(type_name), "{name}");
                assert!(found.get(keys[1]).is_some_and(|text| text.ends_with('\n')), "{name}");
            }
        }
    }
    let lies = Topic::open_as_bytes(&place.domain, "lies").expect("made");
    assert!(lies.description().expect("readable").is_none());
    assert_eq!(lies.attributes().expect("readable").get("a"), Some("b"));
    // What no topic can have is as it usually is.
    let huge = Topic::open_as_bytes(&place.domain, "huge").expect("made");
    assert_eq!(huge.config().depth, lies.config().depth);
}
