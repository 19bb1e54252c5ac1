//! Something that is done once: two words; one names its maker while it is being made.
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | not done | |
//! | id | id does it | the next caller takes it over by compare-exchange, and is told |
//! | id + WAITERS | a thread may sleep | the same; the kernel's mark wakes one sleeper, which wakes all |
//! | `DIED` | a maker died, and a sweep has taken its name out | as a dead maker's id |
//! | `DONE` | done, for good | |
//!
//! `failed` says that a maker died or panicked; only the thread that the word names writes it.
//! claim/word.rs takes the word, takes it over and leaves it, as for the mutex; the difference is
//! that the last maker leaves `DONE`.

use super::Refused;
use crate::Deadline;
use crate::claim::{Claimed, Unclaimed, Word};
use crate::liveness::{Me, TokenId};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::SpinWait;

/// No id: bit 29 is not set.
const DONE: u16 = 1;

/// See the file's head.
#[repr(C)]
pub struct RawOnce {
    // Written by the maker, and by sleepers.
    word: Word,
    // Written by the maker.
    failed: AtomicU32,
}

/// What a caller has claimed: what it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnceClaim {
    /// Nothing: it is done.
    Done,
    /// Make it, and then `finish` or `abandon`.
    Mine {
        /// A maker died or panicked.
        failed: bool,
    },
}

impl RawOnce {
    /// Returns whether it is done; if so, the caller sees all that the maker wrote.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire pairs with the Release in `Word::release`.
        self.word.load(Ordering::Acquire) == u32::from(DONE)
    }

    /// Returns the maker, dead or alive.
    pub(crate) fn owner(&self) -> Option<TokenId> {
        self.word.owner()
    }

    /// Returns that it is done, or gives the caller the claim; never waits.
    pub(crate) fn try_claim(&self, me: Me) -> Result<OnceClaim, Refused> {
        self.settled(me, self.word.try_claim(me))
    }

    /// Returns that it is done, or gives the caller the claim, as soon as either is known.
    #[cold]
    pub(crate) fn claim(
        &self,
        me: Me,
        spin_wait: &SpinWait,
        deadline: Deadline,
    ) -> Result<OnceClaim, Refused> {
        self.settled(me, self.word.claim(me, spin_wait, deadline))
    }

    /// Decides what a claim on the word means to the caller.
    fn settled(&self, me: Me, claimed: Result<Claimed, Unclaimed>) -> Result<OnceClaim, Refused> {
        match claimed {
            // Relaxed: ordered by the word.
            Ok(Claimed::Free) => {
                Ok(OnceClaim::Mine { failed: self.failed.load(Ordering::Relaxed) != 0 })
            }
            Ok(Claimed::TakenOver) => {
                // Relaxed: ordered by the word. Died just before: the next caller takes over from
                // us, and is told all the same.
                self.failed.store(1, Ordering::Relaxed);
                me.registry.count_owner_death();
                Ok(OnceClaim::Mine { failed: true })
            }
            Err(Unclaimed::Other(word)) if word == u32::from(DONE) => Ok(OnceClaim::Done),
            Err(unclaimed) => Err(unclaimed.into()),
        }
    }

    /// Notes that it is done. The caller, whose token has that id, had the claim.
    pub(crate) fn finish(&self, id: TokenId) {
        self.word.release(id, DONE);
    }

    /// Ends the claim without a value, after a panic: the next caller makes the value. Changes
    /// nothing if another owner has the claim by now.
    pub(crate) fn abandon(&self, id: TokenId) {
        // While another owner has the claim, only that owner may write `failed`.
        if self.owner() == Some(id) {
            // Relaxed: the Release in `Word::release` orders it.
            self.failed.store(1, Ordering::Relaxed);
            self.word.release(id, 0);
        }
    }

    /// Does a sweep's part: takes a dead maker's name out, so that no claim of the dead remains.
    /// The next caller is told as by the name. Returns whether there was one.
    pub(crate) fn sweep(&self, me: Me, dry_run: bool) -> bool {
        self.word.sweep(me, dry_run)
    }
}

// SAFETY: two atomics: any bytes are a value, and any process may change them.
unsafe impl crate::segment::SharedLayout for RawOnce {}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::liveness::{Registry, Slot};
    use crate::shim::explore;
    use crate::sys::robust::{ListHead, end_thread};

    impl RawOnce {
        pub(crate) fn new() -> RawOnce {
            RawOnce { word: Word::new(0), failed: AtomicU32::new(0) }
        }
    }

    struct World {
        registry: Registry,
        once: RawOnce,
        value: UnsafeCell<u32>,
    }

    // SAFETY: only the maker writes the value; loom checks it.
    unsafe impl Sync for World {}
    // SAFETY: only the maker writes the value; loom checks it.
    unsafe impl Send for World {}

    fn world(threads: u32) -> Arc<World> {
        let slots = (0..threads).map(|n| Slot::held_by(n + 100)).collect();
        Arc::new(World {
            registry: Registry::new(slots),
            once: RawOnce::new(),
            value: UnsafeCell::new(0),
        })
    }

    fn claim(world: &World, thread: u32, list: &mut ListHead) -> OnceClaim {
        let me = Me { registry: &world.registry, id: TokenId::new(thread, 0), list };
        world.once.claim(me, &SpinWait::new(), Deadline::NEVER).expect("nobody holds it for ever")
    }

    /// Makes it if it has the claim; returns whether it was told of a failure.
    fn get(world: &World, thread: u32) -> Option<bool> {
        let mut list = ListHead::new();
        let told = match claim(world, thread, &mut list) {
            OnceClaim::Done => None,
            OnceClaim::Mine { failed } => {
                // SAFETY: loom's cell panics if another thread is inside.
                world.value.with_mut(|value| unsafe { *value = 7 });
                world.once.finish(TokenId::new(thread, 0));
                Some(failed)
            }
        };
        // SAFETY: it is done, so no thread writes; loom's cell panics if one does.
        assert_eq!(world.value.with(|value| unsafe { *value }), 7);
        told
    }

    #[test]
    fn loom_once_is_done_by_one_and_seen_by_all() {
        explore(2, || {
            let world = world(3);
            let threads = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || get(&world, n))
            });
            let mine = get(&world, 0);
            let all = threads.map(|thread| thread.join().unwrap());
            assert_eq!(all.iter().chain([&mine]).filter(|got| **got == Some(false)).count(), 1);
        });
    }

    #[test]
    fn loom_once_a_maker_that_dies_leaves_it_to_the_next() {
        explore(2, || {
            let world = world(3);
            let mut list = ListHead::new();
            assert_eq!(claim(&world, 0, &mut list), OnceClaim::Mine { failed: false });
            let threads = [1, 2].map(|n| {
                let world = Arc::clone(&world);
                thread::spawn(move || get(&world, n))
            });
            // SAFETY: this thread has the turn.
            world.value.with_mut(|value| unsafe { *value = 3 });
            end_thread(&world.registry.slots[0], &list);
            let all = threads.map(|thread| thread.join().unwrap());
            assert_eq!(all.iter().filter(|got| **got == Some(true)).count(), 1, "{all:?}");
            assert_eq!(all.iter().filter(|got| got.is_none()).count(), 1, "{all:?}");
        });
    }

    #[test]
    fn loom_once_abandoned_another_thread_claims_it() {
        explore(2, || {
            let world = world(2);
            let mut list = ListHead::new();
            assert_eq!(claim(&world, 0, &mut list), OnceClaim::Mine { failed: false });
            let other = thread::spawn({
                let world = Arc::clone(&world);
                move || get(&world, 1)
            });
            world.once.abandon(TokenId::new(0, 0));
            assert_eq!(other.join().unwrap(), Some(true));
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A once whose turn `id` has, and whose makers have not failed.
    fn turn_of(id: TokenId) -> RawOnce {
        RawOnce { word: Word::new(id.as_u32()), failed: AtomicU32::new(0) }
    }

    #[test]
    fn a_turn_that_is_anothers_by_now_is_left_alone() {
        let (own, other) = (TokenId::new(0, 0), TokenId::new(1, 0));
        let once = turn_of(other);
        once.abandon(own);
        assert_eq!(once.owner(), Some(other));
        assert_eq!(once.failed.load(Ordering::Relaxed), 0, "the other owner has not failed");
        once.finish(own);
        assert_eq!(once.owner(), Some(other));
        once.abandon(other);
        assert_eq!(once.owner(), None);
        assert_eq!(once.failed.load(Ordering::Relaxed), 1);
    }
}
