//! The holder table: rows that are never used for anything else, given to one sharing after
//! another.
//!
//! | head | the object's tag | the row is |
//! | --- | --- | --- |
//! | 0 | | free |
//! | (n, o) | shared(n, _) | in use |
//! | (n, o) | owned | in use, perhaps: its owner may be about to share it |
//! | (n, o) | anything else | free: a process died between its last step on the tag and this |
//!
//! Numbers are used once, so the meaning of a head that was judged by its object's tag cannot
//! change before the compare-exchange that takes it.

use super::holders::{self, Holders, Serves};
use crate::Error;
use crate::liveness::Ends;
use crate::pool::file::{File, ROW};
use crate::pool::heap::{HeapHost, INDEX_BITS, ObjectRef, Tag, grow};
use crate::shim::Ordering;

/// Rows that are scanned before a new one is made.
const MOST_SCANNED: u32 = 64;
/// Rows are made by so many bytes at once, where there is room.
const STEP: u64 = 64 << 10;
const PAGE: u64 = crate::pool::heap::PAGE;

/// What [`File::collect_shared`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pool) struct Orphans {
    /// Objects whose holders have all ended.
    pub(in crate::pool) objects: u32,
    /// Cells, in other rows, of processes that have ended.
    pub(in crate::pool) names: u32,
    /// Whether cells remain of processes that are dead and may still read.
    pub(in crate::pool) names_left: bool,
}

impl File {
    /// Returns how many rows there are.
    pub(in crate::pool) fn used_rows(&self) -> u32 {
        // Acquire pairs with `more_rows`: their pages exist.
        self.header().used_rows.load(Ordering::Acquire).min(self.rows)
    }

    /// Returns an existing row.
    pub(super) fn holders(&self, row: u32) -> Result<&Holders, Error> {
        if row >= self.used_rows() {
            return Err(self.segment.damaged("a row of the holder table"));
        }
        self.segment.at(self.rows_at + u64::from(row) * ROW)
    }

    /// Returns the holders of a shared object, by name.
    pub(in crate::pool) fn holders_of(&self, object: &ObjectRef, tag: Tag) -> Vec<crate::TokenId> {
        let Tag::Shared(sharing) = tag else { return Vec::new() };
        let Ok(record) = self.record(object) else { return Vec::new() };
        // Relaxed: if it belongs to another sharing by now, its numbers differ.
        let row = record.note.load(Ordering::Relaxed);
        let mut names: Vec<_> =
            self.holders(row).map_or(Vec::new(), |row| row.names(sharing.number).collect());
        names.sort_unstable_by_key(|name| name.as_u32());
        names.dedup();
        names
    }

    /// Takes a row for a sharing whose object the caller owns.
    pub(super) fn take_row(&self, serves: Serves) -> Result<u32, Error> {
        let header = self.header();
        // Relaxed: hints. The row that was given back last may be in this processor's cache.
        if header.freed_row.load(Ordering::Relaxed) != 0 {
            let hint = header.freed_row.swap(0, Ordering::Relaxed);
            if hint != 0 && self.holders(hint - 1).is_ok_and(|row| row.take(None, serves)) {
                return Ok(hint - 1);
            }
        }
        if let Some(row) = self.scan_for_row(serves, MOST_SCANNED, false)? {
            return Ok(row);
        }
        loop {
            let used = self.used_rows();
            match self.more_rows(used) {
                Ok(()) => {}
                // All rows, and those that dead processes left.
                Err(error) => return self.scan_for_row(serves, u32::MAX, true)?.ok_or(error),
            }
            // Other threads may have taken it, but hardly all of the new ones.
            for row in used..self.used_rows() {
                if self.holders(row)?.take(None, serves) {
                    header.row_cursor.store(row + 1, Ordering::Relaxed);
                    return Ok(row);
                }
            }
        }
    }

    /// Takes a free row, from where the last scan ended.
    fn scan_for_row(
        &self,
        serves: Serves,
        most: u32,
        also_left: bool,
    ) -> Result<Option<u32>, Error> {
        let (header, used) = (self.header(), self.used_rows());
        let from = header.row_cursor.load(Ordering::Relaxed);
        let from = if from < used { from } else { 0 };
        for turn in 0..most.min(used) {
            let at = (from + turn) % used;
            let row = self.holders(at)?;
            let seen = row.serves();
            let spare = match seen {
                None => true,
                Some(seen) => also_left && self.is_spare(seen),
            };
            if spare && row.take(seen, serves) {
                header.row_cursor.store(at + 1, Ordering::Relaxed);
                return Ok(Some(at));
            }
        }
        header.row_cursor.store((from + most.min(used)) % used.max(1), Ordering::Relaxed);
        Ok(None)
    }

    /// Makes rows, if there are as many as were seen. After a death before the count, the next
    /// process makes them again.
    fn more_rows(&self, used: u32) -> Result<(), Error> {
        let no_space = || Error::NoSpace { path: self.segment.path().to_path_buf(), wanted: ROW };
        let left = u64::from(self.rows - used) * ROW;
        let mut bytes = STEP.min(left);
        if !self.allows(bytes) {
            bytes = PAGE.min(left);
        }
        if bytes < ROW || !self.allows(bytes) {
            return Err(no_space());
        }
        grow(&self.segment, self.rows_at + u64::from(used) * ROW, bytes, self)?;
        // Release pairs with `used_rows`. New pages are zero: free rows.
        self.header().used_rows.fetch_max(used + (bytes / ROW) as u32, Ordering::Release);
        Ok(())
    }

    /// Returns the object that a row serves, and what its tag says. `Err`: this process cannot
    /// tell.
    fn served(&self, serves: Serves) -> Result<Option<(ObjectRef, Tag)>, Error> {
        let index = serves.reference >> INDEX_BITS;
        if index >= self.heap.spans && index < self.all_spans {
            return Err(self.segment.damaged("a span that is not mapped here"));
        }
        // None: its span has been taken apart, so no process had it.
        let Some(object) = self.heap.find_object(&self.segment, serves.reference)? else {
            return Ok(None);
        };
        let tag = self.heap.tag_of(&self.segment, &object)?;
        Ok(Some((object, tag)))
    }

    /// Returns whether a row that names a sharing is free.
    fn is_spare(&self, serves: Serves) -> bool {
        match self.served(serves) {
            Err(_) | Ok(Some((_, Tag::Owned(_)))) => false,
            Ok(None) => true,
            Ok(Some((_, Tag::Shared(sharing)))) => sharing.number != serves.number,
            Ok(Some(_)) => true,
        }
    }

    /// Frees shared objects whose holders have all ended, and removes the names of ended processes
    /// from all cells.
    pub(in crate::pool) fn collect_shared(
        &self,
        ends: &Ends,
        dry_run: bool,
    ) -> Result<Orphans, Error> {
        let mut found = Orphans::default();
        let has_ended = |process| ends.has_ended(process);
        for at in 0..self.used_rows() {
            let row = self.holders(at)?;
            if let Some(serves) = row.serves() {
                match self.served(serves) {
                    Ok(Some((object, Tag::Shared(sharing)))) if sharing.number == serves.number => {
                        let record = self.record(&object)?;
                        // Relaxed: written before the tag that was read.
                        let own = record.note.load(Ordering::Relaxed) == at;
                        let gone = match dry_run {
                            true => own && !row.is_held(sharing, None, &has_ended),
                            false => {
                                own && holders::free(&record.tag, 0, row, serves, None, &has_ended)
                            }
                        };
                        if gone {
                            found.objects += 1;
                            self.header().freed_row.store(at + 1, Ordering::Relaxed);
                            continue;
                        }
                    }
                    _ if !dry_run && self.is_spare(serves) => {
                        // Nothing of it is lost: one step that a process did not live to take.
                        row.release(serves);
                    }
                    _ => {}
                }
            }
            let (names, left) = row.sweep(ends, dry_run);
            found.names += names;
            found.names_left |= left;
        }
        Ok(found)
    }
}
