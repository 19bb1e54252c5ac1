//! Recordings: played, stopped, sought in; and files that are none.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use foxglove::Decode;
use foxglove::messages::CompressedImage;
use mcap::records::MessageHeader;
use outlive::describe::Description;
use outlive_testnet::{Child, Folder};
use serde_json::{Value, json};
use tungstenite::Message;

use crate::client::{Client, Incoming};
use crate::support::{LONG, Shown, command};

const START: u64 = 1_700_000_000_000_000_000;
const STEP: u64 = 10_000_000;

/// Records so many numbers, one each ten milliseconds, in chunks of some hundred bytes.
fn record(path: &Path, count: u64, compression: Option<mcap::Compression>) {
    let options = mcap::WriteOptions::new().chunk_size(Some(500)).compression(compression);
    let mut writer =
        options.create(BufWriter::new(File::create(path).expect("made"))).expect("made");
    let schema = writer.add_schema("Number", "jsonschema", br#"{"type":"object"}"#).expect("added");
    let metadata = BTreeMap::from([("key".to_owned(), "value".to_owned())]);
    let channel = writer.add_channel(schema, "numbers", "json", &metadata).expect("added");
    let other = writer.add_channel(0, "other", "json", &BTreeMap::new()).expect("added");
    for number in 0..count {
        let time = START + number * STEP;
        for (channel_id, every) in [(channel, 1), (other, 10)] {
            if number.is_multiple_of(every) {
                let header = MessageHeader {
                    channel_id,
                    sequence: number as u32,
                    log_time: time,
                    publish_time: time,
                };
                let data = json!({"number": number}).to_string();
                writer.write_to_known_channel(&header, data.as_bytes()).expect("written");
            }
        }
    }
    writer.finish().expect("finished");
}

fn shown(what: &str, count: u64, args: &[&str]) -> (Shown, Folder) {
    let folder = Folder::new(what);
    let path = folder.join("run.mcap");
    record(&path, count, Some(mcap::Compression::Zstd));
    let path = path.display().to_string();
    (Shown::start(what, &[&[&*path], args].concat()), folder)
}

/// Tells the player something.
pub fn control(client: &mut Client, plays: bool, rate: f32, seek: Option<u64>) {
    let mut bytes = vec![3, u8::from(!plays)];
    bytes.extend_from_slice(&rate.to_le_bytes());
    bytes.push(u8::from(seek.is_some()));
    bytes.extend_from_slice(&seek.unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(&1_u32.to_le_bytes());
    bytes.push(b'x');
    client.socket.send(Message::Binary(bytes)).expect("sends");
}

/// Waits for a state of the player: its status, time, rate, and whether it was sought.
fn state(client: &mut Client) -> (u8, u64, f32, bool) {
    let state = client.wait(|one| matches!(one, Incoming::Binary(bytes) if bytes[0] == 5));
    let Incoming::Binary(bytes) = state else { unreachable!() };
    let time = u64::from_le_bytes(bytes[2..10].try_into().expect("eight bytes"));
    let rate = f32::from_le_bytes(bytes[10..14].try_into().expect("four bytes"));
    (bytes[1], time, rate, bytes[14] != 0)
}

fn number(message: &(u64, Vec<u8>)) -> u64 {
    let said: Value = serde_json::from_slice(&message.1).expect("JSON");
    let number = said["number"].as_u64().expect("a number");
    assert_eq!(message.0, START + number * STEP);
    number
}

#[test]
fn a_recording_is_played_whole_and_in_order() {
    let (shown, _folder) = shown("played", 200, &["--paused"]);
    let (mut client, info) = Client::connect(shown.port);
    let capabilities = info["capabilities"].as_array().expect("a list");
    assert!(capabilities.contains(&json!("playbackControl")), "{info}");
    assert!(capabilities.contains(&json!("time")), "{info}");
    let channel = client.channel("numbers");
    assert_eq!((&channel["schemaName"], &channel["encoding"]), (&json!("Number"), &json!("json")));
    let (numbers, others) = (client.subscribe("numbers"), client.subscribe("other"));
    // The player stands at the beginning, and shows it.
    assert_eq!(number(&client.message(numbers)), 0);
    control(&mut client, true, 5.0, None);
    assert_eq!(state(&mut client).0, 0);
    for wanted in 0..200 {
        assert_eq!(number(&client.message(numbers)), wanted);
    }
    let mut last = 0;
    while last < 190 {
        last = number(&client.message(others));
    }
    assert_eq!(state(&mut client), (3, START + 199 * STEP, 5.0, false));
    // Played again, it begins at the beginning.
    control(&mut client, true, 5.0, None);
    assert_eq!(state(&mut client), (0, START, 5.0, true));
    loop {
        if number(&client.message(numbers)) == 50 {
            return;
        }
    }
}

/// All files of a recording are played by its name; `--exact` takes what is named.
#[test]
fn a_recording_of_several_files_is_named_by_one() {
    let folder = Folder::new("several");
    for number in 0..2 {
        record(&folder.join(format!("run_{number}.mcap")), 10, None);
    }
    let path = |name: &str| folder.join(name).display().to_string();
    let files = [path("run_0.mcap"), path("run_1.mcap")].join(" ");
    for (args, played) in [
        (&[path("run.mcap")][..], files),
        (&[path("run_1.mcap"), "--exact".to_owned()], path("run_1.mcap")),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let shown = Shown::start("several", &args);
        let (_client, info) = Client::connect(shown.port);
        assert_eq!(info["name"], format!("outlive {played}"));
    }
}

#[test]
fn a_client_seeks_and_sees_what_was_there() {
    let (shown, _folder) = shown("sought", 1_000, &["--paused"]);
    let mut client = shown.client();
    let (numbers, others) = (client.subscribe("numbers"), client.subscribe("other"));
    number(&client.message(numbers));
    for wanted in [777, 5, 999, 500] {
        control(&mut client, false, 1.0, Some(START + wanted * STEP + 1));
        let (status, time, _, did_seek) = state(&mut client);
        assert_eq!(status, if wanted == 999 { 3 } else { 1 });
        assert_eq!((time, did_seek), (START + (wanted * STEP + 1).min(999 * STEP), true));
        while number(&client.message(numbers)) != wanted {}
        while number(&client.message(others)) != wanted / 10 * 10 {}
    }
    // Played from there on.
    control(&mut client, true, 2.0, None);
    assert_eq!(number(&client.message(numbers)), 501);
    assert_eq!(number(&client.message(numbers)), 502);
    // Nonsense is no harm.
    for (rate, seek) in [(f32::NAN, Some(0)), (-1.0, Some(u64::MAX)), (0.0, None)] {
        control(&mut client, false, rate, seek);
        let (_, time, rate, _) = state(&mut client);
        assert!(rate > 0.0 && (START..=START + 999 * STEP).contains(&time));
    }
    let mut late = shown.client();
    let subscription = late.subscribe("numbers");
    assert_eq!(number(&late.message(subscription)), 999);
}

/// As 'outlive record' writes them: what no reader knows has its description and attributes beside it.
#[test]
fn pictures_and_msgpack_of_a_recording_are_shown() {
    let folder = Folder::new("pictures");
    let path = folder.join("run.mcap");
    let file = BufWriter::new(File::create(&path).expect("made"));
    let mut writer = mcap::WriteOptions::new().create(file).expect("made");
    let jpeg = BTreeMap::from([("attribute.view.as".to_owned(), "compressed-image".to_owned())]);
    let image = writer.add_channel(0, "camera", "", &jpeg).expect("added");
    let description = Description::of::<[u16; 2]>().slice().expect("possible").to_bytes();
    let hex: String = description.iter().map(|byte| format!("{byte:02x}")).collect();
    let described = BTreeMap::from([("outlive.description".to_owned(), hex)]);
    let pairs = writer.add_channel(0, "pairs", "", &described).expect("added");
    let packed = writer.add_channel(0, "packed", "msgpack", &BTreeMap::new()).expect("added");
    let picture = b"\xff\xd8\xff and so on";
    for (channel_id, data) in
        [(image, &picture[..]), (pairs, &[1, 0, 2, 0]), (packed, b"\x81\xa1a\x02")]
    {
        let (sequence, log_time, publish_time) = (0, START, START);
        let header = MessageHeader { channel_id, sequence, log_time, publish_time };
        writer.write_to_known_channel(&header, data).expect("written");
    }
    writer.finish().expect("finished");
    let shown = Shown::start("pictures", &[&path.display().to_string(), "--paused"]);
    let mut client = shown.client();
    let subscription = client.subscribe("camera");
    let image = CompressedImage::decode(&*client.message(subscription).1).expect("an image");
    assert_eq!((image.format.as_str(), &image.data[..]), ("jpeg", &picture[..]));
    let subscription = client.subscribe("pairs");
    assert_eq!(client.json(subscription), json!({"values": [[1, 2]]}));
    let subscription = client.subscribe("packed");
    assert_eq!(client.json(subscription), json!({"a": 2}));
}

#[test]
fn it_begins_again_in_a_loop() {
    let (shown, _folder) = shown("looped", 20, &["--loop", "--rate", "10"]);
    let mut client = shown.client();
    let subscription = client.subscribe("numbers");
    let mut ends = 0;
    while ends < 3 {
        ends += u32::from(number(&client.message(subscription)) == 19);
    }
}

#[test]
fn what_is_no_recording_is_refused() {
    let folder = Folder::new("refused");
    let good = folder.join("good.mcap");
    record(&good, 100, Some(mcap::Compression::Lz4));
    let file = |name: &str, bytes: &[u8]| -> PathBuf {
        fs::write(folder.join(name), bytes).expect("written");
        folder.join(name)
    };
    let text = file("text.mcap", b"hello");
    let none = file("none.mcap", b"");
    let empty = folder.join("empty.mcap");
    record(&empty, 0, None);
    for (code, says, path) in [
        (16, "not an MCAP file", &text),
        (16, "the file is empty", &none),
        (16, "no messages", &empty),
        (6, "nope.mcap", &folder.join("nope.mcap")),
    ] {
        let mut command = command(&folder, &[&path.display().to_string()]);
        command.args(["--port", "0"]).stderr(Stdio::piped());
        let mut child = Child::start(command).expect("starts");
        let ended = child.wait(LONG).and_then(|status| status.code());
        let mut said = String::new();
        child.kill();
        child.stderr().expect("piped").read_to_string(&mut said).expect("text");
        assert_eq!(ended, Some(code), "{}: {said}", path.display());
        assert!(said.contains(says), "{said}");
    }
    let good = good.display().to_string();
    for args in [&[&*good, "--allow-set"][..], &["--rate", "2"], &[&good, "--rate", "0"]] {
        let ended = command(&folder, args).output().expect("runs");
        assert_eq!(ended.status.code(), Some(2), "{args:?}");
    }
}

/// Returns which numbers come, played from the beginning to the end.
fn numbers(shown: &Shown) -> Vec<u64> {
    let mut client = shown.client();
    let subscription = client.subscribe("numbers");
    // Playing has not begun: the client gets the first one.
    assert_eq!(number(&client.message(subscription)), 0);
    let mut all = Vec::new();
    control(&mut client, true, 1000.0, None);
    while state(&mut client).0 != 3 {}
    // Then the last one comes once more.
    control(&mut client, false, 1.0, Some(u64::MAX));
    loop {
        match number(&client.message(subscription)) {
            next if all.last().is_none_or(|last| next > *last) => all.push(next),
            _ => return all,
        }
    }
}

/// A writer of another program that was killed: its channels stand in its chunks, and it has no index.
#[test]
fn an_unfinished_recording_is_played_up_to_where_it_ends() {
    let folder = Folder::new("cut");
    for (compression, part) in [(None, 3), (Some(mcap::Compression::Zstd), 2)] {
        let path = folder.join("run.mcap");
        record(&path, 300, compression);
        let whole = fs::read(&path).expect("read");
        fs::write(&path, &whole[..whole.len() / part]).expect("written");
        let shown =
            Shown::start("cut", &[&path.display().to_string(), "--paused", "--backlog", "4096"]);
        let all = numbers(&shown);
        let there = all.len() as u64;
        assert!((20..299).contains(&there), "{there}");
        assert_eq!(all, (0..there).collect::<Vec<_>>());
        let told = shown.lines.recv_timeout(LONG).expect("a line");
        assert_eq!(told["event"], "damaged", "{told}");
        assert!(told["why"].as_str().expect("a text").contains("ends in the middle"), "{told}");
    }
}

/// What is damaged is passed over, and told.
#[test]
fn what_is_whole_of_a_damaged_recording_is_played() {
    let folder = Folder::new("harmed");
    let path = folder.join("run.mcap");
    record(&path, 300, Some(mcap::Compression::Lz4));
    let mut bytes = fs::read(&path).expect("read");
    let at = bytes.len() / 3;
    bytes[at..at + 4].fill(0xff);
    fs::write(&path, bytes).expect("written");
    let shown =
        Shown::start("harmed", &[&path.display().to_string(), "--paused", "--backlog", "4096"]);
    let all = numbers(&shown);
    assert!((250..300).contains(&all.len()), "{}", all.len());
    assert!(all.is_sorted() && all.first() == Some(&0) && all.last() == Some(&299), "{all:?}");
    let told = shown.lines.recv_timeout(LONG).expect("a line");
    assert_eq!(told["event"], "damaged", "{told}");
}

/// Chunks that overlap, and several files, are played by their times.
#[test]
fn messages_come_in_the_order_of_their_times() {
    let folder = Folder::new("ordered");
    let mut paths = Vec::new();
    // Each file has every fourth number of two streams, which lie in chunks of their own.
    for file in 0..2 {
        let path = folder.join(format!("{file}.mcap"));
        let out = BufWriter::new(File::create(&path).expect("made"));
        let options = mcap::WriteOptions::new().chunk_size(Some(1 << 20)).compression(None);
        let mut writer = options.create(out).expect("made");
        let channel = writer.add_channel(0, "numbers", "json", &BTreeMap::new()).expect("added");
        for stream in [1, 0] {
            for number in (2 * file + stream..400).step_by(4) {
                let time = START + number * STEP;
                let (sequence, log_time, publish_time) = (0, time, time);
                let header =
                    MessageHeader { channel_id: channel, sequence, log_time, publish_time };
                let data = json!({"number": number}).to_string();
                writer.write_to_known_channel(&header, data.as_bytes()).expect("written");
            }
            writer.flush().expect("flushed");
        }
        writer.finish().expect("finished");
        paths.push(path.display().to_string());
    }
    let shown = Shown::start("ordered", &[&*paths[1], &paths[0], "--paused", "--backlog", "4096"]);
    assert_eq!(numbers(&shown), (0..400).collect::<Vec<_>>());
}

/// Each byte of a recording's index is damaged in turn: the program says so, or plays what it can.
#[test]
fn a_damaged_recording_ends_with_a_code() {
    let folder = Folder::new("damaged");
    let good = folder.join("good.mcap");
    record(&good, 60, None);
    let whole = fs::read(&good).expect("read");
    let bad = folder.join("bad.mcap");
    for at in (8..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        fs::write(&bad, bytes).expect("written");
        let mut command = command(&folder, &[&bad.display().to_string()]);
        command.args(["--port", "0", "--rate", "1000", "--loop"]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = Child::start(command).expect("starts");
        // It listens, or has ended.
        let mut line = String::new();
        BufReader::new(child.stdout().expect("piped")).read_line(&mut line).expect("text");
        std::thread::sleep(Duration::from_millis(20));
        let code = child.end(LONG).and_then(|status| status.code());
        assert!(matches!(code, Some(0 | 16)), "byte {at}: {code:?}");
    }
}
