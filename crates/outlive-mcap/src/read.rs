//! The reader: a file's records in their order, chunks unpacked, in the memory of one chunk.
//!
//! Bytes are read and not mapped: a file that another process cuts short is an error and no signal.
//! After an error the reader goes on behind what was damaged, so the caller decides what an error
//! means: to stop, to count, or to keep what is whole.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use mcap::records::{AttachmentHeader, Channel, ChunkHeader, Header, MessageHeader, Record, op};

use crate::by_number::ByNumber;
use crate::contents::{Schema, map_len};
use crate::error::Error;
use crate::in_place::Part;
use crate::outline::Outline;
use crate::record::{self, HEAD, MAX_CHUNK, u64_at};
use crate::scan::{Place, Scan, Step};

/// The most bytes that all schemas and channels of a file may have together: they stay in memory.
const MAX_DEFINITIONS: u64 = 256 << 20;

/// A message of a file.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its channel.
    pub channel: &'a Arc<Channel>,
    /// Its sequence number and times.
    pub header: MessageHeader,
    /// Its payload.
    pub data: &'a [u8],
    /// The chunk that it lies in, and where the payload begins there. As long as a caller keeps the chunk, the
    /// payload stays as it is. `None`: the message lies in no chunk.
    pub chunk: Option<(&'a Arc<Vec<u8>>, usize)>,
}

/// What a file holds, besides what only serves to find it.
#[derive(Debug)]
pub enum Item<'a> {
    /// The file's first record.
    Header(Header),
    /// A schema, when it is first met.
    Schema(&'a Arc<Schema>),
    /// A channel, when it is first met.
    Channel(&'a Arc<Channel>),
    /// A message.
    Message(Message<'a>),
    /// Metadata: a name, and texts.
    Metadata(mcap::records::Metadata),
    /// An attachment with its data.
    Attachment(AttachmentHeader, &'a [u8]),
}

/// The chunk that is open.
struct Chunk {
    offset: u64,
    /// Where its next record begins.
    at: usize,
    /// Why there is not more of it.
    rest: Option<Error>,
}

/// What was found, before it is lent.
pub(crate) enum Found {
    Header(Header),
    Schema(u16),
    Channel(u16),
    InChunk(MessageHeader, Range<usize>),
    InFile(MessageHeader, Place),
    Metadata(mcap::records::Metadata),
    Attachment(AttachmentHeader, u64, u64),
}

/// Reads one file from its beginning.
pub struct Reader {
    pub(crate) file: Arc<File>,
    pub(crate) scan: Scan,
    max_chunk: u64,
    chunk: Option<Chunk>,
    /// Or a chunk is open whose records are still in the file.
    pub(crate) part: Option<Part>,
    /// Whether the caller can take messages that are still in the file.
    pub(crate) stays: bool,
    /// The open chunk's records. While a caller keeps them, too, the next chunk gets memory of its own.
    unpacked: Arc<Vec<u8>>,
    packed: Vec<u8>,
    schemas: ByNumber<Schema>,
    pub(crate) channels: ByNumber<Channel>,
    defined: u64,
    /// The edition of the outline whose schemas and channels were taken in last.
    edition: u64,
    /// Records from here on are not read.
    until: u64,
    /// The data's end was met.
    whole: bool,
    ended: bool,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// The system's; [`Error::NotMcap`], [`Error::OtherVersion`], [`Error::Cut`].
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        let path: Arc<Path> = path.as_ref().into();
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let file = Arc::new(file);
        let scan = Scan::new(&file, &path)?;
        Ok(Reader {
            file,
            scan,
            max_chunk: MAX_CHUNK,
            chunk: None,
            part: None,
            stays: false,
            unpacked: Arc::default(),
            packed: Vec::new(),
            schemas: ByNumber::default(),
            channels: ByNumber::default(),
            defined: 0,
            edition: 0,
            until: u64::MAX,
            whole: false,
            ended: false,
        })
    }

    /// Sets the most bytes that a chunk may have, unpacked; what is larger is
    /// [`Error::TooLarge`]. Without it 1 GiB, which is the most that a [`Writer`](crate::Writer) writes.
    #[must_use]
    pub fn max_chunk(mut self, bytes: u64) -> Reader {
        self.max_chunk = bytes;
        self
    }

    /// Goes on at a chunk or a message that begins there, also back; if none does, because an index lies, at the
    /// file's beginning. Schemas and channels that were met stay known, and those of the outline are known from
    /// here on. To read one chunk and no more: [`seek_chunk`](Reader::seek_chunk).
    pub fn seek(&mut self, offset: u64, outline: &Outline) {
        self.scan.go_to(offset);
        let begins = match self.scan.step() {
            Ok(Step::Record(place)) => matches!(place.op, op::CHUNK | op::MESSAGE),
            Ok(Step::Torn(_)) => true,
            Ok(Step::End) | Err(_) => false,
        };
        self.go_on_at(if begins { offset } else { mcap::MAGIC.len() as u64 }, outline);
    }

    /// Goes on at the chunk that begins there, also back, and reads that chunk alone: behind it
    /// [`next`](Reader::next) returns `None`. Schemas and channels are known as behind [`seek`](Reader::seek).
    ///
    /// A caller that reads all chunks of an outline by this gets no message twice, also if the file's index lies.
    ///
    /// # Errors
    /// The system's. [`Error::Damaged`] if no chunk begins there, or if it reaches into the outline's next one, as
    /// where an index lies. Then nothing is next.
    pub fn seek_chunk(&mut self, offset: u64, outline: &Outline) -> Result<(), Error> {
        self.go_on_at(offset, outline);
        self.ended = true;
        let place = match self.scan.step()? {
            Step::Record(place) if place.op == op::CHUNK => place,
            _ => return Err(Error::damaged(offset, "the index says that a chunk begins here")),
        };
        let next = outline.chunks.partition_point(|chunk| chunk.offset <= offset);
        if outline.chunks.get(next).is_some_and(|next| place.end() > next.offset) {
            return Err(Error::damaged(offset, "a chunk reaches into the next one of the index"));
        }
        self.scan.go_to(offset);
        (self.until, self.ended) = (offset + 1, false);
        Ok(())
    }

    fn go_on_at(&mut self, offset: u64, outline: &Outline) {
        self.scan.go_to(offset);
        (self.chunk, self.part, self.ended, self.whole) = (None, None, false, false);
        self.until = u64::MAX;
        // They stay: a file may have 65,536 of them, and thousands of chunks.
        if std::mem::replace(&mut self.edition, outline.edition) == outline.edition {
            return;
        }
        for (id, schema) in &outline.schemas {
            self.schemas.add(*id, || schema.clone());
        }
        for (id, channel) in &outline.channels {
            self.channels.add(*id, || channel.clone());
        }
    }

    /// Reads no record that begins at that offset or behind it: [`next`](Reader::next) returns `None` there.
    /// [`seek`](Reader::seek) lifts it.
    pub fn stop_at(&mut self, offset: u64) {
        self.until = offset;
    }

    /// Returns whether the end of the file's data was met: false for a file whose writer died.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    /// Returns how long the file is.
    pub fn file_len(&self) -> u64 {
        self.scan.file_len()
    }

    /// Returns a schema that was met.
    pub fn schema(&self, id: u16) -> Option<&Arc<Schema>> {
        self.schemas.get(id)
    }

    /// Returns the next thing in the file; `None` at the end of its data.
    ///
    /// # Errors
    /// [`Error::Cut`] where the file ends in the middle of a record, [`Error::Damaged`],
    /// [`Error::UnknownCompression`], [`Error::TooLarge`]: the next call goes on behind that. After an
    /// error of the system nothing more comes.
    #[expect(clippy::should_implement_trait, reason = "what it returns is lent")]
    pub fn next(&mut self) -> Result<Option<Item<'_>>, Error> {
        match self.find_next()? {
            Some(found) => self.lend(found).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn find_next(&mut self) -> Result<Option<Found>, Error> {
        let found = self.find();
        // Behind a file's end is nothing, also behind one that came since the file was opened.
        if let Err(Error::Io { .. } | Error::Cut { .. }) = &found {
            (self.ended, self.chunk, self.part) = (true, None, None);
        }
        found
    }

    pub(crate) fn lend(&mut self, found: Found) -> Result<Item<'_>, Error> {
        Ok(match found {
            Found::Header(header) => Item::Header(header),
            Found::Schema(id) => Item::Schema(self.schemas.there(id)),
            Found::Channel(id) => Item::Channel(self.channels.there(id)),
            Found::Metadata(metadata) => Item::Metadata(metadata),
            Found::InChunk(header, range) => {
                let channel = self.channels.there(header.channel_id);
                let chunk = Some((&self.unpacked, range.start));
                Item::Message(Message { channel, header, data: &self.unpacked[range], chunk })
            }
            Found::InFile(header, place) => {
                let body = self.scan.read(place.body(), place.len as usize)?;
                let channel = self.channels.there(header.channel_id);
                Item::Message(Message { channel, header, data: &body[22..], chunk: None })
            }
            Found::Attachment(header, at, len) => {
                Item::Attachment(header, self.scan.read(at, len as usize)?)
            }
        })
    }

    fn find(&mut self) -> Result<Option<Found>, Error> {
        loop {
            if self.chunk.is_some() {
                if let Some(found) = self.find_in_chunk()? {
                    return Ok(Some(found));
                }
                continue;
            }
            if self.part.is_some() {
                if let Some(found) = self.find_in_part()? {
                    return Ok(Some(found));
                }
                continue;
            }
            if self.ended {
                return Ok(None);
            }
            match self.scan.step()? {
                Step::Record(place) | Step::Torn(place) if place.offset >= self.until => {
                    self.ended = true;
                    return Ok(None);
                }
                Step::End => {
                    self.ended = true;
                    return Ok(None);
                }
                Step::Torn(place) => {
                    self.ended = true;
                    if place.op == op::CHUNK && place.len > 0 {
                        self.open_chunk(&place, true)?;
                        continue;
                    }
                    return Err(Error::Cut { offset: place.offset });
                }
                Step::Record(place) => {
                    if let Some(found) = self.find_outside(&place)? {
                        return Ok(Some(found));
                    }
                }
            }
        }
    }

    /// Reads a record that stands outside of chunks.
    fn find_outside(&mut self, place: &Place) -> Result<Option<Found>, Error> {
        match place.op {
            op::CHUNK => {
                self.open_chunk(place, false)?;
                Ok(None)
            }
            op::DATA_END => {
                (self.whole, self.ended) = (true, true);
                Ok(None)
            }
            op::FOOTER => {
                self.ended = true;
                Ok(None)
            }
            op::MESSAGE => {
                if place.len < 22 || place.len > self.max_chunk {
                    return Err(self.bad_length(place));
                }
                let header = message_header(self.scan.read(place.body(), 22)?);
                self.check_channel(&header, place.offset)?;
                Ok(Some(Found::InFile(header, *place)))
            }
            op::ATTACHMENT => {
                let (header, at, len) = self.scan.attachment(place)?;
                if place.len > self.max_chunk {
                    return Err(self.bad_length(place));
                }
                let body = self.scan.read(place.body(), place.len as usize)?;
                let (bytes, crc) = body.split_at(body.len() - 4);
                let crc = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
                if crc != 0 && crc != crc32fast::hash(bytes) {
                    return Err(Error::damaged(place.offset, "an attachment's checksum is wrong"));
                }
                Ok(Some(Found::Attachment(header, at, len)))
            }
            op::HEADER | op::SCHEMA | op::CHANNEL | op::METADATA => {
                match self.scan.parse(place)? {
                    Record::Header(header) => Ok(Some(Found::Header(header))),
                    Record::Metadata(metadata) => Ok(Some(Found::Metadata(metadata))),
                    Record::Schema { header, data } => {
                        let schema = Schema { header, data: data.into_owned() };
                        self.define_schema(schema, place.offset)
                    }
                    Record::Channel(channel) => self.define_channel(channel, place.offset),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn bad_length(&self, place: &Place) -> Error {
        match place.len > self.max_chunk {
            true => Error::TooLarge { what: "record", len: place.len, limit: self.max_chunk },
            false => Error::damaged(place.offset, "a message is shorter than its head"),
        }
    }

    /// Looks at the open chunk's next record; closes the chunk at its end.
    fn find_in_chunk(&mut self) -> Result<Option<Found>, Error> {
        let Some(chunk) = &mut self.chunk else { return Ok(None) };
        let (offset, at) = (chunk.offset, chunk.at);
        let left = &self.unpacked[at..];
        let len = match left.len() {
            0 => None,
            _ => u64_at(left, 1).filter(|len| *len <= left.len().saturating_sub(HEAD) as u64),
        };
        let Some(len) = len else {
            let error = match (chunk.rest.take(), left.len()) {
                (Some(error), _) => Some(error),
                (None, 0) => None,
                (None, _) => {
                    Some(Error::damaged(offset, "a record in a chunk is longer than the chunk"))
                }
            };
            self.chunk = None;
            return error.map_or(Ok(None), Err);
        };
        let (op, body) = (left[0], at + HEAD..at + HEAD + len as usize);
        chunk.at = body.end;
        match op {
            op::MESSAGE if len < 22 => {
                Err(Error::damaged(offset, "a message is shorter than its head"))
            }
            op::MESSAGE => {
                let header = message_header(&self.unpacked[body.clone()]);
                self.check_channel(&header, offset)?;
                Ok(Some(Found::InChunk(header, body.start + 22..body.end)))
            }
            op::SCHEMA | op::CHANNEL => match record::parse(op, &self.unpacked[body], offset)? {
                Record::Schema { header, data } => {
                    let schema = Schema { header, data: data.into_owned() };
                    self.define_schema(schema, offset)
                }
                Record::Channel(channel) => self.define_channel(channel, offset),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }

    pub(crate) fn check_channel(&self, header: &MessageHeader, offset: u64) -> Result<(), Error> {
        if self.channels.get(header.channel_id).is_some() {
            return Ok(());
        }
        let why = format!("a message has the channel {}, which is not there", header.channel_id);
        Err(Error::damaged(offset, why))
    }

    pub(crate) fn define_schema(
        &mut self,
        schema: Schema,
        offset: u64,
    ) -> Result<Option<Found>, Error> {
        let id = schema.header.id;
        if id == 0 {
            return Err(Error::damaged(offset, "a schema has the number 0"));
        }
        if let Some(known) = self.schemas.get(id) {
            return match **known == schema {
                true => Ok(None),
                false => Err(Error::damaged(offset, format!("two schemas have the number {id}"))),
            };
        }
        let header = &schema.header;
        self.count(header.name.len() + header.encoding.len() + schema.data.len())?;
        self.schemas.add(id, || schema);
        Ok(Some(Found::Schema(id)))
    }

    pub(crate) fn define_channel(
        &mut self,
        channel: Channel,
        offset: u64,
    ) -> Result<Option<Found>, Error> {
        let id = channel.id;
        if let Some(known) = self.channels.get(id) {
            return match **known == channel {
                true => Ok(None),
                false => Err(Error::TwoChannels { offset, id }),
            };
        }
        if channel.schema_id != 0 && self.schemas.get(channel.schema_id).is_none() {
            let why = format!("a channel has the schema {}, which is not there", channel.schema_id);
            return Err(Error::damaged(offset, why));
        }
        self.count(
            channel.topic.len() + channel.message_encoding.len() + map_len(&channel.metadata),
        )?;
        self.channels.add(id, || channel);
        Ok(Some(Found::Channel(id)))
    }

    /// Counts what stays in memory: a packed chunk may hold far more of it than the file has bytes.
    fn count(&mut self, len: usize) -> Result<(), Error> {
        let (len, limit) = (self.defined + len as u64, MAX_DEFINITIONS);
        if len > limit {
            return Err(Error::TooLarge { what: "set of schemas and channels", len, limit });
        }
        self.defined = len;
        Ok(())
    }

    /// Reads and unpacks a chunk. Of one that is cut off, what is there.
    fn open_chunk(&mut self, place: &Place, cut: bool) -> Result<(), Error> {
        let (header, data) = match cut {
            true => self.scan.chunk_head(place)?,
            false => self.scan.chunk(place)?,
        };
        let there = self.scan.file_len() - data;
        let len = if cut { header.compressed_size.min(there) } else { header.compressed_size };
        // A writer that patches lengths in afterwards leaves them at their highest when it dies.
        let unpacked_len = match cut && header.uncompressed_size == u64::MAX {
            true => self.max_chunk,
            false => header.uncompressed_size,
        };
        for size in [len, unpacked_len] {
            if size > self.max_chunk {
                return Err(Error::TooLarge { what: "chunk", len: size, limit: self.max_chunk });
            }
        }
        if self.stays && !cut && header.compression.is_empty() && header.uncompressed_crc == 0 {
            let (said, len) = (header.uncompressed_size, header.compressed_size);
            if said != len {
                return Err(unpacks_to(place.offset, said, len));
            }
            self.part = Some(Part { offset: place.offset, at: data, end: data + len });
            return Ok(());
        }
        if Arc::get_mut(&mut self.unpacked).is_none() {
            self.unpacked = Arc::default();
        }
        // It is ours alone, so nothing is cloned.
        let chunk = Arc::make_mut(&mut self.unpacked);
        let into = match header.compression.as_str() {
            "" => &mut *chunk,
            "zstd" | "lz4" => &mut self.packed,
            _ => {
                let (offset, name) = (place.offset, header.compression);
                return Err(Error::UnknownCompression { offset, name });
            }
        };
        into.resize(len as usize, 0);
        let read = self.file.read_exact_at(into, data);
        read.map_err(|error| self.scan.failed(place.offset, error))?;
        let unpacked = match header.compression.as_str() {
            "" => Ok(()),
            name => unpack(name, &self.packed, unpacked_len, chunk),
        };
        let rest = match cut {
            true => Some(Error::Cut { offset: place.offset }),
            false => {
                unpacked.map_err(|error| Error::damaged(place.offset, error))?;
                check_chunk(&header, &self.unpacked, place.offset)?;
                None
            }
        };
        self.chunk = Some(Chunk { offset: place.offset, at: 0, rest });
        Ok(())
    }
}

fn check_chunk(header: &ChunkHeader, bytes: &[u8], offset: u64) -> Result<(), Error> {
    if bytes.len() as u64 != header.uncompressed_size {
        return Err(unpacks_to(offset, header.uncompressed_size, bytes.len() as u64));
    }
    let crc = header.uncompressed_crc;
    if crc != 0 && crc != crc32fast::hash(bytes) {
        return Err(Error::damaged(offset, "a chunk's checksum is wrong"));
    }
    Ok(())
}

fn unpacks_to(offset: u64, said: u64, len: u64) -> Error {
    let why = format!("a chunk says that it unpacks to {said} bytes, and it has {len} or more");
    Error::damaged(offset, why)
}

/// Unpacks at most one byte more than `most`, by which a chunk that says too little shows.
fn unpack(name: &str, packed: &[u8], most: u64, out: &mut Vec<u8>) -> std::io::Result<()> {
    out.clear();
    match name {
        "zstd" => {
            zstd::stream::read::Decoder::with_buffer(packed)?.take(most + 1).read_to_end(out)?;
        }
        _ => {
            lz4::Decoder::new(packed)?.take(most + 1).read_to_end(out)?;
        }
    }
    Ok(())
}

/// Returns what stands before a payload; the caller has seen that it is there.
#[inline]
pub(crate) fn message_header(body: &[u8]) -> MessageHeader {
    MessageHeader {
        channel_id: u16::from_le_bytes([body[0], body[1]]),
        sequence: u32::from_le_bytes([body[2], body[3], body[4], body[5]]),
        log_time: u64_at(body, 6).unwrap_or(0),
        publish_time: u64_at(body, 14).unwrap_or(0),
    }
}
