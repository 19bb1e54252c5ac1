//! A named barrier that knows its participants.

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::Holder;
use super::embedded::{Embedded, InRecord};
use super::error::AcquireError;
use super::primitive::{Handle, TypeOf, words_at};
use super::primitive::{Inspect, LockDetail, Primitive, Seen, Site, Sited};
use super::raw::barrier::{BarrierWords, COUNT_OUT, RawBarrier, Stuck};
use crate::domain::{agree, three_openings};
use crate::liveness::{Me, Registry};
use crate::segment::{Opening, Segment, SharedLayout};
use crate::shim::{AtomicU32, Ordering};
use crate::{Deadline, Domain, Error, Kind, WaitError, WaitStrategy};

/// Says what the death of a participant does to a [`Barrier`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenOneDies {
    /// It breaks the barrier: all waiters and all newcomers get [`AcquireError::Broken`] until
    /// [`Barrier::repair`] or [`Barrier::reset`].
    #[default]
    Break,
    /// It removes the participant: the others go on without it.
    CountOut,
}

/// Begins each phase when all participants have arrived in the one before; shared by name between
/// processes.
///
/// Each participant has a seat, which names its thread. The death of an absent participant wakes
/// the waiters, and the barrier breaks or goes on without it, as its maker chose. One participant
/// of each phase is told that it is the leader, and each has an index of its own. A barrier has 1
/// to 65,536 participants, threads of any processes.
///
/// Any process may [`abort`](Barrier::abort) a barrier, which breaks it for all, or
/// [`reset`](Barrier::reset) it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-barrier-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::Barrier;
///
/// let step = Barrier::options(2).open_or_create(&domain, "step")?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let mut seat = step.join().unwrap();
///             for _ in 0..3 {
///             // … this step's part …
///                 if seat.wait().unwrap().is_leader() {
///                 // … what one of them does for all …
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
/// Before it arrives: all waiters are woken, and the barrier breaks or goes on without it. After it
/// arrived: the phase ends as if it lived; the next phase finds it absent and dead. As the leader:
/// no other participant becomes the leader of that phase. (With more than 30 participants, the
/// kernel watches a few absent ones for each waiter, and each waiter looks at all seats once a
/// second.)
pub struct Barrier {
    pub(super) handle: Handle<BarrierWords>,
    seats: NonNull<[AtomicU32]>,
}

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl SharedLayout for BarrierWords {}
// SAFETY: the shared words are atomics; the handle's own fields are `Send + Sync`.
unsafe impl Send for Barrier {}
// SAFETY: the shared words are atomics; the handle's own fields are `Send + Sync`.
unsafe impl Sync for Barrier {}

const MOST_PARTIES: u32 = 1 << 16;

/// Says how to open a barrier, or make one: see [`Barrier::options`].
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-barrier-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{Barrier, WhenOneDies};
///
/// let options = Barrier::options(1).when_one_dies(WhenOneDies::CountOut);
/// let step = options.create_new(&domain, "step")?;
/// assert!(step.join()?.wait()?.is_leader());
/// assert!(Barrier::options(2).open(&domain, "step").is_err(), "it has one participant");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct BarrierOptions {
    /// `None`: of an existing one, whichever.
    parties: Option<u32>,
    when_one_dies: Option<WhenOneDies>,
}

impl BarrierOptions {
    /// Sets what the death of a participant does; by default it breaks a new barrier.
    pub fn when_one_dies(mut self, when_one_dies: WhenOneDies) -> BarrierOptions {
        self.when_one_dies = Some(when_one_dies);
        self
    }

    three_openings!(
        Barrier,
        "barrier",
        "[`Error::InvalidOption`](crate::Error::InvalidOption) for no participants, or more than \
         65,536."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Barrier, Error> {
        let parties = self.parties.unwrap_or(1);
        if !(1..=MOST_PARTIES).contains(&parties) {
            return Err(Error::InvalidOption {
                what: "a barrier's number of participants",
                wanted: parties.to_string().into(),
                why: "1 to 65,536",
            });
        }
        let handle = Handle::<BarrierWords>::open_with_tail(
            domain,
            name,
            opening,
            (Kind::Barrier, TypeOf::nothing()),
            parties as usize,
            |words, _, _| {
                words.parties.store(parties, Ordering::Relaxed);
                set_policy(words, self.when_one_dies.unwrap_or_default());
            },
        )?;
        let found = handle.shared().parties.load(Ordering::Relaxed);
        if !(1..=MOST_PARTIES).contains(&found) {
            return Err(handle.damaged("a barrier's size"));
        }
        agree(handle.segment(), "number of participants", found, self.parties)?;
        let policy = policy_of(handle.shared()).name();
        agree(
            handle.segment(),
            "rule for a death",
            policy,
            self.when_one_dies.map(WhenOneDies::name),
        )?;
        let seats = handle.tail(found as usize)?;
        Ok(Barrier { handle, seats })
    }
}

impl WhenOneDies {
    fn name(self) -> &'static str {
        match self {
            WhenOneDies::Break => "break",
            WhenOneDies::CountOut => "count out",
        }
    }
}

impl Sited for Barrier {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl Barrier {
    /// Returns the options for a barrier of so many participants, 1 to 65,536.
    pub fn options(parties: u32) -> BarrierOptions {
        BarrierOptions { parties: Some(parties), when_one_dies: None }
    }

    /// Opens the existing barrier of that name, of whichever number of participants.
    ///
    /// # Errors
    /// As [`BarrierOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Barrier, Error> {
        BarrierOptions { parties: None, when_one_dies: None }.open(domain, name)
    }

    /// Returns the barrier at `offset` of a file: in a record with so many `seats`, elsewhere as
    /// many as its own words say.
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
        let seats = NonNull::from(words_at(
            segment,
            offset + size_of::<BarrierWords>() as u64,
            parties as usize,
        )?);
        Ok(Barrier { handle: Handle::inside(words, registry, segment), seats })
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Returns how many participants it has seats for.
    pub fn parties(&self) -> usize {
        self.raw().seats.len()
    }

    /// Returns how many participants have arrived in the present phase; 0 while it is broken.
    pub fn arrived(&self) -> usize {
        self.raw().arrived()
    }

    pub(super) fn raw(&self) -> RawBarrier<'_> {
        // SAFETY: `open` or `inside` has checked the place, and `handle` keeps it mapped.
        RawBarrier { words: self.handle.shared(), seats: unsafe { self.seats.as_ref() } }
    }

    /// Breaks the barrier: all waiters, and all participants that arrive or join from now on, get
    /// [`AcquireError::Broken`] until [`Barrier::repair`] or [`Barrier::reset`]. Any thread may
    /// call it, with a seat or without, and it does not wait. A participant whose wait ended by its
    /// deadline calls [`Seat::abort`](super::Seat::abort) instead.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-barrier-abort-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::{AcquireError, Barrier};
    ///
    /// let step = Barrier::options(2).open_or_create(&domain, "step")?;
    /// let mut seat = step.join()?;
    /// step.abort();
    /// assert_eq!(seat.wait(), Err(AcquireError::Broken));
    /// step.reset()?;
    /// assert!(!step.is_broken());
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// During this call: it is as if the process had not called it, or the barrier is broken and no
    /// waiter sleeps on.
    pub fn abort(&self) {
        self.raw().abort();
    }

    /// Makes the barrier empty again: participants that have arrived get
    /// [`AcquireError::Broken`], once, and begin a new phase with all others. Dead participants
    /// lose their seats, living ones keep theirs. If the barrier was broken, it is whole
    /// afterwards.
    ///
    /// Participants that arrive during a reset wait for its end, until their deadline. A
    /// [`Barrier::abort`] during a reset leaves the barrier broken.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// During this call: nothing has happened, or the next participant that arrives ends the reset;
    /// a barrier that was broken before may be broken still.
    pub fn reset(&self) -> Result<(), WaitError> {
        self.reset_until(Deadline::NEVER)
    }

    /// Resets the barrier as [`Barrier::reset`] does, but waits for no other thread that resets or
    /// repairs it.
    ///
    /// # Errors
    /// As [`Barrier::reset`], and [`WaitError::TimedOut`] while another thread is at it.
    ///
    /// # If a process dies
    /// As with [`Barrier::reset`].
    pub fn try_reset(&self) -> Result<(), WaitError> {
        self.reset_until(Deadline::at_nanos(0))
    }

    /// Resets the barrier as [`Barrier::reset`] does, and waits so long at most while another
    /// thread resets or repairs it.
    ///
    /// # Errors
    /// As [`Barrier::reset`], and [`WaitError::TimedOut`].
    ///
    /// # If a process dies
    /// As with [`Barrier::reset`].
    pub fn reset_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.reset_until(Deadline::after(timeout))
    }

    /// Resets the barrier as [`Barrier::reset`] does, and waits until the deadline while another
    /// thread resets or repairs it.
    ///
    /// # Errors
    /// As [`Barrier::reset`], and [`WaitError::TimedOut`] when that thread is stopped, say.
    ///
    /// # If a process dies
    /// As with [`Barrier::reset`].
    pub fn reset_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        let me = self.handle.me().map_err(WaitError::System)?;
        self.mended(self.raw().reset(me, &self.handle.site().spin_wait, deadline))
    }

    /// Makes a broken barrier whole: dead participants lose their seats, which others may take;
    /// living ones keep theirs and begin a new phase. It does nothing to a barrier that is not
    /// broken. Any number of participants may call it at once; one repairs, the others wait for it.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// During this call: the barrier is still broken, or whole.
    pub fn repair(&self) -> Result<(), WaitError> {
        self.repair_until(Deadline::NEVER)
    }

    /// Makes a broken barrier whole as [`Barrier::repair`] does, but waits for no other thread that
    /// repairs.
    ///
    /// # Errors
    /// As [`Barrier::repair`], and [`WaitError::TimedOut`] while another thread repairs.
    ///
    /// # If a process dies
    /// As with [`Barrier::repair`].
    pub fn try_repair(&self) -> Result<(), WaitError> {
        self.repair_until(Deadline::at_nanos(0))
    }

    /// Makes a broken barrier whole as [`Barrier::repair`] does, and waits so long at most while
    /// another thread repairs.
    ///
    /// # Errors
    /// As [`Barrier::repair`], and [`WaitError::TimedOut`].
    ///
    /// # If a process dies
    /// As with [`Barrier::repair`].
    pub fn repair_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.repair_until(Deadline::after(timeout))
    }

    /// Makes a broken barrier whole as [`Barrier::repair`] does, and waits until the deadline while
    /// another thread repairs.
    ///
    /// # Errors
    /// As [`Barrier::repair`], and [`WaitError::TimedOut`] when that thread is stopped, say.
    ///
    /// # If a process dies
    /// As with [`Barrier::repair`].
    pub fn repair_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        let me = self.handle.me().map_err(WaitError::System)?;
        self.mended(self.raw().repair(me, &self.handle.site().spin_wait, deadline))
    }

    /// Returns how a repair or a reset ended.
    fn mended(&self, end: Result<(), Stuck>) -> Result<(), WaitError> {
        match end {
            Ok(()) => Ok(()),
            Err(Stuck::System(errno)) => Err(WaitError::from_errno(self.handle.registry(), errno)),
            Err(Stuck::Damaged) => {
                Err(WaitError::System(self.handle.damaged("the word of a barrier's repair")))
            }
            // A repair gives up for no other reason.
            Err(_) => Err(WaitError::TimedOut),
        }
    }

    /// Returns whether a death or an abort has broken the barrier.
    pub fn is_broken(&self) -> bool {
        self.raw().is_broken()
    }

    /// Returns the thread that repairs the barrier just now, dead or alive.
    #[doc(hidden)]
    #[cfg(feature = "testing")]
    pub fn repairer(&self) -> Option<Holder> {
        self.raw().repairer().map(|token| Holder::of(self.handle.registry(), token))
    }

    /// Returns the participants, and whether each has arrived in the present phase.
    pub fn participants(&self) -> Vec<(Holder, bool)> {
        let holder = |(token, arrived)| (Holder::of(self.handle.registry(), token), arrived);
        self.raw().participants().into_iter().map(holder).collect()
    }

    pub(super) fn me(&self) -> Result<Me, AcquireError> {
        self.handle.me().map_err(AcquireError::System)
    }

    pub(super) fn error(&self, stuck: Stuck) -> AcquireError {
        match stuck {
            Stuck::Broken => AcquireError::Broken,
            Stuck::Full => AcquireError::Full,
            // Joining and arriving do not wait, and a wait's end is told by `Seat::finish`.
            Stuck::NotSeated | Stuck::TimedOut => AcquireError::NotHeld,
            Stuck::Damaged => AcquireError::Damaged,
            Stuck::System(errno) => AcquireError::System(Error::from_errno(
                "wait for participants in",
                self.handle.registry().path(),
                errno,
            )),
        }
    }
}

fn policy_of(words: &BarrierWords) -> WhenOneDies {
    // Relaxed: constant.
    match words.policy.load(Ordering::Relaxed) {
        COUNT_OUT => WhenOneDies::CountOut,
        _ => WhenOneDies::Break,
    }
}

fn set_policy(words: &BarrierWords, when_one_dies: WhenOneDies) {
    let policy = if when_one_dies == WhenOneDies::CountOut { COUNT_OUT } else { 0 };
    words.policy.store(policy, Ordering::Relaxed);
}

/// Embeds a barrier for `N` participants as a field of a [`record!`](crate::record). It takes
/// 64 bytes and 4 for each seat.
///
/// All zeroes are an empty barrier with [`WhenOneDies::Break`].
pub type EmbeddedBarrier<const N: usize> = Embedded<BarrierWords, [AtomicU32; N]>;

impl<const N: usize> EmbeddedBarrier<N> {
    /// Sets what the death of a participant does, in
    /// [`RecordOptions::init`](super::RecordOptions::init).
    pub fn set_policy(&mut self, when_one_dies: WhenOneDies) {
        set_policy(&self.words, when_one_dies);
    }
}

// SAFETY: the words are the type, and atomics lie behind them.
unsafe impl<const N: usize> InRecord<[AtomicU32; N]> for BarrierWords {
    const KIND: Kind = Kind::Barrier;
    const NUMBER: u32 = {
        assert!(N >= 1 && N <= MOST_PARTIES as usize);
        N as u32
    };
    type Handle = Barrier;

    fn handle(handle: Handle<EmbeddedBarrier<N>>) -> Barrier {
        // A record that an older build made has no number here; every process writes the same.
        handle.shared().words.note(N as u32);
        let seats = NonNull::from(&handle.shared().value).cast::<[AtomicU32; N]>();
        Barrier { handle: handle.part(|embedded| &embedded.words), seats }
    }
}

impl Primitive for BarrierWords {
    const KINDS: &[Kind] = &[Kind::Barrier];

    fn shape(seats: u32) -> Option<(usize, usize)> {
        let bytes = size_of::<BarrierWords>() + seats as usize * 4;
        (1..=MOST_PARTIES).contains(&seats).then_some((bytes, align_of::<BarrierWords>()))
    }

    fn note(&self, seats: u32) {
        self.parties.store(seats, Ordering::Relaxed);
    }

    fn noted(&self) -> u32 {
        self.parties.load(Ordering::Relaxed)
    }
}

/// Returns the barrier at `offset` for a process that looks from outside. An embedded barrier that
/// an older build made and no process has used yet has no seats.
pub(super) fn seen(segment: &Segment, offset: u64) -> Seen<'_> {
    let words = segment.at::<BarrierWords>(offset)?;
    let parties = words.noted();
    if parties > MOST_PARTIES {
        return Err(segment.damaged("a barrier's size"));
    }
    let seats = words_at(segment, offset + size_of::<BarrierWords>() as u64, parties as usize)?;
    Ok(Some(Box::new(RawBarrier { words, seats })))
}

/// Sets, in a record's initialiser, what a death does.
///
/// # Safety
/// At `at` begin the words of a barrier, and no other process sees them yet.
pub(super) unsafe fn prepare_at(at: *mut u8, when_one_dies: WhenOneDies) {
    // SAFETY: the caller promises a barrier's words at `at`, unseen by others; they are atomics, so
    // any bytes are a value.
    set_policy(unsafe { &*at.cast::<BarrierWords>() }, when_one_dies);
}

impl Inspect for RawBarrier<'_> {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let participants = self.participants();
        let arrived = participants.iter().filter(|(_, arrived)| *arrived).count();
        let (seated, seats) = (participants.len(), self.seats.len());
        let state = if self.is_broken() {
            "broken".to_owned()
        } else {
            format!("{arrived} arrived, {seated} of {seats} seats taken")
        };
        LockDetail {
            state: Some(state),
            figures: vec![
                ("seats", seats as u64),
                ("seated", seated as u64),
                ("arrived", arrived as u64),
            ],
            holders: participants
                .into_iter()
                .map(|(token, _)| Holder::of(registry, token))
                .collect(),
            ..LockDetail::default()
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        RawBarrier::sweep(*self, me, dry_run)
    }
}
