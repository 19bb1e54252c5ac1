//! Claiming a slot beside threads that ask whether its owners live, as loom's litmus tests.
//!
//! The asking is the code that is built ([`Slot::is_alive`]). The claiming follows enroll.rs step
//! by step, since libc's trylock is nothing that loom can run: generation even; a Release fence;
//! the word, by an exchange that is an Acquire and no more; tid; generation odd; a full fence; the
//! first claim that bears the id. proof/models/weak-memory.md has the table.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering, fence};
use loom::thread;

use super::{Slot, TokenId};
use crate::shim::explore_all;

const OLD: u32 = 50;
const NEW: u32 = 60;

struct World {
    slot: Slot,
    /// A claim somewhere in the domain: 0, or the id of its owner.
    claim: AtomicU32,
    /// What the old owner wrote last.
    written: AtomicU32,
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            slot: Slot::held_by(OLD),
            claim: AtomicU32::new(0),
            written: AtomicU32::new(0),
        })
    }

    fn claim_anew(&self) {
        let slot = &self.slot;
        // As in `mark_died`, in the place of a load.
        let seen = slot.word().fetch_or(0, Ordering::Acquire);
        if slot.generation().compare_exchange(1, 2, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return;
        }
        fence(Ordering::Release);
        if slot.word().compare_exchange(seen, NEW, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return;
        }
        slot.tid.store(NEW, Ordering::Release);
        slot.generation().store(3, Ordering::Release);
        fence(Ordering::SeqCst);
        self.claim.store(self.new_id().as_u32(), Ordering::Relaxed);
    }

    fn old_id(&self) -> TokenId {
        TokenId::new(0, 0)
    }

    fn new_id(&self) -> TokenId {
        TokenId::new(0, 1)
    }
}

#[test]
fn loom_token_a_dead_id_never_reads_alive_beside_the_next_claim() {
    explore_all(|| {
        let world = World::new();
        world.slot.mark_died();
        let claimer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim_anew())
        };
        assert!(!world.slot.is_alive(world.old_id()));
        claimer.join().unwrap();
    });
}

#[test]
fn loom_token_who_sees_the_claim_of_a_living_owner_finds_it_alive() {
    explore_all(|| {
        let world = World::new();
        world.slot.mark_died();
        let claimer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.claim_anew())
        };
        if world.claim.load(Ordering::Acquire) == world.new_id().as_u32() {
            assert!(world.slot.is_alive(world.new_id()));
        }
        claimer.join().unwrap();
    });
}

#[test]
fn loom_token_who_finds_an_owner_dead_sees_what_it_wrote() {
    explore_all(|| {
        let world = World::new();
        let dying = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.written.store(7, Ordering::Relaxed);
                world.slot.mark_died();
            })
        };
        if !world.slot.is_alive(world.old_id()) {
            assert_eq!(world.written.load(Ordering::Relaxed), 7);
        }
        dying.join().unwrap();
    });
}

/// `main_leaves`: the keeper takes the second word before main ends, so a thread that looks finds
/// at least one of the two words held.
#[test]
fn loom_token_a_process_reads_alive_while_main_hands_over_to_a_keeper() {
    explore_all(|| {
        let world = World::new();
        // The main thread makes the mark and starts the thread that looks, because the mark loads
        // the word first: see proof/models/weak-memory.md.
        let looking = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                assert!(world.slot.is_alive(world.old_id()), "a process that lives")
            })
        };
        let keeper = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                // As libc's trylock: Acquire, and no more.
                let taken = world.slot.keeper.compare_exchange(
                    0,
                    NEW,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                );
                assert!(taken.is_ok());
            })
        };
        // `keeper::start` returns when the keeper has taken the word.
        keeper.join().unwrap();
        world.slot.mark_died();
        looking.join().unwrap();
    });
}
