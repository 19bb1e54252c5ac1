//! The writer: messages gather in a group, and a group goes into the file by one system call.
//!
//! A group's records, in this order:
//!
//! | record | for |
//! | --- | --- |
//! | Schema, Channel | those that are new; a reader meets them before their messages |
//! | Chunk | the messages; its lengths are known, so that it is whole as soon as its bytes are there |
//! | Message Index | where each channel's messages are in the chunk |
//! | Metadata, Attachment | what the caller puts in |
//! | Metadata `outlive.positions` | the end of the group, and how far each source is in the file |
//!
//! A writer that dies leaves whole groups and at most a part of one behind them, which
//! [`Writer::resume`] cuts off. A group without its last record is not whole, even if its messages
//! can be read: the positions that hold for them are missing.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::Path;
use std::sync::Arc;

use mcap::MAGIC;
use mcap::records::{AttachmentHeader, ChunkHeader, Header, MessageHeader, op};

use crate::contents::{Contents, check_size, map_len};
use crate::error::Error;
use crate::group::{COPIED, Group};
use crate::lock::lock;
use crate::put::write_all_at;
use crate::record::{self, MAX_CHUNK, MAX_SMALL};

/// The name of the metadata that ends a group.
pub const POSITIONS: &str = "outlive.positions";

/// How far each source is in the file: texts of the caller's.
pub type Positions = BTreeMap<String, String>;

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Not at all: long payloads go into the file from where they lie.
    #[default]
    None,
    /// By zstd, at this level.
    Zstd(i32),
    /// By LZ4, at this level.
    Lz4(u32),
}

impl Compression {
    /// Returns the name that the format has for it.
    pub fn name(self) -> &'static str {
        match self {
            Compression::None => "",
            Compression::Zstd(_) => "zstd",
            Compression::Lz4(_) => "lz4",
        }
    }
}

/// When the writer waits until the disk has what was written. A power cut takes what the disk does
/// not have; the death of a process takes nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sync {
    /// Never: the kernel writes when it sees fit.
    #[default]
    Never,
    /// When the file is finished.
    OnFinish,
    /// After each group.
    EachFlush,
}

/// How a file is written.
#[derive(Clone, Debug)]
pub struct Options {
    /// The profile in the file's header: what its topics and schemas follow, such as `ros2`.
    pub profile: String,
    /// What wrote the file.
    pub library: String,
    /// How chunks are compressed.
    pub compression: Compression,
    /// When the writer waits for the disk.
    pub sync: Sync,
    /// Ends each group with its positions. Without them no writer can go on in the file after a
    /// death; what a file holds is readable all the same.
    pub resumable: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            profile: String::new(),
            library: concat!("outlive-mcap ", env!("CARGO_PKG_VERSION")).to_owned(),
            compression: Compression::None,
            sync: Sync::Never,
            resumable: true,
        }
    }
}

/// Writes one file. `O` is what keeps long payloads where they are until they are in the file.
///
/// # If a process dies
/// The file holds every group whose [`flush`](Writer::flush) has returned, and is readable up to
/// there. [`Writer::resume`] continues it.
pub struct Writer<O = Vec<u8>> {
    pub(crate) file: Arc<File>,
    pub(crate) path: Arc<Path>,
    pub(crate) options: Options,
    /// Where the last whole group ends.
    pub(crate) end: u64,
    /// Parts of a group may lie behind `end`.
    pub(crate) torn: bool,
    pub(crate) finished: bool,
    pub(crate) contents: Contents,
    pub(crate) positions: Positions,
    group: Group<O>,
    /// Each channel's messages in the open group: time and offset.
    index: Vec<Vec<(u64, u64)>>,
    /// The channels that have messages in the open group.
    touched: Vec<u16>,
    /// Records that the next group begins with.
    pub(crate) fresh: Vec<u8>,
    /// Records that stand behind the chunk.
    extra: Vec<u8>,
    extra_metadata: u32,
    extra_attachments: u32,
    /// Used by each flush anew.
    head: Vec<u8>,
    tail: Vec<u8>,
    packed: Vec<u8>,
}

impl<O: AsRef<[u8]>> Writer<O> {
    /// Makes a new file, and locks it: no other process writes it while this writer lives.
    ///
    /// # Errors
    /// The system's, also when the file exists; [`Error::NoSpace`].
    ///
    /// # If a process dies
    /// The file may be empty or hold a part of its first record; [`Writer::resume`] takes it for new.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Writer<O>, Error> {
        let path = path.as_ref();
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|error| Error::io("make", path, error))?;
        lock(&file, path)?;
        let mut writer = Writer::over(file, path, options);
        writer.begin()?;
        if writer.options.sync != Sync::Never {
            // The name, too, outlives a power cut.
            let folder = match path.parent() {
                Some(folder) if folder != Path::new("") => folder,
                _ => Path::new("."),
            };
            let synced = File::open(folder).and_then(|folder| folder.sync_all());
            synced.map_err(|error| Error::io("sync the folder of", path, error))?;
        }
        Ok(writer)
    }

    pub(crate) fn over(file: File, path: &Path, options: Options) -> Writer<O> {
        Writer {
            file: Arc::new(file),
            path: path.into(),
            options,
            end: 0,
            torn: false,
            finished: false,
            contents: Contents::default(),
            positions: Positions::new(),
            group: Group::new(),
            index: Vec::new(),
            touched: Vec::new(),
            fresh: Vec::new(),
            extra: Vec::new(),
            extra_metadata: 0,
            extra_attachments: 0,
            head: Vec::new(),
            tail: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Writes the file's beginning: its first group, which has no messages.
    pub(crate) fn begin(&mut self) -> Result<(), Error> {
        let mut bytes = MAGIC.to_vec();
        let Options { profile, library, .. } = &self.options;
        check_size("header", profile.len() + library.len())?;
        let header = Header { profile: profile.clone(), library: library.clone() };
        record::push(&mut bytes, op::HEADER, &header);
        if self.options.resumable {
            record::push_metadata(&mut bytes, POSITIONS, &self.positions);
            self.contents.metadata += 1;
        }
        let written = write_all_at(&self.file, &mut [IoSlice::new(&bytes)], self.end);
        written.map_err(|error| self.failed("write", error))?;
        self.end = bytes.len() as u64;
        Ok(())
    }

    /// Adds a schema, and returns its number; that of the same schema if the file has it already.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::TooMany`].
    pub fn add_schema(&mut self, name: &str, encoding: &str, data: &[u8]) -> Result<u16, Error> {
        self.contents.add_schema(&mut self.fresh, name, encoding, data)
    }

    /// Adds a channel, and returns its number; that of the same channel if the file has it already.
    /// The schema's number 0 says that there is none.
    ///
    /// # Errors
    /// [`Error::UnknownSchema`], [`Error::TooLarge`], [`Error::TooMany`].
    pub fn add_channel(
        &mut self,
        schema_id: u16,
        topic: &str,
        message_encoding: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<u16, Error> {
        let Writer { contents, fresh, .. } = self;
        contents.add_channel(fresh, schema_id, topic, message_encoding, metadata)
    }

    /// Puts a message into the open group, and copies its payload.
    ///
    /// # Errors
    /// [`Error::UnknownChannel`]; [`Error::GroupFull`], after which a flush makes room;
    /// [`Error::TooLarge`].
    #[inline]
    pub fn put(&mut self, header: &MessageHeader, payload: &[u8]) -> Result<(), Error> {
        self.check(header)?;
        let offset = self.group.copy(header, &[], payload)?;
        self.note(header, offset);
        Ok(())
    }

    /// Puts a message into the open group, whose payload its owner keeps in place until the group is
    /// in the file. A short payload is copied, and its owner dropped at once.
    ///
    /// # Errors
    /// As those of [`put`](Writer::put).
    #[inline]
    pub fn put_owned(&mut self, header: &MessageHeader, owner: O) -> Result<(), Error> {
        self.put_owned_behind(header, &[], owner)
    }

    /// Does the same with a few bytes before the owner's, which are copied: the head of an encoding.
    ///
    /// # Errors
    /// As those of [`put`](Writer::put).
    #[inline]
    pub fn put_owned_behind(
        &mut self,
        header: &MessageHeader,
        prefix: &[u8],
        owner: O,
    ) -> Result<(), Error> {
        self.check(header)?;
        let offset = match owner.as_ref().len() <= COPIED {
            true => self.group.copy(header, prefix, owner.as_ref())?,
            false => self.group.keep(header, prefix, owner)?,
        };
        self.note(header, offset);
        Ok(())
    }

    #[inline]
    fn check(&mut self, header: &MessageHeader) -> Result<(), Error> {
        // A channel without messages in this group may have no index yet, so the index is no proof.
        let known = self.index.get(usize::from(header.channel_id)).is_some_and(|i| !i.is_empty());
        if known { Ok(()) } else { self.check_slow(header) }
    }

    #[cold]
    fn check_slow(&mut self, header: &MessageHeader) -> Result<(), Error> {
        let channel = header.channel_id;
        if self.finished {
            return Err(Error::Finished);
        }
        if !self.contents.channels.contains_key(&channel) {
            return Err(Error::UnknownChannel(channel));
        }
        if self.index.len() <= usize::from(channel) {
            self.index.resize_with(usize::from(channel) + 1, Vec::new);
        }
        Ok(())
    }

    #[inline]
    fn note(&mut self, header: &MessageHeader, offset: u64) {
        let index = &mut self.index[usize::from(header.channel_id)];
        if index.is_empty() {
            self.touched.push(header.channel_id);
        }
        index.push((header.log_time, offset));
    }

    /// Puts metadata into the open group.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::GroupFull`], [`Error::Finished`].
    pub fn put_metadata(
        &mut self,
        name: &str,
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), Error> {
        self.check_extra("metadata", name.len() + map_len(metadata), MAX_SMALL)?;
        record::push_metadata(&mut self.extra, name, metadata);
        self.extra_metadata += 1;
        Ok(())
    }

    /// Puts an attachment into the open group.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::GroupFull`], [`Error::Finished`].
    pub fn put_attachment(&mut self, header: &AttachmentHeader, data: &[u8]) -> Result<(), Error> {
        let len = header.name.len() + header.media_type.len() + data.len();
        self.check_extra("attachment", len, MAX_CHUNK)?;
        record::push_attachment(&mut self.extra, header, data);
        self.extra_attachments += 1;
        Ok(())
    }

    fn check_extra(&self, what: &'static str, len: usize, most: u64) -> Result<(), Error> {
        let (len, limit) = (len as u64, most - 1024);
        if self.finished {
            return Err(Error::Finished);
        }
        if len > limit {
            return Err(Error::TooLarge { what, len, limit });
        }
        match self.extra.len() as u64 + len > MAX_CHUNK {
            true => Err(Error::GroupFull),
            false => Ok(()),
        }
    }

    /// Returns how many bytes the open group holds, before they are compressed.
    pub fn open_len(&self) -> u64 {
        self.group.len() + self.extra.len() as u64
    }

    /// Returns how many messages the open group holds.
    pub fn open_messages(&self) -> u64 {
        self.group.messages()
    }

    /// Returns how long the file is: all of its whole groups.
    pub fn file_len(&self) -> u64 {
        self.end
    }

    /// Returns what the file's whole groups hold, and all schemas and channels.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Returns the positions that the last whole group ended with.
    pub fn positions(&self) -> &Positions {
        &self.positions
    }

    /// Returns the file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the open group, ended by these positions. Writes nothing if nothing is new. When it
    /// has returned, the death of any process takes nothing of the group.
    ///
    /// # Errors
    /// [`Error::NoSpace`] and the system's other errors: then the file ends after its last whole
    /// group, and the group is still open; flush again when there is room, or
    /// [`discard`](Writer::discard) it. [`Error::OtherPayload`], [`Error::Finished`].
    pub fn flush(&mut self, positions: &Positions) -> Result<(), Error> {
        if self.finished {
            return Err(Error::Finished);
        }
        let resumable = self.options.resumable;
        let moved = resumable && *positions != self.positions;
        let empty = self.group.messages() == 0 && self.fresh.is_empty() && self.extra.is_empty();
        if empty && !moved {
            return Ok(());
        }
        if resumable {
            check_size("record of positions", map_len(positions))?;
        }
        self.mend()?;
        let written = self.write_group(resumable.then_some(positions))?;
        self.end += written;
        self.close_group();
        if resumable {
            self.contents.metadata += 1;
            self.positions.clone_from(positions);
        }
        match self.options.sync {
            Sync::EachFlush => self.sync(),
            Sync::Never | Sync::OnFinish => Ok(()),
        }
    }

    /// Writes the group's bytes behind the last whole group; returns how many.
    fn write_group(&mut self, positions: Option<&Positions>) -> Result<u64, Error> {
        self.head.clear();
        self.head.extend_from_slice(&self.fresh);
        self.tail.clear();
        self.packed.clear();
        let mut pieces = Vec::new();
        if self.group.messages() > 0 {
            pieces = self.group.pieces()?;
            let crc = match self.options.compression {
                Compression::None => self.group.crc(),
                compression => {
                    let packed = pack(&pieces, compression, &mut self.packed);
                    pieces = vec![IoSlice::new(&self.packed)];
                    packed.map_err(|error| Error::io("compress a chunk of", &self.path, error))?
                }
            };
            let (message_start_time, message_end_time) = self.group.times();
            let header = ChunkHeader {
                message_start_time,
                message_end_time,
                uncompressed_size: self.group.len(),
                uncompressed_crc: crc,
                compression: self.options.compression.name().to_owned(),
                compressed_size: pieces.iter().map(|piece| piece.len() as u64).sum(),
            };
            record::push_chunk_head(&mut self.head, &header);
            self.touched.sort_unstable();
            for channel in &self.touched {
                let entries = &mut self.index[usize::from(*channel)];
                if !entries.is_sorted_by_key(|(time, _)| *time) {
                    entries.sort_by_key(|(time, _)| *time);
                }
                record::push_message_index(&mut self.tail, *channel, entries);
            }
        }
        self.tail.extend_from_slice(&self.extra);
        if let Some(positions) = positions {
            record::push_metadata(&mut self.tail, POSITIONS, positions);
        }
        pieces.insert(0, IoSlice::new(&self.head));
        pieces.push(IoSlice::new(&self.tail));
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        // If this process dies in here, a part of the group is behind the last whole one. A reader
        // that knows of no groups reads the records of it that are whole; a resumed writer cuts all
        // of it off.
        match write_all_at(&self.file, &mut pieces, self.end) {
            Ok(()) => Ok(len),
            Err(error) => Err(self.failed("write", error)),
        }
    }

    /// Counts the group in, which is in the file, and begins the next.
    fn close_group(&mut self) {
        if self.group.messages() > 0 {
            self.contents.count_chunk(self.group.times());
        }
        for channel in self.touched.drain(..) {
            let entries = &mut self.index[usize::from(channel)];
            self.contents.count_messages(channel, entries.len() as u64);
            entries.clear();
        }
        self.group.clear();
        self.fresh.clear();
        self.extra.clear();
        self.contents.metadata += std::mem::take(&mut self.extra_metadata);
        self.contents.attachments += std::mem::take(&mut self.extra_attachments);
    }

    /// Drops the open group's messages, metadata and attachments, and returns how many messages these
    /// were. Schemas and channels that are new stay for the next group.
    pub fn discard(&mut self) -> u64 {
        let messages = self.group.messages();
        for channel in self.touched.drain(..) {
            self.index[usize::from(channel)].clear();
        }
        self.group.clear();
        self.extra.clear();
        (self.extra_metadata, self.extra_attachments) = (0, 0);
        messages
    }

    /// Waits until the disk has what was written.
    ///
    /// # Errors
    /// The system's: then it is not known what of the last groups the disk has.
    pub fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|error| Error::io("sync", &self.path, error))
    }

    /// Returns a failed write's error, with the file cut back to its last whole group.
    #[cold]
    pub(crate) fn failed(&mut self, doing: &'static str, error: io::Error) -> Error {
        self.torn = true;
        // If this fails, too, the next flush tries it again before it writes.
        let _ = self.mend();
        Error::io(doing, &self.path, error)
    }

    /// Cuts off what a failed write has left behind the last whole group.
    pub(crate) fn mend(&mut self) -> Result<(), Error> {
        if self.torn {
            let cut = self.file.set_len(self.end);
            cut.map_err(|error| Error::io("cut back", &self.path, error))?;
            self.torn = false;
        }
        Ok(())
    }
}

/// Compresses pieces into `packed`; returns the checksum of what they held.
fn pack(pieces: &[IoSlice<'_>], compression: Compression, packed: &mut Vec<u8>) -> io::Result<u32> {
    let mut crc = crc32fast::Hasher::new();
    let mut feed = |out: &mut dyn Write| -> io::Result<()> {
        for piece in pieces {
            crc.update(piece);
            out.write_all(piece)?;
        }
        Ok(())
    };
    match compression {
        Compression::None => feed(packed)?,
        Compression::Zstd(level) => {
            let mut encoder = zstd::stream::Encoder::new(packed, level)?;
            feed(&mut encoder)?;
            encoder.finish()?;
        }
        Compression::Lz4(level) => {
            let mut encoder = lz4::EncoderBuilder::new().level(level).build(packed)?;
            feed(&mut encoder)?;
            encoder.finish().1?;
        }
    }
    Ok(crc.finalize())
}
