//! The rings where loom runs the queue: two slots in region 0, four in region 1, no growth within a
//! region.

use super::layout::{MOST_REGIONS, QueueHead, SEALED, SlotHead};
use crate::Error;
use crate::pool::Heap;
use crate::segment::Segment;
use crate::shim::{AtomicU32, AtomicU64, Ordering};

pub(super) struct Ring {
    pub(super) segment: Segment,
    pub(super) pool: Heap,
    head: QueueHead,
    senders: [AtomicU32; super::layout::MOST_SENDERS],
    tasks: [AtomicU64; super::layout::MOST_TASK_ENTRIES],
    slots: Vec<Vec<(SlotHead, core::cell::UnsafeCell<[u8; 48]>, AtomicU64)>>,
}

// SAFETY: payloads are reached under the queue's protocol, which is what is being explored.
unsafe impl Sync for Ring {}
// SAFETY: payloads are reached under the queue's protocol, which is what is being explored.
unsafe impl Send for Ring {}

#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) lap: u64,
    pub(super) index: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    Settled,
    NoRoom,
}

#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    pub(super) head: &'a SlotHead,
    pub(super) payload: *mut u8,
    pub(super) claim: &'a AtomicU64,
}

impl Ring {
    /// Returns a ring of so many regions: the first has `first` slots.
    pub(super) fn new(first: usize, regions: usize) -> Ring {
        let head = QueueHead::default();
        head.limits[0].store(first as u64, Ordering::Relaxed);
        let slots = (0..regions)
            .map(|region| {
                (0..first << region)
                    .map(|_| (SlotHead::default(), [0; 48].into(), AtomicU64::default()))
                    .collect()
            })
            .collect();
        let (senders, tasks) = Default::default();
        Ring { segment: Segment, pool: Heap, head, senders, tasks, slots }
    }

    /// Returns how many slots a region has.
    pub(super) fn nominal(&self, region: u32) -> u64 {
        self.slots[region as usize].len() as u64
    }

    pub(super) fn head(&self) -> &QueueHead {
        &self.head
    }

    pub(super) fn senders(&self) -> &[AtomicU32; super::layout::MOST_SENDERS] {
        &self.senders
    }

    pub(super) fn tasks(&self) -> &[AtomicU64; super::layout::MOST_TASK_ENTRIES] {
        &self.tasks
    }

    pub(super) fn regions(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(super) fn inline_bytes(&self) -> usize {
        48
    }

    pub(super) fn limit(&self, region: u32) -> Result<u64, Error> {
        Ok(self.head.limits[region as usize % MOST_REGIONS].load(Ordering::Acquire))
    }

    pub(super) fn place(&self, _region: u32, limit: u64, position: u64) -> Option<Position> {
        let slots = limit & !SEALED;
        (slots != 0).then(|| Position { lap: position / slots, index: position % slots })
    }

    pub(super) fn position_of(
        &self,
        _region: u32,
        limit: u64,
        index: u64,
        lap: u64,
    ) -> Option<u64> {
        lap.checked_mul(limit & !SEALED)?.checked_add(index)
    }

    pub(super) fn slot(&self, region: u32, index: u64) -> Slot<'_> {
        let (head, payload, claim) = &self.slots[region as usize][index as usize];
        Slot { head, payload: payload.get().cast(), claim }
    }

    pub(super) fn allows(&self, _more: u64) -> bool {
        false
    }

    pub(super) fn most_message_bytes(&self) -> u64 {
        48
    }

    pub(super) fn grow_region(&self, _region: u32, _limit: u64) -> Result<Growth, Error> {
        Ok(Growth::NoRoom)
    }

    pub(super) fn open_next(&self, region: u32) -> Result<Growth, Error> {
        let next = region as usize + 1;
        if next >= self.slots.len() {
            return Ok(Growth::NoRoom);
        }
        let slots = self.slots[next].len() as u64;
        let _ =
            self.head.limits[next].compare_exchange(0, slots, Ordering::Release, Ordering::Relaxed);
        Ok(Growth::Settled)
    }
}
