//! Blocks of holders: a table of them that are never anything else, given to one sharing after another.
//!
//! | head | the object's tag | the block is |
//! | --- | --- | --- |
//! | 0 | | nobody's |
//! | (n, o) | shared(n, _) | in use |
//! | (n, o) | owned | in use, perhaps: its owner may be about to share it |
//! | (n, o) | anything else | nobody's: somebody died between his last step on the tag and this |
//!
//! Numbers are used once, so a head that was judged by its object's tag cannot come to mean something else before the
//! compare-exchange that takes it.

use super::holders::{self, Holders, Serves};
use crate::Error;
use crate::liveness::Ends;
use crate::pool::file::{BLOCK, File};
use crate::pool::heap::{HeapHost, INDEX_BITS, ObjectRef, Tag, grow};
use crate::shim::Ordering;

/// Heads that are looked at before there is rather a new block.
const LOOKS: u32 = 64;
/// Blocks come by so many bytes, where there is room.
const STEP: u64 = 64 << 10;
const PAGE: u64 = crate::pool::heap::PAGE;

/// What [`File::collect_shared`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::pool) struct Orphans {
    /// Objects without a holder who has not ended.
    pub(in crate::pool) objects: u32,
    /// Cells of those who have ended, in other blocks.
    pub(in crate::pool) names: u32,
    /// Whether there are cells left of some who are dead and may still read.
    pub(in crate::pool) names_left: bool,
}

impl File {
    /// How many blocks there are.
    pub(in crate::pool) fn used_blocks(&self) -> u32 {
        // Acquire pairs with `more_blocks`: their pages exist.
        self.head().used_blocks.load(Ordering::Acquire).min(self.blocks)
    }

    /// A block that there is.
    pub(super) fn holders(&self, block: u32) -> Result<&Holders, Error> {
        if block >= self.used_blocks() {
            return Err(self.segment.damaged("a block of holders"));
        }
        self.segment.at(self.blocks_at + u64::from(block) * BLOCK)
    }

    /// The holders of an object that is shared, by name.
    pub(in crate::pool) fn holders_of(&self, object: &ObjectRef, tag: Tag) -> Vec<crate::TokenId> {
        let Tag::Shared(sharing) = tag else { return Vec::new() };
        let Ok(record) = self.record(object) else { return Vec::new() };
        // Relaxed: should it be another sharing's by now, its numbers are others.
        let block = record.note.load(Ordering::Relaxed);
        let mut names: Vec<_> = self.holders(block).map_or(Vec::new(), |block| block.names(sharing.number).collect());
        names.sort_unstable_by_key(|name| name.as_u32());
        names.dedup();
        names
    }

    /// A block for a sharing whose object the caller owns.
    pub(super) fn take_block(&self, serves: Serves) -> Result<u32, Error> {
        let head = self.head();
        // Relaxed: hints. The block that was given back last is in this processor's cache, perhaps.
        if head.freed_block.load(Ordering::Relaxed) != 0 {
            let hint = head.freed_block.swap(0, Ordering::Relaxed);
            if hint != 0 && self.holders(hint - 1).is_ok_and(|block| block.take(None, serves)) {
                return Ok(hint - 1);
            }
        }
        if let Some(block) = self.look_for_block(serves, LOOKS, false)? {
            return Ok(block);
        }
        loop {
            let used = self.used_blocks();
            match self.more_blocks(used) {
                Ok(()) => {}
                // All of them, and those that the dead left.
                Err(error) => return self.look_for_block(serves, u32::MAX, true)?.ok_or(error),
            }
            // Another may have taken it, but hardly all that are new.
            for block in used..self.used_blocks() {
                if self.holders(block)?.take(None, serves) {
                    head.block_cursor.store(block + 1, Ordering::Relaxed);
                    return Ok(block);
                }
            }
        }
    }

    /// Takes a block that is nobody's, from where the last look ended.
    fn look_for_block(&self, serves: Serves, looks: u32, also_left: bool) -> Result<Option<u32>, Error> {
        let (head, used) = (self.head(), self.used_blocks());
        let from = head.block_cursor.load(Ordering::Relaxed);
        let from = if from < used { from } else { 0 };
        for turn in 0..looks.min(used) {
            let at = (from + turn) % used;
            let block = self.holders(at)?;
            let seen = block.serves();
            let spare = match seen {
                None => true,
                Some(seen) => also_left && self.is_spare(seen),
            };
            if spare && block.take(seen, serves) {
                head.block_cursor.store(at + 1, Ordering::Relaxed);
                return Ok(Some(at));
            }
        }
        head.block_cursor.store((from + looks.min(used)) % used.max(1), Ordering::Relaxed);
        Ok(None)
    }

    /// Makes some, if there are as many as were seen. Died before the count: the next one makes them again.
    fn more_blocks(&self, used: u32) -> Result<(), Error> {
        let no_space = || Error::NoSpace { path: self.segment.path().to_path_buf(), wanted: BLOCK };
        let left = u64::from(self.blocks - used) * BLOCK;
        let mut bytes = STEP.min(left);
        if !self.allows(bytes) {
            bytes = PAGE.min(left);
        }
        if bytes < BLOCK || !self.allows(bytes) {
            return Err(no_space());
        }
        grow(&self.segment, self.blocks_at + u64::from(used) * BLOCK, bytes, self)?;
        // Release pairs with `used_blocks`. New pages are zero: blocks that are nobody's.
        self.head().used_blocks.fetch_max(used + (bytes / BLOCK) as u32, Ordering::Release);
        Ok(())
    }

    /// The object that a block serves, and what its tag says. `Err`: this process cannot tell.
    fn served(&self, serves: Serves) -> Result<Option<(ObjectRef, Tag)>, Error> {
        let index = serves.reference >> INDEX_BITS;
        if index >= self.heap.spans && index < self.all_spans {
            return Err(self.segment.damaged("a span that is not mapped here"));
        }
        // None: its span has been taken apart, so nobody had it.
        let Some(object) = self.heap.find_object(&self.segment, serves.reference)? else { return Ok(None) };
        let tag = self.heap.tag_of(&self.segment, &object)?;
        Ok(Some((object, tag)))
    }

    /// Whether a block that says whom it serves is nobody's.
    fn is_spare(&self, serves: Serves) -> bool {
        match self.served(serves) {
            Err(_) | Ok(Some((_, Tag::Owned(_)))) => false,
            Ok(None) => true,
            Ok(Some((_, Tag::Shared(sharing)))) => sharing.number != serves.number,
            Ok(Some(_)) => true,
        }
    }

    /// Frees shared objects that only the ended hold, and takes their names out of all cells.
    pub(in crate::pool) fn collect_shared(&self, ends: &Ends, dry_run: bool) -> Result<Orphans, Error> {
        let mut found = Orphans::default();
        let has_ended = |process| ends.has_ended(process);
        for at in 0..self.used_blocks() {
            let block = self.holders(at)?;
            if let Some(serves) = block.serves() {
                match self.served(serves) {
                    Ok(Some((object, Tag::Shared(sharing)))) if sharing.number == serves.number => {
                        let record = self.record(&object)?;
                        // Relaxed: written before the tag that was read.
                        let own = record.note.load(Ordering::Relaxed) == at;
                        let gone = match dry_run {
                            true => own && !block.is_held(sharing, None, &has_ended),
                            false => own && holders::free(&record.tag, 0, block, serves, None, &has_ended),
                        };
                        if gone {
                            found.objects += 1;
                            self.head().freed_block.store(at + 1, Ordering::Relaxed);
                            continue;
                        }
                    }
                    _ if !dry_run && self.is_spare(serves) => {
                        // Nothing of it is lost: one step that somebody did not live to take.
                        block.release(serves);
                    }
                    _ => {}
                }
            }
            let (names, left) = block.sweep(ends, dry_run);
            found.names += names;
            found.names_left |= left;
        }
        Ok(found)
    }
}
