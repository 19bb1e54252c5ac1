//! Sleeping until something changes that no single word shows: two words beside it, the sleeper pays for the fence.
//!
//! | `sleepers` | meaning | a death here |
//! | --- | --- | --- |
//! | even | nobody sleeps: ringing costs one load | |
//! | odd | somebody may sleep; each sleep takes a new number | whoever rings next finds it odd still, and wakes |
//!
//! The sleeper: a new odd number, `sequence`, a heavy fence, **look again**, sleep on `sequence`. The ringer, after it has
//! done what may be waited for: a light fence, look; odd: bump `sequence`, wake all, and only then that very number + 1.
//! Cleared before the wake, a death in between leaves the sleepers asleep; with a bare bit, a slow ringer clears a newer
//! sleeper's. Checked by doc/models/semaphore.pml and rw_lock.pml.
//!
//! A wait set announces itself to many bells before one fence for all (`announce`, doc/protocols/wait_set.md); a sleeper never
//! takes its number back, or another that has announced itself before would be overlooked.
//!
//! Not `raw_sleepers.rs`, though both have an epoch: there a wake may go to one alone, so it must pass on when that one
//! dies, through a word of its own to which `list_op_pending` points. Here all are woken, and a sleeper's
//! `list_op_pending` belongs to the holders that it waits for. Two words, and the fence is inside.

use std::time::Duration;

use crate::Deadline;
use crate::shim::{AtomicU32, Ordering};
use crate::sys::barrier;
use crate::sys::futex::{self, Watch};

/// See the file's head. All zeroes are a bell that nobody listens to.
#[repr(C)]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Bell {
    sleepers: AtomicU32,
    sequence: AtomicU32,
}

/// What a sleeper has seen before it looked again.
#[derive(Clone, Copy)]
pub(crate) struct Listening {
    sequence: u32,
    /// Whether every ringer is sure to notice; else the sleep must be short.
    is_heard: bool,
}

/// How long to sleep where a ringer may overlook us.
const SHORT: Duration = Duration::from_millis(10);

impl Listening {
    /// Until when to sleep at most before looking again.
    pub(crate) fn until(self, deadline: Deadline) -> Deadline {
        if self.is_heard { deadline } else { deadline.earlier(Deadline::after(SHORT)) }
    }
}

#[cfg(not(loom))]
// SAFETY: atomics.
unsafe impl crate::segment::Shared for Bell {}

impl Bell {
    #[cfg(loom)]
    pub(crate) fn new() -> Bell {
        Bell { sleepers: AtomicU32::new(0), sequence: AtomicU32::new(0) }
    }

    /// Odd: somebody may sleep. For who looks at it beside another such word, behind a light fence.
    #[inline]
    pub(crate) fn sleepers(&self) -> u32 {
        self.sleepers.load(Ordering::Relaxed)
    }

    /// Wakes whoever sleeps, after something has changed.
    #[inline]
    pub(crate) fn ring(&self) {
        self.ring_if(|| true);
    }

    /// As [`Bell::ring`], if the sleeper is one whom this concerns: it has said so before it listened.
    #[inline]
    pub(crate) fn ring_if(&self, concerns: impl FnOnce() -> bool) {
        // The change before the look: pairs with `heavy` in `listen`.
        barrier::light();
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        if sleepers & 1 == 1 && concerns() {
            self.ring_slow(sleepers);
        }
    }

    #[cold]
    #[inline(never)]
    fn ring_slow(&self, sleepers: u32) {
        // Whoever is about to sleep finds another number and does not.
        self.sequence.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(&self.sequence);
        // Died just before: odd still, the next to ring wakes in vain.
        let _ = self.sleepers.compare_exchange(sleepers, sleepers.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    }

    /// From now on whoever rings wakes the caller, who looks once more and then sleeps on [`Listening::watch`].
    #[cold]
    pub(crate) fn listen(&self) -> Listening {
        let sequence = self.announce();
        Listening { sequence, is_heard: barrier::heavy() }
    }

    /// As [`Bell::listen`], for a caller who sees to the fence between this and his look. What `sequence` was before.
    #[cold]
    pub(crate) fn announce(&self) -> u32 {
        // Acquire: what was done before a ring that we have missed is seen by the look that follows. Before the number: the
        // other way round, a ringer in between would clear a number whose owner then sleeps.
        let sequence = self.sequence.load(Ordering::Acquire);
        let mut seen = self.sleepers.load(Ordering::Relaxed);
        loop {
            let next = seen.wrapping_add(1) | 1;
            match self.sleepers.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return sequence,
                Err(now) => seen = now,
            }
        }
    }

    /// Whether nobody has rung since an announcement that gave that: it still stands.
    pub(crate) fn is_heard_by(&self, announced: u32) -> bool {
        self.sequence.load(Ordering::Acquire) == announced
    }

    /// The word that changes with each ring.
    pub(crate) fn sequence(&self) -> &AtomicU32 {
        &self.sequence
    }

    pub(crate) fn watch(&self, listening: Listening) -> Watch<'_> {
        Watch { word: &self.sequence, expected: listening.sequence }
    }
}
