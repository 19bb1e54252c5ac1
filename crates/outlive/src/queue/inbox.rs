//! Is there something to receive? Asked by who is not the receiver: a wait set, perhaps in another thread.
//!
//! By shared words alone, and without changing one: what a receiver would find at the head (`look.rs`), as far as that can be
//! told. Where it cannot, because the receiver is just moving on, or because the words make no sense, the answer is that it is
//! worth a try: the receiver finds out, and after that the answer is another.

use std::sync::Arc;

use super::Shared;
use super::endpoint::{self, Senders};
use super::layout::{CLOSED, MOST_REGIONS, SlotWord, State, published};
use super::receiver::Receiver;
use crate::Error;
use crate::liveness::{Registry, TokenId};
use crate::shim::Ordering;
use crate::wake::EventCount;

/// A queue as a wait set sees it.
#[derive(Clone)]
pub(crate) struct Inbox {
    shared: Arc<Shared>,
    end_when_gone: bool,
}

/// What lies there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lies {
    /// A receive is worth a try.
    Something,
    /// Nothing, and all senders have gone.
    SendersGone,
    /// Nothing. That thread's or process's end would make it worth another look.
    Nothing(Option<TokenId>),
}

/// How often the head may move on under our eyes before we say that there is something.
const MOST_MOVES: usize = 8;

impl Receiver {
    /// For a wait set.
    pub(crate) fn inbox(&self) -> Inbox {
        Inbox { shared: Arc::clone(&self.shared), end_when_gone: self.end_when_gone.get() }
    }
}

impl Inbox {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.shared.registry
    }

    /// What senders notify.
    pub(crate) fn messages(&self) -> &EventCount {
        &self.shared.ring.head().messages
    }

    pub(crate) fn look(&self) -> Lies {
        match self.look_at_head().unwrap_or(Lies::Something) {
            Lies::Nothing(None) if self.end_when_gone => match endpoint::senders(&self.shared) {
                Senders::Some(sender) => Lies::Nothing(Some(sender)),
                // The last one may have sent between our look and its end.
                Senders::Gone => match self.look_at_head().unwrap_or(Lies::Something) {
                    Lies::Nothing(None) => Lies::SendersGone,
                    lies => lies,
                },
                Senders::NeverSeen | Senders::Unknown => Lies::Nothing(None),
            },
            lies => lies,
        }
    }

    fn look_at_head(&self) -> Result<Lies, Error> {
        let ring = &self.shared.ring;
        let mut region = ring.head().receiver.region.load(Ordering::Acquire);
        // A receiver that has given a slot back and not moved the head yet tells nobody when it does.
        let mut given_back = None;
        for _ in 0..MOST_MOVES + MOST_REGIONS {
            if region >= ring.regions() {
                return Ok(Lies::Something);
            }
            let words = &ring.head().regions_words[region as usize % MOST_REGIONS];
            let h = words.head.load(Ordering::Acquire);
            let h = if given_back == Some((region, h)) { h.wrapping_add(1) } else { h };
            let t = words.tail.load(Ordering::Acquire);
            let is_closed = t & CLOSED != 0 && t & !CLOSED <= h;
            let Some(place) = ring.place(region, ring.limit(region)?, h) else {
                if is_closed {
                    region += 1;
                    continue;
                }
                return Ok(Lies::Nothing(None));
            };
            let slot = ring.slot(region, place.index);
            // The claim first. Acquire, as the receiver's: a message that is there is seen whole by whoever receives it.
            let word = SlotWord(slot.claim.load(Ordering::Acquire));
            if word.laps_ahead(place.lap) > 0 {
                given_back = Some((region, h));
                continue;
            }
            if slot.head.ready.load(Ordering::Acquire) == published(place.lap) {
                return Ok(Lies::Something);
            }
            if is_closed {
                region += 1;
                continue;
            }
            if word.laps_ahead(place.lap) < 0 {
                return Ok(Lies::Nothing(None));
            }
            return Ok(match word.state() {
                State::Empty => Lies::Nothing(None),
                State::Abandoned => Lies::Something,
                State::Writing => match word.owner() {
                    Some(owner) if self.shared.registry.is_alive(owner) => Lies::Nothing(Some(owner)),
                    // Finished, or to be skipped.
                    _ => Lies::Something,
                },
            });
        }
        Ok(Lies::Something)
    }
}
