//! Recorded files: their channels, and their messages in the order of their times from any time on.
//!
//! | a file | is read |
//! | --- | --- |
//! | in chunks | chunk by chunk, in the order of their first times; a message waits until no chunk that is still to be read can have an earlier one |
//! | with messages outside of chunks, or cut off | on and on from the first place that may have the time; a message waits for some others |
//!
//! The files may be anyone's. As much as their chunks overlap is in memory, up to [`MOST`]: then messages come as
//! they are. What is damaged is told, and passed over.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use outlive_mcap::{Channel, Error, Item, Outline, Reader, Schema};
use outlive_program::exit::{Code, Failure, code_of_io};

/// The most messages that wait for earlier ones, and the most bytes of their chunks.
const MOST: (usize, usize) = (1 << 20, 1 << 30);
/// The same where nothing says when an earlier one cannot come.
const SOME: (usize, usize) = (4096, 16 << 20);
/// The most bytes that are read in search of what was last.
const MOST_BACK: usize = 1 << 30;
/// How far behind a time messages from before it may stand, in nanoseconds.
const DISORDER: u64 = 5_000_000_000;
/// As many faults are told.
const MOST_FAULTS: usize = 100;

/// A channel: the number of its file, and its own.
pub type Key = (usize, u16);

/// See the head of this file.
pub struct Recorded {
    files: Vec<(PathBuf, Outline)>,
    /// The times of the first and the last message.
    pub span: (u64, u64),
    known: HashSet<Key>,
    news: Vec<(Key, Arc<Channel>, Option<Arc<Schema>>)>,
    told: HashSet<String>,
    faults: Vec<String>,
}

/// A message.
pub struct Message {
    /// Its channel.
    pub channel: Key,
    /// When it was recorded.
    pub time: u64,
    /// When it was published.
    pub stamp: u64,
    chunk: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl Message {
    /// Returns its bytes.
    pub fn data(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }
}

/// A part of a file that is read in one go.
#[derive(Clone, Copy)]
struct Part {
    file: usize,
    offset: u64,
    /// It is one chunk; else what is there up to the file's end.
    is_chunk: bool,
    first: u64,
    last: u64,
}

/// Messages from a time on.
pub struct Messages {
    from: u64,
    readers: Vec<Reader>,
    /// What is still to be read, the earliest part first.
    parts: VecDeque<Part>,
    open: Option<Part>,
    /// By their times; among equal ones by when they were read.
    pending: BinaryHeap<Reverse<Pending>>,
    read: u64,
    /// Of each chunk with messages that wait: how many, and its bytes.
    held: HashMap<u64, (usize, usize)>,
    bytes: usize,
}

struct Pending {
    order: (u64, u64),
    chunk: u64,
    message: Message,
}

impl PartialEq for Pending {
    fn eq(&self, other: &Pending) -> bool {
        self.order == other.order
    }
}

impl Eq for Pending {}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Pending) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pending {
    fn cmp(&self, other: &Pending) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl Recorded {
    /// Opens files.
    ///
    /// # Errors
    /// One is not there, or is no MCAP file; there are no messages.
    pub fn open(paths: &[PathBuf]) -> Result<Recorded, Failure> {
        let mut files = Vec::new();
        for path in paths {
            let outline = Outline::read(path).and_then(|outline| complete(path, outline));
            files.push((path.clone(), outline.map_err(|error| failure(path, error))?));
        }
        let times = files.iter().filter_map(|(_, outline)| outline.times);
        let span = times.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let place = || paths.first().map(|path| path.display().to_string()).unwrap_or_default();
        let span = span.ok_or_else(|| {
            Failure::new(Code::BadInput, format!("{}: there are no messages to play", place()))
        })?;
        if span.0 > span.1 {
            let why = format!("{}: the times of its chunks are damaged", place());
            return Err(Failure::new(Code::BadInput, why));
        }
        let mut recorded = Recorded {
            files: Vec::new(),
            span,
            known: HashSet::new(),
            news: Vec::new(),
            told: HashSet::new(),
            faults: Vec::new(),
        };
        for (file, (_, outline)) in files.iter().enumerate() {
            for channel in outline.channels() {
                let schema = outline.schema(channel.schema_id).cloned().map(Arc::new);
                recorded.meet((file, channel.id), &Arc::new(channel.clone()), schema);
            }
        }
        recorded.files = files;
        Ok(recorded)
    }

    /// Returns the channels that were met since this was asked last, with their schemas.
    pub fn take_channels(&mut self) -> Vec<(Key, Arc<Channel>, Option<Arc<Schema>>)> {
        std::mem::take(&mut self.news)
    }

    /// Returns what was found damaged since this was asked last; each thing once.
    pub fn take_faults(&mut self) -> Vec<String> {
        std::mem::take(&mut self.faults)
    }

    /// Returns the messages from that time on.
    ///
    /// # Errors
    /// A file cannot be opened any more.
    pub fn from(&self, time: u64) -> Result<Messages, String> {
        let readers = self.files.iter().map(|(path, _)| Reader::open(path));
        let readers = readers.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let mut parts: Vec<Part> =
            (0..self.files.len()).flat_map(|file| self.parts(file, time)).collect();
        parts.sort_by_key(|part| (part.first, part.file, part.offset));
        Ok(Messages {
            from: time,
            readers,
            parts: parts.into(),
            open: None,
            pending: BinaryHeap::new(),
            read: 0,
            held: HashMap::new(),
            bytes: 0,
        })
    }

    /// Returns the parts of a file that may have messages of that time or later ones.
    fn parts(&self, file: usize, time: u64) -> Vec<Part> {
        let outline = &self.files[file].1;
        let chunks = &outline.chunks;
        if outline.has_loose() || chunks.is_empty() {
            let (first, last) = outline.times.unwrap_or(self.span);
            let offset = outline.begin(time);
            let part = |offset| Part { file, offset, is_chunk: false, first, last };
            return offset.map(part).into_iter().collect();
        }
        let all = chunks.iter().enumerate().map(|(at, chunk)| {
            // Behind the last one there may be one that is cut off, with messages of any time.
            let is_chunk = at + 1 < chunks.len() || outline.statistics.is_some();
            let last = if is_chunk { chunk.last } else { u64::MAX };
            Part { file, offset: chunk.offset, is_chunk, first: chunk.first, last }
        });
        all.filter(|part| part.last >= time).collect()
    }

    /// Returns the next message; `None` at the end.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn next(&mut self, messages: &mut Messages) -> Result<Option<Message>, String> {
        while !messages.is_next_known() {
            if messages.open.is_none() {
                let Some(part) = messages.parts.pop_front() else { return Ok(None) };
                self.go_to(&mut messages.readers[part.file], part)?;
                messages.open = Some(part);
            }
            let Some(part) = messages.open else { continue };
            match self.read(&mut messages.readers[part.file], part.file)? {
                None => messages.open = None,
                Some(Some(message)) if message.time >= messages.from => messages.put(message),
                Some(_) => {}
            }
        }
        Ok(messages.take())
    }

    fn go_to(&mut self, reader: &mut Reader, part: Part) -> Result<(), String> {
        let outline = &self.files[part.file].1;
        match part.is_chunk {
            true => match reader.seek_chunk(part.offset, outline) {
                Err(error) => self.fault(part.file, error),
                Ok(()) => Ok(()),
            },
            false => {
                reader.seek(part.offset, outline);
                Ok(())
            }
        }
    }

    /// Tells what is damaged, once.
    ///
    /// # Errors
    /// It is no damage, but an error of the system.
    fn fault(&mut self, file: usize, error: Error) -> Result<(), String> {
        if matches!(error, Error::Io { .. }) {
            return Err(error.to_string());
        }
        let why = format!("{}: {error}", self.files[file].0.display());
        if self.told.len() < MOST_FAULTS && self.told.insert(why.clone()) {
            self.faults.push(why);
        }
        Ok(())
    }

    /// Reads one thing: a message, or something that is none; `None` at the end of the part.
    fn read(
        &mut self,
        reader: &mut Reader,
        file: usize,
    ) -> Result<Option<Option<Message>>, String> {
        match reader.next() {
            Ok(None) => return Ok(None),
            Ok(Some(Item::Message(message))) => {
                let (header, len) = (message.header, message.data.len());
                let (chunk, begin) = match message.chunk {
                    Some((chunk, begin)) => (Arc::clone(chunk), begin),
                    None => (Arc::new(message.data.to_vec()), 0),
                };
                let channel = (file, header.channel_id);
                let stamp = match header.publish_time {
                    0 => header.log_time,
                    stamp => stamp,
                };
                let (time, range) = (header.log_time, begin..begin + len);
                return Ok(Some(Some(Message { channel, time, stamp, chunk, range })));
            }
            Ok(Some(Item::Channel(channel))) => {
                let channel = Arc::clone(channel);
                let schema = reader.schema(channel.schema_id).cloned();
                self.meet((file, channel.id), &channel, schema);
            }
            Ok(Some(_)) => {}
            Err(error) => self.fault(file, error)?,
        }
        Ok(Some(None))
    }

    fn meet(&mut self, key: Key, channel: &Arc<Channel>, schema: Option<Arc<Schema>>) {
        if self.known.insert(key) {
            self.news.push((key, Arc::clone(channel), schema));
        }
    }

    /// Returns the last message before or at that time of each of these channels, if there is one since `since`, in
    /// their order.
    ///
    /// # Errors
    /// A file cannot be read any more.
    pub fn last_before(
        &mut self,
        time: u64,
        since: u64,
        wanted: &HashSet<Key>,
    ) -> Result<Vec<Message>, String> {
        let mut all = Vec::new();
        for file in 0..self.files.len() {
            let of_file = wanted.iter().filter(|key| key.0 == file);
            let ids: Vec<u16> = of_file.map(|key| key.1).collect();
            if !ids.is_empty() {
                all.extend(self.last_of_file(file, time, since, &ids)?);
            }
        }
        all.sort_by_key(|message| message.time);
        Ok(all)
    }

    fn last_of_file(
        &mut self,
        file: usize,
        time: u64,
        since: u64,
        ids: &[u16],
    ) -> Result<Vec<Message>, String> {
        let outline = &self.files[file].1;
        let mut parts = self.parts(file, since);
        parts.retain(|part| {
            let chunk = outline.chunks.iter().find(|chunk| chunk.offset == part.offset);
            let may_have = chunk.is_none_or(|chunk| outline.may_have(chunk, ids));
            part.first <= time && (may_have || !part.is_chunk)
        });
        parts.sort_by_key(|part| Reverse((part.last, part.offset)));
        let mut reader = Reader::open(&self.files[file].0).map_err(|error| error.to_string())?;
        let mut found: HashMap<u16, Message> = HashMap::new();
        let mut seen = 0;
        for part in parts {
            // No part that follows has a later one.
            let is_settled = |id| found.get(id).is_some_and(|message| message.time >= part.last);
            if ids.iter().all(is_settled) || (seen > MOST_BACK && part.is_chunk) {
                break;
            }
            self.go_to(&mut reader, part)?;
            while let Some(read) = self.read(&mut reader, file)? {
                let Some(message) = read else { continue };
                if !part.is_chunk && message.time > time.saturating_add(DISORDER) {
                    break;
                }
                seen += message.data().len();
                let id = message.channel.1;
                let is_later = |known: &Message| known.time <= message.time;
                if (since..=time).contains(&message.time)
                    && ids.contains(&id)
                    && found.get(&id).is_none_or(is_later)
                {
                    found.insert(id, message);
                }
            }
            // Its chunk does not stay for that.
            for message in found.values_mut().filter(|one| one.chunk.len() > one.range.len()) {
                let data = message.data().to_vec();
                (message.range, message.chunk) = (0..data.len(), Arc::new(data));
            }
        }
        Ok(found.into_values().collect())
    }
}

impl Messages {
    /// Returns whether no earlier message can come than the first that waits, or too many wait.
    fn is_next_known(&self) -> bool {
        let Some(Reverse(first)) = self.pending.peek() else { return false };
        let is_much = |(messages, bytes): (usize, usize)| {
            self.pending.len() >= messages || self.bytes >= bytes
        };
        match self.open {
            Some(part) if part.is_chunk => is_much(MOST),
            Some(_) => is_much(SOME),
            None => {
                let part = self.parts.front();
                part.is_none_or(|part| first.order.0 <= part.first) || is_much(MOST)
            }
        }
    }

    fn put(&mut self, message: Message) {
        self.read += 1;
        // A chunk that was given back may have been where another is now: then it holds no message.
        let chunk = Arc::as_ptr(&message.chunk) as u64;
        let (count, len) = self.held.entry(chunk).or_insert((0, message.chunk.len()));
        if *count == 0 {
            self.bytes += *len;
        }
        *count += 1;
        self.pending.push(Reverse(Pending { order: (message.time, self.read), chunk, message }));
    }

    fn take(&mut self) -> Option<Message> {
        let Reverse(Pending { chunk, message, .. }) = self.pending.pop()?;
        if let Some((count, len)) = self.held.get_mut(&chunk) {
            *count -= 1;
            if *count == 0 {
                self.bytes -= *len;
                self.held.remove(&chunk);
            }
        }
        Some(message)
    }
}

/// Looks for what the outline of an unfinished file does not say, in its chunks.
fn complete(path: &Path, mut outline: Outline) -> Result<Outline, Error> {
    if outline.has_all_channels() && outline.times.is_some() {
        return Ok(outline);
    }
    let has_times = outline.times.is_some();
    let mut reader = Reader::open(path)?;
    loop {
        match reader.next() {
            Ok(None) => return Ok(outline),
            Ok(Some(Item::Message(message))) if !has_times => {
                outline.add_time(message.header.log_time);
            }
            Ok(Some(Item::Channel(channel))) => {
                let channel = Arc::clone(channel);
                outline.add_channel(&channel, reader.schema(channel.schema_id).map(|one| &**one));
            }
            Ok(Some(_)) => {}
            Err(error @ Error::Io { .. }) => return Err(error),
            // It is told when it is played.
            Err(_) => {}
        }
    }
}

/// Returns why a file cannot be played.
pub fn failure(path: &Path, error: Error) -> Failure {
    match &error {
        Error::Io { error: cause, .. } => Failure::new(code_of_io(cause), &error),
        Error::NoRecording { .. } => Failure::new(Code::NotFound, error),
        Error::NotMcap { .. } | Error::OtherVersion { .. } => Failure::new(Code::BadInput, error),
        _ => Failure::new(Code::BadInput, format!("{}: {error}", path.display())),
    }
}
