//! The reader-writer lock itself: a mutex for writers, and a word of its own for each reader, in shared memory.
//!
//! `writer` is a [`RawMutex`] with the states of its table. A reader's word:
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | nobody's | |
//! | id | id reads, or looks whether it may | nobody is told: a reader leaves nothing half-done; a writer clears it, another reader may have it; the kernel's mark wakes a writer that sleeps |
//!
//! A reader writes its id into a word, **then** looks at `writer`: free and consistent, and it is inside. A writer takes
//! `writer`, **then** looks at all readers' words and waits until each is 0 or a dead one's. So one of the two sees the
//! other. Whoever finds `writer` in the hands of a dead one takes it as a writer. `inside` says whether that one had got
//! in, or only waited for readers. Had it got in, the taker waits for the readers and is told, also if it came to read:
//! it may have to repair. If not, nothing is half-done, and nobody is told.
//!
//! A reader gives its word back by a plain store, then notifies `leaving` (event_count.rs): a writer that
//! sleeps has prepared its wait there, had a fence put into every reader, and looked at the words once more. Only the holder of
//! `writer` ever waits there. Died between the store and the look: the writer sleeps on that reader's end as well.
//!
//! | `inside` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | nobody has begun to write, or all is written | nobody is told |
//! | 1 | the holder of `writer` may be in the middle of it, or one was that died or panicked, and nobody has repaired it | the next is told |
//!
//! Each reader's word lies in a cache line that no other reader writes to as long as there are no more than 64: readers
//! on two processors do not get in each other's way. Checked by proof/models/rw_lock.pml with deaths at any step, by loom,
//! and by killing at every instruction. doc/protocols/rw_lock.md has the argument.

#[cfg(all(test, loom))]
#[path = "rw_lock_tests.rs"]
mod loom_tests;

use super::Acquired;
use super::mutex::RawMutex;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, AtomicU64, Ordering, Pad32, compiler_fence, fewer_under_loom, order_seq_cst_accesses};
use crate::wake::EventCount;

/// Cache lines with readers' words: so many readers have one to themselves. One bit each in `lines`.
pub(crate) const LINES: usize = fewer_under_loom(64, 2);
/// Readers' words in a line.
pub(crate) const WORDS: usize = fewer_under_loom(16, 1);

#[repr(C, align(64))]
struct Line {
    // Written by the reader whose id it is.
    words: [AtomicU32; WORDS],
}

/// See the file's head.
#[repr(C, align(64))]
pub(crate) struct RawRwLock {
    // Written by writers; readers look.
    pub(super) writer: RawMutex,
    /// A bit for each line that has ever had a reader: the others need not be looked at.
    lines: AtomicU64,
    /// The deepest word of any line that has ever had a reader; 0 as long as no two readers had to share a line.
    depth: AtomicU32,
    /// See the file's head. Written by the holder of `writer`.
    inside: AtomicU32,
    /// Where a writer waits for readers to leave. Written by it and, when it sleeps, by whoever leaves.
    pub(super) leaving: EventCount,
    reserved: [Pad32; 8],
    // Written by readers, a line each.
    slots: [Line; LINES],
}

crate::shim::assert_layout!(
    size_of::<RawRwLock>() == 64 + 4096,
    core::mem::offset_of!(RawRwLock, leaving) == 24,
    core::mem::offset_of!(RawRwLock, slots) == 64,
);

/// How somebody who came to read got in.
pub(crate) enum Entered<'a> {
    /// Beside other readers. The word that says so; [`RawRwLock::leave`] takes it.
    Reading(&'a AtomicU32),
    /// Alone, as a writer: the last one died inside.
    Repairing,
}

#[inline]
fn line_of(id: TokenId) -> usize {
    id.slot() as usize % LINES
}

impl RawRwLock {
    /// Enters as a reader if nobody writes and the first word tried is free: the fast path. The word is what
    /// [`RawRwLock::leave`] takes.
    #[inline]
    pub(crate) fn enter(&self, id: TokenId) -> Option<&AtomicU32> {
        let line = line_of(id);
        let word = &self.slots[line].words[0];
        // SeqCst, all four: writers load `lines` after they have taken `writer`. As we saw the bit before we look at
        // `writer`, a writer that we do not see sees the bit; and our word, by the two accesses below.
        if self.lines.load(Ordering::SeqCst) >> line & 1 == 0
            || word.compare_exchange(0, id.as_u32(), Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return None;
        }
        // Died just after: a dead id stands there; writers pass over it.
        order_seq_cst_accesses();
        if self.writer.is_open() {
            return Some(word);
        }
        self.vacate(word, id);
        None
    }

    /// Gives back what `enter`, `read_slow` or `downgrade` gave.
    #[inline]
    pub(crate) fn leave(&self, word: &AtomicU32, id: TokenId) {
        if self.is_writers(word) {
            // We read by holding `writer`, for want of a word: those who wait for it sleep on it, as on a mutex.
            self.writer.release(id);
        } else {
            self.vacate(word, id);
        }
    }

    /// Gives a reader's word back. The caller's id stands in it, which nobody takes out as long as it lives: a store does.
    /// A reader that was taken for dead while it lives finds it empty, or another's, and leaves it.
    #[inline]
    pub(super) fn vacate(&self, word: &AtomicU32, id: TokenId) {
        // Relaxed: our own store, or another's, of which nothing else is read.
        if word.load(Ordering::Relaxed) != id.as_u32() {
            return;
        }
        // Release pairs with the Acquire of the writer that finds the word empty: what we read, we read before it writes.
        // Died just after: a writer that sleeps until we leave sleeps on our end as well.
        word.store(0, Ordering::Release);
        self.leaving.notify_all();
    }

    /// Whether a reader's guard stands on `writer`.
    #[inline]
    pub(super) fn is_writers(&self, word: &AtomicU32) -> bool {
        core::ptr::eq(word, self.writer.word())
    }

    /// Takes the lock from other writers, if it is free; readers may be inside.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        self.writer.acquire_before_looking(id)
    }

    /// Begins to write if no reader is inside and nothing is wrong with what the lock guards. The caller has acquired it.
    #[inline]
    pub(crate) fn begin_if_ready(&self) -> bool {
        let ready = self.is_empty() && self.writer.is_consistent();
        if ready {
            self.begin();
        }
        ready
    }

    #[inline]
    fn is_empty(&self) -> bool {
        order_seq_cst_accesses();
        // SeqCst: see `enter`.
        let mut lines = self.lines.load(Ordering::SeqCst);
        if self.depth.load(Ordering::SeqCst) != 0 {
            return self.words_are_empty();
        }
        while lines != 0 {
            let line = lines.trailing_zeros() as usize % LINES;
            // Acquire, in it, pairs with the Release in `vacate`.
            if self.slots[line].words[0].load(Ordering::SeqCst) != 0 {
                return false;
            }
            lines &= lines - 1;
        }
        true
    }

    /// Where more than 64 read, or did.
    #[cold]
    #[inline(never)]
    fn words_are_empty(&self) -> bool {
        // SeqCst: see `enter`. Clamped: a damaged depth leads nowhere.
        self.words().all(|word| word.load(Ordering::SeqCst) == 0)
    }

    /// From now on our death is told. No reader is inside.
    #[inline]
    pub(super) fn begin(&self) {
        self.inside.store(1, Ordering::Relaxed);
        // Whoever finds us dead has seen all our stores (the kernel's mark comes after them); only the compiler must not
        // write what is guarded before the store above.
        compiler_fence(Ordering::SeqCst);
    }

    /// From now on our death is not told: all is written, and whole.
    #[inline]
    pub(super) fn end(&self) {
        // Release keeps what was written before it; whoever takes `writer` from us, dead or alive, reads it after.
        self.inside.store(0, Ordering::Release);
    }

    /// Gives the lock back. The caller holds it alone.
    #[inline]
    pub(crate) fn unlock(&self, id: TokenId) {
        // Else `inside` stays: the next one is told. What is another's by now, who may be inside, stays its.
        if self.writer.is_held_by(id) && self.writer.is_consistent() {
            self.end();
        }
        self.writer.release(id);
    }

    /// Gives the lock back when a panic has cut the writer's work in half: the next one is told, as of a death.
    #[cold]
    pub(crate) fn unlock_unfinished(&self, id: TokenId) {
        self.writer.release_unfinished(id);
    }

    /// Gives the lock back, and up: everybody who comes is refused until somebody resets it. The caller holds it alone.
    #[cold]
    pub(crate) fn give_up(&self, id: TokenId) {
        self.writer.give_up(id);
    }

    /// The caller, who holds the lock alone, has repaired what it guards.
    pub(crate) fn mark_consistent(&self) {
        self.writer.mark_consistent();
    }

    /// Whether nothing is wrong with what the lock guards. The caller holds it.
    pub(crate) fn is_consistent(&self) -> bool {
        self.writer.is_consistent()
    }

    /// Whether the death of the last holder of `writer`, which is ours now, is to be told.
    pub(super) fn judge(&self, got: Acquired) -> Acquired {
        // Relaxed: written by holders of `writer` only, whose Acquire orders it.
        if got == Acquired::OwnerDied && self.inside.load(Ordering::Relaxed) == 0 {
            // It died waiting for readers, or after it had written, or only read. Died just before: the same again.
            self.writer.mark_consistent();
            return Acquired::Clean;
        }
        got
    }
}

/// Readers' words: a reader takes one, and a writer looks at those that were ever taken.
///
/// `lines` and `depth` only ever grow: a bit for each line that has had a reader, and the deepest
/// word of any. Both are marked before the word is claimed. When the reader dies in between,
/// writers look at one word more.
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

/// What others ask of the lock from outside: who has it, and to let go of the dead.
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

// SAFETY: atomics.
unsafe impl crate::segment::Shared for RawRwLock {}
