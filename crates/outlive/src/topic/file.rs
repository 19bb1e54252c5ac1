//! A topic's file, as this process has it mapped.

use super::layout::{LINE_BYTES, LineWords, MOST_LINES, MOST_RINGS, Plan, RingWords, TopicHead, ring_bytes};
use super::slot::{SLOT, Slot};
use crate::Error;
use crate::liveness::{Ends, Registry, SpinWait};
use crate::pool::{Heap, HeapHost, ObjectRef};
use crate::segment::{Segment, View};
use crate::shim::Ordering;
use std::sync::OnceLock;

/// What all handles of a topic in this process have in common.
pub(super) struct Shared {
    /// Payloads can only be read in here.
    pub(super) segment: Segment,
    /// And written in here, once there is a publisher.
    writable: OnceLock<View>,
    pub(super) plan: Plan,
    pub(super) heap: Heap,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    /// Device and inode.
    pub(super) file_id: (u64, u64),
}

impl Shared {
    pub(super) fn new(segment: Segment, registry: &'static Registry) -> Result<Shared, Error> {
        let plan = Plan::read(&segment)?;
        let heap = plan.heap(&segment);
        let payloads = plan.payloads();
        segment.set_read_only(payloads.start.min(segment.mapped()), payloads.end.min(segment.mapped()))?;
        let facts = segment.facts()?;
        let file_id = facts.identity();
        Ok(Shared { segment, writable: OnceLock::new(), plan, heap, registry, spin_wait: SpinWait::new(), file_id })
    }

    #[inline]
    pub(super) fn head(&self) -> &TopicHead {
        // SAFETY: `Plan::read` has seen that it exists; page-aligned; atomics; mappings do not shrink.
        unsafe { &*self.segment.address(self.plan.head_at()).cast() }
    }

    /// How many rings there are.
    #[inline]
    pub(super) fn rings(&self) -> u32 {
        // Acquire pairs with `ring::take`: its slots exist.
        self.head().rings.load(Ordering::Acquire).min(MOST_RINGS as u32)
    }

    /// How many lines.
    #[inline]
    pub(super) fn line_count(&self) -> u32 {
        // Acquire pairs with `subscriber_slot::take`: it exists.
        self.head().lines.load(Ordering::Acquire).min(MOST_LINES as u32)
    }

    /// A ring's words; of one below `MOST_RINGS`.
    #[inline]
    pub(super) fn ring(&self, ring: u32) -> &RingWords {
        debug_assert!((ring as usize) < MOST_RINGS);
        // SAFETY: below Plan::INITIAL, of which `Plan::read` has seen that it exists; aligned; atomics.
        unsafe { &*self.segment.address(self.plan.ring_at(ring)).cast() }
    }

    /// How many messages there have been in a ring. Damaged, that may be anything: but never so many that counting on overflows.
    #[inline]
    pub(super) fn published(&self, ring: u32) -> u64 {
        // Acquire pairs with `Publisher::put`: the slot.
        self.ring(ring).published.load(Ordering::Acquire).min(1 << 62)
    }

    /// A ring's slots, of one that there is.
    pub(super) fn slots(&self, ring: u32) -> Result<&[Slot], Error> {
        let (at, depth) = (self.plan.slots_at(ring), u64::from(self.plan.depth));
        let _: &Slot = self.segment.at(at + (depth - 1) * SLOT)?;
        // SAFETY: `at` has seen that the last one is in the mapping and the file; page-aligned; atomics.
        Ok(unsafe { core::slice::from_raw_parts(self.segment.address(at).cast(), depth as usize) })
    }

    /// A line, of one that there is.
    pub(super) fn line(&self, line: u32) -> Result<&LineWords, Error> {
        self.segment.at(self.plan.line_at(line))
    }

    /// All lines that there are.
    pub(super) fn lines(&self) -> impl Iterator<Item = &LineWords> {
        (0..self.line_count()).map_while(|line| self.line(line).ok())
    }

    pub(super) fn make_ring(&self, ring: u32) -> Result<(), Error> {
        self.segment.grow(self.plan.slots_at(ring), ring_bytes(self.plan.depth))
    }

    pub(super) fn make_line(&self, line: u32) -> Result<(), Error> {
        self.segment.grow(self.plan.line_at(line), LINE_BYTES)
    }

    /// Where a payload is read.
    #[inline]
    pub(super) fn payload(&self, block: &ObjectRef) -> *const u8 {
        // SAFETY: the heap gives only what lies in the mapping.
        unsafe { self.segment.address(block.offset) }
    }

    /// Where payloads are written.
    pub(super) fn writable(&self) -> Result<&View, Error> {
        if let Some(view) = self.writable.get() {
            return Ok(view);
        }
        let view = self.segment.view()?;
        Ok(self.writable.get_or_init(|| view))
    }

    /// Where in the file an address lies at which payloads are written.
    pub(super) fn written_at(&self, address: *const u8) -> Option<u64> {
        self.writable.get()?.offset_of(address.addr())
    }

    /// Who has ended, as it is now.
    pub(super) fn ends(&self) -> Ends {
        Ends::new(self.registry, self.file_id)
    }

    /// Bytes of the file that are in use.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        let rings = u64::from(self.rings()) * ring_bytes(self.plan.depth);
        let lines = u64::from(self.line_count()) * LINE_BYTES;
        Ok((Plan::INITIAL + rings + lines).saturating_add(self.heap.bytes(&self.segment)?))
    }
}

/// Nobody waits for a topic's memory.
impl HeapHost for Shared {
    fn allows(&self, more: u64) -> bool {
        self.bytes().is_ok_and(|bytes| bytes.saturating_add(more) <= self.segment.header().max_bytes())
    }

    fn met_in_hand(&self) {}

    fn freed(&self) {}
}
