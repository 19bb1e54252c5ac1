//! Files that were made to do harm, or that were damaged: errors that say what is wrong, in
//! bounded memory, and never a panic.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use outlive_costs::{Watched, largest};
use outlive_mcap::{
    Compression, Error, Item, MessageHeader, Options, Positions, Reader, Step, Writer,
};

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// What chunks may have in these tests.
const MAX: u64 = 1 << 20;

/// A file of a test's own, which goes with it.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Temporary {
        let name = format!("outlive-mcap-hostile-{}-{name}.mcap", std::process::id());
        Temporary(std::env::temp_dir().join(name))
    }

    fn write(&self, bytes: &[u8]) -> &Path {
        let _ = fs::remove_file(&self.0);
        fs::write(&self.0, bytes).expect("room");
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Returns a good file of ours, with 40 messages in two groups.
fn ours(compression: Compression) -> Vec<u8> {
    let file = Temporary::new(&format!("ours-{}", compression.name()));
    let _ = fs::remove_file(&file.0);
    let options = Options { compression, ..Options::default() };
    let mut writer: Writer = Writer::create(&file.0, options).expect("a new file");
    let schema = writer.add_schema("A", "jsonschema", b"{}").expect("a schema");
    let a = writer.add_channel(schema, "a", "json", &BTreeMap::new()).expect("a channel");
    let b = writer.add_channel(0, "b", "", &BTreeMap::from([("k".into(), "v".into())])).expect("b");
    for sequence in 0..40_u32 {
        let time = u64::from(sequence);
        let channel_id = if sequence < 30 { a } else { b };
        let header = MessageHeader { channel_id, sequence, log_time: time, publish_time: time };
        writer.put(&header, &vec![sequence as u8; sequence as usize * 9]).expect("room");
        if sequence == 20 {
            writer.flush(&Positions::from([("a".into(), "20".into())])).expect("room");
        }
    }
    writer.put_metadata("more", &BTreeMap::from([("x".into(), "y".into())])).expect("room");
    writer.finish(&Positions::from([("a".into(), "40".into())])).expect("room");
    fs::read(&file.0).expect("the file")
}

/// Returns a file of the mcap crate's own writer.
fn theirs(chunks: bool) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let options = mcap::WriteOptions::new().use_chunks(chunks).compression(None);
    let mut writer = options.create(&mut bytes).expect("a writer");
    let channel = writer.add_channel(0, "c", "", &BTreeMap::new()).expect("a channel");
    for sequence in 0..20 {
        let header = mcap::records::MessageHeader {
            channel_id: channel,
            sequence,
            log_time: 5,
            publish_time: 5,
        };
        writer.write_to_known_channel(&header, &[1; 100]).expect("room");
    }
    writer.finish().expect("room");
    drop(writer);
    bytes.into_inner()
}

/// Reads all; returns how many messages there are, and each error.
fn read(path: &Path) -> (u64, Vec<Error>) {
    let mut reader = match Reader::open(path) {
        Ok(reader) => reader.max_chunk(MAX),
        Err(error) => return (0, vec![error]),
    };
    let (mut messages, mut errors) = (0, Vec::new());
    loop {
        match reader.next() {
            Ok(None) => return (messages, errors),
            Ok(Some(Item::Message(_))) => messages += 1,
            Ok(Some(_)) => {}
            Err(error) => errors.push(error),
        }
        // Each step passes over at least nine bytes, of the file or of a chunk.
        assert!(errors.len() < 1 << 20, "the reader does not get on");
    }
}

#[test]
fn good_files_are_read_whole() {
    let file = Temporary::new("good");
    for compression in [Compression::None, Compression::Zstd(1), Compression::Lz4(1)] {
        let (messages, errors) = read(file.write(&ours(compression)));
        assert!(messages == 40 && errors.is_empty(), "{messages}: {errors:?}");
    }
    for chunks in [false, true] {
        let (messages, errors) = read(file.write(&theirs(chunks)));
        assert!(messages == 20 && errors.is_empty(), "{messages}: {errors:?}");
    }
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let file = Temporary::new("cut");
    for bytes in [ours(Compression::None), ours(Compression::Zstd(1)), theirs(false), theirs(true)]
    {
        let mut before = 0;
        for cut in 0..bytes.len() {
            let (messages, errors) = read(file.write(&bytes[..cut]));
            assert!(messages >= before, "cut at {cut}");
            assert!(errors.len() <= 1, "cut at {cut}: {errors:?}");
            if let Some(error) = errors.first() {
                assert!(matches!(error, Error::Cut { .. }), "cut at {cut}: {error}");
            }
            before = messages;
        }
        assert!(before >= 20);
    }
}

/// A chunk's record with these lengths and this name, and data.
fn chunk(compression: &str, unpacked: u64, data: &[u8]) -> Vec<u8> {
    let mut body = vec![0; 16];
    body.extend_from_slice(&unpacked.to_le_bytes());
    body.extend_from_slice(&[0; 4]);
    body.extend_from_slice(&(compression.len() as u32).to_le_bytes());
    body.extend_from_slice(compression.as_bytes());
    body.extend_from_slice(&(data.len() as u64).to_le_bytes());
    body.extend_from_slice(data);
    record(mcap::records::op::CHUNK, &body)
}

fn record(op: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![op];
    bytes.extend_from_slice(&(body.len() as u64).to_le_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A file that has these records behind its header.
fn with(records: &[u8]) -> Vec<u8> {
    let mut bytes = mcap::MAGIC.to_vec();
    bytes.extend_from_slice(&record(mcap::records::op::HEADER, &[0; 8]));
    bytes.extend_from_slice(records);
    bytes
}

#[test]
fn each_lie_is_told() {
    let file = Temporary::new("lies");
    let bomb = zstd::encode_all(std::io::repeat(0).take(64 << 20), 1).expect("room");
    assert!(bomb.len() < 1 << 16);
    // As a schema: id 1, name, encoding, data that is longer than the record.
    let lying_schema = record(3, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
    let two_schemas = [
        record(3, &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        record(3, &[1, 0, 1, 0, 0, 0, b'x', 0, 0, 0, 0, 0, 0, 0, 0]),
    ]
    .concat();
    let no_channel = record(5, &[7; 22]);
    let endless = [&[6_u8][..], &u64::MAX.to_le_bytes(), &[0; 40]].concat();
    let cases: [(&str, Vec<u8>, &str); 14] = [
        ("nothing", Vec::new(), "the file is empty"),
        ("text", b"This is no recording at all.".to_vec(), "not an MCAP file"),
        ("version", b"\x89MCAP9\r\n".to_vec(), "version '9'"),
        ("bomb", with(&chunk("zstd", 64 << 20, &bomb)), "too large"),
        ("bomb in disguise", with(&chunk("zstd", 1000, &bomb)), "says that it unpacks to 1000"),
        ("bomb of no size", with(&chunk("zstd", u64::MAX, &bomb)), "too large"),
        ("unknown", with(&chunk("brotli", 5, b"hello")), "compressed by 'brotli'"),
        ("not zstd", with(&chunk("zstd", 5, b"hello")), "damaged at byte 25"),
        ("not lz4", with(&chunk("lz4", 5, b"hello")), "damaged at byte 25"),
        ("short", with(&chunk("", 500, b"hello")), "unpacks to 500"),
        ("schema", with(&lying_schema), "damaged at byte 25"),
        ("two schemas", with(&two_schemas), "two schemas have the number 1"),
        ("channel", with(&no_channel), "channel 1799, which is not there"),
        ("endless", with(&endless), "ends in the middle"),
    ];
    for (name, bytes, told) in cases {
        let (messages, errors) = read(file.write(&bytes));
        let texts: Vec<_> = errors.iter().map(Error::to_string).collect();
        assert!(messages == 0 && texts.iter().any(|text| text.contains(told)), "{name}: {texts:?}");
    }
}

/// The lengths of all records, one after the other, become enormous.
#[test]
fn huge_lengths_take_no_memory() {
    let file = Temporary::new("lengths");
    for good in [ours(Compression::None), ours(Compression::Lz4(1)), theirs(false)] {
        let path = file.write(&good).to_owned();
        let opened = std::sync::Arc::new(fs::File::open(&path).expect("the file"));
        let mut scan = outlive_mcap::Scan::new(&opened, &path.as_path().into()).expect("a file");
        let mut places = Vec::new();
        while let Step::Record(place) = scan.step().expect("a file") {
            places.push(place);
        }
        assert!(places.len() > 5);
        for place in places {
            for len in [u64::MAX, u64::MAX - 8, 1 << 62, 1 << 40, u64::from(u32::MAX)] {
                let mut bytes = good.clone();
                let at = place.offset as usize + 1;
                bytes[at..at + 8].copy_from_slice(&len.to_le_bytes());
                read(file.write(&bytes));
                // Within the body, too, stand lengths.
                for inner in 0..(place.len as usize / 4).min(12) {
                    let mut bytes = good.clone();
                    let at = place.offset as usize + 9 + inner * 4;
                    bytes[at..at + 4].copy_from_slice(&(len as u32).to_le_bytes());
                    read(file.write(&bytes));
                }
            }
        }
    }
    assert_bounded();
}

/// Steps of a generator whose only merit is that it spreads.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % most as u64) as usize
    }
}

fn mutate(good: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = good.to_vec();
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.below(256) as u8,
            2 => {
                let end = (at + 8).min(bytes.len());
                bytes[at..end].fill([0, 255, 127][random.below(3)]);
            }
            3 => bytes.truncate(at + 1),
            4 => {
                let part = bytes[at..(at + random.below(200)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, part);
            }
            _ => {
                let end = (at + random.below(100)).min(bytes.len() - 1);
                bytes.drain(at.min(end)..end);
            }
        }
    }
    bytes
}

#[test]
fn mutated_files_are_read_without_harm() {
    let good = [
        ours(Compression::None),
        ours(Compression::Zstd(1)),
        ours(Compression::Lz4(1)),
        theirs(false),
        theirs(true),
    ];
    let file = Temporary::new("mutated");
    let (mut random, mut clean) = (Random(0x9e37_79b9_7f4a_7c15), 0);
    for round in 0..6000 {
        let bytes = mutate(&good[round % good.len()], &mut random);
        let path = file.write(&bytes);
        let faults = read(path).1;
        // Each is one line for a person.
        for fault in faults.iter().map(Error::to_string) {
            assert!(!fault.contains(char::is_control) && fault.len() < 500, "{fault}");
        }
        clean += u32::from(faults.is_empty());
        if round % 3 == 0 {
            resume(path, &bytes);
        }
    }
    assert!(clean < 3000, "hardly anything was damaged: {clean} of 6000 files were clean");
    assert_bounded();
}

/// A damaged file is refused and left as it is, or continued and finished.
fn resume(path: &Path, bytes: &[u8]) {
    match Writer::<Vec<u8>>::resume(path, Options::default()) {
        Err(_) => assert!(fs::read(path).expect("the file") == bytes, "a refused file was changed"),
        Ok((mut writer, tail)) => {
            // An error is as good: the walk meets what resuming passed over.
            let _ = writer.finish(&tail.positions);
        }
    }
}

/// Twice what a chunk may have, for a buffer that grows, and once more.
fn assert_bounded() {
    let largest = largest();
    assert!(largest as u64 <= 3 * MAX, "{largest} bytes were asked for at once");
}
