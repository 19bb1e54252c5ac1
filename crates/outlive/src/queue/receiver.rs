//! The receiving end: who comes in where a predecessor stopped, which thread is inside, and its place.
//!
//! Coming in is step 0 of `receive.rs`. Died in the middle of it: the next one finds the same, or what is left of it. Who may
//! come in stands in `endpoint.rs`.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Inner;
use super::batch::Batch;
use super::endpoint;
use super::error::RecvError;
use super::layout::{MOST_REGIONS, pack};
use super::sweep;
use super::wake::wake_senders;
use crate::liveness::{Me, TokenId};
use crate::shim::Ordering;
use crate::{Error, WaitStrategy};

/// The end of a queue that messages come out of. One at a time; may move between threads.
///
/// # If a process dies
/// The receiver's: senders are told at once; whoever calls [`Queue::receiver`](super::Queue::receiver) next goes on where
/// it stopped. A sender's: what it had sent is received, what it was sending is skipped.
pub struct Receiver {
    pub(super) inner: Arc<Inner>,
    process: TokenId,
    /// The thread that last came in, as in the shared `inside`.
    inside: Cell<u32>,
    pub(super) region: Cell<u32>,
    pub(super) head: Cell<u64>,
    pub(super) limit: Cell<u64>,
    /// Where the next message of the batch at the head begins: (its number, byte).
    pub(super) batch_at: Cell<(u32, usize)>,
    /// The batch at the head, once it has been found and checked.
    pub(super) batch: Cell<Option<Batch>>,
    /// Place of the message that a dead predecessor had taken and not committed.
    pub(super) taken_before: Cell<u64>,
    pub(super) end_when_gone: Cell<bool>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Receiver {
    pub(super) fn new(inner: Arc<Inner>) -> Result<Receiver, Error> {
        let process = inner.registry.process_token()?;
        let me = inner.registry.me()?;
        endpoint::take_receiver(&inner, me, process)?;
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
                endpoint::leave_receiver(&inner, process, me.id.as_u32());
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
            inner,
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
    pub fn set_wait(&self, wait: WaitStrategy) {
        self.inner.spin_wait.set(wait);
    }

    /// The calling thread comes in: writes itself into `inside` unless it is there.
    #[inline]
    pub(crate) fn enter(&self) -> Result<Me, RecvError> {
        let me = self.inner.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), RecvError> {
        // A forked child has its parent's handle, and is not its parent.
        if self.inner.registry.process_token_if_any() != Some(self.process) {
            return Err(RecvError::NotReceiver);
        }
        // From what this handle last put there, so that one who was taken for dead does not come in again. AcqRel: before
        // any other shared store of this thread. `&mut self` in all that leads here says that no other thread of the
        // process is inside. Died just after: the next taker waits for this thread's end.
        let inside = &self.inner.ring.head().inside;
        inside
            .compare_exchange(self.inside.get(), me.id.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
            .map_err(|_| RecvError::NotReceiver)?;
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    /// Asked once, on coming in: a predecessor may have given the slot at the head back and died before it moved the head.
    /// Its `ready` says still that the message is there; the claim's lap tells.
    #[cold]
    fn catch_up(&self) {
        let ring = &self.inner.ring;
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
        wake_senders(&self.inner.ring);
    }

    fn take_counts(&self, region: u32, h: u64) {
        let words = &self.inner.ring.head().receiver_words;
        if words.journal.load(Ordering::Acquire) == pack(region, h, 0) {
            words.received.store(words.next_received.load(Ordering::Relaxed), Ordering::Relaxed);
            words.abandoned.store(words.next_abandoned.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn advance(&self, region: u32, h: u64) {
        // Release: after the slot and the journal. Died just before: `catch_up`.
        self.inner.ring.head().regions_words[region as usize % MOST_REGIONS].head.store(h, Ordering::Release);
        self.head.set(h);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // A forked child's copy is not the receiver.
        if self.inner.registry.process_token_if_any() == Some(self.process) {
            endpoint::leave_receiver(&self.inner, self.process, self.inside.get());
        }
    }
}
