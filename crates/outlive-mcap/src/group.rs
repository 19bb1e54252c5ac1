//! The open group: messages that are not in the file yet.
//!
//! Short payloads lie in one buffer, each behind its head; of a long one that its owner keeps, only
//! the head does. So the buffer and the payloads in between are the chunk's bytes, in order.

use std::io::IoSlice;

use mcap::records::MessageHeader;

use crate::error::Error;
use crate::record::{MAX_CHUNK, MESSAGE_HEAD, message_head};

/// Up to this length a payload is copied: a segment of its own costs the kernel more.
pub const COPIED: usize = 4096;
/// The most messages of a group: what the record of one channel's index can count, and 256 MiB of it.
const MAX_MESSAGES: u64 = 1 << 24;

/// A payload that its owner keeps, and where it belongs.
struct Kept<O> {
    /// How many bytes of the buffer stand before it.
    at: usize,
    len: usize,
    owner: O,
}

pub(crate) struct Group<O> {
    /// Heads, and the payloads that were copied.
    copied: Vec<u8>,
    kept: Vec<Kept<O>>,
    /// Bytes of the chunk so far.
    len: u64,
    messages: u64,
    start: u64,
    end: u64,
}

impl<O: AsRef<[u8]>> Group<O> {
    pub(crate) fn new() -> Group<O> {
        Group { copied: Vec::new(), kept: Vec::new(), len: 0, messages: 0, start: 0, end: 0 }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn messages(&self) -> u64 {
        self.messages
    }

    pub(crate) fn times(&self) -> (u64, u64) {
        (self.start, self.end)
    }

    /// Appends a message, by copying it; returns its offset in the chunk.
    #[inline]
    /// `prefix` stands before the payload.
    pub(crate) fn copy(
        &mut self,
        header: &MessageHeader,
        prefix: &[u8],
        payload: &[u8],
    ) -> Result<u64, Error> {
        let len = prefix.len() + payload.len();
        let offset = self.make_room(header, len)?;
        self.copied.extend_from_slice(&message_head(header, len));
        self.copied.extend_from_slice(prefix);
        self.copied.extend_from_slice(payload);
        Ok(offset)
    }

    /// Appends a message whose payload stays where it is; returns its offset in the chunk.
    /// `prefix` stands before the owner's bytes.
    pub(crate) fn keep(
        &mut self,
        header: &MessageHeader,
        prefix: &[u8],
        owner: O,
    ) -> Result<u64, Error> {
        let len = owner.as_ref().len();
        let offset = self.make_room(header, prefix.len() + len)?;
        self.copied.extend_from_slice(&message_head(header, prefix.len() + len));
        self.copied.extend_from_slice(prefix);
        self.kept.push(Kept { at: self.copied.len(), len, owner });
        Ok(offset)
    }

    #[inline]
    fn make_room(&mut self, header: &MessageHeader, len: usize) -> Result<u64, Error> {
        let offset = self.len;
        let grown = offset + (MESSAGE_HEAD + len) as u64;
        if grown > MAX_CHUNK || self.messages >= MAX_MESSAGES {
            return Err(self.no_room(len));
        }
        if self.messages == 0 {
            (self.start, self.end) = (header.log_time, header.log_time);
        } else {
            self.start = self.start.min(header.log_time);
            self.end = self.end.max(header.log_time);
        }
        self.len = grown;
        self.messages += 1;
        Ok(offset)
    }

    #[cold]
    fn no_room(&self, len: usize) -> Error {
        let limit = MAX_CHUNK - MESSAGE_HEAD as u64;
        match len as u64 > limit {
            true => Error::TooLarge { what: "message", len: len as u64, limit },
            false => Error::GroupFull,
        }
    }

    /// Returns the chunk's bytes, piece by piece.
    pub(crate) fn pieces(&self) -> Result<Vec<IoSlice<'_>>, Error> {
        let mut pieces = Vec::with_capacity(2 * self.kept.len() + 1);
        let mut done = 0;
        for kept in &self.kept {
            let payload = kept.owner.as_ref();
            // The head in the buffer, and the file's lengths, say what they said at the put.
            if payload.len() != kept.len {
                return Err(Error::OtherPayload);
            }
            pieces.push(IoSlice::new(&self.copied[done..kept.at]));
            pieces.push(IoSlice::new(payload));
            done = kept.at;
        }
        if done < self.copied.len() {
            pieces.push(IoSlice::new(&self.copied[done..]));
        }
        Ok(pieces)
    }

    /// Returns the checksum of the chunk if all of it was copied, otherwise 0, which says that there
    /// is none: long payloads would have to be read once more for it.
    pub(crate) fn crc(&self) -> u32 {
        if self.kept.is_empty() { crc32fast::hash(&self.copied) } else { 0 }
    }

    /// Empties the group; the owners of payloads are dropped.
    pub(crate) fn clear(&mut self) {
        self.copied.clear();
        self.kept.clear();
        (self.len, self.messages) = (0, 0);
    }
}
