//! What does it cost to ask whether a process is alive?
//!
//! Two loops. *Called*, the usual one, asks through a function pointer that the compiler cannot see
//! through, as the measurement did that this repeats: there a load cost as much as doing nothing,
//! because the processor does it beside the call. *Inlined* puts the question into the loop itself:
//! below a few nanoseconds that counts single instructions.
//!
//! The watched process holds what each way asks about (a robust mutex, a locked byte, a token) and
//! sleeps. The asking process asks in a loop; then it kills the watched one and asks once more: a
//! way that still says "alive" is wrong, whatever its price. Only `dummy` (the bare loop) and
//! `epoll` (a stand-in for looking at a connected socket) know nothing about the other process.

mod robust;
mod system;
mod token;

use crate::harness::clock;
use crate::harness::crew::{self, Crew};
use crate::harness::error::Error;
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Stage};
use crate::harness::shared::{Board, Shared};
use robust::{Load, TryLock};
use std::arch::asm;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use system::{Epoll, Fcntl, Kill, PidFd, Procfs};
use token::Token;

/// The loop that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Through a function pointer.
    Called,
    /// In the loop itself.
    Inlined,
}

impl Mode {
    /// Returns what it is called.
    pub fn title(self) -> Title {
        let (mode, meaning) = match self {
            Self::Called => ("called", "asking once, by a call, whether a living process is alive"),
            Self::Inlined => ("inlined", "asking once, inlined, whether a living process is alive"),
        };
        Title { bench: "liveness", mode, meaning, ours: &["token"], rate_of: None }
    }
}

/// One way to ask.
trait Question: Sized {
    /// The row's name.
    const NAME: &'static str;
    /// Whether the answer has to do with the watched process.
    const KNOWS: bool = true;
    /// What both processes share.
    type Place;

    /// Makes what both processes share, before the fork.
    fn place(stage: &Stage) -> Result<Self::Place, Error>;
    /// Takes what is asked about, in the watched process. The value is kept until the process ends.
    fn hold(_place: &Self::Place) -> Result<impl Sized, Error> {
        Ok(())
    }
    /// Prepares the asking process, once the watched one holds.
    fn prepare(place: &Self::Place, watched: libc::pid_t) -> Result<Self, Error>;
    /// Returns whether the watched process is alive.
    fn ask(&self) -> bool;
}

/// A row.
struct Asking<Q> {
    mode: Mode,
    question: PhantomData<Q>,
}

/// Returns all rows, in the order they are shown, and which is the baseline.
pub fn contenders(mode: Mode) -> (Vec<Box<dyn Contender>>, &'static str) {
    fn row<Q: Question + 'static>(mode: Mode) -> Box<dyn Contender> {
        Box::new(Asking::<Q> { mode, question: PhantomData })
    }
    let rows = vec![
        row::<Dummy>(mode),
        row::<Load>(mode),
        row::<TryLock>(mode),
        row::<Epoll>(mode),
        row::<Kill>(mode),
        row::<Procfs>(mode),
        row::<PidFd>(mode),
        row::<Fcntl>(mode),
        row::<Token>(mode),
    ];
    (rows, Load::NAME)
}

impl<Q: Question> Contender for Asking<Q> {
    fn name(&self) -> &'static str {
        Q::NAME
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let place = Q::place(stage)?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        crew.start("asking process", stage.first_core(), || {
            ask::<Q>(stage, &place, &board, self.mode, operations)
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }
}

/// Runs in the asking process, which forks the watched one itself so that it can kill and bury it.
fn ask<Q: Question>(
    stage: &Stage,
    place: &Q::Place,
    board: &Board,
    mode: Mode,
    operations: u64,
) -> Result<(), Error> {
    let mut watched = Crew::new()?;
    let pid = watched.start("watched process", stage.second_core(), || {
        let _held = Q::hold(place)?;
        // Release pairs with the Acquire below: what is held is seen.
        board.ready.0.store(1, Ordering::Release);
        crew::stay()
    })?;
    while board.ready.0.load(Ordering::Acquire) == 0 {
        if watched.any_ended()? {
            return Err(Error::Child("the watched process ended early".into()));
        }
        std::hint::spin_loop();
    }
    let question = Q::prepare(place, pid)?;
    let run = match mode {
        Mode::Called => ask_called::<Q>,
        Mode::Inlined => ask_inlined::<Q>,
    };
    let mut alive = run(&question, operations / 8);
    let begun = clock::computed();
    alive += run(&question, operations);
    let ended = clock::computed();
    if alive != operations + operations / 8 {
        return Err(Error::Wrong(format!("{} called a living process dead", Q::NAME)));
    }
    board.leave_mean(ended - begun, operations);
    drop(watched);
    if Q::KNOWS && question.ask() {
        return Err(Error::Wrong(format!("{} calls a dead process alive", Q::NAME)));
    }
    Ok(())
}

// The loops are the same for every way, so they weigh the same in each. Not inlined, so that they
// are aligned alike.

#[inline(never)]
fn ask_called<Q: Question>(question: &Q, times: u64) -> u64 {
    let ask: fn(&Q) -> bool = black_box(Q::ask);
    (0..times).map(|_| u64::from(ask(unknown(question)))).sum()
}

#[inline(never)]
fn ask_inlined<Q: Question>(question: &Q, times: u64) -> u64 {
    (0..times).map(|_| u64::from(unknown(question).ask())).sum()
}

/// Returns the same reference, of which the compiler no longer knows anything: all memory may have
/// changed, so it cannot ask once for the whole loop. As `black_box`, which however goes through
/// the stack: beside a question of half a nanosecond that is much, and it differs with where the
/// stack lies.
#[inline(always)]
fn unknown<T>(reference: &T) -> &T {
    let mut address: *const T = reference;
    // SAFETY: no instruction at all; the register keeps its value.
    unsafe { asm!("/* {} */", inout(reg) address, options(nostack, preserves_flags)) };
    // SAFETY: still the reference's address.
    unsafe { &*address }
}

/// Nothing at all: what the loop costs.
struct Dummy;

impl Question for Dummy {
    const NAME: &'static str = "dummy";
    const KNOWS: bool = false;
    type Place = ();

    fn place(_: &Stage) -> Result<(), Error> {
        Ok(())
    }

    fn prepare(_: &(), _: libc::pid_t) -> Result<Self, Error> {
        Ok(Self)
    }

    #[inline]
    fn ask(&self) -> bool {
        true
    }
}
