//! The layout of a topic's file.
//!
//! ```text
//! page 0      header of every segment
//! page 3      TopicHead: configuration; how many rings, and how often publishers came and went
//! page 4..    the rings' words, 128 bytes each
//!             the heap's control table
//!             rings of slots
//!             the heap's tags
//!             the heap's spans: payloads
//! ```
//! Processes that only subscribe write nothing of it. What they write lies in the topic's control
//! file: `control.rs`. Rings and all that follows, and subscribers' slots there, get pages when they
//! are first used. How many rings
//! and subscribers' slots there are, and how many hazard pointers a slot has, the topic's maker says.

use super::hazard::NEAR;
use super::slot::SLOT;
use crate::Error;
use crate::pool::{Heap, SPAN, Shape};
use crate::segment::{BODY, MOST_RESERVED, Segment, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Ordering};
use crate::wake::{EventCount, RelayedEventCount};

/// The most that the maker of a topic may ask for.
pub(super) const MOST: Capacity =
    Capacity { publishers: 1024, subscribers: 1024, samples: 1 << 16 };
/// What a topic has room for whose maker has asked for nothing.
pub(super) const USUAL: Capacity = Capacity { publishers: 62, subscribers: 64, samples: 256 };
/// The fewest samples that a subscriber may hold: those whose hazard pointers lie beside its claim.
pub(super) const FEWEST_SAMPLES: u32 = NEAR as u32;
/// The most messages that all rings of a topic have together: 4 GiB of address space.
pub(super) const MOST_SLOTS: u64 = 1 << 24;
/// The most messages of a publisher that a topic keeps.
pub(super) const MOST_DEPTH: u32 = 1 << 16;
/// The fewest bytes that a topic's `max_bytes` may be.
pub(super) const FEWEST_BYTES: u64 = 64 << 10;
/// The largest payload: 1 GiB.
pub const LARGEST_PAYLOAD: usize = 1 << 30;
/// The most spans of its heap.
const MOST_SPANS: u32 = 1 << 12;
/// The most bytes that a topic may take.
pub(super) const MOST_BYTES: u64 = 6 << 30;

/// Option bit: publishers do not stamp headers that have no stamp.
pub(super) const NO_STAMPS: u32 = 1;
/// Option bit: the topic offers reliable delivery.
pub(super) const RELIABLE: u32 = 2;
/// In `awaited`: each subscriber.
const ANY: u32 = 0;

pub(super) const PAGE: u64 = 4096;
const HEAD_AT: u64 = BODY;
const RINGS_AT: u64 = HEAD_AT + PAGE;
/// How many of each a topic has room for at a time; the maker's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    pub(super) publishers: u32,
    pub(super) subscribers: u32,
    /// How many samples in objects a subscriber can hold.
    pub(super) samples: u32,
}

impl Capacity {
    /// Returns whether a topic of that depth may have it.
    fn is_possible(self, depth: u32) -> bool {
        (1..=MOST.publishers).contains(&self.publishers)
            && (1..=MOST.subscribers).contains(&self.subscribers)
            && (FEWEST_SAMPLES..=MOST.samples).contains(&self.samples)
            && u64::from(self.publishers) * u64::from(depth) <= MOST_SLOTS
    }

    /// Returns where the heap's control table begins, behind the rings' words.
    fn control_at(self) -> u64 {
        let rings = u64::from(self.publishers) * size_of::<RingWords>() as u64;
        RINGS_AT + rings.next_multiple_of(PAGE)
    }
}

/// The topic's own words.
#[repr(C)]
pub(super) struct TopicHead {
    // Written by the process that makes the topic.
    depth: AtomicU32,
    pub(super) options: AtomicU32,
    tags_at: AtomicU64,
    spans_at: AtomicU64,
    spans: AtomicU32,
    publishers: AtomicU32,
    subscribers: AtomicU32,
    samples: AtomicU32,
    reserved: [AtomicU32; 6],
    // Written by publishers that come and go; read by all.
    /// How many rings have ever been in use.
    pub(super) rings: AtomicU32,
    /// How often a publisher has started.
    pub(super) sessions: AtomicU32,
    /// How often a publisher has come or gone.
    pub(super) publisher_changes: AtomicU32,
    reserved_2: [AtomicU32; 13],
}

/// The words of a publisher's ring, besides its slots.
#[repr(C)]
pub(super) struct RingWords {
    // Written by a process that takes the ring, and by its publisher when it sleeps.
    /// 0, or the publishing process's token.
    pub(super) owner: AtomicU32,
    /// 1: a device may write into its objects until the process is gone.
    pub(super) device: AtomicU32,
    /// The slot of the subscriber that has to notify it after taking a message, by number + 1, or
    /// [`ANY`].
    awaited: AtomicU32,
    reserved: [AtomicU32; 3],
    /// {number of the owner's session, its token}; 0: no process vouches for the ring's messages.
    pub(super) session: AtomicU64,
    /// Its first message.
    pub(super) session_from: AtomicU64,
    /// How often it has said that it is there; written by its publisher alone.
    pub(super) asserted: AtomicU32,
    /// The number of the last session that has ended in order.
    pub(super) left: AtomicU32,
    /// How long a message of the owner's counts, in nanoseconds; 0: for ever.
    pub(super) lifespan: AtomicU64,
    /// The same of messages before `session_from`: the shortest of their publishers'.
    pub(super) lifespan_before: AtomicU64,
    // Written by its publisher.
    /// How many messages it has published.
    pub(super) published: AtomicU64,
    /// The order of the last one.
    pub(super) order: AtomicU64,
    /// How often it has stopped waiting for a reliable subscriber.
    pub(super) marked: AtomicU64,
    /// For how long the owner waits for a reliable subscriber: nanoseconds + 1; 0: for ever. Only
    /// looked at from outside.
    pub(super) max_blocking: AtomicU64,
    /// The last session whose publisher has died although its process may live, as `session` had it: it
    /// published in the name of one elsewhere.
    pub(super) disowned: AtomicU64,
    reserved_3: [AtomicU64; 3],
}

impl RingWords {
    /// Returns whether the subscriber in that slot has to notify the publisher when it takes a
    /// message.
    pub(super) fn is_awaited(&self, slot: u32) -> bool {
        let awaited = self.awaited.load(Ordering::Relaxed);
        awaited == ANY || awaited == slot + 1
    }

    /// From now on only the subscriber in that slot notifies. Called before the publisher prepares
    /// a wait on `space`, with a fence of its own, and looks again.
    pub(super) fn await_only(&self, slot: u32) {
        self.awaited.store(slot + 1, Ordering::Relaxed);
    }

    /// From now on any subscriber notifies: the ring has a new owner, or its publisher a wait set,
    /// which names no subscriber; that is called before the set first announces itself to `space`,
    /// with a fence of its own.
    pub(super) fn await_any(&self) {
        self.awaited.store(ANY, Ordering::Relaxed);
    }
}

/// Where the words lie in the control file that subscribers write when they join,
pub(super) const JOIN_AT: u64 = BODY;
/// those that they write at any time,
pub(super) const ANNOUNCING_AT: u64 = JOIN_AT + PAGE;
/// and the rings' eventcounts.
pub(super) const SPACES_AT: u64 = ANNOUNCING_AT + size_of::<ControlHead>() as u64;
/// Bytes of a ring's eventcount: a cache line.
pub(super) const SPACE_BYTES: u64 = 64;

/// The words that subscribers write when they join, and never again: without them publishers would
/// neither see what subscribers hold, nor wait for them.
#[repr(C)]
pub(super) struct JoinWords {
    /// How many subscribers' slots have ever been in use.
    pub(super) subscriber_slots: AtomicU32,
    /// Whether any subscriber has ever asked to be reliable.
    pub(super) reliable: AtomicU32,
}

/// The words that all subscribers write at any time: a wrong one delays, or wakes in vain.
#[repr(C)]
pub(super) struct ControlHead {
    // Written by subscribers that sleep, and by publishers that wake them.
    pub(super) notifications: RelayedEventCount,
    reserved: [AtomicU32; 12],
    // Written by publishers and subscribers that come and go.
    /// How often one has; a futex word.
    pub(super) changes: AtomicU32,
    reserved_2: [AtomicU32; 15],
}

const _: () = {
    assert!(core::mem::offset_of!(ControlHead, changes) == 64);
    assert!(size_of::<ControlHead>() == 128);
    assert!(size_of::<EventCount>() as u64 <= SPACE_BYTES);
};

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for ControlHead {}
// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for JoinWords {}

const _: () = {
    assert!(core::mem::offset_of!(TopicHead, rings) == 64);
    assert!(size_of::<TopicHead>() == 128);
    assert!(core::mem::offset_of!(RingWords, session) == 24);
    assert!(size_of::<RingWords>() == 128);
    assert!(core::mem::offset_of!(RingWords, published) == 64);
    assert!(core::mem::offset_of!(TopicHead, publishers) == 28);
};

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for TopicHead {}
// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for RingWords {}

/// Where each part lies in the files.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) depth: u32,
    pub(super) capacity: Capacity,
    control_at: u64,
    subscriber_slot_bytes: u64,
    subscriber_slots_at: u64,
    slots_at: u64,
    tags_at: u64,
    spans_at: u64,
    spans: u32,
    /// Bytes of address space.
    pub(super) end: u64,
}

impl Plan {
    /// Makes the plan of a new topic; `None`: there is no such topic.
    pub(super) fn new(depth: u32, max_bytes: u64, capacity: Capacity) -> Option<Plan> {
        if !capacity.is_possible(depth) {
            return None;
        }
        // As much as payloads may take, half as much again for runs that do not fit into gaps, and
        // a few spans, since each class begins one.
        let wanted = (max_bytes + max_bytes / 2).div_ceil(SPAN) + 64;
        let before = Plan::of(depth, capacity, MOST_SPANS).tags_at;
        let room = (MOST_RESERVED - (64 << 20) - before) / (SPAN + Shape::QUEUE.tags());
        let spans = wanted.min(room).min(u64::from(MOST_SPANS)) as u32;
        Some(Plan::of(depth, capacity, spans))
    }

    fn of(depth: u32, capacity: Capacity, spans: u32) -> Plan {
        let control_at = capacity.control_at();
        let subscriber_slot_bytes = capacity.subscriber_slot_bytes();
        let spaces = u64::from(capacity.publishers) * SPACE_BYTES;
        let subscriber_slots_at = (SPACES_AT + spaces).next_multiple_of(PAGE);
        let slots_at = control_at + Heap::control_bytes(spans);
        let tags_at = slots_at + u64::from(capacity.publishers) * ring_bytes(depth);
        let spans_at = (tags_at + Shape::QUEUE.tag_bytes(spans)).next_multiple_of(SPAN);
        let end = spans_at + u64::from(spans) * SPAN;
        Plan {
            depth,
            capacity,
            control_at,
            subscriber_slot_bytes,
            subscriber_slots_at,
            slots_at,
            tags_at,
            spans_at,
            spans,
            end,
        }
    }

    /// Returns how many bytes exist from the beginning.
    pub(super) fn initial(&self) -> u64 {
        self.control_at + Heap::FIRST_CONTROL
    }

    pub(super) fn write(&self, segment: &Segment, options: u32) -> Result<(), Error> {
        let head: &TopicHead = segment.at(HEAD_AT)?;
        head.depth.store(self.depth, Ordering::Relaxed);
        head.options.store(options, Ordering::Relaxed);
        head.tags_at.store(self.tags_at, Ordering::Relaxed);
        head.spans_at.store(self.spans_at, Ordering::Relaxed);
        head.spans.store(self.spans, Ordering::Relaxed);
        head.publishers.store(self.capacity.publishers, Ordering::Relaxed);
        head.subscribers.store(self.capacity.subscribers, Ordering::Relaxed);
        head.samples.store(self.capacity.samples, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the plan that the file describes, after checks.
    pub(super) fn read(segment: &Segment) -> Result<Plan, Error> {
        let head: &TopicHead = segment.at(HEAD_AT)?;
        let depth = head.depth.load(Ordering::Relaxed);
        let spans = head.spans.load(Ordering::Relaxed);
        let capacity = Capacity {
            publishers: head.publishers.load(Ordering::Relaxed),
            subscribers: head.subscribers.load(Ordering::Relaxed),
            samples: head.samples.load(Ordering::Relaxed),
        };
        let is_possible = depth.is_power_of_two()
            && depth <= MOST_DEPTH
            && (1..=MOST_SPANS).contains(&spans)
            && capacity.is_possible(depth);
        if !is_possible {
            return Err(segment.damaged("the topic's configuration"));
        }
        let plan = Plan::of(depth, capacity, spans);
        segment.exists(plan.initial())?;
        let says = (head.tags_at.load(Ordering::Relaxed), head.spans_at.load(Ordering::Relaxed));
        if says == (plan.tags_at, plan.spans_at) {
            Ok(plan)
        } else {
            Err(segment.damaged("the topic's configuration"))
        }
    }

    pub(super) fn heap(&self, segment: &Segment) -> Heap {
        // A process that could not map all of the file uses the spans that it has.
        let usable = u32::try_from(segment.mapped().saturating_sub(self.spans_at) / SPAN)
            .unwrap_or(u32::MAX);
        Heap::new(
            Shape::QUEUE,
            self.control_at,
            self.tags_at,
            self.spans_at,
            self.spans.min(usable),
        )
    }

    pub(super) fn head_at(&self) -> u64 {
        HEAD_AT
    }

    pub(super) fn ring_at(&self, ring: u32) -> u64 {
        RINGS_AT + u64::from(ring) * size_of::<RingWords>() as u64
    }

    pub(super) fn slots_at(&self, ring: u32) -> u64 {
        self.slots_at + u64::from(ring) * ring_bytes(self.depth)
    }

    /// Returns where a subscriber's slot lies in the control file.
    pub(super) fn subscriber_slot_at(&self, index: u32) -> u64 {
        self.subscriber_slots_at + u64::from(index) * self.subscriber_slot_bytes
    }

    /// Returns how many bytes of both files have pages from the beginning: without the two of each
    /// that nothing touches (`segment::pages`), which are holes, or the maker's attributes.
    pub(super) fn initial_pages(&self) -> u64 {
        let holes = BODY - PAGE;
        self.initial() - holes + self.subscriber_slots_at - holes
    }

    /// Returns where the control file ends at most.
    pub(super) fn control_end(&self) -> u64 {
        self.subscriber_slot_at(self.capacity.subscribers)
    }

    /// Returns the bytes of a subscriber's slot.
    pub(super) fn subscriber_slot_bytes(&self) -> u64 {
        self.subscriber_slot_bytes
    }
}

/// Returns the bytes of one ring's slots.
pub(super) fn ring_bytes(depth: u32) -> u64 {
    (u64::from(depth) * SLOT).next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_fit() {
        let few = Capacity { publishers: 1, subscribers: 1, samples: FEWEST_SAMPLES };
        for depth in [1, 16, 1 << 14, MOST_DEPTH] {
            for max_bytes in [FEWEST_BYTES, 1 << 30, MOST_BYTES] {
                for capacity in [USUAL, few, MOST, Capacity { publishers: 256, ..MOST }] {
                    let Some(plan) = Plan::new(depth, max_bytes, capacity) else {
                        assert_eq!((depth, capacity), (MOST_DEPTH, MOST));
                        continue;
                    };
                    assert!(plan.end <= MOST_RESERVED, "{depth} {max_bytes} {capacity:?}");
                    assert!(u64::from(plan.spans) * SPAN >= max_bytes);
                    for part in [plan.control_at, plan.subscriber_slots_at, plan.slots_at] {
                        assert!(part.is_multiple_of(PAGE));
                    }
                }
            }
        }
    }

    #[test]
    fn impossible_capacities_are_refused() {
        for capacity in [
            Capacity { publishers: 0, ..USUAL },
            Capacity { publishers: 1025, ..USUAL },
            Capacity { subscribers: 0, ..USUAL },
            Capacity { subscribers: 1025, ..USUAL },
            Capacity { samples: 7, ..USUAL },
            Capacity { samples: 65_537, ..USUAL },
            Capacity { publishers: u32::MAX, subscribers: u32::MAX, samples: u32::MAX },
        ] {
            assert!(Plan::new(16, 1 << 30, capacity).is_none(), "{capacity:?}");
        }
    }
}
