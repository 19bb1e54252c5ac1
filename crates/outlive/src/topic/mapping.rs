//! A topic's files, as this process has them mapped.

use std::sync::{Arc, OnceLock};

use super::control::{Control, OwnSlot};
use super::layout::{
    ControlHead, LARGEST_PAYLOAD, PAGE, Plan, RELIABLE, RingWords, TopicHead, ring_bytes,
};
use super::slot::{SLOT, Slot};
use super::subscriber_words::SubscriberWords;
use crate::Error;
use crate::liveness::{Ends, Registry};
use crate::pool::{Heap, HeapHost, ObjectRef};
use crate::segment::{Folder, Segment, note_opened};
use crate::shim::Ordering;
use crate::sys::file::Rights;
use crate::sys::futex;
use crate::wake::{EventCount, SpinWait};

/// What all subscribers of a topic in this process share; and, in mappings of its own, what all
/// publishers do.
pub(super) struct Inner {
    /// The control file. First, since it is unmapped first: a process that has the other one mapped
    /// may hold something by it (`Ends`).
    pub(super) control: Control,
    /// The topic's own file. Subscribers can only read it, through mapping and descriptor.
    pub(super) segment: Segment,
    /// What publishers have, once there is one; not set in that itself.
    publishing: OnceLock<Arc<Inner>>,
    pub(super) plan: Plan,
    pub(super) heap: Heap,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    /// Device and inode.
    pub(super) file_id: (u64, u64),
    /// The mode of the topic's own file, when this process opened it.
    pub(super) mode: u32,
}

/// What this process finds out when it maps a topic's files, and what may fail then.
pub(super) struct Map {
    control: Control,
    /// The topic's file, unless the process that maps it has it so already: its maker has another
    /// mapping.
    reading: Option<Segment>,
    plan: Plan,
    heap: Heap,
    file_id: (u64, u64),
    mode: u32,
}

impl Map {
    /// Maps a topic for subscribers.
    ///
    /// # Errors
    /// [`Error::NotFound`], by the control file's path: the topic has been removed meanwhile.
    pub(super) fn of(segment: &Segment, folder: &Folder) -> Result<Map, Error> {
        let reading = match segment.rights() {
            Rights::Read => None,
            Rights::ReadWrite => Some(segment.again(Rights::Read)?),
        };
        let topic = reading.as_ref().unwrap_or(segment);
        let plan = Plan::read(topic)?;
        let control = Control::open(folder, topic, &plan)?;
        let (heap, facts) = (plan.heap(topic), topic.facts()?);
        Ok(Map { control, reading, plan, heap, file_id: facts.identity(), mode: facts.mode })
    }
}

impl Inner {
    /// Opens a topic to look at it.
    pub(super) fn open(
        segment: Segment,
        folder: &Folder,
        registry: &'static Registry,
    ) -> Result<Inner, Error> {
        let map = Map::of(&segment, folder)?;
        Ok(Inner::new(segment, map, registry))
    }

    pub(super) fn new(segment: Segment, map: Map, registry: &'static Registry) -> Inner {
        let Map { control, reading, plan, heap, file_id, mode } = map;
        let (publishing, spin_wait) = (OnceLock::new(), registry.spin_wait());
        let segment = reading.unwrap_or(segment);
        Inner { control, segment, publishing, plan, heap, registry, spin_wait, file_id, mode }
    }

    /// Maps the same topic for a process that publishes, or cleans up: both files are writable.
    pub(super) fn writable(&self) -> Result<Inner, Error> {
        let segment = self.segment.again(Rights::ReadWrite)?;
        Ok(Inner {
            control: self.control.writable(&self.plan)?,
            publishing: OnceLock::new(),
            plan: self.plan.clone(),
            heap: self.plan.heap(&segment),
            registry: self.registry,
            spin_wait: self.spin_wait.again(),
            file_id: self.file_id,
            mode: self.mode,
            segment,
        })
    }

    /// Returns what this process's publishers share.
    pub(super) fn publishing(&self) -> Result<&Arc<Inner>, Error> {
        if let Some(publishing) = self.publishing.get() {
            return Ok(publishing);
        }
        let publishing = Arc::new(self.writable().map_err(|error| match error {
            Error::Permission { path, .. } => Error::Permission { path, doing: "publish to" },
            other => other,
        })?);
        let publishing = self.publishing.get_or_init(|| publishing);
        note_opened(self.registry.index, publishing);
        Ok(publishing)
    }

    /// Sets how this process's handles wait.
    pub(super) fn set_wait_strategy(&self, wait: crate::WaitStrategy) {
        self.spin_wait.set(wait);
        if let Some(publishing) = self.publishing.get() {
            publishing.spin_wait.set(wait);
        }
    }

    #[inline]
    pub(super) fn head(&self) -> &TopicHead {
        // SAFETY: `Plan::read` has found that it exists; it is page-aligned and all atomics;
        // mappings do not shrink.
        unsafe { &*self.segment.address(self.plan.head_at()).cast() }
    }

    /// Returns the words that subscribers write.
    #[inline]
    pub(super) fn shared(&self) -> &ControlHead {
        self.control.head()
    }

    /// Returns the eventcount on which a ring's publisher waits, for a ring below the most publishers.
    #[inline]
    pub(super) fn space(&self, ring: u32) -> &EventCount {
        debug_assert!(ring < self.plan.capacity.publishers);
        self.control.space(ring)
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
        let count = self.control.joined().subscriber_slots.load(Ordering::Acquire);
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

    /// Returns an existing subscriber's slot, to be read. Publishers may write it.
    pub(super) fn subscriber_slot(&self, index: u32) -> Result<SubscriberWords<'_>, Error> {
        self.control.slot(index, &self.plan)
    }

    /// Returns the words of a slot that this process has.
    pub(super) fn own_words<'s>(&self, own: &'s OwnSlot) -> SubscriberWords<'s> {
        own.words(&self.plan)
    }

    /// Returns all subscribers' slots that exist.
    pub(super) fn subscriber_slots(&self) -> impl Iterator<Item = SubscriberWords<'_>> {
        self.control.slots(self.subscriber_slot_count(), &self.plan)
    }

    pub(super) fn make_ring(&self, ring: u32) -> Result<(), Error> {
        self.segment.grow(self.plan.slots_at(ring), ring_bytes(self.plan.depth))
    }

    /// Returns where a payload is read.
    #[inline]
    pub(super) fn payload(&self, block: &ObjectRef) -> *const u8 {
        // SAFETY: the heap returns only objects that lie in the mapping.
        unsafe { self.segment.address(block.offset) }
    }

    /// Returns where a payload is written; called for publishers.
    #[inline]
    pub(super) fn writes_at(&self, block: &ObjectRef) -> *mut u8 {
        // SAFETY: the heap returns only objects that lie in the mapping.
        unsafe { self.segment.address(block.offset) }
    }

    /// Returns where in the file an address of the publishers' mapping lies.
    pub(super) fn written_at(&self, address: *const u8) -> Option<u64> {
        self.publishing.get()?.segment.offset_of(address.addr())
    }

    /// Returns which processes have ended, as of now.
    pub(super) fn ends(&self) -> Ends {
        Ends::new(self.registry, self.file_id)
    }

    /// Announces that a participant has joined or left.
    pub(super) fn note_change(&self) {
        let changes = &self.shared().changes;
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
        self.plan.initial_pages() + rings + subscribers
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
