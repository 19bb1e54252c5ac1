//! A walk over a file's records by their heads: what lies in chunks, messages and attachments is
//! passed over unread.
//!
//! A day's recording is walked in about a second, and in the memory of one small record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use mcap::MAGIC;
use mcap::records::{ChunkHeader, Record, op};

use crate::error::Error;
use crate::record::{self, HEAD, MAX_SMALL, u64_at};

/// What one read takes in at least: more than one record's head, less than what costs time.
const WINDOW: usize = 8 << 10;
/// What stands before a chunk's data, if the name of its compression is as long as is sane.
const CHUNK_HEAD: u64 = 40 + MAX_NAME;
const MAX_NAME: u64 = 1 << 10;

/// A record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The opcode.
    pub op: u8,
    /// Where the record begins.
    pub offset: u64,
    /// The length of its body.
    pub len: u64,
}

impl Place {
    /// Returns where the body begins.
    pub fn body(&self) -> u64 {
        self.offset + HEAD as u64
    }

    /// Returns where the next record begins.
    pub fn end(&self) -> u64 {
        self.body() + self.len
    }
}

/// What the walk meets next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole record.
    Record(Place),
    /// The head of a record that is longer than what is left of the file, or no head at all.
    Torn(Place),
    /// The end of the file.
    End,
}

/// The walk.
#[derive(Debug)]
pub struct Scan {
    file: Arc<File>,
    path: Arc<Path>,
    len: u64,
    at: u64,
    /// A part of the file, and where it begins.
    window: Vec<u8>,
    window_at: u64,
}

impl Scan {
    /// Begins at the file's first record.
    ///
    /// # Errors
    /// [`Error::NotMcap`] and [`Error::OtherVersion`] by the file's first bytes; [`Error::Cut`] if
    /// the file ends within these.
    pub fn new(file: &Arc<File>, path: &Arc<Path>) -> Result<Scan, Error> {
        let mut scan = Scan::from(file, path, 0)?;
        let path = &**path;
        let have = (MAGIC.len() as u64).min(scan.len) as usize;
        let mut magic = scan.read(0, have)?.to_vec();
        // The version's character.
        let version = magic.get(5).copied();
        if let Some(byte) = magic.get_mut(5) {
            *byte = MAGIC[5];
        }
        if magic != MAGIC[..have] {
            return Err(Error::NotMcap { path: path.to_owned() });
        }
        match version {
            Some(version) if version != MAGIC[5] => {
                return Err(Error::OtherVersion { path: path.to_owned(), version });
            }
            _ => {}
        }
        if have < MAGIC.len() {
            return Err(Error::Cut { offset: 0 });
        }
        scan.at = MAGIC.len() as u64;
        Ok(scan)
    }

    /// Begins at a record whose offset is known.
    pub(crate) fn from(file: &Arc<File>, path: &Arc<Path>, at: u64) -> Result<Scan, Error> {
        let len = file.metadata().map_err(|error| Error::io("look at", path, error))?.len();
        let (file, path) = (Arc::clone(file), Arc::clone(path));
        Ok(Scan { file, path, len, at, window: Vec::new(), window_at: 0 })
    }

    /// Returns how long the file was when the walk began.
    pub fn file_len(&self) -> u64 {
        self.len
    }

    /// Goes on at a record that begins there.
    pub(crate) fn go_to(&mut self, offset: u64) {
        self.at = offset;
    }

    /// Goes to the next record.
    ///
    /// # Errors
    /// Only those of the system.
    pub fn step(&mut self) -> Result<Step, Error> {
        let left = self.len.saturating_sub(self.at);
        if left == 0 {
            return Ok(Step::End);
        }
        let offset = self.at;
        if left < HEAD as u64 {
            let op = self.read(offset, 1)?[0];
            return Ok(Step::Torn(Place { op, offset, len: 0 }));
        }
        let head = self.read(offset, HEAD)?;
        let place = Place { op: head[0], offset, len: u64_at(head, 1).unwrap_or(0) };
        // No record has the opcode 0; a hole in a file is made of them.
        if place.op == 0 || place.len > left - HEAD as u64 {
            return Ok(Step::Torn(place));
        }
        self.at = place.end();
        Ok(Step::Record(place))
    }

    /// Reads `count` bytes of the file; the file has that many.
    pub(crate) fn read(&mut self, at: u64, count: usize) -> Result<&[u8], Error> {
        let begin = at.checked_sub(self.window_at).map(|begin| begin as usize);
        let there = begin.is_some_and(|begin| {
            begin.checked_add(count).is_some_and(|end| end <= self.window.len())
        });
        if !there {
            let left = usize::try_from(self.len.saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(count.max(WINDOW.min(left)), 0);
            self.window_at = at;
            let read = self.file.read_exact_at(&mut self.window, at);
            if let Err(error) = read {
                self.window.clear();
                return Err(self.failed(at, error));
            }
            return Ok(&self.window[..count]);
        }
        let begin = begin.unwrap_or(0);
        Ok(&self.window[begin..begin + count])
    }

    #[cold]
    pub(crate) fn failed(&self, offset: u64, error: io::Error) -> Error {
        match error.kind() {
            // Another process has cut the file since the walk began.
            io::ErrorKind::UnexpectedEof => Error::Cut { offset },
            _ => Error::io("read", &self.path, error),
        }
    }

    /// Reads a whole record that is neither a chunk nor a message nor an attachment.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Damaged`].
    pub fn parse(&mut self, place: &Place) -> Result<Record<'_>, Error> {
        if place.len > MAX_SMALL {
            return Err(Error::TooLarge { what: "record", len: place.len, limit: MAX_SMALL });
        }
        let body = self.read(place.body(), place.len as usize)?;
        record::parse(place.op, body, place.offset)
    }

    /// Reads what stands before a chunk's data; returns it with the data's offset.
    ///
    /// # Errors
    /// [`Error::Damaged`], also if the chunk's length contradicts that of its data; [`Error::Cut`].
    pub fn chunk(&mut self, place: &Place) -> Result<(ChunkHeader, u64), Error> {
        let (header, data) = self.chunk_head(place)?;
        if header.compressed_size != place.end() - data {
            return Err(Error::damaged(
                place.offset,
                format!(
                    "a chunk says that it has {} bytes of data, and has {}",
                    header.compressed_size,
                    place.end() - data
                ),
            ));
        }
        Ok((header, data))
    }

    /// Reads the same of a chunk that may be cut off.
    pub(crate) fn chunk_head(&mut self, place: &Place) -> Result<(ChunkHeader, u64), Error> {
        let left = self.len - place.body().min(self.len);
        let some = place.len.min(CHUNK_HEAD).min(left);
        if some < place.len.min(32) {
            return Err(Error::Cut { offset: place.offset });
        }
        let bytes = self.read(place.body(), some as usize)?;
        let name =
            bytes.get(28..32).map(|len| u32::from_le_bytes([len[0], len[1], len[2], len[3]]));
        let Some(name) = name.map(u64::from).filter(|name| *name < MAX_NAME) else {
            return Err(Error::damaged(place.offset, "a chunk has no sound beginning"));
        };
        let head = 40 + name;
        if head > some {
            return Err(match some < place.len {
                true => Error::Cut { offset: place.offset },
                false => Error::damaged(place.offset, "a chunk is shorter than its beginning"),
            });
        }
        let mut cursor = io::Cursor::new(&bytes[..head as usize]);
        let header =
            binrw::BinRead::read_le(&mut cursor).map_err(|_| Error::unreadable(place.offset))?;
        Ok((header, place.body() + head))
    }

    /// Reads the channel of a record that counts a channel's messages in the chunk before it, and
    /// how many these are.
    pub(crate) fn message_index(&mut self, place: &Place) -> Result<(u16, u64), Error> {
        if place.len < 6 {
            return Err(Error::damaged(place.offset, "an index of messages is too short"));
        }
        let head = self.read(place.body(), 6)?;
        let channel = u16::from_le_bytes([head[0], head[1]]);
        let bytes = u64::from(u32::from_le_bytes([head[2], head[3], head[4], head[5]]));
        if bytes != place.len - 6 || bytes % 16 != 0 {
            return Err(Error::damaged(
                place.offset,
                "an index of messages contradicts its length",
            ));
        }
        Ok((channel, bytes / 16))
    }

    /// Reads what stands before an attachment's data, and returns it with the data's place and
    /// length.
    pub(crate) fn attachment(
        &mut self,
        place: &Place,
    ) -> Result<(mcap::records::AttachmentHeader, u64, u64), Error> {
        let some = place.len.min(MAX_NAME * 4);
        let bytes = self.read(place.body(), some as usize)?;
        if !record::has_sound_lengths(place.op, bytes) {
            return Err(Error::damaged(place.offset, "an attachment has no sound beginning"));
        }
        let mut cursor = io::Cursor::new(bytes);
        let header =
            binrw::BinRead::read_le(&mut cursor).map_err(|_| Error::unreadable(place.offset))?;
        let head = cursor.position();
        let len = u64_at(bytes, head as usize);
        // Behind the data stands its checksum.
        match len {
            Some(len) if head + 8 + 4 <= place.len && len == place.len - head - 12 => {
                Ok((header, place.body() + head + 8, len))
            }
            _ => Err(Error::damaged(place.offset, "an attachment contradicts its length")),
        }
    }

    /// Tells whether a record is the metadata `name`, without reading more of it.
    pub(crate) fn is_metadata(&mut self, place: &Place, name: &str) -> Result<bool, Error> {
        let want = 4 + name.len();
        if place.op != op::METADATA || place.len < want as u64 {
            return Ok(false);
        }
        let bytes = self.read(place.body(), want)?;
        Ok(bytes[..4] == (name.len() as u32).to_le_bytes() && &bytes[4..] == name.as_bytes())
    }
}
