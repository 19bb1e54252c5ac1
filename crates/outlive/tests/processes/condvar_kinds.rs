//! Condition variables under mutexes with priority inheritance and with a ceiling: the same as under
//! plain ones (`condvars.rs`, `condvar_deaths.rs`), and what priorities do there.

use std::time::{Duration, Instant};

use outlive::Domain;
use outlive::sync::{AcquireError, CeilingMutex, Condvar, LockError, Mutex, PiMutex};

use crate::asleep::{queues_for_pi_mutex, sleeps_of, wait_all_asleep_outside, wait_asleep};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::realtime::{HIGH, LOW, MIDDLE, become_fifo, own_schedule, skip_without_right};
use crate::runner::World;

crate::checks!(
    waiters_without_a_notification_let_each_other_sleep,
    a_pi_mutex_and_a_plain_one_at_one_condition,
    a_waiter_under_two_mutexes_dies_with_the_second_in_hand,
    the_first_conditions_next_waiter_is_told_too,
    the_most_urgent_waiter_is_woken_first,
    a_waiter_sleeps_with_its_own_priority_and_wakes_at_the_ceiling,
    a_waiter_that_has_come_above_the_ceiling_is_refused,
);

/// The checks that both kinds have in common.
macro_rules! under {
    ($module:ident, $mutex:ident, $guard:ident, $options:expr, $may:ident) => {
        pub mod $module {
            use outlive::sync::{$guard, $mutex, Condvar, LockError, Woke};
            use outlive::{Deadline, Domain};

            use super::*;
            use crate::child::wait_until;
            use crate::random::Random;

            crate::checks!(
                one_notification_ends_one_wait,
                each_ends_one_though_the_mutex_is_held,
                all_are_woken_by_notify_all,
                a_deadline_is_kept,
                who_gets_no_lock_in_time_hands_its_notification_on,
                a_woken_waiter_dies_with_the_mutex_in_hand,
                a_woken_waiter_queues_for_the_mutex_and_dies,
                who_waits_again_after_a_wait_and_dies_in_its_unlock_or_sleep,
                a_peers_end_ends_a_wait,
                items_are_handed_over_among_random_kills: 90,
            );

            struct Store {
                stock: $mutex<u64>,
                delivered: Condvar,
                /// The stock, for a process that looks without the lock.
                seen: Board,
            }

            type Got<'a> = Result<$guard<'a, u64>, LockError<$guard<'a, u64>>>;

            fn open(world: &World, domain: &Domain) -> Store {
                $may(world);
                Store {
                    stock: $options.open_or_create(domain, "stock").expect("opens"),
                    delivered: Condvar::open_or_create(domain, "delivered").expect("opens"),
                    seen: Board::new(),
                }
            }

            impl Store {
                /// A process that is told of a death notifies all waiters, as the repair.
                fn mended<'a>(&'a self, got: Got<'a>) -> $guard<'a, u64> {
                    match got {
                        Ok(guard) => guard,
                        Err(LockError::OwnerDied(mut guard)) => {
                            guard.mark_consistent();
                            self.seen.set(0, *guard);
                            self.delivered.notify_all();
                            guard
                        }
                        Err(error) => panic!("{error}"),
                    }
                }

                fn lock(&self) -> $guard<'_, u64> {
                    self.mended(self.stock.lock())
                }

                fn take(&self) {
                    let mut guard = self.lock();
                    while *guard == 0 {
                        guard = self.mended(self.delivered.wait(guard));
                    }
                    *guard -= 1;
                    self.seen.set(0, *guard);
                }

                fn bring(&self, items: u64) {
                    let mut guard = self.lock();
                    *guard += items;
                    self.seen.set(0, *guard);
                }

                /// Children that wait once, and then add to word 0.
                fn waiters(&self, board: Board, count: usize) -> Vec<Child> {
                    let wait = || {
                        let guard = self.lock();
                        board.add(2, 1);
                        drop(self.mended(self.delivered.wait(guard)));
                        board.add(0, 1);
                    };
                    let children: Vec<Child> = (0..count).map(|_| Child::start(wait)).collect();
                    // A child that sleeps may sleep for the mutex still. Once each has had it, and it is
                    // free, all wait.
                    board.reach(2, count as u64);
                    drop(self.lock());
                    children.iter().for_each(|child| wait_asleep(child.pid()));
                    children
                }

                /// A child that takes an item, and then keeps the mutex until it is killed.
                fn keeper(&self, board: Board) -> Child {
                    let child = Child::start(|| {
                        let mut guard = self.lock();
                        while *guard == 0 {
                            guard = self.mended(self.delivered.wait(guard));
                        }
                        board.set(1, 1);
                        loop {
                            std::thread::park();
                        }
                    });
                    wait_asleep(child.pid());
                    child
                }

                fn taker(&self, board: Board) -> Child {
                    let child = Child::start(|| {
                        self.take();
                        board.add(0, 1);
                    });
                    wait_asleep(child.pid());
                    child
                }
            }

            fn one_notification_ends_one_wait(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                for _ in 0..10 {
                    let board = Board::new();
                    let children = store.waiters(board, 4);
                    for n in 1..=4 {
                        store.delivered.notify_one();
                        board.reach(0, n);
                        std::thread::sleep(Duration::from_millis(2));
                        assert_eq!(board.get(0), n, "one more has come than were notified");
                    }
                    children.into_iter().for_each(Child::finish);
                }
                assert_eq!(domain.stats().rescues, 0);
            }

            fn each_ends_one_though_the_mutex_is_held(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let board = Board::new();
                let children = store.waiters(board, 4);
                let guard = store.lock();
                store.delivered.notify_one();
                store.delivered.notify_one();
                std::thread::sleep(Duration::from_millis(20));
                drop(guard);
                board.reach(0, 2);
                std::thread::sleep(Duration::from_millis(20));
                assert_eq!(board.get(0), 2);
                store.delivered.notify_all();
                children.into_iter().for_each(Child::finish);
                assert_eq!(domain.stats().rescues, 0);
            }

            fn all_are_woken_by_notify_all(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let board = Board::new();
                let children = store.waiters(board, 5);
                store.delivered.notify_all();
                children.into_iter().for_each(Child::finish);
                assert!(store.stock.try_lock().expect("well").is_some());
            }

            fn a_deadline_is_kept(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let begun = Instant::now();
                let (guard, woke) = store
                    .delivered
                    .wait_timeout(store.lock(), Duration::from_millis(20))
                    .expect("well");
                assert!(woke == Woke::TimedOut && begun.elapsed() >= Duration::from_millis(20));
                let (guard, woke) =
                    store.delivered.wait_until(guard, Deadline::at_nanos(0)).expect("well");
                assert!(woke == Woke::TimedOut);
                drop(guard);
                assert!(store.stock.try_lock().expect("well").is_some());
            }

            fn who_gets_no_lock_in_time_hands_its_notification_on(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let board = Board::new();
                let first = Child::start(|| {
                    let long = Deadline::after(Duration::from_secs(60));
                    let guard = store.lock();
                    board.set(1, 1);
                    // The lock must be free at once.
                    let at_once = Deadline::at_nanos(0);
                    let got = store.delivered.wait_and_relock_until(guard, long, at_once);
                    assert!(matches!(got, Ok(None)));
                    board.set(1, 2);
                });
                board.reach(1, 1);
                wait_asleep(first.pid());
                let second = store.waiters(board, 1);
                let guard = store.lock();
                store.delivered.notify_one();
                board.reach(1, 2);
                drop(guard);
                first.finish();
                second.into_iter().for_each(Child::finish);
                assert_eq!(domain.stats().rescues, 0);
            }

            fn a_woken_waiter_dies_with_the_mutex_in_hand(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                for _ in 0..20 {
                    let board = Board::new();
                    let mut victim = store.keeper(board);
                    let taker = store.taker(board);
                    store.bring(1);
                    store.delivered.notify_one();
                    // Under libc's mutex the one behind it may be quicker: then there is one more.
                    wait_until("one has it", || board.get(0) + board.get(1) > 0);
                    let was_taken = board.get(0);
                    if was_taken == 1 {
                        store.bring(1);
                        store.delivered.notify_one();
                    }
                    board.reach(1, 1);
                    victim.kill();
                    // By no other process's doing.
                    taker.finish();
                    let mut left = store.lock();
                    assert_eq!(*left, was_taken);
                    *left = 0;
                }
                assert_eq!(domain.stats().rescues, 0);
            }

            fn a_woken_waiter_queues_for_the_mutex_and_dies(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                for _ in 0..20 {
                    let board = Board::new();
                    let mut children = [store.taker(board), store.taker(board)];
                    let mut guard = store.lock();
                    *guard = 1;
                    store.delivered.notify_one();
                    children[0].kill();
                    drop(guard);
                    board.reach(0, 1);
                    let [_, second] = children;
                    second.finish();
                    assert_eq!(*store.lock(), 0);
                }
                assert_eq!(domain.stats().rescues, 0);
            }

            /// It has used a notification, finds its condition false, and waits again: what it does
            /// between the two waits, and before it sleeps, takes nothing along.
            fn who_waits_again_after_a_wait_and_dies_in_its_unlock_or_sleep(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let mut random = Random::new();
                for _ in 0..100 {
                    let board = Board::new();
                    let mut victim = store.taker(board);
                    let taker = store.taker(board);
                    // For nothing, so one of them waits again.
                    store.delivered.notify_one();
                    random.pause(80);
                    victim.kill();
                    store.bring(1);
                    store.delivered.notify_one();
                    taker.finish();
                    assert_eq!(*store.lock(), 0);
                }
                assert_eq!(domain.stats().rescues, 0);
            }

            fn a_peers_end_ends_a_wait(world: &World) {
                let domain = world.domain();
                let store = open(world, &domain);
                let board = Board::new();
                let mut supplier = Child::start(|| {
                    domain.token().expect("a token");
                    board.set(1, 1);
                    loop {
                        std::thread::park();
                    }
                });
                board.reach(1, 1);
                let info = domain.tokens().into_iter().find(|one| one.pid == supplier.pid() as u32);
                let peer = domain.peer(info.expect("it has a token").id);
                let waiter = Child::start(|| {
                    let (_guard, woke) =
                        store.delivered.wait_or_end(store.lock(), &peer).expect("well");
                    assert!(woke == Woke::PeerEnded);
                });
                wait_asleep(waiter.pid());
                supplier.kill();
                waiter.finish();
                assert!(store.stock.try_lock().expect("well").is_some());
            }

            fn items_are_handed_over_among_random_kills(world: &World) {
                const TAKERS: usize = 5;
                let domain = world.domain();
                let store = open(world, &domain);
                let mut random = Random::new();
                let start = |store| {
                    Child::start(move || {
                        loop {
                            Store::take(store);
                        }
                    })
                };
                let mut children: Vec<Child> = (0..TAKERS).map(|_| start(&store)).collect();
                for _ in 0..600 {
                    let items = 1 + random.below(2);
                    store.bring(items);
                    for _ in 0..items {
                        store.delivered.notify_one();
                    }
                    random.pause(60);
                    let n = random.below(TAKERS as u64) as usize;
                    children[n].kill();
                    // By takers alone, for this does not lock; and no new taker before.
                    wait_until("what was notified is taken", || store.seen.get(0) == 0);
                    children[n] = start(&store);
                }
                assert_eq!(domain.stats().rescues, 0);
            }
        }
    };
}

under!(pi, PiMutex, PiMutexGuard, PiMutex::options(0u64), needs_no_right);
under!(
    ceiling,
    CeilingMutex,
    CeilingMutexGuard,
    CeilingMutex::options(HIGH as u32, 0u64),
    skip_without_right
);

/// A mutex with priority inheritance needs no right.
fn needs_no_right(_: &World) {}

fn opened(domain: &Domain) -> (PiMutex<u64>, Condvar) {
    (
        PiMutex::options(0).open_or_create(domain, "valve").expect("opens"),
        Condvar::open_or_create(domain, "changed").expect("opens"),
    )
}

/// Each lock and unlock of libc's takes `list_op_pending`. If each handed a wake-up on, waiters that
/// no thread has notified would wake each other for ever.
fn waiters_without_a_notification_let_each_other_sleep(world: &World) {
    let domain = world.domain();
    let (valve, changed) = opened(&domain);
    let board = Board::new();
    let children: Vec<Child> = (0..4)
        .map(|_| {
            Child::start(|| {
                let mut guard = valve.lock().expect("free");
                board.add(1, 1);
                while *guard == 0 {
                    guard = changed.wait(guard).expect("well");
                    board.add(0, 1);
                }
            })
        })
        .collect();
    // Each has had the mutex, and it is free: all wait.
    board.reach(1, 4);
    drop(valve.lock().expect("free"));
    children.iter().for_each(|child| wait_asleep(child.pid()));
    for n in 1..=3 {
        // Its condition is false: it waits again.
        changed.notify_one();
        board.reach(0, n);
    }
    children.iter().for_each(|child| wait_asleep(child.pid()));
    let sleeps = || children.iter().map(|child| sleeps_of(child.pid())).collect::<Vec<_>>();
    let before = sleeps();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(sleeps(), before, "no thread has notified, and somebody woke");
    *valve.lock().expect("free") = 1;
    changed.notify_all();
    children.into_iter().for_each(Child::finish);
    assert_eq!(domain.stats().rescues, 0);
}

fn a_pi_mutex_and_a_plain_one_at_one_condition(world: &World) {
    let domain = world.domain();
    let (valve, changed) = opened(&domain);
    let plain = Mutex::options(0u64).open_or_create(&domain, "plain");
    let plain = plain.expect("opens");
    let board = Board::new();
    let mut children = vec![Child::start(|| {
        drop(changed.wait(valve.lock().expect("free")).expect("well"));
        board.add(0, 1);
    })];
    wait_asleep(children[0].pid());
    children.push(Child::start(|| {
        // The wake-up in hand leads to the same condition variable.
        let guard = changed.wait(plain.lock().expect("free")).expect("well");
        let inner = changed.wait(valve.lock().expect("free")).expect("well");
        drop((inner, guard));
        board.add(0, 1);
    }));
    wait_asleep(children[1].pid());
    changed.notify_all();
    board.reach(0, 1);
    crate::child::wait_until("the other waits again", || {
        changed.notify_one();
        board.get(0) == 2
    });
    children.into_iter().for_each(Child::finish);
    assert_eq!(domain.stats().rescues, 0);
}

/// A thread holds two mutexes, each after a wait on a condition variable of its own. The field of the
/// kernel's can lead to one of these only: it leads to the second, also when the first mutex has been
/// given back.
fn a_waiter_under_two_mutexes_dies_with_the_second_in_hand(world: &World) {
    let domain = world.domain();
    let mutex = |name| Mutex::options(0u64).open_or_create(&domain, name).expect("opens");
    let condvar = |name| Condvar::open_or_create(&domain, name).expect("opens");
    let (first, second) = (mutex("first"), mutex("second"));
    let (changed, delivered) = (condvar("changed"), condvar("delivered"));
    for gives_the_first_back in [false, true] {
        let board = Board::new();
        let mut victim = Child::start(|| {
            let outer = changed.wait(first.lock().expect("free")).expect("well");
            board.set(0, 1);
            let inner = delivered.wait(second.lock().expect("free")).expect("well");
            let outer = if gives_the_first_back { None } else { Some(outer) };
            board.set(0, 2);
            let _both = (outer, inner);
            loop {
                std::thread::park();
            }
        });
        wait_asleep(victim.pid());
        changed.notify_one();
        board.reach(0, 1);
        wait_asleep(victim.pid());
        let next = Child::start(|| {
            let told = delivered.wait(second.lock().expect("free"));
            let Err(LockError::OwnerDied(mut guard)) = told else {
                panic!("it was not notified, and no owner has died")
            };
            guard.mark_consistent();
        });
        wait_asleep(next.pid());
        delivered.notify_one();
        board.reach(0, 2);
        victim.kill();
        next.finish();
        if !gives_the_first_back {
            let Err(LockError::OwnerDied(mut guard)) = first.lock() else { panic!("it died") };
            guard.mark_consistent();
        }
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// The waiter of the first condition variable that would have been woken by the death is woken when
/// the field is led away from it: it queues for the mutex, and is told there.
fn the_first_conditions_next_waiter_is_told_too(world: &World) {
    let domain = world.domain();
    let mutex = |name| Mutex::options(0u64).open_or_create(&domain, name).expect("opens");
    let condvar = |name| Condvar::open_or_create(&domain, name).expect("opens");
    let (first, second) = (mutex("first"), mutex("second"));
    let (changed, delivered) = (condvar("changed"), condvar("delivered"));
    // Also if both waits are on the same condition variable.
    for other in [&delivered, &changed] {
        let board = Board::new();
        let mut victim = Child::start(|| {
            let outer = changed.wait(first.lock().expect("free")).expect("well");
            board.set(0, 1);
            let inner = other.wait(second.lock().expect("free")).expect("well");
            drop(inner);
            board.set(0, 2);
            let _outer = outer;
            loop {
                std::thread::park();
            }
        });
        wait_asleep(victim.pid());
        let next = Child::start(|| {
            let told = changed.wait(first.lock().expect("free"));
            let Err(LockError::OwnerDied(mut guard)) = told else {
                panic!("it was not notified, and no owner has died")
            };
            guard.mark_consistent();
        });
        wait_asleep(next.pid());
        changed.notify_one();
        board.reach(0, 1);
        wait_asleep(victim.pid());
        // The next one sleeps in the queue of the first mutex.
        other.notify_all();
        board.reach(0, 2);
        victim.kill();
        next.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// A woken waiter wakes the next one before it locks: if it died there, that one would go on in its
/// place. So two are awake, and the first one to get the mutex uses the notification. With the mutex
/// held meanwhile, both queue for it, and the kernel hands it to the more urgent one.
fn the_most_urgent_waiter_is_woken_first(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let (valve, changed) = opened(&domain);
    let board = Board::new();
    let mut waiting: Vec<(i32, Child)> = [LOW, HIGH, MIDDLE]
        .into_iter()
        .map(|priority| {
            let child = Child::start(|| {
                become_fifo(priority);
                let guard = changed.wait(valve.lock().expect("free")).expect("well");
                let place = board.add(0, 1) as usize;
                board.set(place, priority as u64);
                drop(guard);
            });
            wait_asleep(child.pid());
            (priority, child)
        })
        .collect();
    for urgent in [HIGH, MIDDLE, LOW] {
        // The waiter that was woken in vain sleeps again: before that, `notify_one` would wake a less
        // urgent one that sleeps.
        let pids: Vec<i32> = waiting.iter().map(|(_, child)| child.pid()).collect();
        wait_all_asleep_outside(&pids);
        let at = waiting.iter().position(|(priority, _)| *priority == urgent).expect("waits");
        let (_, child) = waiting.remove(at);
        let guard = valve.lock().expect("free");
        changed.notify_one();
        wait_until("the most urgent one is woken", || queues_for_pi_mutex(child.pid()));
        drop(guard);
        child.finish();
    }
    assert_eq!([1, 2, 3].map(|at| board.get(at)), [HIGH, MIDDLE, LOW].map(|one| one as u64));
}

/// Policy and real-time priority of a process's main thread.
fn schedule_of(pid: i32) -> (i32, i32) {
    let mut parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is a place of ours.
    unsafe {
        assert_eq!(libc::sched_getparam(pid, &raw mut parameter), 0);
        (libc::sched_getscheduler(pid), parameter.sched_priority)
    }
}

fn a_waiter_sleeps_with_its_own_priority_and_wakes_at_the_ceiling(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let valve = CeilingMutex::options(HIGH as u32, 0u64).open_or_create(&domain, "valve");
    let valve = valve.expect("opens");
    let changed = Condvar::open_or_create(&domain, "changed").expect("opens");
    let waiter = Child::start(|| {
        let own = own_schedule();
        let guard = valve.lock().expect("free");
        assert_eq!(own_schedule(), (libc::SCHED_FIFO, HIGH));
        let guard = changed.wait(guard).expect("well");
        assert_eq!(own_schedule(), (libc::SCHED_FIFO, HIGH));
        drop(guard);
        assert_eq!(own_schedule(), own);
    });
    wait_asleep(waiter.pid());
    assert_eq!(schedule_of(waiter.pid()).0, libc::SCHED_OTHER);
    changed.notify_one();
    waiter.finish();
}

fn a_waiter_that_has_come_above_the_ceiling_is_refused(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let valve = CeilingMutex::options(LOW as u32, 0u64).open_or_create(&domain, "valve");
    let valve = valve.expect("opens");
    let changed = Condvar::open_or_create(&domain, "changed").expect("opens");
    let board = Board::new();
    let waiter = Child::start(|| {
        let refused = changed.wait(valve.lock().expect("free")).map(drop);
        assert!(matches!(refused, Err(LockError::Failed(AcquireError::AboveCeiling))));
        board.set(0, 1);
    });
    wait_asleep(waiter.pid());
    let second = Child::start(|| {
        drop(changed.wait(valve.lock().expect("free")).expect("well"));
        board.set(1, 1);
    });
    wait_asleep(second.pid());
    let parameter = libc::sched_param { sched_priority: HIGH };
    // SAFETY: the parameter is plain data.
    let set =
        unsafe { libc::sched_setscheduler(waiter.pid(), libc::SCHED_FIFO, &raw const parameter) };
    assert_eq!(set, 0);
    // Both, since the first was asleep already when it became urgent: whichever the kernel wakes.
    changed.notify_one();
    changed.notify_one();
    board.reach(0, 1);
    // What the first received goes to the second.
    board.reach(1, 1);
    waiter.finish();
    second.finish();
}
