//! Readers' words: taken by whoever comes to read, and which of them a writer must look at.
//!
//! `lines` and `depth` only ever grow: a bit for each line that has had a reader, and the deepest word of any. Both are
//! marked before the word is claimed; died in between, writers look at one word more.

use super::{LINES, RawRwLock, WORDS, line_of};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering, order_seq_cst_accesses};

impl RawRwLock {
    /// Writes our id into a word that is free or a dead reader's: first into lines that nobody uses, from our own on.
    pub(super) fn announce(&self, me: Me) -> Option<&AtomicU32> {
        let first = line_of(me.id);
        for depth in 0..WORDS {
            for line in (first..LINES).chain(0..first) {
                let word = &self.slots[line].words[depth];
                // Relaxed: only the exchange below counts.
                let seen = word.load(Ordering::Relaxed);
                let free = seen == 0 || TokenId::from_word(seen).is_some_and(|reader| !me.is_alive(reader));
                if !free {
                    continue;
                }
                self.mark(line, depth);
                // A writer that waits for the dead reader sleeps on its end: it looks again, and finds us.
                if word.compare_exchange(seen, me.id.as_u32(), Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                    order_seq_cst_accesses();
                    return Some(word);
                }
            }
        }
        None
    }

    /// Makes writers look at that word from now on. Never taken back. SeqCst: see `enter`.
    fn mark(&self, line: usize, depth: usize) {
        if self.lines.load(Ordering::SeqCst) >> line & 1 == 0 {
            self.lines.fetch_or(1 << line, Ordering::SeqCst);
        }
        if (self.depth.load(Ordering::SeqCst) as usize) < depth {
            self.depth.fetch_max(depth as u32, Ordering::SeqCst);
        }
    }

    /// The words that readers have ever used.
    pub(super) fn words(&self) -> impl Iterator<Item = &AtomicU32> {
        // SeqCst: see `enter`.
        let lines = self.lines.load(Ordering::SeqCst);
        let depth = (self.depth.load(Ordering::SeqCst) as usize).min(WORDS - 1);
        let marked = self.slots.iter().enumerate().filter(move |(line, _)| lines >> line & 1 == 1);
        marked.flat_map(move |(_, line)| &line.words[..=depth])
    }

    pub(super) fn has_reader(&self, id: TokenId) -> bool {
        // Relaxed: our own id is written by us.
        self.words().any(|word| TokenId::from_word(word.load(Ordering::Relaxed)) == Some(id))
    }
}
