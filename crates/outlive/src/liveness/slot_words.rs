//! The words of a slot, 128 bytes; the first cache line answers whether its owner lives.

use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// In `kind`: what the slot is claimed for.
pub(super) const KIND: u32 = 0xff;
pub(super) const THREAD: u32 = 1;
pub(super) const PROCESS: u32 = 2;
/// In `started`: so many low bits hold when the process was started, in clock ticks since boot.
/// Enough for 348 years.
const TICKS: u32 = 40;

/// One slot: see [`super::slot`] for its states.
#[repr(C, align(128))]
pub(crate) struct Slot {
    // Written by libc and the kernel.
    pub(super) libc_mutex: [AtomicU32; crate::sys::libc_mutex::ROOM / 4],
    // Written by claimers and retirers.
    pub(super) generation: AtomicU32,
    /// The holder's thread id in its own pid namespace.
    pub(super) tid: AtomicU32,
    /// Never names a thread. On this word the kernel relays a dying sleeper's wake-up: see
    /// wake/sleep.rs.
    pub(crate) relay: AtomicU32,
    /// A process token's second robust word, held by a keeper thread.
    pub(super) keeper: AtomicU32,
    // Second line: written by the claimer, before the id is known.
    /// Which pid namespace and which libc the slot belongs to: see `enroll`.
    pub(super) binding: AtomicU64,
    pub(super) pid: AtomicU32,
    /// Low byte: thread or process. The rest: the generation whose sleepers have all been woken,
    /// see `wake_behind_shared_relay`.
    pub(super) kind: AtomicU32,
    /// When the process was started; in the high bits, a thread's start mark: see `start_time`.
    pub(super) started: AtomicU64,
    pub(super) since: AtomicU64,
    pub(super) program: [AtomicU64; 2],
    /// The even generation up to which a sweep has looked for old claims: see `enroll`.
    pub(super) quarantine_ended: AtomicU32,
    // Written by the owner when it goes to sleep and when it wakes: see wake/record.rs.
    pub(crate) waiting_since: AtomicU32,
    pub(crate) waiting_at: AtomicU64,
}

crate::shim::assert_layout!(
    size_of::<Slot>() == 128,
    core::mem::offset_of!(Slot, generation) == 48,
    core::mem::offset_of!(Slot, binding) == 64,
    core::mem::offset_of!(Slot, waiting_at) == 120,
);

// SAFETY: `repr(C)`, all fields are atomics: any bytes are a value, and any process may change
// them.
unsafe impl crate::segment::SharedLayout for Slot {}

impl Slot {
    /// Returns libc's lock word.
    #[inline]
    pub(crate) fn word(&self) -> &AtomicU32 {
        // Relaxed: `binding` is set once, before the first claim. A damaged value must not lead
        // outside.
        let offset = self.binding.load(Ordering::Relaxed) as u8 as usize;
        self.libc_mutex.get(offset / 4).unwrap_or(&self.libc_mutex[0])
    }

    /// Returns the mutex's words, to prepare and lock it.
    pub(super) fn libc_mutex(&self) -> &[AtomicU32; crate::sys::libc_mutex::ROOM / 4] {
        &self.libc_mutex
    }

    /// Returns whether the slot is a process's, so that a keeper may hold the second word.
    pub(super) fn is_process(&self) -> bool {
        // Relaxed: written before the generation that the caller has read.
        self.kind() == PROCESS
    }

    /// Returns what it was claimed for: 1 a thread, 2 a process.
    pub(super) fn kind(&self) -> u32 {
        // Relaxed: written before the id was known.
        self.kind.load(Ordering::Relaxed) & KIND
    }

    /// Sets the kind, for the claimer. Clears the note of a former generation.
    pub(super) fn set_kind(&self, kind: u32) {
        self.kind.store(kind & KIND, Ordering::Relaxed);
    }

    /// Returns when the owner's process was started, in clock ticks since boot; 0: not known.
    pub(super) fn start_time(&self) -> u64 {
        // Relaxed: written before the id was known.
        self.started.load(Ordering::Relaxed) & ((1 << TICKS) - 1)
    }

    /// Returns a thread's start mark (`sys::procfs::start_mark`); 0: not known.
    pub(super) fn start_mark(&self) -> u32 {
        (self.started.load(Ordering::Relaxed) >> TICKS) as u32
    }

    /// Sets both, for the claimer.
    pub(super) fn set_started(&self, ticks: u64, mark: u32) {
        // No system returns more than fits.
        let ticks = if ticks >> TICKS == 0 { ticks } else { 0 };
        self.started.store(ticks | u64::from(mark) << TICKS, Ordering::Relaxed);
    }
}
