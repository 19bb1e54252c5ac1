//! Which thread wakes which in a queue: two eventcounts (wake/event_count.rs).
//!
//! | eventcount | waiters | notifiers |
//! | --- | --- | --- |
//! | `messages` | the receiver, and wait sets for it | a sender, after READY or when it finds the queue full |
//! | `room` | senders that find the queue full | the receiver, after it gave something back; other threads that made memory free |
//!
//! A waiter also watches the end of the thread that ought to wake it, where there is one: a waiting
//! sender watches the receiver, a receiver watches a sender that is writing. Where there is none,
//! the waiter polls from time to time: a sender may be stopped between READY and the notification.

use std::cell::Cell;

use super::ring::Ring;
use crate::pool::HeapHost;

impl HeapHost for Ring {
    fn allows(&self, more: u64) -> bool {
        Ring::allows(self, more)
    }

    /// Called by a sender before it sleeps; see [`LookForMemory`].
    fn met_in_hand(&self) {}

    fn freed(&self) {
        self.head().room.notify_all();
    }
}

/// The ring for a sender that waits for memory: records what other threads held.
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
        self.ring.freed();
    }
}
