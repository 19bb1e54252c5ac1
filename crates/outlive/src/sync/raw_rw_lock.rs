//! The reader-writer lock itself: a mutex for writers, and a word of its own for each reader, in shared memory.
//!
//! `writer` is a [`RawMutex`] with the states of its table. A reader's word:
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | nobody's | |
//! | id | id reads, or looks whether it may | nobody is told: a reader leaves nothing half-done; a writer clears it, another reader may have it |
//! | id + WAITERS | the same, and a writer may sleep on it | the same; the kernel's mark wakes the writer |
//!
//! A reader writes its id into a word, **then** looks at `writer`: free and consistent, and it is inside. A writer takes
//! `writer`, **then** looks at all readers' words and waits until each is 0 or a dead one's. So one of the two sees the
//! other. Whoever finds `writer` in the hands of a dead one takes it as a writer. `inside` says whether that one had got
//! in, or only waited for readers. Had it got in, the taker waits for the readers and is told, also if it came to read:
//! it may have to repair. If not, nothing is half-done, and nobody is told.
//!
//! | `inside` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | nobody has begun to write, or all is written | nobody is told |
//! | 1 | the holder of `writer` may be in the middle of it, or the last one was, and nobody has repaired it | the next is told |
//!
//! Each reader's word lies in a cache line that no other reader writes to as long as there are no more than 64: readers
//! on two processors do not get in each other's way. Checked by doc/models/rw_lock.pml with deaths at any step, by loom,
//! and by killing at every instruction. doc/protocols/rw_lock.md has the argument.

use super::raw_mutex::{Acquired, RawMutex, Refused};
use crate::Deadline;
use crate::liveness::{Asleep, Me, Patience, TokenId, WAITERS, sleep};
use crate::shim::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence, order_seq_cst_accesses};
use crate::sys::futex::{self, Watch};
use crate::sys::robust::PassOn;

/// Cache lines with readers' words: so many readers have one to themselves. One bit each in `lines`.
#[cfg(not(loom))]
pub(crate) const LINES: usize = 64;
/// Readers' words in a line.
#[cfg(not(loom))]
pub(crate) const WORDS: usize = 16;
#[cfg(loom)]
pub(crate) const LINES: usize = 2;
#[cfg(loom)]
pub(crate) const WORDS: usize = 1;

/// So often a reader waits for one writer after another to go; then it queues for `writer` itself, where it is as good
/// as they are.
const MOST_ROUNDS: u32 = 8;

#[repr(C, align(64))]
struct Line {
    // Written by the reader whose id it is, by sleeping writers.
    words: [AtomicU32; WORDS],
}

/// See the file's head.
#[repr(C, align(64))]
pub(crate) struct RawRwLock {
    // Written by writers; readers look.
    writer: RawMutex,
    /// A bit for each line that has ever had a reader: the others need not be looked at.
    lines: AtomicU64,
    /// The deepest word of any line that has ever had a reader; 0 as long as no two readers had to share a line.
    depth: AtomicU32,
    /// See the file's head. Written by the holder of `writer`.
    inside: AtomicU32,
    #[cfg(not(loom))]
    reserved: [AtomicU32; 10],
    // Written by readers, a line each.
    slots: [Line; LINES],
}

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<RawRwLock>() == 64 + 4096);
    assert!(core::mem::offset_of!(RawRwLock, slots) == 64);
};

/// How somebody who came to read got in.
pub(crate) enum Entered<'a> {
    /// Beside other readers. The word that says so; [`leave`] takes it.
    Reading(&'a AtomicU32),
    /// Alone, as a writer: the last one died inside.
    Repairing,
}

/// Gives back what `read` or `downgrade` gave.
#[inline]
pub(crate) fn leave(word: &AtomicU32) {
    // Release pairs with the Acquire of the writer that finds the word empty: what we read, we read before it writes.
    // Died just after: a writer that sleeps on the word sleeps on our token as well.
    if word.swap(0, Ordering::Release) & WAITERS != 0 {
        futex::wake_all(word);
    }
}

#[inline]
fn line_of(id: TokenId) -> usize {
    id.slot() as usize % LINES
}

impl RawRwLock {
    #[cfg(loom)]
    pub(crate) fn new() -> RawRwLock {
        let line = || Line { words: std::array::from_fn(|_| AtomicU32::new(0)) };
        RawRwLock {
            writer: RawMutex::new(),
            lines: AtomicU64::new(0),
            depth: AtomicU32::new(0),
            inside: AtomicU32::new(0),
            slots: std::array::from_fn(|_| line()),
        }
    }

    // Reading.

    /// Enters as a reader if nobody writes and the first word tried is free: the fast path. The word is what [`leave`]
    /// takes.
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
        leave(word);
        None
    }

    /// Enters as a reader, waiting until the deadline; `None` never waits.
    #[cold]
    #[inline(never)]
    pub(crate) fn read_slow(
        &self,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
    ) -> Result<Entered<'_>, Refused> {
        // Given back when this function returns, by whatever way.
        let mut pass = None;
        let mut last_try = false;
        for round in 0..MOST_ROUNDS {
            // Looked at first: who must wait anyway needs no word.
            if self.writer.is_open() {
                let Some(word) = self.announce(me) else {
                    return self.read_as_holder(me, patience, wait);
                };
                if self.writer.is_open() {
                    return Ok(Entered::Reading(word));
                }
                // Before we sleep: whoever writes, or wants to, waits for the word. Died just before: it is a dead one's.
                leave(word);
            }
            let Some(owner) = self.writer_in_the_way(me)? else {
                if self.writer.is_consistent() {
                    // It was there and has gone.
                    continue;
                }
                return self.read_as_holder(me, patience, wait);
            };
            if !me.registry.is_alive(owner) {
                return self.read_as_holder(me, patience, wait);
            }
            let Some(deadline) = wait else {
                return Err(Refused::WouldBlock);
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if self.has_reader(me.id) {
                // It waits for us.
                return Err(Refused::Deadlock);
            }
            if round == 0 && patience.spin(|| self.writer.word().load(Ordering::Relaxed) == 0) {
                continue;
            }
            last_try = self.writer.sleep_behind_owner(me, &mut pass, deadline)? == Asleep::TimedOut;
        }
        self.read_as_holder(me, patience, wait)
    }

    /// Who keeps readers out, dead or alive.
    fn writer_in_the_way(&self, me: Me) -> Result<Option<TokenId>, Refused> {
        let seen = self.writer.word().load(Ordering::Acquire);
        if seen == 0 {
            return Ok(None);
        }
        let owner = TokenId::from_word(seen).ok_or(Refused::Damaged)?;
        if owner == me.id { Err(Refused::Deadlock) } else { Ok(Some(owner)) }
    }

    /// Takes `writer` first and enters as a reader under it: nobody writes as long as we hold it. For a lock that a
    /// writer died with (we are told, as any writer would be), for a lock without a free word, and for readers who never
    /// find it open.
    fn read_as_holder(&self, me: Me, patience: &Patience, wait: Option<Deadline>) -> Result<Entered<'_>, Refused> {
        let got = match wait {
            Some(deadline) if !self.has_reader(me.id) => self.writer.lock(me, patience, deadline)?,
            _ => self.writer.try_lock(me).map_err(|refused| match refused {
                // We read already: whoever lives and holds it waits for us to leave.
                Refused::WouldBlock if wait.is_some() => Refused::Deadlock,
                other => other,
            })?,
        };
        if self.judge(got) == Acquired::OwnerDied {
            self.drain(me, patience, wait, None)?;
            self.begin();
            return Ok(Entered::Repairing);
        }
        Ok(Entered::Reading(self.read_under_writer(me)))
    }

    /// From holding `writer` to reading; without a free word we go on holding it, and others wait for us.
    fn read_under_writer(&self, me: Me) -> &AtomicU32 {
        match self.announce(me) {
            Some(word) => {
                // Died just before: as a writer that was not inside. Release, after the word was claimed: the next
                // writer finds it.
                self.writer.release();
                word
            }
            None => self.writer.word(),
        }
    }

    /// Writes our id into a word that is free or a dead reader's: first into lines that nobody uses, from our own on.
    fn announce(&self, me: Me) -> Option<&AtomicU32> {
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
                // A dead reader's WAITERS may go with it: the writer that set it sleeps on that reader's end, too.
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

    // Writing.

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
        // SeqCst: see `enter`. Clamped: a damaged depth leads nowhere.
        let mut lines = self.lines.load(Ordering::SeqCst);
        if self.depth.load(Ordering::SeqCst) != 0 {
            return self.words().all(|word| word.load(Ordering::SeqCst) == 0);
        }
        while lines != 0 {
            let line = lines.trailing_zeros() as usize % LINES;
            // Acquire, in it, pairs with the Release in `leave`.
            if self.slots[line].words[0].load(Ordering::SeqCst) != 0 {
                return false;
            }
            lines &= lines - 1;
        }
        true
    }

    /// From now on our death is told. No reader is inside.
    #[inline]
    fn begin(&self) {
        self.inside.store(1, Ordering::Relaxed);
        // Whoever finds us dead has seen all our stores (the kernel's mark comes after them); only the compiler must not
        // write what is guarded before the store above.
        compiler_fence(Ordering::SeqCst);
    }

    /// From now on our death is not told: all is written, and whole.
    #[inline]
    fn end(&self) {
        // Release keeps what was written before it; whoever takes `writer` from us, dead or alive, reads it after.
        self.inside.store(0, Ordering::Release);
    }

    /// Whether the death of the last holder of `writer`, which is ours now, is to be told.
    fn judge(&self, got: Acquired) -> Acquired {
        // Relaxed: written by holders of `writer` only, whose Acquire orders it.
        if got == Acquired::OwnerDied && self.inside.load(Ordering::Relaxed) == 0 {
            // It died waiting for readers, or after it had written, or only read. Died just before: the same again.
            self.writer.mark_consistent();
            return Acquired::Clean;
        }
        got
    }

    /// Takes the lock alone, waiting until the deadline; `None` never waits. `acquired`: it has been taken from other
    /// writers already.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_slow(
        &self,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
        acquired: bool,
    ) -> Result<Acquired, Refused> {
        let got = if acquired { self.writer.entered(me.registry)? } else { self.acquire_slow(me, patience, wait)? };
        let got = self.judge(got);
        self.drain(me, patience, wait, None)?;
        self.begin();
        Ok(got)
    }

    fn acquire_slow(&self, me: Me, patience: &Patience, wait: Option<Deadline>) -> Result<Acquired, Refused> {
        match wait {
            // Who holds it may wait for us, the reader.
            Some(_) if self.has_reader(me.id) => Err(Refused::Deadlock),
            Some(deadline) => self.writer.lock(me, patience, deadline),
            None => {
                // Looked at first, so that a try which must fail keeps no reader out meanwhile.
                for word in self.words() {
                    match TokenId::from_word(word.load(Ordering::Relaxed)) {
                        Some(reader) if reader == me.id => return Err(Refused::Deadlock),
                        Some(reader) if me.is_alive(reader) => return Err(Refused::WouldBlock),
                        _ => {}
                    }
                }
                self.writer.try_lock(me)
            }
        }
    }

    /// Waits until no reader but `own` is inside, the caller holding `writer`; gives it back when that cannot be had.
    fn drain(
        &self,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
        own: Option<&AtomicU32>,
    ) -> Result<(), Refused> {
        let drained = self.drain_words(me, patience, wait, own);
        let kept = own.is_some_and(|own| core::ptr::eq(own, self.writer.word()));
        if drained.is_err() && !kept {
            // An owner's death that we were to be told of is left for the next.
            self.writer.release();
        }
        drained
    }

    #[cold]
    fn drain_words(
        &self,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
        own: Option<&AtomicU32>,
    ) -> Result<(), Refused> {
        // Between our claim of `writer` and the look at the words: pairs with the order of the two in `enter`.
        fence(Ordering::SeqCst);
        // Given back when this function returns, by whatever way.
        let mut pass = None;
        for word in self.words() {
            if own.is_none_or(|own| !core::ptr::eq(own, word)) {
                Self::wait_empty(word, me, patience, wait, &mut pass)?;
            }
        }
        Ok(())
    }

    /// Waits until the reader of that word has left or died.
    fn wait_empty(
        word: &AtomicU32,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
        pass: &mut Option<PassOn>,
    ) -> Result<(), Refused> {
        let mut last_try = false;
        let mut has_spun = false;
        loop {
            // SeqCst: see `enter`. Acquire, in it, pairs with the Release in `leave`.
            let seen = word.load(Ordering::SeqCst);
            if seen == 0 {
                return Ok(());
            }
            let reader = TokenId::from_word(seen).ok_or(Refused::Damaged)?;
            if reader == me.id {
                return Err(Refused::Deadlock);
            }
            if !me.registry.is_alive(reader) {
                // Relaxed: what the dead one read, it read before its end, which we have seen. Failed: another reader
                // has it now. Died just after: one dead name less.
                let _ = word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
                continue;
            }
            let Some(deadline) = wait else {
                return Err(Refused::WouldBlock);
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if !has_spun {
                has_spun = true;
                if patience.spin(|| word.load(Ordering::Relaxed) != seen) {
                    continue;
                }
            }
            let waited_for = seen | WAITERS;
            // Relaxed: the bit only asks the reader to wake us. Died just after: an empty wake, no harm.
            if seen & WAITERS == 0
                && word.compare_exchange(seen, waited_for, Ordering::Relaxed, Ordering::Relaxed).is_err()
            {
                continue;
            }
            let pass = pass.get_or_insert_with(|| PassOn::begin(me.list()));
            let watch = Watch { word, expected: waited_for };
            let end = sleep(me.registry, pass, &[watch], Some(reader), deadline).map_err(Refused::System)?;
            last_try = end == Asleep::TimedOut;
        }
    }

    /// Gives the lock back. The caller holds it alone.
    #[inline]
    pub(crate) fn unlock(&self) {
        if self.writer.is_consistent() {
            self.end();
        }
        self.writer.unlock();
    }

    /// The caller, who holds the lock alone, has repaired what it guards.
    pub(crate) fn mark_consistent(&self) {
        self.writer.mark_consistent();
    }

    /// Whether nothing is wrong with what the lock guards. The caller holds it.
    pub(crate) fn is_consistent(&self) -> bool {
        self.writer.is_consistent()
    }

    // From one to the other.

    /// From writing to reading: no writer comes in between. The caller holds the lock alone, and it is consistent.
    pub(crate) fn downgrade(&self, me: Me) -> &AtomicU32 {
        self.end();
        self.read_under_writer(me)
    }

    /// From reading, which `word` says, to writing, once no other reader is inside. Refused, the caller reads on.
    pub(crate) fn upgrade(
        &self,
        word: &AtomicU32,
        me: Me,
        patience: &Patience,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        let by_word = !core::ptr::eq(word, self.writer.word());
        if by_word && self.judge(self.writer.try_lock(me)?) == Acquired::OwnerDied {
            // While we read, no writer was inside: somebody wrote over the words.
            self.writer.release();
            return Err(Refused::Damaged);
        }
        self.drain(me, patience, wait, Some(word))?;
        self.begin();
        if by_word {
            // Died just before: as a writer, and the next is told; just after: the same.
            leave(word);
        }
        Ok(())
    }

    /// Takes the lock alone in whatever state it is; the caller then makes it consistent and unlocks it.
    pub(crate) fn take_to_reset(&self, me: Me, patience: &Patience, deadline: Deadline) -> Result<(), Refused> {
        if self.has_reader(me.id) {
            return Err(Refused::Deadlock);
        }
        self.writer.take_to_reset(me, patience, deadline)?;
        self.drain(me, patience, Some(deadline), None)?;
        self.begin();
        Ok(())
    }

    // Looking.

    /// The words that readers have ever used.
    fn words(&self) -> impl Iterator<Item = &AtomicU32> {
        // SeqCst: see `enter`.
        let lines = self.lines.load(Ordering::SeqCst);
        let depth = (self.depth.load(Ordering::SeqCst) as usize).min(WORDS - 1);
        let marked = self.slots.iter().enumerate().filter(move |(line, _)| lines >> line & 1 == 1);
        marked.flat_map(move |(_, line)| &line.words[..=depth])
    }

    fn has_reader(&self, id: TokenId) -> bool {
        // Relaxed: our own id is written by us.
        self.words().any(|word| TokenId::from_word(word.load(Ordering::Relaxed)) == Some(id))
    }

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
                    // As in `wait_empty`.
                    let _ = word.compare_exchange(seen, 0, Ordering::Relaxed, Ordering::Relaxed);
                }
            }
        }
        found
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for RawRwLock {}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::sys::robust::{ListHead, end_thread};

    struct World {
        registry: Registry,
        lock: RawRwLock,
        value: UnsafeCell<u32>,
    }

    // SAFETY: the value is reached under the lock; that it is so is what loom checks.
    unsafe impl Sync for World {}
    // SAFETY: as above.
    unsafe impl Send for World {}

    fn world(threads: u32) -> Arc<World> {
        let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
        Arc::new(World { registry: Registry::new(slots), lock: RawRwLock::new(), value: UnsafeCell::new(0) })
    }

    /// What a thread of the tests does its calls as.
    struct Actor {
        world: Arc<World>,
        id: TokenId,
        list: std::cell::UnsafeCell<ListHead>,
        patience: Patience,
    }

    // SAFETY: it is used by the thread that it was handed to, and by no other.
    unsafe impl Send for Actor {}

    impl Actor {
        fn new(world: &Arc<World>, thread: u32) -> Actor {
            let list = std::cell::UnsafeCell::new(ListHead::new());
            Actor { world: Arc::clone(world), id: TokenId::new(thread, 0), list, patience: Patience::new() }
        }

        fn lock(&self) -> (&RawRwLock, Me<'_>, &Patience) {
            let me = Me { registry: &self.world.registry, id: self.id, list: self.list.get() };
            (&self.world.lock, me, &self.patience)
        }

        /// Reads; `None`: was told of a death, repaired, and has given the lock back.
        fn read(&self) -> Option<u32> {
            let id = self.id;
            let (lock, me, patience) = self.lock();
            let entered = match lock.enter(id) {
                Some(word) => Entered::Reading(word),
                None => lock.read_slow(me, patience, Some(Deadline::NEVER)).expect("nobody holds it for ever"),
            };
            match entered {
                Entered::Reading(word) => {
                    // SAFETY: loom's cell panics if somebody writes.
                    let value = self.world.value.with(|value| unsafe { *value });
                    leave(word);
                    Some(value)
                }
                Entered::Repairing => {
                    self.raise();
                    self.world.lock.mark_consistent();
                    self.world.lock.unlock();
                    None
                }
            }
        }

        fn write(&self) -> Acquired {
            let id = self.id;
            let (lock, me, patience) = self.lock();
            let acquired = lock.acquire(id);
            if acquired && lock.begin_if_ready() {
                return Acquired::Clean;
            }
            lock.write_slow(me, patience, Some(Deadline::NEVER), acquired).expect("nobody holds it for ever")
        }

        fn raise(&self) {
            // SAFETY: loom's cell panics if anybody else is inside.
            self.world.value.with_mut(|value| unsafe { *value += 1 });
        }

        fn end(&self) {
            // SAFETY: this thread's, which is between calls.
            end_thread(&self.world.registry.slots[self.id.slot() as usize], unsafe { &*self.list.get() });
        }
    }

    fn explore(test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(test);
    }

    #[test]
    fn loom_rw_a_reader_and_a_writer_never_meet() {
        explore(|| {
            let world = world(2);
            // The line has had a reader before, or not: the fast path, or the slow one.
            let reader = Actor::new(&world, 0);
            reader.read();
            let writing = thread::spawn({
                let writer = Actor::new(&world, 1);
                move || {
                    assert_eq!(writer.write(), Acquired::Clean);
                    writer.raise();
                    writer.world.lock.unlock();
                }
            });
            assert!(reader.read().is_some());
            writing.join().unwrap();
            assert_eq!(reader.read(), Some(1));
        });
    }

    #[test]
    fn loom_rw_a_first_reader_and_a_writer_never_meet() {
        explore(|| {
            let world = world(2);
            let writing = thread::spawn({
                let writer = Actor::new(&world, 1);
                move || {
                    assert_eq!(writer.write(), Acquired::Clean);
                    writer.raise();
                    writer.world.lock.unlock();
                }
            });
            let reader = Actor::new(&world, 0);
            assert!(reader.read().is_some());
            writing.join().unwrap();
        });
    }

    #[test]
    fn loom_rw_two_readers_of_one_line_and_a_writer_never_meet() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let world = world(3);
            let threads = [0, 2].map(|n| {
                let reader = Actor::new(&world, n);
                thread::spawn(move || assert!(reader.read().is_some()))
            });
            let writer = Actor::new(&world, 1);
            assert_eq!(writer.write(), Acquired::Clean);
            writer.raise();
            writer.world.lock.unlock();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_rw_a_dead_reader_keeps_no_writer_out() {
        explore(|| {
            let world = world(2);
            let dying = thread::spawn({
                let reader = Actor::new(&world, 0);
                move || {
                    let id = reader.id;
                    let (lock, me, patience) = reader.lock();
                    let entered = lock.enter(id).is_some()
                        || matches!(lock.read_slow(me, patience, Some(Deadline::NEVER)), Ok(Entered::Reading(_)));
                    assert!(entered);
                    reader.end();
                }
            });
            let writer = Actor::new(&world, 1);
            assert_eq!(writer.write(), Acquired::Clean);
            writer.raise();
            writer.world.lock.unlock();
            dying.join().unwrap();
        });
    }

    #[test]
    fn loom_rw_a_writers_death_is_told_to_the_next_who_reads() {
        explore(|| {
            let world = world(2);
            let dying = thread::spawn({
                let writer = Actor::new(&world, 1);
                move || {
                    writer.write();
                    writer.raise();
                    writer.end();
                }
            });
            let reader = Actor::new(&world, 0);
            let first = reader.read();
            dying.join().unwrap();
            // Either we came first, and are told now; or we were told, and have made it whole.
            match first {
                Some(value) => {
                    assert_eq!(value, 0);
                    assert_eq!(reader.read(), None);
                }
                None => assert_eq!(reader.read(), Some(2)),
            }
        });
    }

    #[test]
    fn loom_rw_no_writer_comes_between_writing_and_reading_on() {
        explore(|| {
            let world = world(2);
            let other = thread::spawn({
                let writer = Actor::new(&world, 1);
                move || {
                    writer.write();
                    writer.raise();
                    writer.world.lock.unlock();
                }
            });
            let writer = Actor::new(&world, 0);
            writer.write();
            writer.raise();
            // SAFETY: loom's cell panics if anybody writes.
            let written = world.value.with(|value| unsafe { *value });
            let (lock, me, _) = writer.lock();
            let word = lock.downgrade(me);
            // SAFETY: as above.
            assert_eq!(world.value.with(|value| unsafe { *value }), written);
            leave(word);
            other.join().unwrap();
        });
    }

    #[test]
    fn loom_rw_of_two_who_upgrade_one_does() {
        explore(|| {
            let world = world(2);
            let upgrade = |reader: Actor| {
                let (lock, me, patience) = reader.lock();
                let Ok(Entered::Reading(word)) = lock.read_slow(me, patience, Some(Deadline::NEVER)) else {
                    panic!("nobody dies");
                };
                match lock.upgrade(word, me, patience, Some(Deadline::NEVER)) {
                    Ok(()) => {
                        // SAFETY: loom's cell panics if anybody else is inside.
                        reader.world.value.with_mut(|value| unsafe { *value += 1 });
                        lock.unlock();
                        true
                    }
                    Err(refused) => {
                        assert_eq!(refused, Refused::WouldBlock);
                        leave(word);
                        false
                    }
                }
            };
            let other = Actor::new(&world, 1);
            let other = thread::spawn(move || upgrade(other));
            let one = upgrade(Actor::new(&world, 0));
            let other = other.join().unwrap();
            assert!(one || other, "both were refused");
        });
    }
}
