//! Explored by loom: phases, deaths, aborts, resets and repairs.

use loom::sync::Arc;
use loom::sync::atomic::AtomicU32 as Count;
use loom::thread;

use super::*;
use crate::liveness::{Registry, Slot};
use crate::shim::explore;
use crate::sys::robust::{ListHead, end_thread};

struct World {
    registry: Registry,
    words: BarrierWords,
    seats: Vec<AtomicU32>,
    done: [Count; 2],
}

fn world(policy: u32) -> Arc<World> {
    Arc::new(World {
        registry: Registry::new((0..3).map(|n| Slot::held_by(n + 100)).collect()),
        words: BarrierWords {
            phase: AtomicU32::new(0),
            cursor: AtomicU32::new(0),
            policy: AtomicU32::new(policy),
            parties: AtomicU32::new(2),
            repair: RawMutex::new(),
            joined: AtomicU32::new(0),
            reserved: std::array::from_fn(|_| AtomicU32::new(0)),
        },
        seats: (0..2).map(|_| AtomicU32::new(NOBODY)).collect(),
        done: [Count::new(0), Count::new(0)],
    })
}

impl World {
    fn barrier(&self) -> RawBarrier<'_> {
        RawBarrier { words: &self.words, seats: &self.seats }
    }

    fn join(&self, thread: u32, list: &mut ListHead) -> usize {
        self.barrier().join(self.me(thread, list), &SpinWait::new()).expect("a seat")
    }

    fn me(&self, thread: u32, list: &mut ListHead) -> Me<'_> {
        Me { registry: &self.registry, id: TokenId::new(thread, 0), list }
    }

    fn wait(&self, thread: u32, seat: usize, list: &mut ListHead) -> Result<Passed, Stuck> {
        let me = self.me(thread, list);
        let (spin_wait, never) = (SpinWait::new(), Some(Deadline::NEVER));
        let phase = self.barrier().arrive(me, seat, &spin_wait, never)?;
        self.barrier().wait(me, seat, phase, &spin_wait, never)
    }
}

/// The repairer found the participant alive, and is slow: the sweep must take the dead
/// participant's name out whichever of the two changes the seat first.
#[test]
fn loom_barrier_a_sweep_leaves_no_dead_name_beside_a_slow_repairer() {
    explore(3, || {
        let world = world(0);
        let mut list = ListHead::new();
        let seat = world.join(0, &mut list);
        let me = world.me(0, &mut list);
        world.barrier().arrive(me, seat, &SpinWait::new(), None).expect("arrived");
        world.barrier().abort();
        let repairer = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut list = ListHead::new();
                let me = world.me(1, &mut list);
                world.barrier().repair(me, &SpinWait::new(), Deadline::NEVER).expect("repaired")
            })
        };
        end_thread(&world.registry.slots[0], &list);
        world.barrier().sweep(world.me(2, &mut ListHead::new()), false);
        let owner = owner_of(world.seats[0].load(Ordering::Acquire));
        assert_eq!(owner, None, "the dead participant's id may be given out again after the sweep");
        repairer.join().unwrap();
    });
}

#[test]
fn loom_barrier_who_passes_sees_what_was_done_before_and_one_leads() {
    explore(3, || {
        let world = world(0);
        let mut lists = [ListHead::new(), ListHead::new()];
        let [mine, other] = [0, 1].map(|n| world.join(n, &mut lists[n as usize]));
        let second = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut list = ListHead::new();
                world.done[1].store(1, Ordering::Relaxed);
                let passed = world.wait(1, other, &mut list).expect("nobody dies");
                assert_eq!(world.done[0].load(Ordering::Relaxed), 1);
                passed
            })
        };
        world.done[0].store(1, Ordering::Relaxed);
        let passed = world.wait(0, mine, &mut lists[0]).expect("nobody dies");
        assert_eq!(world.done[1].load(Ordering::Relaxed), 1);
        assert_ne!(passed, second.join().unwrap());
    });
}

#[test]
fn loom_barrier_who_joins_and_dies_as_another_falls_asleep_breaks_it() {
    explore(3, || {
        let world = world(0);
        let mut list = ListHead::new();
        let seat = world.join(0, &mut list);
        let dying = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut list = ListHead::new();
                world.join(1, &mut list);
                end_thread(&world.registry.slots[1], &list);
            })
        };
        assert_eq!(world.wait(0, seat, &mut list), Err(Stuck::Broken));
        dying.join().unwrap();
    });
}

#[test]
fn loom_barrier_who_is_counted_out_holds_up_nobody() {
    explore(3, || {
        let world = world(COUNT_OUT);
        let mut lists = [ListHead::new(), ListHead::new()];
        let [mine, _] = [0, 1].map(|n| world.join(n, &mut lists[n as usize]));
        let dying = {
            let world = Arc::clone(&world);
            thread::spawn(move || end_thread(&world.registry.slots[1], &ListHead::new()))
        };
        assert_eq!(world.wait(0, mine, &mut lists[0]), Ok(Passed::Leader));
        dying.join().unwrap();
    });
}

/// Of two participants that arrive beside an abort, both pass, or none: the one that passes has the
/// other one's word.
#[test]
fn loom_barrier_an_abort_is_told_to_all_or_comes_too_late() {
    explore(2, || {
        let world = world(0);
        let mut lists = [ListHead::new(), ListHead::new()];
        let [mine, other] = [0, 1].map(|n| world.join(n, &mut lists[n as usize]));
        let second = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.wait(1, other, &mut ListHead::new()))
        };
        let aborts = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.barrier().abort())
        };
        let ends = [world.wait(0, mine, &mut lists[0]), second.join().unwrap()];
        aborts.join().unwrap();
        assert!(world.barrier().is_broken(), "whichever phase it was");
        assert!(ends[0].is_ok() == ends[1].is_ok(), "{ends:?}");
    });
}

/// The only participant that sleeps is told of a reset; what it does next counts for the new phase.
#[test]
fn loom_barrier_a_reset_is_told_to_the_sleeper_which_then_passes() {
    explore(2, || {
        let world = world(0);
        let mut lists = [ListHead::new(), ListHead::new()];
        let [mine, other] = [0, 1].map(|n| world.join(n, &mut lists[n as usize]));
        let sleeper = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut list = ListHead::new();
                match world.wait(1, other, &mut list) {
                    Err(Stuck::Broken) => world.wait(1, other, &mut list),
                    // It came after the reset.
                    end => end,
                }
            })
        };
        let me = world.me(0, &mut lists[0]);
        world.barrier().reset(me, &SpinWait::new(), Deadline::NEVER).expect("reset");
        assert!(!world.barrier().is_broken());
        world.wait(0, mine, &mut lists[0]).expect("the other has come, or comes again");
        sleeper.join().unwrap().expect("both have come");
    });
}

/// A process dies in a reset: the participant that arrives next ends it.
#[test]
fn loom_barrier_the_next_to_arrive_ends_a_dead_ones_reset() {
    explore(2, || {
        let world = world(COUNT_OUT);
        let mut lists = [ListHead::new(), ListHead::new()];
        let [mine, _] = [0, 1].map(|n| world.join(n, &mut lists[n as usize]));
        let dying = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut list = ListHead::new();
                let me = world.me(1, &mut list);
                let locked = world.words.repair.lock(me, &SpinWait::new(), Deadline::NEVER);
                locked.expect("nobody has it");
                InOneStep::SetBit(RESETTING_AT).and_wake(&world.words.phase, ALL);
                end_thread(&world.registry.slots[1], &list);
            })
        };
        // Broken: it had arrived before that reset. The dead one is counted out.
        let mut end = world.wait(0, mine, &mut lists[0]);
        if end == Err(Stuck::Broken) {
            end = world.wait(0, mine, &mut lists[0]);
        }
        dying.join().unwrap();
        assert_eq!(end, Ok(Passed::Leader));
    });
}
