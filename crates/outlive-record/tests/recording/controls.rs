//! A recorder that is told what to do, by the verbs and by its service.

use std::process::Stdio;

use outlive::queue::Queue;
use outlive::rpc::{CallError, Service};
use outlive::topic::{Publisher, Topic};
use serde_json::json;

use crate::support::{Contents, Place, Recording, eventually, message, number, stop};

fn publish(publisher: &Publisher, numbers: std::ops::Range<u64>) {
    for at in numbers {
        publisher.publish(&message(at, 64)).map(drop).expect("published");
    }
}

fn numbers(place: &Place, file: &str) -> Vec<u64> {
    let contents = Contents::of(&place.file(file));
    assert!(contents.is_whole, "{file}");
    contents.messages("t").iter().map(|one| number(&one.bytes)).collect()
}

fn made(place: &Place) -> (Topic<[u8]>, Publisher) {
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    (topic, publisher)
}

/// Starts a recorder, and returns when it serves.
fn serving(place: &Place, args: &[&str], topics: usize) -> Recording {
    let recording = place.record(args, topics);
    assert!(eventually(|| place.tell(&["status"]).is_ok()));
    recording
}

/// What a verb that fails says.
fn refusal(place: &Place, args: &[&str]) -> String {
    let output = place.command(args).output().expect("starts");
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_recorder_stops_starts_and_splits_when_told() {
    let place = Place::new("control");
    let (topic, publisher) = made(&place);
    let recording = serving(&place, &["--all", "--as", "rec", "-o", "out.mcap"], 1);
    publish(&publisher, 0..10);
    let status = place.tell(&["split", "--as", "rec"]).expect("split");
    // With its folder: the caller may be in another one.
    assert_eq!(status["file"], json!(place.file("out_1.mcap")));
    assert_eq!(numbers(&place, "out.mcap"), (0..10).collect::<Vec<_>>());
    publish(&publisher, 10..20);
    let status = place.tell(&["stop"]).expect("stopped");
    assert_eq!((&status["state"], &status["messages"]), (&json!("stopped"), &json!(20)));
    let status = place.command(&["status"]).output().expect("starts").stdout;
    let status = String::from_utf8_lossy(&status).into_owned();
    assert!(status.starts_with("stopped: 20 messages, 0 lost; last file "), "{status}");
    assert_eq!(numbers(&place, "out_1.mcap"), (10..20).collect::<Vec<_>>());
    // It holds no publisher up, and has nothing to stop, to split or to write.
    assert!(topic.subscribers().is_empty());
    publish(&publisher, 20..200);
    for verb in ["stop", "split", "trigger"] {
        assert_eq!(place.tell(&[verb]), Err(1), "{verb}");
    }
    assert!(refusal(&place, &["stop"]).contains("stopped already"));
    let status = place.tell(&["start"]).expect("started");
    assert!(status["file"].as_str().expect("text").ends_with("out_2.mcap"), "{status}");
    assert_eq!(place.tell(&["start"]), Err(1));
    publish(&publisher, 200..210);
    // A recorder of files keeps no window.
    assert_eq!(place.tell(&["trigger"]), Err(1));
    recording.end();
    assert_eq!(numbers(&place, "out_2.mcap"), (200..210).collect::<Vec<_>>());
    assert_eq!(place.tell(&["status"]), Err(6));
    assert_eq!(place.tell(&["status", "--as", "rec"]), Err(6));
}

#[test]
fn a_recorder_that_begins_paused_records_when_told() {
    let place = Place::new("paused");
    let (topic, publisher) = made(&place);
    let paused = ["--all", "--as", "rec", "--paused", "--split", "1G", "-o", "out.mcap"];
    let recording = place.record(&paused, 0);
    assert!(eventually(|| place.tell(&["status"]).is_ok_and(|told| told["state"] == "stopped")));
    assert!(topic.subscribers().is_empty() && place.files("out").is_empty());
    place.tell(&["start"]).expect("started");
    publish(&publisher, 0..10);
    place.tell(&["stop"]).expect("stopped");
    place.tell(&["start"]).expect("started");
    publish(&publisher, 10..15);
    recording.end();
    assert_eq!(numbers(&place, "out_0.mcap"), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&place, "out_1.mcap"), (10..15).collect::<Vec<_>>());
}

/// A dead one's file is gone on with, whether its successor records at once or when it is told.
#[test]
fn one_that_begins_paused_goes_on_where_a_dead_one_was() {
    let place = Place::new("pausedheir");
    let queue = Queue::<[u8]>::options().open_or_create(&place.domain, "q").expect("made");
    let sender = queue.sender().expect("one");
    let send = |numbers: std::ops::Range<u64>| {
        numbers.for_each(|at| sender.send(&message(at, 64)).expect("room"));
    };
    let args = ["--all", "--queues", "--as", "rec", "--flush", "10ms", "-o", "out.mcap"];
    let mut recording = serving(&place, &args, 0);
    send(0..10);
    let has_them = || Contents::of(&place.file("out.mcap")).messages("queue/q").len() == 10;
    assert!(eventually(has_them));
    recording.kill();
    send(10..20);
    let recording = serving(&place, &[&args[..], &["--paused"]].concat(), 0);
    place.tell(&["start"]).expect("started");
    send(20..30);
    recording.end();
    let mut found = Vec::new();
    for file in place.files("out") {
        let contents = Contents::of(&file);
        assert!(contents.is_whole, "{}", file.display());
        found.extend(contents.messages("queue/q").iter().map(|one| number(&one.bytes)));
    }
    assert_eq!(found, (0..30).collect::<Vec<_>>());
}

/// It is refused before it does anything: publishers do not wait for it, and no file is made.
#[test]
fn a_second_one_of_a_name_leaves_nothing() {
    let place = Place::new("second");
    let (_topic, _publisher) = made(&place);
    let other = Topic::<[u8]>::options().depth(64).reliable(true);
    let other = other.open_or_create(&place.domain, "other").expect("made");
    let recording = serving(&place, &["t", "--as", "rec", "-o", "out.mcap"], 1);
    for more in [&["-o", "two.mcap"][..], &["--snapshot", "1h,16M"]] {
        let mut second = place.command(&[&["other", "--as", "rec"], more].concat());
        assert!(!second.stderr(Stdio::null()).status().expect("starts").success());
        assert!(other.kept().is_empty());
    }
    assert!(place.files("two").is_empty() && !place.domain.path().join(".record:rec").exists());
    recording.end();
}

/// The files that a request began are gone on with, too.
#[test]
fn a_successor_goes_on_in_the_last_file_that_was_begun() {
    let place = Place::new("begun");
    let (_topic, publisher) = made(&place);
    let args = ["--all", "--as", "rec", "--patience", "1h", "-o", "out.mcap"];
    let mut recording = serving(&place, &args, 1);
    publish(&publisher, 0..10);
    place.tell(&["split"]).expect("split");
    publish(&publisher, 10..20);
    recording.kill();
    publish(&publisher, 20..30);
    let recording = place.record(&args, 1);
    publish(&publisher, 30..40);
    recording.end();
    assert_eq!(numbers(&place, "out.mcap"), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&place, "out_1.mcap"), (10..40).collect::<Vec<_>>());
}

/// Any program may call the service: what it says of requests that it does not know, and of deaths.
#[test]
fn the_service_answers_any_program() {
    let place = Place::new("service");
    let (_topic, publisher) = made(&place);
    let mut recording = serving(&place, &["--all", "--as", "rec", "-o", "out.mcap"], 1);
    publish(&publisher, 0..5);
    let mut service = None;
    assert!(eventually(|| {
        service = Service::open_as_bytes(&place.domain, "record:rec").ok();
        service.as_ref().is_some_and(|service| service.current_server().is_some())
    }));
    let client = service.as_ref().expect("there").client().expect("a client");
    let told = client.call(br#"{"do":"status"}"#).expect("answered");
    let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
    assert_eq!((&told["state"], &told["pid"]), (&json!("recording"), &json!(recording.0.id())));
    for wrong in [
        &b""[..],
        b"no JSON",
        br#"{"do":"fly"}"#,
        br#"{"do":"trigger","file":5}"#,
        br#"{"do":"status","more":1}"#,
        b"[[[[[[[[",
        &[0xff; 5000],
    ] {
        match client.call(wrong) {
            Err(CallError::Failed(why)) => assert!(why.contains("not a request"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
    // It is killed in the middle of a call.
    stop(&recording.0);
    let call = client.begin(br#"{"do":"split"}"#).expect("begun");
    recording.kill();
    assert!(matches!(call.wait(), Err(CallError::ServerDied { begun: false })));
    let told = format!("'rec' (process {}) was killed", recording.0.id());
    assert!(refusal(&place, &["status"]).contains(&told));
}

/// Its trigger is carried out; the answer goes nowhere.
#[test]
fn a_client_that_is_killed_in_its_call_stops_nothing() {
    let place = Place::new("client");
    let (_topic, publisher) = made(&place);
    let recording =
        place.record(&["--all", "--as", "box", "--snapshot", "1h,16M", "-o", "out.mcap"], 1);
    publish(&publisher, 0..30);
    for round in 0..20_u64 {
        let mut ask = place.command(&["trigger", "--as", "box"]);
        let ask = ask.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        std::thread::sleep(std::time::Duration::from_micros(round * 500));
        Recording(ask).kill();
    }
    let said = place.tell(&["trigger"]).expect("it answers");
    let contents = Contents::of(said["file"].as_str().expect("text").as_ref());
    assert_eq!(contents.messages("t").len(), 30);
    recording.end();
    for file in place.files("out_") {
        assert!(Contents::of(&file).is_whole, "{}", file.display());
    }
}

/// Its places are given up in all topics, and publishers go on.
#[test]
fn a_dead_one_that_is_told_to_stop_gives_up_all_its_places() {
    let place = Place::new("deadstop");
    let topics = ["a", "b", "c"].map(|name| {
        let topic = Topic::<[u8]>::options().depth(4).reliable(true);
        topic.open_or_create(&place.domain, name).expect("made")
    });
    let other = ["c", "--as", "other", "--patience", "1h", "-o", "other.mcap"];
    let other = place.record(&other, 1);
    for more in [&["--snapshot", "1h,16M"][..], &[]] {
        let args =
            [&["a", "b", "--as", "rec", "--patience", "1h", "-o", "out.mcap"], more].concat();
        let mut recording = place.record(&args, 2);
        assert!(eventually(|| place.tell(&["status", "--as", "rec"]).is_ok()));
        recording.kill();
        assert_eq!(topics.each_ref().map(|topic| topic.kept().len()), [1, 1, 1]);
        let told = place.tell(&["stop", "--as", "rec"]).expect("given up");
        let is_window = !more.is_empty();
        let wanted = json!({"state": "removed", "topics": 2, "window": is_window, "snapshots": 0});
        assert_eq!(told, wanted);
        assert_eq!(topics.each_ref().map(|topic| topic.kept().len()), [0, 0, 1]);
        assert_eq!(place.tell(&["stop", "--as", "rec"]), Err(6));
        assert!(!place.domain.path().join("record:rec").exists());
        for topic in &topics[..2] {
            publish(&topic.publisher().expect("a ring"), 0..20);
        }
    }
    // Without its service, and one that has had a place alone.
    let args = ["a", "--as", "rec", "--patience", "1h", "-o", "third.mcap"];
    place.record(&args, 1).kill();
    place.domain.remove("record:rec").expect("removed");
    assert_eq!(place.tell(&["stop", "--as", "rec"]).expect("given up")["topics"], 1);
    // A living one is asked, and gives its topics up.
    place.tell(&["stop", "--as", "other"]).expect("stopped");
    other.end();
}

#[test]
fn a_topic_that_is_called_as_a_verb_is_recorded_behind_two_dashes() {
    let place = Place::new("verbs");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let _topic = topic.open_or_create(&place.domain, "trigger").expect("made");
    place.record(&["-o", "out.mcap", "--", "trigger"], 1).end();
    assert!(Contents::of(&place.file("out.mcap")).topics.contains_key("trigger"));
    // One behind another topic is none either.
    place.record(&["t", "trigger", "-o", "two.mcap"], 1).end();
    assert!(Contents::of(&place.file("two.mcap")).topics.contains_key("trigger"));
    for wrong in [&["--all", "stop"][..], &["--all", "--as", "a/b"]] {
        let mut command = place.command(wrong);
        assert_eq!(command.stderr(Stdio::null()).status().expect("starts").code(), Some(2));
    }
}
