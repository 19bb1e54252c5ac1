//! Recordings of every form: with an index and without one, packed and not, in chunks and outside of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use outlive::Domain;
use outlive::topic::{Subscriber, Topic};
use outlive_mcap::{Compression, Item, MessageHeader, Options, Positions, Reader, Writer};

/// A domain and a folder of a test's own.
pub struct Place {
    pub folder: PathBuf,
    pub domain: Domain,
}

impl Place {
    pub fn new(name: &str) -> Place {
        let name = format!("outlive-playing-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("made");
        let domain = Domain::open_or_create_at(folder.join("domain")).expect("made");
        Place { folder, domain }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    pub fn subscriber(&self, topic: &str) -> Subscriber {
        let topic = Topic::<[u8]>::options().depth(1024).open_or_create(&self.domain, topic);
        topic.expect("made").subscriber().expect("joins")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Steps of a generator whose only merit is that it spreads.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// A message: its number, its log time and its payload's length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planned {
    pub number: u32,
    pub time: u64,
    pub len: usize,
}

impl Planned {
    pub fn payload(&self) -> Vec<u8> {
        let mut bytes = vec![self.number as u8; self.len.max(8)];
        bytes[..8].copy_from_slice(&u64::from(self.number).to_le_bytes());
        bytes
    }

    fn header(&self, channel_id: u16) -> MessageHeader {
        let (sequence, log_time) = (self.number, self.time);
        MessageHeader { channel_id, sequence, log_time, publish_time: log_time }
    }
}

/// Returns messages whose times go up, stand still, and now and then go back.
pub fn plan(random: &mut Random, count: u32) -> Vec<Planned> {
    let mut time = 1_000 + random.below(1 << 40);
    let mut all = Vec::new();
    for number in 0..count {
        time = match random.below(8) {
            0 => time,
            1 => time.saturating_sub(random.below(50)),
            _ => time + random.below(100),
        };
        let len = match random.below(6) {
            0 => 16_000 + random.below(20_000),
            _ => 8 + random.below(300),
        };
        all.push(Planned { number, time, len: len as usize });
    }
    all
}

/// How a file is written.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// Ours, with an index or without one.
    Ours(Compression, bool),
    /// Ours, cut off within a group.
    Cut(Compression),
    /// By the mcap crate, in chunks or outside of them.
    Theirs(bool),
    /// Written by the mcap crate, in chunks; only the first one has the channel.
    Unrepeated,
    /// Outside of chunks, without an index.
    Bare,
    /// By the mcap crate: the first part outside of chunks, and the rest in chunks of ours.
    Mixed,
}

pub const FORMS: [Form; 13] = [
    Form::Ours(Compression::None, true),
    Form::Ours(Compression::Zstd(1), true),
    Form::Ours(Compression::Lz4(0), true),
    Form::Ours(Compression::None, false),
    Form::Ours(Compression::Zstd(1), false),
    Form::Cut(Compression::None),
    Form::Cut(Compression::Zstd(1)),
    Form::Cut(Compression::Lz4(0)),
    Form::Theirs(true),
    Form::Theirs(false),
    Form::Unrepeated,
    Form::Bare,
    Form::Mixed,
];

/// Writes these messages, and returns which a reader finds, in the file's order.
pub fn write(path: &Path, form: Form, messages: &[Planned], random: &mut Random) -> Vec<Planned> {
    let _ = fs::remove_file(path);
    match form {
        Form::Ours(compression, is_finished) => {
            ours(path, compression, is_finished, messages, random)
        }
        Form::Cut(compression) => {
            ours(path, compression, false, messages, random);
            let whole = fs::metadata(path).expect("there").len();
            let file = fs::File::options().write(true).open(path).expect("there");
            file.set_len(whole - 1 - random.below(whole / 3)).expect("cut");
        }
        Form::Theirs(chunks) => fs::write(path, theirs(chunks, true, messages)).expect("room"),
        Form::Unrepeated => fs::write(path, theirs(true, false, messages)).expect("room"),
        Form::Bare => {
            let bytes = theirs(false, true, messages);
            // The record that ends the data: 9 bytes and a checksum.
            let end = bytes.len() - footer(&bytes) - 13;
            fs::write(path, &bytes[..end]).expect("room");
        }
        Form::Mixed => {
            let (alone, rest) = messages.split_at(messages.len() / 2);
            let bytes = theirs(false, true, alone);
            let end = bytes.len() - footer(&bytes) - 13;
            let other = path.with_extension("other");
            let _ = fs::remove_file(&other);
            ours(&other, Compression::None, false, rest, random);
            let other = fs::read(&other).expect("there");
            // Behind the magic and the header.
            let header = 8 + 9 + u64::from_le_bytes(other[9..17].try_into().expect("8")) as usize;
            fs::write(path, [&bytes[..end], &other[header..]].concat()).expect("room");
        }
    }
    read(path)
}

/// Returns how many bytes stand behind the data: what the footer says of the summary.
fn footer(bytes: &[u8]) -> usize {
    let at = bytes.len() - 8 - 20;
    let start = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8")) as usize;
    bytes.len() - start
}

fn ours(
    path: &Path,
    compression: Compression,
    is_finished: bool,
    messages: &[Planned],
    random: &mut Random,
) {
    let options = Options { compression, ..Options::default() };
    let mut writer: Writer = Writer::create(path, options).expect("made");
    let channel = writer.add_channel(0, "t", "", &BTreeMap::new()).expect("added");
    for message in messages {
        writer.put_owned(&message.header(channel), message.payload()).expect("put");
        if random.below(12) == 0 {
            writer.flush(&Positions::new()).expect("written");
        }
    }
    writer.flush(&Positions::new()).expect("written");
    if is_finished {
        writer.finish(&Positions::new()).expect("finished");
    }
}

fn theirs(chunks: bool, repeats: bool, messages: &[Planned]) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let options = mcap::WriteOptions::new().use_chunks(chunks).chunk_size(Some(30_000));
    let options = options.compression(None).repeat_channels(repeats);
    let mut writer = options.create(&mut bytes).expect("a writer");
    let channel = writer.add_channel(0, "t", "", &BTreeMap::new()).expect("a channel");
    for message in messages {
        let header = message.header(channel);
        writer.write_to_known_channel(&header, &message.payload()).expect("room");
    }
    writer.finish().expect("room");
    drop(writer);
    bytes.into_inner()
}

/// Returns the messages that are whole, in the file's order.
fn read(path: &Path) -> Vec<Planned> {
    let mut reader = Reader::open(path).expect("a file");
    let mut found = Vec::new();
    loop {
        match reader.next() {
            Ok(None) => return found,
            Ok(Some(Item::Message(message))) => {
                let (number, time) = (message.header.sequence, message.header.log_time);
                let planned = Planned { number, time, len: message.data.len() };
                assert_eq!(message.data, planned.payload());
                found.push(planned);
            }
            Ok(Some(_)) | Err(outlive_mcap::Error::Cut { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
