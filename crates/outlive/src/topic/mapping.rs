//! A topic's file, as this process has it mapped.

use std::sync::OnceLock;

use super::layout::{
    LARGEST_PAYLOAD, PAGE, Plan, RELIABLE, RingWords, SubscriberWords, TopicHead, ring_bytes,
};
use super::slot::{SLOT, Slot};
use crate::Error;
use crate::liveness::{Ends, Registry};
use crate::pool::{Heap, HeapHost, ObjectRef};
use crate::segment::{Segment, View};
use crate::shim::{AtomicU64, Ordering};
use crate::sys::futex;
use crate::wake::SpinWait;

/// What all handles of a topic in this process share.
pub(super) struct Inner {
    /// A mapping in which payloads can only be read.
    pub(super) segment: Segment,
    /// A mapping in which they can be written, once there is a publisher.
    pub(super) writable: OnceLock<View>,
    pub(super) plan: Plan,
    pub(super) heap: Heap,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    /// Device and inode.
    pub(super) file_id: (u64, u64),
}

/// What this process finds out when it maps a topic's file, and what may fail then.
pub(super) struct Map {
    plan: Plan,
    heap: Heap,
    file_id: (u64, u64),
}

impl Map {
    pub(super) fn of(segment: &Segment) -> Result<Map, Error> {
        let plan = Plan::read(segment)?;
        let heap = plan.heap(segment);
        let payloads = plan.payloads();
        segment.set_read_only(
            payloads.start.min(segment.mapped()),
            payloads.end.min(segment.mapped()),
        )?;
        Ok(Map { plan, heap, file_id: segment.facts()?.identity() })
    }
}

impl Inner {
    pub(super) fn open(segment: Segment, registry: &'static Registry) -> Result<Inner, Error> {
        let map = Map::of(&segment)?;
        Ok(Inner::new(segment, map, registry))
    }

    pub(super) fn new(segment: Segment, map: Map, registry: &'static Registry) -> Inner {
        let Map { plan, heap, file_id } = map;
        let (writable, spin_wait) = (OnceLock::new(), SpinWait::new());
        Inner { segment, writable, plan, heap, registry, spin_wait, file_id }
    }

    #[inline]
    pub(super) fn head(&self) -> &TopicHead {
        // SAFETY: `Plan::read` has found that it exists; it is page-aligned and all atomics;
        // mappings do not shrink.
        unsafe { &*self.segment.address(self.plan.head_at()).cast() }
    }

    /// Returns whether the topic offers reliable delivery.
    pub(super) fn offers_reliable(&self) -> bool {
        // Relaxed: written when the file was made.
        self.head().options.load(Ordering::Relaxed) & RELIABLE != 0
    }

    /// Returns how many rings there are.
    #[inline]
    pub(super) fn rings(&self) -> u32 {
        // Acquire pairs with `ring::take`: its slots exist.
        self.head().rings.load(Ordering::Acquire).min(self.plan.capacity.publishers)
    }

    /// Returns how often a publisher has come or gone.
    #[inline]
    pub(super) fn publisher_changes(&self) -> u32 {
        // Acquire pairs with `note_publisher_change`: the ring's owner.
        self.head().publisher_changes.load(Ordering::Acquire)
    }

    /// Returns how many subscribers' slots there are.
    #[inline]
    pub(super) fn subscriber_slot_count(&self) -> u32 {
        // Acquire pairs with `subscriber_slot::take`: it exists.
        let count = self.head().subscriber_slots.load(Ordering::Acquire);
        count.min(self.plan.capacity.subscribers)
    }

    /// Returns a ring's words, for a ring below the most publishers.
    #[inline]
    pub(super) fn ring(&self, ring: u32) -> &RingWords {
        debug_assert!(ring < self.plan.capacity.publishers);
        // SAFETY: below `Plan::initial`, which `Plan::read` has found to exist; aligned; all atomics.
        unsafe { &*self.segment.address(self.plan.ring_at(ring)).cast() }
    }

    /// Returns how many messages a ring has published. A damaged count may have any value, but
    /// never one with which counting on overflows.
    #[inline]
    pub(super) fn published(&self, ring: u32) -> u64 {
        // Acquire pairs with `Publisher::put`: the slot is written.
        self.ring(ring).published.load(Ordering::Acquire).min(1 << 62)
    }

    /// Returns the slots of an existing ring.
    pub(super) fn slots(&self, ring: u32) -> Result<&[Slot], Error> {
        let (at, depth) = (self.plan.slots_at(ring), u64::from(self.plan.depth));
        let _: &Slot = self.segment.at(at + (depth - 1) * SLOT)?;
        // SAFETY: `at` has checked that the last slot is in the mapping and the file; page-aligned;
        // all atomics.
        Ok(unsafe { core::slice::from_raw_parts(self.segment.address(at).cast(), depth as usize) })
    }

    /// Returns whether so many rings take no more than half of the memory that the topic may have:
    /// payloads need the rest.
    pub(super) fn has_memory_for_rings(&self, rings: u32) -> bool {
        let more = u64::from(rings.saturating_sub(self.rings())) * ring_bytes(self.plan.depth);
        self.fixed_bytes() + more <= self.segment.header().max_bytes() / 2
    }

    /// Returns how many messages a ring has had, with one whose publisher died, or is stopped,
    /// before it counted it: others may have received it.
    pub(super) fn all_published(&self, index: u32) -> u64 {
        let published = self.published(index);
        let is_uncounted = self.slots(index).is_ok_and(|slots| {
            let last = &slots[(published & (slots.len() as u64 - 1)) as usize];
            last.position() == Some(published)
        });
        published + u64::from(is_uncounted)
    }

    /// Returns an existing subscriber's slot.
    pub(super) fn subscriber_slot(&self, index: u32) -> Result<SubscriberWords<'_>, Error> {
        let (at, bytes) = (self.plan.subscriber_slot_at(index), self.plan.subscriber_slot_bytes());
        let _: &AtomicU64 = self.segment.at(at + bytes - 8)?;
        // SAFETY: `at` has checked that its last word is in the mapping and the file.
        Ok(unsafe { self.subscriber_words(index) })
    }

    /// # Safety
    /// The slot is in the mapping and the file.
    unsafe fn subscriber_words(&self, index: u32) -> SubscriberWords<'_> {
        // SAFETY: it exists, as the caller says; page-aligned; all atomics; mappings do not shrink.
        unsafe {
            let base = self.segment.address(self.plan.subscriber_slot_at(index));
            SubscriberWords::at(base, &self.plan)
        }
    }

    /// Returns all subscribers' slots that exist.
    pub(super) fn subscriber_slots(&self) -> impl Iterator<Item = SubscriberWords<'_>> {
        let mut count = self.subscriber_slot_count();
        // One check for all: a file has, and a process maps, no slot without those before it.
        while count > 0 && self.subscriber_slot(count - 1).is_err() {
            count -= 1;
        }
        // SAFETY: the last of them is in the mapping and the file, so all are.
        (0..count).map(|index| unsafe { self.subscriber_words(index) })
    }

    pub(super) fn make_ring(&self, ring: u32) -> Result<(), Error> {
        self.segment.grow(self.plan.slots_at(ring), ring_bytes(self.plan.depth))
    }

    pub(super) fn make_subscriber_slot(&self, index: u32) -> Result<(), Error> {
        self.segment.grow(self.plan.subscriber_slot_at(index), self.plan.subscriber_slot_bytes())
    }

    /// Returns where a payload is read.
    #[inline]
    pub(super) fn payload(&self, block: &ObjectRef) -> *const u8 {
        // SAFETY: the heap returns only objects that lie in the mapping.
        unsafe { self.segment.address(block.offset) }
    }

    /// Returns the mapping in which payloads are written.
    pub(super) fn writable(&self) -> Result<&View, Error> {
        if let Some(view) = self.writable.get() {
            return Ok(view);
        }
        let view = self.segment.view()?;
        Ok(self.writable.get_or_init(|| view))
    }

    /// Returns where in the file an address of the writable mapping lies.
    pub(super) fn written_at(&self, address: *const u8) -> Option<u64> {
        self.writable.get()?.offset_of(address.addr())
    }

    /// Returns which processes have ended, as of now.
    pub(super) fn ends(&self) -> Ends {
        Ends::new(self.registry, self.file_id)
    }

    /// Announces that a participant has joined or left.
    pub(super) fn note_change(&self) {
        let changes = &self.head().changes;
        changes.fetch_add(1, Ordering::AcqRel);
        // If this process died just before, a watcher of the participants watches its end, too, or
        // has not seen it.
        futex::wake_all(changes);
    }

    /// Announces that a publisher has come, before its first message, or has gone.
    pub(super) fn note_publisher_change(&self) {
        // AcqRel pairs with `publisher_changes`: the ring's owner. If this process died just before,
        // it has published nothing, or other processes look at a ring longer than they need.
        self.head().publisher_changes.fetch_add(1, Ordering::AcqRel);
        self.note_change();
    }

    /// Returns how many bytes of the file are in use.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        Ok(self.fixed_bytes().saturating_add(self.heap.bytes(&self.segment)?))
    }

    /// Returns the bytes that are in use besides the payloads and their tags.
    fn fixed_bytes(&self) -> u64 {
        let rings = u64::from(self.rings()) * ring_bytes(self.plan.depth);
        let subscribers =
            u64::from(self.subscriber_slot_count()) * self.plan.subscriber_slot_bytes();
        self.plan.initial() + rings + subscribers
    }

    /// Returns the bytes of the largest payload for which there would be room if the topic had never
    /// had another: it takes whole pages, and one for its tag. A larger one never fits.
    pub(super) fn largest_payload(&self) -> u64 {
        let left = self.segment.header().max_bytes().saturating_sub(self.fixed_bytes() + PAGE);
        (left / PAGE * PAGE).min(LARGEST_PAYLOAD as u64)
    }
}

/// No thread waits for a topic's memory.
impl HeapHost for Inner {
    fn allows(&self, more: u64) -> bool {
        self.bytes()
            .is_ok_and(|bytes| bytes.saturating_add(more) <= self.segment.header().max_bytes())
    }

    fn met_in_hand(&self) {}

    fn freed(&self) {}
}
