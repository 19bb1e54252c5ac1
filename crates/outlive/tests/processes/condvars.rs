//! Condition variables: which waiters wake, and what becomes of a notification when a process dies.

use std::time::Duration;

use outlive::sync::{
    AcquireError, Condvar, EmbeddedCondvar, EmbeddedMutex, LockError, Mutex, MutexGuard, PiMutex,
    Record, Woke,
};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

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
    waiting_with_an_unrepaired_guard_is_told_again,
    a_notification_outlives_the_waiter_that_it_woke: 60,
    a_woken_waiter_dies_with_the_mutex_in_hand,
    a_woken_waiter_queues_for_the_mutex_and_dies,
    a_woken_waiter_blocks_on_another_mutex_and_dies,
    a_woken_waiter_that_had_a_mutex_of_libcs_dies,
    a_woken_waiter_that_waits_on_another_condition_hands_its_notification_on,
    who_was_not_notified_hands_nothing_on,
    who_gives_the_mutex_up_hands_its_notification_on,
    who_dies_asleep_takes_nothing_along,
    a_notifier_that_dies_inside_is_told_to_who_watches_it,
    a_notifier_that_dies_inside_is_found_by_the_recheck,
    an_owners_death_is_told_to_a_waiter_that_comes_back,
    without_futex_waitv,
    items_are_handed_over_among_random_kills: 90,
);

const NOTHING: fn() = || {};
const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

struct Store {
    stock: Mutex<u64>,
    delivered: Condvar,
    /// The stock, for a process that looks without the lock.
    seen: Board,
}

fn open(domain: &Domain) -> Store {
    Store {
        stock: Mutex::options(0).open_or_create(domain, "stock").expect("opens"),
        delivered: Condvar::open_or_create(domain, "delivered").expect("opens"),
        seen: Board::new(),
    }
}

impl Store {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.mended(self.stock.lock())
    }

    /// A process that is told of a death notifies all waiters, as the repair.
    fn mended<'a>(
        &'a self,
        got: Result<MutexGuard<'a, u64>, LockError<MutexGuard<'a, u64>>>,
    ) -> MutexGuard<'a, u64> {
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

    /// Waits for an item and takes it.
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

    /// Whatever was brought has been taken: by takers alone, for this does not lock.
    fn see_it_taken(&self) {
        wait_until("what was notified is taken", || self.seen.get(0) == 0);
    }

    /// Children that take one item each, all asleep; each adds to word 0 when it has it.
    fn takers(&self, board: Board, count: usize, prepare: fn()) -> Vec<Child> {
        let children: Vec<Child> = (0..count)
            .map(|_| {
                Child::start(|| {
                    prepare();
                    self.take();
                    board.add(0, 1);
                })
            })
            .collect();
        for child in &children {
            wait_asleep(child.pid());
        }
        children
    }
}

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
                    let guard = store.mended(store.delivered.wait(store.lock()));
                    board.add(0, 1);
                    drop(guard);
                })
            })
            .collect();
        for child in &children {
            wait_asleep(child.pid());
        }
        let guard = store.lock();
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

fn waiting_with_an_unrepaired_guard_is_told_again(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    die_holding(&store);
    let Err(LockError::OwnerDied(guard)) = store.stock.lock() else { panic!("the owner died") };
    let Err(LockError::OwnerDied(mut guard)) = store.delivered.wait_timeout(guard, Duration::ZERO)
    else {
        panic!("nobody has repaired it")
    };
    guard.mark_consistent();
    let (guard, _) = store.delivered.wait_timeout(guard, Duration::ZERO).expect("whole");
    drop(guard);
    drop(store.stock.lock().expect("whole"));
}

/// A child that is killed with the mutex in hand.
fn die_holding(store: &Store) {
    let board = Board::new();
    let mut child = Child::start(|| {
        let _guard = store.lock();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child.kill();
}

/// Six waiters sleep, three items come with a notification each, and three waiters that may have
/// got one are killed at once.
fn a_notification_outlives_the_waiter_that_it_woke(world: &World) {
    for (name, prepare, rounds) in [("with", NOTHING, 250), ("without", NO_WAITV, 50)] {
        let domain = world.domain_named(name);
        let store = open(&domain);
        let mut random = Random::new();
        for round in 0..rounds {
            let mut children = store.takers(Board::new(), 6, prepare);
            store.bring(3);
            let mut first = random.below(4) as usize;
            if round % 5 == 0 {
                first = 0;
            }
            for victim in &children[first..first + 3] {
                store.delivered.notify_one();
                if round % 2 == 0 {
                    random.pause(40);
                }
                victim.signal(libc::SIGKILL);
            }
            store.see_it_taken();
            for victim in &mut children[first..first + 3] {
                victim.wait();
            }
        }
        assert_eq!(domain.stats().rescues, 0);
    }
}

/// No other process comes to lock: the death wakes the waiter that still sleeps, and the waiter is
/// told of it.
fn a_woken_waiter_dies_with_the_mutex_in_hand(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for _ in 0..30 {
        let board = Board::new();
        let mut victim = Child::start(|| {
            let mut guard = store.lock();
            while *guard == 0 {
                guard = store.mended(store.delivered.wait(guard));
            }
            board.set(1, 1);
            loop {
                std::thread::park();
            }
        });
        wait_asleep(victim.pid());
        let taker = store.takers(board, 1, NOTHING).remove(0);
        store.bring(1);
        // Both, in the order in which they came: the first is the victim.
        store.delivered.notify_one();
        board.reach(1, 1);
        victim.kill();
        taker.finish();
        assert_eq!(*store.lock(), 0);
    }
}

/// The mutex is held when the notification comes: the woken one hands it on before it queues, and
/// is killed there.
fn a_woken_waiter_queues_for_the_mutex_and_dies(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for _ in 0..30 {
        let board = Board::new();
        let mut children = store.takers(board, 2, NOTHING);
        let mut guard = store.lock();
        *guard = 1;
        store.delivered.notify_one();
        // Both sleep in the queue of the mutex, or one of them still sleeps here: whichever is
        // killed, the other gets the item.
        children[0].kill();
        drop(guard);
        children.remove(1).finish();
        children.remove(0);
        assert_eq!((board.get(0), *store.lock()), (1, 0));
    }
}

/// The mutex is held when the notification comes, and one of the two does not want to wait for it.
/// It is told, and the other one gets the item. A woken waiter has the mutex, and goes on to a
/// second one. `list_op_pending` can point to one word only, and it now points away from the
/// condition: so the notification goes on to the next waiter first.
fn a_woken_waiter_blocks_on_another_mutex_and_dies(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let second = Mutex::<u64>::options(0).open_or_create(&domain, "second").expect("opens");
    let held = second.lock().expect("free");
    let board = Board::new();
    let mut woken = Child::start(|| {
        let guard = store.delivered.wait(store.lock()).expect("woken");
        board.set(0, 1);
        drop(second.lock());
        drop(guard);
    });
    wait_asleep(woken.pid());
    let next = Child::start(|| {
        let guard = store.delivered.wait(store.lock());
        board.set(1, 1);
        // The first one was killed with the mutex in hand.
        assert!(matches!(guard, Err(LockError::OwnerDied(_))));
        drop(store.mended(guard));
    });
    wait_asleep(next.pid());
    store.delivered.notify_one();
    board.reach(0, 1);
    wait_asleep(woken.pid());
    assert_eq!(board.get(1), 0, "one was notified, and has the mutex");
    woken.kill();
    board.reach(1, 1);
    next.finish();
    drop(held);
}

/// libc takes the field that passes a wake-up on for itself, and leaves it empty.
fn a_woken_waiter_that_had_a_mutex_of_libcs_dies(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let second = PiMutex::<u64>::options(0).open_or_create(&domain, "second").expect("opens");
    let board = Board::new();
    let mut woken = Child::start(|| {
        let _guard = store.delivered.wait(store.lock()).expect("woken");
        drop(second.lock().expect("free"));
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    wait_asleep(woken.pid());
    let next = Child::start(|| {
        let guard = store.delivered.wait(store.lock());
        // The first one was killed with the mutex in hand.
        assert!(matches!(guard, Err(LockError::OwnerDied(_))));
        drop(store.mended(guard));
    });
    wait_asleep(next.pid());
    store.delivered.notify_one();
    board.reach(0, 1);
    woken.kill();
    next.finish();
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
            let slept = Deadline::after(Duration::from_millis(300));
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

fn who_dies_asleep_takes_nothing_along(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for dies in 0..3 {
        let board = Board::new();
        let mut children = store.takers(board, 3, NOTHING);
        children.remove(dies).kill();
        for n in 1..=2 {
            store.bring(1);
            store.delivered.notify_one();
            board.reach(0, n);
        }
        children.into_iter().for_each(Child::finish);
    }
}

/// A child that changes the condition when the board's word 1 says so, sets word 2, and does not
/// get to its notification. Word 3 says which token it has.
fn supplier(domain: &Domain, store: &Store, board: Board, gives_back: bool) -> Child {
    let child = Child::start(|| {
        board.set(3, u64::from(domain.token().expect("a token").as_u32()));
        board.reach(1, 1);
        let mut guard = store.lock();
        *guard += 1;
        let _kept = (!gives_back).then_some(guard);
        board.set(2, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(3, 1);
    child
}

fn a_notifier_that_dies_inside_is_told_to_who_watches_it(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    for outside in [false, true] {
        let board = Board::new();
        let mut supplier = supplier(&domain, &store, board, outside);
        let tokens = domain.tokens();
        let info = tokens
            .iter()
            .find(|info| u64::from(info.id.as_u32()) == board.get(3))
            .expect("its token");
        let peer = domain.peer(info.id);
        let waiters: Vec<Child> = (0..2)
            .map(|_| {
                Child::start(|| {
                    let guard = store.lock();
                    match store.delivered.wait_or_end(guard, &peer) {
                        Ok((_, woke)) => assert_eq!(woke, Woke::PeerEnded),
                        Err(LockError::OwnerDied(mut guard)) => {
                            guard.mark_consistent();
                            let again = store.delivered.wait_or_end(guard, &peer);
                            assert_eq!(again.expect("whole").1, Woke::PeerEnded);
                        }
                        Err(error) => panic!("{error}"),
                    }
                })
            })
            .collect();
        for waiter in &waiters {
            wait_asleep(waiter.pid());
        }
        board.set(1, 1);
        board.reach(2, 1);
        supplier.kill();
        waiters.into_iter().for_each(Child::finish);
        // A process that comes late does not begin to wait.
        let (guard, woke) = store.delivered.wait_or_end(store.lock(), &peer).expect("whole");
        assert_eq!(woke, Woke::PeerEnded);
        drop(guard);
    }
}

fn a_notifier_that_dies_inside_is_found_by_the_recheck(world: &World) {
    let domain = Domain::options()
        .recheck(Some(Duration::from_millis(20)))
        .open_or_create_at(world.folder().join("rechecked"))
        .expect("opens");
    let store = open(&domain);
    let board = Board::new();
    let mut supplier = supplier(&domain, &store, board, false);
    let taker = store.takers(board, 1, NOTHING).remove(0);
    board.set(1, 1);
    board.reach(2, 1);
    supplier.kill();
    taker.finish();
}

fn an_owners_death_is_told_to_a_waiter_that_comes_back(world: &World) {
    let domain = world.domain();
    let store = open(&domain);
    let board = Board::new();
    let waiter = Child::start(|| match store.delivered.wait(store.lock()) {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 1);
            guard.mark_consistent();
        }
        other => panic!("{other:?}"),
    });
    wait_asleep(waiter.pid());
    let mut owner = Child::start(|| {
        *store.lock() = 1;
        let _guard = store.lock();
        store.delivered.notify_all();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    owner.kill();
    waiter.finish();
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

/// The takers that live take every item that was brought and notified, though takers are killed at
/// every moment.
fn items_are_handed_over_among_random_kills(world: &World) {
    const TAKERS: usize = 5;
    let domain = world.domain();
    let store = open(&domain);
    let mut random = Random::new();
    let start = |store| {
        Child::start(move || {
            loop {
                Store::take(store);
            }
        })
    };
    let mut children: Vec<Child> = (0..TAKERS).map(|_| start(&store)).collect();
    for _ in 0..1_500 {
        let items = 1 + random.below(2);
        store.bring(items);
        for _ in 0..items {
            store.delivered.notify_one();
        }
        random.pause(60);
        let n = random.below(TAKERS as u64) as usize;
        children[n].kill();
        // No new taker before: it would take what the others sleep beside.
        store.see_it_taken();
        children[n] = start(&store);
    }
    assert_eq!(domain.stats().rescues, 0);
}
