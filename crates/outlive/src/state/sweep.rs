//! What a sweep does in a state: it removes the names of dead readers and of a dead writer.

use super::Inner;
use super::layout::Cell;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;

impl Inner {
    /// Removes the names of dead threads, or only counts them in a dry run. Returns how many there
    /// were. Names that stay go into `kept`.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool, kept: &mut Vec<TokenId>) -> u32 {
        let mut claims = 0;
        for cell in &self.buffers.head().cells {
            let mut seen = cell.load(Ordering::Acquire);
            let dead = Cell(seen).owner();
            if dead.is_none_or(|owner| me.is_alive(owner)) {
                continue;
            }
            claims += 1;
            // Once more when a slow writer has turned the dead reader's request into a pin: that
            // leaves the name where it is.
            while !dry_run && Cell(seen).owner() == dead {
                match cell.compare_exchange(seen, Cell::FREE.0, Ordering::AcqRel, Ordering::Relaxed)
                {
                    Ok(_) => break,
                    Err(now) => seen = now,
                }
            }
        }
        // Waiters are told all the same: `holder` says that a writer died.
        claims + self.role().sweep(dry_run, kept)
    }

    /// Returns the number of buffers that exist, and of readers that have one pinned.
    pub(crate) fn figures(&self) -> (u32, u32) {
        let head = self.buffers.head();
        let pins = head
            .cells
            .iter()
            .filter(|cell| Cell(cell.load(Ordering::Relaxed)).owner().is_some())
            .count();
        (head.count.load(Ordering::Relaxed), pins as u32)
    }
}
