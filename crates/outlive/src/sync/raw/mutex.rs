//! The mutex: two words in shared memory; a token owns it.
//!
//! | word | state | meaning | a death here |
//! | --- | --- | --- | --- |
//! | 0 | consistent | free | |
//! | id | consistent | id holds it | the next locker takes it over by compare-exchange, and gets `OwnerDied` |
//! | id + WAITERS | any | held, and a thread may sleep | the same; the kernel's mark wakes one sleeper, which wakes all |
//! | id | inconsistent | its holder was told of a death, or panics | taken over, told again |
//! | `DIED` | any | a dead owner's, whose name a sweep has taken out | as a dead owner's id: taken over, told |
//! | 0 | inconsistent | a holder that was told, or that panicked, did not mark it consistent | the next locker is told |
//! | id | not recoverable | its holder gives it up, or is about to be refused | taken over, refused |
//! | 0 | not recoverable | given up | every locker is refused until `reset` |
//!
//! Only the holder writes `state`, so plain stores suffice, ordered by the word.
//! proof/models/mutex.pml checks it with deaths at any step, the loom tests below check it, and
//! tests kill it at every instruction. doc/protocols/mutex.md has the argument.

use super::{Acquired, Refused};
use crate::Deadline;
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::futex::{self, Watch};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep, SpinWait};

const WAITERS: u32 = crate::liveness::WAITERS;
/// In place of a dead owner's id, because its token may be given out again. The letters "DIED"; no
/// id, because bit 29 is not set, and a number that a stray write is unlikely to leave.
pub(crate) const DIED: u32 = 0x4449_4544;

/// What the lock guards is whole.
pub(crate) const CONSISTENT: u32 = 0;
/// An owner died or panicked holding it; the present holder has been told, or the next will be.
pub(crate) const INCONSISTENT: u32 = 1;
/// A holder gave the lock up.
pub(crate) const NOT_RECOVERABLE: u32 = 2;

/// See the file's head.
#[repr(C)]
pub(crate) struct RawMutex {
    // Written by lockers and sleepers.
    word: AtomicU32,
    // Written by the holder.
    state: AtomicU32,
}

impl RawMutex {
    /// Takes the lock for `id` if it is free.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        // Acquire pairs with the Release in `release`; on failure too, for what a dead owner left.
        // Died just after: the word names us, so the next locker takes over and is told.
        self.word.compare_exchange(0, id.as_u32(), Ordering::Acquire, Ordering::Acquire).is_ok()
    }

    /// Takes the lock likewise, for a caller that next looks whether readers are inside.
    #[inline]
    pub(crate) fn acquire_before_looking(&self, id: TokenId) -> bool {
        // SeqCst: comes before the look in the order of a reader's claim and look, see `RawRwLock`.
        // Otherwise as in `acquire`.
        self.word.compare_exchange(0, id.as_u32(), Ordering::SeqCst, Ordering::Acquire).is_ok()
    }

    /// Returns whether no thread holds the lock and what it guards is whole: a reader asks this.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        // SeqCst: see `RawRwLock`; it also pairs with the Release in `release`, so `state` is the
        // last holder's.
        self.word.load(Ordering::SeqCst) == 0 && self.is_consistent()
    }

    /// Returns whether what the lock guards is whole. The caller holds the lock.
    #[inline]
    pub(crate) fn is_consistent(&self) -> bool {
        // Relaxed: only holders write it, and the word's Acquire orders it.
        self.state.load(Ordering::Relaxed) == CONSISTENT
    }

    /// Takes the lock, and waits until the deadline.
    #[inline]
    pub(crate) fn lock(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<Acquired, Refused> {
        if self.acquire(me.id) { self.entered(me) } else { self.lock_slow(me, spin_wait, deadline) }
    }

    /// Takes the lock if it is free or its owner is dead.
    #[inline]
    pub(crate) fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        if self.acquire(me.id) {
            return self.entered(me);
        }
        self.try_lock_slow(me, self.word.load(Ordering::Acquire))
    }

    /// Decides what the lock's state means to the caller, which has just taken it.
    #[inline]
    pub(crate) fn entered(&self, me: Me) -> Result<Acquired, Refused> {
        match self.state.load(Ordering::Relaxed) {
            CONSISTENT => Ok(Acquired::Clean),
            state => self.entered_slow(me, state),
        }
    }

    #[cold]
    fn entered_slow(&self, me: Me, state: u32) -> Result<Acquired, Refused> {
        if state == INCONSISTENT {
            me.registry.count_owner_death();
            return Ok(Acquired::OwnerDied);
        }
        self.release(me.id);
        Err(if state == NOT_RECOVERABLE { Refused::NotRecoverable } else { Refused::Damaged })
    }

    #[cold]
    fn try_lock_slow(&self, me: Me, mut seen: u32) -> Result<Acquired, Refused> {
        loop {
            if seen == 0 {
                match self.word.compare_exchange(
                    0,
                    me.id.as_u32(),
                    Ordering::Acquire,
                    Ordering::Acquire,
                ) {
                    Ok(_) => return self.entered(me),
                    Err(now) => seen = now,
                }
                continue;
            }
            if seen != DIED {
                let owner = TokenId::from_word(seen).ok_or(Refused::Damaged)?;
                if owner == me.id {
                    return Err(Refused::Deadlock);
                }
                if me.registry.is_alive(owner) {
                    return Err(Refused::WouldBlock);
                }
            }
            match self.take_over(me, seen) {
                Ok(result) => return result,
                Err(now) => seen = now,
            }
        }
    }

    /// Takes the lock over from a dead owner; `Err` is the word as another thread left it.
    fn take_over(&self, me: Me, seen: u32) -> Result<Result<Acquired, Refused>, u32> {
        let mine = me.id.as_u32() | WAITERS;
        // WAITERS, because others may sleep on the old value. Died just after: we are the dead
        // owner, the next is told.
        self.word.compare_exchange(seen, mine, Ordering::Acquire, Ordering::Acquire)?;
        if self.state.load(Ordering::Relaxed) == CONSISTENT {
            // Died just before: the next locker takes over from us, and is told all the same.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        Ok(self.entered(me))
    }

    #[cold]
    fn lock_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<Acquired, Refused> {
        // Spinning only loads: a death leaves nothing.
        spin_wait.spin(|| self.word.load(Ordering::Relaxed) == 0);
        // Given back when this function returns, in whatever way.
        let mut relay = None;
        let mut last_try = false;
        loop {
            match self.try_lock_slow(me, self.word.load(Ordering::Acquire)) {
                Err(Refused::WouldBlock) if last_try => return Err(Refused::TimedOut),
                Err(Refused::WouldBlock) => {}
                settled => return settled,
            }
            last_try = self.sleep_behind_owner(me, &mut relay, deadline)? == Asleep::TimedOut;
        }
    }

    /// Sleeps until the word changes or its living owner ends; returns at once if there is no such
    /// owner. The caller keeps `relay` until it has what it wants.
    #[cold]
    pub(crate) fn sleep_behind_owner(
        &self,
        me: Me,
        relay: &mut Option<WakeRelay>,
        deadline: Deadline,
    ) -> Result<Asleep, Refused> {
        let seen = self.word.load(Ordering::Acquire);
        let Some(owner) = TokenId::from_word(seen).filter(|owner| *owner != me.id) else {
            return Ok(Asleep::LookAgain);
        };
        let waited_for = seen | WAITERS;
        // Relaxed: the bit only asks the owner to wake us. Died just after: an empty wake, no harm.
        if seen & WAITERS == 0
            && self
                .word
                .compare_exchange(seen, waited_for, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            return Ok(Asleep::LookAgain);
        }
        let relay = relay.get_or_insert_with(|| WakeRelay::begin(me.list()));
        let watch = Watch { word: &self.word, expected: waited_for };
        Sleep::on(me.registry, &[watch])
            .behind(relay, &[owner])
            .until(deadline)
            .map_err(Refused::System)
    }

    /// Unlocks when a panic has interrupted the holder's change: the next locker is told, as of a
    /// death.
    #[cold]
    pub(crate) fn release_unfinished(&self, id: TokenId) {
        if self.is_held_by(id) && self.is_consistent() {
            // Relaxed: ordered by the word. Died just after: the next locker takes over from us,
            // and is told all the same.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
        self.release(id);
    }

    /// Unlocks, and gives the lock up: every locker is refused until a process resets it. The
    /// caller holds the lock.
    #[cold]
    pub(crate) fn give_up(&self, id: TokenId) {
        if self.is_held_by(id) {
            // Relaxed: ordered by the word. Died just after: the next locker takes over, and is
            // refused.
            self.state.store(NOT_RECOVERABLE, Ordering::Relaxed);
        }
        self.release(id);
    }

    /// Returns whether the word still names `id`: if a process declared that holder dead, another
    /// may hold the lock by now.
    pub(crate) fn is_held_by(&self, id: TokenId) -> bool {
        // Relaxed: the holder's own store, or another's, of which nothing else is read.
        self.word.load(Ordering::Relaxed) & !WAITERS == id.as_u32()
    }

    /// Unlocks and leaves the state: if a holder that was told did not mark it consistent, the next
    /// locker is told again. The caller, whose token has that id, holds the lock: one locked
    /// instruction, no load. If another thread owns the lock by now, nothing changes.
    #[inline]
    pub(crate) fn release(&self, id: TokenId) {
        // Release pairs with every Acquire above. With WAITERS the word is not freed here: if this
        // thread were stopped before the wake, the sleepers would not know.
        if self.word.compare_exchange(id.as_u32(), 0, Ordering::Release, Ordering::Relaxed).is_err()
        {
            self.release_to_sleepers(id);
        }
    }

    /// Frees the word and wakes all sleepers, in one step: a holder that is stopped before it still
    /// has the lock, one that is stopped after it has woken every sleeper. If it is killed before
    /// it, the sleepers watch our token, and the kernel's mark wakes one of them, which wakes the
    /// rest.
    ///
    /// All: if one waiter alone were woken, and killed or stopped before it runs, the others would
    /// sleep on, because they watch our token and not the next owner's.
    #[cold]
    #[inline(never)]
    fn release_to_sleepers(&self, id: TokenId) {
        let held = id.as_u32() | WAITERS;
        // Relaxed: only a holder takes WAITERS away. Another value belongs to another thread: then
        // there is nothing to unlock.
        if self.word.load(Ordering::Relaxed) == held {
            futex::set_and_wake_all(&self.word, held, 0);
        }
    }

    /// Notes that the holder has repaired what the lock guards.
    pub(crate) fn mark_consistent(&self) {
        self.state.store(CONSISTENT, Ordering::Relaxed);
    }

    /// Does a sweep's part: takes a dead owner's name out, so that no claim of the dead remains.
    /// The next locker is told as by the name. Returns whether there was one.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> bool {
        take_name_out(&self.word, me, dry_run)
    }

    /// Takes the lock in whatever state it is; the caller repairs what it guards, marks it
    /// consistent and unlocks.
    ///
    /// Died in between: a lock that was given up stays so; of any other, the next locker is told.
    pub(crate) fn take_to_reset(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<(), Refused> {
        while !self.acquire(me.id) {
            match self.lock(me, spin_wait, deadline) {
                Ok(_) => break,
                // A locker that is refused for it unlocks at once, so the word is free sooner or
                // later.
                Err(Refused::NotRecoverable) => {}
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Returns the word that holds the owner's id.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Returns the thread that holds the lock, dead or alive.
    pub(crate) fn owner(&self) -> Option<TokenId> {
        TokenId::from_word(self.word.load(Ordering::Acquire))
    }

    /// Returns whether the lock was given up.
    pub(crate) fn is_not_recoverable(&self) -> bool {
        self.state.load(Ordering::Relaxed) == NOT_RECOVERABLE
    }
}

/// Leaves [`DIED`] in place of a dead owner's id. Returns whether there was one.
pub(crate) fn take_name_out(word: &AtomicU32, me: Me, dry_run: bool) -> bool {
    let mut seen = word.load(Ordering::Acquire);
    let Some(owner) = TokenId::from_word(seen) else {
        return false;
    };
    if me.is_alive(owner) {
        return false;
    }
    // Again when a waiter has set its bit meanwhile: it may die before it takes the lock over.
    while !dry_run && TokenId::from_word(seen) == Some(owner) {
        // In one step: a sweep that became the owner could be stopped as the owner. AcqRel: the
        // next owner, which takes over by an Acquire, sees what the dead owner wrote. Relaxed:
        // after a failure it tries again, or the word is another thread's.
        match word.compare_exchange(seen, DIED, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => {
                if seen & WAITERS != 0 {
                    // Died or stopped just before: the sleepers watch the dead owner's token, as if
                    // there were no sweep.
                    futex::wake_all(word);
                }
                break;
            }
            Err(now) => seen = now,
        }
    }
    true
}

// SAFETY: two atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::Shared for RawMutex {}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::sys::robust::{ListHead, end_thread};

    impl RawMutex {
        pub(crate) fn new() -> RawMutex {
            RawMutex { word: AtomicU32::new(0), state: AtomicU32::new(CONSISTENT) }
        }
    }

    struct World {
        registry: Registry,
        lock: RawMutex,
        value: UnsafeCell<u32>,
    }

    // SAFETY: threads reach the value under the lock only; loom checks it.
    unsafe impl Sync for World {}
    // SAFETY: threads reach the value under the lock only; loom checks it.
    unsafe impl Send for World {}

    fn world(threads: u32) -> Arc<World> {
        let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
        Arc::new(World {
            registry: Registry::new(slots),
            lock: RawMutex::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn id(thread: u32) -> TokenId {
        TokenId::new(thread, 0)
    }

    fn me<'r>(world: &'r World, thread: u32, list: &mut ListHead) -> Me<'r> {
        Me { registry: &world.registry, id: id(thread), list }
    }

    fn lock(world: &World, thread: u32, list: &mut ListHead) -> Result<Acquired, Refused> {
        world.lock.lock(me(world, thread, list), &SpinWait::new(), Deadline::NEVER)
    }

    fn raise(world: &World) {
        // SAFETY: loom's cell panics if another thread is inside.
        world.value.with_mut(|value| unsafe { *value += 1 });
    }

    fn explore(test: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(test);
    }

    #[test]
    fn loom_two_lockers_never_meet_and_both_get_in() {
        explore(|| {
            let world = world(2);
            let threads = [0, 1].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    assert_eq!(lock(&world, n, &mut list), Ok(Acquired::Clean));
                    raise(&world);
                    world.lock.release(id(n));
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            // SAFETY: all threads have ended.
            assert_eq!(world.value.with(|value| unsafe { *value }), 2);
        });
    }

    #[test]
    fn loom_a_death_inside_is_told_to_the_next_also_when_asleep() {
        explore(|| {
            let world = world(2);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let got = lock(&world, 0, &mut list);
                    raise(&world);
                    end_thread(&world.registry.slots[0], &list);
                    got
                })
            };
            let mut list = ListHead::new();
            let got = lock(&world, 1, &mut list);
            raise(&world);
            if got == Ok(Acquired::OwnerDied) {
                world.lock.mark_consistent();
            }
            world.lock.release(id(1));
            let first = dying.join().unwrap();
            assert_eq!(first, Ok(Acquired::Clean));
            // Either we came first, or we are told.
            assert!(matches!(got, Ok(Acquired::OwnerDied | Acquired::Clean)));
            assert_eq!(got == Ok(Acquired::Clean), world.lock.owner() == Some(id(0)));
        });
    }

    #[test]
    fn loom_of_two_sleepers_one_is_told_and_both_get_in() {
        explore(|| {
            let world = world(3);
            let mut list = ListHead::new();
            assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
            let threads = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let got = lock(&world, n, &mut list);
                    raise(&world);
                    if got == Ok(Acquired::OwnerDied) {
                        world.lock.mark_consistent();
                    }
                    world.lock.release(id(n));
                    got
                })
            });
            end_thread(&world.registry.slots[0], &list);
            let told = threads.map(|thread| thread.join().unwrap());
            assert_eq!(
                told.iter().filter(|got| **got == Ok(Acquired::OwnerDied)).count(),
                1,
                "{told:?}"
            );
        });
    }

    /// The waiter has found the owner alive, and looks again. It may be killed before it takes the
    /// lock over, so the sweep must take the name out whether the waiter has set its bit or not.
    #[test]
    fn loom_a_sweep_leaves_no_dead_owners_name_beside_a_waiter() {
        explore(|| {
            let world = world(3);
            let mut list = ListHead::new();
            assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
            raise(&world);
            end_thread(&world.registry.slots[0], &list);
            let waiter = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let (mut list, mut relay) = (ListHead::new(), None);
                    let me = me(&world, 1, &mut list);
                    assert_eq!(
                        world.lock.sleep_behind_owner(me, &mut relay, Deadline::NEVER),
                        Ok(Asleep::LookAgain)
                    );
                })
            };
            let mut list = ListHead::new();
            assert!(world.lock.sweep(me(&world, 2, &mut list), false));
            assert_eq!(
                world.lock.owner(),
                None,
                "the dead owner's id may be given out again after the sweep"
            );
            waiter.join().unwrap();
            assert_eq!(lock(&world, 1, &mut ListHead::new()), Ok(Acquired::OwnerDied));
            raise(&world);
        });
    }

    /// The sweep may come before the locker, which then knows of the death only by the sweep's
    /// mark.
    #[test]
    fn loom_what_a_dead_owner_wrote_is_seen_after_a_sweep() {
        explore(|| {
            let world = world(3);
            let dying = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
                    raise(&world);
                    end_thread(&world.registry.slots[0], &list);
                })
            };
            let sweep = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.lock.sweep(me(&world, 1, &mut ListHead::new()), false))
            };
            let mut list = ListHead::new();
            let got = lock(&world, 2, &mut list);
            raise(&world);
            if got == Ok(Acquired::OwnerDied) {
                world.lock.mark_consistent();
            }
            world.lock.release(id(2));
            sweep.join().unwrap();
            dying.join().unwrap();
        });
    }

    #[test]
    fn loom_a_lock_given_up_is_refused_to_a_sleeper() {
        explore(|| {
            let world = world(2);
            let mut list = ListHead::new();
            assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
            let sleeper = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    lock(&world, 1, &mut list)
                })
            };
            world.lock.give_up(id(0));
            assert_eq!(sleeper.join().unwrap(), Err(Refused::NotRecoverable));
            assert!(world.lock.is_not_recoverable());
            assert_eq!(world.lock.owner(), None);
        });
    }

    #[test]
    fn loom_what_nobody_repairs_is_told_to_a_sleeper_again() {
        explore(|| {
            let world = world(2);
            let mut list = ListHead::new();
            assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::Clean));
            // As if it had been told of a death.
            world.lock.state.store(INCONSISTENT, Ordering::Relaxed);
            let sleeper = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let got = lock(&world, 1, &mut list);
                    world.lock.release(id(1));
                    got
                })
            };
            world.lock.release(id(0));
            assert_eq!(sleeper.join().unwrap(), Ok(Acquired::OwnerDied));
            assert_eq!(lock(&world, 0, &mut list), Ok(Acquired::OwnerDied));
        });
    }

    #[test]
    fn loom_what_a_panic_cut_in_half_is_told_to_a_sleeper() {
        explore(|| {
            let world = world(2);
            let panicking = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    let mut list = ListHead::new();
                    let got = lock(&world, 0, &mut list);
                    raise(&world);
                    world.lock.release_unfinished(id(0));
                    got
                })
            };
            let mut list = ListHead::new();
            let got = lock(&world, 1, &mut list);
            // SAFETY: loom's cell panics if another thread is inside.
            let value = world.value.with(|value| unsafe { *value });
            assert_eq!(got, if value == 0 { Ok(Acquired::Clean) } else { Ok(Acquired::OwnerDied) });
            world.lock.release(id(1));
            assert_eq!(panicking.join().unwrap(), Ok(Acquired::Clean));
        });
    }
}
