//! Shared bytes of one topic are damaged: that is told of this topic, and the others are recorded as before.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use outlive::topic::{Publisher, Topic};

use crate::support::{Contents, Place, Recording, eventually, message, number, signal, stop};

fn topic(place: &Place, name: &str) -> Topic<[u8]> {
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    topic.open_or_create(&place.domain, name).expect("made")
}

fn send(publisher: &Publisher, at: u64) {
    publisher.publish(&message(at, 64)).map(drop).expect("published");
}

/// Writes over words of the topic's file, as a stray pointer would.
fn write(place: &Place, topic: &str, at: u64, bytes: &[u8]) {
    let path = place.domain.path().join(topic);
    let file = File::options().write(true).open(path).expect("the topic's file");
    file.write_all_at(bytes, at).expect("written");
}

/// Returns where in the topic's file a payload lies.
fn place_of(place: &Place, topic: &str, payload: &[u8]) -> u64 {
    let bytes = std::fs::read(place.domain.path().join(topic)).expect("the topic's file");
    let mut found = bytes.windows(payload.len()).enumerate();
    let (at, _) =
        found.find(|(_, bytes)| *bytes == payload).expect("a short message lies in its slot");
    at as u64
}

/// Ends it, and returns what the file has.
fn end(place: &Place, recording: Recording, seen: impl Fn(&[u8]) -> bool) -> Contents {
    let is_there = || seen(&std::fs::read(place.file("out.mcap")).expect("there"));
    assert!(eventually(is_there), "it is in the file");
    recording.end();
    Contents::of(&place.file("out.mcap"))
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|one| one == part)
}

#[test]
fn a_damaged_message_is_told_and_all_others_are_in_the_file() {
    let place = Place::new("damaged");
    let (sound, bad) = (topic(&place, "sound"), topic(&place, "bad"));
    let publishers = [sound.publisher().expect("a ring"), bad.publisher().expect("a ring")];
    let recording = place.record(&["--all", "-o", "out.mcap", "--flush", "5ms"], 2);
    stop(&recording.0);
    for at in 0..20 {
        publishers.iter().for_each(|publisher| send(publisher, at));
    }
    // The length stands 24 bytes before the payload, and 200 bytes are in no slot.
    let at = place_of(&place, "bad", &message(7, 64));
    write(&place, "bad", at - 24, &200_u32.to_le_bytes());
    signal(&recording.0, libc::SIGCONT);
    for at in 20..30 {
        publishers.iter().for_each(|publisher| send(publisher, at));
    }
    let last = message(29, 64);
    let both = |bytes: &[u8]| bytes.windows(64).filter(|part| *part == last).count() >= 2;
    let contents = end(&place, recording, both);
    let numbers = |name: &str| -> Vec<u64> {
        contents.messages(name).iter().map(|one| number(&one.bytes)).collect()
    };
    assert_eq!(numbers("sound"), (0..30).collect::<Vec<_>>());
    assert_eq!(numbers("bad"), (0..30).filter(|at| *at != 7).collect::<Vec<_>>());
    let told = contents.events("error");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["topic"], "bad");
    assert!(told[0]["why"].as_str().is_some_and(|why| why.contains("length")), "{told:?}");
}

/// Nothing can be taken from it any more, until its words are as they were.
#[test]
fn a_topic_that_is_damaged_as_a_whole_is_set_aside_and_tried_again() {
    for name in [None, Some("rec")] {
        let place = Place::new(&format!("set-aside-{}", name.is_some()));
        let (sound, bad) = (topic(&place, "sound"), topic(&place, "bad"));
        let publishers = [sound.publisher().expect("a ring"), bad.publisher().expect("a ring")];
        let mut args = vec!["--all", "-o", "out.mcap", "--flush", "5ms"];
        args.extend(name.iter().flat_map(|name| ["--as", name]));
        let recording = place.record(&args, 2);
        publishers.iter().for_each(|publisher| send(publisher, 0));
        // On page 3: how many rings were ever in use, and how often a publisher has come or gone.
        let counts = 3 * 4096 + 64;
        let file = File::open(place.domain.path().join("bad")).expect("the topic's file");
        let mut words = [0; 12];
        file.read_exact_at(&mut words, counts).expect("read");
        let mut hostile = words;
        hostile[..4].fill(0);
        hostile[8] ^= 0x40;
        write(&place, "bad", counts, &hostile);
        let told = || {
            let bytes = std::fs::read(place.file("out.mcap")).expect("there");
            contains(&bytes, b"\"event\":\"error\",\"topic\":\"bad\"")
        };
        assert!(eventually(told), "it is told");
        (1..10).for_each(|at| send(&publishers[0], at));
        write(&place, "bad", counts, &words);
        assert!(eventually(|| place.subscribers(recording.0.id()) == 2), "it is tried again");
        std::thread::sleep(Duration::from_millis(1));
        (10..20).for_each(|at| publishers.iter().for_each(|publisher| send(publisher, at)));
        let last = message(19, 64);
        let both = |bytes: &[u8]| bytes.windows(64).filter(|part| *part == last).count() >= 2;
        let contents = end(&place, recording, both);
        let numbers = |name: &str| -> Vec<u64> {
            contents.messages(name).iter().map(|one| number(&one.bytes)).collect()
        };
        assert_eq!(numbers("sound"), (0..20).collect::<Vec<_>>());
        assert_eq!(numbers("bad"), [0].into_iter().chain(10..20).collect::<Vec<_>>());
    }
}
