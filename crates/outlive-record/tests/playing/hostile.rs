//! Files that were made to do harm, or that change while they are played: errors, in bounded memory and time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::describe::{Description, Field, Item, Number, Struct};
use outlive_mcap::{Compression, MessageHeader, Options, Positions, Writer};
use outlive_record::Error;
use outlive_record::replay::{self, Due, Player, Rate, When};

use crate::forms::{FORMS, Place, Random, plan, write};
use outlive_costs::largest;

/// A file of `outlive record`'s kind: a described topic in CDR, one of bytes, one of ROS.
fn described(path: &Path, compression: Compression) -> Vec<u8> {
    let field = |name: &str, offset, extents: &[u32], item| Field {
        name: name.to_owned(),
        offset,
        extents: extents.to_vec(),
        item: Item::Number(item),
    };
    let fields = vec![
        field("a", 0, &[], Number::U8),
        field("b", 8, &[], Number::F64),
        field("c", 16, &[3], Number::U16),
    ];
    let shape = Struct { size: 24, align: 8, fields };
    let description = Description::raw("t::Value", shape).and_then(Description::slice);
    let hex: String =
        description.expect("no flaw").to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let _ = fs::remove_file(path);
    let options = Options { compression, ..Options::default() };
    let mut writer: Writer = Writer::create(path, options).expect("made");
    let text = b"uint8 a\nfloat64 b\nuint16[3] c\n";
    let schema = writer.add_schema("outlive/msg/Value", "ros2msg", text).expect("added");
    let metadata = BTreeMap::from([
        ("outlive.description".to_owned(), hex),
        ("outlive.depth".to_owned(), "8".to_owned()),
        ("attribute.unit".to_owned(), "m".to_owned()),
    ]);
    let values = writer.add_channel(schema, "values", "cdr", &metadata).expect("added");
    let bytes = writer.add_channel(0, "bytes", "", &BTreeMap::new()).expect("added");
    let scan = writer.add_channel(schema, "/scan", "ros1", &BTreeMap::new()).expect("added");
    for at in 0..60_u32 {
        let channel_id = [values, bytes, scan][at as usize % 3];
        let time = 1_000 + u64::from(at) * 1_000;
        let header = MessageHeader { channel_id, sequence: at, log_time: time, publish_time: time };
        // The head of CDR, two values, and what follows.
        let mut payload = vec![0, 1, 0, 0, 2, 0, 0, 0];
        payload.resize(8 + 44 + at as usize * 20, at as u8);
        writer.put(&header, &payload).expect("put");
        if at % 15 == 14 {
            writer.flush(&Positions::new()).expect("written");
        }
    }
    writer.finish(&Positions::new()).expect("finished");
    fs::read(path).expect("there")
}

fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => {
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill([0, 255, 127][random.below(3) as usize]);
            }
            3 => bytes.truncate(at + 1),
            4 => {
                let end = (at + random.below(200) as usize).min(bytes.len());
                let part = bytes[at..end].to_vec();
                let to = random.below(bytes.len() as u64) as usize;
                bytes.splice(to..to, part);
            }
            _ => {
                let end = (at + random.below(100) as usize).min(bytes.len() - 1);
                bytes.drain(at.min(end)..end);
            }
        }
    }
    bytes
}

/// Plays all, with a seek in the middle; returns how many messages there were, or the error.
fn play(domain: &Domain, path: &Path, start: Option<u64>) -> Result<u64, Error> {
    let options = replay::Options {
        rate: Rate::Max,
        start: start.map(When::At),
        clock: Some("clock".to_owned()),
        ..replay::Options::default()
    };
    let mut player = Player::open(domain, &[path.to_owned()], options)?;
    let (mut turns, mut notices) = (0, 0);
    loop {
        match player.due()? {
            Due::End => break,
            Due::At(_) | Due::Paused | Due::Unknown => {}
        }
        player.publish_some(7)?;
        turns += 1;
        if turns == 3 {
            player.seek_by(-20_000)?;
        }
        let told = player.take_notices();
        assert!(told.iter().all(|text| text.len() < 2_000), "{told:?}");
        notices += told.len();
        // Neither do small files have many messages, nor is there much to tell of them.
        assert!(turns < 20_000 && notices < 200, "it does not get on: {turns} turns");
    }
    Ok(player.counts().messages)
}

#[test]
fn mutated_files_are_played_without_harm() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let place = Place::new("mutated");
    let file = place.file("in.mcap");
    let mut good = vec![
        described(&file, Compression::None),
        described(&file, Compression::Zstd(1)),
        described(&file, Compression::Lz4(0)),
    ];
    for form in FORMS {
        let planned = plan(&mut random, 30);
        write(&file, form, &planned, &mut random);
        good.push(fs::read(&file).expect("there"));
    }
    let (mut refused, mut played) = (0, 0);
    for round in 0..1_200 {
        // Topics of the lies that were believed go with their domain.
        if round % 100 == 0 {
            let _ = fs::remove_dir_all(place.file("lies"));
        }
        let domain = Domain::open_or_create_at(place.file("lies")).expect("made");
        let bytes = mutate(&good[round % good.len()], &mut random);
        fs::write(&file, &bytes).expect("room");
        let start = (random.below(3) == 0).then(|| random.below(70_000));
        match play(&domain, &file, start) {
            Ok(messages) => played += u64::from(messages > 0),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 4 && played > 200, "{refused} refused, {played} played");
    let largest = largest();
    assert!(largest < 8 << 20, "{largest} bytes were asked for at once");
}

/// Another process cuts the file that is played.
#[test]
fn a_file_that_is_cut_while_it_is_played_ends_there() {
    let place = Place::new("cut");
    let mut random = Random(0x1357_9bdf_0246_8ace);
    for form in FORMS {
        let file = place.file("in.mcap");
        write(&file, form, &plan(&mut random, 60), &mut random);
        let options = replay::Options { rate: Rate::Max, ..replay::Options::default() };
        let mut player =
            Player::open(&place.domain, std::slice::from_ref(&file), options).expect("opens");
        assert!(matches!(player.due(), Ok(Due::At(_))));
        player.publish_some(3).expect("published");
        let opened = fs::File::options().write(true).open(&file).expect("there");
        opened.set_len(opened.metadata().expect("there").len() / 4).expect("cut");
        let mut turns = 0;
        while player.due().expect("no error, but a notice") != Due::End {
            player.publish_some(10).expect("published");
            turns += 1;
            assert!(turns < 1_000, "{form:?}: it does not get on");
        }
        assert!(player.counts().messages < 60, "{form:?}");
        let told = player.take_notices();
        assert!((1..4).contains(&told.len()) && told[0].contains("ends in the middle"), "{told:?}");
    }
}

fn of_times(path: &PathBuf, times: &[u64]) {
    let mut writer: Writer = Writer::create(path, Options::default()).expect("made");
    let channel_id = writer.add_channel(0, "t", "", &BTreeMap::new()).expect("added");
    for (at, &time) in times.iter().enumerate() {
        let sequence = at as u32;
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        writer.put(&header, &u64::from(sequence).to_le_bytes()).expect("put");
    }
    writer.finish(&Positions::new()).expect("finished");
}

/// The latest time that there is, 1970, and all in between: each message is played, and none is waited for over
/// years.
#[test]
fn times_that_lie_hold_nothing_up() {
    let place = Place::new("times");
    let (file, now) = (place.file("in.mcap"), 1_767_225_600_000_000_000);
    of_times(&file, &[now, now + 1_000, u64::MAX, 0, now + 2_000, u64::MAX, u64::MAX - 1, 5]);
    for rate in [Rate::Times(1.0), Rate::Times(1e-3), Rate::Max] {
        for clock in [None, Some("clock".to_owned())] {
            let mut subscriber = place.subscriber("t");
            let options = replay::Options { rate, clock, ..replay::Options::default() };
            let mut player =
                Player::open(&place.domain, std::slice::from_ref(&file), options).expect("opens");
            let end = Instant::now() + Duration::from_secs(60);
            loop {
                assert!(Instant::now() < end, "it waits for a time that lies");
                match player.due().expect("no fault") {
                    Due::End => break,
                    Due::At(due) => {
                        // Milliseconds at most, by these times and rates.
                        assert!(due < Instant::now() + Duration::from_secs(60));
                        std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    }
                    Due::Paused | Due::Unknown => {}
                }
                player.publish().expect("published");
            }
            let mut numbers = Vec::new();
            while let Some(sample) = subscriber.try_recv().expect("nothing is lost") {
                numbers.push(sample[0]);
            }
            assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7], "{rate:?}");
            let told = player.take_notices();
            assert_eq!(
                rate != Rate::Max,
                told.iter().any(|text| text.contains("silence")),
                "{told:?}"
            );
        }
    }
}

/// Writes a file with an empty message of each of these channels.
fn of_channels(path: &Path, channels: &[(&str, BTreeMap<String, String>)]) {
    let _ = fs::remove_file(path);
    let mut writer: Writer = Writer::create(path, Options::default()).expect("made");
    for (at, (topic, metadata)) in channels.iter().enumerate() {
        let channel_id = writer.add_channel(0, topic, "cdr", metadata).expect("added");
        let time = 1 + at as u64;
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        writer.put(&header, &[0, 1, 0, 0, 0, 0, 0, 0]).expect("put");
    }
    writer.finish(&Positions::new()).expect("finished");
}

/// Its messages would come under another topic's name.
#[test]
fn an_index_that_names_a_topic_otherwise_than_the_data_ends_it() {
    let place = Place::new("index");
    let file = place.file("in.mcap");
    of_channels(&file, &[("front", BTreeMap::new()), ("rear", BTreeMap::new())]);
    let mut bytes = fs::read(&file).expect("there");
    // The last one is that of the index; and the index has no checksum.
    let found = bytes.windows(5).rposition(|part| part == b"front").expect("it is there");
    bytes[found..found + 5].copy_from_slice(b"back2");
    let end = bytes.len() - 8;
    bytes[end - 4..end].fill(0);
    fs::write(&file, bytes).expect("room");
    let told = play(&place.domain, &file, None).expect_err("told").to_string();
    assert!(
        told.contains("in.mcap: its index says that channel 1 is of the topic 'back2'"),
        "{told}"
    );
    assert!(told.contains("and its data says 'front'") && told.contains("recover"), "{told}");
}

/// The same where it begins within: the reader knows the index's channels then, before it meets those of the data.
#[test]
fn an_index_that_names_a_topic_otherwise_than_the_data_ends_it_behind_a_seek() {
    let place = Place::new("index-seek");
    let file = place.file("in.mcap");
    let options = mcap::WriteOptions::new().compression(None);
    let options = options.calculate_summary_section_crc(false);
    let mut writer = options.create(fs::File::create(&file).expect("room")).expect("a writer");
    let channel_id = writer.add_channel(0, "front", "", &BTreeMap::new()).expect("a channel");
    for time in 1..3 {
        let header = MessageHeader { channel_id, sequence: 0, log_time: time, publish_time: time };
        writer.write_to_known_channel(&header, b"x").expect("room");
    }
    writer.finish().expect("room");
    drop(writer);
    let mut bytes = fs::read(&file).expect("there");
    let found = bytes.windows(5).rposition(|part| part == b"front").expect("it is there");
    bytes[found..found + 5].copy_from_slice(b"back2");
    fs::write(&file, bytes).expect("room");
    let told = play(&place.domain, &file, Some(2)).expect_err("told").to_string();
    assert!(told.contains("two channels have the number"), "{told}");
}

/// What a recorder leaves that is killed as it makes its file.
#[test]
fn an_empty_file_is_passed_over_beside_others() {
    let place = Place::new("empty");
    let (empty, file) = (place.file("empty.mcap"), place.file("in.mcap"));
    fs::write(&empty, "").expect("room");
    of_channels(&file, &[("t", BTreeMap::new())]);
    let open = |files: &[PathBuf]| {
        let options = replay::Options { rate: Rate::Max, ..Default::default() };
        Player::open(&place.domain, files, options)
    };
    let told = open(std::slice::from_ref(&empty)).err().expect("told").to_string();
    assert!(told.contains("empty.mcap: the file is empty"), "{told}");
    let mut player = open(&[empty, file]).expect("opens");
    let told = player.take_notices();
    assert!(told.len() == 1 && told[0].contains("empty.mcap: the file is empty"), "{told:?}");
    while player.due().expect("no fault") != Due::End {
        player.publish_some(10).expect("published");
    }
    assert_eq!(player.counts().messages, 1);
}

/// They are told in a line that a terminal can take, and what the user leaves out keeps nothing from being played.
#[test]
fn names_that_no_topic_can_have_and_two_types_of_one_are_told() {
    let of = |description: Description| {
        let bytes = description.to_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        BTreeMap::from([("outlive.description".to_owned(), hex)])
    };
    let none = BTreeMap::new();
    let long = "x".repeat(1 << 20);
    let escapes = "\x1b[2J\u{202e}a\nb";
    let cases = [
        (
            vec![(escapes, of(Description::of::<u32>())), (escapes, none.clone())],
            "a\\nb has messages of two types",
        ),
        (vec![(long.as_str(), none.clone())], "xxx…"),
        (vec![("", none.clone())], "''"),
        (vec![("///", none.clone())], "///"),
        (
            vec![("t", of(Description::of::<u32>())), ("t", of(Description::of::<u64>()))],
            "t has messages of two types",
        ),
        (vec![("t", of(Description::of::<u32>())), ("t", none.clone())], "two types"),
        (vec![("/t", none.clone()), ("t", none.clone())], "both be t"),
    ];
    for (at, (channels, says)) in cases.into_iter().enumerate() {
        let place = Place::new(&format!("names-{at}"));
        let file = place.file("in.mcap");
        let good = [("good", none.clone())];
        of_channels(&file, &[&channels[..], &good].concat());
        let files = std::slice::from_ref(&file);
        let open = |wanted| {
            let options = replay::Options { wanted, rate: Rate::Max, ..Default::default() };
            Player::open(&place.domain, files, options)
        };
        let told = open(replay::Wanted::default()).err().expect("told").to_string();
        assert!(told.contains(says) && told.len() < 2_000, "{told}");
        assert!(told.chars().all(|letter| !letter.is_control()), "{told:?}");
        let wanted = replay::Wanted { topics: vec!["good".to_owned()], regex: None };
        let mut player = open(wanted).expect("opens");
        while player.due().expect("no fault") != Due::End {
            player.publish_some(10).expect("published");
        }
        assert_eq!(player.counts().messages, 1);
    }
}
