//! Rings of publishers that are long gone cost nothing: a receive and a publish have as many
//! instructions after sixty-two publishers once existed as with one.

use std::cell::RefCell;

use outlive::topic::{Publisher, Subscriber, Topic};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{Stepped, in_rounds};

crate::checks!(after_sixty_two_publishers_nothing_costs_more: 120);

/// The most publishers at a time.
const RINGS: u64 = 62;
/// More than any of these has.
const MOST: u64 = 5_000;
/// So many messages let a subscriber choose its rings again, whose publishers were killed.
const SOME: u64 = 2_000;
/// So many operations are counted of each topic: a third publish.
const ROUNDS: usize = 60;

fn after_sixty_two_publishers_nothing_costs_more(world: &World) {
    let domain = world.domain();
    let open =
        |name: &str| Topic::<u64>::options().depth(4).open_or_create(&domain, name).expect("opens");
    let board = Board::new();
    let mut counted = Stepped::start(world, board, || {
        let handles = |name: &str| {
            let topic = open(name);
            let mut subscriber = topic.subscriber().expect("a slot");
            let mut publishers: Vec<_> = match name {
                "many" => (0..RINGS).map(|_| topic.publisher().expect("a ring")).collect(),
                _ => vec![topic.publisher().expect("a ring")],
            };
            for publisher in &publishers {
                publisher.publish(&1).expect("room");
            }
            let publisher = publishers.remove(0);
            drop(publishers);
            for _ in 0..SOME {
                publisher.publish(&1).expect("room");
                while subscriber.try_recv().expect("ours").is_some() {}
            }
            (publisher, subscriber)
        };
        let handles = [handles("one"), handles("many")].map(RefCell::new);
        let of = |round: u64| &handles[usize::from(round >= ROUNDS as u64)];
        let operation = |round: u64| {
            let (publisher, subscriber): &mut (Publisher<u64>, Subscriber<u64>) =
                &mut of(round).borrow_mut();
            match round % 3 {
                0 => publisher.publish(&7).map(drop).expect("room"),
                1 => drop(subscriber.try_recv().expect("ours").expect("there")),
                _ => assert!(subscriber.try_recv().expect("ours").is_none()),
            }
        };
        in_rounds(board, operation, |_| {});
    });
    let counts: Vec<u64> = (0..2 * ROUNDS)
        .map(|_| {
            let steps = (1..MOST).find(|_| counted.step(1)).expect("it returns");
            counted.go_on();
            steps
        })
        .collect();
    // The fewest: the vDSO reads the clock once more (28 instructions on x86-64) where the kernel has
    // moved it on meanwhile. A child that is stepped reads it slowly, so that happens in every second
    // publish: of twenty, one in a million runs meets it in all.
    let fewest = |from: usize| {
        let of = |kind: usize| counts[from..from + ROUNDS].iter().skip(kind).step_by(3).min();
        [0, 1, 2].map(|kind| of(kind).copied().unwrap_or(0))
    };
    let (few, many) = (fewest(0), fewest(ROUNDS));
    eprintln!("publish, receive, find nothing: {few:?} with one publisher, {many:?} after {RINGS}");
    for (few, many) in few.iter().zip(&many) {
        assert!(*few > 20 && *many <= few + 8, "{few} instructions, then {many}");
    }
}
