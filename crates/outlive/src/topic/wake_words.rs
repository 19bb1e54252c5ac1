//! The words on which a subscriber sleeps.

use std::time::Duration;

use super::mapping::Inner;
use super::slot::Slot;
use crate::sys::futex::Watch;
use crate::wake::Ticket;

/// The most rings in whose next slot a sleeper sees a message that came after its look, and whose
/// publisher died before it notified. With more rings it sleeps for [`BRIEF_LOOK`] at most.
pub(super) const MOST_WATCHED: usize = 62;
pub(super) const BRIEF_LOOK: Duration = Duration::from_secs(1);

/// The words on which a subscriber sleeps until a message comes, with the values that were read.
pub(super) struct WakeWords<'s> {
    watches: [Watch<'s>; MOST_WATCHED + 3],
    len: usize,
}

impl<'s> WakeWords<'s> {
    /// Reads the words, for a subscriber that has chosen its rings by that count, in each at that
    /// slot.
    pub(super) fn now(
        inner: &'s Inner,
        ticket: Ticket,
        chosen_by: u32,
        slots: impl Iterator<Item = &'s Slot>,
    ) -> WakeWords<'s> {
        let [relay, sequence] = inner.shared().notifications.watches(ticket);
        let changes = Watch { word: &inner.head().publisher_changes, expected: chosen_by };
        let mut seen = WakeWords { watches: [changes; MOST_WATCHED + 3], len: 3 };
        // The eventcount's words come first.
        (seen.watches[0], seen.watches[1]) = (relay, sequence);
        for slot in slots.take(MOST_WATCHED) {
            seen.watches[seen.len] = slot.watch();
            seen.len += 1;
        }
        seen
    }

    pub(super) fn watches(&self) -> &[Watch<'s>] {
        &self.watches[..self.len]
    }
}
