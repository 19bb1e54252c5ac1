//! Orders about the mutexes of other kinds: `pi …`, `ceiling …` and `reentrant …`. What they guard is
//! as in `mutex`. The reentrant one is locked twice each time, and unlocked twice.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use outlive::sync::{
    AcquireError, CeilingMutex, CeilingMutexGuard, LockError, PiMutex, PiMutexGuard,
    ReentrantMutex, ReentrantMutexGuard,
};
use outlive::{Deadline, Domain};

use super::mutex::Pair;

/// Which of the three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// With priority inheritance.
    Pi,
    /// With a ceiling.
    Ceiling,
    /// One that its owner may lock again.
    Reentrant,
}

impl Kind {
    /// The first word of orders about it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Pi => "pi",
            Kind::Ceiling => "ceiling",
            Kind::Reentrant => "reentrant",
        }
    }
}

/// An open mutex of any of these kinds.
pub enum Mutex {
    /// With priority inheritance.
    Pi(PiMutex<Pair>),
    /// With a ceiling.
    Ceiling(CeilingMutex<Pair>),
    /// One that its owner may lock again.
    Reentrant(ReentrantMutex<[Cell<u64>; 2]>),
}

/// Its guard.
pub enum Guard<'a> {
    /// With priority inheritance.
    Pi(PiMutexGuard<'a, Pair>),
    /// With a ceiling.
    Ceiling(CeilingMutexGuard<'a, Pair>),
    /// Of one that is locked twice: the guard of the first time is dropped last.
    Reentrant { inner: Twice<'a>, outer: Twice<'a> },
}

type Twice<'a> = ReentrantMutexGuard<'a, [Cell<u64>; 2]>;

/// A lock that was got: clean, or from a dead owner.
pub enum Got<'a> {
    /// As it should be.
    Clean(Guard<'a>),
    /// Its owner died.
    OwnerDied(Guard<'a>),
    /// No thread gets it again.
    NotRecoverable,
}

/// The ceiling of all of them.
const CEILING: u32 = 10;

impl Mutex {
    /// Opens it, or makes it.
    pub fn open(kind: Kind, domain: &Domain, name: &str) -> Result<Mutex, String> {
        Ok(match kind {
            Kind::Pi => Mutex::Pi(
                PiMutex::options([0, 0])
                    .open_or_create(domain, name)
                    .map_err(|error| error.to_string())?,
            ),
            Kind::Ceiling => Mutex::Ceiling(
                CeilingMutex::options(CEILING, [0, 0])
                    .open_or_create(domain, name)
                    .map_err(|error| error.to_string())?,
            ),
            Kind::Reentrant => Mutex::Reentrant(
                ReentrantMutex::options([Cell::new(0), Cell::new(0)])
                    .open_or_create(domain, name)
                    .map_err(|error| error.to_string())?,
            ),
        })
    }

    /// Takes it, waiting until the deadline.
    pub fn lock_until(&self, deadline: Deadline) -> Result<Got<'_>, String> {
        match self {
            Mutex::Pi(mutex) => settle(mutex.lock_until(deadline), Guard::Pi),
            Mutex::Ceiling(mutex) => settle(mutex.lock_until(deadline), Guard::Ceiling),
            Mutex::Reentrant(mutex) => {
                // None: it is not locked the first time, or its inner lock was not free for its owner.
                let twice = |outer| match mutex.try_lock() {
                    Ok(Some(inner)) if mutex.depth() == 2 => {
                        Some(Guard::Reentrant { inner, outer })
                    }
                    _ => None,
                };
                let refused = || "its owner could not lock it again".to_owned();
                Ok(match mutex.lock_until(deadline) {
                    Ok(Some(outer)) => Got::Clean(twice(outer).ok_or_else(refused)?),
                    Err(LockError::OwnerDied(outer)) => {
                        Got::OwnerDied(twice(outer).ok_or_else(refused)?)
                    }
                    other => return settle(other, |_| unreachable!("matched above")),
                })
            }
        }
    }
}

fn settle<'a, G>(
    result: Result<Option<G>, LockError<G>>,
    guard: impl Fn(G) -> Guard<'a>,
) -> Result<Got<'a>, String> {
    match result {
        Ok(Some(got)) => Ok(Got::Clean(guard(got))),
        Ok(None) => Err("somebody still held the lock when the deadline passed".to_owned()),
        Err(LockError::OwnerDied(got)) => Ok(Got::OwnerDied(guard(got))),
        Err(LockError::Failed(AcquireError::NotRecoverable)) => Ok(Got::NotRecoverable),
        Err(other) => Err(other.to_string()),
    }
}

impl Guard<'_> {
    fn pair(&self) -> Pair {
        match self {
            Guard::Pi(guard) => **guard,
            Guard::Ceiling(guard) => **guard,
            Guard::Reentrant { inner, .. } => inner.each_ref().map(Cell::get),
        }
    }

    fn set(&mut self, at: usize, number: u64) {
        match self {
            Guard::Pi(guard) => guard[at] = number,
            Guard::Ceiling(guard) => guard[at] = number,
            Guard::Reentrant { inner, .. } => inner[at].set(number),
        }
    }

    /// Raises both numbers, with moments in between at which they differ.
    pub fn raise(&mut self) {
        let pair = self.pair();
        self.set(0, pair[0] + 1);
        black_box(&mut *self);
        self.set(1, pair[1] + 1);
    }

    /// Makes the pair whole after an owner's death and says so.
    pub fn repair(&mut self) {
        self.set(0, self.pair()[1]);
        match self {
            Guard::Pi(guard) => guard.mark_consistent(),
            Guard::Ceiling(guard) => guard.mark_consistent(),
            Guard::Reentrant { outer, .. } => outer.mark_consistent(),
        }
    }
}

/// Where libc's word lies in the file of a mutex with priority inheritance: doc/memory-layout.md.
const PI_WORD_AT: u64 = 12_288 + 16;

/// How long the kernel may take to hand a dead owner's lock to the first sleeper.
const HAND_OVER: Duration = Duration::from_secs(10);

/// The process of a holder, as an answer.
pub(super) fn pid_of(holder: Option<outlive::sync::Holder>) -> String {
    holder.map_or_else(|| "nobody".to_owned(), |holder| holder.pid.to_string())
}

/// The holder of a mutex with priority inheritance, so many bytes behind the beginning of its file's
/// body, as libc's word names it. The word counts also
/// before the holder has written its name beside it, and when the kernel has handed the lock to a
/// sleeper. The holders in these scenarios are main threads, so their numbers are their processes'
/// numbers.
///
/// When an owner dies, the kernel clears its number, marks the word, and wakes the first sleeper.
/// That sleeper writes its own number as soon as it runs, still in the kernel, also when its
/// process is stopped. A word with the bit for sleepers and without a number is between the two
/// steps, for as long as the machine takes.
pub(super) fn libcs_holder(domain: &Domain, name: &str, at: u64) -> Result<String, String> {
    let file = std::fs::File::open(domain.path().join(name)).map_err(|error| error.to_string())?;
    let begun = Instant::now();
    loop {
        let mut word = [0; 4];
        file.read_exact_at(&mut word, PI_WORD_AT + at).map_err(|error| error.to_string())?;
        let word = u32::from_ne_bytes(word);
        let holder = word & libc::FUTEX_TID_MASK;
        if holder != 0 || word & libc::FUTEX_WAITERS == 0 || begun.elapsed() > HAND_OVER {
            return Ok(holder.to_string());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Those that a survivor has open, and the guards that it keeps.
#[derive(Default)]
pub struct Mutexes {
    open: BTreeMap<String, &'static Mutex>,
    held: BTreeMap<String, Guard<'static>>,
}

impl Mutexes {
    fn named(&mut self, kind: Kind, domain: &Domain, name: &str) -> Result<&'static Mutex, String> {
        if let Some(mutex) = self.open.get(name) {
            return Ok(mutex);
        }
        let mutex: &'static Mutex = Box::leak(Box::new(Mutex::open(kind, domain, name)?));
        self.open.insert(name.to_owned(), mutex);
        Ok(mutex)
    }

    /// Carries out an order; see the match for which there are.
    pub fn obey(&mut self, kind: Kind, domain: &Domain, order: &[&str]) -> Result<String, String> {
        match order {
            ["open", name] => self.named(kind, domain, name).map(|_| String::new()),
            // Lock, check, raise, unlock. Answers how it was got.
            ["use", name] => match self.named(kind, domain, name)?.lock_until(Deadline::NEVER)? {
                Got::Clean(mut guard) => {
                    let pair = guard.pair();
                    if pair[0] != pair[1] {
                        return Err(format!("clean, yet the numbers differ: {pair:?}"));
                    }
                    guard.raise();
                    Ok("clean".to_owned())
                }
                Got::OwnerDied(mut guard) => {
                    guard.repair();
                    Ok("died".to_owned())
                }
                Got::NotRecoverable => Ok("not-recoverable".to_owned()),
            },
            ["hold", name] => {
                let guard = match self.named(kind, domain, name)?.lock_until(Deadline::NEVER)? {
                    Got::Clean(guard) => guard,
                    Got::OwnerDied(mut guard) => {
                        guard.repair();
                        guard
                    }
                    Got::NotRecoverable => return Err("it was not recoverable".to_owned()),
                };
                self.held.insert((*name).to_owned(), guard);
                Ok(String::new())
            }
            ["holder", name] => match self.named(kind, domain, name)? {
                Mutex::Ceiling(mutex) => Ok(pid_of(mutex.holder())),
                Mutex::Reentrant(mutex) => Ok(pid_of(mutex.holder())),
                Mutex::Pi(_) => libcs_holder(domain, name, 0),
            },
            ["release", name] => self
                .held
                .remove(*name)
                .map(|_| String::new())
                .ok_or_else(|| "it is not held".to_owned()),
            _ => Err("unknown order".to_owned()),
        }
    }
}
