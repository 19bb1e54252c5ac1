//! A walk over the messages of a file that are wanted, chunk by chunk, without the interpreter.
//!
//! | wanted | read |
//! | --- | --- |
//! | all | the file from its beginning |
//! | a time, the reverse order, or topics of a finished file | the chunks that may have such messages, by the file's index, or by the heads of its chunks |
//!
//! A file that ends in the middle of a record, as a killed writer leaves it, ends there.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use outlive_mcap::{Channel, Error, Item, MessageHeader, Outline, Reader, Schema};
use pyo3::prelude::*;

use crate::bag_channel::BagChannel;
use crate::bag_message::BagMessage;
use crate::errors::{Raised, raise};
use crate::handle_mutex::HandleMutex;
use crate::waiting::detached;

/// Messages that are found before the interpreter gets one.
const MANY: usize = 256;
/// After so many bytes, or messages that are not wanted, the interpreter is asked for signals.
const LONG: usize = 64 << 20;

/// A file, as its readers share it.
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    max_chunk: u64,
    outline: OnceLock<Arc<Outline>>,
    channels: Mutex<HashMap<u16, Arc<BagChannel>>>,
}

impl Source {
    pub(crate) fn new(path: PathBuf, max_chunk: u64) -> Source {
        Source { path, max_chunk, outline: OnceLock::new(), channels: Mutex::default() }
    }

    pub(crate) fn open(&self) -> Result<Reader, Error> {
        Ok(Reader::open(&self.path)?.max_chunk(self.max_chunk))
    }

    /// Returns where in the file what lies: as it was when this was first asked.
    pub(crate) fn outline(&self) -> Result<Arc<Outline>, Error> {
        if let Some(known) = self.outline.get() {
            return Ok(Arc::clone(known));
        }
        let made = Arc::new(Outline::read(&self.path)?);
        Ok(Arc::clone(self.outline.get_or_init(|| made)))
    }

    /// Returns what a channel is: the same object to all walks.
    fn channel(&self, channel: &Arc<Channel>, schema: Option<&Arc<Schema>>) -> Arc<BagChannel> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        match channels.get(&channel.id) {
            // Another program may have put another file there.
            Some(known) if known.channel == *channel && known.schema.as_ref() == schema => {
                Arc::clone(known)
            }
            _ => {
                let made = Arc::new(BagChannel::new(Arc::clone(channel), schema.cloned()));
                channels.insert(channel.id, Arc::clone(&made));
                made
            }
        }
    }
}

/// Which messages.
#[derive(Default)]
pub(crate) struct Wanted {
    /// `None`: all.
    pub(crate) topics: Option<HashSet<String>>,
    /// The first log time.
    pub(crate) start: Option<u64>,
    /// The first log time that is not wanted any more.
    pub(crate) end: Option<u64>,
    pub(crate) reverse: bool,
    /// What is damaged is passed over.
    pub(crate) skip_damaged: bool,
}

impl Wanted {
    fn has_topic(&self, topic: &str) -> bool {
        self.topics.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    fn has_time(&self, time: u64) -> bool {
        self.start.is_none_or(|start| time >= start) && self.end.is_none_or(|end| time < end)
    }

    /// Returns whether a plan is worth it.
    fn is_partial(&self, outline: &Outline) -> bool {
        let by_topic = self.topics.is_some() && outline.statistics.is_some();
        by_topic || self.start.is_some() || self.end.is_some() || self.reverse
    }

    /// Returns where the chunks begin that are to be read, in their order.
    fn plan(&self, outline: &Outline) -> VecDeque<u64> {
        let wanted = outline.channels().filter(|channel| self.has_topic(&channel.topic));
        let ids: Vec<u16> = wanted.map(|channel| channel.id).collect();
        let by_topic = self.topics.is_some() && outline.has_all_channels();
        let chunks = outline.chunks.iter().filter(|chunk| {
            self.start.is_none_or(|start| chunk.last >= start)
                && self.end.is_none_or(|end| chunk.first < end)
                && (!by_topic || outline.may_have(chunk, &ids))
        });
        let offsets = chunks.map(|chunk| chunk.offset);
        if self.reverse { offsets.rev().collect() } else { offsets.collect() }
    }
}

/// A message that was found.
pub(crate) struct Found {
    pub(crate) of: Arc<BagChannel>,
    pub(crate) header: MessageHeader,
    pub(crate) chunk: Arc<Vec<u8>>,
    pub(crate) range: Range<usize>,
}

impl Found {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.chunk[self.range.clone()]
    }
}

/// See the head of this file.
pub(crate) struct Walk {
    source: Arc<Source>,
    wanted: Wanted,
    reader: Reader,
    /// The chunks that are still to be read; `None`: the reader goes on by itself.
    plan: Option<(VecDeque<u64>, Arc<Outline>)>,
    /// By number; `None`: it is not wanted.
    channels: HashMap<u16, Option<Arc<BagChannel>>>,
    found: VecDeque<Found>,
    failed: Option<Error>,
    is_over: bool,
}

impl Walk {
    /// Opens the file.
    pub(crate) fn begin(source: &Arc<Source>, wanted: Wanted) -> Result<Walk, Error> {
        let mut reader = source.open()?;
        let mut plan = None;
        if wanted.topics.is_some()
            || wanted.start.is_some()
            || wanted.end.is_some()
            || wanted.reverse
        {
            let outline = source.outline()?;
            let has_chunks = !outline.has_loose() && !outline.chunks.is_empty();
            let are_known = outline.has_all_channels();
            if has_chunks && !are_known && wanted.reverse {
                // Channels that were met stay known.
                while !matches!(reader.next(), Ok(None) | Err(Error::Io { .. })) {}
            }
            if has_chunks && (are_known || wanted.reverse) && wanted.is_partial(&outline) {
                plan = Some((wanted.plan(&outline), outline));
            }
        }
        if plan.is_some() {
            // Begins with the plan's first chunk.
            reader.stop_at(0);
        }
        Ok(Walk {
            source: Arc::clone(source),
            wanted,
            reader,
            plan,
            channels: HashMap::new(),
            found: VecDeque::new(),
            failed: None,
            is_over: false,
        })
    }

    /// Returns whether the walk can go backwards where that is wanted.
    fn can_go(&self) -> bool {
        !self.wanted.reverse || self.plan.is_some()
    }

    /// Finds some messages, or what failed. Returns soon also if neither is there yet.
    fn fill(&mut self) {
        let mut seen = 0;
        let mut last: *const Vec<u8> = std::ptr::null();
        while !self.is_over {
            // Of one chunk, in its order: in reverse it is taken as a whole.
            if seen >= LONG && (!self.wanted.reverse || self.found.is_empty()) {
                return;
            }
            // Each record takes time, also a short one.
            seen += 256;
            let message = match self.reader.next() {
                Ok(Some(Item::Message(message))) => message,
                Ok(Some(_)) => continue,
                Ok(None) => {
                    if self.is_chunk_over() {
                        return;
                    }
                    continue;
                }
                Err(Error::Cut { .. }) => continue,
                Err(Error::Io { doing, path, error }) => {
                    self.is_over = true;
                    self.failed = Some(Error::Io { doing, path, error });
                    return;
                }
                Err(_) if self.wanted.skip_damaged => continue,
                Err(error) => {
                    self.failed = Some(error);
                    if self.wanted.reverse {
                        self.found.make_contiguous().reverse();
                    }
                    return;
                }
            };
            seen += message.data.len();
            if !self.wanted.has_time(message.header.log_time) {
                continue;
            }
            let known = self.channels.get(&message.header.channel_id);
            if matches!(known, Some(None)) {
                continue;
            }
            let (header, len) = (message.header, message.data.len());
            let (chunk, begin) = match message.chunk {
                Some((chunk, begin)) => (Arc::clone(chunk), begin),
                None => (Arc::new(message.data.to_vec()), 0),
            };
            let of = match known {
                Some(known) => known.clone(),
                None => {
                    let channel = Arc::clone(message.channel);
                    let schema = self.reader.schema(channel.schema_id);
                    let of = match self.wanted.has_topic(&channel.topic) {
                        true => Some(self.source.channel(&channel, schema)),
                        false => None,
                    };
                    self.channels.insert(channel.id, of.clone());
                    of
                }
            };
            let Some(of) = of else { continue };
            // Two chunks at a time stay in memory, not a chunk for each of many long messages.
            let is_next = !last.is_null() && !std::ptr::eq(last, &raw const *chunk);
            last = &raw const *chunk;
            self.found.push_back(Found { of, header, chunk, range: begin..begin + len });
            if !self.wanted.reverse && (is_next || self.found.len() >= MANY) {
                return;
            }
        }
    }

    /// Goes to the next chunk; true: there are messages to be taken first, or nothing is left.
    fn is_chunk_over(&mut self) -> bool {
        let Some((chunks, outline)) = &mut self.plan else {
            self.is_over = true;
            return true;
        };
        if self.wanted.reverse && !self.found.is_empty() {
            self.found.make_contiguous().reverse();
            return true;
        }
        match chunks.pop_front() {
            Some(offset) => match self.reader.seek_chunk(offset, outline) {
                Ok(()) => false,
                Err(error @ Error::Io { .. }) => {
                    (self.is_over, self.failed) = (true, Some(error));
                    true
                }
                Err(_) if self.wanted.skip_damaged => false,
                Err(error) => {
                    self.failed = Some(error);
                    true
                }
            },
            None => {
                self.is_over = true;
                true
            }
        }
    }

    /// Takes all messages of a part of the file, for `take`, which touches nothing of Python's. False: that was
    /// the last part.
    pub(crate) fn take_some(&mut self, mut take: impl FnMut(Found)) -> Result<bool, Error> {
        self.fill();
        self.found.drain(..).for_each(&mut take);
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(!self.is_over),
        }
    }
}

/// The messages of a file, one after another: returned by ``outlive.bag.Reader.messages``.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct BagMessages {
    walk: HandleMutex<Walk>,
    path: PathBuf,
}

impl BagMessages {
    pub(crate) fn begin(
        py: Python<'_>,
        source: &Arc<Source>,
        wanted: Wanted,
    ) -> PyResult<BagMessages> {
        let walk = detached(py, || Walk::begin(source, wanted)).raised(py)?;
        if !walk.can_go() {
            let why = "a file whose messages are not in chunks cannot be read backwards";
            return Err(raise(py, "BadOption", why));
        }
        Ok(BagMessages { walk: HandleMutex::new(walk), path: source.path.clone() })
    }
}

#[pymethods]
impl BagMessages {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<BagMessage>> {
        let mut walk = self.walk.lock(py)?;
        loop {
            if let Some(Found { of, header, chunk, range }) = walk.found.pop_front() {
                return BagMessage::new(of, header, chunk, range).map(Some);
            }
            if let Some(error) = walk.failed.take() {
                return Err(error).raised(py);
            }
            if walk.is_over {
                return Ok(None);
            }
            detached(py, || walk.fill());
            py.check_signals()?;
        }
    }

    /// Closes the file: nothing more comes.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.walk.close(py).map(drop)
    }

    fn __repr__(&self) -> String {
        format!("<BagMessages of '{}'>", self.path.display())
    }
}
