//! How a lock is used in a turn: by one process, by two at once, by readers together, or handed to
//! a sleeper.

use super::{Handle, Held, Lock, UNTOUCHED};
use crate::harness::asleep::Sleeper;
use crate::harness::clock::{self, Work};
use crate::harness::crew::Crew;
use crate::harness::error::Error;
use crate::harness::round::{Figure, Stage};
use crate::harness::shared::{Board, Shared};
use crate::harness::statistics::median;
use std::sync::atomic::Ordering;

/// How many reads there are between two looks at whether the other reader has ended.
const READS_BETWEEN_LOOKS: u64 = 64;

/// Measures one process, in the time that it computes.
pub(super) fn uncontended<L: Lock>(stage: &Stage, operations: u64) -> Result<Figure, Error> {
    let place = L::place(stage, "lock")?;
    let board = Shared::<Board>::new()?;
    let warm_up = operations / 8;
    let mut crew = Crew::new()?;
    crew.start("locking process", stage.first_core(), || {
        let lock = L::open(&place)?;
        let mut sum = 0;
        for _ in 0..warm_up {
            sum += lock.once()?;
        }
        let begun = clock::computed();
        for _ in 0..operations {
            sum += lock.once()?;
        }
        board.leave_mean(clock::computed() - begun, operations);
        let all = warm_up + operations;
        // 1 + 2 + 3 … where the number was raised each time.
        check_sum::<L>(sum, if L::SHARED { all * UNTOUCHED } else { all * (all + 1) / 2 })
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// Lets two processes raise one number until it is above the turn's, so that neither has the lock
/// for itself at the end.
pub(super) fn contended<L: Lock>(
    stage: &Stage,
    operations: u64,
    work: Work,
) -> Result<Figure, Error> {
    let place = L::place(stage, "lock")?;
    let board = Shared::<Board>::new()?;
    let mut crew = Crew::new()?;
    for (which, core) in [stage.first_core(), stage.second_core()].into_iter().enumerate() {
        let (place, board) = (&place, &board);
        crew.start("locking process", core, move || {
            let lock = L::open(place)?;
            lock.once()?;
            board.meet(2);
            let begun = clock::now();
            let mut mine = 0;
            let mut number = 0;
            while number < operations {
                number = if work.is_none() { lock.once()? } else { working(&lock, work)? };
                mine += 1;
            }
            board.leave(which, [mine, begun, clock::now(), number]);
            Ok(())
        })?;
    }
    let preempted = crew.finish(stage.turn_limit)?;
    let [one, other] = [board.left(0), board.left(1)];
    let raised = one[0] + other[0];
    // Each raised it once before they met. Had two been inside at once, some raising would be lost.
    check_count::<L>(one[3].max(other[3]), raised + 2)?;
    board.leave_mean(span(one, other), raised);
    board.figure(preempted)
}

/// Takes the lock, raises the number, computes, lets go, computes.
#[inline]
fn working(lock: &impl Handle, work: Work) -> Result<u64, Error> {
    let mut held = lock.acquire()?;
    let number = held.touch();
    work.compute();
    held.release()?;
    work.compute();
    Ok(number)
}

/// Lets two processes read together until one of them has read half of the turn's number of times.
pub(super) fn read_together<L: Lock>(stage: &Stage, operations: u64) -> Result<Figure, Error> {
    let place = L::place(stage, "lock")?;
    let board = Shared::<Board>::new()?;
    let mut crew = Crew::new()?;
    for (which, core) in [stage.first_core(), stage.second_core()].into_iter().enumerate() {
        let (place, board) = (&place, &board);
        crew.start("reading process", core, move || {
            let lock = L::open(place)?;
            lock.once()?;
            board.meet(2);
            let begun = clock::now();
            let (mut mine, mut sum) = (0, 0);
            // Relaxed: nothing but the end goes with it.
            while mine < operations / 2 && board.step.0.load(Ordering::Relaxed) == 0 {
                for _ in 0..READS_BETWEEN_LOOKS {
                    sum += lock.once()?;
                }
                mine += READS_BETWEEN_LOOKS;
            }
            let ended = clock::now();
            board.step.0.store(1, Ordering::Relaxed);
            board.leave(which, [mine, begun, ended, 0]);
            check_sum::<L>(sum, mine * UNTOUCHED)
        })?;
    }
    let preempted = crew.finish(stage.turn_limit)?;
    let [one, other] = [board.left(0), board.left(1)];
    board.leave_mean(span(one, other), one[0] + other[0]);
    board.figure(preempted)
}

/// Returns the time from the first beginning to the last end.
fn span(one: [u64; 4], other: [u64; 4]) -> u64 {
    one[2].max(other[2]) - one[1].min(other[1])
}

/// Measures from the release until a process that slept for the lock has it.
pub(super) fn to_sleeper<L: Lock>(stage: &Stage, operations: u64) -> Result<Figure, Error> {
    let place = L::place(stage, "lock")?;
    let board = Shared::<Board>::new()?;
    let mut crew = Crew::new()?;
    let pid = crew.start("waiting process", stage.second_core(), || {
        be_woken::<L>(&place, &board, operations)
    })?;
    crew.start("holding process", stage.first_core(), || {
        hand_over::<L>(&place, &board, operations, pid as u32)
    })?;
    board.figure(crew.finish(stage.turn_limit)?)
}

/// Runs the waiter: it asks for the lock when told that the other has it, and notes when it got it.
fn be_woken<L: Lock>(place: &L::Place, board: &Board, operations: u64) -> Result<(), Error> {
    let lock = L::open(place)?;
    lock.once()?;
    let mut took = Vec::with_capacity(operations as usize);
    board.meet(2);
    let begun = clock::now();
    for step in 1..=operations as u32 {
        // Acquire pairs with the holder's Release: it has the lock by then.
        while board.step.0.load(Ordering::Acquire) != step {
            std::hint::spin_loop();
        }
        let mut held = lock.acquire()?;
        let had = clock::now();
        held.touch();
        // Relaxed: written under the lock that we now hold.
        let let_go = board.sent_at.0.load(Ordering::Relaxed);
        held.release()?;
        took.push(had.saturating_sub(let_go) as f64);
        board.done.0.store(step, Ordering::Release);
    }
    board.leave_figure(median(&took).unwrap_or(0.0), clock::now() - begun);
    // Both raised it once before they met, and once a step; this is one more.
    check_count::<L>(lock.once()?, 2 * operations + 3)
}

/// Runs the holder: it releases the lock once the waiter sleeps.
fn hand_over<L: Lock>(
    place: &L::Place,
    board: &Board,
    operations: u64,
    waiter: u32,
) -> Result<(), Error> {
    let lock = L::open(place)?;
    lock.once()?;
    let sleeper = Sleeper::new(waiter)?;
    board.meet(2);
    for step in 1..=operations as u32 {
        let mut held = lock.acquire()?;
        held.touch();
        board.step.0.store(step, Ordering::Release);
        sleeper.wait_asleep()?;
        board.sent_at.0.store(clock::now(), Ordering::Relaxed);
        held.release()?;
        while board.done.0.load(Ordering::Acquire) != step {
            std::hint::spin_loop();
        }
    }
    Ok(())
}

/// Checks that nothing was lost.
pub(super) fn check_count<L: Lock>(number: u64, wanted: u64) -> Result<(), Error> {
    if number == wanted {
        Ok(())
    } else {
        Err(Error::Wrong(format!(
            "{}: the number is {number} after it was raised {wanted} times",
            L::NAME
        )))
    }
}

fn check_sum<L: Lock>(sum: u64, wanted: u64) -> Result<(), Error> {
    if sum == wanted {
        Ok(())
    } else {
        Err(Error::Wrong(format!(
            "{}: what was seen under the lock adds up to {sum}, not {wanted}",
            L::NAME
        )))
    }
}
