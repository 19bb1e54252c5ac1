//! A participant that is stopped at each instruction of its arrival, while the barrier breaks and
//! is repaired twice, or is reset twice; and at each instruction of an abort, while the others
//! pass.

use std::cell::RefCell;
use std::collections::VecDeque;

use outlive::Domain;
use outlive::sync::{AcquireError, Barrier, Seat, WhenOneDies};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    late_arrivals_count_for_no_later_phase: 120,
    late_arrivals_beside_resets_count_for_no_later_phase: 120,
    late_aborts_break_no_later_phase: 120,
);

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
    late_arrivals(world, |barrier, own| {
        Child::start(|| std::mem::forget(barrier.join().expect("the third seat"))).finish();
        assert_eq!(arrive(own), BROKEN, "by a death");
        barrier.repair_timeout(PATIENCE).expect("nobody is in the way");
    });
}

fn late_arrivals_beside_resets_count_for_no_later_phase(world: &World) {
    late_arrivals(world, |barrier, own| {
        assert_eq!(arrive(own), ARRIVED_ONLY);
        barrier.reset_timeout(PATIENCE).expect("nobody is in the way");
        assert_eq!(arrive(own), BROKEN, "by the reset");
    });
}

/// The participant is stopped while `made_whole` is done twice.
fn late_arrivals(world: &World, made_whole: impl Fn(&'static Barrier, &mut Seat<'_>)) {
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
            made_whole(barrier, &mut own);
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

/// Its time has run out, and it is about to break its phase. Meanwhile the last participant comes,
/// and all pass: the next phase is none of its business.
fn late_aborts_break_no_later_phase(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut stopped = Stepped::start(world, board, || {
        let arrived = |round| {
            let mut seat = open(&domain, round).join().expect("a seat");
            assert_eq!(arrive(&mut seat), ARRIVED_ONLY);
            seat
        };
        let seats = RefCell::new(VecDeque::from([arrived(0)]));
        let next = |round| {
            let mut seats = seats.borrow_mut();
            seats.push_front(arrived(round + 1));
            seats.truncate(2);
        };
        let abort = |_| {
            let end = match seats.borrow_mut()[0].abort() {
                Ok(_) => PASSED,
                Err(AcquireError::Broken) => BROKEN,
                Err(other) => panic!("{other}"),
            };
            board.set(ENDED_WITH, end);
        };
        in_rounds(board, abort, next);
    });
    for steps in 0.. {
        let barrier = open(&domain, steps);
        let mut others = [0, 1].map(|_| barrier.join().expect("a seat"));
        let is_over = stopped.step(steps);
        let came = [arrive(&mut others[0]), arrive(&mut others[1])];
        let passed = came == [ARRIVED_ONLY, PASSED];
        assert!(passed || came == [BROKEN; 2], "{steps} instructions, then {came:?}");
        let mut next = Vec::new();
        if passed {
            assert_eq!(arrive(&mut others[0]), PASSED, "of the phase before");
            next.push(arrive(&mut others[0]));
        }
        stopped.go_on();
        assert_eq!(
            board.get(ENDED_WITH),
            if passed { PASSED } else { BROKEN },
            "{steps} instructions"
        );
        if passed {
            next.push(arrive(&mut others[1]));
            assert_eq!(next, [ARRIVED_ONLY; 2], "{steps} instructions");
            assert!(!barrier.is_broken());
        }
        drop(others);
        domain.remove(&format!("barrier-{steps}")).expect("removed");
        if is_over {
            assert!(steps > 10, "{steps} instructions are too few to be true");
            return;
        }
    }
}
