//! The wait of all three verbs: for a job, for a slot, for the last job to be done.
//!
//! | the sleeper waits for | on | and for the end of |
//! | --- | --- | --- |
//! | a job | `jobs` | workers that have jobs |
//! | a slot | `room` | workers, and producers that write |
//! | the last job | `finished` | the same |

use super::table::Look;
use crate::liveness::Me;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, EventCount, MOST_OWNERS, Sleep, SpinWait};
use crate::{Deadline, Error};

/// Waits until `look` finds something; `None`: the deadline has passed. `has_come` is called while
/// spinning; with `spin_wait` `None`, there is no spin.
pub(super) fn wait<T>(
    me: Me,
    spin_wait: Option<&SpinWait>,
    count: &EventCount,
    deadline: Deadline,
    has_come: impl Fn() -> bool,
    look: impl Fn() -> Result<Look<T>, Error>,
) -> Result<Option<T>, Error> {
    if let Look::Got(found) = look()? {
        return Ok(Some(found));
    }
    if deadline.has_passed() {
        return Ok(None);
    }
    // What the spin has seen is taken before a wait is prepared, because preparing may interrupt
    // all other processors.
    if spin_wait.is_some_and(|spin_wait| spin_wait.spin(|| has_come() || deadline.has_passed()))
        && let Look::Got(found) = look()?
    {
        return Ok(Some(found));
    }
    let relay = WakeRelay::begin(me.list());
    let mut turn = 0;
    let mut last_try = false;
    loop {
        let ticket = count.prepare_wait();
        let owners = match look()? {
            Look::Got(found) => {
                count.cancel_wait(ticket);
                return Ok(Some(found));
            }
            Look::Nothing(owners) => owners,
        };
        if last_try {
            count.cancel_wait(ticket);
            return Ok(None);
        }
        let watch = [count.watch(ticket)];
        let sleep = Sleep::on(me.registry, &watch).behind(&relay, &owners).beginning_at(turn);
        // One notification wakes two sleepers. The others find the changed sequence at their
        // recheck, which is a rescue only if what they wait for is there.
        match sleep.until_it_comes(ticket.until(deadline), &has_come) {
            Ok(Asleep::TimedOut) => last_try = deadline.has_passed(),
            Ok(Asleep::LookAgain) => {}
            Err(errno) => return Err(Error::from_errno("wait in", me.registry.path(), errno)),
        }
        // Woken: looks again, first without preparing another wait.
        if let Look::Got(found) = look()? {
            return Ok(Some(found));
        }
        turn += MOST_OWNERS;
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::jobs::table::{Held, Table};
    use crate::liveness::{Registry, Slot, TokenId};
    use crate::shim::explore;
    use crate::shim::{AtomicU32, AtomicU64};
    use crate::sys::robust::{ListHead, end_thread};

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
            let look = || Ok(self.table().claim(me, start));
            let has = || self.table().has_free();
            let held =
                wait(me, Some(&SpinWait::new()), &self.counts[1], Deadline::NEVER, has, look);
            self.table().publish(held.expect("waits").expect("a slot")).expect("lives")
        }

        /// The worker's process is known by its thread's token here.
        fn take(&self, me: Me) -> Held {
            let look = || Ok(self.table().take(me, me.id));
            let has = || self.table().has_waiting();
            let held =
                wait(me, Some(&SpinWait::new()), &self.counts[0], Deadline::NEVER, has, look);
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
}
