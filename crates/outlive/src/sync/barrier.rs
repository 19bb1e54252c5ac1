//! A named barrier that knows its participants.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Holder;
use super::embedded::{Embed, Place, SharedField};
use super::primitive::{Home, TypeOf, words_at};
use super::primitive::{Inspect, LockDetail};
use super::raw::barrier::{BarrierWords, COUNT_OUT, Passed, RawBarrier, Stuck};
use crate::liveness::{Me, Registry};
use crate::segment::{Segment, Shared};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::SpinWait;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// What the death of a participant does to a [`Barrier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenOneDies {
    /// It breaks: all who wait, and all who come, are told [`BarrierError::Broken`] until [`Barrier::repair`].
    #[default]
    Break,
    /// It is counted out: the others go on without it.
    CountOut,
}

/// A barrier, shared by name between processes: each phase begins when all participants have arrived in the one before.
///
/// A participant has a seat and so a name. Who waits is woken by the death of one who will never come, and then the barrier
/// breaks or goes on without it, as was chosen when it was made. One participant of each phase is told that it is the serial
/// one. For 1 to 65,536 participants, threads of any processes.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-barrier-{}", std::process::id()));
/// # let domain = outlive::Domain::open_at(&folder)?;
/// use outlive::sync::{Barrier, WhenOneDies};
///
/// let step = Barrier::open(&domain, "step", 2, WhenOneDies::Break)?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let mut seat = step.join().unwrap();
///             for _ in 0..3 {
///                 // … this step's part …
///                 if seat.wait().unwrap().is_serial() {
///                     // … what one of them does for all …
///                 }
///             }
///         });
///     }
/// });
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// Before it has arrived: all who wait are woken; the barrier breaks, or goes on without it. After it has arrived: the phase
/// ends as if it lived, the next does not. As the serial participant: nobody else is told to be it; of the next phase it is
/// absent. (For more than 30 participants the kernel watches a few of the absent for each who waits; the rest are looked at
/// in turn, by each every 10 ms per 64 seats, at most every second: so the more wait, the sooner one of them notices.)
pub struct Barrier {
    home: Home<BarrierWords>,
    seats: NonNull<[AtomicU32]>,
    spin_wait: SpinWait,
}

// SAFETY: all its fields are atomics.
unsafe impl Shared for BarrierWords {}
// SAFETY: atomics, and memory of its own.
unsafe impl Send for Barrier {}
// SAFETY: as above.
unsafe impl Sync for Barrier {}

const MOST_PARTIES: u32 = 1 << 16;

/// Why there was no passing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BarrierError {
    /// A participant died. [`Barrier::repair`] takes the dead ones' seats away and begins a new phase.
    Broken,
    /// The deadline passed while living participants were absent. The arrival stands: waiting again goes on with it.
    TimedOut,
    /// All seats are taken.
    Full,
    /// The seat is no longer this thread's: it is another thread that waits, or somebody wrote over it.
    NotSeated,
    /// The calling thread could not get a token, or the system refused to wait.
    System(Error),
}

impl fmt::Display for BarrierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BarrierError::Broken => f.write_str("a participant died, which broke the barrier; repair it to go on"),
            BarrierError::TimedOut => f.write_str("participants were still absent when the deadline passed"),
            BarrierError::Full => f.write_str("all seats of the barrier are taken"),
            BarrierError::NotSeated => f.write_str("the seat is not this thread's; join from the thread that waits"),
            BarrierError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for BarrierError {}

/// A phase has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    serial: bool,
}

impl Turn {
    /// Whether this participant is the one of its phase that may do what is to be done once.
    pub fn is_serial(self) -> bool {
        self.serial
    }
}

impl Barrier {
    /// Opens the barrier of that name, or makes it for so many participants (1 to 65,536). One that is there already keeps
    /// its number and what a death does.
    ///
    /// # Errors
    /// [`Error::OtherKind`] when the name is in use for something else, [`Error::NoSpace`], [`Error::InvalidName`] (also
    /// for a number out of bounds), and what the system says.
    ///
    /// # If a process dies
    /// While it makes the barrier: nothing is left of it.
    pub fn open(domain: &Domain, name: &str, parties: u32, when_one_dies: WhenOneDies) -> Result<Barrier, Error> {
        if !(1..=MOST_PARTIES).contains(&parties) {
            return Err(Error::InvalidName { name: name.to_owned(), why: "a barrier has 1 to 65,536 participants" });
        }
        let home = Home::<BarrierWords>::open_with_tail(
            domain,
            name,
            Kind::Barrier,
            TypeOf::nothing(),
            parties as usize,
            |words, _| {
                words.parties.store(parties, Ordering::Relaxed);
                set_policy(words, when_one_dies);
            },
        )?;
        let parties = home.shared().parties.load(Ordering::Relaxed);
        if !(1..=MOST_PARTIES).contains(&parties) {
            return Err(home.damaged("a barrier's size"));
        }
        let seats = home.tail(parties as usize)?;
        Ok(Barrier { home, seats, spin_wait: SpinWait::new() })
    }

    /// What lies at `offset` of a file: in a record with so many `seats`, else it says itself how many.
    pub(super) fn inside(
        segment: &Arc<Segment>,
        registry: &'static Registry,
        offset: u64,
        seats: Option<u32>,
    ) -> Result<Barrier, Error> {
        let words = segment.at::<BarrierWords>(offset)?;
        if let Some(seats) = seats {
            words.parties.store(seats, Ordering::Relaxed);
        }
        let parties = seats.unwrap_or_else(|| words.parties.load(Ordering::Relaxed));
        if !(1..=MOST_PARTIES).contains(&parties) {
            return Err(segment.damaged("a barrier's size"));
        }
        let seats = NonNull::from(words_at(segment, offset + size_of::<BarrierWords>() as u64, parties as usize)?);
        Ok(Barrier { home: Home::inside(words, registry, segment), seats, spin_wait: SpinWait::new() })
    }

    /// How waiting is done through this handle.
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.spin_wait.set(wait);
    }

    fn raw(&self) -> RawBarrier<'_> {
        // SAFETY: checked when opened; mapped as long as `home` is.
        RawBarrier { words: self.home.shared(), seats: unsafe { self.seats.as_ref() } }
    }

    /// Takes a seat for the calling thread. From when this returns, the others wait for it, and its death is noticed. Who
    /// takes the seat of one who has left is waited for from one of the next two phases on.
    ///
    /// # Errors
    /// [`BarrierError::Full`], [`BarrierError::Broken`], [`BarrierError::System`].
    ///
    /// # If a process dies
    /// In here: as if it had never come, or as if it had joined.
    pub fn join(&self) -> Result<Seat<'_>, BarrierError> {
        let me = self.me()?;
        let index = self.raw().join(me).map_err(|stuck| self.error(stuck))?;
        Ok(Seat { barrier: self, me, index, arrived: None, _thread: PhantomData })
    }

    /// Makes a broken barrier whole: the dead lose their seats, to be taken by others who join; the living keep theirs and
    /// begin a new phase. Nothing is done to one that is not broken. Any number of participants may call it at once.
    ///
    /// # Errors
    /// [`BarrierError::TimedOut`] when another who repairs is stopped until the deadline; [`BarrierError::System`].
    ///
    /// # If a process dies
    /// In here: the barrier is broken still, or whole.
    pub fn repair(&self, deadline: impl Into<Deadline>) -> Result<(), BarrierError> {
        let me = self.me()?;
        self.raw().repair(me, &self.spin_wait, deadline.into()).map_err(|stuck| self.error(stuck))
    }

    /// Whether a death has broken it.
    pub fn is_broken(&self) -> bool {
        self.raw().is_broken()
    }

    /// The thread that repairs it just now, dead or alive.
    #[doc(hidden)]
    pub fn repairer(&self) -> Option<Holder> {
        self.raw().repairer().map(|token| Holder::of(self.home.registry(), token))
    }

    /// The participants, and whether each has arrived in the present phase.
    pub fn participants(&self) -> Vec<(Holder, bool)> {
        let holder = |(token, arrived)| (Holder::of(self.home.registry(), token), arrived);
        self.raw().participants().into_iter().map(holder).collect()
    }

    fn me(&self) -> Result<Me, BarrierError> {
        self.home.me().map_err(BarrierError::System)
    }

    fn error(&self, stuck: Stuck) -> BarrierError {
        match stuck {
            Stuck::Broken => BarrierError::Broken,
            Stuck::TimedOut => BarrierError::TimedOut,
            Stuck::Full => BarrierError::Full,
            Stuck::NotSeated => BarrierError::NotSeated,
            Stuck::System(errno) => {
                BarrierError::System(Error::from_errno("wait for participants in", self.home.registry().path(), errno))
            }
        }
    }
}

fn set_policy(words: &BarrierWords, when_one_dies: WhenOneDies) {
    let policy = if when_one_dies == WhenOneDies::CountOut { COUNT_OUT } else { 0 };
    words.policy.store(policy, Ordering::Relaxed);
}

/// A participant's place; given up when dropped: the others go on without it, and somebody else may take it.
///
/// Stays with its thread, which it names. In a forked child a seat of the parent's does nothing.
pub struct Seat<'a> {
    barrier: &'a Barrier,
    me: Me,
    index: usize,
    /// The phase in which this participant has arrived and not yet been let on.
    arrived: Option<u32>,
    /// Neither Send nor Sync.
    _thread: PhantomData<*mut ()>,
}

impl Seat<'_> {
    /// Arrives, and waits until all have.
    ///
    /// # Errors
    /// [`BarrierError::Broken`], [`BarrierError::NotSeated`], [`BarrierError::System`].
    ///
    /// # If a process dies
    /// The death of one who is absent ends this wait at once: see [`Barrier`].
    pub fn wait(&mut self) -> Result<Turn, BarrierError> {
        self.finish(Some(Deadline::NEVER))
    }

    /// Arrives, and waits until all have, or until the deadline.
    ///
    /// # Errors
    /// As [`Seat::wait`], and [`BarrierError::TimedOut`]: the arrival stands.
    pub fn wait_until(&mut self, deadline: impl Into<Deadline>) -> Result<Turn, BarrierError> {
        self.finish(Some(deadline.into()))
    }

    /// Arrives without waiting; succeeds if all have.
    ///
    /// # Errors
    /// As [`Seat::wait`], and [`BarrierError::TimedOut`] while others are absent: the arrival stands.
    pub fn try_wait(&mut self) -> Result<Turn, BarrierError> {
        self.finish(None)
    }

    fn finish(&mut self, deadline: Option<Deadline>) -> Result<Turn, BarrierError> {
        let raw = self.barrier.raw();
        if self.barrier.home.registry().current_bits() != self.me.id.as_u32() {
            return Err(BarrierError::NotSeated);
        }
        let phase = match self.arrived {
            Some(phase) => phase,
            None => raw.arrive(self.me, self.index).map_err(|stuck| self.barrier.error(stuck))?,
        };
        let end = raw.wait(self.me, self.index, phase, &self.barrier.spin_wait, deadline);
        self.arrived = (end == Err(Stuck::TimedOut)).then_some(phase);
        match end {
            Ok(passed) => Ok(Turn { serial: passed == Passed::Serial }),
            Err(stuck) => Err(self.barrier.error(stuck)),
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.barrier.home.registry().current_bits() == self.me.id.as_u32() {
            self.barrier.raw().leave(self.me, self.index);
        }
    }
}

impl fmt::Debug for Seat<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("participant", &self.me.id).field("index", &self.index).finish()
    }
}

/// A barrier for `N` participants, for use as a field of a [`record!`](crate::record): 64 bytes and 4 a seat.
///
/// All zeroes are a barrier without participants, which a death breaks.
#[repr(C)]
pub struct EmbeddedBarrier<const N: usize> {
    words: BarrierWords,
    seats: [AtomicU32; N],
}

// SAFETY: all its fields are atomics.
unsafe impl<const N: usize> Shared for EmbeddedBarrier<N> {}
// SAFETY: atomics.
unsafe impl<const N: usize> SharedField for EmbeddedBarrier<N> {
    const PRIMITIVES: usize = 1;
    fn primitive(_: usize) -> Place {
        const { assert!(N >= 1 && N <= MOST_PARTIES as usize) };
        Place { offset: 0, kind: Kind::Barrier, number: N as u32 }
    }
}

impl<const N: usize> EmbeddedBarrier<N> {
    /// What the death of a participant does, in [`Record::open`](super::Record::open)'s initialiser.
    pub fn set_policy(&mut self, when_one_dies: WhenOneDies) {
        set_policy(&self.words, when_one_dies);
    }
}

impl<const N: usize> Embed for EmbeddedBarrier<N> {
    type Handle = Barrier;
    fn handle(home: Home<EmbeddedBarrier<N>>) -> Barrier {
        // As in a record that was made today; the same value whoever writes it.
        home.shared().words.parties.store(N as u32, Ordering::Relaxed);
        let seats = NonNull::from(home.shared().seats.as_slice());
        Barrier { home: home.part(|embedded| &embedded.words), seats, spin_wait: SpinWait::new() }
    }
}

/// How many seats one in a record has.
pub(super) fn note_seats(segment: &Segment, offset: u64, seats: u32) -> Result<(), Error> {
    segment.at::<BarrierWords>(offset)?.parties.store(seats, Ordering::Relaxed);
    Ok(())
}

/// The same, as it has been noted; 0: not yet.
pub(super) fn noted_seats(segment: &Segment, offset: u64) -> Result<u32, Error> {
    Ok(segment.at::<BarrierWords>(offset)?.parties.load(Ordering::Relaxed))
}

/// Bytes and alignment of one in a record; `None` for a number that none has.
pub(super) const fn shape_in_record(seats: u32) -> Option<(usize, usize)> {
    if seats >= 1 && seats <= MOST_PARTIES {
        Some((size_of::<BarrierWords>() + seats as usize * 4, align_of::<BarrierWords>()))
    } else {
        None
    }
}

/// In a record's initialiser: what a death does.
///
/// # Safety
/// At `at` begin the words of a barrier that nobody else sees yet.
pub(super) unsafe fn prepare_at(at: *mut u8, when_one_dies: WhenOneDies) {
    // SAFETY: the caller's promise; every pattern of bytes is a value.
    set_policy(unsafe { &*at.cast::<BarrierWords>() }, when_one_dies);
}

/// A barrier of any size, for those who look at a domain from outside.
pub(super) struct Seen<'a>(RawBarrier<'a>);

impl<'a> Seen<'a> {
    /// What lies at `offset`. An embedded one of an older build's that nobody has used yet has no seats.
    pub(super) fn at(segment: &'a Segment, offset: u64) -> Result<Seen<'a>, Error> {
        let words = segment.at::<BarrierWords>(offset)?;
        let parties = words.parties.load(Ordering::Relaxed);
        if parties > MOST_PARTIES {
            return Err(segment.damaged("a barrier's size"));
        }
        let seats = words_at(segment, offset + size_of::<BarrierWords>() as u64, parties as usize)?;
        Ok(Seen(RawBarrier { words, seats }))
    }
}

impl Inspect for Seen<'_> {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let participants = self.0.participants();
        let arrived = participants.iter().filter(|(_, arrived)| *arrived).count();
        let (seated, seats) = (participants.len(), self.0.seats.len());
        let state = if self.0.is_broken() {
            "broken by a participant's death".to_owned()
        } else {
            format!("{arrived} arrived, {seated} of {seats} seats taken")
        };
        LockDetail {
            state: Some(state),
            figures: vec![("seats", seats as u64), ("seated", seated as u64), ("arrived", arrived as u64)],
            holders: participants.into_iter().map(|(token, _)| Holder::of(registry, token)).collect(),
            ..LockDetail::default()
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        self.0.sweep(me, dry_run)
    }
}
