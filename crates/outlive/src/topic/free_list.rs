//! What a publisher has of its ring's objects besides those in slots: in limbo until nobody holds them, then to be lent out again,
//! the last one first, since it may still be in the processor's cache.
//!
//! Private memory: died with it, all of these say queued(ring) and are in no slot, and the ring's next owner finds them.

use super::hazard;
use super::mapping::Inner;
use super::subscriber_slot;
use crate::liveness::Me;
use crate::pool::ObjectRef;

/// Hazard pointers are looked at when so many are in limbo,
const SOME: usize = 32;
/// or some that together have so many bytes: looking takes cache lines from subscribers,
const SOME_BYTES: u64 = 64 << 10;
const SOME_LONG: usize = 4;
/// or so many bytes.
const MANY_BYTES: u64 = MOST_READY;
/// The most bytes that lie ready.
const MOST_READY: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct FreeList {
    /// Nobody's; the last one was used last.
    ready: Vec<ObjectRef>,
    ready_bytes: u64,
    /// Overwritten; somebody may hold them.
    limbo: Vec<ObjectRef>,
    limbo_bytes: u64,
    /// When to look at hazard pointers next.
    look_at: (usize, u64),
    held: Vec<u32>,
}

impl FreeList {
    pub(super) fn retire(&mut self, block: ObjectRef) {
        self.limbo_bytes += block.capacity;
        self.limbo.push(block);
    }

    /// One that was lent out and not published.
    pub(super) fn put_back(&mut self, block: ObjectRef) {
        self.ready_bytes += block.capacity;
        self.ready.push(block);
    }

    /// One for so many bytes, of at most twice as many.
    pub(super) fn take(&mut self, len: u64) -> Option<ObjectRef> {
        let fits = |block: &ObjectRef| block.capacity >= len && block.capacity / 2 <= len.max(256);
        let at = self.ready.iter().rposition(fits)?;
        let block = self.ready.remove(at);
        self.ready_bytes -= block.capacity;
        Some(block)
    }

    /// One of at least so many bytes that `fits`; the last one first.
    pub(super) fn take_that(&mut self, len: u64, mut fits: impl FnMut(&ObjectRef) -> bool) -> Option<ObjectRef> {
        let at = self.ready.iter().rposition(|block| block.capacity >= len && fits(block))?;
        let block = self.ready.remove(at);
        self.ready_bytes -= block.capacity;
        Some(block)
    }

    /// Whether it is time to look what of the limbo nobody holds.
    pub(super) fn is_due(&self) -> bool {
        let (count, bytes) = self.look_at;
        let some = self.limbo.len() >= SOME_LONG && self.limbo_bytes >= bytes.max(SOME_BYTES);
        some || self.limbo.len() >= count.max(SOME) || self.limbo_bytes >= bytes.max(MANY_BYTES)
    }

    /// Looks at all hazard pointers: what nobody holds is ready. Says whether there was something.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&mut self, inner: &Inner, me: Option<Me>) -> bool {
        if self.limbo.is_empty() {
            return false;
        }
        if let Some(me) = me {
            // A dead subscriber's pointers would count for ever.
            let is_dead = |claim| super::layout::Claim::of(claim).is_some_and(|claim| !me.is_alive(claim.process));
            if inner.subscriber_slots().any(|words| is_dead(words.claim.load(crate::shim::Ordering::Relaxed))) {
                subscriber_slot::sweep(inner, me, &inner.ends(), false);
            }
        }
        let mut held = core::mem::take(&mut self.held);
        hazard::names(|| inner.subscriber_slots().map(|words| words.hazard_pointers()), &mut held);
        let before = self.limbo.len();
        let (ready, ready_bytes) = (&mut self.ready, &mut self.ready_bytes);
        self.limbo.retain(|block| {
            let is_held = held.binary_search(&block.reference).is_ok();
            if !is_held {
                *ready_bytes += block.capacity;
                ready.push(*block);
            }
            is_held
        });
        self.held = held;
        self.limbo_bytes = self.limbo.iter().map(|block| block.capacity).sum();
        // What is held now will be a while: not again at each loan.
        self.look_at = (self.limbo.len() * 2, self.limbo_bytes * 2);
        self.limbo.len() < before
    }

    /// Frees what lies ready and is more than may, the oldest first; all of it if asked.
    pub(super) fn trim(&mut self, inner: &Inner, ring: u32, all: bool) -> u32 {
        let most = if all { 0 } else { MOST_READY };
        let mut count = 0;
        while self.ready_bytes > most && self.ready.len() > count {
            let block = self.ready[count];
            self.ready_bytes -= block.capacity;
            // By the exact tag. Another one: damaged, and nobody's business.
            let _ = inner.heap.free_queued(&inner.segment, &block, ring, 0);
            count += 1;
        }
        self.ready.drain(..count);
        count as u32
    }

    /// Frees all that nobody holds; how many.
    pub(super) fn give_back(&mut self, inner: &Inner, ring: u32) -> u32 {
        self.look(inner, None);
        self.trim(inner, ring, true)
    }
}
