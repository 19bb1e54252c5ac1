//! What others ask of the lock from outside: who has it, and to let go of the dead.

use super::{RawRwLock, WORDS};
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;

impl RawRwLock {
    /// Who reads, or is about to, dead or alive.
    pub(crate) fn readers(&self) -> Vec<TokenId> {
        self.words().filter_map(|word| TokenId::from_word(word.load(Ordering::Acquire))).collect()
    }

    /// Who writes, or waits for readers to leave, dead or alive.
    pub(crate) fn writer(&self) -> Option<TokenId> {
        self.writer.owner()
    }

    /// Whether it was given up.
    pub(crate) fn is_not_recoverable(&self) -> bool {
        self.writer.is_not_recoverable()
    }

    /// The deepest word in use, from 1.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed).min(WORDS as u32 - 1) + 1
    }

    /// A sweep's part: takes the names of the dead out. After a writer's death the next is told all the same.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        let mut found = u32::from(self.writer.sweep(me, dry_run));
        for word in self.words() {
            let seen = word.load(Ordering::Acquire);
            if TokenId::from_word(seen).is_some_and(|reader| !me.is_alive(reader)) {
                found += 1;
                if !dry_run {
                    // Release pairs with the Acquire of the writer that finds the word empty, as in `vacate`: what the dead
                    // one read, it read before the writer writes. Failed: another reader has it now.
                    let _ = word.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed);
                }
            }
        }
        found
    }
}
