//! A semaphore whose permits name their holders: one word each.
//!
//! | record | state | which thread changes it, and how | a death here |
//! | --- | --- | --- | --- |
//! | 0 | free | an acquirer: compare-exchange → id | |
//! | id | held | its holder: store 0 | a thread that needs a permit takes it from the dead holder by compare-exchange |
//! | id + HANDED | given to id, which has not taken it up yet | id: compare-exchange → id | the same, when id dies |
//! | ABSENT | no permit yet | a thread that adds one: compare-exchange → 0 | |
//!
//! There is no count that a death could leave wrong: the permits are the records. A thread that
//! finds none free or dead sleeps on the eventcount and on the ends of all holders.
//!
//! A thread that wants several permits takes the turn first, a claim of its own, then one permit
//! after the other, and keeps what it has while it waits for the rest. So no two threads wait for
//! each other's part. Died meanwhile: its permits are a dead holder's, its turn a dead owner's.
//! proof/models/semaphore.pml and the loom tests below check it, and tests kill it at every
//! instruction; doc/protocols/semaphore.md has the argument.

use super::Refused;
use crate::Deadline;
use crate::claim::Word;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, EventCount, MOST_OWNERS, Sleep, SpinWait};

const FREE: u32 = 0;
/// In a holder's word, the bit that elsewhere asks for a wake-up; here the eventcount wakes.
const HANDED: u32 = crate::liveness::WAITERS;
/// No token's id has this bit.
const ABSENT: u32 = 1 << 30;

/// The words of a semaphore as a process sees them. The process knows the number of records from
/// when it opened the file.
#[derive(Clone, Copy)]
pub(crate) struct RawSemaphore<'a> {
    pub(crate) free: &'a EventCount,
    /// Not 0, for good: a thread has waited here for a permit to be handed to it, and cannot use a
    /// free one.
    pub(crate) takers: &'a AtomicU32,
    /// Names the thread that takes several permits just now.
    pub(crate) turn: &'a Word,
    pub(crate) records: Records<'a>,
}

/// The permits, `step` words apart: a few have a cache line each.
#[derive(Clone, Copy)]
pub(crate) struct Records<'a> {
    pub(crate) words: &'a [AtomicU32],
    pub(crate) step: usize,
}

impl<'a> Records<'a> {
    #[inline]
    pub(crate) fn len(self) -> usize {
        self.words.len() / self.step
    }

    #[inline]
    fn get(self, index: usize) -> Option<&'a AtomicU32> {
        self.words.get(index * self.step)
    }

    /// Makes so many permits free, before any other process sees them.
    pub(crate) fn prepare(self, permits: usize) {
        for (index, record) in self.from(0) {
            record.store(if index < permits { FREE } else { ABSENT }, Ordering::Relaxed);
        }
    }

    /// Returns all records, from the `start`th on.
    fn from(self, start: usize) -> impl Iterator<Item = (usize, &'a AtomicU32)> {
        let len = self.len();
        let start = start.min(len);
        // Two runs, and no division for each record, because spinning uses this.
        (start..len).chain(0..start).filter_map(move |n| self.get(n).map(|word| (n, word)))
    }
}

/// What a thread that acquires several permits has by now. Dropping it gives nothing back:
/// [`RawSemaphore::give_up`] does.
#[derive(Default)]
pub(crate) struct Gathered {
    has_turn: bool,
    taken: Vec<usize>,
}

impl Gathered {
    /// Returns the permits, once all have been gathered.
    pub(crate) fn into_permits(self) -> Vec<usize> {
        self.taken
    }
}

/// What a look at all records found.
enum Look {
    /// A permit, taken.
    Got(usize),
    /// All are held: `owners` live and hold some, not counting the caller; `own` are the caller's.
    Held { owners: Vec<TokenId>, own: usize },
}

impl RawSemaphore<'_> {
    /// Takes that permit if it is free.
    #[inline]
    pub(crate) fn acquire(self, id: TokenId, index: usize) -> bool {
        // Acquire pairs with the Release in `release`. Died just after: the record names us, and a
        // thread that needs it takes it.
        self.records.get(index).is_some_and(|record| {
            record.compare_exchange(FREE, id.as_u32(), Ordering::Acquire, Ordering::Relaxed).is_ok()
        })
    }

    /// Takes any permit that is free or a dead holder's.
    #[cold]
    pub(crate) fn try_acquire(self, me: Me, start: usize) -> Result<usize, Refused> {
        match self.look(me, start) {
            Look::Got(index) => Ok(index),
            Look::Held { .. } => Err(Refused::WouldBlock),
        }
    }

    fn look(self, me: Me, start: usize) -> Look {
        let mut owners = Vec::new();
        let mut own = 0;
        for (index, record) in self.records.from(start) {
            let mut seen = record.load(Ordering::Acquire);
            loop {
                let from = match TokenId::from_word(seen) {
                    _ if seen == ABSENT => break,
                    _ if seen == FREE => FREE,
                    Some(owner) if owner == me.id => {
                        own += 1;
                        break;
                    }
                    Some(owner) if me.registry.is_alive(owner) => {
                        owners.push(owner);
                        break;
                    }
                    // A dead holder's, or a stray write that names no thread.
                    _ => seen,
                };
                // Acquire: the next holder sees what a dead one did under the permit.
                match record.compare_exchange(
                    from,
                    me.id.as_u32(),
                    Ordering::Acquire,
                    Ordering::Acquire,
                ) {
                    Ok(FREE) => return Look::Got(index),
                    Ok(_) => {
                        me.registry.count_owner_death();
                        return Look::Got(index);
                    }
                    Err(now) => seen = now,
                }
            }
        }
        Look::Held { owners, own }
    }

    /// Takes a permit, and waits until the deadline.
    #[cold]
    pub(crate) fn acquire_slow(
        self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
        start: usize,
    ) -> Result<usize, Refused> {
        if let Look::Got(index) = self.look(me, start) {
            return Ok(index);
        }
        // Spinning only loads: a death leaves nothing.
        let is_free =
            || self.records.from(start).any(|(_, record)| record.load(Ordering::Relaxed) == FREE);
        // What the spin has seen is taken before a wait is prepared, because preparing may
        // interrupt all other processors.
        if spin_wait.spin(is_free)
            && let Look::Got(index) = self.look(me, start)
        {
            return Ok(index);
        }
        let relay = WakeRelay::begin(me.list());
        let mut turn = 0;
        let mut last_try = false;
        loop {
            let ticket = self.free.prepare_wait();
            let (owners, own) = match self.look(me, start) {
                Look::Got(index) => return Ok(index),
                Look::Held { owners, own } => (owners, own),
            };
            if last_try {
                return Err(Refused::TimedOut);
            }
            if own == self.records.len() {
                return Err(Refused::Deadlock);
            }
            let until = ticket.until(deadline);
            let watch = [self.free.watch(ticket)];
            // A release wakes two sleepers only. The others find the changed sequence at their
            // recheck, which is a rescue only if a permit is free.
            let sleep = Sleep::on(me.registry, &watch).behind(&relay, &owners).beginning_at(turn);
            match sleep.until_it_comes(until, is_free) {
                Ok(Asleep::TimedOut) => last_try = deadline.has_passed(),
                Ok(Asleep::LookAgain) => {}
                Err(errno) => return Err(Refused::System(errno)),
            }
            // Woken: look again, first without preparing another wait.
            if let Look::Got(index) = self.look(me, start) {
                return Ok(index);
            }
            turn += MOST_OWNERS;
        }
    }

    /// Takes so many permits, and waits until the deadline, or never; takes none if it cannot have
    /// all. The caller's turn comes after that of other callers which want several.
    #[cold]
    pub(crate) fn acquire_many(
        self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        start: usize,
        count: usize,
    ) -> Result<Vec<usize>, Refused> {
        let mut gathered = Gathered::default();
        let got = self.gather(me, spin_wait, wait, start, count, &mut gathered);
        if got.is_err() {
            self.give_up(me.id, &mut gathered);
        }
        got.map(|()| gathered.into_permits())
    }

    /// Does the same, and keeps in `gathered` what it has, and the turn, if it is refused: the caller
    /// goes on by another call, or gives up.
    ///
    /// Died or stopped between two calls: as in the middle of one.
    #[cold]
    pub(crate) fn gather(
        self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
        start: usize,
        count: usize,
        gathered: &mut Gathered,
    ) -> Result<(), Refused> {
        if count == 0 {
            // Without the turn: the thread that has it may wait for a permit of the caller's.
            return Ok(());
        }
        if !gathered.has_turn {
            match wait {
                // Looked at first, so that a try which must fail takes nothing from others.
                None if self.within_reach(me) < count => return Err(Refused::WouldBlock),
                None => self.turn.try_claim(me)?,
                // The others' permits, all of them, would not be enough.
                Some(_) if self.held_by(me.id) + count > self.records.len() => {
                    return Err(Refused::Deadlock);
                }
                Some(deadline) => self.turn.claim(me, spin_wait, deadline)?,
            };
            // Died or stopped from here on: others wait for the turn, or take it over; the permits
            // that we have by then are a dead or a living holder's, as any.
            gathered.has_turn = true;
        }
        let taken = &mut gathered.taken;
        while taken.len() < count {
            let from = taken.last().map_or(start, |last| last + 1);
            let index = match wait {
                None => self.try_acquire(me, from)?,
                Some(deadline) => self.acquire_slow(me, spin_wait, deadline, from)?,
            };
            taken.push(index);
        }
        self.turn.release(me.id, 0);
        gathered.has_turn = false;
        Ok(())
    }

    /// Gives back what a thread with that id has gathered, and its turn.
    #[cold]
    pub(crate) fn give_up(self, id: TokenId, gathered: &mut Gathered) {
        gathered.taken.drain(..).for_each(|index| self.release(index));
        if core::mem::take(&mut gathered.has_turn) {
            self.turn.release(id, 0);
        }
    }

    /// Returns how many permits no living thread holds.
    fn within_reach(self, me: Me) -> usize {
        let is_free = |word: u32| {
            word != ABSENT && TokenId::from_word(word).is_none_or(|owner| !me.is_alive(owner))
        };
        self.words().filter(|&word| is_free(word)).count()
    }

    /// Returns how many permits that thread holds.
    fn held_by(self, id: TokenId) -> usize {
        self.words().filter(|&word| TokenId::from_word(word) == Some(id)).count()
    }

    fn words(self) -> impl Iterator<Item = u32> {
        // Relaxed: what is seen here is only counted.
        self.records.from(0).map(|(_, record)| record.load(Ordering::Relaxed))
    }

    /// Gives that permit back. The caller holds it.
    #[inline]
    pub(crate) fn release(self, index: usize) {
        if let Some(record) = self.records.get(index) {
            // Release pairs with every Acquire above. Died or stopped just after: sleepers watch
            // our end, and look again.
            record.store(FREE, Ordering::Release);
        }
        self.notify_of_one();
    }

    /// Wakes two sleepers for one more permit, though only one gets it. The other watches the new
    /// holder, which those that sleep on do not know; and if the first dies, the other takes its
    /// place.
    #[inline]
    fn notify_of_one(self) {
        self.free.notify_some(2);
        // After the wake: a thread that queued before it has said so before. The two that woke may
        // have been such threads.
        if self.takers.load(Ordering::Relaxed) != 0 {
            self.free.notify_all();
        }
    }

    /// Uses the caller's permit up: there is one less.
    pub(crate) fn consume(self, index: usize) {
        if let Some(record) = self.records.get(index) {
            record.store(ABSENT, Ordering::Release);
        }
    }

    /// Adds a permit, and returns where; `None` when there are as many as there may be.
    pub(crate) fn add(self, start: usize) -> Option<usize> {
        // Died just after: the permit exists, as if the call had returned; the next notification
        // wakes the sleepers.
        let (added, _) = self.records.from(start).find(|(_, record)| {
            record.load(Ordering::Relaxed) == ABSENT
                && record
                    .compare_exchange(ABSENT, FREE, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
        })?;
        self.notify_of_one();
        Some(added)
    }

    /// Writes another thread's name on the caller's permit.
    pub(crate) fn hand(self, index: usize, to: TokenId) {
        if let Some(record) = self.records.get(index) {
            // In one store: at each moment the permit is the giver's or the receiver's.
            record.store(to.as_u32() | HANDED, Ordering::Release);
        }
        self.free.notify_all();
    }

    /// Takes up a permit that was handed to one of `names`.
    pub(crate) fn take_up(self, me: Me, names: &[TokenId]) -> Option<usize> {
        self.records.from(0).find_map(|(index, record)| {
            let seen = record.load(Ordering::Relaxed);
            let to =
                TokenId::from_word(seen).filter(|id| seen & HANDED != 0 && names.contains(id))?;
            record
                .compare_exchange(seen, me.id.as_u32(), Ordering::Acquire, Ordering::Relaxed)
                .ok()?;
            if to != me.id {
                // Sleepers watch the process, and must watch this thread. Died just before: the
                // process did, too.
                self.free.notify_all();
            }
            Some(index)
        })
    }

    /// Takes one up likewise, and waits until the deadline.
    pub(crate) fn take_up_until(
        self,
        me: Me,
        names: &[TokenId],
        deadline: Deadline,
    ) -> Result<usize, Refused> {
        // Before the sequence: a thread that the sequence wakes sees this.
        self.takers.store(1, Ordering::Relaxed);
        loop {
            let ticket = self.free.prepare_wait();
            if let Some(index) = self.take_up(me, names) {
                return Ok(index);
            }
            if deadline.has_passed() {
                return Err(Refused::TimedOut);
            }
            let until = ticket.until(deadline);
            // No particular process has to hand us one, so there is no end to watch.
            Sleep::on(me.registry, &[self.free.watch(ticket)])
                .until(until)
                .map_err(Refused::System)?;
        }
    }

    /// Returns the holders, dead or alive, and how many permits are free.
    pub(crate) fn holders(self) -> (Vec<TokenId>, usize) {
        let words = || self.records.from(0).map(|(_, record)| record.load(Ordering::Acquire));
        (
            words().filter_map(TokenId::from_word).collect(),
            words().filter(|&word| word == FREE).count(),
        )
    }

    /// Does a sweep's part: takes the permits of the dead back.
    pub(crate) fn sweep(self, me: Me, dry_run: bool) -> u32 {
        let mut found = u32::from(self.turn.sweep(me, dry_run));
        for (_, record) in self.records.from(0) {
            let seen = record.load(Ordering::Acquire);
            if TokenId::from_word(seen).is_none_or(|owner| me.is_alive(owner)) {
                continue;
            }
            found += 1;
            if !dry_run
                && record.compare_exchange(seen, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                self.free.notify_all();
            }
        }
        found
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32 as Count;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::shim::explore;
    use crate::sys::robust::{ListHead, end_thread};

    struct World {
        registry: Registry,
        free: EventCount,
        takers: AtomicU32,
        turn: Word,
        records: Vec<AtomicU32>,
        inside: Count,
    }

    fn world(threads: u32, permits: u32) -> Arc<World> {
        Arc::new(World {
            registry: Registry::new((0..threads).map(|n| Slot::held_by(n + 100)).collect()),
            free: EventCount::default(),
            takers: AtomicU32::new(0),
            turn: Word::new(0),
            records: (0..permits).map(|_| AtomicU32::new(FREE)).collect(),
            inside: Count::new(0),
        })
    }

    impl World {
        fn semaphore(&self) -> RawSemaphore<'_> {
            RawSemaphore {
                free: &self.free,
                takers: &self.takers,
                turn: &self.turn,
                records: Records { words: &self.records, step: 1 },
            }
        }

        fn acquire(&self, thread: u32, list: &mut ListHead) -> usize {
            let me = Me { registry: &self.registry, id: TokenId::new(thread, 0), list };
            if self.semaphore().acquire(me.id, 0) {
                return 0;
            }
            self.semaphore()
                .acquire_slow(me, &SpinWait::new(), Deadline::NEVER, 0)
                .expect("a permit")
        }
    }

    #[test]
    fn loom_no_more_inside_than_permits_and_all_get_in() {
        explore(3, || {
            let world = world(2, 1);
            let threads = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let index = world.acquire(n, &mut list);
                    assert_eq!(world.inside.fetch_add(1, Ordering::Relaxed), 0);
                    world.inside.fetch_sub(1, Ordering::Relaxed);
                    world.semaphore().release(index);
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_a_dead_holders_permit_comes_to_a_sleeper() {
        explore(3, || {
            let world = world(2, 1);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    world.acquire(0, &mut list);
                    end_thread(&world.registry.slots[0], &list);
                })
            };
            let mut list = ListHead::new();
            let index = world.acquire(1, &mut list);
            world.semaphore().release(index);
            dying.join().unwrap();
        });
    }

    #[test]
    fn loom_with_two_holders_the_end_of_either_wakes() {
        explore(3, || {
            let world = world(3, 2);
            let mut lists = [ListHead::new(), ListHead::new()];
            assert_eq!(world.acquire(0, &mut lists[0]), 0);
            assert_eq!(world.acquire(1, &mut lists[1]), 1);
            let sleeper = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    world.acquire(2, &mut list)
                })
            };
            end_thread(&world.registry.slots[1], &lists[1]);
            assert_eq!(sleeper.join().unwrap(), 1);
        });
    }

    #[test]
    fn loom_two_that_want_both_permits_get_them_in_turn() {
        explore(3, || {
            let world = world(2, 2);
            let threads = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let me =
                        Me { registry: &world.registry, id: TokenId::new(n, 0), list: &mut list };
                    let (spin, wait) = (SpinWait::new(), Some(Deadline::NEVER));
                    let got = world.semaphore().acquire_many(me, &spin, wait, n as usize, 2);
                    assert_eq!(world.inside.fetch_add(1, Ordering::Relaxed), 0);
                    world.inside.fetch_sub(1, Ordering::Relaxed);
                    got.expect("both")
                        .into_iter()
                        .for_each(|index| world.semaphore().release(index));
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn loom_a_permit_added_is_heard() {
        explore(3, || {
            let world = world(1, 1);
            world.semaphore().records.prepare(0);
            let adder = {
                let world = Arc::clone(&world);
                thread::spawn(move || assert_eq!(world.semaphore().add(0), Some(0)))
            };
            let mut list = ListHead::new();
            let index = world.acquire(0, &mut list);
            world.semaphore().consume(index);
            adder.join().unwrap();
            assert_eq!(world.semaphore().holders(), (Vec::new(), 0));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn from_anywhere_each_record_comes_once() {
        let words: Vec<AtomicU32> = (0..12).map(AtomicU32::new).collect();
        for step in [1, 4] {
            let records = Records { words: &words, step };
            let len = 12 / step;
            for start in 0..=len + 1 {
                let seen: Vec<usize> = records.from(start).map(|(index, _)| index).collect();
                let first = if start < len { start } else { 0 };
                let expected: Vec<usize> = (0..len).map(|n| (first + n) % len).collect();
                assert_eq!(seen, expected, "from {start} of {len}");
            }
            assert!(
                records
                    .from(0)
                    .all(|(index, word)| word.load(Ordering::Relaxed) as usize == index * step)
            );
        }
    }
}
