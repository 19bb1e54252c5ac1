//! A new publisher appears, and publishes, between two instructions of a subscriber that takes the
//! next message or the newest one.
//!
//! Then a publisher that was there before publishes a second message. The subscriber must not take
//! the new publisher's message after that one, wherever it was stopped. A ring stays once it is
//! made, so each round has a topic of its own.

use std::cell::RefCell;

use outlive::Domain;
use outlive::topic::{Subscriber, Topic};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    a_new_publishers_message_comes_in_its_turn: 120,
    the_newest_of_all_passes_over_a_new_publishers_older_one: 120,
);

/// How many messages the subscriber has taken in a round.
const COUNT: usize = FREE;
/// These messages, from this place on.
const GOT: usize = FREE + 1;

fn name(round: u64) -> String {
    format!("topic-{round}")
}

fn open(domain: &Domain, round: u64) -> Topic<u64> {
    Topic::options()
        .depth(4)
        .max_bytes(1 << 20)
        .open_or_create(domain, &name(round))
        .expect("opens")
}

fn note(board: Board, message: Option<u64>) -> bool {
    let Some(message) = message else { return false };
    let count = board.get(COUNT);
    board.set(GOT + count as usize, message);
    board.set(COUNT, count + 1);
    true
}

/// Message 1 is the new publisher's; message 2 is published after it. `first` takes the
/// subscriber's first message, and `is_right` judges all that the subscriber has taken.
fn new_publisher(
    world: &World,
    first: impl Fn(&mut Subscriber<u64>) -> Option<u64>,
    is_right: impl Fn(&[u64]) -> bool,
) {
    let domain = world.domain();
    let board = Board::new();
    let mut subscriber = Stepped::start(world, board, || {
        let join = |round| open(&domain, round).subscriber().expect("a line");
        let subscriber = RefCell::new(join(0));
        let next = |round| {
            let subscriber = &mut *subscriber.borrow_mut();
            while note(board, subscriber.try_recv().expect("ours").map(|sample| *sample)) {}
            *subscriber = join(round + 1);
        };
        in_rounds(board, |_| _ = note(board, first(&mut subscriber.borrow_mut())), next);
    });
    let mut steps = 0;
    for round in 0.. {
        let topic = open(&domain, round);
        let known = topic.publisher().expect("a ring");
        board.set(COUNT, 0);
        let is_over = subscriber.step(steps);
        let new = topic.publisher().expect("a ring");
        new.publish(&1).expect("room");
        known.publish(&2).expect("room");
        subscriber.go_on();
        let got: Vec<u64> = (0..board.get(COUNT) as usize).map(|at| board.get(GOT + at)).collect();
        assert!(is_right(&got), "published 1, 2 after {steps} instructions: got {got:?}");
        domain.remove(&name(round)).expect("removed");
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        steps += 5;
    }
}

fn a_new_publishers_message_comes_in_its_turn(world: &World) {
    let first = |subscriber: &mut Subscriber<u64>| {
        subscriber.try_recv().expect("ours").map(|sample| *sample)
    };
    new_publisher(world, first, |got| got == [1, 2]);
}

fn the_newest_of_all_passes_over_a_new_publishers_older_one(world: &World) {
    let first =
        |subscriber: &mut Subscriber<u64>| subscriber.latest().expect("ours").map(|sample| *sample);
    new_publisher(world, first, |got| [&[2][..], &[1, 2]].contains(&got));
}
