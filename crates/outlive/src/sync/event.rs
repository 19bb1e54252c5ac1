//! Events and latches: two readings of one word (`raw/event.rs`). An event has 31 bits that
//! processes set, clear and wait for; a latch counts arrivals and opens for good.

use std::time::Duration;

use super::embedded::{Embedded, InRecord};
use super::primitive::{Handle, TypeOf, note_beginning};
use super::primitive::{Inspect, LockDetail, Primitive, Site, Sited};
use super::raw::event::{Begun, EventWord, Opens, RawEvent, VALUE};
use super::readiness::EventReadiness;
use crate::domain::{agree, three_openings};
use crate::liveness::{Me, Registry};
use crate::segment::{Header, Opening};
use crate::shim::Ordering;
use crate::{Deadline, Domain, Error, Kind, WaitError, WaitStrategy};

/// Says whether a wait leaves the bits that satisfied it, or clears them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// Bits stay set until a thread clears them: all that wait for them go on.
    Manual,
    /// A satisfied wait clears those bits in the same step: one waiter goes on.
    Automatic,
}

/// Holds 31 bits ([`Event::ALL`]), shared by name, and lets threads of any process wait until any
/// or all of some bits are set.
///
/// Setting wakes all waiters, and makes no system call when no thread waits. The event uses the
/// 32nd bit itself: the bit says in the same word that a thread waits, so bits are set and waiters
/// woken in one step.
///
/// With [`Reset::Manual`], a wait for any bit also returns when a bit was set and cleared again
/// before the waiter looked: all that wait when a bit is set go on, however soon it is cleared, and
/// no wait returns for a bit that was set only before it began. A wait for all of several bits
/// returns in the same way if one call of [`Event::clear`] cleared them together and no call has
/// cleared only some of them since. (A waiter that is stopped, and woken only after 2^30 later
/// calls, may be told of a bit in error.) With [`Reset::Automatic`], a bit is for one waiter: one
/// that is cleared before a waiter has taken it is for none.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-event-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::Event;
///
/// const STARTED: u32 = 1 << 0;
/// const CALIBRATED: u32 = 1 << 1;
/// let arm = Event::open_or_create(&domain, "arm")?;
/// arm.set(STARTED | CALIBRATED);
/// assert_eq!(arm.wait_all(STARTED | CALIBRATED).unwrap(), STARTED | CALIBRATED);
/// assert_eq!(arm.try_wait_any(1 << 7).unwrap(), None);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// In [`Event::set`]: the bits are set and all waiters are woken, or the bits are not set; the same
/// holds if it is stopped there. While it waits: other threads are not affected. With
/// [`Reset::Automatic`], a waiter that took bits and died has taken them. No waiter is told of the
/// death of the process that was to set a bit: watch that process
/// ([`Peer::wait_dead`](crate::Peer::wait_dead)), or wait with a deadline.
pub struct Event {
    handle: Handle<RawEvent>,
}

impl Sited for Event {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl Event {
    /// All bits of an event: 0 to 30. Bit 31 is never set, so a wait for it alone lasts for ever.
    pub const ALL: u32 = VALUE;

    /// Returns the options for opening an event, or making one.
    pub fn options() -> EventOptions {
        EventOptions { reset: None }
    }

    /// Opens the existing event of that name, whichever its reset.
    ///
    /// # Errors
    /// As [`EventOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Event, Error> {
        Event::options().open(domain, name)
    }

    /// Opens the event of that name, whichever its reset, or makes it with no bit set and with
    /// [`Reset::Manual`].
    ///
    /// # Errors
    /// As [`EventOptions::open_or_create`].
    ///
    /// # If a process dies
    /// While it makes the event: nothing is left of it.
    pub fn open_or_create(domain: &Domain, name: &str) -> Result<Event, Error> {
        Event::options().open_or_create(domain, name)
    }

    fn at(handle: Handle<RawEvent>) -> Event {
        Event { handle }
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Sets bits, wakes all waiters, and returns the bits that were set before. (If a thread waits,
    /// "before" is a moment earlier: of two threads that set the same bit at once, both may be told
    /// that it was not set.)
    ///
    /// # Panics
    /// When a bit is not one of [`Event::ALL`].
    ///
    /// # If a process dies
    /// Either the bits are not set, or they are set and all waiters are woken.
    #[inline]
    #[track_caller]
    pub fn set(&self, bits: u32) -> u32 {
        assert!(bits & !Event::ALL == 0, "an event has 31 bits, 0 to 30; these are {bits:#x}");
        self.raw().head.set(bits)
    }

    /// Clears bits, and returns those that were set before.
    ///
    /// With [`Reset::Manual`], threads that have waited for them since before they were cleared
    /// return all the same.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-clear-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::sync::Event;
    ///
    /// let frame = Event::open_or_create(&domain, "frame")?;
    /// std::thread::scope(|scope| {
    ///     let waiter = scope.spawn(|| frame.wait_any(1).unwrap());
    ///     while !waiter.is_finished() {
    ///         // A pulse: whichever threads wait go on, and the next ones wait for the next pulse.
    ///         frame.set(1);
    ///         frame.clear(1);
    ///     }
    ///     assert_eq!(waiter.join().unwrap(), 1);
    /// });
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), outlive::Error>(())
    /// ```
    ///
    /// # If a process dies
    /// Either the bits are cleared, or they are still set.
    #[inline]
    pub fn clear(&self, bits: u32) -> u32 {
        match Event::reset_of(self.raw()) {
            Reset::Manual => self.raw().clear(bits),
            Reset::Automatic => self.raw().head.clear_untold(bits),
        }
    }

    /// Returns the bits that are set just now.
    #[inline]
    pub fn bits(&self) -> u32 {
        self.raw().head.value()
    }

    /// Begins a wait, which [`Event::continue_wait`] continues: for bindings that wait in
    /// several parts, and must not miss a bit between them.
    #[doc(hidden)]
    pub fn begin_wait(&self) -> BegunWait {
        BegunWait(self.raw().begin())
    }

    /// Waits as [`Event::wait_any_until`] or [`Event::wait_all_until`] does, but as if it had
    /// waited since that point. Moves the point to where it has looked last.
    #[doc(hidden)]
    pub fn continue_wait(
        &self,
        since: &mut BegunWait,
        bits: u32,
        all: bool,
        deadline: Deadline,
    ) -> Result<Option<u32>, WaitError> {
        match self.take(bits, all) {
            Some(got) => Ok(Some(got)),
            None => self.wait_slow(bits, all, &mut since.0, deadline),
        }
    }

    /// Waits until one of these bits is set, and returns which of them are. With no bits at all,
    /// returns at once.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// No death ends this wait: see [`Event`].
    pub fn wait_any(&self, bits: u32) -> Result<u32, WaitError> {
        Deadline::never(|deadline| self.wait_until(bits, false, deadline))
    }

    /// Waits as [`Event::wait_any`] does, for so long at most; returns `None` when the time is
    /// over first.
    ///
    /// # Errors
    /// As [`Event::wait_any`].
    pub fn wait_any_timeout(&self, bits: u32, timeout: Duration) -> Result<Option<u32>, WaitError> {
        self.wait_any_until(bits, Deadline::after(timeout))
    }

    /// Waits as [`Event::wait_any`] does, until the deadline; returns `None` when it passes first.
    ///
    /// # Errors
    /// As [`Event::wait_any`].
    pub fn wait_any_until(&self, bits: u32, deadline: Deadline) -> Result<Option<u32>, WaitError> {
        self.wait_until(bits, false, deadline)
    }

    /// Waits until all of these bits are set at once, and returns them.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// No death ends this wait: see [`Event`].
    pub fn wait_all(&self, bits: u32) -> Result<u32, WaitError> {
        Deadline::never(|deadline| self.wait_until(bits, true, deadline))
    }

    /// Waits as [`Event::wait_all`] does, for so long at most; returns `None` when the time is
    /// over first.
    ///
    /// # Errors
    /// As [`Event::wait_all`].
    pub fn wait_all_timeout(&self, bits: u32, timeout: Duration) -> Result<Option<u32>, WaitError> {
        self.wait_all_until(bits, Deadline::after(timeout))
    }

    /// Waits as [`Event::wait_all`] does, until the deadline; returns `None` when it passes first.
    ///
    /// # Errors
    /// As [`Event::wait_all`].
    pub fn wait_all_until(&self, bits: u32, deadline: Deadline) -> Result<Option<u32>, WaitError> {
        self.wait_until(bits, true, deadline)
    }

    /// Returns which of these bits are set, and `None` if none is; clears them with
    /// [`Reset::Automatic`]. Never waits.
    ///
    /// # Errors
    /// None, so far: it has the form of the other three.
    #[inline]
    pub fn try_wait_any(&self, bits: u32) -> Result<Option<u32>, WaitError> {
        Ok(self.take(bits, false))
    }

    /// Returns these bits if all are set, else `None`; clears them with [`Reset::Automatic`]. Never
    /// waits.
    ///
    /// # Errors
    /// None, so far: it has the form of the other three.
    #[inline]
    pub fn try_wait_all(&self, bits: u32) -> Result<Option<u32>, WaitError> {
        Ok(self.take(bits, true))
    }

    /// Returns a source for a wait set.
    pub(crate) fn readiness(&self, bits: u32, all: bool) -> EventReadiness {
        EventReadiness::new(self.handle.clone().part(|raw| &raw.head), Opens::with(bits, all))
    }

    fn wait_until(
        &self,
        bits: u32,
        all: bool,
        deadline: Deadline,
    ) -> Result<Option<u32>, WaitError> {
        match self.take(bits, all) {
            Some(got) => Ok(Some(got)),
            None if deadline.has_passed() => Ok(None),
            None => self.wait_slow(bits, all, &mut self.raw().begin(), deadline),
        }
    }

    #[cold]
    fn wait_slow(
        &self,
        bits: u32,
        all: bool,
        begun: &mut Begun,
        deadline: Deadline,
    ) -> Result<Option<u32>, WaitError> {
        let (raw, registry) = (self.raw(), self.handle.registry());
        // Waiting needs no token; but with one, a process that inspects the domain finds the
        // waiting thread.
        self.handle.me().map_err(WaitError::System)?;
        let (spin_wait, opens) = (&self.handle.site().spin_wait, Opens::with(bits, all));
        let got = match Event::reset_of(raw) {
            Reset::Manual => raw.wait(registry, spin_wait, deadline, opens, begun),
            Reset::Automatic => {
                let take = |word: &EventWord| word.take(bits, all, true);
                raw.head.wait(registry, spin_wait, deadline, opens, take)
            }
        };
        got.map_err(|errno| WaitError::from_errno(registry, errno))
    }

    #[inline]
    fn take(&self, wanted: u32, all: bool) -> Option<u32> {
        let raw = self.raw();
        raw.head.take(wanted, all, Event::reset_of(raw) == Reset::Automatic)
    }

    #[inline]
    fn reset_of(raw: &RawEvent) -> Reset {
        // Relaxed: constant.
        match raw.head.option.load(Ordering::Relaxed) == Reset::Automatic as u32 {
            true => Reset::Automatic,
            false => Reset::Manual,
        }
    }

    #[inline]
    fn raw(&self) -> &RawEvent {
        self.handle.shared()
    }
}

/// The point at which a wait began: see [`Event::begin_wait`].
#[doc(hidden)]
#[derive(Debug)]
pub struct BegunWait(Begun);

/// Says how to open an event, or make one.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-event-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{Event, Reset};
///
/// let jobs = Event::options().reset(Reset::Automatic).create_new(&domain, "jobs")?;
/// // A process that names no reset takes the one that is there.
/// let same = Event::open(&domain, "jobs")?;
/// same.set(1);
/// assert_eq!(jobs.try_wait_any(1)?, Some(1));
/// assert_eq!(jobs.try_wait_any(1)?, None);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct EventOptions {
    reset: Option<Reset>,
}

impl EventOptions {
    /// Sets whether a satisfied wait clears the bits; by default not, in a new event.
    pub fn reset(mut self, reset: Reset) -> EventOptions {
        self.reset = Some(reset);
        self
    }

    three_openings!(Event, "event", "");

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Event, Error> {
        let new = self.reset.unwrap_or(Reset::Manual);
        let value = TypeOf::named(match new {
            Reset::Manual => "manual reset",
            Reset::Automatic => "automatic reset",
        });
        let init = |raw: &mut RawEvent, _: &Header| raw.head.prepare(0, new as u32);
        let handle = Handle::open_as(domain, name, opening, Kind::Event, value, init)?;
        let found = Event::reset_of(handle.shared()).name();
        agree(handle.segment(), "reset", found, self.reset.map(Reset::name))?;
        Ok(Event::at(handle))
    }
}

impl Reset {
    fn name(self) -> &'static str {
        match self {
            Reset::Manual => "manual",
            Reset::Automatic => "automatic",
        }
    }
}

/// Embeds an event as a field of a [`record!`](crate::record).
///
/// It takes 160 bytes; all zeroes are an event without bits set, with [`Reset::Manual`].
/// [`Record::handle`](super::Record::handle) returns the [`Event`] that uses it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-event-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{EmbeddedEvent, Record, Reset};
///
/// outlive::record! { pub struct Arm { pub moved: EmbeddedEvent } }
/// let arm = Record::<Arm>::options().init(|arm| arm.moved.set_reset(Reset::Automatic));
/// let arm = arm.open_or_create(&domain, "arm")?;
/// let moved = arm.handle(|arm| &arm.moved);
/// moved.set(1);
/// assert_eq!(moved.wait_any(1).unwrap(), 1);
/// assert_eq!(moved.bits(), 0);
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
pub type EmbeddedEvent = Embedded<RawEvent>;

impl EmbeddedEvent {
    /// Sets what waits do with the bits, while no other process can reach the event: in
    /// [`RecordOptions::init`](super::RecordOptions::init).
    pub fn set_reset(&mut self, reset: Reset) {
        self.words.head.prepare(0, reset as u32);
    }
}

// SAFETY: the words are the type, and nothing lies behind them.
unsafe impl InRecord<()> for RawEvent {
    const KIND: Kind = Kind::Event;
    type Handle = Event;

    fn handle(handle: Handle<EmbeddedEvent>) -> Event {
        Event { handle: handle.part(|embedded| &embedded.words) }
    }
}

/// Opens for good once a number of arrivals has been counted.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-latch-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::Latch;
///
/// let ready = Latch::options(2).open_or_create(&domain, "ready")?;
/// std::thread::scope(|scope| {
///     scope.spawn(|| ready.arrive(1));
///     scope.spawn(|| ready.arrive(1));
///     ready.wait().unwrap();
/// });
/// assert!(ready.is_open());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
///
/// # If a process dies
/// In [`Latch::arrive`]: the arrival is counted, and if it was the last, all waiters are woken; or
/// it is not counted. The same holds if it is stopped there. While it waits: other threads are not
/// affected. A missing arrival is no claim and names no thread: the latch waits for a party that
/// dies before it arrives. So wait with a deadline, or let a process that watches the parties
/// ([`Peer::wait_dead`](crate::Peer::wait_dead)) arrive in place of a dead one, or call
/// [`Latch::release`].
pub struct Latch {
    handle: Handle<EventWord>,
}

impl Sited for Latch {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl Latch {
    /// Returns the options for a latch that waits for so many arrivals, at most 2,147,483,647.
    pub fn options(arrivals: u32) -> LatchOptions {
        LatchOptions { arrivals: Some(arrivals) }
    }

    /// Opens the existing latch of that name, for whichever number of arrivals.
    ///
    /// # Errors
    /// As [`LatchOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Latch, Error> {
        LatchOptions { arrivals: None }.open(domain, name)
    }

    fn at(handle: Handle<EventWord>) -> Latch {
        Latch { handle }
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    /// Counts so many arrivals, at most as many as are missing, and returns how many are missing
    /// now.
    ///
    /// # If a process dies
    /// The arrivals are counted or not. The last one counted opens the latch for all waiters.
    pub fn arrive(&self, arrivals: u32) -> u32 {
        self.raw().count_down(arrivals)
    }

    /// Opens the latch, however many arrivals are missing.
    pub fn release(&self) {
        self.arrive(u32::MAX);
    }

    /// Returns how many arrivals are missing.
    pub fn missing(&self) -> u32 {
        self.raw().value()
    }

    /// Returns whether the latch is open.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.raw().value() == 0
    }

    /// Returns a source for a wait set.
    pub(crate) fn readiness(&self) -> EventReadiness {
        EventReadiness::new(self.handle.clone(), Opens::AtZero)
    }

    /// Waits until the latch is open.
    ///
    /// # Errors
    /// [`WaitError::System`].
    ///
    /// # If a process dies
    /// No death ends this wait: see [`Latch`].
    #[inline]
    pub fn wait(&self) -> Result<(), WaitError> {
        Deadline::never(|deadline| self.open_until(deadline))
    }

    /// Returns at once, with success if the latch is open.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`] while arrivals are missing.
    #[inline]
    pub fn try_wait(&self) -> Result<(), WaitError> {
        if self.is_open() { Ok(()) } else { Err(WaitError::TimedOut) }
    }

    /// Waits until the latch is open, for so long at most.
    ///
    /// # Errors
    /// As [`Latch::wait`], and [`WaitError::TimedOut`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), WaitError> {
        self.wait_until(Deadline::after(timeout))
    }

    /// Waits until the latch is open, or until the deadline.
    ///
    /// # Errors
    /// As [`Latch::wait`], and [`WaitError::TimedOut`].
    pub fn wait_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        self.open_until(deadline)?.ok_or(WaitError::TimedOut)
    }

    #[inline]
    fn open_until(&self, deadline: Deadline) -> Result<Option<()>, WaitError> {
        if self.is_open() { Ok(Some(())) } else { self.open_slow(deadline) }
    }

    #[cold]
    fn open_slow(&self, deadline: Deadline) -> Result<Option<()>, WaitError> {
        if deadline.has_passed() {
            return Ok(None);
        }
        let registry = self.handle.registry();
        // For inspection only: see `Event`.
        self.handle.me().map_err(WaitError::System)?;
        let open = |raw: &EventWord| (raw.value() == 0).then_some(());
        self.raw()
            .wait(registry, &self.handle.site().spin_wait, deadline, Opens::AtZero, open)
            .map_err(|errno| WaitError::from_errno(registry, errno))
    }

    #[inline]
    fn raw(&self) -> &EventWord {
        self.handle.shared()
    }
}

/// Says how to open a latch, or make one: see [`Latch::options`].
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct LatchOptions {
    /// `None`: of an existing one, whichever.
    arrivals: Option<u32>,
}

impl LatchOptions {
    three_openings!(
        Latch,
        "latch",
        "[`Error::InvalidOption`](crate::Error::InvalidOption) for more than 2,147,483,647 arrivals."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Latch, Error> {
        let arrivals = self.arrivals.unwrap_or(0);
        if arrivals > VALUE {
            return Err(Error::InvalidOption {
                what: "a latch's number of arrivals",
                wanted: arrivals.to_string().into(),
                why: "0 to 2,147,483,647",
            });
        }
        let init = |raw: &mut EventWord, header: &Header| {
            raw.prepare(arrivals, 0);
            note_beginning(header, arrivals);
        };
        let handle = Handle::open_as(domain, name, opening, Kind::Latch, TypeOf::nothing(), init)?;
        if let Some(found) = handle.beginning() {
            agree(handle.segment(), "number of arrivals", found, self.arrivals)?;
        }
        Ok(Latch::at(handle))
    }
}

/// Embeds a latch as a field of a [`record!`](crate::record).
///
/// It takes 32 bytes; all zeroes are an open latch. [`Record::handle`](super::Record::handle)
/// returns the [`Latch`] that uses it.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-latch-in-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::{EmbeddedLatch, Record};
///
/// outlive::record! { pub struct Line { pub ready: EmbeddedLatch } }
/// let line = Record::<Line>::options().init(|line| line.ready.expect_arrivals(3));
/// let line = line.open_or_create(&domain, "line")?;
/// let ready = line.handle(|line| &line.ready);
/// assert_eq!(ready.arrive(2), 1);
/// ready.release();
/// ready.wait().unwrap();
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), outlive::Error>(())
/// ```
pub type EmbeddedLatch = Embedded<EventWord>;

impl EmbeddedLatch {
    /// Sets for how many arrivals the latch waits, while no other process can reach it: in
    /// [`RecordOptions::init`](super::RecordOptions::init).
    pub fn expect_arrivals(&mut self, arrivals: u32) {
        self.words.prepare(arrivals.min(VALUE), 0);
    }
}

// SAFETY: the words are the type, and nothing lies behind them.
unsafe impl InRecord<()> for EventWord {
    const KIND: Kind = Kind::Latch;
    type Handle = Latch;

    fn handle(handle: Handle<EmbeddedLatch>) -> Latch {
        Latch { handle: handle.part(|embedded| &embedded.words) }
    }
}

impl Primitive for EventWord {
    const KINDS: &[Kind] = &[Kind::Latch];
}

impl Primitive for RawEvent {
    const KINDS: &[Kind] = &[Kind::Event];
}

impl Inspect for RawEvent {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        Inspect::look(&self.head, registry)
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        Inspect::sweep(&self.head, me, dry_run)
    }
}

impl Inspect for EventWord {
    fn look(&self, _: &'static Registry) -> LockDetail {
        let word = self.value();
        let what = if self.is_waited_for() { "a thread may wait" } else { "no thread waits" };
        LockDetail {
            state: Some(what.to_owned()),
            figures: vec![("word", u64::from(word))],
            ..LockDetail::default()
        }
    }

    /// Neither names an owner.
    fn sweep(&self, _: Me, _: bool) -> u32 {
        0
    }
}
