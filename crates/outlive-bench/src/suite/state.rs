//! What does it cost to read, and to write, the latest value?
//!
//! A value of 64 bytes. `outlive` is a state. `seqlock` is one by hand, the unsafe kind: after a
//! writer's death in the middle, readers try for ever. `rwlock` is Outlive's readers-writer lock
//! around the value. With `--contended` a process on the other core writes, a value every
//! microsecond, while the first one reads.

use crate::harness::clock;
use crate::harness::crew::Crew;
use crate::harness::error::{Error, told};
use crate::harness::report::Title;
use crate::harness::round::{Contender, Figure, Stage};
use crate::harness::scratch::Scratch;
use crate::harness::shared::{Board, Shared, ZeroShared};
use crate::harness::{Common, Prepared};
use clap::Args;
use outlive::Domain;
use outlive::state::{State, Writer};
use outlive::sync::RwLock;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering, fence};

const WORDS: usize = 8;
type Value = [u64; WORDS];
/// Between two values that are written while another process reads.
const PERIOD_NS: u64 = 1_000;

/// The arguments of `outlive bench state`.
#[derive(Args, Clone, Debug)]
#[group(id = "doing", multiple = false, args = ["write", "contended"])]
pub struct StateArgs {
    /// Write instead of reading
    #[arg(long)]
    write: bool,

    /// Read while another process writes
    #[arg(long)]
    contended: bool,

    #[command(flatten)]
    pub(super) common: Common,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
    Contended,
}

/// Makes it ready.
pub(super) fn prepare(args: &StateArgs) -> Prepared {
    let (mode, name, meaning) = match (args.write, args.contended) {
        (true, _) => (Mode::Write, "write", "a value of 64 B written"),
        (_, true) => (
            Mode::Contended,
            "contended",
            "a value of 64 B read, which another process writes every microsecond",
        ),
        _ => (Mode::Read, "read", "a value of 64 B read"),
    };
    let title =
        Title { bench: "state", mode: name, meaning, ours: &["outlive", "rwlock"], rate_of: None };
    let rows: Vec<Box<dyn Contender>> =
        vec![row::<State<Value>>(mode), row::<SeqLock>(mode), row::<RwLock<Value>>(mode)];
    let prepared = Prepared::of(title, rows, SeqLock::NAME);
    if mode == Mode::Contended { prepared } else { prepared.alone() }
}

fn row<L: Latest>(mode: Mode) -> Box<dyn Contender> {
    Box::new(Row::<L> { mode, latest: PhantomData })
}

/// A latest value, one writer's.
trait Latest: Sized + 'static {
    const NAME: &'static str;
    type Place;
    type Writer;

    /// Makes it, before the fork.
    fn place(stage: &Stage) -> Result<Self::Place, Error>;
    fn reader(place: &Self::Place) -> Result<Self, Error>;
    fn writer(place: &Self::Place) -> Result<Self::Writer, Error>;
    fn read(&self) -> Result<Value, Error>;
    fn write(writer: &mut Self::Writer, value: &Value) -> Result<(), Error>;
}

struct Row<L> {
    mode: Mode,
    latest: PhantomData<L>,
}

impl<L: Latest> Contender for Row<L> {
    fn name(&self) -> &'static str {
        L::NAME
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        let place = L::place(stage)?;
        let board = Shared::<Board>::new()?;
        let mut crew = Crew::new()?;
        if self.mode == Mode::Contended {
            crew.start("writer", stage.second_core(), || {
                let mut writer = L::writer(&place)?;
                board.meet(2);
                let mut number = 0;
                // Acquire pairs with the reader's Release.
                while board.done.0.load(Ordering::Acquire) == 0 {
                    number += 1;
                    L::write(&mut writer, &[number; WORDS])?;
                    clock::spin_for(PERIOD_NS);
                }
                Ok(())
            })?;
        }
        crew.start("measuring process", stage.first_core(), || match self.mode {
            Mode::Write => {
                let mut writer = L::writer(&place)?;
                measure(&board, operations, |number| L::write(&mut writer, &[number; WORDS]))
            }
            Mode::Read | Mode::Contended => {
                let latest = L::reader(&place)?;
                if self.mode == Mode::Contended {
                    board.meet(2);
                }
                let measured = measure(&board, operations, |_| {
                    let value = black_box(latest.read()?);
                    if value[0] == value[WORDS - 1] { Ok(()) } else { Err(torn::<L>(&value)) }
                });
                board.done.0.store(1, Ordering::Release);
                measured
            }
        })?;
        board.figure(crew.finish(stage.turn_limit)?)
    }
}

#[cold]
fn torn<L: Latest>(value: &Value) -> Error {
    Error::Wrong(format!("{} gave parts of two values: {value:?}", L::NAME))
}

fn measure(
    board: &Board,
    operations: u64,
    mut one: impl FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    (0..operations / 8).try_for_each(&mut one)?;
    let begun = clock::now();
    (0..operations).try_for_each(&mut one)?;
    board.leave_mean(clock::now() - begun, operations);
    Ok(())
}

fn domain(place: &Scratch) -> Result<Domain, Error> {
    told(Domain::open_or_create_at(place.path()), "opening a domain")
}

impl Latest for State<Value> {
    const NAME: &'static str = "outlive";
    type Place = Scratch;
    type Writer = Writer<Value>;

    fn place(stage: &Stage) -> Result<Scratch, Error> {
        stage.scratch.inner("state")
    }

    fn reader(place: &Scratch) -> Result<Self, Error> {
        told(State::open_or_create(&domain(place)?, "value"), "opening a state")
    }

    fn writer(place: &Scratch) -> Result<Writer<Value>, Error> {
        told(Self::reader(place)?.writer(), "opening a state's writer")
    }

    #[inline]
    fn read(&self) -> Result<Value, Error> {
        told(self.get(), "reading a state")
    }

    #[inline]
    fn write(writer: &mut Writer<Value>, value: &Value) -> Result<(), Error> {
        told(writer.set(value), "writing a state").map(drop)
    }
}

impl Latest for RwLock<Value> {
    const NAME: &'static str = "rwlock";
    type Place = Scratch;
    type Writer = Self;

    fn place(stage: &Stage) -> Result<Scratch, Error> {
        stage.scratch.inner("rwlock")
    }

    fn reader(place: &Scratch) -> Result<Self, Error> {
        told(RwLock::options([0; WORDS]).open_or_create(&domain(place)?, "value"), "opening a lock")
    }

    fn writer(place: &Scratch) -> Result<Self, Error> {
        Self::reader(place)
    }

    #[inline]
    fn read(&self) -> Result<Value, Error> {
        RwLock::read(self)
            .map(|value| *value)
            .map_err(|error| Error::Wrong(format!("outlive's lock: {error}")))
    }

    #[inline]
    fn write(writer: &mut Self, value: &Value) -> Result<(), Error> {
        match RwLock::write(writer) {
            Ok(mut guard) => *guard = *value,
            Err(error) => return Err(Error::Wrong(format!("outlive's lock: {error}"))),
        }
        Ok(())
    }
}

/// The words of one by hand.
#[repr(C, align(128))]
struct Words {
    /// Odd while a process writes.
    sequence: AtomicU64,
    value: [AtomicU64; WORDS],
}

// SAFETY: atomics; zero is valid.
unsafe impl ZeroShared for Words {}

struct SeqLock(&'static Words);

impl Latest for SeqLock {
    const NAME: &'static str = "seqlock";
    type Place = Shared<Words>;
    type Writer = Self;

    fn place(_: &Stage) -> Result<Shared<Words>, Error> {
        Shared::new()
    }

    fn reader(place: &Shared<Words>) -> Result<Self, Error> {
        // SAFETY: the place is the turn's, and this process ends before it.
        Ok(Self(unsafe { &*core::ptr::from_ref(&**place) }))
    }

    fn writer(place: &Shared<Words>) -> Result<Self, Error> {
        Self::reader(place)
    }

    #[inline]
    fn read(&self) -> Result<Value, Error> {
        loop {
            // Acquire pairs with the writer's last store.
            let before = self.0.sequence.load(Ordering::Acquire);
            let value = std::array::from_fn(|word| self.0.value[word].load(Ordering::Relaxed));
            // Before the second look: pairs with the writer's fence.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && self.0.sequence.load(Ordering::Relaxed) == before {
                return Ok(value);
            }
            std::hint::spin_loop();
        }
    }

    #[inline]
    fn write(writer: &mut Self, value: &Value) -> Result<(), Error> {
        let sequence = writer.0.sequence.load(Ordering::Relaxed);
        writer.0.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (to, from) in writer.0.value.iter().zip(value) {
            to.store(*from, Ordering::Relaxed);
        }
        writer.0.sequence.store(sequence + 2, Ordering::Release);
        Ok(())
    }
}
