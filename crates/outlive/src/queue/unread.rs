//! What lies in a queue and is unread, for a thread that does not receive: it reads shared words and
//! changes none.
//!
//! The head alone does not tell where the unread messages begin. A receiver that has given a slot
//! back and stands still, or was killed, before it moved the head leaves it one short; and while a
//! thread looks, the head may move past all that it looks at. So a look begins where the claim at
//! the head says (`next_unread`), and one that found nothing counts only if nothing was received
//! meanwhile: then there was nothing when it began. doc/protocols/queue.md has the argument.

use super::layout::{self, CLOSED, MOST_REGIONS, Meta, SEALED, pack, published, within};
use super::queue::Queue;
use super::sweep::is_given_back;
use crate::shim::Ordering;
use crate::{Error, Payload};

/// How often messages may be received during a look before the answer is that there are some.
pub(super) const MOST_MOVES: usize = 64;

/// Whether a look found messages.
#[derive(PartialEq, Eq)]
enum Seen {
    Some,
    None,
    /// It found none, and each time some had been received meanwhile.
    Moving,
}

impl<M: Payload + ?Sized> Queue<M> {
    /// Counts the messages in the queue, and those of the batch at the head that have been
    /// received.
    pub(super) fn pending(&self) -> Result<(u64, u64), Error> {
        let (mut pending, mut in_batch) = (0, 0);
        let progress = self.inner.ring.head().receiver_words.progress.load(Ordering::Acquire);
        let seen = self.each_unread(|place, meta| {
            pending += meta.messages();
            if meta.batch > 0 && progress & !0xff_ffff == place {
                in_batch = u64::from(within(progress)).min(meta.messages());
                pending -= in_batch;
            }
            true
        })?;
        Ok(if seen == Seen::Moving { (1, 0) } else { (pending, in_batch) })
    }

    /// Returns whether a message is in the queue.
    pub(super) fn has_unread(&self) -> Result<bool, Error> {
        Ok(self.each_unread(|_, _| false)? != Seen::None)
    }

    /// Returns the place of the first message that has not been received, or where the next one
    /// will lie: the same place twice means that none was received in between.
    pub(super) fn next_unread(&self) -> Result<(u32, u64), Error> {
        let ring = &self.inner.ring;
        let region = ring.head().receiver_words.region.load(Ordering::Acquire);
        if region >= ring.regions() {
            return Err(ring.segment.damaged("the receiver's region"));
        }
        let words = &ring.head().regions_words[region as usize % MOST_REGIONS];
        let head = words.head.load(Ordering::Acquire);
        let ahead = is_given_back(ring, region, ring.limit(region)?, head);
        Ok((region, head.wrapping_add(u64::from(ahead))))
    }

    /// Shows `see` each slot that has a message, until that returns `false`: the place, and what
    /// lies there.
    fn each_unread(&self, mut see: impl FnMut(u64, Meta) -> bool) -> Result<Seen, Error> {
        let mut first = self.next_unread()?;
        for _ in 0..MOST_MOVES {
            if self.look_from(first, &mut see)? {
                return Ok(Seen::Some);
            }
            let now = self.next_unread()?;
            if now == first {
                return Ok(Seen::None);
            }
            first = now;
        }
        Ok(Seen::Moving)
    }

    /// Does so from that place on; returns whether there was one.
    fn look_from(
        &self,
        (first, from): (u32, u64),
        see: &mut impl FnMut(u64, Meta) -> bool,
    ) -> Result<bool, Error> {
        let ring = &self.inner.ring;
        let mut found = false;
        for region in first..ring.regions() {
            let words = &ring.head().regions_words[region as usize % MOST_REGIONS];
            let from = if region == first { from } else { words.head.load(Ordering::Acquire) };
            // One more than the tail: a slot may be READY although its sender died before it moved
            // the tail.
            let to = (words.tail.load(Ordering::Acquire) & !CLOSED).saturating_add(1);
            // After the tail: each position before it has its place under this limit.
            let limit = ring.limit(region)?;
            for position in from..to.min(from.saturating_add(limit & !SEALED)) {
                let Some(place) = ring.place(region, limit, position) else {
                    break;
                };
                let slot = ring.slot(region, place.index);
                // Not counted if it was given back and only the head has still to move.
                if slot.head.ready.load(Ordering::Acquire) == published(place.lap)
                    && !is_given_back(ring, region, limit, position)
                {
                    found = true;
                    let meta = layout::Meta::decode(slot.head.meta.load(Ordering::Relaxed));
                    if !see(pack(region, position, 0), meta) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(found)
    }
}
