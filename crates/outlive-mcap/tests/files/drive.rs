//! What the tests record: messages that are known by their number.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use outlive_mcap::{Compression, Error, MessageHeader, Options, Positions, Writer};

/// Messages of a group.
pub const GROUP: u64 = 5;

/// A folder of a test's own, which goes with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Folder {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let name = format!("outlive-mcap-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the bytes of message `number`; each seventh is longer than what is copied.
pub fn payload(number: u64) -> Vec<u8> {
    let len = if number.is_multiple_of(7) { 5000 } else { number * 37 % 200 };
    (0..len).map(|at| (number + at) as u8).collect()
}

pub fn options(compression: Compression) -> Options {
    Options { profile: "test".to_owned(), compression, ..Options::default() }
}

pub fn positions(number: u64) -> Positions {
    Positions::from([("drive".to_owned(), number.to_string())])
}

pub fn position(positions: &Positions) -> u64 {
    positions.get("drive").map_or(0, |text| text.parse().expect("a number"))
}

/// Puts message `number`; a second channel comes in with the eleventh message.
pub fn put(writer: &mut Writer, number: u64) -> Result<(), Error> {
    let schema = writer.add_schema("Drive", "jsonschema", br#"{"type":"object"}"#)?;
    let topic = if number > 10 && number.is_multiple_of(2) { "even" } else { "drive" };
    let channel_id = writer.add_channel(schema, topic, "json", &BTreeMap::new())?;
    let (sequence, log_time) = (number as u32, number * 10);
    let header = MessageHeader { channel_id, sequence, log_time, publish_time: log_time - 1 };
    writer.put_owned(&header, payload(number))
}

/// Writes the group after message `last`; returns its last message.
pub fn write_group(writer: &mut Writer, last: u64) -> Result<u64, Error> {
    for number in last + 1..=last + GROUP {
        put(writer, number)?;
    }
    writer.flush(&positions(last + GROUP))?;
    Ok(last + GROUP)
}

/// Checks that a finished file has the messages 1 to `last`, by the mcap crate.
pub fn check_finished(path: &Path, last: u64) {
    let bytes = fs::read(path).expect("the file");
    let mut next = 1;
    for message in mcap::MessageStream::new(&bytes).expect("a whole file") {
        let message = message.expect("a whole message");
        assert_eq!(u64::from(message.sequence), next, "{}", path.display());
        assert!(message.data == payload(next), "message {next} has other bytes");
        assert_eq!((message.log_time, message.publish_time), (next * 10, next * 10 - 1));
        next += 1;
    }
    assert_eq!(next - 1, last, "{}", path.display());
    let summary = mcap::Summary::read(&bytes).expect("a whole index").expect("an index");
    let stats = summary.stats.as_ref().expect("statistics");
    assert_eq!(stats.message_count, last);
    assert_eq!(stats.chunk_count as usize, summary.chunk_indexes.len());
    assert_eq!(stats.metadata_count as usize, summary.metadata_indexes.len());
    let mut found = 0;
    for chunk in &summary.chunk_indexes {
        found += summary.stream_chunk(&bytes, chunk).expect("a chunk").count() as u64;
        let indexes = summary.read_message_indexes(&bytes, chunk).expect("indexes");
        for (channel, entries) in indexes {
            for entry in entries {
                let message = summary.seek_message(&bytes, chunk, &entry).expect("a message");
                assert_eq!(message.channel.id, channel.id);
                assert_eq!(message.log_time, entry.log_time);
            }
        }
    }
    assert_eq!(found, last);
}
