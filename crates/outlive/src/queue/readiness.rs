//! Answers "is there something to receive?" for a thread that is not the receiver: a wait set,
//! perhaps of another thread.
//!
//! It reads shared words alone and changes none: it answers what a receiver would find at the head
//! (`head.rs`), as far as that can be told. Where it cannot, because the receiver is just moving on
//! or because the words are damaged, the answer is "ready": the receiver finds out, and after that
//! the answer is another.

use std::sync::Arc;

use super::Inner;
use super::handles::Receiver;
use super::layout::{CLOSED, MOST_REGIONS, SlotWord, State, published};
use super::receiver::RawReceiver;
use super::senders::{self, Senders};
use crate::liveness::Registry;
use crate::shim::Ordering;
use crate::wake::{
    EventCount, PreparedWait, Readiness, RungEventCount, Source, SourceState, WaitWords, Waited,
    Watched,
};
use crate::{Error, Payload};

/// A queue as a wait set sees it.
#[derive(Clone)]
pub(crate) struct QueueReadiness {
    inner: Arc<Inner>,
    end_when_gone: bool,
}

const SOMETHING: SourceState = SourceState::Ready(Readiness::Readable);
/// How often the head may move during the check before the answer is "ready".
const MOST_MOVES: usize = 8;

/// Ready when a receive is worth a try, or would be told that the senders have gone
/// (`end_when_senders_gone`, as it is set when the receiver is added).
impl<M: Payload + ?Sized> Source for Receiver<M> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.raw.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}

impl<M: Payload + ?Sized> Receiver<M> {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.raw.inner.registry
    }
}

impl RawReceiver {
    pub(crate) fn readiness(&self) -> QueueReadiness {
        QueueReadiness { inner: Arc::clone(&self.inner), end_when_gone: self.end_when_gone.get() }
    }
}

impl QueueReadiness {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// Returns the eventcount that senders notify.
    pub(crate) fn messages(&self) -> &RungEventCount {
        &self.inner.ring.head().messages
    }

    fn look_at_head(&self) -> Result<SourceState, Error> {
        let ring = &self.inner.ring;
        let mut region = ring.head().receiver_words.region.load(Ordering::Acquire);
        // A receiver that has given a slot back and has not moved the head yet notifies no waiter
        // when it does.
        let mut given_back = None;
        for _ in 0..MOST_MOVES + MOST_REGIONS {
            if region >= ring.regions() {
                return Ok(SOMETHING);
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
                return Ok(SourceState::Waiting);
            };
            let slot = ring.slot(region, place.index);
            // The claim first. Acquire, as the receiver's: the thread that receives a message sees
            // it whole.
            let word = SlotWord(slot.claim.load(Ordering::Acquire));
            if word.laps_ahead(place.lap) > 0 {
                given_back = Some((region, h));
                continue;
            }
            if slot.head.ready.load(Ordering::Acquire) == published(place.lap) {
                return Ok(SOMETHING);
            }
            if is_closed {
                region += 1;
                continue;
            }
            if word.laps_ahead(place.lap) < 0 {
                return Ok(SourceState::Waiting);
            }
            return Ok(match word.state() {
                State::Empty => SourceState::Waiting,
                State::Abandoned => SOMETHING,
                State::Writing => match word.owner() {
                    Some(owner) if self.inner.registry.is_alive(owner) => {
                        SourceState::BehindOwner(owner)
                    }
                    // Finished, or to be skipped.
                    _ => SOMETHING,
                },
            });
        }
        Ok(SOMETHING)
    }
}

impl Waited for QueueReadiness {
    fn look(&self) -> SourceState {
        match self.look_at_head().unwrap_or(SOMETHING) {
            SourceState::Waiting if self.end_when_gone => match senders::senders(&self.inner) {
                Senders::Some(sender) => SourceState::BehindOwner(sender),
                // The last sender may have sent between the look and its end.
                Senders::Gone => match self.look_at_head().unwrap_or(SOMETHING) {
                    SourceState::Waiting => SourceState::Ready(Readiness::Ended),
                    found => found,
                },
                Senders::NeverSeen | Senders::Unknown => SourceState::Waiting,
            },
            found => found,
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.messages().count())
    }

    fn rung_count(&self) -> Option<&RungEventCount> {
        Some(self.messages())
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.messages().count().watch(prepared.ticket)]);
    }

    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }
}
