//! Receiving: look at the slot at the head, take, give back.
//!
//! 0. On coming in (`receiver.rs`): the claim at h is a lap ahead: a predecessor died between giving the slot back and
//!    moving the head: h + 1, with the counts that it wrote into the journal. The object of h - 1 is freed, if it still is
//!    that message's. Then look (`head.rs`):
//! 1. READY at h: the message.
//! 2. Region closed at or before h: next region.
//! 3. WRITING by a dead thread, and not READY when looked at *after* the death (its sender may have gone on until then),
//!    or ABANDONED, by a sweep: give the slot back, count it abandoned.
//! 4. Commit: journal, EMPTY(lap + 1), counts, head, the object; senders wait: clear, bump, wake all.
//! 5. Sleep: prepare a wait on `messages` (wake.rs), look again, then sleep on {it, the owner of the slot that is being written (or one of the
//!    senders, when their end is waited for)}. Without an owner it looks by itself now and then.
//!
//! `recv` copies, commits, returns: died after the commit, the message is lost with its receiver. `peek` (`peek.rs`) hands
//! the message out where it lies and commits when told.
//!
//! | died | a successor |
//! | --- | --- |
//! | before EMPTY | finds the message at h; journal names h but the slot has not moved: ignored |
//! | between EMPTY and head | sees the lap ahead, takes the counts from the journal |
//! | between head and the object | frees it on coming in; before, `collect` may, which sees that the place has moved on |
//! | asleep | prepares a wait of its own |

use super::batch;
use super::error::RecvError;
use super::head::{AtHead, FoundMessage};
use super::layout::{CLOSED, MOST_REGIONS, SlotWord, pack, published};
use super::receiver::Receiver;
use super::ring::Slot;
use super::senders::{self, Senders};
use super::wake::wake_senders;
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error};

impl Receiver {
    /// Receives a message, waiting for one. At most once: it is committed before it is returned.
    ///
    /// # Errors
    /// [`RecvError::SendersGone`], [`RecvError::NotReceiver`], [`RecvError::Damaged`] (that message is skipped),
    /// [`RecvError::System`].
    ///
    /// # If a process dies
    /// This one, after the commit: the message is lost with it. Use [`Receiver::peek`] where that must not be.
    pub fn recv(&mut self) -> Result<Vec<u8>, RecvError> {
        self.recv_until(Deadline::NEVER)
    }

    /// Receives a message if there is one.
    ///
    /// # Errors
    /// As [`Receiver::recv`], and [`RecvError::Empty`].
    pub fn try_recv(&mut self) -> Result<Vec<u8>, RecvError> {
        let mut message = Vec::new();
        self.take(&mut message, None)?;
        Ok(message)
    }

    /// Receives a message, waiting until the deadline.
    ///
    /// # Errors
    /// As [`Receiver::recv`], and [`RecvError::TimedOut`].
    pub fn recv_until(&mut self, deadline: impl Into<Deadline>) -> Result<Vec<u8>, RecvError> {
        let mut message = Vec::new();
        self.take(&mut message, Some(deadline.into()))?;
        Ok(message)
    }

    /// Receives a message into a buffer, whose former contents are replaced: no allocation once it is large enough.
    ///
    /// # Errors
    /// As [`Receiver::recv`].
    #[inline]
    pub fn recv_into(&mut self, message: &mut Vec<u8>) -> Result<(), RecvError> {
        self.take(message, Some(Deadline::NEVER))
    }

    /// Receives a message into a buffer if there is one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`].
    #[inline]
    pub fn try_recv_into(&mut self, message: &mut Vec<u8>) -> Result<(), RecvError> {
        self.take(message, None)
    }

    /// Receives a message into a buffer, waiting until the deadline.
    ///
    /// # Errors
    /// As [`Receiver::recv_until`].
    #[inline]
    pub fn recv_into_until(&mut self, message: &mut Vec<u8>, deadline: impl Into<Deadline>) -> Result<(), RecvError> {
        self.take(message, Some(deadline.into()))
    }

    /// The messages as they come, until [`RecvError::SendersGone`] or an error.
    pub fn iter(&mut self) -> impl Iterator<Item = Vec<u8>> + '_ {
        core::iter::from_fn(|| self.recv().ok())
    }

    #[inline]
    fn take(&self, message: &mut Vec<u8>, deadline: Option<Deadline>) -> Result<(), RecvError> {
        let me = self.enter()?;
        if self.take_plain(message) {
            return Ok(());
        }
        self.take_slow(me, message, deadline)
    }

    /// Takes the message at the head if it lies in its slot, alone.
    #[inline]
    fn take_plain(&self, message: &mut Vec<u8>) -> bool {
        let Some((slot, lap, len)) = self.plain() else { return false };
        // SAFETY: a slot has `inline_bytes` of payload, and is ours until it is given back.
        unsafe { copy(slot.payload, len, message) };
        self.give_back(slot, lap, None, 1, 0);
        true
    }

    /// The message at the head if it lies in its slot, alone: slot, lap, length.
    #[inline]
    fn plain(&self) -> Option<(Slot<'_>, u64, usize)> {
        let ring = &self.inner.ring;
        let region = self.region.get();
        let place = ring.place(region, self.limit.get(), self.head.get())?;
        let slot = ring.slot(region, place.index);
        // Acquire pairs with the sender's READY.
        if slot.head.ready.load(Ordering::Acquire) != published(place.lap) {
            return None;
        }
        // Nothing but a length: no batch, no object.
        let meta = slot.head.meta.load(Ordering::Relaxed);
        (meta <= ring.inline_bytes() as u64).then_some((slot, place.lap, meta as usize))
    }

    /// Receives a message into memory of the caller's, which may be uninitialised; `None` does not wait. Its bytes: if they are
    /// more than there is room for, nothing was received, and the message stays. For bindings to languages that bring their
    /// own buffers.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-recv-to-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// let queue = outlive::queue::Queue::create(&domain, "orders")?;
    /// let mut receiver = queue.receiver()?;
    /// queue.sender()?.send_batch(&["buy 10", "sell", "buy 9"])?;
    /// let mut buffer = [0; 6];
    /// for (room, len) in [(5, 6), (6, 6), (4, 4), (4, 5), (5, 5)] {
    ///     // SAFETY: there is more room than that.
    ///     assert_eq!(unsafe { receiver.recv_to(buffer.as_mut_ptr(), room, None) }?, len);
    /// }
    /// assert_eq!(&buffer, b"buy 90");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Receiver::recv_until`], or [`Receiver::try_recv`].
    ///
    /// # Safety
    /// `room` bytes can be written at `to`.
    ///
    /// # If a process dies
    /// As with [`Receiver::recv`].
    #[inline]
    pub unsafe fn recv_to(&mut self, to: *mut u8, room: usize, deadline: Option<Deadline>) -> Result<usize, RecvError> {
        let me = self.enter()?;
        let this = &*self;
        let Some((slot, lap, len)) = this.plain() else {
            // SAFETY: the caller's promise.
            return unsafe { this.recv_to_slow(me, to, room, deadline) };
        };
        if len <= room {
            // SAFETY: as in `take_plain`; it fits.
            unsafe { core::ptr::copy_nonoverlapping(slot.payload.cast_const(), to, len) };
            this.give_back(slot, lap, None, 1, 0);
        }
        Ok(len)
    }

    /// # Safety
    /// As [`Receiver::recv_to`].
    #[inline(never)]
    unsafe fn recv_to_slow(
        &self,
        me: Me,
        to: *mut u8,
        room: usize,
        deadline: Option<Deadline>,
    ) -> Result<usize, RecvError> {
        if deadline.is_some() {
            self.spin();
        }
        let found = self.wait_for_message(me, deadline)?;
        if found.len <= room {
            // SAFETY: `found` has checked that `len` bytes lie there; the slot is ours until it is given back; it fits.
            unsafe { core::ptr::copy_nonoverlapping(found.bytes, to, found.len) };
            self.commit(&found);
        }
        Ok(found.len)
    }

    #[inline(never)]
    fn take_slow(&self, me: Me, message: &mut Vec<u8>, deadline: Option<Deadline>) -> Result<(), RecvError> {
        if self.take_from_batch(message) {
            return Ok(());
        }
        if deadline.is_some() && self.spin() && self.take_plain(message) {
            return Ok(());
        }
        let found = self.wait_for_message(me, deadline)?;
        // SAFETY: `found` has checked that `len` bytes lie there; the slot is ours until it is given back.
        unsafe { copy(found.bytes, found.len, message) };
        self.commit(&found);
        Ok(())
    }

    /// Takes the next message of the batch at the head, but not the last one, with which the slot is given back.
    #[inline]
    fn take_from_batch(&self, message: &mut Vec<u8>) -> bool {
        let Some(batch) = self.batch.get() else { return false };
        let (number, at) = self.batch_at.get();
        // SAFETY: checked when it was found, and not given back since: those who do leave the batch.
        let packed = unsafe { core::slice::from_raw_parts(batch.bytes, batch.len) };
        let (true, Some((range, next_at))) = (number + 1 < batch.count, batch::next(packed, at)) else { return false };
        // SAFETY: `next` keeps inside `packed`.
        unsafe { copy(batch.bytes.add(range.start), range.len(), message) };
        self.commit_in_batch(number + 1, next_at);
        true
    }

    /// Messages of the batch before this one are received.
    #[inline]
    fn commit_in_batch(&self, number: u32, at: usize) {
        self.batch_at.set((number, at));
        // Release: a successor goes on behind it. Died just before: handed out again.
        let place = pack(self.region.get(), self.head.get(), number);
        self.inner.ring.head().receiver_words.progress.store(place, Ordering::Release);
    }

    pub(super) fn leave_batch(&self) {
        self.batch.set(None);
        self.batch_at.set((0, 0));
    }

    /// Step 4 for a message.
    #[inline]
    pub(super) fn commit(&self, found: &FoundMessage<'_>) {
        if found.number + 1 < found.meta.batch {
            self.commit_in_batch(found.number + 1, found.next_at);
            return;
        }
        self.leave_batch();
        let (region, h) = (self.region.get(), self.head.get());
        self.give_back(found.slot, found.lap, None, found.meta.messages(), 0);
        if let Some(object) = &found.object {
            let ring = &self.inner.ring;
            // Its tag names the place, so it is freed once and only by us. Died just before: `collect`.
            let _ = ring.pool.free_queued(&ring.segment, object, region, h);
            // A sender may wait for that memory.
            wake_senders(&self.inner.ring);
        }
    }

    /// Step 4 for a slot: `from` is the exact word when another might change it.
    #[inline]
    pub(super) fn give_back(&self, slot: Slot<'_>, lap: u64, from: Option<SlotWord>, received: u64, abandoned: u64) {
        let (region, h) = (self.region.get(), self.head.get());
        let words = &self.inner.ring.head().receiver_words;
        let received = words.received.load(Ordering::Relaxed).wrapping_add(received);
        let abandoned = words.abandoned.load(Ordering::Relaxed).wrapping_add(abandoned);
        words.next_received.store(received, Ordering::Relaxed);
        words.next_abandoned.store(abandoned, Ordering::Relaxed);
        words.journal.store(pack(region, h, 0), Ordering::Relaxed);
        let empty = SlotWord::empty(lap + 1).0;
        match from {
            // Release orders the journal before, and our reading of the payload before the next sender's writing.
            None => slot.claim.store(empty, Ordering::Release),
            Some(from) => {
                if slot.claim.compare_exchange(from.0, empty, Ordering::AcqRel, Ordering::Relaxed).is_err() {
                    // A sweep was quicker to mark it abandoned: looked at again.
                    return;
                }
            }
        }
        // Counts before the head: died in between, `catch_up` stores the same ones; died after it, nothing is left to do.
        words.received.store(received, Ordering::Relaxed);
        words.abandoned.store(abandoned, Ordering::Relaxed);
        self.advance(region, h.wrapping_add(1));
        if h & 63 == 0 {
            self.note_backlog(region, h);
        }
        wake_senders(&self.inner.ring);
    }

    /// Now and then: how much lies there?
    #[cold]
    fn note_backlog(&self, region: u32, h: u64) {
        let head = self.inner.ring.head();
        let tail = head.regions_words[region as usize].tail.load(Ordering::Relaxed) & !CLOSED;
        head.receiver_words.high_water.fetch_max(tail.saturating_sub(h), Ordering::Relaxed);
    }

    /// Step 5, until there is a message.
    #[cold]
    pub(super) fn wait_for_message(&self, me: Me, deadline: Option<Deadline>) -> Result<FoundMessage<'_>, RecvError> {
        if let AtHead::Message(found) = self.look(me)? {
            return Ok(found);
        }
        let Some(deadline) = deadline else {
            return Err(if self.senders_gone() && matches!(self.look(me)?, AtHead::Nothing(None)) {
                RecvError::SendersGone
            } else {
                RecvError::Empty
            });
        };
        let inner = &*self.inner;
        let head = inner.ring.head();
        let relay = WakeRelay::begin(me.list());
        let mut out_of_time = false;
        loop {
            let ticket = head.messages.prepare_wait();
            let awake = || head.messages.cancel_wait(ticket);
            let writer = match self.look(me) {
                Ok(AtHead::Message(found)) => {
                    awake();
                    return Ok(found);
                }
                Ok(AtHead::Nothing(writer)) => writer,
                Err(error) => {
                    awake();
                    return Err(error);
                }
            };
            if out_of_time {
                awake();
                return Err(RecvError::TimedOut);
            }
            let slice = ticket.until(deadline);
            let owner = match writer {
                Some(writer) => Some(writer),
                None if self.end_when_gone.get() => match senders::senders(inner) {
                    Senders::Some(sender) => Some(sender),
                    Senders::Gone => {
                        // The last one may have sent between our look and its end.
                        let last = self.look(me);
                        awake();
                        match last? {
                            AtHead::Message(found) => return Ok(found),
                            AtHead::Nothing(Some(_)) => continue,
                            AtHead::Nothing(None) => return Err(RecvError::SendersGone),
                        }
                    }
                    Senders::NeverSeen | Senders::Unknown => None,
                },
                None => None,
            };
            let watch = [head.messages.watch(ticket)];
            let end = Sleep::on(inner.registry, &watch).behind(&relay, owner.as_slice()).until(slice);
            awake();
            // Before the next wait is prepared, which costs a membarrier.
            if let AtHead::Message(found) = self.look(me)? {
                return Ok(found);
            }
            match end {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) => out_of_time = deadline.has_passed(),
                Err(errno) => return Err(Error::from_errno("wait in", inner.registry.path(), errno).into()),
            }
        }
    }

    fn senders_gone(&self) -> bool {
        self.end_when_gone.get() && matches!(senders::senders(&self.inner), Senders::Gone)
    }

    /// Waits a moment without sleeping; true when there may be something.
    pub(super) fn spin(&self) -> bool {
        self.is_something_there() || self.inner.spin_wait.spin(|| self.is_something_there())
    }

    /// A cheap look while spinning: has the slot at the head changed?
    #[inline]
    fn is_something_there(&self) -> bool {
        let ring = &self.inner.ring;
        let (region, h) = (self.region.get(), self.head.get());
        let Some(place) = ring.place(region, self.limit.get(), h) else {
            return ring.head().regions_words[region as usize % MOST_REGIONS].tail.load(Ordering::Relaxed) != h;
        };
        // The slot alone: the tail is on a line that each send writes, and looking there would make it wait for us. That
        // the region was closed meanwhile is seen after the spin.
        ring.slot(region, place.index).head.ready.load(Ordering::Relaxed) == published(place.lap)
    }
}

/// Replaces a buffer's contents.
///
/// # Safety
/// `len` bytes lie at `bytes`.
#[inline]
unsafe fn copy(bytes: *const u8, len: usize, message: &mut Vec<u8>) {
    message.clear();
    message.reserve(len);
    // SAFETY: the caller's promise; the buffer has room for as many.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes, message.as_mut_ptr(), len);
        message.set_len(len);
    }
}
