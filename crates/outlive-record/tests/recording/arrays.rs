//! Arrays as Python publishes them: their type and extents, which their headers have, are in the file, and come
//! back.

use std::process::Stdio;

use outlive::topic::{Header, Publisher, Topic};
use outlive_mcap::{Item, Reader};

use crate::support::{Place, Recording, eventually};

/// A header's part of an array, as crates/outlive-py/src/layout.rs has it.
fn own(kind: u8, item: u8, extents: &[u32]) -> [u8; 32] {
    let mut own = [0; 32];
    own[..4].copy_from_slice(&[0xA5, extents.len() as u8, kind, item]);
    for (at, extent) in extents.iter().enumerate() {
        own[4 + 4 * at..8 + 4 * at].copy_from_slice(&extent.to_le_bytes());
    }
    own
}

/// Scans of several lengths, pictures of two sizes, records, bytes, and a header that lies.
fn messages() -> Vec<([u8; 32], Vec<u8>)> {
    let mut all = Vec::new();
    for count in [0, 1, 500, 7] {
        let bytes = (0..12 * count).map(|at| at as u8).collect();
        all.push((own(b'f', 4, &[count, 3]), bytes));
    }
    all.push((own(b'u', 1, &[40, 60, 3]), vec![1; 7200]));
    all.push((own(b'u', 1, &[20, 60, 3]), vec![2; 3600]));
    all.push((own(b'u', 1, &[20, 30]), vec![3; 600]));
    let mut records = own(b'V', 0, &[1000]);
    records[28..].copy_from_slice(&8_u32.to_le_bytes());
    all.push((records, [vec![4; 8000], b"T{<f:x:<f:y:}".to_vec()].concat()));
    all.push(([0; 32], b"bytes".to_vec()));
    // Another program's own, which no file has.
    all.push((own(b'f', 4, &[5]), vec![5; 21]));
    all
}

fn publish(publisher: &mut Publisher<[u8]>, (own, bytes): &([u8; 32], Vec<u8>)) {
    let mut loan = publisher.loan(bytes.len()).expect("room");
    loan.copy_from_slice(bytes);
    loan.set_header(Header { own: *own, ..Header::default() });
    publisher.publish(loan).map(drop).expect("sent");
}

/// Enough for several files.
const ROUNDS: usize = 9;

#[test]
fn arrays_are_arrays_in_the_file_and_after_it() {
    let (place, other) = (Place::new("arrays-1"), Place::new("arrays-2"));
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topic = topic.open_or_create(&place.domain, "a").expect("made");
    // Seams, each of which has the channels anew.
    let args = ["--all", "-o", "out.mcap", "--split", "64K", "--flush", "1ms"];
    let recording = place.record(&args, 1);
    let mut publisher = topic.publisher().expect("a ring");
    for _ in 0..ROUNDS {
        messages().iter().for_each(|message| publish(&mut publisher, message));
    }
    recording.end();
    let mut said = Vec::new();
    let mut files = 0;
    while let Ok(mut reader) = Reader::open(place.file(&format!("out_{files}.mcap"))) {
        files += 1;
        while let Some(item) = reader.next().expect("whole") {
            let Item::Message(message) = item else { continue };
            if message.channel.topic == "a" {
                let key = |key: &str| message.channel.metadata.get(key).cloned();
                let shape = key("outlive.shape").unwrap_or_default();
                said.push((key("outlive.dtype").unwrap_or_default(), shape, message.data.len()));
            }
        }
    }
    assert!(files > 1);
    let expected = [
        ("<f4", "-1,3", 0),
        ("<f4", "-1,3", 12),
        ("<f4", "-1,3", 6000),
        ("<f4", "-1,3", 84),
        ("|u1", "-1,60,3", 7200),
        ("|u1", "-1,60,3", 3600),
        ("|u1", "-1,30", 600),
        ("T{<f:x:<f:y:}", "-1", 8000),
        ("", "", 5),
        ("", "", 21),
    ];
    let said: Vec<_> = said.iter().map(|(dtype, shape, len)| (&**dtype, &**shape, *len)).collect();
    assert_eq!(said, expected.repeat(ROUNDS));
    // And back.
    let input = place.file("out.mcap");
    let args = [input.to_str().expect("text"), "--rate", "max", "--wait", "1"];
    let mut player = Recording(other.player(&args).stderr(Stdio::null()).spawn().expect("starts"));
    let mut topic = None;
    assert!(eventually(|| {
        topic = Topic::open_as_bytes(&other.domain, "a").ok();
        topic.is_some()
    }));
    let topic = topic.expect("it is there");
    let options = outlive::topic::Subscriber::options().reliable(true).history(u32::MAX);
    let mut subscriber = topic.subscriber_with(options).expect("joins");
    for (own, bytes) in messages().iter().cycle().take(10 * ROUNDS) {
        let mut sample = None;
        assert!(eventually(|| {
            sample = subscriber.try_recv().expect("nothing is lost");
            sample.is_some()
        }));
        let sample = sample.expect("it has come");
        assert!(sample.bytes() == bytes);
        // What is no array has nothing in its header.
        let is_array = bytes.len() != 21;
        assert_eq!(sample.header().own, if is_array { *own } else { [0; 32] });
    }
    assert!(player.wait().success());
}

/// Programs that list a file's channels, as rosbags does, name the topic once.
#[test]
fn a_topic_of_arrays_has_their_channel_alone() {
    let place = Place::new("arrays-alone");
    let topic = Topic::<[u8]>::options().depth(64).reliable(true);
    let topics =
        ["a", "b"].map(|name| topic.clone().open_or_create(&place.domain, name).expect("made"));
    let recording = place.record(&["--all", "-o", "out.mcap", "--flush", "1ms"], 2);
    let mut publisher = topics[0].publisher().expect("a ring");
    let arrays = &messages()[..4];
    arrays.iter().for_each(|message| publish(&mut publisher, message));
    let publisher = topics[1].publisher().expect("a ring");
    publisher.publish(b"bytes").expect("sent");
    recording.end();
    let outline = outlive_mcap::Outline::read(place.file("out.mcap")).expect("a file");
    let of = |topic: &str| {
        let all = outline.channels().filter(|channel| channel.topic == topic);
        all.map(|channel| channel.metadata.get("outlive.dtype").cloned()).collect::<Vec<_>>()
    };
    assert_eq!(of("a"), [Some("<f4".to_owned())]);
    assert_eq!(of("b"), [None]);
}
