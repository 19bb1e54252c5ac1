//! What does a lock between processes cost?
//!
//! Three ways to ask. *Uncontended*: one process, lock, raise a counter, unlock. *Contended*: two processes on two cores
//! raise one counter until it has reached the turn's number; the time of the whole, per pair. *Wake*: a process is
//! asleep waiting for the lock, and the time from just before unlock until it has the lock is taken, again and again;
//! the turn's figure is the median. (The NPTL study's way, two processes that chase each other around three locks,
//! measures the same hand-over, but a waiter that spins first would never sleep there.)
//!
//! Whatever a lock guarded is counted, and a wrong count is an error.

mod counter;
mod fcntl;
mod outlive;
mod pthread;
mod sysv;

use self::outlive::Outlive;
use super::asleep::Sleeper;
use super::clock;
use super::crew::Crew;
use super::error::Error;
use super::report::Title;
use super::round::{Contender, Figure, Stage};
use super::shared::{Board, Shared};
use super::statistics::median;
use fcntl::Fcntl;
use pthread::{Plain, PriorityInheriting, Pthread, Robust};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use sysv::SysV;

/// A lock, as one process has it, around a counter.
trait Lock: Sized {
    /// The row's name.
    const NAME: &'static str;
    /// What both processes share.
    type Place;

    /// Before the fork; the counter is 0.
    fn place(stage: &Stage) -> Result<Self::Place, Error>;
    /// In each process.
    fn open(place: &Self::Place) -> Result<Self, Error>;
    /// Locks, runs `body` on the counter, unlocks.
    fn with<R>(&self, body: impl FnOnce(&mut u64) -> R) -> Result<R, Error>;
}

/// The ways to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One process.
    Uncontended,
    /// Two processes at once.
    Contended,
    /// To a sleeper.
    Wake,
}

impl Mode {
    /// What it is called.
    pub fn title(self) -> Title {
        let (mode, meaning) = match self {
            Self::Uncontended => ("uncontended", "a lock and unlock by one process"),
            Self::Contended => ("contended", "a lock and unlock while two processes want the lock all the time"),
            Self::Wake => ("wake", "from unlock until the process that slept for the lock has it"),
        };
        Title { bench: "mutex", mode, meaning, rate_of: None }
    }
}

struct Locking<L> {
    mode: Mode,
    lock: PhantomData<L>,
}

/// All rows, in the order they are shown, and which is the baseline.
pub fn contenders(mode: Mode) -> (Vec<Box<dyn Contender>>, &'static str) {
    fn row<L: Lock + 'static>(mode: Mode) -> Box<dyn Contender> {
        Box::new(Locking::<L> { mode, lock: PhantomData })
    }
    let rows = vec![
        row::<Outlive>(mode),
        row::<Pthread<Plain>>(mode),
        row::<Pthread<Robust>>(mode),
        row::<Pthread<PriorityInheriting>>(mode),
        row::<Fcntl>(mode),
        row::<SysV>(mode),
    ];
    (rows, Pthread::<Plain>::NAME)
}

impl<L: Lock> Contender for Locking<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let place = L::place(stage)?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        let (place, board) = (&place, &*board);
        match self.mode {
            Mode::Uncontended => {
                crew.start("locking process", stage.first_core(), || uncontended::<L>(place, board, operations))?;
            }
            Mode::Contended => {
                for (which, core) in [stage.first_core(), stage.second_core()].into_iter().enumerate() {
                    crew.start("locking process", core, move || contended::<L>(place, board, which, operations))?;
                }
            }
            Mode::Wake => {
                let pid =
                    crew.start("waiting process", stage.second_core(), || be_woken::<L>(place, board, operations))?;
                crew.start("holding process", stage.first_core(), || {
                    hand_over::<L>(place, board, operations, pid as u32)
                })?;
            }
        }
        let preempted = crew.finish(stage.turn_limit)?;
        if self.mode == Mode::Contended {
            sum_up_contended::<L>(board, operations)?;
        }
        board.figure(preempted)
    }
}

fn check_count<L: Lock>(counted: u64, wanted: u64) -> Result<(), Error> {
    if counted == wanted {
        Ok(())
    } else {
        Err(Error::Wrong(format!("{}: the counter is {counted} after {wanted} additions", L::NAME)))
    }
}

fn uncontended<L: Lock>(place: &L::Place, board: &Board, operations: u64) -> Result<(), Error> {
    let lock = L::open(place)?;
    let warm_up = operations / 8;
    for _ in 0..warm_up {
        lock.with(|counter| *counter += 1)?;
    }
    let begun = clock::computed();
    for _ in 0..operations {
        lock.with(|counter| *counter += 1)?;
    }
    let ended = clock::computed();
    board.leave_mean(ended - begun, operations);
    check_count::<L>(lock.with(|counter| *counter)?, warm_up + operations)
}

/// Both run until the counter is full, so that neither has the lock for itself at the end.
fn contended<L: Lock>(place: &L::Place, board: &Board, which: usize, operations: u64) -> Result<(), Error> {
    let lock = L::open(place)?;
    lock.with(|_| ())?;
    board.meet(2);
    let begun = clock::now();
    let mut mine = 0;
    while lock.with(|counter| {
        let room = *counter < operations;
        *counter += u64::from(room);
        room
    })? {
        mine += 1;
    }
    let ended = clock::now();
    for (word, value) in board.left[which].0.iter().zip([mine, begun, ended]) {
        // Relaxed: read after waitpid.
        word.store(value, Ordering::Relaxed);
    }
    check_count::<L>(lock.with(|counter| *counter)?, operations)
}

fn sum_up_contended<L: Lock>(board: &Board, operations: u64) -> Result<(), Error> {
    let [one, other] = [0, 1].map(|which| {
        let [mine, begun, ended] = [0, 1, 2].map(|word| board.left[which].0[word].load(Ordering::Relaxed));
        (mine, begun, ended)
    });
    // If two had been inside at once, an addition would be lost, and they would have made more than the counter shows.
    check_count::<L>(operations, one.0 + other.0)?;
    board.leave_mean(one.2.max(other.2) - one.1.min(other.1), operations);
    Ok(())
}

/// The waiter: goes for the lock when told that the other has it, and notes when it got it.
fn be_woken<L: Lock>(place: &L::Place, board: &Board, operations: u64) -> Result<(), Error> {
    let lock = L::open(place)?;
    lock.with(|_| ())?;
    let mut took = Vec::with_capacity(operations as usize);
    board.meet(2);
    let begun = clock::now();
    for step in 1..=operations as u32 {
        // Acquire pairs with the holder's Release: it has the lock by then.
        while board.step.0.load(Ordering::Acquire) != step {
            std::hint::spin_loop();
        }
        let (had, let_go) = lock.with(|counter| {
            let had = clock::now();
            *counter += 1;
            // Relaxed: written under the lock that we now hold.
            (had, board.sent_at.0.load(Ordering::Relaxed))
        })?;
        took.push(had.saturating_sub(let_go) as f64);
        board.done.0.store(step, Ordering::Release);
    }
    board.leave_figure(median(&took).unwrap_or(0.0), clock::now() - begun);
    check_count::<L>(lock.with(|counter| *counter)?, 2 * operations)
}

/// The holder: lets go once the waiter sleeps.
fn hand_over<L: Lock>(place: &L::Place, board: &Board, operations: u64, waiter: u32) -> Result<(), Error> {
    let lock = L::open(place)?;
    lock.with(|_| ())?;
    let sleeper = Sleeper::new(waiter)?;
    board.meet(2);
    for step in 1..=operations as u32 {
        lock.with(|counter| {
            *counter += 1;
            board.step.0.store(step, Ordering::Release);
            sleeper.wait_asleep()?;
            board.sent_at.0.store(clock::now(), Ordering::Relaxed);
            Ok(())
        })??;
        while board.done.0.load(Ordering::Acquire) != step {
            std::hint::spin_loop();
        }
    }
    Ok(())
}
