//! The objects of a publisher's ring that are in no slot: in limbo until no subscriber holds them,
//! then ready to be lent again, the last one first, since it may still be in the processor's cache.
//!
//! This is private memory: if the publisher dies, the tags of all these objects say queued(ring)
//! and no slot has them, and the ring's next owner finds them.

use super::claim::Claim;
use super::hazard;
use super::mapping::Inner;
use super::subscriber_slot;
use crate::liveness::Me;
use crate::pool::{ObjectRef, RingTag};
use crate::shim::Ordering;

/// The publisher scans hazard pointers when so many objects are in limbo,
const SOME: usize = 32;
/// or some that together have so many bytes: a scan takes cache lines from subscribers,
const SOME_BYTES: u64 = 64 << 10;
const SOME_LONG: usize = 4;
/// or so many bytes, or a sixteenth of the topic's.
const MANY_BYTES: u64 = MOST_READY;

/// When a publisher scans hazard pointers. A scan looks at each subscriber's slot: it waits for more
/// objects where there are more slots, so that a message's part in it stays the same.
#[derive(Clone, Copy)]
struct Due {
    objects: usize,
    long_objects: usize,
    bytes: u64,
}

impl Due {
    fn among(slots: u32) -> Due {
        let slots = slots as usize;
        Due {
            objects: SOME.max(2 * slots),
            long_objects: SOME_LONG.max(slots / 16),
            bytes: SOME_BYTES.max((slots as u64) << 12),
        }
    }
}

/// Returns how many bytes a publisher has in limbo at most before it scans, whatever their number,
/// in a topic of so many: other publishers need memory, too.
fn many_bytes(max_bytes: u64) -> u64 {
    (max_bytes / 16).clamp(SOME_BYTES, MANY_BYTES)
}

/// The most bytes that are kept ready.
const MOST_READY: u64 = 64 << 20;

#[derive(Default)]
pub(super) struct FreeList {
    /// Free to be lent; the last one was used last.
    ready: Vec<ObjectRef>,
    ready_bytes: u64,
    /// Overwritten; a subscriber may hold them.
    limbo: Vec<ObjectRef>,
    limbo_bytes: u64,
    /// When to scan hazard pointers next: (objects, bytes) in limbo.
    look_at: (usize, u64),
    held: Vec<u32>,
    /// Bytes that stay ready, if they are more than [`MOST_READY`].
    keep: u64,
    /// Among how many subscribers' slots the objects were prepared, if they were: no more than these
    /// would need are ever in limbo, however many subscribers come later.
    prepared_among: Option<u32>,
}

/// Returns how many objects of so many bytes a publisher has in limbo at most before it scans so many
/// slots, when subscribers hold so many objects at a time.
pub(super) fn objects_in_turn(held: usize, bytes: u64, slots: u32) -> usize {
    let due = Due::among(slots);
    let long = usize::try_from(due.bytes.div_ceil(bytes.max(1))).unwrap_or(due.objects);
    due.objects.max(2 * held).min(long.max(due.long_objects).max(2 * held))
}

impl FreeList {
    /// Returns the object that is lent next, most likely.
    pub(super) fn next(&self) -> Option<&ObjectRef> {
        self.ready.last()
    }

    pub(super) fn retire(&mut self, block: ObjectRef) {
        self.limbo_bytes += block.capacity;
        self.limbo.push(block);
    }

    /// Puts back an object that was lent and not published.
    pub(super) fn put_back(&mut self, block: ObjectRef) {
        self.ready_bytes += block.capacity;
        self.ready.push(block);
    }

    /// Prepares for so many objects of so many bytes, which stay; returns how many are there that
    /// are lent for that length.
    pub(super) fn prepare(&mut self, objects: usize, bytes: u64, slots: u32) -> usize {
        self.prepared_among = Some(slots);
        self.keep = self.keep.max((objects as u64).saturating_mul(2 * bytes.max(256)));
        // Those of the ring's slots, too, of whatever length: each may come to be in limbo.
        let more = objects + self.ready.len() + self.limbo.len();
        self.ready.reserve(more);
        self.limbo.reserve(more);
        self.held.reserve(objects);
        let fits =
            |object: &&ObjectRef| object.capacity >= bytes && object.capacity / 2 <= bytes.max(256);
        self.ready.iter().filter(fits).count() + self.limbo.iter().filter(fits).count()
    }

    /// Takes an object for so many bytes, of at most twice as many.
    pub(super) fn take(&mut self, len: u64) -> Option<ObjectRef> {
        self.take_that(len, |block| block.capacity / 2 <= len.max(256))
    }

    /// Takes an object of at least so many bytes for which `fits` returns `true`; tries the last
    /// one first.
    pub(super) fn take_that(
        &mut self,
        len: u64,
        mut fits: impl FnMut(&ObjectRef) -> bool,
    ) -> Option<ObjectRef> {
        let at = self.ready.iter().rposition(|block| block.capacity >= len && fits(block))?;
        let block = self.ready.remove(at);
        self.ready_bytes -= block.capacity;
        Some(block)
    }

    /// Returns whether it is time to scan so many slots for objects of the limbo that no subscriber
    /// holds, in a topic of so many bytes at most.
    pub(super) fn is_due(&self, slots: u32, max_bytes: u64) -> bool {
        let due = Due::among(self.prepared_among.map_or(slots, |prepared| prepared.min(slots)));
        let (count, bytes) = self.look_at;
        let some = self.limbo.len() >= due.long_objects && self.limbo_bytes >= bytes.max(due.bytes);
        some || self.limbo.len() >= count.max(due.objects)
            || self.limbo_bytes >= bytes.max(many_bytes(max_bytes))
    }

    /// Scans all hazard pointers: objects that no subscriber holds become ready. Returns whether
    /// there were any.
    #[cold]
    #[inline(never)]
    pub(super) fn look(&mut self, inner: &Inner, me: Option<Me>) -> bool {
        if self.limbo.is_empty() {
            return false;
        }
        let mut held = core::mem::take(&mut self.held);
        let names = |held: &mut Vec<u32>| {
            hazard::names(|| subscriber_slot::holding(inner), held);
        };
        names(&mut held);
        if let Some(me) = me
            && !held.is_empty()
        {
            // A dead subscriber's pointers would count for ever.
            let is_dead = |claim| Claim::of(claim).is_some_and(|claim| !me.is_alive(claim.process));
            let mut claims =
                inner.subscriber_slots().map(|words| words.claim.load(Ordering::Relaxed));
            if claims.any(is_dead) {
                subscriber_slot::sweep(inner, me, &inner.ends(), false);
                names(&mut held);
            }
        }
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
        // What is held now will be held for a while: no new scan at each loan.
        self.look_at = (self.limbo.len() * 2, self.limbo_bytes * 2);
        self.limbo.len() < before
    }

    /// Frees the oldest ready objects beyond the limit, or all of them if asked.
    pub(super) fn trim(&mut self, inner: &Inner, ring: u32, all: bool) -> u32 {
        // No more than a quarter of the topic: other publishers need memory, too.
        let quarter = inner.segment.header().max_bytes() / 4;
        let most = if all { 0 } else { MOST_READY.min(quarter).max(self.keep) };
        let mut count = 0;
        while self.ready_bytes > most && self.ready.len() > count {
            let block = self.ready[count];
            self.ready_bytes -= block.capacity;
            // By the exact tag. Another tag means damage, and the object stays as it is.
            let RingTag { region, position } = RingTag::of(ring);
            let _ = inner.heap.free_queued(&inner.segment, &block, region, position);
            count += 1;
        }
        self.ready.drain(..count);
        count as u32
    }

    /// Frees all objects that no subscriber holds; returns how many.
    pub(super) fn give_back(&mut self, inner: &Inner, ring: u32) -> u32 {
        self.look(inner, None);
        self.trim(inner, ring, true)
    }
}
