//! Reads the index that a finished file ends with.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use mcap::MAGIC;
use mcap::records::{Channel, Record, Statistics, op};

use crate::contents::Schema;
use crate::error::Error;
use crate::record::HEAD;
use crate::scan::{Scan, Step};

/// The footer and the magic behind it.
const END: u64 = HEAD as u64 + 20 + MAGIC.len() as u64;

/// What a finished file says of itself.
#[derive(Debug, Default)]
pub struct Index {
    /// Its counts, if it has them.
    pub statistics: Option<Statistics>,
    /// Where each chunk begins, and its record's length.
    pub chunks: BTreeMap<u64, u64>,
    /// Where each chunk begins, and its first and last log time.
    pub(crate) times: BTreeMap<u64, (u64, u64)>,
    /// Where each chunk begins, and the channels that it has messages of, if its index says so.
    pub(crate) channels_in: BTreeMap<u64, Box<[u16]>>,
    /// The schemas and channels that it repeats.
    pub(crate) schemas: BTreeMap<u16, Schema>,
    pub(crate) channels: BTreeMap<u16, Channel>,
}

impl Index {
    /// Returns the channels that it repeats.
    pub fn channels(&self) -> impl Iterator<Item = &Channel> {
        self.channels.values()
    }

    /// Returns a schema that it repeats.
    pub fn schema(&self, id: u16) -> Option<&Schema> {
        self.schemas.get(&id)
    }

    /// Reads the index of a file; `None` if it is not finished. A finished file may have none: then what
    /// is returned is empty.
    ///
    /// # Errors
    /// The system's; [`Error::Damaged`] if the index contradicts itself or its checksum.
    pub fn read(path: impl AsRef<Path>) -> Result<Option<Index>, Error> {
        let path: Arc<Path> = path.as_ref().into();
        let file = File::open(&path).map_err(|error| Error::io("open", &path, error))?;
        let file = Arc::new(file);
        let mut scan = Scan::new(&file, &path)?;
        let len = scan.file_len();
        let Some(footer) = len.checked_sub(END) else { return Ok(None) };
        let bytes = scan.read(footer, END as usize)?.to_vec();
        if bytes[HEAD + 20..] != *MAGIC {
            return Ok(None);
        }
        let ends = match (bytes[0], mcap::parse_record(op::FOOTER, &bytes[HEAD..HEAD + 20])) {
            (op::FOOTER, Ok(Record::Footer(ends))) => ends,
            _ => return Err(Error::damaged(footer, "the file's end has no footer")),
        };
        let start = ends.summary_start;
        if start == 0 {
            return Ok(Some(Index::default()));
        }
        if start > footer {
            return Err(Error::damaged(footer, "the index begins behind its end"));
        }
        if ends.summary_crc != 0 {
            let mut crc = crc32fast::Hasher::new();
            let mut at = start;
            // All up to the checksum itself.
            let end = footer + HEAD as u64 + 16;
            while at < end {
                let some = (end - at).min(1 << 20);
                crc.update(scan.read(at, some as usize)?);
                at += some;
            }
            if crc.finalize() != ends.summary_crc {
                return Err(Error::damaged(start, "the index's checksum is wrong"));
            }
        }
        let mut index = Index::default();
        let mut records = Scan::from(&file, &path, start)?;
        loop {
            let place = match records.step()? {
                Step::Record(place) if place.offset < footer => place,
                Step::Record(place) if place.offset == footer => return Ok(Some(index)),
                Step::Record(place) | Step::Torn(place) => {
                    return Err(Error::damaged(place.offset, "a record of the index is too long"));
                }
                Step::End => return Ok(Some(index)),
            };
            if matches!(place.op, op::STATISTICS | op::CHUNK_INDEX | op::SCHEMA | op::CHANNEL) {
                match records.parse(&place)? {
                    Record::Schema { header, data } => {
                        let data = data.into_owned();
                        index.schemas.insert(header.id, Schema { header, data });
                    }
                    Record::Channel(channel) => {
                        index.channels.insert(channel.id, channel);
                    }
                    Record::Statistics(statistics) => index.statistics = Some(statistics),
                    Record::ChunkIndex(chunk) => {
                        let at = chunk.chunk_start_offset;
                        index.chunks.insert(at, chunk.chunk_length);
                        let times = (chunk.message_start_time, chunk.message_end_time);
                        index.times.insert(at, times);
                        let channels = chunk.message_index_offsets.into_keys().collect::<Box<_>>();
                        if !channels.is_empty() {
                            index.channels_in.insert(at, channels);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
