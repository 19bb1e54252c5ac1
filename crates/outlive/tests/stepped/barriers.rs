//! A participant that is stopped at each instruction of its arrival, while the barrier breaks and
//! is repaired twice.

use std::cell::RefCell;
use std::collections::VecDeque;

use outlive::Domain;
use outlive::sync::{AcquireError, Barrier, Seat, WhenOneDies};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(late_arrivals_count_for_no_later_phase: 120);

/// How the stopped participant's wait ended.
const ENDED_WITH: usize = FREE;
/// 1: the third participant has arrived; set to 0 by the check before each round.
const ARRIVED: usize = FREE + 1;

const ARRIVED_ONLY: u64 = 1;
const BROKEN: u64 = 2;
const PASSED: u64 = 3;

/// The barrier of a round, for three. It stays open.
fn open(domain: &Domain, round: u64) -> &'static Barrier {
    let barrier = Barrier::options(3)
        .when_one_dies(WhenOneDies::Break)
        .open_or_create(domain, &format!("barrier-{round}"))
        .expect("opens");
    Box::leak(Box::new(barrier))
}

/// Arrives, and looks once.
fn arrive(seat: &mut Seat<'_>) -> u64 {
    match seat.try_wait() {
        Ok(Some(_)) => PASSED,
        Ok(None) => ARRIVED_ONLY,
        Err(AcquireError::Broken) => BROKEN,
        Err(other) => panic!("{other}"),
    }
}

fn late_arrivals_count_for_no_later_phase(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut stopped = Stepped::start(world, board, || {
        // The last two: the others wait no more for a participant that gives its seat up, so it
        // stays until the check has looked.
        let join = |round| open(&domain, round).join().expect("a seat");
        let seats = RefCell::new(VecDeque::from([join(0)]));
        let next = |round| {
            let mut seats = seats.borrow_mut();
            // Perhaps that was of the phase before: then the second look says so.
            if board.get(ENDED_WITH) == ARRIVED_ONLY {
                board.set(ENDED_WITH, arrive(&mut seats[0]));
            }
            seats.push_front(join(round + 1));
            seats.truncate(2);
        };
        in_rounds(board, |_| board.set(ENDED_WITH, arrive(&mut seats.borrow_mut()[0])), next);
    });
    let mut steps = 0;
    for round in 0.. {
        let barrier = open(&domain, round);
        let mut own = barrier.join().expect("a seat");
        let is_over = stopped.step(steps);
        for _ in 0..2 {
            Child::start(|| std::mem::forget(barrier.join().expect("the third seat"))).finish();
            assert_eq!(arrive(&mut own), BROKEN, "by a death");
            barrier.repair_timeout(PATIENCE).expect("nobody is in the way");
        }
        board.set(ARRIVED, 0);
        let third = Child::start(|| {
            let mut seat = barrier.join().expect("the third seat");
            assert_eq!(arrive(&mut seat), ARRIVED_ONLY);
            board.set(ARRIVED, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(ARRIVED, 1);
        stopped.go_on();
        // It has arrived in the phase that it is, unless it was told that the barrier is broken.
        let expected = if board.get(ENDED_WITH) == ARRIVED_ONLY { PASSED } else { ARRIVED_ONLY };
        let own = arrive(&mut own);
        assert_eq!(
            own,
            expected,
            "{steps} instructions, then it ended with {}",
            board.get(ENDED_WITH)
        );
        drop(third);
        domain.remove(&format!("barrier-{round}")).expect("removed");
        if is_over {
            assert!(steps > 50, "{steps} instructions are too few to be true");
            return;
        }
        steps += 3;
    }
}
