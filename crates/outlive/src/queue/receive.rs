//! Receiving: look at the slot at the head, take, give back.
//!
//! 0. On entering (`receiver.rs`): a claim at h that is a lap ahead means that a predecessor died
//!    between giving the slot back and moving the head: go on at h + 1, with the counts that it
//!    wrote into the journal. Free the object of h - 1, if it still belongs to that message. Then
//!    look (`head.rs`):
//! 1. READY at h: the message.
//! 2. Region closed at or before h: next region.
//! 3. WRITING by a dead thread, and not READY when looked at *after* the death (its sender may have
//!    gone on until then), or ABANDONED, by a sweep: give the slot back, count it abandoned.
//! 4. Commit: journal, EMPTY(lap + 1), counts, head, the object; senders are notified if they
//!    wait (room.rs).
//! 5. Sleep: prepare a wait on `messages` (room.rs), look again, then sleep on {it, the owner of
//!    the slot that is being written (or one of the senders, when their end is waited for)}.
//!    Without an owner the receiver polls from time to time.
//!
//! `recv` copies, commits, returns: if the process dies after the commit, the message is lost with
//! it. `peek` (`peek.rs`) hands the message out where it lies and commits when the caller says so.
//!
//! | died | a successor |
//! | --- | --- |
//! | before EMPTY | finds the message at h; journal names h but the slot has not moved: ignored |
//! | between EMPTY and head | sees the lap ahead, takes the counts from the journal |
//! | between head and the object | frees it on entering; before that, `collect` may, which sees that the place has moved on |
//! | asleep | prepares a wait of its own |

use super::Inner;
use super::batch;
use super::head::{AtHead, FoundMessage};
use super::layout::{CLOSED, MOST_REGIONS, SlotWord, pack, published};
use super::receiver::RawReceiver;
use super::ring::Slot;
use super::senders::{self, Senders};
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::sys::probe::{self, AtEnd, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error, Payload, RecvError};

impl RawReceiver {
    /// Takes a message into `message`; `None` for a deadline does not wait. `Ok(None)`: nothing was
    /// there, or nothing came until then.
    #[inline]
    pub(super) fn take<M: Payload + ?Sized>(
        &self,
        message: &mut M::Owned,
        deadline: Option<Deadline>,
    ) -> Result<Option<()>, RecvError> {
        match self.take_by(deadline, |bytes| (true, M::replace(message, bytes)))? {
            Some(true) => Ok(Some(())),
            // It was dropped.
            Some(false) => Err(no_such_message::<M>()),
            None => Ok(None),
        }
    }

    /// Does the same, and calls `count` before the message is taken.
    pub(super) fn take_counted<M: Payload + ?Sized>(
        &self,
        message: &mut M::Owned,
        deadline: Option<Deadline>,
        count: impl Fn(),
    ) -> Result<Option<()>, RecvError> {
        let taken = self.take_by(deadline, |bytes| {
            let is_value = M::replace(message, bytes);
            if is_value {
                count();
            }
            (true, is_value)
        })?;
        match taken {
            Some(true) => Ok(Some(())),
            // It was dropped.
            Some(false) => Err(no_such_message::<M>()),
            None => Ok(None),
        }
    }

    /// Takes a message into the caller's memory and returns its length; a message longer than
    /// `room` stays.
    ///
    /// # Safety
    /// The caller guarantees that `room` bytes can be written at `to`.
    #[inline]
    pub(super) unsafe fn take_to(
        &self,
        to: *mut u8,
        room: usize,
        deadline: Option<Deadline>,
    ) -> Result<Option<usize>, RecvError> {
        self.take_by(deadline, |bytes| {
            let fits = bytes.len() <= room;
            if fits {
                // SAFETY: the caller guarantees that `room` bytes can be written there; the message
                // lies in the queue's own memory.
                unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
            }
            (fits, bytes.len())
        })
    }

    /// Shows `accept` the next message's bytes, and takes the message if that returns `true`, with
    /// what the caller wants.
    #[inline(always)]
    fn take_by<R>(
        &self,
        deadline: Option<Deadline>,
        mut accept: impl FnMut(&[u8]) -> (bool, R),
    ) -> Result<Option<R>, RecvError> {
        let me = self.enter()?;
        match self.take_plain(&mut accept) {
            Some(taken) => Ok(Some(taken)),
            None => self.take_slow(me, deadline, accept),
        }
    }

    /// Takes the message at the head if it lies in its slot and is no batch.
    // Always inline: a call of it is an eighth of a receive.
    #[inline(always)]
    fn take_plain<R>(&self, accept: &mut impl FnMut(&[u8]) -> (bool, R)) -> Option<R> {
        let ring = &self.inner.ring;
        let region = self.region.get();
        let place = ring.place(region, self.limit.get(), self.head.get())?;
        let slot = ring.slot(region, place.index);
        // Acquire pairs with the sender's READY.
        if slot.head.ready.load(Ordering::Acquire) != published(place.lap) {
            return None;
        }
        // Only a length: no batch, no object.
        let len = slot.head.meta.load(Ordering::Relaxed);
        if len > ring.inline_bytes() as u64 {
            return None;
        }
        // SAFETY: the slot's payload has room for `inline_bytes`; no sender writes to the slot
        // until it is given back.
        let (taken, what) =
            accept(unsafe { core::slice::from_raw_parts(slot.payload, len as usize) });
        if taken {
            probe!(queue_receive, ring.segment.path(), len);
            self.give_back(slot, place.lap, None, 1, 0);
        }
        Some(what)
    }

    #[inline(never)]
    fn take_slow<R>(
        &self,
        me: Me,
        deadline: Option<Deadline>,
        mut accept: impl FnMut(&[u8]) -> (bool, R),
    ) -> Result<Option<R>, RecvError> {
        let taken = self
            .take_from_batch(&mut accept)
            .or_else(|| if self.spin(deadline) { self.take_plain(&mut accept) } else { None });
        if taken.is_some() {
            return Ok(taken);
        }
        let Some(found) = self.wait_for_message(me, deadline)? else { return Ok(None) };
        let (taken, what) = accept(found.bytes);
        if taken {
            self.commit(&found);
        }
        Ok(Some(what))
    }

    /// Takes the next message of the batch at the head, except the last one, with which the slot is
    /// given back.
    #[inline]
    fn take_from_batch<R>(&self, accept: &mut impl FnMut(&[u8]) -> (bool, R)) -> Option<R> {
        let batch = self.batch.get()?;
        let (number, at) = self.batch_at.get();
        // SAFETY: `found` checked the range; the batch is in `self.batch` only while its slot is
        // not given back.
        let packed = unsafe { core::slice::from_raw_parts(batch.bytes, batch.len) };
        let (range, next_at) =
            (number + 1 < batch.count).then(|| batch::next(packed, at)).flatten()?;
        // Only a hostile process changes the bytes now, and `batch::next` has checked the range.
        let bytes = packed.get(range)?;
        let (taken, what) = accept(bytes);
        if taken {
            probe!(queue_receive, self.inner.ring.segment.path(), bytes.len() as u64);
            self.commit_in_batch(number + 1, next_at);
        }
        Some(what)
    }

    /// Marks the messages of the batch before this one as received.
    #[inline]
    fn commit_in_batch(&self, number: u32, at: usize) {
        self.batch_at.set((number, at));
        // Release: a successor goes on behind it. If this thread died just before, the successor
        // gets the message again.
        let place = pack(self.region.get(), self.head.get(), number);
        self.inner.ring.head().receiver_words.progress.store(place, Ordering::Release);
    }

    pub(super) fn leave_batch(&self) {
        self.batch.set(None);
        self.batch_at.set((0, 0));
    }

    /// Does step 4 for a message.
    #[inline]
    pub(super) fn commit(&self, found: &FoundMessage<'_>) {
        probe!(queue_receive, self.inner.ring.segment.path(), found.bytes.len() as u64);
        if found.number + 1 < found.meta.batch {
            self.commit_in_batch(found.number + 1, found.next_at);
            return;
        }
        self.leave_batch();
        let (region, h) = (self.region.get(), self.head.get());
        self.give_back(found.slot, found.lap, None, found.meta.messages(), 0);
        if let Some(object) = &found.object {
            let ring = &self.inner.ring;
            // Its tag names the place, so it is freed once and only by this receiver. If it died
            // just before, `collect` frees it.
            let _ = ring.pool.free_queued(&ring.segment, object, region, h);
            // A sender may wait for that memory.
            ring.head().room.notify_all();
        }
    }

    /// Does step 4 for a slot; `from` is the exact word when another process might change it.
    #[inline]
    pub(super) fn give_back(
        &self,
        slot: Slot<'_>,
        lap: u64,
        from: Option<SlotWord>,
        received: u64,
        abandoned: u64,
    ) {
        let (region, h) = (self.region.get(), self.head.get());
        // Once: the compiler would load it anew after each store.
        let head = self.inner.ring.head();
        let words = &head.receiver_words;
        let received = words.received.load(Ordering::Relaxed).wrapping_add(received);
        let abandoned = words.abandoned.load(Ordering::Relaxed).wrapping_add(abandoned);
        words.next_received.store(received, Ordering::Relaxed);
        words.next_abandoned.store(abandoned, Ordering::Relaxed);
        words.journal.store(pack(region, h, 0), Ordering::Relaxed);
        let empty = SlotWord::empty(lap + 1).0;
        match from {
            // Release orders the journal before, and this thread's reads of the payload before the
            // next sender's writes.
            None => slot.claim.store(empty, Ordering::Release),
            Some(from) => {
                if slot
                    .claim
                    .compare_exchange(from.0, empty, Ordering::AcqRel, Ordering::Relaxed)
                    .is_err()
                {
                    // A sweep has marked it abandoned first: look again.
                    return;
                }
            }
        }
        // Counts before the head: after a death in between, `catch_up` stores the same ones; after
        // the head, nothing is left to do.
        words.received.store(received, Ordering::Relaxed);
        words.abandoned.store(abandoned, Ordering::Relaxed);
        self.advance(head, region, h.wrapping_add(1));
        if h & 63 == 0 {
            self.note_backlog(region, h);
        }
        head.room.notify_all();
    }

    /// Records the backlog, from time to time.
    #[cold]
    fn note_backlog(&self, region: u32, h: u64) {
        let head = self.inner.ring.head();
        let tail = head.regions_words[region as usize].tail.load(Ordering::Relaxed) & !CLOSED;
        head.receiver_words.high_water.fetch_max(tail.saturating_sub(h), Ordering::Relaxed);
    }

    /// Does step 5 until there is a message. `None`: there is none, and the deadline has passed, or
    /// the caller does not wait.
    #[cold]
    pub(super) fn wait_for_message(
        &self,
        me: Me,
        deadline: Option<Deadline>,
    ) -> Result<Option<FoundMessage<'_>>, RecvError> {
        self.wait_until(me, deadline, || self.look_for_end(me))
    }

    /// Looks. Where the end of all senders is waited for, and there is nothing, it tells that end,
    /// or returns a sender to watch.
    fn look_for_end(&self, me: Me) -> Result<AtHead<FoundMessage<'_>>, RecvError> {
        let found = self.look(me)?;
        if !self.end_when_gone.get() || !matches!(found, AtHead::Nothing(None)) {
            return Ok(found);
        }
        match senders::senders(&self.inner) {
            Senders::Some(sender) => Ok(AtHead::Nothing(Some(sender))),
            // The last sender may have sent between the look and its end.
            Senders::Gone => match self.look(me)? {
                AtHead::Nothing(None) => Err(RecvError::Closed),
                found => Ok(found),
            },
            Senders::NeverSeen | Senders::Unknown => Ok(found),
        }
    }

    /// Does step 5 until `look` finds something. `None`: it finds nothing, and the deadline has
    /// passed, or the caller does not wait.
    #[cold]
    pub(super) fn wait_until<R>(
        &self,
        me: Me,
        deadline: Option<Deadline>,
        mut look: impl FnMut() -> Result<AtHead<R>, RecvError>,
    ) -> Result<Option<R>, RecvError> {
        if let AtHead::Message(found) = look()? {
            return Ok(Some(found));
        }
        // One look, as a try's, where there is no time.
        let Some(deadline) = deadline.filter(|deadline| !deadline.has_passed()) else {
            return Ok(None);
        };
        let Inner { ring, registry, .. } = &*self.inner;
        probe!(queue_wait, ring.segment.path(), probe::FOR_MESSAGES);
        let _end = AtEnd(|| probe!(queue_waited, ring.segment.path(), probe::FOR_MESSAGES));
        let messages = ring.head().messages.count();
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = false;
        loop {
            let ticket = messages.prepare_wait();
            let owner = match look() {
                Ok(AtHead::Nothing(owner)) if !out_of_time => owner,
                settled => {
                    messages.cancel_wait(ticket);
                    return settled.map(AtHead::message);
                }
            };
            let watch = [messages.watch(ticket)];
            let end = Sleep::on(registry, &watch)
                .behind(&relay, owner.as_slice())
                .until(ticket.until(deadline));
            messages.cancel_wait(ticket);
            // Looks before the next wait is prepared, which costs a membarrier.
            if let AtHead::Message(found) = look()? {
                return Ok(Some(found));
            }
            match end {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) => out_of_time = deadline.has_passed(),
                Err(errno) => {
                    return Err(Error::from_errno("wait in", registry.path(), errno).into());
                }
            }
        }
    }

    /// Waits a moment without sleeping, if there is time to wait; returns whether there may be a
    /// message.
    pub(super) fn spin(&self, deadline: Option<Deadline>) -> bool {
        self.is_something_there() || self.inner.spin(deadline, || self.is_something_there())
    }

    /// Returns whether the slot at the head has changed: a cheap check for spinning.
    #[inline]
    fn is_something_there(&self) -> bool {
        let ring = &self.inner.ring;
        let (region, h) = (self.region.get(), self.head.get());
        let Some(place) = ring.place(region, self.limit.get(), h) else {
            return ring.head().regions_words[region as usize % MOST_REGIONS]
                .tail
                .load(Ordering::Relaxed)
                != h;
        };
        // The slot alone: each send writes the tail's cache line, and a read of it would make sends
        // wait for this thread. That the region was closed meanwhile is seen after the spin.
        ring.slot(region, place.index).head.ready.load(Ordering::Relaxed) == published(place.lap)
    }
}

/// The error for a message that cannot be of the type: it was dropped.
#[cold]
pub(super) fn no_such_message<M: Payload + ?Sized>() -> RecvError {
    RecvError::Encoding(M::METADATA.other_length())
}
