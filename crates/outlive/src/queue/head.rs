//! What lies at the receiver's head: a message, something to get past, or nothing yet.
//!
//! | the slot at h | is |
//! | --- | --- |
//! | READY | the message; if its words are damaged: given back, counted abandoned, reported |
//! | a lap ahead | damaged: the receiver settled on entering what a predecessor left so |
//! | not READY, region closed at or before h | no message's: on to the next region |
//! | EMPTY, or a lap behind | nothing yet |
//! | WRITING by a living thread | nothing yet; a sleeping receiver watches that thread |
//! | WRITING by a dead thread, and still not READY *after* the death; ABANDONED | given back, counted abandoned |
//!
//! `look` moves the head past slots that hold no message; it takes none. It is steps 1 to 3 of
//! `receive.rs`, which has the table of deaths.

use super::batch::{self, Batch};
use super::layout::{
    CLOSED, LARGEST_MESSAGE, MOST_REGIONS, Meta, SlotWord, State, pack, published, within,
};
use super::receiver::RawReceiver;
use super::ring::Slot;
use super::sweep::{self, Fate};
use crate::liveness::{Me, TokenId};
use crate::pool::ObjectRef;
use crate::shim::{AtomicU64, Ordering};
use crate::{Error, RecvError};

/// A message in shared memory, as it was found.
#[derive(Clone, Copy)]
pub(super) struct FoundMessage<'a> {
    pub(super) slot: Slot<'a>,
    pub(super) lap: u64,
    pub(super) meta: Meta,
    /// No sender writes to them before the slot is given back. In a batch: this message's alone.
    pub(super) bytes: &'a [u8],
    pub(super) object: Option<ObjectRef>,
    /// In a batch: this message's number, and where the next one begins.
    pub(super) number: u32,
    pub(super) next_at: usize,
}

pub(super) enum AtHead<M> {
    Message(M),
    /// Nothing yet; with the thread whose end would be news: the one that is writing the next
    /// message.
    Nothing(Option<TokenId>),
}

impl<M> AtHead<M> {
    pub(super) fn message(self) -> Option<M> {
        match self {
            AtHead::Message(message) => Some(message),
            AtHead::Nothing(_) => None,
        }
    }
}

impl RawReceiver {
    /// Does steps 1 to 3.
    #[inline]
    pub(super) fn look(&self, me: Me) -> Result<AtHead<FoundMessage<'_>>, RecvError> {
        let ring = &self.inner.ring;
        loop {
            let (region, h) = (self.region.get(), self.head.get());
            let tail = &ring.head().regions_words[region as usize % MOST_REGIONS].tail;
            let Some(place) = ring.place(region, self.limit.get(), h) else {
                let limit = ring.limit(region)?;
                self.limit.set(limit);
                if ring.place(region, limit, h).is_some() {
                    continue;
                }
                if self.is_closed(tail, h) {
                    self.next_region(region)?;
                    continue;
                }
                return Ok(AtHead::Nothing(None));
            };
            let slot = ring.slot(region, place.index);
            // Acquire pairs with the sender's READY.
            if slot.head.ready.load(Ordering::Acquire) == published(place.lap) {
                // An error leaves the message where it is.
                match self.found(slot, place.lap)? {
                    Some(found) => return Ok(AtHead::Message(found)),
                    None => {
                        // No receiver can read it; without a step forward no receiver would ever
                        // read anything again.
                        self.leave_batch();
                        self.give_back(slot, place.lap, None, 0, 1);
                        return Err(RecvError::Damaged(ring.segment.damaged("a message")));
                    }
                }
            }
            if let Some(look) = self.look_slow(me, slot, place.lap)? {
                return Ok(look);
            }
        }
    }

    fn is_closed(&self, tail: &AtomicU64, h: u64) -> bool {
        let t = tail.load(Ordering::Acquire);
        t & CLOSED != 0 && t & !CLOSED <= h
    }

    /// Finds out why the slot is not READY. `None` means: look again.
    #[cold]
    fn look_slow<'a>(
        &'a self,
        me: Me,
        slot: Slot<'a>,
        lap: u64,
    ) -> Result<Option<AtHead<FoundMessage<'a>>>, RecvError> {
        let word = SlotWord(slot.claim.load(Ordering::Acquire));
        let ring = &self.inner.ring;
        let (region, h) = (self.region.get(), self.head.get());
        let ahead = word.laps_ahead(lap);
        if ahead > 0 {
            return Err(RecvError::Damaged(ring.segment.damaged("a slot ahead of its head")));
        }
        // A void claim in a closed region is no message: so the region is checked before the claim.
        if self.is_closed(&ring.head().regions_words[region as usize].tail, h) {
            self.next_region(region)?;
            return Ok(None);
        }
        if ahead < 0 {
            return Ok(Some(AtHead::Nothing(None)));
        }
        match word.state() {
            State::Empty => Ok(Some(AtHead::Nothing(None))),
            State::Abandoned => {
                self.give_back(slot, lap, None, 0, 1);
                Ok(None)
            }
            State::Writing => match sweep::fate(me, slot, word, lap) {
                Fate::BeingWritten(owner) => Ok(Some(AtHead::Nothing(Some(owner)))),
                Fate::Settled => Ok(None),
                Fate::Abandoned => {
                    sweep::free_object_of(ring, slot, region, h)?;
                    self.give_back(slot, lap, Some(word), 0, 1);
                    Ok(None)
                }
            },
        }
    }

    #[cold]
    fn next_region(&self, region: u32) -> Result<(), RecvError> {
        let ring = &self.inner.ring;
        let next = region + 1;
        if next >= ring.regions() {
            return Err(RecvError::Damaged(ring.segment.damaged("a closed last region")));
        }
        // Checked before this receiver moves on: it may have mapped less than the region. Then it
        // stays where it is, each receive returns the same error, and a successor that has mapped
        // the region goes on from here.
        let limit = ring.limit(next)?;
        let words = &ring.head().receiver_words;
        words.region.store(next, Ordering::Release);
        self.region.set(next);
        self.limit.set(limit);
        self.head.set(ring.head().regions_words[next as usize].head.load(Ordering::Acquire));
        // A region was full: the backlog was that many slots.
        let backlog = ring.limit(region)? & !super::layout::SEALED;
        words.high_water.fetch_max(backlog, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the message in a READY slot, its shared words read once and checked; `None` when
    /// they are damaged. Fails when the system does not say whether the message's memory exists.
    #[inline]
    fn found<'a>(&self, slot: Slot<'a>, lap: u64) -> Result<Option<FoundMessage<'a>>, Error> {
        let found = self.found_whole(slot, lap)?;
        Ok(match found {
            Some(found) if found.meta.batch > 0 => self.found_in_batch(found),
            found => found,
        })
    }

    /// Does the same; a batch is returned with the bytes of all its messages.
    #[inline]
    pub(super) fn found_whole<'a>(
        &self,
        slot: Slot<'a>,
        lap: u64,
    ) -> Result<Option<FoundMessage<'a>>, Error> {
        let ring = &self.inner.ring;
        let meta = Meta::decode(slot.head.meta.load(Ordering::Relaxed));
        let len = meta.len as usize;
        let (at, object) = if meta.object {
            // SAFETY: slots hold at least 48 bytes of payload, 8-aligned; `Ring` checks the slot's
            // size.
            let reference = unsafe { &*slot.payload.cast::<AtomicU64>() }.load(Ordering::Relaxed);
            let Ok(reference) = u32::try_from(reference) else { return Ok(None) };
            let object = ring.pool.find_object(&ring.segment, reference)?;
            // Longer than any sender sends: the receiver would allocate that much for it.
            let Some(object) =
                object.filter(|object| len as u64 <= object.capacity.min(LARGEST_MESSAGE))
            else {
                return Ok(None);
            };
            // SAFETY: `Heap::object` has checked the object's range against the file and the
            // mapping.
            (unsafe { ring.segment.address(object.offset) }.cast_const(), Some(object))
        } else if len <= ring.inline_bytes() {
            (slot.payload.cast_const(), None)
        } else {
            return Ok(None);
        };
        // SAFETY: that many bytes lie in the slot's payload, which holds `inline_bytes`, or in the
        // object, whose range `find_object` has checked; no sender writes there before `give_back`.
        let bytes = unsafe { core::slice::from_raw_parts(at, len) };
        Ok(Some(FoundMessage { slot, lap, meta, bytes, object, number: 0, next_at: 0 }))
    }

    fn found_in_batch<'a>(&self, batch: FoundMessage<'a>) -> Option<FoundMessage<'a>> {
        let place = pack(self.region.get(), self.head.get(), 0);
        let progress = self.inner.ring.head().receiver_words.progress.load(Ordering::Relaxed);
        let number = if progress & !0xff_ffff == place { within(progress) } else { 0 };
        if number >= batch.meta.batch {
            return None;
        }
        // Only a hostile process changes the bytes now, and each number read from them is checked.
        let packed = batch.bytes;
        let (mut at_number, mut at) = self.batch_at.get();
        if at_number != number {
            (at_number, at) = (0, 0);
            while at_number < number {
                at = batch::next(packed, at)?.1;
                at_number += 1;
            }
        }
        let (range, next_at) = batch::next(packed, at)?;
        self.batch_at.set((number, at));
        let (bytes, len, count) = (packed.as_ptr(), packed.len(), batch.meta.batch);
        self.batch.set(Some(Batch { bytes, len, count }));
        Some(FoundMessage { bytes: packed.get(range)?, number, next_at, ..batch })
    }
}
