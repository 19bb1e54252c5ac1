//! A sweep's part: the names of dead readers and of a dead writer.

use super::Inner;
use super::layout::Cell;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;

impl Inner {
    /// Takes the names of the dead out; a dry run only counts. How many there were. What stays goes into `kept`.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool, kept: &mut Vec<TokenId>) -> u32 {
        let mut claims = 0;
        for cell in &self.buffers.head().cells {
            let mut seen = cell.load(Ordering::Acquire);
            let dead = Cell(seen).owner();
            if dead.is_none_or(|owner| me.is_alive(owner)) {
                continue;
            }
            claims += 1;
            // Again when a writer that was slow has made a pin of the dead reader's question: it leaves the name where it is.
            while !dry_run && Cell(seen).owner() == dead {
                match cell.compare_exchange(seen, Cell::FREE.0, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
        }
        // Who waits is told all the same: `holder` says that somebody died.
        claims + self.role().sweep(dry_run, kept)
    }

    /// Buffers that exist, and readers that have one pinned.
    pub(crate) fn figures(&self) -> (u32, u32) {
        let head = self.buffers.head();
        let pins = head.cells.iter().filter(|cell| Cell(cell.load(Ordering::Relaxed)).owner().is_some()).count();
        (head.count.load(Ordering::Relaxed), pins as u32)
    }
}
