//! A message whose slot is overwritten while a subscriber takes it, at each instruction.
//!
//! The topic keeps one message. The subscriber is the child that is moved on; the publisher is the
//! check's own, and overwrites the message that the child is about to take: a long one, which lies
//! in an object, by a short one, which lies in the slot, and the other way round. A subscriber that
//! takes the one's length for the other's would report damage.

use std::cell::RefCell;

use outlive::topic::{Subscriber, Topic};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(a_slot_that_is_overwritten_meanwhile_is_no_damage: 300);

/// How many messages the operation has taken, and then how many came.
const TAKEN: usize = FREE;
const AFTER: usize = FREE + 1;
/// The number of the last one.
const LAST: usize = FREE + 2;
/// How many were lost, over all rounds.
const LOST: usize = FREE + 3;
/// How often a receive failed.
const FAILED: usize = FREE + 4;

/// In each round two messages are published, of these lengths or the other way round.
const LENGTHS: [usize; 2] = [5000, 16];

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

fn a_slot_that_is_overwritten_meanwhile_is_no_damage(world: &World) {
    for begins_long in [true, false] {
        let domain = world.domain();
        let topic = Topic::<[u8]>::options()
            .depth(1)
            .stamps(false)
            .open_or_create(&domain, if begins_long { "long" } else { "short" })
            .expect("made");
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
        let (mut number, mut lost) = (u64::from(!begins_long), 0);
        for steps in 0.. {
            publisher.publish(&message(number)).expect("room");
            let is_over = stepped.step(steps);
            publisher.publish(&message(number + 1)).expect("room");
            stepped.go_on();
            assert_eq!(board.get(FAILED), 0, "overwritten after {steps} instructions");
            assert_eq!(board.get(LAST), number + 1, "after {steps} instructions");
            let came = board.get(TAKEN) + board.get(AFTER) + board.get(LOST) - lost;
            assert_eq!(came, 2, "after {steps} instructions");
            (number, lost) = (number + 2, board.get(LOST));
            if is_over {
                assert!(steps > 50, "{steps} instructions are too few to be true");
                break;
            }
        }
        assert!(lost > 0, "no message was overwritten before it was taken");
    }
}
