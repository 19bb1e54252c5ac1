//! Jobs, their slots, and the sleepers that wait for them.

use loom::sync::Arc;
use loom::thread;

use super::table::{Held, Table};
use crate::liveness::{Me, Registry, Slot, TokenId};
use crate::shim::explore;
use crate::shim::{AtomicU32, AtomicU64};
use crate::sys::robust::{ListHead, end_thread};
use crate::wake::{EventCount, Look, SpinWait, wait_for};
use crate::{Deadline, Error};

struct World {
    registry: Registry,
    words: Vec<AtomicU64>,
    ids: Vec<AtomicU64>,
    tickets: AtomicU64,
    slots: AtomicU32,
    counts: [EventCount; 3],
}

fn world(threads: u32, slots: u32) -> Arc<World> {
    let zeroes = || (0..slots).map(|_| AtomicU64::new(0)).collect();
    Arc::new(World {
        registry: Registry::new((0..threads).map(|n| Slot::held_by(n + 100)).collect()),
        words: zeroes(),
        ids: zeroes(),
        tickets: AtomicU64::new(0),
        slots: AtomicU32::new(slots),
        counts: Default::default(),
    })
}

/// Runs that as a thread of its own, with a thread's token.
fn start(
    world: &Arc<World>,
    thread: u32,
    run: impl FnOnce(&World, Me) + 'static,
) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || {
        let mut list = ListHead::new();
        run(&world, world.me(thread, &mut list));
    })
}

impl World {
    fn table(&self) -> Table<'_> {
        let [jobs, room, finished] = &self.counts;
        let World { words, ids, tickets, slots, .. } = self;
        Table { words, ids, tickets, slots, max_attempts: 0, jobs, room, finished }
    }

    fn me<'a>(&'a self, thread: u32, list: &mut ListHead) -> Me<'a> {
        Me { registry: &self.registry, id: TokenId::new(thread, 0), list }
    }

    fn put(&self, me: Me, start: usize) -> u64 {
        let look = || Ok::<_, Error>(self.table().claim(me, start));
        let has = || self.table().has_free();
        let held =
            wait_for(me, Some(&SpinWait::new()), &self.counts[1], Deadline::NEVER, has, look);
        self.table().publish(held.expect("waits").expect("a slot")).expect("lives")
    }

    /// The worker's process is known by its thread's token here.
    fn take(&self, me: Me) -> Held {
        let look = || Ok::<_, Error>(self.table().take(me, me.id));
        let has = || self.table().has_waiting();
        let held =
            wait_for(me, Some(&SpinWait::new()), &self.counts[0], Deadline::NEVER, has, look);
        held.expect("waits").expect("a job")
    }
}

#[test]
fn loom_a_job_comes_to_a_sleeper_and_its_slot_to_the_next_job() {
    explore(3, || {
        let world = world(2, 1);
        let producer = start(&world, 0, |world, me| {
            assert_eq!(world.put(me, 0), 0);
            assert_eq!(world.put(me, 0), 1);
        });
        let mut list = ListHead::new();
        let me = world.me(1, &mut list);
        for id in 0..2 {
            let held = world.take(me);
            assert_eq!((held.id, held.word.attempts()), (id, 1));
            assert!(world.table().done(held));
        }
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_dead_workers_job_comes_to_a_sleeper() {
    explore(3, || {
        let world = world(2, 1);
        let mut list = ListHead::new();
        let me = world.me(1, &mut list);
        world.put(me, 0);
        let mut dying = ListHead::new();
        world.take(world.me(0, &mut dying));
        let worker = start(&world, 1, |world, me| {
            let held = world.take(me);
            assert_eq!((held.id, held.word.attempts()), (0, 2));
        });
        end_thread(&world.registry.slots[0], &dying);
        worker.join().unwrap();
    });
}

/// The second job lies in a slot that a look reads after the first one's.
#[test]
fn loom_jobs_are_taken_in_the_order_in_which_they_were_put() {
    explore(3, || {
        let world = world(2, 2);
        let producer = start(&world, 0, |world, me| {
            world.put(me, 0);
            world.put(me, 1);
        });
        let mut list = ListHead::new();
        let me = world.me(1, &mut list);
        if let Look::Got(held) = world.table().take(me, me.id) {
            assert_eq!(held.id, 0);
        }
        producer.join().unwrap();
    });
}

#[test]
fn loom_a_job_that_a_worker_puts_before_it_is_done_is_not_missed() {
    explore(3, || {
        let world = world(2, 2);
        let mut list = ListHead::new();
        let me = world.me(0, &mut list);
        world.put(me, 1);
        let held = world.take(me);
        let worker = start(&world, 0, move |world, me| {
            world.put(me, 0);
            assert!(world.table().done(held));
        });
        let mut list = ListHead::new();
        let done = world.table().all_done(world.me(1, &mut list));
        assert!(matches!(done, Look::Nothing(_)), "one of the two is unfinished at any time");
        worker.join().unwrap();
    });
}

/// The job that is retried lies in the slot that a look reads first. The worker reads no word
/// before it changes it: loom would not see that the look has read it, and try one order alone.
#[test]
fn loom_a_retry_before_a_job_is_done_is_not_missed() {
    explore(3, || {
        let world = world(2, 2);
        let mut list = ListHead::new();
        let me = world.me(0, &mut list);
        world.put(me, 0);
        let aside = world.take(me);
        assert!(world.table().set_aside(aside));
        world.put(me, 1);
        let held = world.take(me);
        let again = world.table().aside(|_| true)[0];
        let worker = start(&world, 0, move |world, _| {
            assert!(world.table().retry(again));
            assert!(world.table().done(held));
        });
        let mut list = ListHead::new();
        let done = world.table().all_done(world.me(1, &mut list));
        assert!(matches!(done, Look::Nothing(_)), "one of the two is unfinished at any time");
        worker.join().unwrap();
    });
}

/// The ticket stands for the bytes, which are written where it is. A thread of its own discards
/// the job: under loom its notification is a full fence, which would do the claim's work.
#[test]
fn loom_a_copy_of_a_job_set_aside_is_of_no_later_job() {
    explore(3, || {
        let world = world(2, 1);
        let mut list = ListHead::new();
        let me = world.me(0, &mut list);
        world.put(me, 0);
        let aside = world.take(me);
        assert!(world.table().set_aside(aside));
        let old = world.table().aside(|_| true)[0];
        let discarding = start(&world, 0, move |world, _| assert!(world.table().discard(old)));
        let producer = start(&world, 1, |world, me| {
            if let Look::Got(held) = world.table().claim(me, 0) {
                world.table().publish(held).expect("lives");
            }
        });
        for copy in world.table().aside(|_| true) {
            assert!(copy.id == 0 || !world.table().is_still(copy));
        }
        discarding.join().unwrap();
        producer.join().unwrap();
    });
}
