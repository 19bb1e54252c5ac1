//! A tap beside a sender, a writer of a state, and a receiver, that are moved on by single instructions: between
//! any two of them the tap finds what is there, whole, and nothing else; and none of them makes an instruction
//! more because of it.

use std::cell::RefCell;

use outlive::queue::{Place, Queue, Tap, Tapped};
use outlive::state::State;

use crate::board::Board;
use crate::runner::World;
use crate::steps::{Stepped, in_rounds};

crate::checks!(
    a_tap_beside_each_instruction_of_a_send: 300,
    a_tap_beside_each_instruction_of_a_receive: 300,
    a_tap_beside_each_instruction_of_a_set: 300,
);

/// Rounds before the first one that is counted: what is done once is done then.
const FIRST: u64 = 8;
/// Rounds that are counted, of each kind.
const COUNTED: u64 = 6;

/// Moves the child through a round, and calls `look` after each instruction. Returns how many there were.
fn through(stepped: &mut Stepped<'_>, mut look: impl FnMut()) -> u64 {
    let mut steps = 0;
    while !stepped.step(1) {
        look();
        steps += 1;
    }
    look();
    stepped.go_on();
    steps
}

/// Rounds without a look and with one at each instruction, in turn: as many instructions each.
fn compare(stepped: &mut Stepped<'_>, mut look: impl FnMut()) {
    for _ in 0..FIRST {
        stepped.step(u64::MAX);
        stepped.go_on();
    }
    look();
    let mut counts = [Vec::new(), Vec::new()];
    for round in 0..2 * COUNTED {
        let is_looked_at = round % 2 == 1;
        let steps = through(stepped, || {
            if is_looked_at {
                look();
            }
        });
        look();
        counts[usize::from(is_looked_at)].push(steps);
    }
    let [without, with] = counts;
    assert!(without[0] > 20, "{without:?} instructions are too few to be true");
    assert_eq!(without.iter().min(), with.iter().min(), "{without:?} {with:?}");
    assert_eq!(without.iter().max(), with.iter().max(), "{without:?} {with:?}");
}

fn message(number: u64) -> [u8; 64] {
    let mut bytes = [number as u8; 64];
    bytes[..8].copy_from_slice(&number.to_ne_bytes());
    bytes
}

/// Takes what a tap finds: each message once, in order, and whole.
fn follow(tap: &mut Tap, next: &mut u64) {
    while let Some(found) = tap.next().expect("readable") {
        let Tapped::Messages(messages) = found else { panic!("nothing is lost") };
        for bytes in messages.iter() {
            assert_eq!(bytes, message(*next), "message {next}");
            *next += 1;
        }
    }
}

fn a_tap_beside_each_instruction_of_a_send(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options().max_messages(64).open_or_create(&domain, "q");
    let queue = queue.expect("made");
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        let sender = queue.sender().expect("one");
        in_rounds(board, |round| sender.try_send(&message(round)).expect("room"), |_| {});
    });
    let (mut tap, mut next) = (queue.tap(Some(Place::FIRST)), 0);
    compare(&mut stepped, || follow(&mut tap, &mut next));
    assert_eq!(next, FIRST + 2 * COUNTED);
}

fn a_tap_beside_each_instruction_of_a_receive(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options().max_messages(64).open_or_create(&domain, "q");
    let queue = queue.expect("made");
    let sender = queue.sender().expect("one");
    let sent = FIRST + 2 * COUNTED + 1;
    for number in 0..sent {
        sender.send(&message(number)).expect("room");
    }
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        let receiver = RefCell::new(queue.receiver().expect("none yet"));
        let receive = |round| {
            let found = receiver.borrow_mut().try_recv().expect("readable").expect("there");
            assert!(found == message(round));
        };
        in_rounds(board, receive, |_| {});
    });
    // Received or not, and in between: one that comes now finds all of them.
    compare(&mut stepped, || {
        let mut next = 0;
        follow(&mut queue.tap(Some(Place::FIRST)), &mut next);
        assert_eq!(next, sent);
    });
}

fn a_tap_beside_each_instruction_of_a_set(world: &World) {
    let domain = world.domain();
    let state = State::<[u8]>::options().capacity(64).open_or_create(&domain, "s");
    let state = state.expect("made");
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        let writer = RefCell::new(state.writer().expect("none yet"));
        let set = |round| {
            writer.borrow_mut().set(&message(round)).expect("set");
        };
        in_rounds(board, set, |_| {});
    });
    // Its first value has version 1.
    let (mut tap, mut next, mut value) = (state.tap(2), 2, Vec::new());
    compare(&mut stepped, || {
        while let Some(found) = tap.next(&mut value).expect("readable") {
            assert_eq!((found.version, found.lost), (next, 0));
            assert_eq!(value, message(next - 2));
            next += 1;
        }
    });
    assert_eq!(next, 2 + FIRST + 2 * COUNTED);
}
