//! Who is at a slot: for tests and for those who look why a receiver waits.

use super::layout::{CLOSED, SEALED, SlotWord, State, published};
use super::queue::Queue;
use crate::Error;
use crate::shim::Ordering;
use crate::sync::Holder;

impl Queue {
    /// The threads, dead or alive, that have claimed a slot and have not published it yet. The receiver waits for those
    /// whose slot comes first.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn writers(&self) -> Result<Vec<Holder>, Error> {
        let shared = self.shared();
        let ring = &shared.ring;
        let mut writers = Vec::new();
        for region in 0..ring.regions() {
            let slots = ring.limit(region)? & !SEALED;
            // One more than the tail: a claim whose owner has not moved the tail yet.
            let tail = ring.head().regions_words[region as usize].tail.load(Ordering::Acquire) & !CLOSED;
            for index in 0..slots.min(tail.saturating_add(1)) {
                let slot = ring.slot(region, index);
                let word = SlotWord(slot.claim.load(Ordering::Acquire));
                // A lap has 33 bits here, which no queue lives to see the end of.
                let is_published = slot.head.ready.load(Ordering::Acquire) == published(word.0 >> 31);
                if word.state() == State::Writing && !is_published {
                    writers.extend(word.owner().map(|token| Holder::of(shared.registry, token)));
                }
            }
        }
        Ok(writers)
    }
}
