//! The newest message of several publishers, with another one published at the instructions on the
//! way to it.
//!
//! The subscriber is the child that is moved on; the two publishers are the check's own, so that
//! one of them can publish while the child stands still. Whatever `latest` returns then, a newer
//! message must come afterwards, and none twice.

use std::cell::RefCell;

use outlive::Domain;
use outlive::topic::{Durability, Publisher, Subscriber, SubscriberOptions, Topic};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    latest_beside_a_second_publisher_passes_over_nothing_newer: 120,
    latest_of_a_reliable_one_passes_over_nothing_newer: 120,
    latest_is_what_others_have_received: 120,
);

/// What `latest` returned: the message's number.
const LATEST: usize = FREE;
/// How many were lost, over all rounds.
const LOST: usize = FREE + 1;
/// How many came afterwards, and which.
const AFTER: usize = FREE + 2;
const FIRST: usize = FREE + 3;
/// As many are written down of a round.
const MOST_AFTER: usize = 8;

fn open(domain: &Domain) -> Topic<u64> {
    let options = Topic::options().depth(4).max_bytes(16 << 20).reliable(true);
    let options = options.durability(Durability::Persistent);
    options.open_or_create(domain, "topic").expect("opens")
}

/// The child takes all that there is.
fn take_all(subscriber: &mut Subscriber<u64>, board: Board) {
    let mut count = 0;
    while let Some(sample) = subscriber.try_recv().expect("ours") {
        board.set(FIRST + count.min(MOST_AFTER), *sample);
        count += 1;
    }
    board.set(AFTER, count as u64);
    board.set(LOST, subscriber.lost());
}

/// One round after the other, the second publisher's message some instructions later in each.
fn second_publisher(world: &World, options: SubscriberOptions) {
    let domain = world.domain();
    let topic = open(&domain);
    let publishers = [0, 1].map(|_| topic.publisher().expect("a ring"));
    let board = Board::new();
    let mut subscriber = Stepped::start(world, board, || {
        let subscriber = RefCell::new(topic.subscriber_with(options).expect("a line"));
        let latest = |_| {
            let newest = subscriber.borrow_mut().latest().expect("ours").expect("there is one");
            board.set(LATEST, *newest);
        };
        in_rounds(board, latest, |_| take_all(&mut subscriber.borrow_mut(), board));
    });
    let mut steps = 0;
    for round in 0.. {
        // Which of the two has the ring with the lower number makes a difference.
        let [first, second] =
            if round % 2 == 0 { [0, 1] } else { [1, 0] }.map(|at| &publishers[at]);
        let (older, newer) = (2 * round + 1, 2 * round + 2);
        let publish =
            |publisher: &Publisher<u64>, number| _ = publisher.publish(&number).expect("room");
        publish(first, older);
        let is_over = subscriber.step(steps);
        publish(second, newer);
        subscriber.go_on();
        let latest = board.get(LATEST);
        let after: Vec<u64> = (0..MOST_AFTER.min(board.get(AFTER) as usize))
            .map(|at| board.get(FIRST + at))
            .collect();
        let expected: &[u64] = if latest == newer { &[] } else { &[newer] };
        assert!(
            [older, newer].contains(&latest) && after == expected && board.get(LOST) == 0,
            "published {older}, and {newer} after {steps} instructions: the latest is {latest}, then come {after:?}, {} are lost",
            board.get(LOST)
        );
        if is_over && round % 2 == 1 {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        // Each shared word is some instructions from the next.
        steps += 9;
    }
}

fn latest_beside_a_second_publisher_passes_over_nothing_newer(world: &World) {
    second_publisher(world, Subscriber::options());
}

fn latest_of_a_reliable_one_passes_over_nothing_newer(world: &World) {
    second_publisher(world, Subscriber::options().reliable(true));
}

/// A message that a subscriber has received already is the latest for others, wherever its
/// publisher has stopped.
fn latest_is_what_others_have_received(world: &World) {
    let domain = world.domain();
    let topic = open(&domain);
    let mut subscribers = [0, 1].map(|_| topic.subscriber().expect("a line"));
    let board = Board::new();
    let mut publisher = Stepped::start(world, board, || {
        let publisher = topic.publisher().expect("a ring");
        in_rounds(board, |round| _ = publisher.publish(&round).expect("room"), |_| {});
    });
    let mut steps = 0;
    loop {
        let is_over = publisher.step(steps);
        let [receiving, latest] = &mut subscribers;
        let mut received = None;
        while let Some(sample) = receiving.try_recv().expect("ours") {
            received = Some(*sample);
        }
        if received.is_some() {
            let newest = latest.latest().expect("ours").map(|newest| *newest);
            assert_eq!(newest, received, "after {steps} instructions");
        }
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        publisher.go_on();
        steps += 3;
    }
}
