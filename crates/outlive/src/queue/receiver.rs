//! The receiving end: how it takes over where a predecessor stopped, which thread is inside, and
//! its place.
//!
//! Entering is step 0 of `receive.rs`. If a receiver dies in the middle of it, the next one finds
//! the same, or what is left of it. `claim/role.rs` says which process and which thread may enter.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Inner;
use super::batch::Batch;
use super::layout::{MOST_REGIONS, QueueHead, pack};
use super::sweep;
use crate::claim::HeldRole;
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::{Deadline, Error, RecvError};

/// The receiving end, which knows messages as bytes alone.
pub(crate) struct RawReceiver {
    pub(super) inner: Arc<Inner>,
    role: Cell<HeldRole>,
    pub(super) region: Cell<u32>,
    pub(super) head: Cell<u64>,
    pub(super) limit: Cell<u64>,
    /// Where the next message of the batch at the head begins: (its number, its byte).
    pub(super) batch_at: Cell<(u32, usize)>,
    /// The batch at the head, once it has been found and checked.
    pub(super) batch: Cell<Option<Batch>>,
    /// Place of the last message that predecessors had handed out before its commit.
    pub(super) taken_before: Cell<u64>,
    /// Place of the last of these that this receiver has counted as handed out again.
    pub(super) counted_again: Cell<u64>,
    pub(super) end_when_gone: Cell<bool>,
    _not_sync: PhantomData<Cell<()>>,
}

impl RawReceiver {
    /// Takes the role, which errors call `name`. Waits for the last thread of a dead receiver until
    /// the deadline, and two seconds at most.
    pub(super) fn new(
        inner: Arc<Inner>,
        name: &'static str,
        deadline: Deadline,
    ) -> Result<RawReceiver, Error> {
        let role = inner.role().take(name, &inner.ring.segment, deadline)?;
        let ring = &inner.ring;
        let words = &ring.head().receiver_words;
        let region = words.region.load(Ordering::Acquire);
        let limit = if region < ring.regions() {
            ring.limit(region)
        } else {
            Err(ring.segment.damaged("the receiver's region"))
        };
        let limit = match limit {
            Ok(limit) => limit,
            Err(error) => {
                role.leave(inner.role());
                return Err(error);
            }
        };
        let taken = words.taken.load(Ordering::Acquire);
        let head = ring.head().regions_words[region as usize].head.load(Ordering::Acquire);
        let receiver = RawReceiver {
            role: Cell::new(role),
            region: Cell::new(region),
            head: Cell::new(head),
            limit: Cell::new(limit),
            batch_at: Cell::new((0, 0)),
            batch: Cell::new(None),
            taken_before: Cell::new(taken),
            counted_again: Cell::new(0),
            end_when_gone: Cell::new(false),
            inner,
            _not_sync: PhantomData,
        };
        receiver.catch_up();
        Ok(receiver)
    }

    /// Puts the calling thread into `inside` unless it is there.
    // Always inline: a call of it is a tenth of a receive.
    #[inline(always)]
    pub(crate) fn enter(&self) -> Result<Me, RecvError> {
        let me = self.inner.registry.me()?;
        if !self.role.get().is_inside(me) {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), RecvError> {
        // `&mut self` in all callers means that no other thread of the process is inside.
        let role = self.role.get().enter(self.inner.role(), me).ok_or(RecvError::NotOwner)?;
        self.role.set(role);
        Ok(())
    }

    /// Done once, on entering: a predecessor may have given the slot at the head back and died
    /// before it moved the head. The slot's `ready` still says that the message is there; the
    /// claim's lap tells.
    #[cold]
    fn catch_up(&self) {
        let ring = &self.inner.ring;
        let (region, h) = (self.region.get(), self.head.get());
        if sweep::is_given_back(ring, region, self.limit.get(), h) {
            self.take_counts(region, h);
            self.advance(ring.head(), region, h.wrapping_add(1));
        }
        // The predecessor may have died before it freed that message's object.
        let last = self.head.get().wrapping_sub(1);
        if let Some(place) = ring.place(region, self.limit.get(), last) {
            let _ = sweep::free_object_of(ring, ring.slot(region, place.index), region, last);
        }
        ring.head().room.notify_all();
    }

    fn take_counts(&self, region: u32, h: u64) {
        let words = &self.inner.ring.head().receiver_words;
        if words.journal.load(Ordering::Acquire) == pack(region, h, 0) {
            words.received.store(words.next_received.load(Ordering::Relaxed), Ordering::Relaxed);
            words.abandoned.store(words.next_abandoned.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn advance(&self, head: &QueueHead, region: u32, h: u64) {
        // Release: after the slot and the journal. If this thread died just before, the next one's
        // `catch_up` does it.
        head.regions_words[region as usize % MOST_REGIONS].head.store(h, Ordering::Release);
        self.head.set(h);
    }
}

impl Drop for RawReceiver {
    fn drop(&mut self) {
        self.role.get().leave(self.inner.role());
    }
}
