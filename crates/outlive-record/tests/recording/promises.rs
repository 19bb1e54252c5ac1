//! What a recorder owes its topics where something goes wrong: no space, no slot, no memory, no time.

use std::process::{Command, Stdio};

use outlive::SendError;
use outlive::topic::{Publisher, Topic};

use crate::support::{Contents, Place, Recording, eventually, message, number, signal, stop};

fn numbers(contents: &Contents, topic: &str) -> Vec<u64> {
    contents.messages(topic).iter().map(|found| number(&found.bytes)).collect()
}

fn publish(publisher: &Publisher, numbers: std::ops::Range<u64>, len: usize) {
    for at in numbers {
        publisher.publish(&message(at, len)).map(drop).expect("published");
    }
}

/// A shell that sets a limit, and becomes the recorder.
fn limited(place: &Place, limit: &str, args: &[&str]) -> Command {
    let own = place.command(args);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]).arg(own.get_program());
    command.args(own.get_args()).current_dir(&place.folder).stdin(Stdio::null());
    command
}

/// It has not failed its topics: a successor goes on when there is room again.
#[test]
fn a_named_recorder_without_space_keeps_its_places() {
    let place = Place::new("kept");
    let topic = Topic::<[u8]>::options().depth(16).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let args = ["--all", "-o", "out.mcap", "--as", "rec", "--patience", "1h", "--flush", "10ms"];
    let mut command = limited(&place, "-f 200", &args);
    let mut recording = Recording(command.stderr(Stdio::null()).spawn().expect("starts"));
    assert!(eventually(|| topic.subscribers().len() == 1));
    let mut count = 0;
    loop {
        let has_ended = recording.0.try_wait().expect("a child").is_some();
        match publisher.try_publish(&message(count, 5000)) {
            Ok(_) => count += 1,
            Err(SendError::Full { .. }) if has_ended => break,
            Err(SendError::Full { .. }) => std::thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
        assert!(count < 100_000, "publishers do not wait for a successor");
    }
    assert_eq!(recording.wait().code(), Some(10));
    let recording = place.record(&args, 1);
    publish(&publisher, count..count + 20, 5000);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!(numbers(&contents, "t"), (0..count + 20).collect::<Vec<_>>());
}

/// One that cannot begin leaves the places that it has taken to the next one.
#[test]
fn a_successor_that_fails_at_a_later_topic_keeps_the_place_in_an_earlier_one() {
    let place = Place::new("fails");
    let topics = ["a", "b"].map(|name| {
        let topic = Topic::<[u8]>::options().depth(16).reliable(true);
        topic.open_or_create(&place.domain, name).expect("made")
    });
    let named = ["--as", "rec", "--patience", "1h"];
    let args = [&["a", "b", "-o", "out.mcap"], &named[..]].concat();
    place.begin(&args, "out.mcap").kill();
    let publisher = topics[0].publisher().expect("a ring");
    publish(&publisher, 0..10, 64);
    let other = place.record(&[&["b", "-o", "other.mcap"], &named[..]].concat(), 1);
    let mut refused = place.command(&[&["a", "b", "-o", "out.mcap"], &named[..]].concat());
    let status = refused.stderr(Stdio::null()).status().expect("starts");
    assert_eq!(status.code(), Some(12));
    other.end();
    place.record(&[&["a", "b", "-o", "out.mcap"], &named[..]].concat(), 2).end();
    assert_eq!(numbers(&Contents::of(&place.file("out.mcap")), "a"), (0..10).collect::<Vec<_>>());
}

/// A process that only looks sees why it waits.
#[test]
fn a_publisher_goes_on_once_the_place_of_a_killed_subscriber_is_forgotten() {
    let place = Place::new("forgotten");
    let topic = Topic::<[u8]>::options().depth(4).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let args = ["t", "-o", "out.mcap", "--as", "night", "--patience", "1h"];
    place.record(&args, 1).kill();
    let kept = || match place.domain.entry("t").expect("there").detail {
        outlive::Detail::Topic(usage) => usage.kept,
        other => panic!("{other:?}"),
    };
    std::thread::scope(|scope| {
        let publishes = scope.spawn(|| publish(&topic.publisher().expect("a ring"), 0..5, 64));
        assert!(eventually(|| kept()[0].patience_left().is_some()));
        let one = &kept()[0];
        assert_eq!((&*one.name, one.in_the_way, one.lag), ("record:night", 1, 4));
        assert!(!publishes.is_finished());
        assert_eq!(topic.forget(&one.name), Ok(true));
    });
    assert_eq!(kept(), []);
}

#[test]
fn what_was_published_before_the_end_is_in_the_file() {
    let place = Place::new("end");
    let topic = Topic::<[u8]>::options().depth(4096).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap"], 1);
    stop(&recording.0);
    publish(&publisher, 0..4000, 64);
    signal(&recording.0, libc::SIGTERM);
    signal(&recording.0, libc::SIGCONT);
    recording.end();
    let found = numbers(&Contents::of(&place.file("out.mcap")), "t");
    assert_eq!(found.len(), 4000);
}

#[test]
fn what_was_published_before_a_topic_was_removed_is_in_the_file() {
    let place = Place::new("removed");
    let topic = Topic::<[u8]>::options().depth(4096).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap"], 1);
    stop(&recording.0);
    publish(&publisher, 0..4000, 64);
    drop(publisher);
    place.domain.remove("t").expect("removed");
    signal(&recording.0, libc::SIGCONT);
    assert!(eventually(|| topic.subscribers().is_empty()));
    recording.end();
    let found = numbers(&Contents::of(&place.file("out.mcap")), "t");
    assert_eq!(found.len(), 4000);
}

/// Its first messages are there, as if a recorder had run.
#[test]
fn a_topic_that_came_while_none_recorded_is_recorded_from_its_beginning() {
    let place = Place::new("came");
    let first = Topic::<[u8]>::options().depth(16).reliable(true);
    let _first = first.open_or_create(&place.domain, "first").expect("made");
    let args = ["--all", "-o", "out.mcap", "--as", "rec", "--patience", "1h"];
    // What came before a recorder's first group is no recorder's.
    place.begin(&args, "out.mcap").kill();
    let second = Topic::<[u8]>::options().depth(16).reliable(true);
    let second = second.open_or_create(&place.domain, "second").expect("made");
    let publisher = second.publisher().expect("a ring");
    publish(&publisher, 0..5, 64);
    let recording = place.record(&args, 2);
    publish(&publisher, 5..40, 64);
    recording.end();
    let found = numbers(&Contents::of(&place.file("out.mcap")), "second");
    assert_eq!(found, (0..40).collect::<Vec<_>>());
}

/// The topic adds its own to a name.
#[test]
fn a_name_that_topics_do_not_take_is_refused() {
    let place = Place::new("long");
    let _topic = Topic::<[u8]>::open_or_create(&place.domain, "t").expect("made");
    let name = "x".repeat(60);
    let mut command = place.command(&["--all", "-o", "out.mcap", "--as", &name]);
    command.args(["--duration", "100ms"]).stderr(Stdio::null());
    assert_eq!(command.status().expect("starts").code(), Some(2));
    assert!(!place.file("out.mcap").exists());
}

/// The open group holds no more than a part of the topic's memory, however long it stays open.
#[test]
fn publishers_with_little_memory_are_not_held_up() {
    let place = Place::new("little");
    let topic = Topic::<[u8]>::options().depth(64).max_bytes(1 << 20).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap", "--flush", "1h"], 1);
    for at in 0..40 {
        let is_published = eventually(|| match publisher.publish(&message(at, 100_000)) {
            Ok(_) => true,
            Err(SendError::NoSpace { .. }) => false,
            Err(other) => panic!("{other}"),
        });
        assert!(is_published, "message {at} has no space");
    }
    recording.end();
    let found = numbers(&Contents::of(&place.file("out.mcap")), "t");
    assert_eq!(found, (0..40).collect::<Vec<_>>());
}

#[test]
fn a_topic_that_has_no_slot_left_is_recorded_when_it_has_one() {
    let place = Place::new("slot");
    let topic = Topic::<[u8]>::options().max_subscribers(1).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let other = topic.subscriber().expect("a slot");
    let recording = place.record(&["--all", "-o", "out.mcap"], 0);
    let file = place.file("out.mcap");
    let is_told = || {
        file.metadata().is_ok_and(|file| file.len() > 500)
            && Contents::of(&file).events("refused").len() == 1
    };
    assert!(eventually(is_told));
    drop(other);
    assert!(eventually(|| topic.subscribers().len() == 1));
    publish(&topic.publisher().expect("a ring"), 0..3, 64);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!(numbers(&contents, "t"), [0, 1, 2]);
    assert_eq!(contents.events("refused").len(), 1, "told once");
}

/// Each topic takes files, more than a shell's limit is for.
#[test]
fn more_topics_than_open_files_at_first() {
    let place = Place::new("many");
    let topics: Vec<Topic<[u8]>> = (0..60)
        .map(|at| Topic::open_or_create(&place.domain, &format!("t{at}")).expect("made"))
        .collect();
    let mut command = limited(&place, "-S -n 64", &["--all", "-o", "out.mcap"]);
    let recording = Recording(command.spawn().expect("starts"));
    assert!(eventually(|| topics.iter().all(|topic| topic.subscribers().len() == 1)));
    recording.end();
}

/// The others go on, and it is told why that one is not there.
#[test]
fn a_message_that_no_file_can_hold_is_passed_over() {
    let place = Place::new("huge");
    let topic = Topic::<[u8]>::options().depth(4).max_bytes(3 << 30).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let recording = place.record(&["--all", "-o", "out.mcap"], 1);
    publish(&publisher, 0..1, 64);
    // Memory that was never touched takes none.
    let huge = publisher.loan(outlive_mcap::MAX_CHUNK as usize).expect("room");
    publisher.publish(huge).map(drop).expect("published");
    publish(&publisher, 2..3, 64);
    recording.end();
    let contents = Contents::of(&place.file("out.mcap"));
    assert_eq!(numbers(&contents, "t"), [0, 2]);
    assert_eq!(contents.events("error").len(), 1);
}

/// What a gateway says instead of messages of another type is done with, too.
#[test]
fn refusals_from_elsewhere_hold_no_publisher_up() {
    let place = Place::new("elsewhere");
    let topic = Topic::<[u8]>::options().depth(4).reliable(true);
    let topic = topic.open_or_create(&place.domain, "t").expect("made");
    let recording = place.record(&["--all", "-o", "out.mcap", "--flush", "10ms"], 1);
    let foreign = Publisher::options().foreign(true);
    let foreign = topic.publisher_with(foreign).expect("a ring");
    for at in 0..20 {
        let is_room = eventually(|| foreign.publish_refusal("another type").is_ok());
        assert!(is_room, "the recorder is in the way of refusal {at}");
    }
    recording.end();
    assert_eq!(Contents::of(&place.file("out.mcap")).events("error").len(), 20);
}

/// The positions of topics that are gone are in no later group.
#[test]
fn positions_do_not_grow_with_topics_that_are_gone() {
    let place = Place::new("gone");
    let recording = place.record(&["--all", "-o", "out.mcap"], 0);
    for _ in 0..5 {
        let topic = Topic::<[u8]>::options().depth(16).reliable(true);
        let topic = topic.open_or_create(&place.domain, "t").expect("made");
        publish(&topic.publisher().expect("a ring"), 0..3, 64);
        assert!(eventually(|| topic.subscribers().len() == 1));
        place.domain.remove("t").expect("removed");
        assert!(eventually(|| topic.subscribers().is_empty()));
    }
    recording.end();
    let (_, tail) = outlive_mcap::Writer::<Vec<u8>>::resume(
        place.file("out.mcap"),
        outlive_mcap::Options::default(),
    )
    .expect("resumed");
    // What they say of things has a point.
    let of_things = tail.positions.keys().filter(|key| key.contains('.')).count();
    assert_eq!(of_things, 0, "{:?}", tail.positions);
}
