//! What does a lock between processes cost?
//!
//! Four ways to ask. *Uncontended* (the NPTL study's call overhead, and the million lock/unlock of
//! the robotics library): one process takes the lock, raises a number, lets go. *Contended*: two
//! processes on two cores do so until the number has reached the turn's; the time of the whole, per
//! pair; with `--work`, each computes inside the lock and outside. *Wake* (the NPTL study's wait
//! and wake-up): two processes chase each other around three locks, so that each step of one waits
//! for a step of the other; see [`chase`]. *Sleeper*: a process is asleep waiting for the lock, and
//! the time from just before the release until it has the lock is taken, again and again; the
//! turn's figure is the median. (A waiter that spins first never sleeps in a chase.)
//!
//! A lock that readers share is read instead, and its readers do not hand it to each other.
//!
//! Whatever a lock guarded is counted, and a wrong count is an error. Each row is one file that
//! implements [`Lock`]. `bench mutex` is the first four of them under their older names.

mod boost;
mod ceiling;
mod chase;
mod fcntl;
mod mutex;
mod number;
mod ours;
mod pi;
mod pthread;
mod pthread_rwlock;
mod rw_lock;
mod sem_t;
mod semaphore;
mod sysv;
mod turns;

use crate::harness::clock::Work;
use crate::harness::error::Error;
use crate::harness::report::{Absent, Title};
use crate::harness::round::{Contender, Figure, Stage};
use boost::Boost;
use ceiling::OurCeiling;
use fcntl::Fcntl;
use pi::OurPi;
use pthread_rwlock::PthreadRwLock;
use rw_lock::{OurRead, OurWrite};
use semaphore::OurSemaphore;
use std::marker::PhantomData;

pub(super) use mutex::OurMutex;
pub(super) use number::Number;
pub(super) use pthread::{Plain, PriorityInheriting, PriorityProtecting, Pthread, Robust};
pub(super) use sem_t::SemT;
pub(super) use sysv::SysV;

/// What readers find in the number.
const UNTOUCHED: u64 = 7;

/// A lock between processes, with a number in it.
pub(super) trait Lock: 'static {
    /// The row's name.
    const NAME: &'static str;
    /// Whether several may hold it at once: then the number is read, never raised.
    const SHARED: bool = false;
    /// What is made before the fork; dropping it removes everything.
    type Place;
    /// The lock as one process has it.
    type Handle<'place>: Handle + Sync;

    /// Makes the lock, before the fork; the number is 0, or [`UNTOUCHED`] for readers. `which`
    /// tells several in one turn apart.
    fn place(stage: &Stage, which: &'static str) -> Result<Self::Place, Error>;
    /// Opens the lock in each process.
    fn open(place: &Self::Place) -> Result<Self::Handle<'_>, Error>;
    /// Returns why this row cannot take part, if it cannot.
    fn refuses() -> Option<String> {
        None
    }
}

/// The lock as one process has it; its threads share it.
pub(super) trait Handle {
    /// The lock, held.
    type Held<'handle>: Held
    where
        Self: 'handle;

    /// Takes it, waiting as long as another process has it.
    fn acquire(&self) -> Result<Self::Held<'_>, Error>;

    /// Takes it, touches the number, lets go: what is timed where a nanosecond matters. Always
    /// inlined: a call around a lock would be a tenth of it.
    #[inline(always)]
    fn once(&self) -> Result<u64, Error> {
        let mut held = self.acquire()?;
        let number = held.touch();
        held.release()?;
        Ok(number)
    }
}

/// The lock, held. Not dropped but released, since a release may fail.
pub(super) trait Held {
    /// Raises the number (reads it, where the lock is shared) and gives what it is now.
    fn touch(&mut self) -> u64;
    /// Lets go.
    fn release(self) -> Result<(), Error>;
}

/// The ways to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// One process.
    Uncontended,
    /// Two processes at once, each of which computes so many nanoseconds inside the lock, and as
    /// many outside.
    Contended(u32),
    /// Two processes that wait for each other at every step.
    Chase,
    /// To a sleeper.
    Sleeper,
}

impl Mode {
    /// Returns what it is called under `bench locks`.
    pub fn title(self) -> Title {
        let (mode, meaning) = match self {
            Self::Uncontended => ("uncontended", "a lock and unlock by one process"),
            Self::Contended(_) => {
                ("contended", "a lock and unlock while two processes want the lock all the time")
            }
            Self::Chase => {
                ("wake", "a step of two processes that chase each other around three locks")
            }
            Self::Sleeper => {
                ("sleeper", "from unlock until the process that slept for the lock has it")
            }
        };
        Title { bench: "locks", mode, meaning, ours: &OURS, rate_of: None }
    }

    /// Returns what it is called under `bench mutex`.
    pub fn mutex_title(self) -> Title {
        let mode = if self == Self::Sleeper { "wake" } else { self.title().mode };
        Title { bench: "mutex", mode, ours: &["outlive"], ..self.title() }
    }
}

const OURS: [&str; 6] = [
    OurMutex::NAME,
    OurRead::NAME,
    OurWrite::NAME,
    OurSemaphore::NAME,
    OurPi::NAME,
    OurCeiling::NAME,
];

/// The contenders, in the order they are shown.
pub struct Field {
    /// The rows.
    pub rows: Vec<Box<dyn Contender>>,
    /// The name of the row that the others are compared with.
    pub baseline: &'static str,
    /// The contenders that cannot take part.
    pub absent: Vec<Absent>,
}

impl Field {
    /// Returns the rows of `bench locks`: all of them, or those named. A row that is not wanted is
    /// not asked whether it can take part: that may mean calling a compiler.
    pub fn of_locks(mode: Mode, only: &[String]) -> Self {
        let mut field =
            Self { rows: Vec::new(), baseline: Pthread::<Plain>::NAME, absent: Vec::new() };
        field.add::<OurMutex>(mode, only);
        field.add::<OurSemaphore>(mode, only);
        field.add::<OurRead>(mode, only);
        field.add::<OurWrite>(mode, only);
        field.add::<OurPi>(mode, only);
        field.add::<OurCeiling>(mode, only);
        field.add::<Pthread<Plain>>(mode, only);
        field.add::<Pthread<Robust>>(mode, only);
        field.add::<Pthread<PriorityInheriting>>(mode, only);
        field.add::<Pthread<PriorityProtecting>>(mode, only);
        field.add::<PthreadRwLock<false>>(mode, only);
        field.add::<PthreadRwLock<true>>(mode, only);
        field.add::<SemT>(mode, only);
        field.add::<SysV>(mode, only);
        field.add::<Fcntl>(mode, only);
        field.add::<Boost<false>>(mode, only);
        field.add::<Boost<true>>(mode, only);
        field
    }

    /// Returns the rows of `bench mutex`.
    pub fn of_mutexes(mode: Mode) -> Self {
        let rows: Vec<Box<dyn Contender>> = vec![
            Box::new(Locking::<OurMutex>::new("outlive", mode)),
            Box::new(Locking::<Pthread<Plain>>::new(Pthread::<Plain>::NAME, mode)),
            Box::new(Locking::<Pthread<Robust>>::new(Pthread::<Robust>::NAME, mode)),
            Box::new(Locking::<Pthread<PriorityInheriting>>::new(
                Pthread::<PriorityInheriting>::NAME,
                mode,
            )),
            Box::new(Locking::<Fcntl>::new(Fcntl::NAME, mode)),
            Box::new(Locking::<SysV>::new(SysV::NAME, mode)),
        ];
        Self { rows, baseline: Pthread::<Plain>::NAME, absent: Vec::new() }
    }

    fn add<L: Lock>(&mut self, mode: Mode, only: &[String]) {
        let wanted =
            only.is_empty() || L::NAME == self.baseline || only.iter().any(|name| name == L::NAME);
        let refusal = match mode {
            Mode::Chase | Mode::Sleeper if L::SHARED => {
                Some("readers do not hand a lock to each other".to_owned())
            }
            Mode::Contended(1..) if L::SHARED => {
                Some("readers do not wait for each other's work".to_owned())
            }
            _ if wanted => L::refuses(),
            // Left out by `--only` all the same, but known by its name.
            _ => None,
        };
        match refusal {
            None => self.rows.push(Box::new(Locking::<L>::new(L::NAME, mode))),
            Some(why) => self.absent.push(Absent { name: L::NAME, why }),
        }
    }
}

struct Locking<L> {
    name: &'static str,
    mode: Mode,
    lock: PhantomData<L>,
}

impl<L> Locking<L> {
    fn new(name: &'static str, mode: Mode) -> Self {
        Self { name, mode, lock: PhantomData }
    }
}

impl<L: Lock> Contender for Locking<L> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error> {
        match self.mode {
            Mode::Uncontended => turns::uncontended::<L>(stage, operations),
            Mode::Contended(_) if L::SHARED => turns::read_together::<L>(stage, operations),
            Mode::Contended(work) => turns::contended::<L>(stage, operations, Work::of(work)),
            Mode::Chase => chase::turn::<L>(stage, operations),
            Mode::Sleeper => turns::to_sleeper::<L>(stage, operations),
        }
    }
}
