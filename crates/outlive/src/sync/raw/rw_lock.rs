//! The reader-writer lock: a mutex for writers, and a word for each reader, in shared memory.
//!
//! `writer` is a [`RawMutex`] with the states of its table, and one more: its owner may set a mark
//! beside its id, `SHARED`. Then it does not write but reads, as the upgradable reader, and lets
//! other readers in beside it. A reader's word:
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | id | id reads, or looks whether it may | no locker is told: a reader leaves nothing half-done; a writer clears the word, another reader may take it; the kernel's mark wakes a sleeping writer |
//!
//! A reader writes its id into a word, **then** looks at `writer`: if that is free and consistent,
//! the reader is inside. A writer takes `writer`, **then** looks at all readers' words and waits
//! until each is 0 or a dead reader's. So one of the two sees the other. A thread that finds
//! `writer` held by a dead owner takes it as a writer. `inside` says whether the dead owner had
//! begun to write, or only waited for readers, or only read. If it had begun, the taker waits for
//! the readers and is told, even if it came to read, because it may have to repair. If not, nothing
//! is half-done, and no locker is told.
//!
//! The upgradable reader owns `writer`, so there is one at a time, and no writer beside it. To
//! become a writer it takes `SHARED` out, **then** looks at all readers' words, as any writer does.
//! A reader that finds `SHARED` there after it has written its word is inside: so again one of the
//! two sees the other. Whether the owner lives does not matter to that reader: no thread writes
//! before it has put its own id there, and then it looks at the words.
//!
//! A reader clears its word by a plain store, then notifies `leaving` (event_count.rs). A writer
//! that sleeps has prepared its wait there, has had a fence put into every reader, and has looked
//! at the words once more. Only the holder of `writer` ever waits there. Died between the store and
//! the notification: the writer sleeps on that reader's end as well.
//!
//! | `inside` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | no thread has begun to write, or all is written | no locker is told |
//! | 1 | the holder of `writer` may be in the middle of a change, or an earlier one died or panicked there, and none has repaired it | the next locker is told |
//!
//! Up to 64 readers each have a word in a cache line of their own: readers on two processors do not
//! get in each other's way. proof/models/rw_lock.pml checks it with deaths at any step, so does
//! loom, and tests kill it at every instruction. doc/protocols/rw_lock.md has the argument.

#[cfg(all(test, loom))]
#[path = "rw_lock_tests.rs"]
mod loom_tests;

use super::Acquired;
use super::mutex::RawMutex;
use crate::claim::Word;
use crate::liveness::{Me, TokenId};
use crate::shim::{
    AtomicU32, AtomicU64, Ordering, Pad32, compiler_fence, fewer_under_loom, order_seq_cst_accesses,
};
use crate::wake::EventCount;

/// The number of the bit that the owner of `writer` sets beside its id while it reads.
pub(super) const SHARED_BIT: u8 = 30;
/// See the file's head.
pub(crate) const SHARED: u32 = 1 << SHARED_BIT;

/// Cache lines with readers' words: so many readers have a line each. `lines` has one bit for each.
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
pub struct RawRwLock {
    // Written by writers, read by readers.
    pub(super) writer: RawMutex<SHARED>,
    /// A bit for each line that has ever had a reader: writers skip the others.
    lines: AtomicU64,
    /// The deepest word of any line that has ever had a reader; 0 as long as no two readers had to
    /// share a line.
    depth: AtomicU32,
    /// See the file's head. Written by the holder of `writer`.
    inside: AtomicU32,
    /// Where a writer waits for readers to leave. Written by the writer and, when it sleeps, by
    /// leaving readers.
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

/// How a thread that came to read got in.
pub(crate) enum Entered<'a> {
    /// Beside other readers. The word says so; [`RawRwLock::leave`] takes it.
    Reading(&'a AtomicU32),
    /// Alone, as a writer: the last writer died inside.
    Repairing,
}

#[inline]
fn line_of(id: TokenId) -> usize {
    id.slot() as usize % LINES
}

impl RawRwLock {
    /// Enters as a reader if no thread writes and the first word tried is free: the fast path.
    /// Returns the word, which [`RawRwLock::leave`] takes.
    #[inline]
    pub(crate) fn enter(&self, id: TokenId) -> Option<&AtomicU32> {
        let line = line_of(id);
        let word = &self.slots[line].words[0];
        // SeqCst, all four: writers load `lines` after they have taken `writer`. We see the bit
        // before we look at `writer`, so a writer that we do not see sees the bit; and, by the two
        // accesses below, our word.
        if self.lines.load(Ordering::SeqCst) >> line & 1 == 0
            || word.compare_exchange(0, id.as_u32(), Ordering::SeqCst, Ordering::Relaxed).is_err()
        {
            return None;
        }
        // Died just after: the word holds a dead id, and writers pass over it.
        order_seq_cst_accesses();
        if self.writer.is_open() {
            return Some(word);
        }
        self.enter_beside_owner(word, id)
    }

    /// Goes on reading by the word that we have claimed, if an upgradable reader owns `writer`.
    #[cold]
    fn enter_beside_owner<'a>(&'a self, word: &'a AtomicU32, id: TokenId) -> Option<&'a AtomicU32> {
        if self.is_shared() {
            return Some(word);
        }
        self.vacate(word, id);
        None
    }

    /// Returns whether an upgradable reader owns `writer`, dead or alive, so that readers may
    /// enter.
    pub(crate) fn is_shared(&self) -> bool {
        // SeqCst: see `enter`. It also pairs with the last writer's Release: the owner has only
        // exchanged the word since, which goes on with that release sequence. `DIED` has the bit,
        // but names no owner.
        let seen = self.writer.word().load(Ordering::SeqCst);
        seen & SHARED != 0
            && Word::<SHARED>::owner_in(seen).is_some()
            && self.writer.is_consistent()
    }

    /// Takes the lock as the upgradable reader if it is free and what it guards is whole; other
    /// readers may be inside. With `Some(false)` the caller has `writer`, and has to look at its
    /// state.
    #[inline]
    pub(crate) fn enter_upgradable(&self, id: TokenId) -> Option<bool> {
        // Died just after: the word names a dead reader, beside which readers enter, and which the
        // next writer takes over.
        self.writer.claim().acquire_marked(id, SHARED).then(|| self.writer.is_consistent())
    }

    /// Gives back what the upgradable reader holds.
    #[inline]
    pub(crate) fn leave_upgradable(&self, id: TokenId) {
        self.writer.claim().release_marked(id, SHARED, 0);
    }

    /// Gives back what `enter`, `read_slow` or `downgrade` returned.
    #[inline]
    pub(crate) fn leave(&self, word: &AtomicU32, id: TokenId) {
        if self.is_writers(word) {
            // Without a free word we read by holding `writer`: waiters sleep on it, as on a mutex.
            self.writer.release(id);
        } else {
            self.vacate(word, id);
        }
    }

    /// Clears a reader's word. The word holds the caller's id, and no thread takes that out as long
    /// as the caller lives, so a store suffices. A reader that was declared dead while it lives
    /// finds the word empty, or another reader's, and leaves it alone.
    #[inline]
    pub(super) fn vacate(&self, word: &AtomicU32, id: TokenId) {
        // Relaxed: our own store, or another reader's, behind which we read nothing.
        if word.load(Ordering::Relaxed) != id.as_u32() {
            return;
        }
        // Release pairs with the Acquire of the writer that finds the word empty: what we read, we
        // read before it writes. Died just after: a writer that sleeps until we leave sleeps on our
        // end as well.
        word.store(0, Ordering::Release);
        self.leaving.notify_all();
    }

    /// Returns whether a reader's guard holds `writer`.
    #[inline]
    pub(super) fn is_writers(&self, word: &AtomicU32) -> bool {
        core::ptr::eq(word, self.writer.word())
    }

    /// Takes the lock from other writers if it is free; readers may be inside.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        self.writer.acquire_before_looking(id)
    }

    /// Begins to write if no reader is inside and what the lock guards is whole. The caller has
    /// acquired the lock.
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

    /// Returns whether all words are empty, for a lock that more than 64 read, or did.
    #[cold]
    #[inline(never)]
    fn words_are_empty(&self) -> bool {
        // SeqCst: see `enter`. `words` clamps `depth`, so that a damaged one stays inside.
        self.words().all(|word| word.load(Ordering::SeqCst) == 0)
    }

    /// From now on our death will be told. No reader is inside.
    #[inline]
    pub(super) fn begin(&self) {
        self.inside.store(1, Ordering::Relaxed);
        // A process that finds us dead has seen all our stores (the kernel's mark comes after
        // them), so only the compiler must not move writes to the guarded value before the store
        // above.
        compiler_fence(Ordering::SeqCst);
    }

    /// From now on our death will not be told: all is written, and whole.
    #[inline]
    pub(super) fn end(&self) {
        // Release keeps earlier writes before it; the next thread to take `writer`, from us dead or
        // alive, reads it after.
        self.inside.store(0, Ordering::Release);
    }

    /// Unlocks. The caller alone holds the lock.
    #[inline]
    pub(crate) fn unlock(&self, id: TokenId) {
        // Else `inside` stays, and the next locker is told. If another thread owns the lock by now
        // and may be inside, nothing changes.
        if self.writer.is_held_by(id) && self.writer.is_consistent() {
            self.end();
        }
        self.writer.release(id);
    }

    /// Unlocks when a panic has interrupted the writer's change: the next locker is told, as of a
    /// death.
    #[cold]
    pub(crate) fn unlock_unfinished(&self, id: TokenId) {
        self.writer.release_unfinished(id);
    }

    /// Marks the lock not recoverable, and unlocks it: every locker is refused until a process
    /// resets it. The caller alone holds the lock.
    #[cold]
    pub(crate) fn mark_not_recoverable(&self, id: TokenId) {
        self.writer.mark_not_recoverable(id);
    }

    /// Notes that the caller, which alone holds the lock, has repaired what it guards.
    pub(crate) fn mark_consistent(&self) {
        self.writer.mark_consistent();
    }

    /// Returns whether what the lock guards is whole. The caller holds the lock.
    pub(crate) fn is_consistent(&self) -> bool {
        self.writer.is_consistent()
    }

    /// Decides whether the death of the last holder of `writer`, which we now hold, is to be told.
    pub(super) fn judge(&self, got: Acquired) -> Acquired {
        // Relaxed: only holders of `writer` write it, and their Acquire orders it.
        if got == Acquired::OwnerDied && self.inside.load(Ordering::Relaxed) == 0 {
            // It died waiting for readers, or after it had written, or it only read. Died just
            // before: the next does the same.
            self.writer.mark_consistent();
            return Acquired::Clean;
        }
        got
    }
}

/// Readers' words: a reader takes one, and a writer looks at those that were ever taken.
///
/// `lines` and `depth` only grow: a bit for each line that has had a reader, and the deepest word
/// of any. A reader marks both before it claims the word. If it dies in between, writers look at
/// one word more.
impl RawRwLock {
    /// Writes our id into a word that is free or a dead reader's, and tries unused lines first,
    /// beginning with our own.
    pub(super) fn announce(&self, me: Me) -> Option<&AtomicU32> {
        let first = line_of(me.id);
        for depth in 0..WORDS {
            for line in (first..LINES).chain(0..first) {
                let word = &self.slots[line].words[depth];
                // Relaxed: only the exchange below decides.
                let seen = word.load(Ordering::Relaxed);
                let free = seen == 0
                    || TokenId::from_word(seen).is_some_and(|reader| !me.is_alive(reader));
                if !free {
                    continue;
                }
                self.mark(line, depth);
                // A writer that waits for the dead reader sleeps on its end: it looks again, and
                // finds us.
                if word
                    .compare_exchange(seen, me.id.as_u32(), Ordering::SeqCst, Ordering::Relaxed)
                    .is_ok()
                {
                    order_seq_cst_accesses();
                    return Some(word);
                }
            }
        }
        None
    }

    /// Makes writers look at that word from now on. Never undone. SeqCst: see `enter`.
    fn mark(&self, line: usize, depth: usize) {
        if self.lines.load(Ordering::SeqCst) >> line & 1 == 0 {
            self.lines.fetch_or(1 << line, Ordering::SeqCst);
        }
        if (self.depth.load(Ordering::SeqCst) as usize) < depth {
            self.depth.fetch_max(depth as u32, Ordering::SeqCst);
        }
    }

    /// Returns the words that readers have ever used.
    pub(super) fn words(&self) -> impl Iterator<Item = &AtomicU32> {
        // SeqCst: see `enter`.
        let lines = self.lines.load(Ordering::SeqCst);
        let depth = (self.depth.load(Ordering::SeqCst) as usize).min(WORDS - 1);
        let marked = self.slots.iter().enumerate().filter(move |(line, _)| lines >> line & 1 == 1);
        marked.flat_map(move |(_, line)| &line.words[..=depth])
    }

    pub(super) fn has_reader(&self, id: TokenId) -> bool {
        // Relaxed: only this thread writes its own id.
        self.words().any(|word| TokenId::from_word(word.load(Ordering::Relaxed)) == Some(id))
    }
}

/// What a process asks of the lock from outside: its holders, and to free the claims of the dead.
impl RawRwLock {
    /// Returns the threads that read, or are about to, dead or alive.
    pub(crate) fn readers(&self) -> Vec<TokenId> {
        self.words().filter_map(|word| TokenId::from_word(word.load(Ordering::Acquire))).collect()
    }

    /// Returns the thread that writes, or waits for readers to leave, dead or alive.
    pub(crate) fn writer(&self) -> Option<TokenId> {
        self.writer.owner()
    }

    /// Returns whether a holder has marked the lock not recoverable.
    pub(crate) fn is_not_recoverable(&self) -> bool {
        self.writer.is_not_recoverable()
    }

    /// Returns the deepest word in use, from 1.
    pub(crate) fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed).min(WORDS as u32 - 1) + 1
    }

    /// Does a sweep's part: takes the names of the dead out. After a writer's death the next locker
    /// is told all the same.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        let mut found = u32::from(self.writer.sweep(me, dry_run));
        for word in self.words() {
            let seen = word.load(Ordering::Acquire);
            if TokenId::from_word(seen).is_some_and(|reader| !me.is_alive(reader)) {
                found += 1;
                if !dry_run {
                    // Release pairs with the Acquire of the writer that finds the word empty, as in
                    // `vacate`: what the dead reader read, it read before the writer writes.
                    // Failed: another reader has the word now.
                    let _ = word.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed);
                }
            }
        }
        found
    }
}

// SAFETY: all fields are atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawRwLock {}
