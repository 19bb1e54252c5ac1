//! A recording that is read: what is in it, its messages, its columns. `outlive/bag.py` has the class that
//! users see.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use outlive_mcap::{Channel, Error, Header, Index, Item, Outline, Reader, Schema};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};

use crate::bag_channel::BagChannel;
use crate::bag_columns;
use crate::bag_walk::{BagMessages, Source, Wanted};
use crate::errors::{Raised, raise_errno};
use crate::waiting::detached;

/// What is read of a recording; users have ``outlive.bag.Reader``.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct BagFile {
    source: Arc<Source>,
}

/// First and last log time.
type Times = (u64, u64);

/// A channel and its messages.
struct Counted {
    channel: Arc<Channel>,
    schema: Option<Arc<Schema>>,
    messages: u64,
    times: Option<Times>,
}

/// What a file holds.
#[derive(Default)]
struct Survey {
    header: Option<Header>,
    /// By number.
    channels: BTreeMap<u16, Counted>,
    /// Of the file, by name.
    metadata: Vec<(String, BTreeMap<String, String>)>,
    attachments: Vec<(String, String, u64)>,
    faults: Vec<String>,
    is_finished: bool,
}

/// Bytes that are read before the interpreter is asked for signals.
const LONG: usize = 64 << 20;
/// More faults are not listed.
const MOST_FAULTS: usize = 1000;
/// What every group ends with is not listed.
const MOST_METADATA: usize = 1000;

fn spread(times: &mut Option<Times>, time: u64) {
    let (first, last) = times.unwrap_or((time, time));
    *times = Some((first.min(time), last.max(time)));
}

impl Survey {
    /// Reads on for a while; false at the end of the file.
    fn read_some(&mut self, reader: &mut Reader) -> Result<bool, Error> {
        let mut seen = 0;
        while seen < LONG {
            match reader.next() {
                Ok(None) => return Ok(false),
                Ok(Some(Item::Message(message))) => {
                    seen += message.data.len() + 64;
                    let time = message.header.log_time;
                    if let Some(one) = self.channels.get_mut(&message.channel.id) {
                        one.messages += 1;
                        spread(&mut one.times, time);
                    }
                }
                Ok(Some(Item::Channel(channel))) => {
                    let channel = Arc::clone(channel);
                    let schema = reader.schema(channel.schema_id).cloned();
                    let id = channel.id;
                    let one = Counted { channel, schema, messages: 0, times: None };
                    self.channels.insert(id, one);
                }
                Ok(Some(Item::Header(header))) => self.header = Some(header),
                Ok(Some(Item::Metadata(one))) => {
                    if one.name != outlive_mcap::POSITIONS && self.metadata.len() < MOST_METADATA {
                        self.metadata.push((one.name, one.metadata));
                    }
                }
                Ok(Some(Item::Attachment(header, data))) => {
                    seen += data.len();
                    if self.attachments.len() < MOST_METADATA {
                        let len = data.len() as u64;
                        self.attachments.push((header.name, header.media_type, len));
                    }
                }
                Ok(Some(Item::Schema(_))) => {}
                Err(error @ Error::Io { .. }) => return Err(error),
                Err(error) => {
                    seen += LONG / 1024;
                    if self.faults.len() < MOST_FAULTS {
                        self.faults.push(error.to_string());
                    }
                }
            }
        }
        Ok(true)
    }

    /// Takes from a finished file's index what it says; `None`: it does not say all. Reads a chunk or two of
    /// each topic, for its times.
    fn of_index(reader: &mut Reader, outline: &Outline) -> Result<Option<Survey>, Error> {
        let Some(counts) = &outline.statistics else { return Ok(None) };
        let are_counted = counts.channel_message_counts.values().sum::<u64>()
            == counts.message_count
            && counts.channel_count as usize == outline.channels().count()
            && counts.attachment_count == 0
            && !outline.has_loose()
            && counts.chunk_count as usize >= outline.chunks.len()
            && (counts.message_count == 0 || !outline.chunks.is_empty());
        if !are_counted {
            return Ok(None);
        }
        let mut survey = Survey { is_finished: true, ..Survey::default() };
        if let Some(Item::Header(header)) = reader.next()? {
            survey.header = Some(header);
        }
        let mut read = HashMap::new();
        for channel in outline.channels() {
            let count = counts.channel_message_counts.get(&channel.id).copied().unwrap_or(0);
            let times = match count {
                0 => None,
                _ => match times_of(reader, outline, channel.id, &mut read) {
                    Ok(Some(times)) => Some(times),
                    // What is damaged, all of the file is read for.
                    Ok(None) => return Ok(None),
                    Err(error @ Error::Io { .. }) => return Err(error),
                    Err(_) => return Ok(None),
                },
            };
            let schema = outline.schema(channel.schema_id).cloned().map(Arc::new);
            let one =
                Counted { channel: Arc::new(channel.clone()), schema, messages: count, times };
            survey.channels.insert(channel.id, one);
        }
        Ok(Some(survey))
    }
}

/// Returns the first and the last log time of a channel: chunks are read that may have them.
fn times_of(
    reader: &mut Reader,
    outline: &Outline,
    channel: u16,
    read: &mut HashMap<u64, HashMap<u16, Times>>,
) -> Result<Option<Times>, Error> {
    let mut chunks: Vec<_> =
        outline.chunks.iter().filter(|chunk| outline.may_have(chunk, &[channel])).collect();
    let mut found: Option<Times> = None;
    for is_first in [true, false] {
        match is_first {
            true => chunks.sort_by_key(|chunk| chunk.first),
            false => chunks.sort_by_key(|chunk| std::cmp::Reverse(chunk.last)),
        }
        for chunk in &chunks {
            // No later chunk can have an earlier message, or no earlier one a later.
            let is_settled = found.is_some_and(|(first, last)| match is_first {
                true => first <= chunk.first,
                false => last >= chunk.last,
            });
            if is_settled {
                break;
            }
            let there = match read.get(&chunk.offset) {
                Some(there) => there,
                None => {
                    let mut times = HashMap::new();
                    reader.seek_chunk(chunk.offset, outline)?;
                    while let Some(item) = reader.next()? {
                        if let Item::Message(message) = item {
                            let mut one = times.get(&message.header.channel_id).copied();
                            spread(&mut one, message.header.log_time);
                            times.extend(one.map(|one| (message.header.channel_id, one)));
                        }
                    }
                    read.entry(chunk.offset).or_insert(times)
                }
            };
            if let Some((first, last)) = there.get(&channel) {
                let (least, most) = found.unwrap_or((*first, *last));
                found = Some((least.min(*first), most.max(*last)));
            }
        }
    }
    Ok(found)
}

/// Reads on for a while, or until there is a channel of that topic; false at the end of the file.
fn read_topics(
    reader: &mut Reader,
    names: &mut BTreeSet<String>,
    topic: &str,
) -> Result<bool, Error> {
    let mut seen = 0;
    while seen < LONG && !names.contains(topic) {
        match reader.next() {
            Ok(None) => return Ok(false),
            Ok(Some(Item::Message(message))) => seen += message.data.len() + 64,
            Ok(Some(Item::Channel(channel))) => {
                names.insert(channel.topic.clone());
            }
            Ok(Some(Item::Attachment(_, data))) => seen += data.len(),
            Ok(Some(_)) => {}
            Err(error @ Error::Io { .. }) => return Err(error),
            // Reading the messages tells of it.
            Err(_) => seen += LONG / 1024,
        }
    }
    Ok(true)
}

/// Returns names for a person, of many the first ones.
fn listed(names: BTreeSet<String>) -> String {
    if names.is_empty() {
        return "none at all".to_owned();
    }
    // The last one takes no more room than "and 1 more".
    let most = if names.len() == 13 { 13 } else { 12 };
    let more = names.len().saturating_sub(most);
    let shown: Vec<String> =
        names.iter().take(most).map(|name| format!("'{}'", name.escape_debug())).collect();
    let behind = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{behind}", shown.join(", "))
}

fn wanted(
    topics: Option<Vec<String>>,
    start: Option<u64>,
    end: Option<u64>,
    reverse: bool,
    skip_damaged: bool,
) -> Wanted {
    let topics = topics.map(|topics| topics.into_iter().collect());
    Wanted { topics, start, end, reverse, skip_damaged }
}

#[pymethods]
impl BagFile {
    /// Opens a file. ``max_chunk``: the most bytes that a chunk may have; a larger one raises ``TooLarge``.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, max_chunk: u64) -> PyResult<BagFile> {
        let source = Source::new(path, max_chunk);
        detached(py, || source.open()).raised(py)?;
        Ok(BagFile { source: Arc::new(source) })
    }

    /// Raises ``NotFound`` if the file has no topic of that name. Where neither an index nor the heads of its
    /// records say which topics it has, it is read until it comes to that one.
    fn require(&self, py: Python<'_>, topic: &str) -> PyResult<()> {
        let source = &self.source;
        if detached(py, || source.outline()).raised(py)?.has_topic(topic) {
            return Ok(());
        }
        // The file may have grown since.
        let (outline, mut reader) =
            detached(py, || Ok::<_, Error>((Outline::read(&source.path)?, source.open()?)))
                .raised(py)?;
        let mut names: BTreeSet<String> =
            outline.channels().map(|channel| channel.topic.clone()).collect();
        if outline.statistics.is_none() || !outline.has_all_channels() {
            while !names.contains(topic)
                && detached(py, || read_topics(&mut reader, &mut names, topic)).raised(py)?
            {
                py.check_signals()?;
            }
        }
        if names.contains(topic) {
            return Ok(());
        }
        let path = source.path.display();
        let why = format!("{path} has no topic '{topic}', but {}", listed(names));
        Err(raise_errno(py, "NotFound", 2, why))
    }

    /// Returns the messages that are wanted.
    #[pyo3(signature = (topics, start, end, reverse, skip_damaged))]
    fn messages(
        &self,
        py: Python<'_>,
        topics: Option<Vec<String>>,
        start: Option<u64>,
        end: Option<u64>,
        reverse: bool,
        skip_damaged: bool,
    ) -> PyResult<BagMessages> {
        let wanted = wanted(topics, start, end, reverse, skip_damaged);
        BagMessages::begin(py, &self.source, wanted)
    }

    /// Returns log times, publish times and sequence numbers of a topic's messages, and their values as one
    /// array; None without a message, or if they are not wanted.
    #[pyo3(signature = (topic, start, end, skip_damaged, with_values))]
    fn columns<'py>(
        &self,
        py: Python<'py>,
        topic: String,
        start: Option<u64>,
        end: Option<u64>,
        skip_damaged: bool,
        with_values: bool,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let wanted = wanted(Some(vec![topic.clone()]), start, end, false, skip_damaged);
        bag_columns::columns(py, &self.source, wanted, &topic, with_values)
    }

    /// Returns what the file holds, as a dictionary.
    fn survey<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let source = &self.source;
        let open = || {
            let mut reader = source.open()?;
            let survey = Survey::of_index(&mut reader, &*source.outline()?)?;
            Ok::<_, Error>((source.open()?, survey))
        };
        let (mut reader, survey) = detached(py, open).raised(py)?;
        let survey = match survey {
            Some(survey) => survey,
            None => {
                let mut survey = Survey::default();
                while detached(py, || survey.read_some(&mut reader)).raised(py)? {
                    py.check_signals()?;
                }
                let has_index = || Index::read(&source.path).is_ok_and(|index| index.is_some());
                survey.is_finished = reader.is_whole() && detached(py, has_index);
                survey
            }
        };
        told(py, survey, reader.file_len())
    }

    fn __repr__(&self) -> String {
        format!("<BagFile '{}'>", self.source.path.display())
    }
}

fn told<'py>(py: Python<'py>, survey: Survey, len: u64) -> PyResult<Bound<'py, PyDict>> {
    let told = PyDict::new(py);
    let (profile, library) =
        survey.header.map(|header| (header.profile, header.library)).unwrap_or_default();
    told.set_item("profile", profile)?;
    told.set_item("library", library)?;
    told.set_item("bytes", len)?;
    told.set_item("finished", survey.is_finished)?;
    told.set_item("faults", survey.faults)?;
    told.set_item("metadata", survey.metadata)?;
    told.set_item("attachments", survey.attachments)?;
    let channels = PyList::empty(py);
    for Counted { channel, schema, messages, times } in survey.channels.into_values() {
        let of = BagChannel::new(channel, schema);
        let one = PyDict::new(py);
        let (first, last) = times.unzip();
        one.set_item("topic", &of.channel.topic)?;
        one.set_item("encoding", &of.channel.message_encoding)?;
        one.set_item("metadata", &of.channel.metadata)?;
        one.set_item("messages", messages)?;
        one.set_item("first", first)?;
        one.set_item("last", last)?;
        one.set_item("payload", of.described.text())?;
        let schema = of.schema.as_ref();
        one.set_item("schema", schema.map(|schema| &schema.header.name))?;
        one.set_item("schema_encoding", schema.map(|schema| &schema.header.encoding))?;
        one.set_item("schema_data", schema.map(|schema| PyBytes::new(py, &schema.data)))?;
        channels.append(one)?;
    }
    told.set_item("channels", channels)?;
    Ok(told)
}
