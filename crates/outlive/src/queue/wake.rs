//! Who wakes whom in a queue: two eventcounts (wake/event_count.rs).
//!
//! | eventcount | who waits | who notifies all |
//! | --- | --- | --- |
//! | `messages` | the receiver, and wait sets for it | a sender, after READY or when it finds the queue full |
//! | `room` | senders that find the queue full | the receiver, after it gave something back; others who made memory free |
//!
//! A waiter watches the end of who ought to wake it, too, where there is one: a sender that waits the receiver's, a receiver the end of a sender that
//! is writing. Where there is none it looks by itself now and then: a sender may be stopped between READY and the notification.

use std::cell::Cell;

use super::Inner;
use super::ring::Ring;
use crate::pool::HeapHost;

/// The receiver has given something back, or memory has become free that was nobody's message.
#[inline]
pub(super) fn wake_senders(ring: &Ring) {
    ring.head().room.notify_all();
}

/// There may be a message.
#[inline]
pub(super) fn wake_receiver(inner: &Inner) {
    inner.ring.head().messages.notify_all();
}

impl HeapHost for Ring {
    fn allows(&self, more: u64) -> bool {
        Ring::allows(self, more)
    }

    /// Who sleeps looks by a [`LookForMemory`] first.
    fn met_in_hand(&self) {}

    fn freed(&self) {
        wake_senders(self);
    }
}

/// The ring to a sender that waits for memory: remembers what it met in others' hands.
pub(super) struct LookForMemory<'a> {
    pub(super) ring: &'a Ring,
    pub(super) in_hand: Cell<bool>,
}

impl HeapHost for LookForMemory<'_> {
    fn allows(&self, more: u64) -> bool {
        self.ring.allows(more)
    }

    fn met_in_hand(&self) {
        self.in_hand.set(true);
    }

    fn freed(&self) {
        wake_senders(self.ring);
    }
}
