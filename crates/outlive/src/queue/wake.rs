//! Who wakes whom in a queue.
//!
//! | words | the sleeper | the waker |
//! | --- | --- | --- |
//! | `sleeping`, `sequence` | the receiver: a new odd number, `heavy`, look again, sleep on `sequence` | a sender, after READY or when it finds the queue full: bump, wake, then that very number + 1 |
//! | `bell` | wait sets: see `sync/bell.rs` | the same senders |
//! | `waiting`, `space` | senders: `waiting`, `heavy`, look again, sleep on `space` | the receiver, after it gave something back: clear, bump, wake; others who made memory free: bump, wake |
//!
//! Each waker looks at the sleeper's flag after it has done what the sleeper waits for, without a fence: the sleeper's
//! `heavy` puts that into every process. Each sleeper watches the end of who ought to wake it, too.

use std::cell::Cell;

use super::Shared;
use super::ring::Ring;
use crate::pool::Room;
use crate::shim::Ordering;
use crate::sys::barrier;
use crate::sys::futex;

/// The receiver has given something back.
#[inline]
pub(super) fn wake_senders(ring: &Ring) {
    // EMPTY before the look at `waiting`: pairs with the sender's `heavy`.
    barrier::light();
    if ring.head().waiting.load(Ordering::Relaxed) != 0 {
        wake_senders_slow(ring);
    }
}

#[cold]
fn wake_senders_slow(ring: &Ring) {
    let head = ring.head();
    // Clear, bump, wake: a sender that comes to wait in between sets it again. Died in between: they watch our end.
    head.waiting.store(0, Ordering::Relaxed);
    head.space.fetch_add(1, Ordering::AcqRel);
    futex::wake_all(&head.space);
}

/// Memory has become free that was nobody's message.
#[cold]
pub(super) fn wake_other_senders(ring: &Ring) {
    let head = ring.head();
    // Freed before the look at `waiting`: pairs with `heavy` in `wait_until`.
    barrier::light();
    if head.waiting.load(Ordering::Relaxed) != 0 {
        // `waiting` stays: cleared by us, who may die before the wake, the receiver would not wake them any more.
        head.space.fetch_add(1, Ordering::AcqRel);
        futex::wake_all(&head.space);
    }
}

/// There may be a message.
#[inline]
pub(super) fn wake_receiver(shared: &Shared) {
    // READY before the look at `sleeping`: pairs with the receiver's `heavy` between `sleeping` and its look at the slot.
    barrier::light();
    let head = shared.ring.head();
    let sleeping = head.sleeping.load(Ordering::Relaxed);
    // One line, one test: a set's number as well.
    if (sleeping | head.bell.sleepers()) & 1 == 1 {
        wake_receiver_slow(shared, sleeping);
    }
}

#[cold]
fn wake_receiver_slow(shared: &Shared, sleeping: u32) {
    let head = shared.ring.head();
    if sleeping & 1 == 0 {
        return head.bell.ring();
    }
    // A late sleeper finds another number and does not sleep.
    head.sequence.fetch_add(1, Ordering::AcqRel);
    futex::wake_all(&head.sequence);
    // Only that very sleep's number, and only after the wake: the other order, died in between, leaves it asleep.
    let _ = head.sleeping.compare_exchange(sleeping, sleeping.wrapping_add(1), Ordering::AcqRel, Ordering::Relaxed);
    head.bell.ring();
}

impl Room for Ring {
    fn allows(&self, more: u64) -> bool {
        Ring::allows(self, more)
    }

    /// Who sleeps looks by a [`LookForMemory`] first.
    fn met_in_hand(&self) {}

    fn freed(&self) {
        wake_other_senders(self);
    }
}

/// The ring to a sender that waits for memory: remembers what it met in others' hands.
pub(super) struct LookForMemory<'a> {
    pub(super) ring: &'a Ring,
    pub(super) in_hand: Cell<bool>,
}

impl Room for LookForMemory<'_> {
    fn allows(&self, more: u64) -> bool {
        self.ring.allows(more)
    }

    fn met_in_hand(&self) {
        self.in_hand.set(true);
    }

    fn freed(&self) {
        wake_other_senders(self.ring);
    }
}
