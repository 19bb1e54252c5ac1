//! Named subscribers that have died: publishers wait for a successor for the patience and no longer.

use std::time::Duration;

use outlive::topic::Topic;
use outlive::wait::WaitSet;
use outlive::{RecvError, SendError};

use crate::asleep::{sleeps_of, wait_asleep};
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::topic_kept::{LONG, is_full, kept, owner, publish};
use crate::topics::{drain, open, reliable};
use crate::wait_bridges::block_on;

crate::checks!(
    publishers_wait_for_the_patience_and_no_longer,
    a_second_death_has_a_patience_of_its_own,
    the_dead_are_waited_for_together,
    usage_says_for_which_subscribers_publishers_wait,
    waiting_publishers_are_woken_by_a_successor,
    a_publisher_behind_the_dead_sleeps_behind_its_successor_then,
    wait_sets_and_futures_wait_for_the_patience,
    memory_is_kept_for_the_patience,
    the_slowest_is_one_that_lives,
    a_successor_says_for_how_long_publishers_wait,
);

fn publishers_wait_for_the_patience_and_no_longer(world: &World) {
    let domain = world.domain();
    for patience in [Duration::from_millis(50), Duration::ZERO] {
        let topic = open(&domain, 4);
        let board = Board::new();
        let mut dead = owner(&domain, board, kept(patience), 0);
        board.reach(1, 1);
        let publisher = topic.publisher().expect("a ring");
        publish(&publisher, 0..4);
        assert!(is_full(&publisher, 4), "a living one is waited for: {patience:?}");
        dead.kill();
        for number in 4..10 {
            publisher.publish(&message(1, number, 60)).expect("the patience has passed");
        }
        assert_eq!(publisher.stopped_waiting(), 1);
        assert!(topic.kept()[0].lagging);
        // As one that lags, it is told, and is waited for again.
        let mut successor = topic.subscriber_with(kept(LONG)).expect("the place");
        assert_eq!(successor.try_recv().map(drop), Err(RecvError::Lagged { lost: 6 }));
        assert_eq!(drain(&mut successor, 1), [6, 7, 8, 9]);
        successor.acknowledge().expect("ours");
        publish(&publisher, 10..14);
        assert!(is_full(&publisher, 14));
        assert_eq!(drain(&mut successor, 1), [10, 11, 12, 13]);
    }
}

/// The publisher has seen the first one dead, and looks again when the second one has died, too.
fn a_second_death_has_a_patience_of_its_own(world: &World) {
    let domain = world.domain();
    let patience = Duration::from_secs(1);
    for is_swept in [false, true] {
        let topic = open(&domain, 4);
        let publisher = topic.publisher().expect("a ring");
        let board = Board::new();
        let mut first = owner(&domain, board, kept(patience), 0);
        board.reach(1, 1);
        publish(&publisher, 0..4);
        first.kill();
        assert!(is_full(&publisher, 4));
        owner(&domain, Board::new(), kept(patience), 0).kill();
        if is_swept {
            wait_until("the sweep finds all ended", || {
                domain.sweep(false).expect("sweeps");
                domain.sweep(true).expect("looks").is_clean()
            });
        }
        std::thread::sleep(patience);
        assert!(is_full(&publisher, 4), "swept: {is_swept}");
        assert_eq!(topic.forget("recorder"), Ok(true));
    }
}

/// What two of them cost is the longer patience, and not the sum.
fn the_dead_are_waited_for_together(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let patience = Duration::from_millis(300);
    for name in ["first", "second"] {
        let board = Board::new();
        let options = reliable().kept(name, patience).acknowledging(true);
        let mut dead = owner(&domain, board, options, 0);
        board.reach(1, 1);
        // The second one is behind by less.
        let from = topic.kept().len() as u64 - 1;
        publish(&publisher, from..from + 1);
        dead.kill();
    }
    publish(&publisher, 2..4);
    assert!(is_full(&publisher, 4));
    std::thread::sleep(patience);
    publish(&publisher, 4..9);
    assert_eq!(publisher.stopped_waiting(), 2);
}

/// As a process that is in no way part of the topic sees it.
fn usage_says_for_which_subscribers_publishers_wait(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let one = || match domain.entry("topic").expect("there").detail {
        outlive::Detail::Topic(usage) => usage.kept,
        other => panic!("{other:?}"),
    };
    assert_eq!(one(), []);
    let (publisher, other) = (topic.publisher().expect("a ring"), topic.publisher().expect("one"));
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 0);
    board.reach(1, 1);
    publish(&publisher, 0..3);
    publish(&other, 0..2);
    let place = &one()[0];
    let alive = place.owner.as_ref().map(|owner| (owner.pid, owner.alive));
    assert_eq!((&*place.name, alive), ("recorder", Some((dead.pid() as u32, true))));
    assert_eq!((place.reliable, place.lagging, place.lag, place.lost), (true, false, 5, 0));
    assert_eq!((place.in_the_way, place.patience, place.ownerless), (0, LONG, None));
    publish(&publisher, 3..4);
    assert!(is_full(&publisher, 4));
    assert_eq!((one()[0].in_the_way, one()[0].ownerless), (1, None), "it lives");
    dead.kill();
    assert_eq!((one()[0].in_the_way, one()[0].ownerless), (1, None), "no publisher has seen it");
    assert!(is_full(&publisher, 4));
    let place = &one()[0];
    let left = place.patience_left().expect("it runs");
    assert!(left > LONG / 2 && left <= LONG, "{left:?}");
    assert_eq!(place.owner.as_ref().map(|owner| owner.alive), Some(false));
    // A successor of little patience, that dies as well.
    owner(&domain, Board::new(), kept(Duration::ZERO), 0).kill();
    assert_eq!((one()[0].in_the_way, one()[0].ownerless), (1, None), "another one");
    publish(&publisher, 4..5);
    let place = &one()[0];
    assert_eq!((place.lagging, place.in_the_way, place.patience_left()), (true, 0, None));
    assert!(place.ownerless.is_some());
    drop(publisher);
    assert_eq!(topic.forget("recorder"), Ok(true));
    assert_eq!(one(), []);
}

/// One that sleeps behind the dead, with no limit.
fn waiting_publishers_are_woken_by_a_successor(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    for is_asleep in [false, true] {
        let board = Board::new();
        let mut dead = owner(&domain, board, kept(LONG), 0);
        board.reach(1, 1);
        let publisher = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            for number in 0..12 {
                publisher.publish(&message(1, number, 60)).expect("a successor takes");
            }
        });
        if is_asleep {
            wait_asleep(publisher.pid());
        }
        dead.kill();
        wait_asleep(publisher.pid());
        let mut successor = topic.subscriber_with(kept(LONG)).expect("the place");
        for wanted in 0..12 {
            let sample = successor.recv_timeout(PATIENCE).expect("ours").expect("published");
            assert_eq!(read_message(&sample), (1, wanted));
            successor.acknowledge().expect("ours");
        }
        publisher.finish();
    }
}

fn wait_sets_and_futures_wait_for_the_patience(world: &World) {
    let domain = world.domain();
    let patience = Duration::from_millis(100);
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(patience), 0);
    let mut publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..4);
    let mut set = WaitSet::new(&domain);
    set.add(&publisher.writable()).expect("added");
    assert_eq!(set.try_wait().expect("looks").count(), 0);
    dead.kill();
    assert_eq!(set.wait_timeout(PATIENCE).expect("waits").count(), 1);
    publish(&publisher, 4..8);
    drop(topic.subscriber_with(kept(patience)).expect("the place"));
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(patience), 0);
    publish(&publisher, 8..12);
    dead.kill();
    for number in 12..16 {
        block_on(publisher.publish_async(&message(1, number, 60)))
            .expect("the patience has passed");
    }
}

fn memory_is_kept_for_the_patience(world: &World) {
    let domain = world.domain();
    let options = Topic::<[u8]>::options().depth(64).max_bytes(1 << 20).reliable(true);
    let topic = options.open_or_create(&domain, "small").expect("made");
    let board = Board::new();
    let patience = Duration::from_millis(50);
    let mut dead = Child::start(|| {
        let _subscriber = topic.subscriber_with(kept(patience)).expect("a slot");
        board.add(0, 1);
        std::thread::sleep(LONG);
    });
    board.reach(0, 1);
    dead.kill();
    let publisher = topic.publisher().expect("a ring");
    let publish = |number| publisher.publish(&message(1, number, 100_000)).map(drop);
    let count = (0..64).take_while(|&number| publish(number).is_ok()).count() as u64;
    assert!((2..20).contains(&count), "{count} messages have room");
    wait_until("the patience passes", || match publish(count) {
        Ok(()) => true,
        Err(SendError::NoSpace { .. }) => false,
        Err(other) => panic!("{other}"),
    });
    assert_eq!(publisher.stopped_waiting(), 1);
}

fn the_slowest_is_one_that_lives(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 0);
    board.reach(1, 1);
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..2);
    let _living = topic.subscriber_with(reliable()).expect("a slot");
    publish(&publisher, 2..3);
    dead.kill();
    for slowest in [publisher.slowest(), publisher.writable().slowest()] {
        let slowest = slowest.expect("one lives");
        assert_eq!((slowest.who.pid, slowest.lag), (std::process::id(), 1));
        assert!(!slowest.is_in_the_way);
    }
}

fn a_successor_says_for_how_long_publishers_wait(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    owner(&domain, Board::new(), kept(LONG), 0).kill();
    assert_eq!(topic.kept()[0].patience, LONG);
    owner(&domain, Board::new(), kept(Duration::from_millis(50)), 0).kill();
    assert_eq!(topic.kept()[0].patience, Duration::from_millis(50));
    let publisher = topic.publisher().expect("a ring");
    for number in 0..8 {
        let published = publisher.publish_timeout(&message(1, number, 60), PATIENCE);
        published.map(drop).expect("the patience has passed");
    }
}

/// A publisher that sleeps behind a dead one sleeps behind its successor then, whose death wakes it as any
/// other's would: the successor may have died between its cursor and its notification.
fn a_publisher_behind_the_dead_sleeps_behind_its_successor_then(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 0);
    let publisher = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..5 {
            publisher.publish(&message(1, number, 60)).expect("published");
        }
    });
    wait_asleep(publisher.pid());
    dead.kill();
    wait_asleep(publisher.pid());
    let sleeps = sleeps_of(publisher.pid());
    let board = Board::new();
    // It takes nothing.
    let _successor = Child::start(|| {
        let subscriber = topic.subscriber_with(kept(LONG)).expect("the place");
        board.add(0, 1);
        std::thread::sleep(LONG);
        drop(subscriber);
    });
    board.reach(0, 1);
    wait_until("the publisher looks again", || sleeps_of(publisher.pid()) > sleeps);
}
