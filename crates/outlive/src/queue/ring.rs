//! The rings: regions of slots that double, and how they grow in steps.
//!
//! A region's *limit* says how many of its slots exist. Positions below it are their own slot's
//! index: the first lap is written as the region grows. The sender that reaches the limit decides,
//! by one compare-exchange on it: either the system gave more pages (limit + step), or it did not
//! (sealed). Sealed, or at its nominal size, the region is a ring of that many slots, for good.
//! proof/models/limit.pml.
//!
//! | limit | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | the region does not exist | pages may exist: the next sender to grow it finds them |
//! | n | n slots exist, positions beyond wait for a decision | the same |
//! | n, sealed or nominal | a ring of n slots | |
//!
//! A queue that is bounded to N messages has one region, which the sender that makes slot N seals:
//! a ring of N slots is full with N messages. Where N slots fit into one step, the region is sealed
//! before the file has a name.

use super::layout::{
    CONTROL_AT, HEAD_AT, MOST_MESSAGES, MOST_REGIONS, MOST_TASK_ENTRIES, QueueHead, SEALED,
    SENDERS_AT, SLOT_HEAD, SLOT_OVERHEAD, SlotHead, TASKS_AT,
};
use super::plan::{STEP, first_slots_of_bound, most_ring_bytes, slots_of_bound};
use crate::Error;
use crate::pool::{Heap, SPAN, Shape};
use crate::segment::Segment;
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// A queue's memory, as this process has it mapped.
pub(super) struct Ring {
    pub(super) segment: Segment,
    pub(super) pool: Heap,
    slot_bytes: u64,
    first_slots: u64,
    regions: u32,
    /// 0: there is no bound.
    max_messages: u32,
    /// Where region 0 begins.
    rings_at: u64,
    /// Between slots and tags, see [`Ring::annex`].
    tags_at: u64,
}

/// Where a position lies.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub(super) lap: u64,
    pub(super) index: u64,
}

/// What became of an attempt to grow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Look again: there is more, or another thread settled it.
    Settled,
    /// There is no room.
    NoRoom,
}

impl Ring {
    pub(super) fn new(segment: Segment) -> Result<Ring, Error> {
        let head: &QueueHead = segment.at(HEAD_AT)?;
        let slot_bytes = u64::from(head.slot_bytes.load(Ordering::Relaxed));
        let first_slots = u64::from(head.first_slots.load(Ordering::Relaxed));
        let regions = head.regions.load(Ordering::Relaxed);
        let tags_at = head.pool_tags_at.load(Ordering::Relaxed);
        let spans_at = head.pool_spans_at.load(Ordering::Relaxed);
        let spans = head.pool_spans.load(Ordering::Relaxed);
        let max_messages = head.max_messages.load(Ordering::Relaxed);
        let sane = spans <= 1 << 12
            && slot_bytes.is_power_of_two()
            && (64..=4096).contains(&slot_bytes)
            && first_slots.is_power_of_two()
            && first_slots <= u64::from(MOST_MESSAGES)
            && (max_messages == 0
                || max_messages <= MOST_MESSAGES
                    && regions == 1
                    && first_slots == u64::from(slots_of_bound(max_messages)))
            && (1..=MOST_REGIONS as u32).contains(&regions)
            && tags_at.is_multiple_of(4096)
            && spans_at.is_multiple_of(4096)
            && tags_at < 1 << 40
            && tags_at + Shape::QUEUE.tag_bytes(spans) <= spans_at
            && spans_at < 1 << 40;
        if !sane {
            return Err(segment.damaged("the queue's configuration"));
        }
        // A process that could not map all of the file uses the spans that it has.
        let rings_at = CONTROL_AT + Heap::control_bytes(spans);
        let usable = segment.mapped().saturating_sub(spans_at) / SPAN;
        let usable = spans.min(u32::try_from(usable).unwrap_or(u32::MAX));
        let pool = Heap::new(Shape::QUEUE, CONTROL_AT, tags_at, spans_at, usable);
        let ring = Ring {
            pool,
            slot_bytes,
            first_slots,
            regions,
            max_messages,
            rings_at,
            tags_at,
            segment,
        };
        ring.segment.exists(rings_at + slot_bytes * u64::from(ring.first_slots().0))?;
        let last = ring.regions - 1;
        if ring.region_at(last) + ring.nominal(last) * slot_bytes > tags_at {
            return Err(ring.segment.damaged("the queue's configuration"));
        }
        Ok(ring)
    }

    #[inline]
    pub(super) fn head(&self) -> &QueueHead {
        // SAFETY: `new` has checked the head's range through `Segment::at`, and mappings do not
        // shrink.
        unsafe { &*self.segment.address(HEAD_AT).cast::<QueueHead>() }
    }

    pub(super) fn senders(&self) -> &[AtomicU32; super::layout::MOST_SENDERS] {
        // SAFETY: the table ends before CONTROL_AT, which `new` has found to exist; it is
        // page-aligned and all atomics.
        unsafe { &*self.segment.address(SENDERS_AT).cast() }
    }

    /// Returns the table of what processes have received and not done.
    pub(super) fn tasks(&self) -> &[AtomicU64; MOST_TASK_ENTRIES] {
        // SAFETY: as the senders' table, which follows it.
        unsafe { &*self.segment.address(TASKS_AT).cast() }
    }

    /// Returns how many slots the queue began with, and the bytes of each.
    pub(super) fn first_slots(&self) -> (u32, u32) {
        // `new` has checked that both are small.
        let (slots, bytes) = (self.first_slots as u32, self.slot_bytes as u32);
        let max_bytes = self.segment.header().max_bytes();
        (
            self.max_messages()
                .map_or(slots, |bound| first_slots_of_bound(bound, bytes, max_bytes)),
            bytes,
        )
    }

    /// Returns the most unread messages that the queue holds, if there is a bound.
    pub(super) fn max_messages(&self) -> Option<u32> {
        (self.max_messages > 0).then_some(self.max_messages)
    }

    /// Returns how many messages there is a place for, if there is a bound: fewer than it says once
    /// a sender has sealed the ring for want of memory, or while the next one would.
    pub(super) fn places(&self) -> Option<u64> {
        let bound = u64::from(self.max_messages()?);
        // Relaxed: a number to show, and no slot is looked at.
        let limit = self.head().limits[0].load(Ordering::Relaxed);
        let slots = (limit & !SEALED).min(bound);
        let grows = limit & SEALED == 0 && self.may_grow(0, slots);
        Some(if grows { bound } else { slots })
    }

    pub(super) fn regions(&self) -> u32 {
        self.regions
    }

    /// Returns how many bytes of payload a slot holds itself.
    #[inline]
    pub(super) fn inline_bytes(&self) -> usize {
        (self.slot_bytes - SLOT_OVERHEAD) as usize
    }

    /// Returns where another layer's words, between slots and tags, begin and end.
    pub(super) fn annex(&self) -> (u64, u64) {
        let last = self.regions - 1;
        let end = self.region_at(last) + self.nominal(last) * self.slot_bytes;
        (end.next_multiple_of(4096), self.tags_at)
    }

    /// Returns how many slots a region has at its largest.
    #[inline]
    pub(super) fn nominal(&self, region: u32) -> u64 {
        self.first_slots << region
    }

    /// Returns how many slots a region gets: fewer than at its largest where messages are bounded.
    fn most_slots(&self, region: u32) -> u64 {
        match self.max_messages {
            0 => self.nominal(region),
            bound => u64::from(bound),
        }
    }

    fn region_at(&self, region: u32) -> u64 {
        self.rings_at + self.slot_bytes * self.first_slots * ((1 << region) - 1)
    }

    /// Returns a region's limit, as far as this process has it mapped.
    pub(super) fn limit(&self, region: u32) -> Result<u64, Error> {
        // Acquire pairs with `grow_region`: the pages exist.
        let limit = self.head().limits[region as usize].load(Ordering::Acquire);
        let slots = limit & !SEALED;
        // No process writes a sealed limit with no slots, nor a bound's last slot without the seal:
        // such a ring would neither go round nor grow, and its senders would look for ever.
        let unsealed = u64::from(self.max_messages) == limit && limit != 0;
        if slots > self.most_slots(region) || limit == SEALED || unsealed {
            return Err(self.segment.damaged("a region's limit"));
        }
        if slots > 0 {
            self.segment.exists(self.region_at(region) + slots * self.slot_bytes)?;
        }
        Ok(limit)
    }

    /// Returns where a position lies under that limit; `None` when it waits for the region to grow.
    #[inline]
    pub(super) fn place(&self, region: u32, limit: u64, position: u64) -> Option<Position> {
        let slots = limit & !SEALED;
        if position < slots {
            return Some(Position { lap: 0, index: position });
        }
        let final_size = limit & SEALED != 0 || slots == self.nominal(region);
        if !final_size || slots == 0 {
            return None;
        }
        if slots.is_power_of_two() {
            return Some(Position {
                lap: position >> slots.trailing_zeros(),
                index: position & (slots - 1),
            });
        }
        Some(Position { lap: position / slots, index: position % slots })
    }

    /// Returns which position that slot has in that lap, under that limit; `None` when there is no
    /// such lap under it.
    pub(super) fn position_of(&self, region: u32, limit: u64, index: u64, lap: u64) -> Option<u64> {
        let slots = limit & !SEALED;
        let is_ring = limit & SEALED != 0 || slots == self.nominal(region);
        match lap {
            0 => Some(index),
            lap if is_ring => lap.checked_mul(slots)?.checked_add(index),
            _ => None,
        }
    }

    /// Returns the slot at a place that [`Ring::place`] gave for a limit that [`Ring::limit`] gave.
    #[inline]
    pub(super) fn slot(&self, region: u32, index: u64) -> Slot<'_> {
        debug_assert!(index < self.nominal(region));
        let offset = self.region_at(region) + index * self.slot_bytes;
        // SAFETY: the index is below the region's limit, which `limit` has checked against the
        // mapping; slots are at least 64-aligned.
        let head = unsafe { &*self.segment.address(offset).cast::<SlotHead>() };
        // SAFETY: the payload follows in the same slot, which `limit` has found mapped.
        let payload = unsafe { self.segment.address(offset + SLOT_HEAD) };
        // SAFETY: the last eight bytes of the same slot, whose size is a multiple of eight.
        let claim =
            unsafe { &*self.segment.address(offset + self.slot_bytes - 8).cast::<AtomicU64>() };
        Slot { head, payload, claim }
    }

    /// Returns how many bytes of the file are in use.
    pub(super) fn bytes(&self) -> Result<u64, Error> {
        Ok(self.ring_bytes().saturating_add(self.pool.bytes(&self.segment)?))
    }

    fn ring_bytes(&self) -> u64 {
        let slots = (0..self.regions).map(|region| {
            let slots = self.head().limits[region as usize].load(Ordering::Relaxed) & !SEALED;
            slots.min(self.nominal(region))
        });
        CONTROL_AT + Heap::FIRST_CONTROL + slots.sum::<u64>() * self.slot_bytes
    }

    /// Returns whether so many bytes more stay below `max_bytes`. Two threads that grow at once may
    /// both get `true`.
    pub(super) fn allows(&self, more: u64) -> bool {
        self.bytes()
            .is_ok_and(|bytes| bytes.saturating_add(more) <= self.segment.header().max_bytes())
    }

    /// Returns the same for slots: rings take three quarters at most, and never give memory back;
    /// the rest is for messages too large for a slot.
    fn allows_slots(&self, more: u64) -> bool {
        let most = most_ring_bytes(self.segment.header().max_bytes());
        self.ring_bytes() + more <= most && self.allows(more)
    }

    /// Returns the size of the largest message that has room once all others have been received.
    pub(super) fn most_message_bytes(&self) -> u64 {
        let left = self.segment.header().max_bytes().saturating_sub(self.ring_bytes());
        // The first region's slots alone may be more than `max_bytes`.
        Heap::longest_in(Shape::QUEUE, left).max(self.inline_bytes() as u64)
    }

    /// Returns by how many slots a region of so many grows next.
    fn next_step(&self, region: u32, slots: u64) -> u64 {
        (STEP / self.slot_bytes).min(self.most_slots(region).saturating_sub(slots))
    }

    /// Returns whether a region of so many slots may get more.
    pub(super) fn may_grow(&self, region: u32, slots: u64) -> bool {
        let step = self.next_step(region, slots);
        step > 0 && self.allows_slots(step * self.slot_bytes)
    }

    /// Makes more slots of a region, or seals it.
    #[cold]
    pub(super) fn grow_region(&self, region: u32, limit: u64) -> Result<Growth, Error> {
        let slots = limit & !SEALED;
        let most = self.most_slots(region);
        if limit & SEALED != 0 || slots >= most {
            return Ok(Growth::Settled);
        }
        let step = self.next_step(region, slots);
        let bytes = step * self.slot_bytes;
        let word = &self.head().limits[region as usize];
        let grown = if self.allows_slots(bytes) {
            // If this thread died just after, there are pages that no limit counts; the next sender
            // to grow finds them.
            match self.segment.grow(self.region_at(region) + slots * self.slot_bytes, bytes) {
                Ok(()) => true,
                Err(Error::NoSpace { .. } | Error::NoAddressSpace { .. }) => false,
                Err(other) => return Err(other),
            }
        } else {
            false
        };
        if grown {
            // In one exchange with the last slot of a bound: it is the ring's last.
            let is_bound = self.max_messages > 0 && slots + step == most;
            let grown = (slots + step) | if is_bound { SEALED } else { 0 };
            // Release: the pages exist for each thread that reads the limit. A lost exchange:
            // another thread settled it.
            let _ = word.compare_exchange(limit, grown, Ordering::Release, Ordering::Relaxed);
            return Ok(Growth::Settled);
        }
        if slots == 0 {
            return Ok(Growth::NoRoom);
        }
        let _ = word.compare_exchange(limit, limit | SEALED, Ordering::Release, Ordering::Relaxed);
        Ok(Growth::Settled)
    }

    /// Makes sure that the region after `region` has slots.
    /// Returns where a region lies, and how many bytes of it exist.
    pub(super) fn part_of(&self, region: u32) -> Result<(u64, u64), Error> {
        Ok((self.region_at(region), (self.limit(region)? & !SEALED) * self.slot_bytes))
    }

    /// Makes all slots that the regions can have, from the current one on, up to a region that has
    /// so many: a sender that finds a region full goes on in the next one.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when no region has so many, or the file system has no room for them.
    #[cold]
    pub(super) fn make_slots(&self, messages: u64) -> Result<(), Error> {
        let mut region = self.head().current.load(Ordering::Acquire).min(self.regions - 1);
        loop {
            let limit = self.limit(region)?;
            let slots = limit & !SEALED;
            if limit & SEALED != 0 || slots >= self.most_slots(region) {
                if slots >= messages {
                    return Ok(());
                }
                if region + 1 < self.regions {
                    region += 1;
                    continue;
                }
            }
            let bytes = self.next_step(region, slots) * self.slot_bytes;
            if bytes == 0 || limit & SEALED != 0 || !self.allows_slots(bytes) {
                let wanted = messages.saturating_sub(slots).saturating_mul(self.slot_bytes);
                return Err(Error::NoSpace { path: self.segment.path().to_path_buf(), wanted });
            }
            // Asked before `grow_region`, which would seal the region if there was no room.
            self.segment.grow(self.region_at(region) + slots * self.slot_bytes, bytes)?;
            self.grow_region(region, limit)?;
        }
    }

    #[cold]
    pub(super) fn open_next(&self, region: u32) -> Result<Growth, Error> {
        let next = region + 1;
        if next >= self.regions {
            return Ok(Growth::NoRoom);
        }
        match self.limit(next) {
            Ok(0) => self.grow_region(next, 0),
            Ok(_) => Ok(Growth::Settled),
            Err(Error::NoAddressSpace { .. }) => Ok(Growth::NoRoom),
            Err(other) => Err(other),
        }
    }

    /// Returns how often the rings grew, as their limits tell.
    pub(super) fn times_grown(&self) -> u64 {
        (0..self.regions)
            .map(|region| {
                let slots = self.head().limits[region as usize].load(Ordering::Relaxed) & !SEALED;
                let step = (STEP / self.slot_bytes).min(self.most_slots(region));
                slots.div_ceil(step)
            })
            .sum::<u64>()
            .saturating_sub(1)
    }
}

/// A slot: its words, and where its payload lies.
#[derive(Clone, Copy)]
pub(super) struct Slot<'a> {
    pub(super) head: &'a SlotHead,
    pub(super) payload: *mut u8,
    /// See [`SlotWord`](super::layout::SlotWord).
    pub(super) claim: &'a AtomicU64,
}
