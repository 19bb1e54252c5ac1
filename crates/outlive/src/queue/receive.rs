//! Receiving: look at the slot at the head, take, give back.
//!
//! 0. On coming in: the claim at h is a lap ahead: a predecessor died between giving the slot back and moving the head:
//!    h + 1, with the counts that it wrote into the journal. The object of h - 1 is freed, if it still is that message's.
//! 1. READY at h: the message.
//! 2. Region closed at or before h: next region.
//! 3. WRITING by a dead thread, and not READY when looked at *after* the death (its sender may have gone on until then),
//!    or ABANDONED, by a sweep: give the slot back, count it abandoned.
//! 4. Commit: journal, EMPTY(lap + 1), counts, head, the object; senders wait: clear, bump, wake all.
//! 5. Sleep: a new odd number in `sleeping`, membarrier, look again, then sleep on {sequence, the owner of the slot that
//!    is being written (or one of the senders, when their end is waited for)}.
//!
//! `peek` hands the message out where it lies and commits when told; the place is noted first, so that a successor says
//! `redelivered`. `recv` copies, commits, returns: died after the commit, the message is lost with its receiver.
//!
//! | died | a successor |
//! | --- | --- |
//! | before EMPTY | finds the message at h; journal names h but the slot has not moved: ignored |
//! | between EMPTY and head | sees the lap ahead, takes the counts from the journal |
//! | between head and the object | frees it on coming in; before, `collect` may, which sees that the place has moved on |
//! | asleep | writes a new odd number |

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;

use super::Shared;
use super::batch;
use super::endpoint::{self, Senders};
use super::error::RecvError;
use super::layout::{CLOSED, MOST_REGIONS, Meta, SlotWord, State, pack, published, within};
use super::ring::Slot;
use super::sweep::{self, Fate};
use super::wake::wake_senders;
use crate::liveness::{Asleep, Me, TokenId};
use crate::pool::Object;
use crate::shim::{AtomicU64, Ordering};
use crate::sys::barrier;
use crate::sys::futex::Watch;
use crate::sys::robust::PassOn;
use crate::{Deadline, Error, Wait};

/// The end of a queue that messages come out of. One at a time; may move between threads.
///
/// # If a process dies
/// The receiver's: senders are told at once; whoever calls [`Queue::receiver`](super::Queue::receiver) next goes on where
/// it stopped. A sender's: what it had sent is received, what it was sending is skipped.
pub struct Receiver {
    shared: Arc<Shared>,
    process: TokenId,
    /// The thread that last came in, as in the shared `inside`.
    inside: Cell<u32>,
    region: Cell<u32>,
    head: Cell<u64>,
    limit: Cell<u64>,
    /// Where the next message of the batch at the head begins: (its number, byte).
    batch_at: Cell<(u32, usize)>,
    /// The batch at the head, once it has been found and checked.
    batch: Cell<Option<Batch>>,
    /// Place of the message that a dead predecessor had taken and not committed.
    taken_before: Cell<u64>,
    end_when_gone: Cell<bool>,
    _not_sync: PhantomData<Cell<()>>,
}

/// A message in shared memory, as found.
#[derive(Clone, Copy)]
struct Found<'a> {
    slot: Slot<'a>,
    lap: u64,
    meta: Meta,
    bytes: *const u8,
    len: usize,
    object: Option<Object>,
    /// In a batch: this message's number, and where the next one begins.
    number: u32,
    next_at: usize,
}

/// A batch where it lies: its bytes, and how many messages they are.
#[derive(Clone, Copy)]
struct Batch {
    bytes: *const u8,
    len: usize,
    count: u32,
}

// SAFETY: it points into the mapping, which every thread has and which lives as long as the receiver.
unsafe impl Send for Batch {}

enum Look<'a> {
    Message(Found<'a>),
    /// Nothing yet; the thread that is writing the next one.
    Nothing(Option<TokenId>),
}

impl Receiver {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Receiver, Error> {
        let process = shared.registry.process_token()?;
        let me = shared.registry.me()?;
        endpoint::take_reader(&shared, me, process)?;
        let ring = &shared.ring;
        let words = &ring.head().receiver;
        let region = words.region.load(Ordering::Acquire);
        let limit = if region < ring.regions() {
            ring.limit(region)
        } else {
            Err(ring.segment.damaged("the receiver's region"))
        };
        let limit = match limit {
            Ok(limit) => limit,
            Err(error) => {
                endpoint::leave_reader(&shared, process, me.id.as_u32());
                return Err(error);
            }
        };
        let taken = words.taken.load(Ordering::Acquire);
        let head = ring.head().regions_words[region as usize].head.load(Ordering::Acquire);
        let receiver = Receiver {
            process,
            inside: Cell::new(me.id.as_u32()),
            region: Cell::new(region),
            head: Cell::new(head),
            limit: Cell::new(limit),
            batch_at: Cell::new((0, 0)),
            batch: Cell::new(None),
            taken_before: Cell::new(taken),
            end_when_gone: Cell::new(false),
            shared,
            _not_sync: PhantomData,
        };
        receiver.catch_up();
        Ok(receiver)
    }

    /// Whether a receive that finds nothing ends with [`RecvError::SendersGone`] when there has been a sender and none
    /// is left, alive and not dropped. Default: no, wait for the next one.
    pub fn end_when_senders_gone(&self, end: bool) {
        self.end_when_gone.set(end);
    }

    /// How waiting is done through this queue's handles.
    pub fn set_wait(&self, wait: Wait) {
        self.shared.patience.set(wait);
    }

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

    /// Looks at the next message where it lies, waiting for one until the deadline. At least once: it stays in the queue
    /// until it is committed; dropped without, it is handed out again.
    ///
    /// # Errors
    /// As [`Receiver::recv_until`].
    ///
    /// # If a process dies
    /// This one, before the commit: the next receiver is handed the same message, marked
    /// [`redelivered`](Peeked::redelivered).
    pub fn peek(&mut self, deadline: impl Into<Deadline>) -> Result<Peeked<'_>, RecvError> {
        self.peeked(Some(deadline.into()))
    }

    /// Looks at the next message if there is one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`].
    pub fn try_peek(&mut self) -> Result<Peeked<'_>, RecvError> {
        self.peeked(None)
    }

    fn peeked(&mut self, deadline: Option<Deadline>) -> Result<Peeked<'_>, RecvError> {
        let me = self.enter()?;
        let this = &*self;
        let found = match this.look(me)? {
            Look::Message(found) => found,
            Look::Nothing(_) => {
                if deadline.is_some() {
                    this.spin();
                }
                this.wait_for_message(me, deadline)?
            }
        };
        let place = pack(this.region.get(), this.head.get(), found.number);
        let words = &this.shared.ring.head().receiver;
        let redelivered = this.taken_before.get() == place;
        if redelivered {
            this.taken_before.set(0);
            words.redelivered.store(words.redelivered.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        // Release, and before the user sees the message. Died just before: it is handed out as if for the first time,
        // which it is.
        words.taken.store(place, Ordering::Release);
        Ok(Peeked { receiver: this, found, redelivered })
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
        let ring = &self.shared.ring;
        let region = self.region.get();
        let Some(place) = ring.place(region, self.limit.get(), self.head.get()) else { return false };
        let slot = ring.slot(region, place.index);
        // Acquire pairs with the sender's READY.
        if slot.head.ready.load(Ordering::Acquire) != published(place.lap) {
            return false;
        }
        // Nothing but a length: no batch, no object.
        let meta = slot.head.meta.load(Ordering::Relaxed);
        if meta > ring.inline_bytes() as u64 {
            return false;
        }
        // SAFETY: a slot has `inline_bytes` of payload, and is ours until it is given back.
        unsafe { copy(slot.payload, meta as usize, message) };
        self.give_back(slot, place.lap, None, 1, 0);
        true
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
        self.shared.ring.head().receiver.progress.store(place, Ordering::Release);
    }

    fn leave_batch(&self) {
        self.batch.set(None);
        self.batch_at.set((0, 0));
    }

    /// The calling thread comes in: writes itself into `inside` unless it is there.
    #[inline]
    fn enter(&self) -> Result<Me, RecvError> {
        let me = self.shared.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), RecvError> {
        // A forked child has its parent's handle, and is not its parent.
        if self.shared.registry.process_token_if_any() != Some(self.process) {
            return Err(RecvError::NotReceiver);
        }
        // From what this handle last put there, so that one who was taken for dead does not come in again. AcqRel: before
        // any other shared store of this thread. `&mut self` in all that leads here says that no other thread of the
        // process is inside. Died just after: the next taker waits for this thread's end.
        let inside = &self.shared.ring.head().inside;
        inside
            .compare_exchange(self.inside.get(), me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| RecvError::NotReceiver)?;
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    /// Steps 1 to 3.
    #[inline]
    fn look(&self, me: Me) -> Result<Look<'_>, RecvError> {
        let ring = &self.shared.ring;
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
                return Ok(Look::Nothing(None));
            };
            let slot = ring.slot(region, place.index);
            // Acquire pairs with the sender's READY.
            if slot.head.ready.load(Ordering::Acquire) == published(place.lap) {
                match self.found(slot, place.lap) {
                    Some(found) => return Ok(Look::Message(found)),
                    None => {
                        // Nobody can read it; without a step forward nobody would ever read anything again.
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

    /// Not READY: why? `None` is "look again".
    #[cold]
    fn look_slow<'a>(&'a self, me: Me, slot: Slot<'a>, lap: u64) -> Result<Option<Look<'a>>, RecvError> {
        let word = SlotWord(slot.claim.load(Ordering::Acquire));
        let ring = &self.shared.ring;
        let (region, h) = (self.region.get(), self.head.get());
        let ahead = word.laps_ahead(lap);
        if ahead > 0 {
            return Err(RecvError::Damaged(ring.segment.damaged("a slot ahead of its head")));
        }
        // A void claim in a closed region is nobody's message: so this comes before a look at the claim.
        if self.is_closed(&ring.head().regions_words[region as usize].tail, h) {
            self.next_region(region)?;
            return Ok(None);
        }
        if ahead < 0 {
            return Ok(Some(Look::Nothing(None)));
        }
        match word.state() {
            State::Empty => Ok(Some(Look::Nothing(None))),
            State::Abandoned => {
                self.give_back(slot, lap, None, 0, 1);
                Ok(None)
            }
            State::Writing => match sweep::fate(me, slot, word, lap) {
                Fate::BeingWritten(owner) => Ok(Some(Look::Nothing(Some(owner)))),
                Fate::Settled => Ok(None),
                Fate::Abandoned => {
                    sweep::free_object_of(ring, slot, region, h)?;
                    self.give_back(slot, lap, Some(word), 0, 1);
                    Ok(None)
                }
            },
        }
    }

    /// Asked once, on coming in: a predecessor may have given the slot at the head back and died before it moved the head.
    /// Its `ready` says still that the message is there; the claim's lap tells.
    #[cold]
    fn catch_up(&self) {
        let ring = &self.shared.ring;
        let (region, h) = (self.region.get(), self.head.get());
        if sweep::is_given_back(ring, region, self.limit.get(), h) {
            self.take_counts(region, h);
            self.advance(region, h.wrapping_add(1));
        }
        // It may have died before it freed that message's object.
        let last = self.head.get().wrapping_sub(1);
        if let Some(place) = ring.place(region, self.limit.get(), last) {
            let _ = sweep::free_object_of(ring, ring.slot(region, place.index), region, last);
        }
        wake_senders(&self.shared.ring);
    }

    fn take_counts(&self, region: u32, h: u64) {
        let words = &self.shared.ring.head().receiver;
        if words.journal.load(Ordering::Acquire) == pack(region, h, 0) {
            words.received.store(words.next_received.load(Ordering::Relaxed), Ordering::Relaxed);
            words.abandoned.store(words.next_abandoned.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn advance(&self, region: u32, h: u64) {
        // Release: after the slot and the journal. Died just before: `catch_up`.
        self.shared.ring.head().regions_words[region as usize % MOST_REGIONS].head.store(h, Ordering::Release);
        self.head.set(h);
    }

    #[cold]
    fn next_region(&self, region: u32) -> Result<(), RecvError> {
        let ring = &self.shared.ring;
        let next = region + 1;
        if next >= ring.regions() {
            return Err(RecvError::Damaged(ring.segment.damaged("a closed last region")));
        }
        let words = &ring.head().receiver;
        words.region.store(next, Ordering::Release);
        self.region.set(next);
        self.limit.set(ring.limit(next)?);
        self.head.set(ring.head().regions_words[next as usize].head.load(Ordering::Acquire));
        // A region was full: that many slots lay there at once.
        let backlog = ring.limit(region)? & !super::layout::SEALED;
        words.high_water.fetch_max(backlog, Ordering::Relaxed);
        Ok(())
    }

    /// The message in a READY slot, its shared words read once and checked; `None` when they make no sense.
    #[inline]
    fn found<'a>(&self, slot: Slot<'a>, lap: u64) -> Option<Found<'a>> {
        let ring = &self.shared.ring;
        let meta = Meta::decode(slot.head.meta.load(Ordering::Relaxed));
        let len = meta.len as usize;
        let (bytes, object) = if meta.object {
            // SAFETY: slots hold at least 48 bytes of payload, 8-aligned.
            let reference = unsafe { &*slot.payload.cast::<AtomicU64>() }.load(Ordering::Relaxed);
            let object = ring.pool.object(&ring.segment, u32::try_from(reference).ok()?)?;
            if len as u64 > object.capacity {
                return None;
            }
            // SAFETY: `Pool::object` has compared the object with the file and the mapping.
            (unsafe { ring.segment.address(object.offset) }.cast_const(), Some(object))
        } else if len <= ring.inline_bytes() {
            (slot.payload.cast_const(), None)
        } else {
            return None;
        };
        let found = Found { slot, lap, meta, bytes, len, object, number: 0, next_at: 0 };
        if meta.batch == 0 { Some(found) } else { self.found_in_batch(found) }
    }

    fn found_in_batch<'a>(&self, batch: Found<'a>) -> Option<Found<'a>> {
        let place = pack(self.region.get(), self.head.get(), 0);
        let progress = self.shared.ring.head().receiver.progress.load(Ordering::Relaxed);
        let number = if progress & !0xff_ffff == place { within(progress) } else { 0 };
        if number >= batch.meta.batch {
            return None;
        }
        // SAFETY: `found` has checked that `len` bytes lie there; they change only by somebody hostile, and then every
        // number read from them is checked again.
        let packed = unsafe { core::slice::from_raw_parts(batch.bytes, batch.len) };
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
        self.batch.set(Some(Batch { bytes: batch.bytes, len: batch.len, count: batch.meta.batch }));
        Some(Found {
            // SAFETY: the range lies inside `packed`.
            bytes: unsafe { batch.bytes.add(range.start) },
            len: range.len(),
            number,
            next_at,
            ..batch
        })
    }

    /// Step 4 for a message.
    #[inline]
    fn commit(&self, found: &Found<'_>) {
        if found.number + 1 < found.meta.batch {
            self.commit_in_batch(found.number + 1, found.next_at);
            return;
        }
        self.leave_batch();
        let (region, h) = (self.region.get(), self.head.get());
        self.give_back(found.slot, found.lap, None, found.meta.messages(), 0);
        if let Some(object) = &found.object {
            let ring = &self.shared.ring;
            // Its tag names the place, so it is freed once and only by us. Died just before: `collect`.
            let _ = ring.pool.free_queued(&ring.segment, object, region, h);
            // A sender may wait for that memory.
            wake_senders(&self.shared.ring);
        }
    }

    /// Step 4 for a slot: `from` is the exact word when another might change it.
    #[inline]
    fn give_back(&self, slot: Slot<'_>, lap: u64, from: Option<SlotWord>, received: u64, abandoned: u64) {
        let (region, h) = (self.region.get(), self.head.get());
        let words = &self.shared.ring.head().receiver;
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
        wake_senders(&self.shared.ring);
    }

    /// Now and then: how much lies there?
    #[cold]
    fn note_backlog(&self, region: u32, h: u64) {
        let head = self.shared.ring.head();
        let tail = head.regions_words[region as usize].tail.load(Ordering::Relaxed) & !CLOSED;
        head.receiver.high_water.fetch_max(tail.saturating_sub(h), Ordering::Relaxed);
    }

    /// Step 5, until there is a message.
    #[cold]
    fn wait_for_message(&self, me: Me, deadline: Option<Deadline>) -> Result<Found<'_>, RecvError> {
        if let Look::Message(found) = self.look(me)? {
            return Ok(found);
        }
        let Some(deadline) = deadline else {
            return Err(if self.senders_gone() && matches!(self.look(me)?, Look::Nothing(None)) {
                RecvError::SendersGone
            } else {
                RecvError::Empty
            });
        };
        let shared = &*self.shared;
        let head = shared.ring.head();
        let pass = PassOn::begin(me.list());
        let mut out_of_time = false;
        loop {
            let sequence = head.sequence.load(Ordering::Acquire);
            let before = head.sleeping.load(Ordering::Relaxed);
            // The next odd number: never one that an earlier sleep had, also after a dead predecessor's.
            let mine = before.wrapping_add(1 + (before & 1));
            head.sleeping.store(mine, Ordering::Relaxed);
            // With the sender's `light` between READY and its look at `sleeping`.
            let heavy = barrier::heavy();
            let awake = || {
                let after = mine.wrapping_add(1);
                let _ = head.sleeping.compare_exchange(mine, after, Ordering::Relaxed, Ordering::Relaxed);
            };
            let writer = match self.look(me) {
                Ok(Look::Message(found)) => {
                    awake();
                    return Ok(found);
                }
                Ok(Look::Nothing(writer)) => writer,
                Err(error) => {
                    awake();
                    return Err(error);
                }
            };
            if out_of_time {
                awake();
                return Err(RecvError::TimedOut);
            }
            let slice = if heavy { deadline } else { deadline.earlier(endpoint::short_slice()) };
            let owner = match writer {
                Some(writer) => Some(writer),
                None if self.end_when_gone.get() => match endpoint::senders(shared) {
                    Senders::Some(sender) => Some(sender),
                    Senders::Gone => {
                        // The last one may have sent between our look and its end.
                        let last = self.look(me);
                        awake();
                        match last? {
                            Look::Message(found) => return Ok(found),
                            Look::Nothing(Some(_)) => continue,
                            Look::Nothing(None) => return Err(RecvError::SendersGone),
                        }
                    }
                    Senders::NeverSeen | Senders::Unknown => None,
                },
                None => None,
            };
            let watch = Watch { word: &head.sequence, expected: sequence };
            let end = crate::liveness::sleep(shared.registry, &pass, &[watch], owner, slice);
            awake();
            // Before the next sleep is announced, which costs a membarrier.
            if let Look::Message(found) = self.look(me)? {
                return Ok(found);
            }
            match end {
                Ok(Asleep::LookAgain) => {}
                Ok(Asleep::TimedOut) => out_of_time = deadline.has_passed(),
                Err(errno) => return Err(Error::from_errno("wait in", shared.registry.path(), errno).into()),
            }
        }
    }

    fn senders_gone(&self) -> bool {
        self.end_when_gone.get() && matches!(endpoint::senders(&self.shared), Senders::Gone)
    }

    /// Waits a moment without sleeping; true when there may be something.
    fn spin(&self) -> bool {
        self.is_something_there() || self.shared.patience.spin(|| self.is_something_there())
    }

    /// A cheap look while spinning: has the slot at the head changed?
    #[inline]
    fn is_something_there(&self) -> bool {
        let ring = &self.shared.ring;
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

impl Drop for Receiver {
    fn drop(&mut self) {
        // A forked child's copy is not the receiver.
        if self.shared.registry.process_token_if_any() == Some(self.process) {
            endpoint::leave_reader(&self.shared, self.process, self.inside.get());
        }
    }
}

/// A message that stays in the queue until it is committed.
///
/// The bytes are the shared memory itself, not a copy; nobody writes there until the commit.
pub struct Peeked<'a> {
    receiver: &'a Receiver,
    found: Found<'a>,
    redelivered: bool,
}

impl Peeked<'_> {
    /// Whether a receiver that died had been handed this message too: it may have acted on it.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Takes the message out of the queue.
    pub fn commit(self) {
        self.receiver.commit(&self.found);
    }
}

impl Deref for Peeked<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `found` has checked that `len` bytes lie there; senders do not write to a slot, nor anybody to its
        // object, before it is given back.
        unsafe { core::slice::from_raw_parts(self.found.bytes, self.found.len) }
    }
}
