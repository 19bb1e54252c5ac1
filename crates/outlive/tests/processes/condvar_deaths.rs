//! Condition variables when a process dies: what becomes of a notification that it had received or
//! owed, and which waiter is told of the death.

use std::time::Duration;

use outlive::Domain;
use outlive::sync::{LockError, Mutex, PiMutex, Woke};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::random::Random;
use crate::runner::World;
use crate::store::{NO_WAITV, NOTHING, Store, open};

crate::checks!(
    waiting_with_an_unrepaired_guard_is_told_again,
    a_notification_outlives_the_waiter_that_it_woke: 60,
    a_woken_waiter_dies_with_the_mutex_in_hand,
    a_woken_waiter_queues_for_the_mutex_and_dies,
    a_woken_waiter_blocks_on_another_mutex_and_dies,
    a_woken_waiter_that_had_a_mutex_of_libcs_dies,
    who_dies_asleep_takes_nothing_along,
    a_notifier_that_dies_inside_is_told_to_who_watches_it,
    a_notifier_that_dies_inside_is_found_by_the_recheck,
    an_owners_death_is_told_to_a_waiter_that_comes_back,
    items_are_handed_over_among_random_kills: 90,
);

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
