//! Publishers that come after one another: a message that a living subscriber has not taken is
//! overwritten only when no other ring is free.

use outlive::topic::{Durability, Publisher, Subscriber, Topic};
use outlive::{Domain, SendError};

use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::runner::World;
use crate::topics::{reliable, usage};

crate::checks!(
    as_much_as_all_rings_hold_is_kept,
    the_killed_ones_messages_are_kept,
    the_rings_take_no_memory_that_messages_need,
    a_reliable_subscriber_stops_them_when_all_rings_are_full,
);

/// The most publishers at a time.
const RINGS: u64 = 62;
const DEPTH: u64 = 2;

fn open(domain: &Domain, depth: u64, max_bytes: u64) -> Topic<u64> {
    // Late subscribers get what publishers have left that are gone.
    let options = Topic::<u64>::options().durability(Durability::Persistent).reliable(true);
    let options = options.depth(depth as u32).max_bytes(max_bytes);
    options.open_or_create(domain, "topic").expect("opens")
}

fn publish_one(topic: &Topic<u64>, number: u64) {
    topic.publisher().expect("a ring").publish(&number).expect("published");
}

fn drain(subscriber: &mut Subscriber<u64>) -> Vec<u64> {
    std::iter::from_fn(|| subscriber.try_recv().expect("ours").map(|sample| *sample)).collect()
}

fn as_much_as_all_rings_hold_is_kept(world: &World) {
    const COUNT: u64 = 200;
    let domain = world.domain();
    let topic = open(&domain, DEPTH, 16 << 20);
    let mut subscriber = topic.subscriber().expect("a slot");
    let mut second = topic.subscriber().expect("a slot");
    for number in 0..COUNT {
        publish_one(&topic, number);
        // A subscriber that has taken all keeps no ring from being used again.
        assert_eq!(drain(&mut second), [number]);
    }
    // The oldest ones are lost, and no others, and that is told.
    let kept = COUNT - RINGS * DEPTH..COUNT;
    assert_eq!(subscriber.lag(), RINGS * DEPTH);
    assert_eq!(*subscriber.latest().expect("ours").expect("the last one"), COUNT - 1);
    drop(subscriber);

    // Each message comes in its turn, and what is new comes after what was there.
    let options = Subscriber::options().history(DEPTH as u32);
    let mut late = topic.subscriber_with(options).expect("a slot");
    publish_one(&topic, COUNT);
    let wanted: Vec<u64> = kept.clone().chain([COUNT]).collect();
    let got = drain(&mut late);
    assert!(got.ends_with(&[COUNT - 1, COUNT]), "{got:?}");
    assert!(got.is_sorted() && got.len() as u64 + late.lost() == wanted.len() as u64, "{got:?}");

    let mut subscriber = topic.subscriber().expect("a slot");
    for number in 0..COUNT {
        publish_one(&topic, number);
    }
    assert_eq!(drain(&mut subscriber), kept.collect::<Vec<_>>());
    assert_eq!(subscriber.lost(), COUNT - RINGS * DEPTH);

    // All have been taken: no further ring is needed, and none is made.
    drop((second, late));
    let before = usage(&domain).rings;
    assert_eq!(before.len() as u64, RINGS);
    publish_one(&topic, 7);
    let after = usage(&domain).rings;
    assert_eq!(after[0].published, before[0].published + 1, "the first of those that are read");
}

fn the_killed_ones_messages_are_kept(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 1, 16 << 20);
    let mut subscriber = topic.subscriber().expect("a slot");
    let board = Board::new();
    for number in 0..10 {
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            publisher.publish(&number).expect("published");
            board.set(0, number + 1);
            std::thread::sleep(PATIENCE);
        });
        board.reach(0, number + 1);
        child.kill();
        wait_until("its death is seen", || topic.publishers().is_empty());
    }
    assert_eq!(drain(&mut subscriber), (0..10).collect::<Vec<_>>());
    assert_eq!(subscriber.lost(), 0);
}

fn the_rings_take_no_memory_that_messages_need(world: &World) {
    let domain = world.domain();
    // Sixty-two rings would take more than four times as much.
    let options = Topic::<[u8]>::options().depth(64).max_bytes(256 << 10);
    let topic = options.open_or_create(&domain, "topic").expect("opens");
    let _stalled = topic.subscriber().expect("a slot");
    for _ in 0..100 {
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&[1; 60 << 10]).expect("as the first one");
    }
    assert!((1..16).contains(&usage(&domain).rings.len()), "{:?}", usage(&domain));
    // Those that are needed are made.
    let publishers: Vec<Publisher<[u8]>> =
        (0..RINGS).map(|_| topic.publisher().expect("a ring")).collect();
    assert_eq!(usage(&domain).rings.len(), publishers.len());
}

fn a_reliable_subscriber_stops_them_when_all_rings_are_full(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, DEPTH, 16 << 20);
    let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
    let try_one = |number| topic.publisher().expect("a ring").try_publish(&number).map(drop);
    for number in 0..RINGS * DEPTH {
        assert_eq!(try_one(number), Ok(()), "message {number}");
    }
    assert!(matches!(try_one(RINGS * DEPTH), Err(SendError::Full { slowest: Some(_) })));
    assert_eq!(drain(&mut subscriber), (0..RINGS * DEPTH).collect::<Vec<_>>());
    assert_eq!(try_one(0), Ok(()));
}
