//! The NPTL study's wait and wake-up: two processes chase each other around three locks.
//!
//! Each holds one lock, and the third is free. A step takes the next lock around and lets go of the
//! one behind:
//!
//! | step | the first takes | and frees | the second takes | and frees |
//! | --- | --- | --- | --- | --- |
//! | 0 | 2 | 1 | 0 | 2 |
//! | 1 | 0 | 2 | 1 | 0 |
//! | 2 | 1 | 0 | 2 | 1 |
//!
//! What the first takes in a step is what the second holds until it has taken its own, and the
//! other way around, so neither is ever more than one step ahead: every step is a hand-over. The
//! figure is the time of the whole, divided by the steps of both. Whether a waiter sleeps is its
//! lock's affair: one that spins first seldom does here.

use super::turns::check_count;
use super::{Handle, Held, Lock};
use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::Error;
use crate::harness::round::{Figure, Stage};
use crate::harness::shared::{Board, Shared};
use std::sync::atomic::Ordering;

/// One of the two processes: which lock it holds at first. At step N it takes the next one around
/// the ring, and frees that.
const HELD_AT_FIRST: [usize; 2] = [1, 2];

/// Runs one turn of so many steps, half of them by each.
pub(super) fn turn<L: Lock>(stage: &Stage, operations: u64) -> Result<Figure, Error> {
    let places =
        [L::place(stage, "lock-0")?, L::place(stage, "lock-1")?, L::place(stage, "lock-2")?];
    let board = Shared::<Board>::new()?;
    let steps = operations.div_ceil(2);
    let mut crew = Crew::new()?;
    for (which, core) in [stage.first_core(), stage.second_core()].into_iter().enumerate() {
        let (places, board) = (&places, &board);
        crew.start("chasing process", core, move || {
            let locks = [L::open(&places[0])?, L::open(&places[1])?, L::open(&places[2])?];
            let mut at = HELD_AT_FIRST[which];
            let mut held = locks[at].acquire()?;
            held.touch();
            board.meet(2);
            let begun = clock::now();
            for _ in 0..steps {
                at = (at + 1) % 3;
                let mut next = locks[at].acquire()?;
                next.touch();
                held.release()?;
                held = next;
            }
            let ended = clock::now();
            held.release()?;
            board.leave(which, [0, begun, ended, 0]);
            if which == 1 {
                // Acquire pairs with the Release below: whatever the other raised is in the three
                // numbers.
                while board.done.0.load(Ordering::Acquire) == 0 {
                    std::hint::spin_loop();
                }
                let mut sum = 0;
                for lock in &locks {
                    sum += lock.once()?;
                }
                // Both raised one before they began; each of the three was raised once more just
                // now.
                check_count::<L>(sum, 2 * steps + 2 + 3)?;
            } else {
                board.done.0.store(1, Ordering::Release);
            }
            Ok(())
        })?;
    }
    let preempted = crew.finish(stage.turn_limit)?;
    let [one, other] = [board.left(0), board.left(1)];
    board.leave_mean(one[2].max(other[2]) - one[1].min(other[1]), 2 * steps);
    board.figure(preempted)
}
