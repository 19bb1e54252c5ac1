//! A domain's registry of tokens: the file `.tokens`, mapped once in a process and never unmapped.
//!
//! Never unmapped: if a thread is killed between giving back a robust word and clearing its pending
//! entry, the kernel looks at that word once more, and a slot must still be mapped there.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64 as StdAtomicU64, Ordering as StdOrdering};
use std::time::Duration;

use super::doorbell::{DOORBELLS, Doorbell};
use super::id::TokenId;
use super::slot::Slot;
use crate::segment::{BODY, Contents, Folder, Opening, Segment, SharedLayout, Spec};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::sys::resident::Residency;
use crate::sys::{barrier, futex, identity, libc_mutex};
use crate::{Error, Kind};

/// The registry's file name in its domain.
pub(crate) const FILE: &str = ".tokens";
/// The most slots: an id has bits for so many.
pub(crate) const MOST_SLOTS: u32 = 1 << 16;
const FIRST_SLOTS: u32 = 224;
/// When a claimer meets so many quarantined slots in a row, a sweep pays.
const MANY_QUARANTINED: u32 = 32;
const SLOT: u64 = size_of::<Slot>() as u64;
/// The body's first page holds the registry's own words; slots begin on the next page.
const SLOTS_AT: u64 = BODY + 4096;
/// One thread page has room for so many registries' ids; index 0 is never used.
pub(crate) const MOST_REGISTRIES: usize = 960;

/// The registry's own words.
#[repr(C)]
struct RegistryHeader {
    // The file's length says how many slots exist: a word could be overwritten, and living owners
    // would then read dead.
    reserved: [AtomicU32; 32],
    // Written by every claimer.
    cursor: AtomicU32,
    reserved_too: [AtomicU32; 31],
    // Always 0: the shared relay, see wake/sleep.rs.
    relay: AtomicU32,
    reserved_three: [AtomicU32; 31],
    // Written rarely, by any process.
    rescues: AtomicU64,
    sweeps: AtomicU64,
    owner_deaths: AtomicU64,
    // Written by each process that makes or removes a name in the domain; watchers sleep on it.
    changes: AtomicU32,
    reserved_four: AtomicU32,
    reserved_five: [AtomicU64; 76],
    // Written by large wait sets, and by the notifiers that wake them.
    doorbells: [Doorbell; DOORBELLS],
}

crate::shim::assert_layout!(
    core::mem::offset_of!(RegistryHeader, doorbells) == 1024,
    size_of::<RegistryHeader>() as u64 <= SLOTS_AT - BODY,
);

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl SharedLayout for RegistryHeader {}

/// See the file's head.
pub struct Registry {
    segment: Segment,
    path: PathBuf,
    /// Position in every thread page; never 0.
    pub(crate) index: usize,
    /// The position at which fast paths look: the same one, or, while the process records the order
    /// of locks, 0, where no thread ever has a token.
    pub(super) fast: std::sync::atomic::AtomicUsize,
    pub(crate) layout: libc_mutex::Layout,
    /// Slots that this process has seen to exist. A look at a token is one load of this besides its
    /// slot: asking for the file's length each time would be a system call.
    known_slots: std::sync::atomic::AtomicU32,
    /// Nanoseconds; 0 is off.
    recheck: StdAtomicU64,
    /// How new handles wait, as `wake` numbers it.
    wait_strategy: std::sync::atomic::AtomicU32,
    /// Set when a claimer met many quarantined slots; the next thread that has a token sweeps.
    sweep_wanted: std::sync::atomic::AtomicBool,
    /// The process token, claimed at first use: see `process_token`.
    pub(super) process: super::process_token::Cell,
    /// Keeps the inode number from being reused while the registry is in the table below.
    _folder: OwnedFd,
}

/// All registries that this process has ever opened, by device and inode of their file.
static OPENED: Mutex<Vec<((u64, u64), &'static Registry)>> = Mutex::new(Vec::new());

/// How long a sleeper sleeps before it looks again by itself, unless the domain says otherwise.
pub(crate) const DEFAULT_RECHECK: Duration = Duration::from_secs(1);

impl Registry {
    /// Opens a domain's registry; one and the same for all openings of that domain in this process.
    pub(crate) fn open(folder: &Folder) -> Result<&'static Registry, Error> {
        let system = |doing, errno| Error::from_errno(doing, folder.path(), errno);
        let spec = Spec {
            kind: Kind::Registry,
            type_name: String::new(),
            type_size: SLOT,
            type_align: SLOT,
            reserve: SLOTS_AT + u64::from(MOST_SLOTS) * SLOT,
            max_bytes: SLOTS_AT + u64::from(MOST_SLOTS) * SLOT,
            initial: SLOTS_AT + u64::from(FIRST_SLOTS) * SLOT,
            description: None,
        };
        // What was a domain is not made anew when its registry has been removed meanwhile: the
        // tokens in its other files are of the old one.
        let opening = match folder.contents() {
            Contents::Domain => Opening::Open,
            Contents::Nothing => Opening::OpenOrCreate,
        };
        let (segment, ()) = Segment::open_as(folder, FILE, opening, &spec, |_| Ok(()), |_| Ok(()))?;
        segment.exists(SLOTS_AT + u64::from(FIRST_SLOTS) * SLOT)?;
        // The owner of a slot that this process had not mapped would read dead.
        segment.expect_mapped(SLOTS_AT + u64::from(MOST_SLOTS) * SLOT)?;
        let facts = segment.facts()?;
        let mut opened = OPENED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(&(_, registry)) = opened.iter().find(|(file, _)| *file == facts.identity()) {
            return Ok(registry);
        }
        let index = opened.len() + 1;
        if index >= MOST_REGISTRIES {
            let path = folder.path().to_path_buf();
            return Err(Error::TooMany { what: "domains", path, max: MOST_REGISTRIES as u32 - 1 });
        }
        let layout =
            libc_mutex::layout().map_err(|errno| system("lay out a robust mutex in", errno))?;
        barrier::register();
        let registry: &'static Registry = Box::leak(Box::new(Registry {
            path: folder.path().to_path_buf(),
            index,
            fast: std::sync::atomic::AtomicUsize::new(index),
            layout,
            known_slots: std::sync::atomic::AtomicU32::new(FIRST_SLOTS),
            recheck: StdAtomicU64::new(DEFAULT_RECHECK.as_nanos() as u64),
            wait_strategy: std::sync::atomic::AtomicU32::new(0),
            sweep_wanted: std::sync::atomic::AtomicBool::new(false),
            process: super::process_token::Cell::new(),
            _folder: folder.fd()?.try_clone_to_owned().map_err(|e| {
                system(
                    "keep open",
                    crate::sys::Errno::from_io_error(&e).unwrap_or(crate::sys::Errno::IO),
                )
            })?,
            segment,
        }));
        opened.push((facts.identity(), registry));
        Ok(registry)
    }

    /// Returns what `binding` of this process's slots must be: its pid namespace and its libc.
    pub(crate) fn binding(&self) -> Result<u64, Error> {
        let namespace = identity::pid_namespace()
            .map_err(|errno| Error::from_errno("find the pid namespace for", &self.path, errno))?;
        Ok(u64::from(namespace) << 32 | 1 << 8 | u64::from(self.layout.word_offset))
    }

    fn header(&self) -> &RegistryHeader {
        // SAFETY: `open` has checked that the file holds at least FIRST_SLOTS slots behind the
        // header; page-aligned.
        unsafe { &*self.segment.address(BODY).cast::<RegistryHeader>() }
    }

    /// Returns how many slots exist, by a system call.
    ///
    /// The file's length says it. `fallocate` lengthens the file once all the pages exist, and no
    /// file of a domain shrinks.
    pub(crate) fn slots(&self) -> u32 {
        self.look().0
    }

    /// Returns how many slots exist, and whether this process's descriptor still belongs to the
    /// registry's file, so that it can lengthen the file. One system call answers both.
    fn look(&self) -> (u32, Result<(), Error>) {
        let facts = self.segment.facts();
        let slots = match &facts {
            Ok(facts) => facts.len.saturating_sub(SLOTS_AT) / SLOT,
            // The descriptor is closed or another file's, or a filter denies the call.
            Err(_) => self.slots_by_their_memory(),
        };
        // Relaxed: a slower thread's lower figure is ignored.
        self.known_slots.fetch_max(slots.min(u64::from(MOST_SLOTS)) as u32, StdOrdering::Relaxed);
        (self.known_slots.load(StdOrdering::Relaxed), facts.map(drop))
    }

    /// Returns how many slots exist, asked of the mapping: the owner of an unknown slot must never
    /// read dead. The number only doubles, so one question for each doubling is enough.
    #[cold]
    fn slots_by_their_memory(&self) -> u64 {
        let mut slots = self.known_slots.load(StdOrdering::Relaxed);
        while slots < MOST_SLOTS {
            let next = (slots * 2).min(MOST_SLOTS);
            // SAFETY: `open` has mapped room for the most slots; the place is not read here.
            let last = unsafe { self.segment.address(SLOTS_AT + u64::from(next - 1) * SLOT) };
            if !crate::sys::futex::is_backed(last.cast()) {
                break;
            }
            slots = next;
        }
        u64::from(slots)
    }

    /// Returns the slot that an id names; `None` when that slot does not exist.
    #[inline]
    pub(crate) fn slot(&self, id: TokenId) -> Option<&'static Slot> {
        self.slot_at(id.slot())
    }

    #[inline]
    pub(crate) fn slot_at(&self, index: u32) -> Option<&'static Slot> {
        // A slot that this process has seen exists for good; only beyond these it asks the file.
        if index >= self.known_slots.load(StdOrdering::Relaxed) && index >= self.slots() {
            return None;
        }
        // SAFETY: `index` is below a number of slots that the file was seen to have, all mapped by
        // `open` and never unmapped; 128-aligned as the base is; the registry itself is leaked.
        Some(unsafe { &*self.segment.address(SLOTS_AT + u64::from(index) * SLOT).cast::<Slot>() })
    }

    /// Returns whether the token that an id names is alive.
    #[inline]
    pub(crate) fn is_alive(&self, id: TokenId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_alive(id))
    }

    /// Returns the shared relay: on this word the kernel relays a dying sleeper's wake-up where the
    /// sleeper watches several owners. See wake/sleep.rs.
    pub(crate) fn relay(&self) -> &AtomicU32 {
        let relay = &self.header().relay;
        if relay.load(Ordering::Relaxed) != 0 {
            // A stray write: the word never means anything but 0.
            relay.store(0, Ordering::Relaxed);
        }
        relay
    }

    /// Wakes other sleepers, as a sleeper that used the shared relay must: see wake/sleep.rs.
    #[cold]
    pub(crate) fn wake_behind_shared_relay(&self) {
        self.all_slots().iter().for_each(Slot::wake_behind_shared_relay);
    }

    /// Makes the registry's words and all its slots resident: later tokens of other processes are
    /// looked at, too.
    pub(crate) fn make_resident(&self, residency: Residency) -> Result<(), Error> {
        let bytes = SLOTS_AT + u64::from(self.slots()) * SLOT;
        self.segment.make_part_resident(0, bytes, residency)
    }

    /// Returns the slots that exist now.
    fn all_slots(&self) -> &'static [Slot] {
        // SAFETY: `slots()` slots exist in the file and are mapped, as in `slot_at`; all their
        // fields are atomics.
        unsafe {
            std::slice::from_raw_parts(
                self.segment.address(SLOTS_AT).cast::<Slot>(),
                self.slots() as usize,
            )
        }
    }

    /// Doubles the slots, for a caller that has seen all of `seen` slots in use. Any number of
    /// threads and processes may call it at once. If another thread has added slots meanwhile, the
    /// call adds none: otherwise a crowd of threads would grow the registry to its largest at once.
    pub(crate) fn grow(&self, seen: u32) -> Result<(), Error> {
        let (now, can_grow) = self.look();
        if now > seen {
            return Ok(());
        }
        let next = (now * 2).min(MOST_SLOTS);
        if next <= now {
            return Err(Error::NoToken { path: self.path.clone() });
        }
        can_grow?;
        // The kernel lengthens the file in one step. A slower grower asks for a length that exists,
        // which changes nothing.
        self.segment.grow(SLOTS_AT + u64::from(now) * SLOT, u64::from(next - now) * SLOT)
    }

    /// Returns where the next claimer begins to look: each begins one further, so the oldest slots
    /// are used again first.
    pub(crate) fn next_start(&self) -> u32 {
        self.header().cursor.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes that a claimer passed over so many quarantined slots among those it looked at.
    pub(super) fn note_quarantined(&self, quarantined: u32, looked: u32) {
        if quarantined >= MANY_QUARANTINED && quarantined * 2 >= looked {
            self.sweep_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether a thread should sweep; one thread only gets true.
    pub(super) fn takes_sweep(&self) -> bool {
        self.sweep_wanted.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn recheck(&self) -> Option<Duration> {
        match self.recheck.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(Duration::from_nanos(nanos)),
        }
    }

    pub(crate) fn set_recheck(&self, span: Option<Duration>) {
        let nanos = span.map_or(0, |s| u64::try_from(s.as_nanos()).unwrap_or(u64::MAX).max(1));
        self.recheck.store(nanos, Ordering::Relaxed);
    }

    pub(crate) fn wait_strategy_number(&self) -> u32 {
        self.wait_strategy.load(Ordering::Relaxed)
    }

    pub(crate) fn set_wait_strategy_number(&self, number: u32) {
        self.wait_strategy.store(number, Ordering::Relaxed);
    }

    /// Makes every lock of this domain that this process takes from now on go by the slow path,
    /// which checks the order.
    pub(crate) fn watch_order(&self) {
        // Relaxed: a lock still taken by the fast path is not checked. Its guard is given back
        // either way.
        self.fast.store(0, StdOrdering::Relaxed);
    }

    /// Returns whether the process records the order of locks.
    pub(crate) fn watches_order(&self) -> bool {
        self.fast.load(StdOrdering::Relaxed) == 0
    }

    pub(crate) fn count_rescue(&self) {
        self.header().rescues.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn rescues(&self) -> u64 {
        self.header().rescues.load(Ordering::Relaxed)
    }

    /// Returns the words on which large wait sets sleep.
    pub(crate) fn doorbells(&self) -> &[Doorbell] {
        &self.header().doorbells
    }

    /// Takes the names of dead processes out of the doorbells, and returns how many there were.
    pub(crate) fn sweep_doorbells(&self, dry_run: bool) -> u32 {
        self.doorbells().iter().map(|doorbell| u32::from(doorbell.sweep(self, dry_run))).sum()
    }

    /// Returns the word that counts names made and removed: node/watch.rs sleeps on it.
    pub(crate) fn changes(&self) -> &AtomicU32 {
        &self.header().changes
    }

    /// Tells the watchers of the domain that a name has been made or removed. A process that dies or
    /// stops before this is made up for: watchers find the name at their recheck.
    pub(crate) fn note_change(&self) {
        let changes = self.changes();
        // Release: a watcher that sees it sees the name.
        changes.fetch_add(1, Ordering::Release);
        // Died or stopped here: watchers that are asleep find the change at their recheck.
        futex::wake_all(changes);
    }

    pub(crate) fn count_owner_death(&self) {
        self.header().owner_deaths.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn owner_deaths(&self) -> u64 {
        self.header().owner_deaths.load(Ordering::Relaxed)
    }
}
