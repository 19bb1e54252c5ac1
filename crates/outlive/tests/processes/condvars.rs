//! Condition variables: which waiters wake, and which hand their notification on.

use std::time::Duration;

use outlive::sync::{
    AcquireError, Condvar, EmbeddedCondvar, EmbeddedMutex, LockError, Mutex, Record, Woke,
};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;
use crate::store::{NO_WAITV, NOTHING, Store, open};

crate::checks!(
    one_notification_wakes_one,
    each_notification_ends_one_wait_though_the_mutex_is_held,
    a_wait_that_passed_its_deadline_lets_others_lock,
    all_are_woken_by_notify_all,
    a_deadline_is_kept,
    nobody_waits_costs_nothing_and_is_forgotten,
    turns_are_taken,
    a_guard_of_another_domain_will_do,
    embedded_in_a_record,
    a_forked_childs_guard_is_refused,
    a_woken_waiter_that_waits_on_another_condition_hands_its_notification_on,
    who_was_not_notified_hands_nothing_on,
    who_gives_the_mutex_up_hands_its_notification_on,
    without_futex_waitv,
);

fn one_notification_wakes_one(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for _ in 0..20 {
        let board = Board::new();
        let children = store.takers(board, 3, NOTHING);
        for n in 1..=3 {
            store.bring(1);
            store.delivered.notify_one();
            board.reach(0, n);
        }
        children.into_iter().for_each(Child::finish);
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// The notifier keeps the mutex: each woken waiter finds it held, and wakes the next one before it
/// queues for it. Yet only as many waits end as there were notifications, also when some of the
/// waiters die.
fn each_notification_ends_one_wait_though_the_mutex_is_held(world: &World) {
    let store = open(&world.domain());
    for killed in [0, 1] {
        let board = Board::new();
        let mut children: Vec<Child> = (0..8)
            .map(|_| {
                Child::start(|| {
                    let guard = store.lock();
                    board.add(1, 1);
                    let guard = store.mended(store.delivered.wait(guard));
                    board.add(0, 1);
                    drop(guard);
                })
            })
            .collect();
        // Once each has had the mutex, and it is free, all wait.
        board.reach(1, 8);
        let guard = store.lock();
        for child in &children {
            wait_asleep(child.pid());
        }
        (0..3).for_each(|_| store.delivered.notify_one());
        std::thread::sleep(Duration::from_millis(30));
        (0..killed).for_each(|_| children.remove(0).kill());
        drop(guard);
        board.reach(0, 3);
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(board.get(0), 3, "three notifications");
        store.delivered.notify_all();
        children.into_iter().for_each(Child::finish);
    }
}

fn a_wait_that_passed_its_deadline_lets_others_lock(world: &World) {
    let store = open(&world.domain());
    let guard = store.lock();
    let (guard, woke) =
        store.delivered.wait_until(guard, Deadline::at_nanos(1)).expect("locked again");
    assert_eq!((*guard, woke), (0, Woke::TimedOut));
}

fn all_are_woken_by_notify_all(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for inside in [true, false] {
        let children = store.takers(Board::new(), 8, NOTHING);
        let mut guard = store.lock();
        *guard = 8;
        if inside {
            store.delivered.notify_all();
            drop(guard);
        } else {
            drop(guard);
            store.delivered.notify_all();
        }
        children.into_iter().for_each(Child::finish);
    }
}

fn a_deadline_is_kept(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let (guard, woke) = store
        .delivered
        .wait_while_timeout(store.lock(), Duration::from_millis(10), |stock| *stock == 0)
        .expect("locks");
    assert_eq!((*guard, woke), (0, Woke::TimedOut));
    let (guard, woke) = store.delivered.wait_timeout(guard, Duration::ZERO).expect("locks");
    assert_eq!((*guard, woke), (0, Woke::TimedOut));
    let (guard, woke) = store
        .delivered
        .wait_while_until(
            guard,
            Deadline::at_time_of_day(std::time::SystemTime::UNIX_EPOCH),
            |_| false,
        )
        .expect("locks");
    assert_eq!(woke, Woke::Notified, "the condition is what counts");
    drop(guard);
    // The mutex was in hand each time, and is free now.
    drop(store.stock.try_lock().expect("free").expect("not held"));
}

fn figures(domain: &Domain, name: &str) -> (String, u64) {
    match domain.entry(name).expect("there").detail {
        outlive::Detail::Lock(detail) => (detail.state.expect("said"), detail.figures[0].1),
        other => panic!("{other:?}"),
    }
}

fn nobody_waits_costs_nothing_and_is_forgotten(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    store.delivered.notify_one();
    store.delivered.notify_all();
    assert_eq!(figures(&domain, "delivered"), ("no thread waits".to_owned(), 0));
    let children = store.takers(Board::new(), 1, NOTHING);
    assert_eq!(figures(&domain, "delivered").0, "a thread may wait");
    store.bring(1);
    store.delivered.notify_all();
    children.into_iter().for_each(Child::finish);
    assert_eq!(figures(&domain, "delivered").0, "no thread waits");
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 0);
}

/// Two processes that notify each other, with the mutex in hand: the condition of each is the
/// other's move.
fn turns_are_taken(world: &World) {
    const TURNS: u64 = 5_000;
    let domain = world.domain();
    let store = open(&domain);
    let play = |parity: u64| {
        for _ in 0..TURNS {
            let guard = store.delivered.wait_while(store.lock(), |turn| *turn % 2 != parity);
            *store.mended(guard) += 1;
            store.delivered.notify_one();
        }
    };
    let other = Child::start(|| play(1));
    play(0);
    other.finish();
    assert_eq!(*store.lock(), 2 * TURNS);
}

fn a_guard_of_another_domain_will_do(world: &World) {
    let domain = world.domain();
    let elsewhere = world.domain_named("elsewhere");
    let store = Store {
        stock: Mutex::options(0).open_or_create(&elsewhere, "stock").expect("opens"),
        delivered: Condvar::open_or_create(&domain, "delivered").expect("opens"),
        seen: Board::new(),
    };
    let children = store.takers(Board::new(), 2, NOTHING);
    store.bring(2);
    store.delivered.notify_one();
    store.delivered.notify_one();
    children.into_iter().for_each(Child::finish);
}

fn embedded_in_a_record(world: &World) {
    outlive::record! {
        struct Shop {
            stock: EmbeddedMutex<u64>,
            delivered: EmbeddedCondvar,
        }
    }
    let domain = world.domain();
    let shop = Record::<Shop>::open_or_create(&domain, "shop").expect("opens");
    let delivered = shop.handle(|shop| &shop.delivered);
    let taker = Child::start(|| {
        let guard = shop.lock(|shop| &shop.stock).expect("free");
        *delivered.wait_while(guard, |stock| *stock == 0).expect("locks") -= 1;
    });
    wait_asleep(taker.pid());
    *shop.lock(|shop| &shop.stock).expect("free") = 1;
    delivered.notify_one();
    taker.finish();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 0);
}

fn a_forked_childs_guard_is_refused(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let mut guard = store.lock();
    // Also of a guard that a wait has given.
    for _ in 0..2 {
        // What the child makes of its copy does not touch the parent's.
        let copy = &guard;
        Child::start(|| {
            // SAFETY: a copy of this process's own, as the fork made it; the original is never
            // dropped here.
            let copy = unsafe { core::ptr::read(copy) };
            assert!(matches!(
                store.delivered.wait(copy),
                Err(LockError::Failed(AcquireError::NotHeld))
            ));
            assert!(matches!(store.stock.try_lock(), Ok(None)), "it is the parent's");
        })
        .finish();
        guard = store.delivered.wait_timeout(guard, Duration::ZERO).expect("held").0;
    }
    drop(guard);
    drop(store.stock.try_lock().expect("free").expect("not held"));
}

/// Once the waiter sleeps on the second condition, its end would wake a waiter of that one. So it
/// hands on the first condition's notification before.
fn a_woken_waiter_that_waits_on_another_condition_hands_its_notification_on(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let other = Condvar::open_or_create(&domain, "other").expect("opens");
    for _ in 0..10 {
        let board = Board::new();
        let first = Child::start(|| {
            let guard = store.mended(store.delivered.wait(store.lock()));
            board.set(1, 1);
            drop(other.wait(guard).expect("notified"));
        });
        wait_asleep(first.pid());
        let takers = store.takers(board, 1, NOTHING);
        store.bring(1);
        store.delivered.notify_one();
        board.reach(1, 1);
        store.see_it_taken();
        takers.into_iter().for_each(Child::finish);
        // The first waiter prepared its wait before it gave the mutex back, and the taker has had
        // the mutex since: so this notification reaches it.
        other.notify_one();
        first.finish();
    }
}

/// A wait that ended by its deadline has used no notification: a wait for another condition with the
/// same guard must not end a wait of another thread.
fn who_was_not_notified_hands_nothing_on(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let other = Condvar::open_or_create(&domain, "other").expect("opens");
    let soon = Duration::from_millis(5);
    let guard = store.lock();
    // As of another thread that waits.
    let begun = store.delivered.begin_wait();
    let (guard, woke) = store.delivered.wait_timeout(guard, soon).expect("it has the mutex");
    assert_eq!(woke, Woke::TimedOut);
    let (guard, _) = other.wait_timeout(guard, soon).expect("it has the mutex");
    assert!(!store.delivered.take_notification(&begun), "no thread has notified");
    store.delivered.notify_one();
    let (guard, woke) = store.delivered.wait_timeout(guard, soon).expect("it has the mutex");
    // The notification came before this wait.
    assert_eq!(woke, Woke::TimedOut);
    assert!(store.delivered.take_notification(&begun));
    drop(guard);
}

fn who_gives_the_mutex_up_hands_its_notification_on(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for _ in 0..10 {
        let board = Board::new();
        let giver = Child::start(|| {
            let slept = Deadline::after(Duration::from_secs(2));
            let got =
                store.delivered.wait_and_relock_until(store.lock(), slept, Deadline::at_nanos(1));
            assert!(matches!(got, Ok(None)), "it has the mutex");
            // It does not hold it, and can have it when it is free.
            board.set(1, 1);
            store.lock();
        });
        wait_asleep(giver.pid());
        let takers = store.takers(board, 1, NOTHING);
        let mut guard = store.lock();
        *guard = 1;
        store.delivered.notify_one();
        board.reach(1, 1);
        drop(guard);
        takers.into_iter().chain([giver]).for_each(Child::finish);
        assert_eq!((board.get(0), *store.lock()), (1, 0));
    }
}

fn without_futex_waitv(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let board = Board::new();
    let mut children = store.takers(board, 3, NO_WAITV);
    children.extend(store.takers(board, 3, NOTHING));
    for n in 1..=6 {
        store.bring(1);
        store.delivered.notify_one();
        // Each is its own notification's, or its slice's end's.
        board.reach(0, n);
    }
    children.into_iter().for_each(Child::finish);
}
