//! What is not in the file is counted, once: as lost where a recorder was to record it, else as skipped.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::topic::Topic;
use outlive_record::{Kinds, Options, Recorder};
use serde_json::json;

use crate::kinds::Other;
use crate::support::{
    Contents, Place, Recording, eventually, has, message, numbers, publish, signal, stop, told,
    topic,
};

#[test]
fn the_first_messages_of_a_topic_that_came_while_the_recorder_was_stopped_are_counted() {
    let place = Place::new("first");
    let recording = place.begin(&["--all", "-o", "out.mcap", "--flush", "5ms"], "out.mcap");
    stop(&recording.0);
    let topic = topic(&place, "t");
    publish(&topic.publisher().expect("a ring"), 0..100);
    // It takes the former one's ring, or another one.
    publish(&topic.publisher().expect("a ring"), 100..130);
    signal(&recording.0, libc::SIGCONT);
    has(&place, "out.mcap", "t", 129);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let found = numbers(&contents, "t");
    assert!(found.windows(2).all(|two| two[0] < two[1]), "{found:?}");
    assert_eq!(found.len() as u64 + told(&contents, "lost", "t"), 130);
    assert_eq!(contents.events("skipped").len(), 0);
}

#[test]
fn the_first_messages_of_a_topic_that_came_while_none_recorded_are_counted() {
    let place = Place::new("between");
    let before = topic(&place, "before");
    publish(&before.publisher().expect("a ring"), 0..50);
    let args = ["--all", "-o", "out.mcap", "--as", "rec", "--patience", "1h", "--flush", "5ms"];
    let mut recording = place.begin(&args, "out.mcap");
    recording.kill();
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..100);
    // One after another: what the first has counted, the next ones do not.
    for round in 1..4 {
        let mut recording = place.record(&args, 2);
        has(&place, "out.mcap", "t", if round == 1 { 99 } else { (round - 1) * 100 });
        publish(&publisher, round * 100..round * 100 + 1);
        has(&place, "out.mcap", "t", round * 100);
        recording.kill();
    }
    place.record(&args, 2).end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!(numbers(&contents, "t").len(), 16 + 3);
    assert_eq!(told(&contents, "lost", "t"), 84);
    // It was there when the first one began: what it had then was never to be recorded.
    assert_eq!((numbers(&contents, "before").len(), told(&contents, "lost", "before")), (0, 0));
}

/// One that is told to record more than its predecessor does not know what that one would have recorded.
#[test]
fn what_a_predecessor_did_not_want_is_not_counted() {
    let place = Place::new("wanted");
    let (first, second) = (topic(&place, "first"), topic(&place, "second"));
    publish(&second.publisher().expect("a ring"), 0..100);
    let more = ["-o", "out.mcap", "--as", "rec", "--patience", "1h"];
    place.begin(&[&["first"], &more[..]].concat(), "out.mcap").kill();
    let recording = place.record(&[&["first", "second"], &more[..]].concat(), 2);
    publish(&first.publisher().expect("a ring"), 0..5);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!((numbers(&contents, "first").len(), contents.events("lost").len()), (5, 0));
}

/// A topic that could not be opened at first: what it has had before the recorder began is not the recorder's.
#[test]
fn a_topic_that_was_refused_is_counted_from_the_recorders_beginning() {
    let place = Place::new("counted");
    let topic = Topic::<[u8]>::options().max_subscribers(1).depth(16).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..100);
    let other = topic.subscriber().expect("a slot");
    let recording = place.begin(&["--all", "-o", "out.mcap"], "out.mcap");
    publish(&publisher, 100..150);
    drop(other);
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&publisher, 150..153);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let found = numbers(&contents, "t");
    assert_eq!(found.last(), Some(&152));
    assert_eq!(found.len() as u64 + told(&contents, "lost", "t"), 53);
}

/// A place counts what its subscriber passed over, also what a recorder told of and what it died before telling.
#[test]
fn losses_are_counted_once_through_kills() {
    let place = Place::new("once");
    let args = ["--all", "-o", "out.mcap", "--as", "rec", "--best-effort", "--flush", "2ms"];
    let mut recording = place.begin(&args, "out.mcap");
    let topic = Topic::<[u8]>::options().depth(4).open_or_create(&place.domain, "t");
    let (topic, ends, published) =
        (topic.expect("made"), AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let publisher = topic.publisher().expect("a ring");
            for at in 0.. {
                publish(&publisher, at..at + 1);
                published.store(at + 1, Ordering::Relaxed);
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                if at % 8 == 0 {
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        for round in 0..30_u64 {
            std::thread::sleep(Duration::from_micros(round * 7919 % 40 * 700));
            recording.kill();
            recording = Recording(place.command(&args).spawn().expect("starts"));
        }
        ends.store(true, Ordering::Relaxed);
    });
    let last = published.load(Ordering::Relaxed) - 1;
    has(&place, "out.mcap", "t", last);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    let found = numbers(&contents, "t");
    assert!(found.windows(2).all(|two| two[0] < two[1]), "each once, in order");
    assert_eq!(found.len() as u64 + told(&contents, "lost", "t"), last + 1);
}

/// Between the two, nothing is recorded, and numbers tell how much that was; a successor finds its place.
#[test]
fn what_is_sent_between_stop_and_start_is_skipped_and_counted() {
    let place = Place::new("skipped");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let sender = queue.expect("made").sender().expect("one");
    let state = State::<u64>::open_or_create(&place.domain, "s").expect("made");
    let mut writer = state.writer().expect("none");
    let service = Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    let _server = Other::start(&place, "serve");
    assert!(eventually(|| service.current_server().is_some()));
    let client = service.client().expect("one");
    let all = ["--all", "--queues", "--states", "--services"];
    let args = [&all[..], &["--as", "rec", "--flush", "5ms", "-o", "out.mcap"]].concat();
    let mut recording = place.record(&args, 1);
    assert!(eventually(|| place.tell(&["status"]).is_ok()));
    let mut send = |numbers: Range<u64>| {
        for at in numbers {
            publish(&publisher, at..at + 1);
            sender.send(&message(at, 64)).expect("room");
            writer.set(&at).expect("set");
            client.call(b"please").map(drop).expect("answered");
        }
    };
    send(0..10);
    has(&place, "out.mcap", "queue/q", 9);
    has(&place, "out.mcap", "t", 9);
    place.tell(&["stop"]).expect("stopped");
    send(10..20);
    place.tell(&["start"]).expect("started");
    // Of the topic, the queue and the service all; of the state all but the value that holds then.
    let status = place.tell(&["status"]).expect("told");
    assert_eq!(status["skipped"], json!(39));
    send(20..25);
    has(&place, "out_1.mcap", "queue/q", 24);
    has(&place, "out_1.mcap", "t", 24);
    recording.kill();
    send(25..30);
    let recording = place.record(&args, 1);
    has(&place, "out_1.mcap", "queue/q", 29);
    recording.end();
    let (first, second) = ("out.mcap", "out_1.mcap");
    let [first, second] = [first, second].map(|file| Contents::of(&place.file(file)));
    for channel in ["t", "queue/q"] {
        assert_eq!(numbers(&first, channel), (0..10).collect::<Vec<_>>(), "{channel}");
        assert_eq!(numbers(&second, channel), (20..30).collect::<Vec<_>>(), "{channel}");
        assert_eq!(told(&second, "skipped", channel), 10, "{channel}");
    }
    let values = |contents: &Contents| contents.messages("state/s").len() as u64;
    assert_eq!(told(&second, "skipped", "state/s"), 9);
    assert_eq!(
        values(&first)
            + values(&second)
            + told(&first, "lost", "state/s")
            + told(&second, "lost", "state/s")
            + 9,
        state.version()
    );
    let calls = |contents: &Contents| {
        let lines = contents.messages("service/c").iter();
        let lines = lines.map(|line| serde_json::from_slice::<serde_json::Value>(&line.bytes));
        let calls = lines.map(|line| line.expect("JSON")["call"].to_string());
        calls.collect::<BTreeSet<_>>().len() as u64 + told(contents, "lost", "service/c")
    };
    assert_eq!(told(&second, "skipped", "service/c"), 10);
    assert_eq!(calls(&first) + calls(&second) + 10, service.calls_made());
    assert_eq!(told(&second, "lost", "t") + told(&second, "lost", "queue/q"), 0);
}

/// Its file is finished, and its own: the next one begins the next file, as `start` would have.
#[test]
fn one_that_was_killed_after_it_had_been_told_to_stop_goes_on() {
    let place = Place::new("stopkill");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let sender = queue.expect("made").sender().expect("one");
    let send = |numbers: Range<u64>| {
        for at in numbers {
            publish(&publisher, at..at + 1);
            sender.send(&message(at, 64)).expect("room");
        }
    };
    let args = ["--all", "--queues", "--as", "rec", "-o", "out.mcap"];
    let mut recording = place.record(&args, 1);
    assert!(eventually(|| place.tell(&["status"]).is_ok()));
    send(0..10);
    place.tell(&["stop"]).expect("stopped");
    send(10..20);
    recording.kill();
    let recording = place.record(&args, 1);
    send(20..30);
    recording.end();
    let contents = Contents::of(&place.file("out_1.mcap"));
    for channel in ["t", "queue/q"] {
        assert_eq!(numbers(&contents, channel), (20..30).collect::<Vec<_>>(), "{channel}");
        assert_eq!(told(&contents, "skipped", channel), 10, "{channel}");
    }
    assert!(Contents::of(&place.file("out.mcap")).is_whole);
    // One that has ended in order leaves a file that is not continued without being told.
    let mut again = place.command(&args);
    let status = again.stderr(std::process::Stdio::null()).status().expect("starts");
    assert_eq!(status.code(), Some(12));
}

/// A file of another recorder's is not its own.
#[test]
fn a_stopped_recorders_file_is_no_other_ones() {
    let place = Place::new("otherstop");
    let _topic = topic(&place, "t");
    for (name, file) in [("rec", "out.mcap"), ("other", "other.mcap")] {
        let mut recording = place.record(&["--all", "--as", name, "-o", file], 1);
        assert!(eventually(|| place.tell(&["stop", "--as", name]).is_ok()));
        recording.kill();
    }
    let mut wrong = place.command(&["--all", "--as", "rec", "-o", "other.mcap"]);
    let status = wrong.stderr(std::process::Stdio::null()).status().expect("starts");
    assert_eq!(status.code(), Some(12));
}

/// What comes between a recorder's beginning and its first turn.
#[test]
fn a_recorder_begins_when_it_has_begun() {
    let place = Place::new("begins");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let queue = queue.expect("made");
    let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("none"));
    let mut pass = |numbers: Range<u64>| {
        for at in numbers {
            sender.send(&message(at, 64)).expect("room");
            receiver.recv().expect("there");
        }
    };
    // Their server is not the recorder's process, whose own service is not recorded.
    let service = Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    let _server = Other::start(&place, "serve");
    assert!(eventually(|| service.current_server().is_some()));
    let client = service.client().expect("one");
    let call = |count: usize| {
        (0..count).for_each(|_| drop(client.call(b"please").expect("answered")));
    };
    pass(0..10);
    call(5);
    for (file, count, calls) in [("few.mcap", 3, 1), ("many.mcap", 500, 40)] {
        let all = Kinds { queues: true, services: true, ..Kinds::TOPICS };
        let options = Options { kinds: all, ..Options::new(place.file(file)) };
        let mut recorder = Recorder::start(&place.domain, options).expect("begins");
        pass(100..100 + count);
        call(calls);
        recorder.step(Instant::now()).expect("recorded");
        recorder.step(Instant::now()).expect("recorded");
        recorder.finish().expect("finished");
        let contents = Contents::of(&place.file(file));
        let found = numbers(&contents, "queue/q");
        assert_eq!(found.last(), Some(&(99 + count)));
        assert_eq!(found.len() as u64 + told(&contents, "lost", "queue/q"), count, "{file}");
        let found = contents.messages("service/c").len();
        assert_eq!(found as u64 + told(&contents, "lost", "service/c"), calls as u64, "{file}");
    }
}

/// A stray write into the positions, or into a service's words: numbers are wrong then, and nothing ends.
#[test]
fn positions_that_are_damaged_end_no_recording() {
    let place = Place::new("positions-max");
    let topic = topic(&place, "t");
    let publisher = topic.publisher().expect("a ring");
    let queue = Queue::<[u8]>::options().max_messages(64).create_new(&place.domain, "q");
    let sender = queue.expect("made").sender().expect("one");
    let state = State::<u64>::open_or_create(&place.domain, "s").expect("made");
    let mut writer = state.writer().expect("none");
    Service::<[u8], [u8]>::options().create_new(&place.domain, "c").expect("made");
    let args = [
        "--all",
        "--queues",
        "--states",
        "--services",
        "--as",
        "rec",
        "-o",
        "out.mcap",
        "--resume",
    ];
    place.begin(&args, "out.mcap").kill();
    for round in 0..3_u64 {
        let (mut file, mut tail) = outlive_mcap::Writer::<Vec<u8>>::resume(
            place.file("out.mcap"),
            outlive_mcap::Options::default(),
        )
        .expect("resumed");
        for (key, value) in tail.positions.iter_mut().filter(|(key, _)| key.contains('.')) {
            let words = value.split(' ').count().max(1);
            let word =
                if round == 1 && !key.ends_with(".queue") { "7" } else { "18446744073709551615" };
            *value = vec![word; words].join(" ");
        }
        file.flush(&tail.positions).expect("written");
        drop(file);
        let recording = place.record(&args, 1);
        publish(&publisher, round..round + 1);
        sender.send(&message(round, 64)).expect("room");
        writer.set(&round).expect("set");
        assert!(eventually(|| place.tell(&["status"]).is_ok()));
        match round {
            0 => {
                place.tell(&["stop"]).expect("stopped");
                place.tell(&["start"]).expect("started");
                recording.end();
                std::fs::remove_file(place.file("out_1.mcap")).expect("there");
            }
            _ => recording.end(),
        }
    }
}
