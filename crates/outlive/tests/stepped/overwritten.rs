//! A message whose slot is overwritten while a subscriber takes it, at each instruction.
//!
//! The topic keeps one message. The subscriber is the child that is moved on; the publisher is the
//! check's own, and overwrites the message that the child is about to take: a long one, which lies
//! in an object, by a short one, which lies in the slot, or the other way round: which of a slot's
//! words is read first is the compiler's choice. A subscriber that takes the one's length for the
//! other's would report damage.

use std::cell::RefCell;

use outlive::topic::{Subscriber, Topic};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    a_long_message_that_is_overwritten_meanwhile_is_no_damage: 300,
    a_short_message_that_is_overwritten_meanwhile_is_no_damage: 300,
);

/// How many messages the operation has taken, and then how many came.
const TAKEN: usize = FREE;
const AFTER: usize = FREE + 1;
/// The number of the last one.
const LAST: usize = FREE + 2;
/// How many were lost, over all rounds.
const LOST: usize = FREE + 3;
/// How often a receive failed.
const FAILED: usize = FREE + 4;

/// The lengths of the messages with even and with odd numbers.
const LENGTHS: [usize; 2] = [5000, 16];
/// A subscriber looks at a message for the last time at most so many instructions after it began to
/// look at it: it searches for the object of a long one in between.
const WINDOW: u64 = 1000;

fn take(subscriber: &mut Subscriber, board: Board) -> bool {
    match subscriber.try_recv() {
        Ok(Some(sample)) => {
            let number = u64::from_ne_bytes(sample[..8].try_into().expect("8 bytes"));
            let len = LENGTHS[number as usize % 2];
            if sample.len() != len || sample[8..].iter().any(|byte| *byte != number as u8) {
                board.set(FAILED, 1000);
            }
            board.set(LAST, number);
            true
        }
        Ok(None) => false,
        Err(_) => {
            board.set(FAILED, board.get(FAILED) + 1);
            true
        }
    }
}

fn message(number: u64) -> Vec<u8> {
    let mut message = vec![number as u8; LENGTHS[number as usize % 2]];
    message[..8].copy_from_slice(&number.to_ne_bytes());
    message
}

fn a_long_message_that_is_overwritten_meanwhile_is_no_damage(world: &World) {
    overwrite(world, 0);
}

fn a_short_message_that_is_overwritten_meanwhile_is_no_damage(world: &World) {
    overwrite(world, 1);
}

/// In each round, one of two messages overwrites the other; the first of all has that number.
fn overwrite(world: &World, first: u64) {
    let domain = world.domain();
    let topic = Topic::<[u8]>::options().depth(1).stamps(false);
    let topic = topic.open_or_create(&domain, "topic").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        let subscriber = RefCell::new(topic.subscriber().expect("a slot"));
        let taking = |_| board.set(TAKEN, u64::from(take(&mut subscriber.borrow_mut(), board)));
        in_rounds(board, taking, |_| {
            let mut subscriber = subscriber.borrow_mut();
            let mut count = 0;
            while take(&mut subscriber, board) {
                count += 1;
            }
            board.set(AFTER, count);
            board.set(LOST, subscriber.lost());
        });
    });
    let (mut number, mut lost) = (first, 0);
    // Overwrites a message after so many instructions; whether it was taken nevertheless.
    let mut overwrite_after = |steps| {
        publisher.publish(&message(number)).expect("room");
        stepped.step(steps);
        publisher.publish(&message(number + 1)).expect("room");
        stepped.go_on();
        assert_eq!(board.get(FAILED), 0, "overwritten after {steps} instructions");
        assert_eq!(board.get(LAST), number + 1, "after {steps} instructions");
        let lost_now = board.get(LOST) - lost;
        assert_eq!(board.get(TAKEN) + board.get(AFTER) + lost_now, 2, "after {steps} instructions");
        (number, lost) = (number + 2, lost + lost_now);
        lost_now == 0
    };
    assert!(!overwrite_after(0) && overwrite_after(u64::MAX));
    // The instruction after which the message is the subscriber's.
    let (mut before, mut after) = (0, 1 << 12);
    assert!(overwrite_after(after), "a receive has more instructions than that");
    while after - before > 1 {
        let middle = before.midpoint(after);
        if overwrite_after(middle) { after = middle } else { before = middle }
    }
    assert!(before > 50, "{before} instructions are too few to be true");
    let window = before.saturating_sub(WINDOW)..before;
    let wanted = window.end - window.start;
    // A receive has some instructions more or less than the one before, so the last of them may come
    // too late.
    let taken: u64 = window.map(|steps| u64::from(overwrite_after(steps))).sum();
    assert!(taken < wanted / 10, "{taken} of {wanted} were taken all the same");
}
