//! A named semaphore that takes back the permits of dead holders.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering as StdOrdering};
use std::time::Duration;

use super::Holder;
use super::embedded::{Embedded, InRecord};
use super::error::AcquireError;
use super::primitive::{Handle, TypeOf, note_beginning, words_at};
use super::primitive::{Inspect, LockDetail, Primitive, Seen, Site, Sited};
use super::raw::Refused;
use super::raw::semaphore::{RawSemaphore, Records};
use super::wait_probes::wait_for_permits;
use crate::claim::Word;
use crate::domain::{agree, three_openings};
use crate::liveness::{Me, Registry, TokenId};
use crate::segment::{BODY, Opening, Segment, SharedLayout};
use crate::shim::{AtomicU32, Ordering};
use crate::wake::EventCount;
use crate::{Deadline, Domain, Error, Kind, WaitStrategy};

/// Counts permits, shared by name between processes; the permits of a dead holder become free.
///
/// Acquiring costs one compare-exchange, releasing one store, with no system call unless a thread
/// waits. A permit names the thread that holds it, so no process has to undo anything after a
/// death: a permit of a dead thread is free, and the death itself wakes a thread that sleeps for
/// one. [`Semaphore::acquire_many`] acquires several at once. A semaphore is not fair. It may have
/// up to 65,536 permits; up to 64 have a cache line each (4 KiB), more lie 16 to a line.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-semaphore-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::Semaphore;
///
/// let encoders = Semaphore::options(2).open_or_create(&domain, "encoders")?;
/// let first = encoders.acquire()?;
/// let second = encoders.acquire()?;
/// assert!(encoders.try_acquire()?.is_none());
/// drop(first);
/// let third = encoders.acquire()?;
/// # drop((second, third));
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// The permits of its threads are free from then on, and its death wakes the threads that sleep for
/// one. (The kernel watches 30 holders for a sleeper; where threads hold more permits, each sleeper
/// looks at all holders once a second.) A thread that ends gives back what it holds in the same
/// way. A process that dies inside [`Semaphore::add_permit`] has added the permit or not.
pub struct Semaphore {
    handle: Handle<SemaphoreWords>,
    records: NonNull<[AtomicU32]>,
    step: usize,
    /// Where this handle looks first: where it found its last permit, or behind that if it used the
    /// permit up; behind the last record if it has found none yet.
    hint: AtomicUsize,
    /// The record behind the permit that this handle added last. Adding and using up go the same
    /// way round, so the next permit is found at the first look.
    added: AtomicUsize,
}

/// The shared words before the records.
#[repr(C, align(64))]
pub struct SemaphoreWords {
    free: EventCount,
    /// See `RawSemaphore`.
    takers: AtomicU32,
    // Written once, before the file has a name.
    max_permits: AtomicU32,
    step: AtomicU32,
    /// See `RawSemaphore`. Written by threads that take several permits, and by sleepers.
    turn: Word,
    reserved: [AtomicU32; 10],
}

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl SharedLayout for SemaphoreWords {}
// SAFETY: the shared words are atomics; the handle's own fields are `Send + Sync`.
unsafe impl Send for Semaphore {}
// SAFETY: the shared words are atomics; the handle's own fields are `Send + Sync`.
unsafe impl Sync for Semaphore {}

/// The most permits there may be.
const MOST_PERMITS: u32 = 1 << 16;
/// Up to so many permits get a cache line each.
const SPREAD: u32 = 64;
const LINE: u32 = 16;

/// Says how to open a semaphore, or make one: see [`Semaphore::options`].
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-semaphore-options-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::sync::Semaphore;
///
/// // Counts parts: none at first, eight at most.
/// let parts = Semaphore::options(0).max_permits(8).open_or_create(&domain, "parts")?;
/// parts.add_permit()?;
/// parts.acquire()?.consume();
/// assert!(Semaphore::options(5).open(&domain, "parts").is_err(), "it began with another number");
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The default options take an existing semaphore as it is, and make a new one with one permit.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct SemaphoreOptions {
    /// `None`: as many as an existing one has; one in a new one.
    permits: Option<u32>,
    max_permits: Option<u32>,
}

impl SemaphoreOptions {
    /// Sets how many permits [`Semaphore::add_permit`] may bring the semaphore to; by default no
    /// more than there are at first, and at most 65,536.
    pub fn max_permits(mut self, max_permits: u32) -> SemaphoreOptions {
        self.max_permits = Some(max_permits);
        self
    }

    /// Allows as many permits as a semaphore can have: 65,536.
    pub fn unbounded(self) -> SemaphoreOptions {
        self.max_permits(MOST_PERMITS)
    }

    three_openings!(
        Semaphore,
        "semaphore",
        "[`Error::InvalidOption`](crate::Error::InvalidOption) when the options allow no permit at \
         all, more than 65,536, or more at first than at most."
    );

    fn open_as(self, domain: &Domain, name: &str, opening: Opening) -> Result<Semaphore, Error> {
        let permits = self.permits.unwrap_or(1);
        let max_permits = self.max_permits.or(self.permits).unwrap_or(1);
        let invalid = |wanted: u32, why| Error::InvalidOption {
            what: "a semaphore's number of permits",
            wanted: wanted.to_string().into(),
            why,
        };
        if !(1..=MOST_PERMITS).contains(&max_permits) {
            return Err(invalid(max_permits, "1 to 65,536"));
        }
        if permits > max_permits {
            return Err(invalid(permits, "no more than `max_permits`"));
        }
        let step = if max_permits <= SPREAD { LINE } else { 1 };
        let handle = Handle::<SemaphoreWords>::open_with_tail(
            domain,
            name,
            opening,
            (Kind::Semaphore, TypeOf::nothing()),
            (max_permits * step) as usize,
            |shared, header, tail| {
                shared.max_permits.store(max_permits, Ordering::Relaxed);
                shared.step.store(step, Ordering::Relaxed);
                Records { words: tail, step: step as usize }.prepare(permits as usize);
                note_beginning(header, permits);
            },
        )?;
        let shape = shape(handle.shared()).ok_or_else(|| handle.damaged("a semaphore's size"))?;
        if let Some(found) = handle.beginning() {
            agree(handle.segment(), "number of permits", found, self.permits)?;
        }
        agree(handle.segment(), "largest number of permits", shape.0 as u32, self.max_permits)?;
        let records = handle.tail(shape.0 * shape.1)?;
        Ok(Semaphore::at(handle, records, shape.1))
    }
}

/// Returns for how many permits a file has room, and how many words apart they are.
fn shape(words: &SemaphoreWords) -> Option<(usize, usize)> {
    let (most, step) =
        (words.max_permits.load(Ordering::Relaxed), words.step.load(Ordering::Relaxed));
    ((1..=MOST_PERMITS).contains(&most) && (step == 1 || step == LINE))
        .then_some((most as usize, step as usize))
}

impl Sited for Semaphore {
    fn site(&self) -> &Site {
        self.handle.site()
    }
}

impl Semaphore {
    /// Returns the options for a semaphore with so many permits at first: 1 to 65,536, or 0 if more
    /// may be added ([`SemaphoreOptions::max_permits`]).
    pub fn options(permits: u32) -> SemaphoreOptions {
        SemaphoreOptions { permits: Some(permits), max_permits: None }
    }

    /// Opens the existing semaphore of that name, with whichever number of permits.
    ///
    /// # Errors
    /// As [`SemaphoreOptions::open`].
    pub fn open(domain: &Domain, name: &str) -> Result<Semaphore, Error> {
        SemaphoreOptions::default().open(domain, name)
    }

    /// Returns the semaphore at `offset` of a file, of any size: in a record, `room` says how many
    /// permits it has room for; elsewhere its own words do.
    pub(super) fn inside(
        segment: &Arc<Segment>,
        registry: &'static Registry,
        offset: u64,
        room: Option<u32>,
    ) -> Result<Semaphore, Error> {
        let words = segment.at::<SemaphoreWords>(offset)?;
        let (most, step) = match room {
            Some(room) => {
                words.note(room);
                (room as usize, 1)
            }
            None => shape(words).ok_or_else(|| segment.damaged("a semaphore's size"))?,
        };
        let records = NonNull::from(words_at(
            segment,
            offset + size_of::<SemaphoreWords>() as u64,
            most * step,
        )?);
        Ok(Semaphore::at(Handle::inside(words, registry, segment), records, step))
    }

    fn at(handle: Handle<SemaphoreWords>, records: NonNull<[AtomicU32]>, step: usize) -> Semaphore {
        let hint = AtomicUsize::new(records.len() / step);
        Semaphore { handle, records, step, hint, added: AtomicUsize::new(0) }
    }

    /// Sets how this handle waits.
    pub fn set_wait_strategy(&self, wait: WaitStrategy) {
        self.handle.site().spin_wait.set(wait);
    }

    #[inline]
    pub(super) fn raw(&self) -> RawSemaphore<'_> {
        // SAFETY: `open` or `inside` has checked the place, and `handle` keeps it mapped.
        let words = unsafe { self.records.as_ref() };
        let SemaphoreWords { free, takers, turn, .. } = self.handle.shared();
        RawSemaphore { free, takers, turn, records: Records { words, step: self.step } }
    }

    /// Acquires a permit, waiting as long as living holders have all of them.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`] when this thread has all of them, [`AcquireError::System`].
    ///
    /// # If a process dies
    /// Each of its permits goes to a waiter at once, or within a second if the two waiters that
    /// were woken when that process got the permit are dead, too.
    #[inline]
    pub fn acquire(&self) -> Result<Permit<'_>, AcquireError> {
        match self.acquire_fast() {
            Some(permit) => Ok(permit),
            None => Deadline::never(|deadline| self.acquire_slow(deadline)),
        }
    }

    /// Acquires a permit as [`Semaphore::acquire`] does, for so long at most; returns `None` when
    /// living holders had all of them all the time.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    #[inline]
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Permit<'_>>, AcquireError> {
        match self.acquire_fast() {
            Some(permit) => Ok(Some(permit)),
            None => self.acquire_slow(Deadline::after(timeout)),
        }
    }

    /// Acquires a permit as [`Semaphore::acquire`] does, waiting until the deadline; returns `None`
    /// when living holders had all of them until then.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    #[inline]
    pub fn acquire_until(&self, deadline: Deadline) -> Result<Option<Permit<'_>>, AcquireError> {
        match self.acquire_fast() {
            Some(permit) => Ok(Some(permit)),
            None => self.acquire_slow(deadline),
        }
    }

    /// Acquires the permit that this handle acquired last, if it is free.
    #[inline]
    fn acquire_fast(&self) -> Option<Permit<'_>> {
        let bits = self.handle.registry().current_bits();
        let index = self.hint.load(StdOrdering::Relaxed);
        (bits != 0 && self.raw().acquire(TokenId::from_own(bits), index))
            .then(|| self.permit(TokenId::from_own(bits), index))
    }

    #[cold]
    #[inline(never)]
    fn acquire_slow(&self, deadline: Deadline) -> Result<Option<Permit<'_>>, AcquireError> {
        if deadline.has_passed() {
            return self.try_acquire();
        }
        let me = self.me()?;
        let (words, site) = (self.handle.shared(), self.handle.site());
        let got = wait_for_permits(
            words,
            site,
            1,
            || self.available_permits(),
            || self.raw().acquire_slow(me, &site.spin_wait, deadline, self.start(me)),
        );
        self.got(me, got)
    }

    /// Acquires a permit that is free, or one of a dead holder; returns `None` when living holders
    /// have all of them, this thread included. Never waits.
    ///
    /// # Errors
    /// [`AcquireError::System`].
    pub fn try_acquire(&self) -> Result<Option<Permit<'_>>, AcquireError> {
        let me = self.me()?;
        let got = self.raw().try_acquire(me, self.start(me));
        self.got(me, got)
    }

    /// Adds a permit that no thread held before.
    ///
    /// # Errors
    /// [`AcquireError::Full`] when the semaphore has as many permits as it may have: make it with a
    /// higher [`max_permits`](SemaphoreOptions::max_permits).
    ///
    /// # If a process dies
    /// During this call: the permit was added or not. If it was added, a sleeper may notice it only
    /// at the next release or addition, or at its own recheck, within a second.
    pub fn add_permit(&self) -> Result<(), AcquireError> {
        let added = self.raw().add(self.added.load(StdOrdering::Relaxed));
        let added = added.ok_or(AcquireError::Full)?;
        self.added.store(self.behind(added), StdOrdering::Relaxed);
        Ok(())
    }

    fn consume(&self, index: usize) {
        self.raw().consume(index);
        self.hint.store(self.behind(index), StdOrdering::Relaxed);
    }

    /// Returns the index of the next record, the first one behind the last.
    fn behind(&self, index: usize) -> usize {
        if index + 1 < self.max_permits() { index + 1 } else { 0 }
    }

    /// Takes up a permit that another thread handed to this thread or its process
    /// ([`Permit::hand_to`]), waiting until there is one.
    ///
    /// # Errors
    /// [`AcquireError::System`].
    ///
    /// # If a process dies
    /// No particular process has to hand a permit over, so no death ends this wait: give it a
    /// deadline, or wait for the death of the expected giver by [`Domain::wait_any_dead`].
    pub fn take_up(&self) -> Result<Permit<'_>, AcquireError> {
        Deadline::never(|deadline| self.take_up_until(deadline))
    }

    /// Takes up a permit as [`Semaphore::take_up`] does, but never waits; returns `None` if there
    /// is none.
    ///
    /// # Errors
    /// [`AcquireError::System`].
    pub fn try_take_up(&self) -> Result<Option<Permit<'_>>, AcquireError> {
        let me = self.me()?;
        let index = self.raw().take_up(me, &self.names(me));
        Ok(index.map(|index| self.permit(me.id, index)))
    }

    /// Takes up a permit as [`Semaphore::take_up`] does, for so long at most; returns `None` when
    /// the time is over first.
    ///
    /// # Errors
    /// As [`Semaphore::take_up`].
    pub fn take_up_timeout(&self, timeout: Duration) -> Result<Option<Permit<'_>>, AcquireError> {
        self.take_up_until(Deadline::after(timeout))
    }

    /// Takes up a permit as [`Semaphore::take_up`] does, waiting until the deadline; returns `None`
    /// when it passes first.
    ///
    /// # Errors
    /// As [`Semaphore::take_up`].
    pub fn take_up_until(&self, deadline: Deadline) -> Result<Option<Permit<'_>>, AcquireError> {
        if deadline.has_passed() {
            return self.try_take_up();
        }
        let me = self.me()?;
        let got = self.raw().take_up_until(me, &self.names(me), deadline);
        self.got(me, got)
    }

    /// Returns the threads that hold permits just now, dead or alive; one entry for each permit.
    pub fn holders(&self) -> Vec<Holder> {
        self.raw()
            .holders()
            .0
            .into_iter()
            .map(|token| Holder::of(self.handle.registry(), token))
            .collect()
    }

    /// Returns how many permits no thread holds just now.
    pub fn available_permits(&self) -> usize {
        self.raw().holders().1
    }

    /// Returns how many permits the semaphore may have at most: as many as it had at first, unless
    /// its maker chose more.
    pub fn max_permits(&self) -> usize {
        self.raw().records.len()
    }

    fn names(&self, me: Me) -> Vec<TokenId> {
        std::iter::once(me.id).chain(self.handle.registry().process_token_if_any()).collect()
    }

    #[inline]
    pub(super) fn me(&self) -> Result<Me, AcquireError> {
        self.handle.me().map_err(AcquireError::System)
    }

    /// Returns the calling thread's id; 0 if it has none yet.
    pub(super) fn current_bits(&self) -> u32 {
        self.handle.registry().current_bits()
    }

    /// Returns where this handle begins to look. Threads begin apart, so that they seldom meet.
    #[inline]
    pub(super) fn start(&self, me: Me) -> usize {
        let (hint, len) = (self.hint.load(StdOrdering::Relaxed), self.raw().records.len());
        if hint < len { hint } else { me.id.slot() as usize % len }
    }

    #[inline]
    fn got(&self, me: Me, got: Result<usize, Refused>) -> Result<Option<Permit<'_>>, AcquireError> {
        let got = AcquireError::settle(got, me)?;
        Ok(got.map(|index| {
            self.hint.store(index, StdOrdering::Relaxed);
            self.permit(me.id, index)
        }))
    }

    #[inline]
    pub(super) fn permit(&self, id: TokenId, index: usize) -> Permit<'_> {
        Permit { semaphore: self, id, index, _thread: PhantomData }
    }
}

/// Holds a permit, and gives it back when dropped.
///
/// A permit stays with the thread that it names. In a forked child, a permit of the parent's has no
/// effect.
///
/// # If a process dies
/// The permits of a dead process are free at once.
#[must_use = "a permit that is dropped is given back"]
pub struct Permit<'a, S: Deref<Target = Semaphore> = &'a Semaphore> {
    pub(super) semaphore: S,
    id: TokenId,
    index: usize,
    /// Neither Send nor Sync: `hand_to` is how it goes to another thread.
    _thread: PhantomData<(*mut (), &'a ())>,
}

impl<S: Deref<Target = Semaphore>> Permit<'_, S> {
    /// Returns which of the permits this is, from 0 on. No two holders have the same one at a time,
    /// so it may number the things that the permits stand for.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Hands the permit to another thread or process, which takes it up by
    /// [`Semaphore::take_up`]. One atomic store does it, so the
    /// permit always has an owner.
    ///
    /// # If a process dies
    /// The thread or process that gets it, before or after it takes the permit up: the permit is
    /// free, as if that one had held it.
    pub fn hand_to(self, to: TokenId) {
        if self.is_ours() {
            self.semaphore.raw().hand(self.index, to);
        }
        self.abandon();
    }

    /// Uses the permit up: the semaphore has one less, until a thread adds one
    /// ([`Semaphore::add_permit`]). So a semaphore can count things that one process makes and
    /// another uses up.
    pub fn consume(self) {
        if self.is_ours() {
            self.semaphore.consume(self.index);
        }
        self.abandon();
    }

    /// Makes it a permit that refers to its semaphore by `semaphore`.
    pub(super) fn by<'b, R: Deref<Target = Semaphore>>(self, semaphore: R) -> Permit<'b, R> {
        let (id, index) = (self.id, self.index);
        self.abandon();
        Permit { semaphore, id, index, _thread: PhantomData }
    }

    /// Ends this without giving the permit back: its thread goes on holding the permit until it
    /// ends. Unlike [`std::mem::forget`], this lets go of the [`Arc`] in an owned permit.
    #[inline]
    pub fn abandon(self) {
        let permit = ManuallyDrop::new(self);
        // SAFETY: `permit` is not dropped, so this is dropped once.
        drop(unsafe { core::ptr::read(&raw const permit.semaphore) });
    }

    /// Returns whether this process took the permit. A forked child has another token or none: the
    /// permit is its parent's.
    #[inline]
    fn is_ours(&self) -> bool {
        self.semaphore.handle.registry().current_bits() == self.id.as_u32()
    }
}

impl<S: Deref<Target = Semaphore>> Drop for Permit<'_, S> {
    #[inline]
    fn drop(&mut self) {
        if self.is_ours() {
            self.semaphore.raw().release(self.index);
        }
    }
}

impl<S: Deref<Target = Semaphore>> fmt::Debug for Permit<'_, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("holder", &self.id).field("index", &self.index).finish()
    }
}

/// Embeds a semaphore of `N` permits as a field of a [`record!`](crate::record). It takes 64 bytes
/// and 4 for each permit.
///
/// All zeroes are a semaphore with all permits free.
pub type EmbeddedSemaphore<const N: usize> = Embedded<SemaphoreWords, [AtomicU32; N]>;

impl<const N: usize> EmbeddedSemaphore<N> {
    /// Sets how many permits are free at first, in
    /// [`RecordOptions::init`](super::RecordOptions::init); without this, all `N` are.
    pub fn set_permits(&mut self, permits: usize) {
        Records { words: self.value.get_mut(), step: 1 }.prepare(permits);
    }
}

// SAFETY: the words are the type, and atomics lie behind them.
unsafe impl<const N: usize> InRecord<[AtomicU32; N]> for SemaphoreWords {
    const KIND: Kind = Kind::Semaphore;
    const NUMBER: u32 = {
        assert!(N >= 1 && N <= MOST_PERMITS as usize);
        N as u32
    };
    type Handle = Semaphore;

    fn handle(handle: Handle<EmbeddedSemaphore<N>>) -> Semaphore {
        // A record that an older build made has no number here; every process writes the same.
        handle.shared().words.note(N as u32);
        let records = NonNull::from(&handle.shared().value).cast::<[AtomicU32; N]>();
        Semaphore::at(handle.part(|embedded| &embedded.words), records, 1)
    }
}

impl Primitive for SemaphoreWords {
    const KINDS: &[Kind] = &[Kind::Semaphore];

    fn shape(room: u32) -> Option<(usize, usize)> {
        let bytes = size_of::<SemaphoreWords>() + room as usize * 4;
        (1..=MOST_PERMITS).contains(&room).then_some((bytes, align_of::<SemaphoreWords>()))
    }

    fn note(&self, room: u32) {
        self.max_permits.store(room, Ordering::Relaxed);
        self.step.store(1, Ordering::Relaxed);
    }

    fn noted(&self) -> u32 {
        self.max_permits.load(Ordering::Relaxed)
    }
}

/// Returns the semaphore at `offset` for a process that looks from outside; `None` if it does not
/// know its size yet.
pub(super) fn seen(segment: &Segment, offset: u64) -> Seen<'_> {
    let words = segment.at::<SemaphoreWords>(offset)?;
    let Some((most, step)) = shape(words) else {
        return if offset == BODY { Err(segment.damaged("a semaphore's size")) } else { Ok(None) };
    };
    let tail = words_at(segment, offset + size_of::<SemaphoreWords>() as u64, most * step)?;
    Ok(Some(Box::new(RawSemaphore {
        free: &words.free,
        takers: &words.takers,
        turn: &words.turn,
        records: Records { words: tail, step },
    })))
}

/// Sets, in a record's initialiser, how many of a semaphore's permits are free at first.
///
/// # Safety
/// At `at` begin the words of a semaphore with that much room, and no other process sees them yet.
pub(super) unsafe fn prepare_at(at: *mut u8, room: u32, permits: u32) {
    // SAFETY: the caller promises words with that room at `at`, unseen by others; the records lie
    // behind the words (`Primitive::shape`).
    let words = unsafe {
        std::slice::from_raw_parts(
            at.add(size_of::<SemaphoreWords>()).cast::<AtomicU32>(),
            room as usize,
        )
    };
    Records { words, step: 1 }.prepare(permits as usize);
}

impl Inspect for RawSemaphore<'_> {
    fn look(&self, registry: &'static Registry) -> LockDetail {
        let (holders, free) = self.holders();
        LockDetail {
            state: Some(format!("{free} of {} permits free", free + holders.len())),
            figures: vec![
                ("free", free as u64),
                ("held", holders.len() as u64),
                ("room", self.records.len() as u64),
            ],
            holders: holders.into_iter().map(|token| Holder::of(registry, token)).collect(),
            ..LockDetail::default()
        }
    }

    fn sweep(&self, me: Me, dry_run: bool) -> u32 {
        RawSemaphore::sweep(*self, me, dry_run)
    }
}
