//! A file's end: its index, by which readers find everything without reading all.
//!
//! The index is made from the file's records, walked over once more: so a writer's memory does not
//! grow with the file, and an index that is rebuilt after a death is made by the same code.

use std::io;

use mcap::MAGIC;
use mcap::records::{
    AttachmentIndex, ChunkIndex, DataEnd, Footer, MetadataIndex, Record, SummaryOffset, op,
};

use crate::error::Error;
use crate::put::Appender;
use crate::record::{self, HEAD};
use crate::scan::{Place, Scan, Step};
use crate::write::{Positions, Sync, Writer};

impl<O: AsRef<[u8]>> Writer<O> {
    /// Writes the open group and the file's index. Nothing more can be written then.
    ///
    /// # Errors
    /// As those of [`flush`](Writer::flush); if the index found no room, the file ends after its last
    /// whole group, readable without an index, and this can be called again.
    ///
    /// # If a process dies
    /// All groups are whole, and a part of the index may follow; [`Writer::resume`] cuts it off.
    pub fn finish(&mut self, positions: &Positions) -> Result<(), Error> {
        self.flush(positions)?;
        self.mend()?;
        // Between here and the last byte of the end magic, the file is one that is not finished.
        if let Err(error) = self.write_index() {
            self.torn = true;
            let _ = self.mend();
            return Err(error);
        }
        self.finished = true;
        match self.options.sync {
            Sync::OnFinish | Sync::EachFlush => self.sync(),
            Sync::Never => Ok(()),
        }
    }

    fn write_index(&self) -> Result<(), Error> {
        let failed = |error| Error::io("write", &self.path, error);
        let mut data_end = Appender::new(&self.file, self.end);
        // No checksum of the data: a writer that goes on after a death would have to read all of it.
        let end = DataEnd { data_section_crc: 0 };
        data_end.append(|out| record::push(out, op::DATA_END, &end)).map_err(failed)?;
        data_end.flush().map_err(failed)?;
        // The index's checksum begins here.
        let mut out = Appender::new(&self.file, data_end.position());
        let summary_start = out.position();
        let mut offsets = Vec::new();
        let mut group = |op: u8, start: u64, end: u64| {
            if end > start {
                let (group_start, group_length) = (start, end - start);
                let offset = SummaryOffset { group_opcode: op, group_start, group_length };
                record::push(&mut offsets, op::SUMMARY_OFFSET, &offset);
            }
        };

        let start = out.position();
        for schema in self.contents.schemas() {
            let append = |out: &mut Vec<u8>| record::push_schema(out, &schema.header, &schema.data);
            out.append(append).map_err(failed)?;
        }
        group(op::SCHEMA, start, out.position());
        let start = out.position();
        for channel in self.contents.channels() {
            out.append(|out| record::push(out, op::CHANNEL, channel)).map_err(failed)?;
        }
        group(op::CHANNEL, start, out.position());
        let start = out.position();
        let statistics = self.contents.statistics();
        out.append(|out| record::push(out, op::STATISTICS, &statistics)).map_err(failed)?;
        group(op::STATISTICS, start, out.position());
        // Each kind of index stands together, so each is a walk of its own.
        for (op, there) in [
            (op::CHUNK_INDEX, self.contents.chunks > 0),
            (op::ATTACHMENT_INDEX, self.contents.attachments > 0),
            (op::METADATA_INDEX, self.contents.metadata > 0),
        ] {
            if there {
                let start = out.position();
                self.write_indexes(&mut out, op)?;
                group(op, start, out.position());
            }
        }

        let summary_offset_start = out.position();
        out.append(|out| out.extend_from_slice(&offsets)).map_err(failed)?;
        let mut footer = Vec::new();
        let ends = Footer { summary_start, summary_offset_start, summary_crc: 0 };
        record::push(&mut footer, op::FOOTER, &ends);
        // The checksum is of all before itself.
        footer.truncate(HEAD + 16);
        out.append(|out| out.extend_from_slice(&footer)).map_err(failed)?;
        let crc = out.crc().to_le_bytes();
        out.append(|out| out.extend_from_slice(&crc)).map_err(failed)?;
        out.append(|out| out.extend_from_slice(MAGIC)).map_err(failed)?;
        out.flush().map_err(failed)
    }

    /// Appends one kind of index, for all of the file's records.
    fn write_indexes(&self, out: &mut Appender<'_>, op: u8) -> Result<(), Error> {
        let mut scan = Scan::new(&self.file, &self.path)?;
        // A chunk whose channels' indexes follow.
        let mut chunk: Option<ChunkIndex> = None;
        let put = |out: &mut Appender<'_>, chunk: &mut Option<ChunkIndex>| -> io::Result<()> {
            match chunk.take() {
                Some(index) => out.append(|out| record::push(out, op::CHUNK_INDEX, &index)),
                None => Ok(()),
            }
        };
        let failed = |error| Error::io("write", &self.path, error);
        while let Step::Record(place) = scan.step()? {
            if place.offset >= self.end {
                break;
            }
            match (op, place.op) {
                (op::CHUNK_INDEX, op::CHUNK) => {
                    put(out, &mut chunk).map_err(failed)?;
                    chunk = Some(begin_chunk_index(&mut scan, &place)?);
                }
                (op::CHUNK_INDEX, op::MESSAGE_INDEX) => {
                    if let Some(index) = &mut chunk {
                        let (channel, _) = scan.message_index(&place)?;
                        index.message_index_offsets.insert(channel, place.offset);
                        index.message_index_length += HEAD as u64 + place.len;
                    }
                }
                (op::ATTACHMENT_INDEX, op::ATTACHMENT) => {
                    let (header, _, data_size) = scan.attachment(&place)?;
                    let index = AttachmentIndex {
                        offset: place.offset,
                        length: HEAD as u64 + place.len,
                        log_time: header.log_time,
                        create_time: header.create_time,
                        data_size,
                        name: header.name,
                        media_type: header.media_type,
                    };
                    let append = |out: &mut Vec<u8>| record::push(out, op, &index);
                    out.append(append).map_err(failed)?;
                }
                (op::METADATA_INDEX, op::METADATA) => {
                    let name = match scan.parse(&place)? {
                        Record::Metadata(metadata) => metadata.name,
                        _ => String::new(),
                    };
                    let (offset, length) = (place.offset, HEAD as u64 + place.len);
                    let index = MetadataIndex { offset, length, name };
                    let append = |out: &mut Vec<u8>| record::push(out, op, &index);
                    out.append(append).map_err(failed)?;
                }
                _ => {}
            }
        }
        put(out, &mut chunk).map_err(failed)
    }
}

fn begin_chunk_index(scan: &mut Scan, place: &Place) -> Result<ChunkIndex, Error> {
    let (header, _) = scan.chunk(place)?;
    Ok(ChunkIndex {
        message_start_time: header.message_start_time,
        message_end_time: header.message_end_time,
        chunk_start_offset: place.offset,
        chunk_length: HEAD as u64 + place.len,
        message_index_offsets: Default::default(),
        message_index_length: 0,
        compression: header.compression,
        compressed_size: header.compressed_size,
        uncompressed_size: header.uncompressed_size,
    })
}
