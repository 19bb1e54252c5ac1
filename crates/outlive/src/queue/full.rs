//! Whether a queue is full, for a thread that does not send: it reads shared words and changes none.
//!
//! It answers what a sender of a short message would find (`send.rs`, steps 2 and 3), had it come at
//! that moment.

use super::layout::{CLOSED, MOST_REGIONS, SEALED, SlotWord, State};
use super::queue::Queue;
use super::ring::Ring;
use crate::shim::Ordering;
use crate::{Error, Payload};

/// How often the tail may move during the look before the answer is "not full".
const MOST_MOVES: usize = 8;

impl<M: Payload + ?Sized> Queue<M> {
    /// Returns whether the queue is full: it holds [`max_messages`](super::QueueOptions::max_messages)
    /// messages, or as many as its bytes allow. A sender that waits gets room when a message is
    /// received.
    ///
    /// While other processes send and receive, the answer is about a moment that has passed. Where
    /// bytes bound the queue, a long message may find no room although this says `false`.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn is_full(&self) -> Result<bool, Error> {
        self.inner.ring.is_full()
    }
}

impl Ring {
    fn is_full(&self) -> Result<bool, Error> {
        let mut region = self.head().current.load(Ordering::Acquire);
        let mut beyond = 0;
        for _ in 0..MOST_MOVES + MOST_REGIONS {
            if region >= self.regions() {
                return Err(self.segment.damaged("the current region"));
            }
            let words = &self.head().regions_words[region as usize % MOST_REGIONS];
            // Acquire pairs with the Release of a send's step 5: the claim before t is seen.
            let t = words.tail.load(Ordering::Acquire);
            if t & CLOSED != 0 {
                (region, beyond) = (region + 1, 0);
                continue;
            }
            let limit = self.limit(region)?;
            let t = t.wrapping_add(beyond);
            let place = match self.place(region, limit, t) {
                // The sender that comes seals it.
                None if !self.may_grow(region, limit) => self.place(region, limit | SEALED, t),
                found => found,
            };
            let Some(place) = place else { return Ok(false) };
            let claim = SlotWord(self.slot(region, place.index).claim.load(Ordering::Acquire));
            match claim.laps_ahead(place.lap) {
                ..0 => {
                    let next = region + 1;
                    return Ok(
                        next >= self.regions() || self.limit(next)? == 0 && !self.may_grow(next, 0)
                    );
                }
                0 if claim.state() == State::Empty => return Ok(false),
                // Its sender has not moved the tail, or has died before it could.
                0 => beyond += 1,
                // The tail has moved since.
                _ => beyond = 0,
            }
        }
        Ok(false)
    }
}
