//! What the program says, and that a recording goes on when the reader of that has gone.

use std::io::Read;
use std::process::{Command, Stdio};

use outlive::Domain;
use outlive::queue::Queue;
use outlive::topic::Topic;

use crate::support::{Contents, Place, Recording, eventually, message};

/// A pipe without a reader.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_recording_goes_on_when_nobody_reads_what_it_tells() {
    let place = Place::new("unread");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    for (file, more) in [("a.mcap", vec!["--json"]), ("b.mcap", vec!["missing"])] {
        let mut args = vec!["-o", file, "t"];
        args.extend(more);
        let mut command = place.command(&args);
        let command = command.stdout(unread()).stderr(unread());
        let recording = Recording(command.spawn().expect("starts"));
        assert!(eventually(|| topic.subscribers().len() == 1));
        publisher.publish(&message(1, 64)).map(drop).expect("published");
        recording.end();
        let contents = Contents::of(&place.file(file));
        assert!(contents.is_whole && contents.messages("t").len() == 1, "{file}");
    }
}

#[test]
fn a_domain_that_is_not_there_is_waited_for_and_not_made() {
    let place = Place::new("early");
    let folder = place.file("later");
    let mut command = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    command.args(["--all", "-o", "out.mcap", "--domain"]).arg(&folder);
    command.current_dir(&place.folder).stdin(Stdio::null());
    let mut recording = Recording(command.stderr(Stdio::piped()).spawn().expect("starts"));
    let mut told = [0; 20];
    let mut err = recording.0.stderr.take().expect("piped");
    err.read_exact(&mut told).expect("it says that it waits");
    assert_eq!(&told, b"outlive record: wait");
    assert!(!folder.exists());
    let domain = Domain::open_or_create_at(&folder).expect("made");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&message(1, 64)).map(drop).expect("published");
    assert!(eventually(|| topic.subscribers().len() == 1));
    publisher.publish(&message(2, 64)).map(drop).expect("published");
    recording.end();
    assert!(!Contents::of(&place.file("out.mcap")).messages("t").is_empty());
}

#[test]
fn names_that_cannot_be_recorded_are_refused_and_missing_ones_told() {
    let place = Place::new("names");
    let _queue = Queue::<[u8]>::open_or_create(&place.domain, "jobs").expect("made");
    for (name, code) in [("jobs", 7), ("a/../b", 13), ("", 13)] {
        let mut command = place.command(&["-o", "out.mcap", "--", name]);
        let status = command.stderr(Stdio::null()).status().expect("starts");
        assert_eq!(status.code(), Some(code), "{name}");
        assert!(!place.file("out.mcap").exists(), "{name}");
    }
    let mut command = place.command(&["-o", "out.mcap", "batery", "--json"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("starts");
    let mut out = child.stdout.take().expect("piped");
    let recording = Recording(child);
    let mut line = Vec::new();
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        out.read_exact(&mut byte).expect("a line");
        line.push(byte[0]);
    }
    let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
    assert_eq!(line, serde_json::json!({"event": "missing", "topic": "batery"}));
    recording.end();
}

/// It is a topic's name all the same, and the topic may come.
#[test]
fn a_command_with_a_typing_error_is_told_and_waited_for_as_a_topic() {
    let place = Place::new("mistyped");
    let first_line = |args: &[&str]| {
        let mut command = place.command(args);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
        let mut err = child.stderr.take().expect("piped");
        let recording = Recording(child);
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            err.read_exact(&mut byte).expect("a line");
            line.push(byte[0]);
        }
        (recording, String::from_utf8(line).expect("text"))
    };
    let (recording, said) = first_line(&["satus", "-o", "out.mcap"]);
    assert!(said.contains("no topic satus yet; did you mean `outlive record status`?"), "{said}");
    let topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "satus");
    let topic = topic.expect("made");
    assert!(eventually(|| topic.subscribers().len() == 1));
    recording.end();
    let (recording, said) = first_line(&["satus", "triger", "-o", "two.mcap"]);
    assert!(said.contains("'triger' is not there yet"), "{said}");
    recording.end();
    let mut early = Command::new(env!("CARGO_BIN_EXE_outlive-record"));
    early.args(["triger", "-o", "three.mcap", "--domain"]).arg(place.file("later"));
    early.current_dir(&place.folder).stdin(Stdio::null());
    let mut child = early.stderr(Stdio::piped()).spawn().expect("starts");
    let mut said = String::new();
    let mut err = child.stderr.take().expect("piped");
    let recording = Recording(child);
    while !said.contains("did you mean `outlive record trigger`") {
        let mut byte = [0];
        err.read_exact(&mut byte).expect("it says so");
        said.push(char::from(byte[0]));
    }
    drop(recording);
}

#[test]
fn a_replay_goes_on_when_no_process_reads_its_lines() {
    let place = Place::new("unread-replay");
    let topic = Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t");
    let publisher = topic.expect("made").publisher().expect("a ring");
    let recording = place.record(&["t", "-o", "in.mcap"], 1);
    publisher.publish(&message(1, 64)).map(drop).expect("published");
    recording.end();
    drop(publisher);
    for args in [&["in.mcap"][..], &["in.mcap", "--json"], &["in.mcap", "--rename", "t=u/v"]] {
        let mut command = place.player(args);
        let status = command.stdout(unread()).stderr(unread()).status().expect("starts");
        let code = if args.contains(&"t=u/v") { 13 } else { 0 };
        assert_eq!(status.code(), Some(code), "{args:?}");
    }
}
