//! What a file says of where its messages are, beside where they are.
//!
//! | record | what it says | compared with |
//! | --- | --- | --- |
//! | Chunk, before its messages | their first and last time | the chunk |
//! | Message Index, behind a chunk | the times and places of one channel's messages in the chunk | the chunk |
//! | Chunk Index, at the file's end | the chunk's first and last time | the chunk |
//! | | where these records are | where they were met |
//!
//! Writers may leave indexes out, so none at all is no fault. A chunk that cannot be read tells of itself elsewhere.
//! Channels are those of the data: what the index at the end says of them is compared elsewhere.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use outlive_mcap::{Error, Item, Message, Outline, Place, Reader};

use crate::exit::Failure;
use crate::fault::{self, Fault, Faults};
use crate::records::{CHUNK, Records};

const MESSAGE_INDEX: u8 = 0x07;
const CHUNK_INDEX: u8 = 0x08;
/// The bytes before a payload in a chunk: the record's head, and the message's.
const BEFORE_PAYLOAD: u64 = 9 + 22;
/// The bytes before the entries of a message index, and the length of an entry: a time, and a place.
const BEFORE_ENTRIES: u64 = 2 + 4;
const ENTRY: u64 = 8 + 8;

/// The times and places of messages, in order.
type Entries = Vec<(u64, u64)>;

/// The first and the last log time.
type Times = (u64, u64);

/// The last chunk that was met.
struct Chunk {
    offset: u64,
    /// The times of its messages; `None`: it cannot be read.
    times: Option<Times>,
    /// Its messages, by their channels; `None`: it cannot be read.
    messages: Option<BTreeMap<u16, Entries>>,
    /// The channels of which a message index was met, and where it is.
    indexes: BTreeMap<u16, u64>,
}

/// A chunk that was met before.
struct Met {
    times: Option<Times>,
    /// Where its message indexes are; `None`: the index at the end was compared with it.
    indexes: Option<BTreeMap<u16, u64>>,
}

struct Comparison<'a> {
    file: Arc<File>,
    reader: Reader,
    /// The channels that the data has.
    channels: &'a Outline,
    names: Names,
    chunk: Option<Chunk>,
    /// The chunks before it, by their places.
    met: BTreeMap<u64, Met>,
    faults: &'a mut Faults,
}

/// The channels' names, as faults tell them.
struct Names(BTreeMap<u16, String>);

impl Names {
    fn of(&self, channel: u16) -> String {
        match self.0.get(&channel) {
            Some(name) => format!("{name} (channel {channel})"),
            None => format!("the channel {channel}"),
        }
    }
}

/// Compares them, and adds what differs. `channels`: those of the file's data.
pub fn compare(path: &Path, channels: &Outline, faults: &mut Faults) -> Result<(), Failure> {
    let mut records = Records::of(path)?;
    let names = channels.channels().map(|channel| (channel.id, fault::name(&channel.topic)));
    let names = Names(names.collect());
    let (file, reader, met) = (Arc::clone(&records.file), Reader::open(path)?, BTreeMap::new());
    let mut all = Comparison { file, reader, channels, names, chunk: None, met, faults };
    while let Some(place) = records.next()? {
        match place.op {
            CHUNK => {
                all.close();
                // One whose beginning is damaged cannot be read either.
                let said = records.scan.chunk(&place).ok();
                let said = said.map(|(head, _)| (head.message_start_time, head.message_end_time));
                all.open(place.offset, said)?;
            }
            MESSAGE_INDEX => all.message_index(&place)?,
            CHUNK_INDEX => {
                all.close();
                all.chunk_index(&place)?;
            }
            _ => {}
        }
    }
    all.close();
    Ok(())
}

impl Comparison<'_> {
    /// Adds a fault, and makes its text only if it is kept.
    fn tell(&mut self, offset: u64, text: impl FnOnce(&Names) -> String) {
        let names = &self.names;
        self.faults.add(|| Fault::at(offset, text(names)));
    }

    /// Reads a chunk. `said`: the times that it has in front.
    fn open(&mut self, offset: u64, said: Option<Times>) -> Result<(), Failure> {
        let mut messages: BTreeMap<u16, Entries> = BTreeMap::new();
        let mut is_sound = true;
        match self.reader.seek_chunk(offset, self.channels) {
            Ok(()) => loop {
                match self.reader.next() {
                    Ok(None) => break,
                    Ok(Some(Item::Message(Message { header, chunk: Some((_, at)), .. }))) => {
                        let entries = messages.entry(header.channel_id).or_default();
                        entries.push((header.log_time, at as u64 - BEFORE_PAYLOAD));
                    }
                    Ok(Some(_)) => {}
                    Err(error @ Error::Io { .. }) => return Err(error.into()),
                    Err(_) => is_sound = false,
                }
            },
            Err(error @ Error::Io { .. }) => return Err(error.into()),
            Err(_) => is_sound = false,
        }
        messages.values_mut().for_each(|entries| entries.sort_unstable());
        let messages = is_sound.then_some(messages);
        let times = messages.as_ref().and_then(times_of);
        if let (Some(said), Some(times)) = (said, times)
            && said != times
        {
            self.tell(offset, |_| {
                format!("the chunk at byte {offset} says {}", other_times(said, times))
            });
        }
        self.chunk = Some(Chunk { offset, times, messages, indexes: BTreeMap::new() });
        Ok(())
    }

    /// No message index of the open chunk comes any more.
    fn close(&mut self) {
        let Some(Chunk { offset, times, messages, indexes }) = self.chunk.take() else { return };
        // If there is none at all, its writer makes none.
        let all = messages.iter().flatten().filter(|_| !indexes.is_empty());
        for (channel, _) in all.filter(|(channel, _)| !indexes.contains_key(channel)) {
            self.tell(offset, |names| {
                let name = names.of(*channel);
                format!(
                    "the chunk at byte {offset} has messages of {name}, and no message index of them"
                )
            });
        }
        self.met.insert(offset, Met { times, indexes: Some(indexes) });
    }

    fn message_index(&mut self, place: &Place) -> Result<(), Failure> {
        let at = place.offset;
        let Some(head) = self.read(place.body(), BEFORE_ENTRIES.min(place.len))? else {
            return Ok(());
        };
        let [low, high, bytes @ ..] = &head[..] else {
            self.tell(at, |_| format!("the message index at byte {at} is too short"));
            return Ok(());
        };
        let channel = u16::from_le_bytes([*low, *high]);
        let said = bytes.try_into().map_or(0, u32::from_le_bytes);
        let Some(chunk) = &mut self.chunk else {
            self.tell(at, |_| format!("the message index at byte {at} follows no chunk"));
            return Ok(());
        };
        chunk.indexes.insert(channel, at);
        let begin = chunk.offset;
        let Some(there) = chunk.messages.as_ref().map(|all| all.get(&channel)) else {
            return Ok(());
        };
        let len = there.map_or(0, |there| there.len() as u64 * ENTRY);
        if u64::from(said) != place.len.saturating_sub(BEFORE_ENTRIES) {
            self.tell(at, |_| format!("the message index at byte {at} is not as long as it says"));
            return Ok(());
        }
        if u64::from(said) != len {
            let (said, there) = (u64::from(said) / ENTRY, len / ENTRY);
            self.tell(at, |names| {
                let name = names.of(channel);
                format!(
                    "the message index at byte {at} has {said} messages of {name}, and the chunk at byte {begin} has {there}"
                )
            });
            return Ok(());
        }
        // No longer than the index of a chunk that was in memory.
        let Some(bytes) = self.read(place.body() + BEFORE_ENTRIES, len)? else { return Ok(()) };
        let mut said: Entries = bytes.chunks_exact(ENTRY as usize).map(entry).collect();
        said.sort_unstable();
        let there = self.chunk.as_ref().and_then(|chunk| chunk.messages.as_ref()?.get(&channel));
        let mut both = said.into_iter().zip(there.into_iter().flatten().copied());
        let differs = both.find(|(said, there)| said != there);
        if let Some(((time, place), (its_time, its_place))) = differs {
            self.tell(at, |names| {
                let name = names.of(channel);
                format!(
                    "the message index at byte {at} has a message of {name} at byte {place} of the chunk at byte {begin}, \
                     with the log time {time}: the chunk has one at byte {its_place}, with the log time {its_time}"
                )
            });
        }
        Ok(())
    }

    /// Compares what the index at the file's end says of a chunk with the chunk, and where it has the chunk's message
    /// indexes with where they are.
    fn chunk_index(&mut self, place: &Place) -> Result<(), Failure> {
        // Times, place, length: then a map of channels and places, with its length in bytes in front.
        const BEFORE_MAP: u64 = 32;
        const PLACE: u64 = 2 + 8;
        const MOST: u64 = (u16::MAX as u64 + 1) * PLACE;
        let at = place.offset;
        let Some(head) = self.read(place.body(), place.len.min(BEFORE_MAP + 4))? else {
            return Ok(());
        };
        // One that is too short is damaged: reading the index tells.
        let Some(map_len) = head.get(32..36).and_then(|len| len.try_into().ok()) else {
            return Ok(());
        };
        let map_len = u64::from(u32::from_le_bytes(map_len));
        if map_len > MOST || map_len > place.len - (BEFORE_MAP + 4) {
            self.tell(at, |_| format!("the chunk index at byte {at} is not as long as it says"));
            return Ok(());
        }
        let begin = u64_of(&head[16..24]);
        // What lies about the chunk is told already.
        let Some(met) = self.met.get_mut(&begin) else { return Ok(()) };
        let (times, Some(met)) = (met.times, met.indexes.take()) else {
            self.tell(at, |_| format!("the index has the chunk at byte {begin} more than once"));
            return Ok(());
        };
        let said = (u64_of(&head[..8]), u64_of(&head[8..16]));
        if let Some(times) = times.filter(|times| *times != said) {
            self.tell(at, |_| {
                let other = other_times(said, times);
                format!("the index says of the chunk at byte {begin} {other}")
            });
        }
        if map_len == 0 {
            return Ok(());
        }
        let Some(map) = self.read(place.body() + BEFORE_MAP + 4, map_len)? else { return Ok(()) };
        let said: BTreeMap<u16, u64> = map
            .chunks_exact(PLACE as usize)
            .map(|one| (u16::from_le_bytes([one[0], one[1]]), u64_of(&one[2..])))
            .collect();
        for (channel, offset) in &said {
            let there = met.get(channel);
            if there == Some(offset) {
                continue;
            }
            self.tell(at, |names| {
                let name = names.of(*channel);
                let there = there.map_or("there is none".to_owned(), |there| format!("it is at byte {there}"));
                format!(
                    "the index has the message index of {name} behind the chunk at byte {begin} at byte {offset}: {there}"
                )
            });
        }
        for channel in met.keys().filter(|channel| !said.contains_key(channel)) {
            self.tell(at, |names| {
                let name = names.of(*channel);
                format!(
                    "the index lacks the message index of {name} behind the chunk at byte {begin}"
                )
            });
        }
        Ok(())
    }

    /// Reads bytes; `None`: another process has cut the file.
    fn read(&self, at: u64, len: u64) -> Result<Option<Vec<u8>>, Failure> {
        let mut bytes = vec![0; len as usize];
        match self.file.read_exact_at(&mut bytes, at) {
            Ok(()) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(Failure::system("read the file", &error)),
        }
    }
}

/// Returns the first and the last log time of a chunk's messages. `None`: it has none, and writers differ in what they
/// write then.
fn times_of(messages: &BTreeMap<u16, Entries>) -> Option<Times> {
    // They are in order.
    let ends =
        messages.values().filter_map(|entries| Some((entries.first()?.0, entries.last()?.0)));
    ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Says what differs, behind "the index says".
pub fn other_times((first, last): Times, (its_first, its_last): Times) -> String {
    format!(
        "that its messages have the log times {first} to {last}, and they have {its_first} to {its_last}"
    )
}

fn entry(bytes: &[u8]) -> (u64, u64) {
    (u64_of(&bytes[..8]), u64_of(&bytes[8..]))
}

fn u64_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
