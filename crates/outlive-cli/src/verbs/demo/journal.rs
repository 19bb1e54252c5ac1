//! What each side has done, in memory that survives it: two journals for each source, a word a
//! record.
//!
//! The producer of a source writes a word when a record is *acknowledged* (its `send` has
//! returned); the consumer writes one when a record has been *received*, before it commits it. Each
//! word holds length and checksum as that side has computed them. The parent compares word by word,
//! and gives memory back behind the comparison, so that a long demo takes no more than a short one.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

use super::map::Map;

/// Which side writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Records whose send has returned.
    Acknowledged,
    /// Records that the consumer has seen.
    Received,
}

/// Length and checksum of a record; never the empty word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    const WRITTEN: u64 = 1 << 63;

    /// Returns what there is to say about a record.
    pub fn new(length: u32, checksum: u32) -> Entry {
        Entry(Entry::WRITTEN | u64::from(length & 0x7fff_ffff) << 32 | u64::from(checksum))
    }

    /// Returns the record's length.
    pub fn length(self) -> u64 {
        self.0 >> 32 & 0x7fff_ffff
    }
}

/// A journal. Words are mapped a chunk at a time.
pub struct Journal {
    file: File,
    chunk: Option<(u64, Map)>,
}

/// Words of a chunk: 1 MiB.
const CHUNK: u64 = 1 << 17;
const CHUNK_BYTES: u64 = CHUNK * size_of::<AtomicU64>() as u64;

impl Journal {
    /// Opens a source's journal, and makes it when it is not there.
    pub fn open(folder: &Path, side: Side, source: u32) -> io::Result<Journal> {
        let name = match side {
            Side::Acknowledged => format!("acknowledged.{source}"),
            Side::Received => format!("received.{source}"),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(folder.join(name))?;
        Ok(Journal { file, chunk: None })
    }

    /// Notes a record.
    pub fn write(&mut self, number: u64, entry: Entry) -> io::Result<()> {
        // Release: with the counters that tell of it. One side writes, and a process that dies
        // leaves it written or not.
        self.word(number)?.store(entry.0, Ordering::Release);
        Ok(())
    }

    /// Returns what was noted of a record.
    pub fn read(&mut self, number: u64) -> io::Result<Option<Entry>> {
        let word = self.word(number)?.load(Ordering::Acquire);
        Ok((word & Entry::WRITTEN != 0).then_some(Entry(word)))
    }

    /// Gives the memory of all whole chunks before that record back.
    pub fn forget_before(&self, number: u64) -> io::Result<()> {
        let end = number / CHUNK * CHUNK_BYTES;
        if end > 0 {
            fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, end)?;
        }
        Ok(())
    }

    fn word(&mut self, number: u64) -> io::Result<&AtomicU64> {
        let wanted = number / CHUNK;
        if self.chunk.as_ref().is_none_or(|(chunk, _)| *chunk != wanted) {
            self.chunk = None;
        }
        let map = match &mut self.chunk {
            Some((_, map)) => map,
            none => {
                &mut none
                    .insert((wanted, Map::words(&self.file, wanted * CHUNK_BYTES, CHUNK as usize)?))
                    .1
            }
        };
        Ok(&map.as_words()[(number % CHUNK) as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads_across_chunks() {
        let folder =
            std::env::temp_dir().join(format!("outlive-test-journal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut writer = Journal::open(&folder, Side::Received, 3).expect("made");
        let mut reader = Journal::open(&folder, Side::Received, 3).expect("opened");
        for number in [0, 1, CHUNK - 1, CHUNK, 5 * CHUNK + 7] {
            assert_eq!(reader.read(number).expect("read"), None);
            writer.write(number, Entry::new(9, number as u32)).expect("written");
            assert_eq!(reader.read(number).expect("read"), Some(Entry::new(9, number as u32)));
        }
        assert_eq!(Entry::new(9, 0).length(), 9);
        reader.forget_before(2 * CHUNK).expect("forgotten");
        assert_eq!(reader.read(5).expect("read"), None);
        assert!(reader.read(5 * CHUNK + 7).expect("read").is_some());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
