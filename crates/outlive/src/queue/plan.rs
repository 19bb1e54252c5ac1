//! A new queue's file: where each part of it lies, and what is written before it has a name.

use super::config::{OnReceiverDeath, QueueConfig};
use super::layout::{
    CONTROL_AT, HEAD_AT, KEEP_FOR_NEXT_RECEIVER, MOST_REGIONS, QueueHead, REFUSE_WITHOUT_RECEIVER,
    SEALED,
};
use crate::Error;
use crate::pool::{Heap, SPAN, Shape};
use crate::segment::{MOST_RESERVED, Segment};
use crate::shim::{AtomicU32, Ordering};

/// Regions grow by at most this many bytes at once, so that no single send pays for a whole region.
pub(super) const STEP: u64 = 2 << 20;

/// Another layer's words, between slots and tags: address space, and bytes that exist from the
/// beginning.
#[derive(Clone, Copy)]
pub(crate) struct Annex {
    pub(crate) len: u64,
    pub(crate) first: u64,
    /// The default of `max_bytes`, where it is not the queue's.
    pub(crate) usual_bytes: Option<u64>,
    /// Written behind the annex's first word by the process that makes the file.
    pub(crate) word: u32,
}

impl Annex {
    pub(super) const NONE: Annex = Annex { len: 0, first: 0, usual_bytes: None, word: 0 };
    /// Where [`Annex::word`] lies.
    pub(crate) const WORD_AT: u64 = 4;
}

/// Where each part lies in the file.
pub(super) struct Plan {
    /// Slots of region 0 at its largest: a power of two, and never fewer than a bound asks for.
    first_slots: u32,
    regions: u32,
    rings_at: u64,
    annex_at: u64,
    tags_at: u64,
    spans: u32,
    spans_at: u64,
    pub(super) end: u64,
}

impl Plan {
    pub(super) fn new(made: QueueConfig, annex: Annex) -> Plan {
        let first_slots = made.max_messages.map_or(made.slots, slots_of_bound);
        let max_bytes = made.max_bytes;
        let first = u64::from(made.slot_bytes) * u64::from(first_slots);
        // A bound is the size of the only ring. Where another layer's words carry the messages, the
        // ring holds none.
        let many = annex.len == 0 && made.max_messages.is_none();
        let most_regions = if many { MOST_REGIONS } else { 1 };
        let annex = annex.len;
        // As many regions as reach max_bytes together; max_bytes may cut the last one short.
        let mut regions = 1;
        while first * ((1 << regions) - 1) < max_bytes && (regions as usize) < most_regions {
            regions += 1;
        }
        let rings = first * ((1 << regions) - 1);
        // Offsets for objects: as much as they may take, half as much again for runs that do not
        // fit into gaps, and a few spans, since each class begins one.
        let wanted = (max_bytes + max_bytes / 2).div_ceil(SPAN) + 64;
        let room = MOST_RESERVED.saturating_sub(rings + annex) / (SPAN + SPAN / 16);
        let spans = wanted.min(room.saturating_sub(1)).clamp(1, 4096) as u32;
        let rings_at = CONTROL_AT + Heap::control_bytes(spans);
        let annex_at = (rings_at + rings).next_multiple_of(4096);
        let tags_at = (annex_at + annex).next_multiple_of(4096);
        let spans_at = (tags_at + Shape::QUEUE.tag_bytes(spans)).next_multiple_of(SPAN);
        Plan {
            first_slots,
            regions,
            rings_at,
            annex_at,
            tags_at,
            spans,
            spans_at,
            end: spans_at + u64::from(spans) * SPAN,
        }
    }

    /// Fills a new file, which has no name yet: no other process sees it.
    pub(super) fn write(
        &self,
        segment: &Segment,
        made: QueueConfig,
        annex: Annex,
    ) -> Result<(), Error> {
        let bytes = u64::from(made.slot_bytes) * u64::from(made.slots);
        segment.grow(self.rings_at, bytes)?;
        if annex.first > 0 {
            segment.grow(self.annex_at, annex.first)?;
            let word: &AtomicU32 = segment.at(self.annex_at + Annex::WORD_AT)?;
            word.store(annex.word, Ordering::Relaxed);
        }
        let head: &QueueHead = segment.at(HEAD_AT)?;
        head.slot_bytes.store(made.slot_bytes, Ordering::Relaxed);
        head.first_slots.store(self.first_slots, Ordering::Relaxed);
        head.max_messages.store(made.max_messages.unwrap_or(0), Ordering::Relaxed);
        head.regions.store(self.regions, Ordering::Relaxed);
        let keeps = made.on_receiver_death == OnReceiverDeath::Keep;
        let options = (u32::from(made.need_receiver) * REFUSE_WITHOUT_RECEIVER)
            | (u32::from(keeps) * KEEP_FOR_NEXT_RECEIVER);
        head.options.store(options, Ordering::Relaxed);
        head.id.store(segment.new_number()?, Ordering::Relaxed);
        head.pool_tags_at.store(self.tags_at, Ordering::Relaxed);
        head.pool_spans_at.store(self.spans_at, Ordering::Relaxed);
        head.pool_spans.store(self.spans, Ordering::Relaxed);
        // A bound that is met already: a ring of so many slots, for good.
        let sealed = if made.max_messages == Some(made.slots) { SEALED } else { 0 };
        head.limits[0].store(u64::from(made.slots) | sealed, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns how many slots a queue begins with that holds at most so many messages: no more than
/// leave room for messages too large for a slot. There it is full before it holds so many.
pub(super) fn first_slots_of_bound(max_messages: u32, slot_bytes: u32, max_bytes: u64) -> u32 {
    let room = most_ring_bytes(max_bytes).saturating_sub(CONTROL_AT + Heap::FIRST_CONTROL);
    let slots = room.min(STEP) / u64::from(slot_bytes);
    max_messages.min(slots as u32).max(1)
}

/// Returns how much of `max_bytes` rings may take.
pub(super) fn most_ring_bytes(max_bytes: u64) -> u64 {
    max_bytes - max_bytes / 4
}

/// Returns for how many slots such a queue has address space.
pub(super) fn slots_of_bound(max_messages: u32) -> u32 {
    max_messages.next_power_of_two().max(4)
}
