//! Long messages that stay in the file until their reader has memory for them: one copy instead of two.
//!
//! They can stay in a chunk that is neither compressed nor has a checksum, as `outlive record` writes them, and
//! outside of chunks. The file is read, and not mapped: a page of a mapped file that another process cuts short
//! is a signal (SIGBUS), which no library can take for its program, while the read is an error; and the kernel
//! copies as fast as this process would.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use mcap::records::{Channel, MessageHeader, Record, op};

use crate::error::Error;
use crate::read::{Found, Item, Reader, message_header};
use crate::record::{HEAD, u64_at};
use crate::scan::{Place, Scan};

/// A payload of as many bytes stays in the file: below it a read of its own takes longer than a copy.
pub(crate) const LONG: u64 = 16 << 10;

/// What [`Reader::next_in_place`] returns.
#[derive(Debug)]
pub enum Next<'a> {
    /// What [`Reader::next`] would have returned.
    Item(Item<'a>),
    /// A message whose payload has not been read.
    Long(Long<'a>),
}

/// A message whose payload is still in the file.
#[derive(Debug)]
pub struct Long<'a> {
    /// Its channel.
    pub channel: &'a Arc<Channel>,
    /// Its sequence number and times.
    pub header: MessageHeader,
    pub(crate) place: Place,
    pub(crate) file: &'a File,
    pub(crate) scan: &'a Scan,
}

impl Long<'_> {
    /// Returns the payload's length.
    #[expect(clippy::len_without_is_empty, reason = "a long one never is")]
    pub fn len(&self) -> usize {
        (self.place.len - 22) as usize
    }

    /// Reads the payload from its byte `from` on: as much as `into` takes, which must be there.
    ///
    /// # Errors
    /// The system's; [`Error::Cut`] if another process has cut the file meanwhile, [`Error::Damaged`] if the
    /// payload is shorter than that.
    pub fn read(&self, from: usize, into: &mut [u8]) -> Result<(), Error> {
        if from.checked_add(into.len()).is_none_or(|end| end > self.len()) {
            return Err(Error::damaged(self.place.offset, "a message is shorter than its type"));
        }
        let read = self.file.read_exact_at(into, self.place.body() + 22 + from as u64);
        read.map_err(|error| self.scan.failed(self.place.offset, error))
    }
}

/// An open chunk whose records are in the file.
#[derive(Debug)]
pub(crate) struct Part {
    /// Where the chunk's record begins.
    pub(crate) offset: u64,
    /// Where its next record begins, and where they end.
    pub(crate) at: u64,
    pub(crate) end: u64,
}

impl Reader {
    /// Returns the next thing in the file as [`Reader::next`] does, but leaves long payloads in the file where
    /// that is possible: the caller reads them to where it wants them.
    ///
    /// # Errors
    /// As [`Reader::next`].
    pub fn next_in_place(&mut self) -> Result<Option<Next<'_>>, Error> {
        self.stays = true;
        let found = self.find_next();
        self.stays = false;
        let Some(found) = found? else { return Ok(None) };
        if let Found::InFile(header, place) = &found
            && place.len >= LONG + 22
        {
            let (header, place) = (*header, *place);
            let channel = self.channels.there(header.channel_id);
            return Ok(Some(Next::Long(Long {
                channel,
                header,
                place,
                file: &self.file,
                scan: &self.scan,
            })));
        }
        self.lend(found).map(|item| Some(Next::Item(item)))
    }

    /// Looks at the next record of a chunk that is in the file; closes the chunk at its end.
    pub(crate) fn find_in_part(&mut self) -> Result<Option<Found>, Error> {
        let Some(Part { offset, at, end }) = self.part.take() else { return Ok(None) };
        let left = end - at;
        if left == 0 {
            return Ok(None);
        }
        let head = self.scan.read(at, left.min(HEAD as u64 + 22) as usize)?;
        let len = u64_at(head, 1).filter(|len| *len <= left - HEAD as u64);
        let Some(len) = len else {
            return Err(Error::damaged(offset, "a record in a chunk is longer than the chunk"));
        };
        let place = Place { op: head[0], offset: at, len };
        self.part = Some(Part { offset, at: place.end(), end });
        match place.op {
            op::MESSAGE if len < 22 => {
                Err(Error::damaged(offset, "a message is shorter than its head"))
            }
            op::MESSAGE => {
                let header = message_header(&head[HEAD..]);
                self.check_channel(&header, offset)?;
                Ok(Some(Found::InFile(header, place)))
            }
            op::SCHEMA | op::CHANNEL => match self.scan.parse(&place)? {
                Record::Schema { header, data } => {
                    let schema = crate::Schema { header, data: data.into_owned() };
                    self.define_schema(schema, offset)
                }
                Record::Channel(channel) => self.define_channel(channel, offset),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}
