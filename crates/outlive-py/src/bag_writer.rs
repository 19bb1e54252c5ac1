//! A recording that is written: `outlive/bag.py` has the class that users see.
//!
//! Positions say of each topic how many of its messages are in the file. They are in the group with the
//! messages that they count, so that a writer which is started again after a death goes on behind these.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use outlive::describe::Description;
use outlive_described::array::{self, Array};
use outlive_described::cdr::Encoded;
use outlive_described::form::Form;
use outlive_mcap::{Compression, Error, MessageHeader, Options, Positions, Sync, Writer};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::bytes::Given;
use crate::described::{self, Described};
use crate::errors::{Raised, raise, raise_errno};
use crate::handle_mutex::{HandleGuard, HandleMutex, process};
use crate::layout::Layout;
use crate::topic::Topic;
use crate::waiting::detached;

/// What is written of a recording; users have ``outlive.bag.Writer``.
#[pyclass(module = "outlive._outlive", frozen)]
pub(crate) struct BagWriter {
    file: HandleMutex<File>,
    path: PathBuf,
    /// How far the file was when it was opened.
    resumed: Positions,
    cut: u64,
    /// Which of a process and its forked children has it.
    process: u32,
}

/// Messages of one topic.
struct Channel {
    form: Form,
    described: Described,
    /// Of what is no array; made with the first message, so that a topic of arrays has theirs alone.
    number: Option<u16>,
    arrays: Vec<(Array, u16)>,
    /// How many messages the file has.
    next: u64,
}

struct File {
    writer: Writer,
    channels: HashMap<String, Channel>,
    positions: Positions,
    group_bytes: u64,
    flush_every: Duration,
    /// When the open group has to be written.
    flush_at: Option<Instant>,
    is_finished: bool,
    process: u32,
    copy: Vec<u8>,
}

impl File {
    fn flush(&mut self) -> Result<(), Error> {
        self.writer.flush(&self.positions)?;
        self.flush_at = None;
        Ok(())
    }

    /// Makes room in the open group, before a message comes into it: a message whose call fails is not in the
    /// file.
    fn flush_if_due(&mut self, len: usize) -> Result<(), Error> {
        let is_full = self.writer.open_len() >= self.group_bytes
            || self.writer.open_len().saturating_add(len as u64 + 1024) > outlive_mcap::MAX_CHUNK
            || self.writer.open_messages() >= 1 << 20;
        let is_old = self.flush_at.is_some_and(|moment| Instant::now() >= moment);
        if self.writer.open_messages() > 0 && (is_full || is_old) { self.flush() } else { Ok(()) }
    }

    fn put(
        &mut self,
        topic: &str,
        bytes: &[u8],
        own: Option<[u8; 32]>,
        sequence: Option<u32>,
        times: (u64, u64),
    ) -> Result<u64, Error> {
        let File { writer, channels, copy, .. } = self;
        let Some(channel) = channels.get_mut(topic) else { return Err(Error::UnknownChannel(0)) };
        let mut bytes = bytes;
        let found = own.as_ref().and_then(|own| array::find(own, bytes));
        let channel_id = match found {
            Some(found) => {
                bytes = &bytes[..found.len];
                match channel.arrays.iter().find(|(array, _)| found.is(array)) {
                    Some((_, number)) => *number,
                    None => {
                        let array = found.array();
                        let number = channel.form.channel_of_arrays(topic, &array, writer)?;
                        channel.arrays.push((array, number));
                        number
                    }
                }
            }
            None => match channel.number {
                Some(number) => number,
                None => {
                    let number = channel.form.channel(topic, writer)?;
                    channel.number = Some(number);
                    number
                }
            },
        };
        let (log_time, publish_time) = times;
        let number = channel.next;
        let sequence = sequence.unwrap_or(number as u32);
        let header = MessageHeader { channel_id, sequence, log_time, publish_time };
        let encoded = channel.form.cdr.as_ref().and_then(|cdr| cdr.encode(bytes, copy));
        match encoded {
            Some(Encoded::Copied) => writer.put(&header, copy)?,
            Some(Encoded::Direct { prefix, len }) => {
                copy.clear();
                copy.extend_from_slice(prefix.bytes());
                copy.extend_from_slice(&bytes[..len]);
                writer.put(&header, copy)?;
            }
            None => writer.put(&header, bytes)?,
        }
        channel.next += 1;
        self.positions.insert(format!("{TOPIC}{topic}"), channel.next.to_string());
        let span = self.flush_every;
        self.flush_at.get_or_insert_with(|| Instant::now() + span);
        Ok(number)
    }
}

/// What stands before a topic's name in the positions.
const TOPIC: &str = "topic.";

impl Drop for File {
    /// Not closed, as where its program ends by an exception: what was written stays, without an index. A forked
    /// child's copy is its parent's file.
    fn drop(&mut self) {
        if !self.is_finished && self.process == process() {
            let _ = self.flush();
        }
    }
}

impl BagWriter {
    fn lock(&self, py: Python<'_>) -> PyResult<HandleGuard<'_, File>> {
        if self.process != process() {
            let why = "a forked child does not write its parent's file: it makes its own";
            return Err(raise(py, "NotYours", why));
        }
        self.file.lock(py)
    }
}

fn compression(name: Option<&str>) -> PyResult<Compression> {
    match name {
        None => Ok(Compression::None),
        Some("zstd") => Ok(Compression::Zstd(3)),
        Some("lz4") => Ok(Compression::Lz4(1)),
        Some(other) => {
            let why = format!("compression is 'zstd', 'lz4' or None, not {other:?}");
            Err(PyValueError::new_err(why))
        }
    }
}

#[pymethods]
impl BagWriter {
    /// Makes a file, or continues it.
    #[new]
    #[pyo3(signature = (path, resume, compression, sync, flush_every, group_bytes))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        resume: bool,
        compression: Option<&str>,
        sync: bool,
        flush_every: f64,
        group_bytes: u64,
    ) -> PyResult<BagWriter> {
        let options = Options {
            // rosbags reads no file without it.
            profile: "ros2".to_owned(),
            library: concat!("outlive ", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: self::compression(compression)?,
            sync: if sync { Sync::EachFlush } else { Sync::Never },
            ..Options::default()
        };
        let flush_every = match flush_every {
            f64::INFINITY => Duration::from_secs(100 * 365 * 86_400),
            span => Duration::try_from_secs_f64(span).map_err(|_| {
                PyValueError::new_err("flush_every is a number of seconds, not negative")
            })?,
        };
        let open = || match resume {
            false => Writer::create(&path, options.clone()).map(|writer| (writer, None)),
            true => match Writer::resume(&path, options.clone()) {
                Err(Error::Io { error, .. }) if error.kind() == std::io::ErrorKind::NotFound => {
                    Writer::create(&path, options.clone()).map(|writer| (writer, None))
                }
                other => other.map(|(writer, tail)| (writer, Some(tail))),
            },
        };
        let (writer, tail) = match detached(py, open) {
            Err(Error::Io { error, .. }) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                let why = format!(
                    "{} is there already: resume=True continues the file of such a writer; another file \
                     needs another name",
                    path.display()
                );
                return Err(raise_errno(py, "AlreadyExists", 17, why));
            }
            Err(Error::NotResumable { path, why }) => {
                let why = format!(
                    "{} cannot be continued (resume=True): {why}; write another file",
                    path.display()
                );
                return Err(raise(py, "WrongKind", why));
            }
            opened => opened.raised(py)?,
        };
        let tail = tail.unwrap_or_default();
        let file = File {
            writer,
            channels: HashMap::new(),
            positions: tail.positions.clone(),
            group_bytes,
            flush_every,
            flush_at: None,
            is_finished: false,
            process: process(),
            copy: Vec::new(),
        };
        let (resumed, cut) = (tail.positions, tail.cut);
        Ok(BagWriter { file: HandleMutex::new(file), path, resumed, cut, process: process() })
    }

    /// Says what the messages of a topic are: of a payload, or as those of a topic of a domain.
    #[pyo3(signature = (topic, payload, attributes, like))]
    fn channel(
        &self,
        py: Python<'_>,
        topic: String,
        payload: Option<&Bound<'_, PyAny>>,
        attributes: BTreeMap<String, String>,
        like: Option<&Bound<'_, Topic>>,
    ) -> PyResult<()> {
        let (form, description) = match like {
            Some(like) => {
                let core = like.get().topic.get()?;
                (Form::of(&core).raised(py)?, core.description().raised(py)?)
            }
            None => {
                let description: Option<Description> = described::given(payload)?;
                (Form::new(description.clone(), &attributes, BTreeMap::new()), description)
            }
        };
        let mut file = self.lock(py)?;
        if let Some(known) = file.channels.get(&topic) {
            if known.described.description() == description.as_ref() {
                return Ok(());
            }
            let was = known.described.text().unwrap_or_else(|| "not described".to_owned());
            let why = format!("the messages of '{topic}' are {was} already");
            return Err(raise(py, "WrongKind", why));
        }
        // Also of a predecessor.
        let told = file.positions.get(&format!("{TOPIC}{topic}"));
        let next = told.and_then(|next| next.parse().ok()).unwrap_or(0);
        let described = Described::new(description);
        let channel = Channel { form, described, number: None, arrays: Vec::new(), next };
        file.channels.insert(topic, channel);
        Ok(())
    }

    /// Returns whether it was said what the messages of a topic are.
    fn has_channel(&self, py: Python<'_>, topic: &str) -> PyResult<bool> {
        Ok(self.lock(py)?.channels.contains_key(topic))
    }

    /// Writes a message, and returns its number among the topic's.
    #[pyo3(signature = (topic, value, log_time, publish_time, sequence))]
    fn write(
        &self,
        py: Python<'_>,
        topic: &str,
        value: &Bound<'_, PyAny>,
        log_time: u64,
        publish_time: u64,
        sequence: Option<u32>,
    ) -> PyResult<u64> {
        let mut file = self.lock(py)?;
        let Some(channel) = file.channels.get(topic) else {
            return Err(PyValueError::new_err(format!("nothing said what '{topic}' is")));
        };
        let described = &channel.described;
        // Python's own code runs in here, and may raise; the file is as it was then.
        let value = described.message(value)?;
        let given = Given::array_of(&value).map_err(|error| {
            if described.encoding().is_some() || !error.is_instance_of::<PyTypeError>(py) {
                return error;
            }
            let why = error.value(py);
            PyTypeError::new_err(format!(
                "{why}: topic('{topic}', payload) says first what its values are, as payload='json' does of objects"
            ))
        })?;
        let is_described = described.encoding().is_some();
        let layout = if is_described { None } else { given.layout()? };
        described.check(given.len())?;
        let own = layout.as_ref().map(Layout::to_own);
        let text = layout.as_ref().map_or(&[][..], Layout::description);
        let mut bytes = given.row(py)?;
        if !text.is_empty() {
            bytes.to_mut().extend_from_slice(text);
        }
        let times = (log_time, publish_time);
        let len = 2 * bytes.len() + 64;
        detached(py, || file.flush_if_due(len)).raised(py)?;
        file.put(topic, &bytes, own, sequence, times).raised(py)
    }

    /// Puts metadata into the file: a name, and texts.
    fn put_metadata(
        &self,
        py: Python<'_>,
        name: &str,
        texts: BTreeMap<String, String>,
    ) -> PyResult<()> {
        self.lock(py)?.writer.put_metadata(name, &texts).raised(py)
    }

    /// Returns when all that was written is in the file.
    #[pyo3(signature = (positions))]
    fn flush(&self, py: Python<'_>, positions: Option<BTreeMap<String, String>>) -> PyResult<()> {
        let mut file = self.lock(py)?;
        for (key, value) in positions.into_iter().flatten() {
            if key.starts_with(TOPIC) {
                let why = format!("'{TOPIC}' begins the positions that the writer itself has");
                return Err(PyValueError::new_err(why));
            }
            file.positions.insert(key, value);
        }
        detached(py, || file.flush()).raised(py)
    }

    /// Writes the file's index, and closes it. A second time it does nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.file.is_closing() {
            return Ok(());
        }
        {
            let mut file = self.lock(py)?;
            let finish = |file: &mut File| {
                let File { writer, positions, .. } = file;
                writer.finish(positions)
            };
            // On a full disk the file stays open, and can be closed again.
            detached(py, || finish(&mut file)).raised(py)?;
            file.is_finished = true;
        }
        self.file.close(py).map(drop)
    }

    /// How many of a topic's messages are in the file or will be.
    fn count(&self, py: Python<'_>, topic: &str) -> PyResult<u64> {
        let file = self.lock(py)?;
        if let Some(channel) = file.channels.get(topic) {
            return Ok(channel.next);
        }
        let told = file.positions.get(&format!("{TOPIC}{topic}"));
        Ok(told.and_then(|next| next.parse().ok()).unwrap_or(0))
    }

    /// The positions that the file had when it was opened.
    #[getter]
    fn resumed(&self) -> Positions {
        let own = |(key, _): &(&String, &String)| !key.starts_with(TOPIC);
        self.resumed.iter().filter(own).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// How many bytes of a group that was not whole were cut off.
    #[getter]
    fn cut(&self) -> u64 {
        self.cut
    }

    /// How long the file is.
    #[getter]
    fn file_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.writer.file_len())
    }

    /// Whether it is closed.
    #[getter]
    fn closed(&self) -> bool {
        self.file.is_closing()
    }

    fn __repr__(&self) -> String {
        let state = if self.file.is_closing() { ", closed" } else { "" };
        format!("<BagWriter '{}'{state}>", self.path.display())
    }
}
