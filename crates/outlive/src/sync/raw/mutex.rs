//! The mutex: two words in shared memory; a token owns the first one.
//!
//! | word | state | meaning | a death here |
//! | --- | --- | --- | --- |
//! | 0 | consistent | free | |
//! | id | consistent | id holds it | the next locker takes it over by compare-exchange, and gets `OwnerDied` |
//! | id + WAITERS | any | held, and a thread may sleep | the same; the kernel's mark wakes one sleeper, which wakes all |
//! | id | inconsistent | its holder was told of a death, or panics | taken over, told again |
//! | `DIED` | any | a dead owner's, whose name a sweep has taken out | as a dead owner's id: taken over, told |
//! | 0 | inconsistent | a holder that was told, or that panicked, did not mark it consistent | the next locker is told |
//! | id | not recoverable | its holder marks it so, or is about to be refused | taken over, refused |
//! | 0 | not recoverable | free, and no process may have it | every locker is refused until `reset` |
//! | id or 0 | marked inside | the same, of a reentrant mutex whose holder marked it so inside other guards of its own, which cannot make it consistent (`reentrant.rs`) | the same |
//!
//! claim/word.rs takes the word, takes it over and leaves it. Only the holder writes `state`, so
//! plain stores suffice, ordered by the word. proof/models/mutex.pml checks it with deaths at any
//! step, the loom tests below check it, and tests kill it at every instruction.
//! doc/protocols/mutex.md has the argument.

use super::{Acquired, Refused};
use crate::Deadline;
use crate::claim::{Claimed, Heed, Unclaimed, Word};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, SpinWait};

/// What the lock guards is whole.
pub(crate) const CONSISTENT: u32 = 0;
/// An owner died or panicked holding it; the present holder has been told, or the next will be.
pub(crate) const INCONSISTENT: u32 = 1;
/// A holder marked the lock so.
pub(crate) const NOT_RECOVERABLE: u32 = 2;
/// A holder of a reentrant mutex marked the lock not recoverable while it had other guards of it:
/// they cannot undo that. To lockers it is the same as `NOT_RECOVERABLE`.
pub(crate) const MARKED_INSIDE: u32 = 3;

/// See the file's head. `MARKS` are those of its word: a mutex has none, a reader-writer lock's
/// writers' half has one.
#[repr(C)]
pub struct RawMutex<const MARKS: u32 = 0> {
    // Written by lockers and sleepers.
    word: Word<MARKS>,
    // Written by the holder.
    state: AtomicU32,
}

impl<const MARKS: u32> RawMutex<MARKS> {
    /// Takes the lock for `id` if it is free.
    #[inline]
    pub(crate) fn acquire(&self, id: TokenId) -> bool {
        self.word.acquire(id)
    }

    /// Takes the lock likewise, for a caller that next looks whether readers are inside.
    #[inline]
    pub(crate) fn acquire_before_looking(&self, id: TokenId) -> bool {
        self.word.acquire_before_looking(id)
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

    #[cold]
    fn lock_slow(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<Acquired, Refused> {
        self.claimed(me, self.word.claim(me, spin_wait, deadline))
    }

    /// Takes the lock, and waits until the deadline; returns `None` if its living owner has set one
    /// of the marks `heeded`, and what the lock guards is whole.
    #[cold]
    pub(crate) fn lock_heeding(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
        heeded: u32,
    ) -> Result<Option<Acquired>, Refused> {
        match self.word.claim_heeding(me, spin_wait, deadline, self.heed(heeded)) {
            Err(Unclaimed::Marked) => Ok(None),
            claimed => self.claimed(me, claimed).map(Some),
        }
    }

    /// Takes the lock if it is free or its owner is dead.
    #[inline]
    pub(crate) fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        if self.acquire(me.id) { self.entered(me) } else { self.try_lock_slow(me) }
    }

    #[cold]
    fn try_lock_slow(&self, me: Me) -> Result<Acquired, Refused> {
        self.claimed(me, self.word.try_claim(me))
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
        Err(match state {
            NOT_RECOVERABLE | MARKED_INSIDE => Refused::NotRecoverable,
            _ => Refused::Damaged,
        })
    }

    /// Decides what a claim on the word means to the caller.
    fn claimed(&self, me: Me, claimed: Result<Claimed, Unclaimed>) -> Result<Acquired, Refused> {
        match claimed {
            Ok(Claimed::TakenOver) if self.is_consistent() => {
                // Died just before: the next locker takes over from us, and is told all the same.
                self.state.store(INCONSISTENT, Ordering::Relaxed);
                self.entered(me)
            }
            Ok(_) => self.entered(me),
            Err(unclaimed) => Err(unclaimed.into()),
        }
    }

    /// Sleeps until the word changes or its living owner ends; returns at once if there is no such
    /// owner, or if it has set one of the marks `heeded` and what the lock guards is whole. The
    /// caller keeps `relay` until it has what it wants.
    #[cold]
    pub(crate) fn sleep_behind_owner(
        &self,
        me: Me,
        relay: &mut Option<WakeRelay>,
        deadline: Deadline,
        heeded: u32,
    ) -> Result<Asleep, Refused> {
        self.word
            .sleep_behind_owner(me, relay, deadline, self.heed(heeded))
            .map_err(Refused::System)
    }

    /// Returns those marks as a waiter heeds them: only where what the lock guards is whole.
    ///
    /// An owner whose mark is beside another state is to be told of a death, and takes the mark out
    /// first. It may be stopped before it does, so others sleep behind it as if there were no mark.
    /// They are woken when it unlocks, or when it has made the state consistent and sets the mark
    /// again.
    fn heed(&self, marks: u32) -> Heed<'_> {
        const { assert!(CONSISTENT == 0) };
        Heed { marks, unless: &self.state }
    }

    /// Unlocks when a panic has interrupted the holder's change: the next locker is told, as of a
    /// death.
    #[cold]
    pub(crate) fn release_unfinished(&self, id: TokenId) {
        self.note_unfinished(id);
        self.release(id);
    }

    /// Does the first step of [`RawMutex::release_unfinished`].
    #[cold]
    pub(crate) fn note_unfinished(&self, id: TokenId) {
        if self.is_held_by(id) && self.is_consistent() {
            // Relaxed: ordered by the word. Died just after: the next locker takes over from us,
            // and is told all the same.
            self.state.store(INCONSISTENT, Ordering::Relaxed);
        }
    }

    /// Marks the lock not recoverable, and unlocks it: every locker is refused until a process
    /// resets it. The caller holds the lock.
    #[cold]
    pub(crate) fn mark_not_recoverable(&self, id: TokenId) {
        self.note_refusal(id, NOT_RECOVERABLE);
        self.release(id);
    }

    /// Marks the lock not recoverable for a holder that keeps it by other guards, whose
    /// [`RawMutex::mark_consistent`] has no effect from then on.
    #[cold]
    pub(crate) fn mark_inside(&self, id: TokenId) {
        self.note_refusal(id, MARKED_INSIDE);
    }

    fn note_refusal(&self, id: TokenId, state: u32) {
        if self.is_held_by(id) {
            // Relaxed: ordered by the word. Died just after: the next locker takes over, and is
            // refused.
            self.state.store(state, Ordering::Relaxed);
        }
    }

    /// Lets the holder, which took the lock to reset it, make it consistent, also if a guard
    /// inside another one marked it.
    pub(crate) fn allow_recovery(&self) {
        if self.state.load(Ordering::Relaxed) == MARKED_INSIDE {
            // Relaxed: ordered by the word. Died just before or after: every locker is refused.
            self.state.store(NOT_RECOVERABLE, Ordering::Relaxed);
        }
    }

    /// Returns whether the word still names `id`: see [`Word::is_held_by`].
    pub(crate) fn is_held_by(&self, id: TokenId) -> bool {
        self.word.is_held_by(id)
    }

    /// Unlocks and leaves the state: if a holder that was told did not mark it consistent, the next
    /// locker is told again. The caller, whose token has that id, holds the lock. If another thread
    /// owns the lock by now, nothing changes.
    #[inline]
    pub(crate) fn release(&self, id: TokenId) {
        self.word.release(id, 0);
    }

    /// Notes that the holder has repaired what the lock guards; has no effect if the holder itself has
    /// marked the lock not recoverable, by a guard inside the present one.
    pub(crate) fn mark_consistent(&self) {
        if self.state.load(Ordering::Relaxed) != MARKED_INSIDE {
            self.state.store(CONSISTENT, Ordering::Relaxed);
        }
    }

    /// Does a sweep's part: takes a dead owner's name out, so that no claim of the dead remains.
    /// The next locker is told as by the name. Returns whether there was one.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> bool {
        self.word.sweep(me, dry_run)
    }

    /// Takes the lock in whatever state it is, and waits until the deadline; with `None` it never
    /// waits. The caller repairs what it guards, marks it consistent and unlocks.
    ///
    /// Died in between: a lock that was not recoverable stays so; of any other, the next locker is
    /// told.
    pub(crate) fn take_to_reset(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        wait: Option<Deadline>,
    ) -> Result<(), Refused> {
        while !self.acquire(me.id) {
            let got = match wait {
                Some(deadline) => self.lock(me, spin_wait, deadline),
                None => self.try_lock(me),
            };
            match got {
                Ok(_) => break,
                // A locker that is refused for it unlocks at once, so the word is free sooner or
                // later.
                Err(Refused::NotRecoverable) => {}
                Err(other) => return Err(other),
            }
        }
        // In a lock that is not reentrant it is a stray write's, and does not outlast a reset either.
        self.allow_recovery();
        Ok(())
    }

    /// Returns the word that holds the owner's id.
    pub(crate) fn word(&self) -> &AtomicU32 {
        self.word.as_atomic()
    }

    /// Returns the word with its protocol, for a lock that has marks.
    #[inline]
    pub(crate) fn claim(&self) -> &Word<MARKS> {
        &self.word
    }

    /// Returns the thread that holds the lock, dead or alive.
    pub(crate) fn owner(&self) -> Option<TokenId> {
        self.word.owner()
    }

    /// Returns whether a holder has marked the lock not recoverable.
    pub(crate) fn is_not_recoverable(&self) -> bool {
        matches!(self.state.load(Ordering::Relaxed), NOT_RECOVERABLE | MARKED_INSIDE)
    }
}

// SAFETY: two atomics: any bytes are a value, and any process may change them.
unsafe impl<const MARKS: u32> crate::segment::SharedLayout for RawMutex<MARKS> {}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::shim::explore;
    use crate::sys::robust::{ListHead, end_thread};

    impl<const MARKS: u32> RawMutex<MARKS> {
        pub(crate) fn new() -> RawMutex<MARKS> {
            RawMutex { word: Word::new(0), state: AtomicU32::new(CONSISTENT) }
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

    #[test]
    fn loom_two_lockers_never_meet_and_both_get_in() {
        explore(3, || {
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
        explore(3, || {
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
        two_sleepers(2);
    }

    #[test]
    #[ignore = "half a minute: part of `cargo xtask loom --all`"]
    fn loom_of_two_sleepers_one_is_told_and_both_get_in_with_one_more_preemption() {
        two_sleepers(3);
    }

    fn two_sleepers(preemptions: usize) {
        explore(preemptions, || {
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
        explore(3, || {
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
                        world.lock.sleep_behind_owner(me, &mut relay, Deadline::NEVER, 0),
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
        explore(3, || {
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
    fn loom_a_lock_that_is_not_recoverable_is_refused_to_a_sleeper() {
        explore(3, || {
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
            world.lock.mark_not_recoverable(id(0));
            assert_eq!(sleeper.join().unwrap(), Err(Refused::NotRecoverable));
            assert!(world.lock.is_not_recoverable());
            assert_eq!(world.lock.owner(), None);
        });
    }

    #[test]
    fn loom_what_nobody_repairs_is_told_to_a_sleeper_again() {
        explore(3, || {
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
        explore(3, || {
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
