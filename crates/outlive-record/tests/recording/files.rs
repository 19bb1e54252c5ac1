//! Which files a recorder continues, and which ones it leaves as they are.

use std::ops::Range;
use std::process::Command;

use outlive::topic::{Publisher, Topic};

use crate::support::{Contents, Place, eventually, message, number};

fn topic(place: &Place) -> Topic<[u8]> {
    Topic::<[u8]>::options().depth(64).open_or_create(&place.domain, "t").expect("made")
}

fn publish(publisher: &Publisher, numbers: Range<u64>) {
    for at in numbers {
        publisher.publish(&message(at, 64)).map(drop).expect("published");
    }
}

fn numbers(place: &Place, file: &str) -> Vec<u64> {
    let contents = Contents::of(&place.file(file));
    contents.messages("t").iter().map(|found| number(&found.bytes)).collect()
}

fn skipped(place: &Place, file: &str) -> u64 {
    let events = Contents::of(&place.file(file)).events("skipped");
    events.iter().map(|event| event["count"].as_u64().expect("a number")).sum()
}

fn bytes(place: &Place, file: &str) -> Vec<u8> {
    std::fs::read(place.file(file)).expect("read")
}

/// Waits until the file has that message in a whole group.
fn has(place: &Place, file: &str, last: u64) {
    let is_there = || {
        let begun = place.file(file).metadata().is_ok_and(|file| file.len() > 500);
        begun && numbers(place, file).last() == Some(&last)
    };
    assert!(eventually(is_there), "{last} is in {file}");
}

fn serves(place: &Place) {
    assert!(eventually(|| place.tell(&["status", "--as", "rec"]).is_ok()), "it serves");
}

/// Another recording's finished file, with 0, 1 and 2.
fn another(place: &Place, publisher: &Publisher, file: &str) -> Vec<u8> {
    let other = place.begin(&["--all", "-o", file], file);
    publish(publisher, 0..3);
    other.end();
    assert_eq!(numbers(place, file), [0, 1, 2]);
    bytes(place, file)
}

/// Sets the longest file that a process may write.
fn limit(pid: u32, bytes: &str) {
    let args = [format!("--pid={pid}"), format!("--fsize={bytes}:unlimited")];
    assert!(Command::new("prlimit").args(args).status().expect("starts").success());
}

const NAMED: [&str; 7] = ["--all", "--as", "rec", "-o", "out.mcap", "--flush", "5ms"];

#[test]
fn a_start_without_room_leaves_no_file_and_the_next_start_leaves_the_file_of_another() {
    let place = Place::new("files-no-room");
    let topic = topic(&place);
    let publisher = topic.publisher().expect("a slot");
    let before = another(&place, &publisher, "out.mcap");
    let recorder = place.record(&[&NAMED[..], &["--paused"]].concat(), 0);
    serves(&place);
    limit(recorder.0.id(), "0");
    place.tell(&["start", "--as", "rec"]).expect_err("no room");
    assert_eq!(place.files("out"), [place.file("out.mcap")]);
    limit(recorder.0.id(), "unlimited");
    place.tell(&["start", "--as", "rec"]).expect("room");
    publish(&publisher, 3..6);
    recorder.end();
    assert!(bytes(&place, "out.mcap") == before, "the file of another");
    assert_eq!(numbers(&place, "out_1.mcap"), [3, 4, 5]);
}

/// As a kill leaves it that comes after the next file was made, and before its first group.
#[test]
fn a_next_file_that_has_nothing_is_written_if_the_one_before_is_finished() {
    let place = Place::new("files-empty");
    let topic = topic(&place);
    let publisher = topic.publisher().expect("a slot");
    let before = another(&place, &publisher, "out.mcap");
    std::fs::write(place.file("out_1.mcap"), b"").expect("written");
    let recorder = place.begin(&NAMED, "out_1.mcap");
    publish(&publisher, 3..6);
    recorder.end();
    assert!(bytes(&place, "out.mcap") == before, "the file of another");
    assert_eq!(numbers(&place, "out_1.mcap"), [3, 4, 5]);
    assert_eq!(skipped(&place, "out_1.mcap"), 0, "of another recording's positions");
}

#[test]
fn a_next_file_that_has_nothing_goes_on_from_the_own_one_that_was_finished_at_a_stop() {
    let place = Place::new("files-stopped");
    let topic = topic(&place);
    let publisher = topic.publisher().expect("a slot");
    let mut recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 0..10);
    place.tell(&["stop", "--as", "rec"]).expect("stopped");
    let before = bytes(&place, "out.mcap");
    publish(&publisher, 10..20);
    recorder.kill();
    std::fs::write(place.file("out_1.mcap"), b"").expect("written");
    let recorder = place.begin(&NAMED, "out_1.mcap");
    publish(&publisher, 20..23);
    recorder.end();
    assert!(bytes(&place, "out.mcap") == before, "it was finished");
    assert_eq!(numbers(&place, "out.mcap"), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&place, "out_1.mcap"), [20, 21, 22]);
    assert_eq!(skipped(&place, "out_1.mcap"), 10);
}

#[test]
fn another_recording_that_is_called_as_the_next_file_stays_as_it_is() {
    // A resumed one, and the successor of one that was killed; the latter also begins a next file.
    for is_named in [false, true] {
        let place = Place::new("files-another");
        let topic = topic(&place);
        let publisher = topic.publisher().expect("a slot");
        let before = another(&place, &publisher, "out_1.mcap");
        let unnamed = ["--all", "-o", "out.mcap", "--flush", "5ms"];
        let args = if is_named { &NAMED[..] } else { &unnamed[..] };
        let mut own = place.begin(args, "out.mcap");
        publish(&publisher, 3..6);
        has(&place, "out.mcap", 5);
        let next = if is_named {
            own.kill();
            let next = place.record(args, 1);
            serves(&place);
            next
        } else {
            own.end();
            place.record(&[args, &["--resume"]].concat(), 1)
        };
        publish(&publisher, 6..9);
        has(&place, "out.mcap", 8);
        if is_named {
            place.tell(&["split", "--as", "rec"]).expect("split");
            publish(&publisher, 9..12);
        }
        next.end();
        assert_eq!(numbers(&place, "out.mcap"), (3..9).collect::<Vec<_>>());
        if is_named {
            assert_eq!(numbers(&place, "out_2.mcap"), [9, 10, 11]);
        }
        assert!(bytes(&place, "out_1.mcap") == before, "the file of another, named: {is_named}");
    }
}

#[test]
fn a_successor_goes_on_in_the_last_file_though_the_first_was_moved_away() {
    let place = Place::new("files-moved");
    let topic = topic(&place);
    let publisher = topic.publisher().expect("a slot");
    let mut recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 0..10);
    place.tell(&["split", "--as", "rec"]).expect("split");
    std::fs::rename(place.file("out.mcap"), place.file("archive.mcap")).expect("moved");
    publish(&publisher, 10..20);
    has(&place, "out_1.mcap", 19);
    recorder.kill();
    publish(&publisher, 20..30);
    let recorder = place.record(&NAMED, 1);
    serves(&place);
    publish(&publisher, 30..40);
    recorder.end();
    assert_eq!(place.files("out"), [place.file("out_1.mcap")]);
    assert_eq!(numbers(&place, "archive.mcap"), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&place, "out_1.mcap"), (10..40).collect::<Vec<_>>());
}
