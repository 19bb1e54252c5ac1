//! How a queue lies in its file, and what the bits of a slot mean.
//!
//! ```text
//! page 0      header of every segment
//! page 1..    QueueHead: configuration, tails, limits, the receiver's words, sleep words
//! page 3      tasks.rs: 512 words {received and not done, process token}
//! page 4      senders: 1,024 process tokens
//! page 5..    the pool's control table
//!             region 0, region 1, …: rings of slots, each twice the one before, back to back
//!             the pool's tags
//!             the pool's spans
//! ```
//! All offsets are fixed when the queue is made; a region's limit says how much of it exists. A
//! process that can map only part of the file does without the end of it: large messages.

use crate::liveness::TokenId;
use crate::segment::{BODY, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Pad32, Pad64};
use crate::wake::{EventCount, RungEventCount};

/// Regions double, so no file has room for more than this many.
pub(super) const MOST_REGIONS: usize = if cfg!(loom) { 2 } else { 32 };
/// The largest bound, in messages.
pub(super) const MOST_MESSAGES: u32 = 1 << 20;
/// Sender entries; more senders than that work, but then no receiver is told `RecvError::Closed`.
pub(super) const MOST_SENDERS: usize = if cfg!(loom) { 1 } else { 1024 };

/// Entries of processes that count what they have received and not done.
pub(super) const MOST_TASK_ENTRIES: usize = if cfg!(loom) { 1 } else { 512 };

pub(super) const HEAD_AT: u64 = BODY;
pub(super) const TASKS_AT: u64 = HEAD_AT + 2 * 4096;
pub(super) const SENDERS_AT: u64 = HEAD_AT + 3 * 4096;
pub(super) const CONTROL_AT: u64 = SENDERS_AT + 4096;

/// The shared words of a queue.
#[repr(C)]
#[derive(Default)]
pub(super) struct QueueHead {
    // Written by the creator, constant from then on.
    pub(super) slot_bytes: AtomicU32,
    pub(super) first_slots: AtomicU32,
    pub(super) regions: AtomicU32,
    pub(super) options: AtomicU32,
    pub(super) pool_tags_at: AtomicU64,
    pub(super) pool_spans_at: AtomicU64,
    pub(super) pool_spans: AtomicU32,
    /// The most slots that the one region of a bounded queue gets; 0: there is no bound.
    pub(super) max_messages: AtomicU32,
    /// A number that no other queue has, nor has had.
    pub(super) id: AtomicU64,
    pub(super) reserved: [Pad32; 4],
    // Written by a process that becomes an end of the queue or ceases to be one; read by every
    // send.
    /// The receiver's role (claim/role.rs): its holder, a process.
    pub(super) receiver: AtomicU32,
    /// The role's `inside`: the thread that may be inside a receive.
    pub(super) inside: AtomicU32,
    /// The region that senders begin with; it may be too low, never too high.
    pub(super) current: AtomicU32,
    /// Bit 0: there has been a sender. Bit 1: there were more than the table has room for.
    pub(super) senders_seen: AtomicU32,
    /// The role's `relay`.
    pub(super) relay: AtomicU32,
    pub(super) reserved_2: [Pad32; 11],
    // Written by the receiver and its wait sets when they sleep, and by the threads that wake them.
    /// The eventcount on which the receiver waits for messages.
    pub(super) messages: RungEventCount,
    pub(super) reserved_3: [Pad32; 12],
    // Written by senders that find the queue full, and by the receiver that wakes them.
    /// The eventcount on which senders wait for room.
    pub(super) room: EventCount,
    pub(super) reserved_4: [Pad32; 14],
    // Written by the receiver.
    pub(super) receiver_words: ReceiverWords,
    /// By region: {slots that exist, sealed}.
    pub(super) limits: [AtomicU64; MOST_REGIONS],
    pub(super) regions_words: [Region; MOST_REGIONS],
}

/// What the receiver records, so that a successor goes on exactly there.
#[repr(C)]
#[derive(Default)]
pub(super) struct ReceiverWords {
    pub(super) region: AtomicU32,
    pub(super) reserved: Pad32,
    /// Messages received for good.
    pub(super) received: AtomicU64,
    /// Slots skipped because their sender died while it wrote.
    pub(super) abandoned: AtomicU64,
    /// Messages handed out again because a receiver died before committing them.
    pub(super) redelivered: AtomicU64,
    /// The largest backlog seen, in slots.
    pub(super) high_water: AtomicU64,
    // The journal: what `received` and `abandoned` will be once the slot at `journal` has been
    // given back. Without it, a receiver's death between the slot and the counts would leave counts
    // that never add up again, because the slot no longer says whether it had a message.
    pub(super) journal: AtomicU64,
    pub(super) next_received: AtomicU64,
    pub(super) next_abandoned: AtomicU64,
    /// Place of the last message that was handed out before its commit: those up to it may have been
    /// acted on.
    pub(super) taken: AtomicU64,
    /// How much of a batch has been received.
    pub(super) progress: AtomicU64,
    pub(super) reserved_2: [Pad64; 6],
}

/// One region's words: one cache line for each writer.
#[repr(C)]
#[derive(Default)]
pub(super) struct Region {
    // Written by senders. Position, and CLOSED.
    pub(super) tail: AtomicU64,
    pub(super) reserved: [Pad64; 7],
    // Written by the receiver.
    pub(super) head: AtomicU64,
    pub(super) reserved_2: [Pad64; 7],
}

crate::shim::assert_layout!(
    core::mem::offset_of!(QueueHead, id) == 40,
    core::mem::offset_of!(QueueHead, receiver) == 64,
    core::mem::offset_of!(QueueHead, messages) == 128,
    core::mem::offset_of!(QueueHead, room) == 192,
    core::mem::offset_of!(QueueHead, receiver_words) == 256,
    core::mem::offset_of!(QueueHead, limits) == 384,
    size_of::<QueueHead>() as u64 <= TASKS_AT - HEAD_AT,
    MOST_TASK_ENTRIES as u64 * 8 == SENDERS_AT - TASKS_AT,
    MOST_SENDERS * 4 == 4096,
);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for QueueHead {}

/// Option bit: sends are refused while there is no receiver.
pub(super) const REFUSE_WITHOUT_RECEIVER: u32 = 1;
/// Option bit: while the receiver is dead, messages are kept for the next one.
pub(super) const KEEP_FOR_NEXT_RECEIVER: u32 = 2;
pub(super) const SENDER_SEEN: u32 = 1;
pub(super) const SENDERS_UNLISTED: u32 = 2;

/// In a tail: no claims at or beyond this position.
pub(super) const CLOSED: u64 = 1 << 63;
/// In a limit: the region has as many slots as it will ever have.
pub(super) const SEALED: u64 = 1 << 63;

/// A slot begins with these two words, which the receiver reads; then comes the payload; the slot's
/// last word is the claim, which senders read. In slots of 128 bytes and more the two ends are
/// separate cache lines, so a receiver that waits at one does not disturb a sender that claims at
/// the other.
#[repr(C)]
#[derive(Default)]
pub(super) struct SlotHead {
    /// See [`published`].
    pub(super) ready: AtomicU64,
    /// {length, batch count, form}
    pub(super) meta: AtomicU64,
}

// SAFETY: both fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for SlotHead {}

pub(super) const SLOT_HEAD: u64 = size_of::<SlotHead>() as u64;
/// Bytes of a slot that are not payload.
pub(super) const SLOT_OVERHEAD: u64 = SLOT_HEAD + size_of::<AtomicU64>() as u64;

/// Returns what `ready` holds once the message of that lap is there; any other value, also zero,
/// means that it is not.
#[inline]
pub(super) fn published(lap: u64) -> u64 {
    lap.wrapping_add(1)
}

/// The claim.
///
/// ```text
///  63          31 30           2 1      0
/// +--------------+--------------+--------+
/// |     lap      |   owner id   | state  |
/// +--------------+--------------+--------+
/// ```
/// An id's bits 29 to 31 are always 001, so 29 bits hold it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotWord(pub(super) u64);

/// What a slot's state bits say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    /// Being written, or written: `ready` says which.
    Writing,
    /// Its sender died while it wrote, and a sweep removed its id.
    Abandoned,
}

const LAP_BITS: u32 = 33;
const LAP_MASK: u64 = (1 << LAP_BITS) - 1;
const ID_MASK: u64 = (1 << 29) - 1;

impl SlotWord {
    #[inline]
    pub(super) fn empty(lap: u64) -> SlotWord {
        SlotWord(lap << 31)
    }

    #[inline]
    pub(super) fn writing(lap: u64, id: TokenId) -> SlotWord {
        SlotWord(lap << 31 | (u64::from(id.as_u32()) & ID_MASK) << 2 | 1)
    }

    pub(super) fn abandoned(lap: u64) -> SlotWord {
        SlotWord(lap << 31 | 2)
    }

    #[inline]
    pub(super) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Empty,
            1 => State::Writing,
            _ => State::Abandoned,
        }
    }

    pub(super) fn owner(self) -> Option<TokenId> {
        TokenId::from_word((self.0 >> 2 & ID_MASK) as u32 | 0x2000_0000)
    }

    /// Returns how many laps the slot is ahead of `lap`, compared modularly: negative is behind.
    #[inline]
    pub(super) fn laps_ahead(self, lap: u64) -> i64 {
        let difference = (self.0 >> 31).wrapping_sub(lap) & LAP_MASK;
        // Sign-extend from 33 bits.
        ((difference << (64 - LAP_BITS)) as i64) >> (64 - LAP_BITS)
    }
}

/// What a slot holds: length, batch count, and form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// Bytes.
    pub(super) len: u32,
    /// Messages in a batch; 0 for a single message.
    pub(super) batch: u32,
    /// The payload is an object's reference, not the bytes.
    pub(super) object: bool,
}

/// The largest message: 1 GiB.
pub const LARGEST_MESSAGE: u64 = 1 << 30;
/// The largest batch, in messages.
pub(super) const MOST_BATCHED: usize = (1 << 24) - 1;

impl Meta {
    #[inline]
    pub(super) fn encode(self) -> u64 {
        u64::from(self.len) | u64::from(self.batch) << 32 | u64::from(self.object) << 56
    }

    #[inline]
    pub(super) fn decode(word: u64) -> Meta {
        Meta {
            len: word as u32,
            batch: (word >> 32) as u32 & 0xff_ffff,
            object: word >> 56 & 1 != 0,
        }
    }

    /// Returns the number of messages in the slot.
    pub(super) fn messages(self) -> u64 {
        u64::from(self.batch.max(1))
    }
}

/// Packs a place in the queue for the receiver's words: never 0.
pub(super) fn pack(region: u32, position: u64, within: u32) -> u64 {
    1 << 63
        | u64::from(region & 31) << 58
        | (position & 0x3_ffff_ffff) << 24
        | u64::from(within) & 0xff_ffff
}

/// Returns the part of a packed place that counts messages in a batch.
pub(super) fn within(place: u64) -> u32 {
    (place & 0xff_ffff) as u32
}

/// Returns whether that place comes no later than the place `last`, a mark by a receiver of a queue
/// that has so many slots in the region of `place`; 0 is before all places. The bits that count
/// positions go round, and a mark is ahead of a place by less than the region: one that seems to be
/// further ahead is from long ago.
pub(super) fn is_up_to(place: u64, last: u64, slots: u64) -> bool {
    const BELOW_REGION: u64 = (1 << 58) - 1;
    let (region, last_region) = (place >> 58, last >> 58);
    region < last_region
        || region == last_region && last.wrapping_sub(place) & BELOW_REGION < slots << 24
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_order_across_regions_batches_and_the_positions_end() {
        const SLOTS: u64 = 8;
        let in_order = [
            pack(0, 0, 0),
            pack(0, 0, 1),
            pack(0, 5, 0),
            pack(1, (1 << 34) - 2, 2),
            pack(1, (1 << 34) - 1, 7),
            pack(1, 1 << 34, 0),
            pack(1, (1 << 34) + 5, 1),
        ];
        for (at, place) in in_order.iter().enumerate() {
            assert!(!is_up_to(*place, 0, SLOTS), "0 is before all");
            assert!(is_up_to(*place, *place, SLOTS));
            for later in &in_order[at..] {
                assert!(is_up_to(*place, *later, SLOTS), "{place:x} {later:x}");
                assert!(place == later || !is_up_to(*later, *place, SLOTS), "{place:x} {later:x}");
            }
        }
        let old = pack(1, 0, 0);
        for since in [1, SLOTS, (1 << 33) - 1, 1 << 33, (1 << 33) + 1, (1 << 34) - SLOTS] {
            assert!(!is_up_to(pack(1, since, 0), old, SLOTS), "{since} slots ago");
        }
    }

    #[test]
    fn slot_words_keep_what_they_are_given() {
        let id = TokenId::new(65_535, 8_191);
        let word = SlotWord::writing(5, id);
        assert_eq!((word.state(), word.owner()), (State::Writing, Some(id)));
        assert_eq!(word.laps_ahead(5), 0);
        assert_eq!(SlotWord::empty(6).laps_ahead(5), 1);
        assert_eq!(SlotWord::empty(4).laps_ahead(5), -1);
        assert_eq!(SlotWord::empty(0).laps_ahead(LAP_MASK), 1, "laps wrap");
        assert_eq!(SlotWord(0).state(), State::Empty, "zeroes are an empty slot of lap 0");
        let meta = Meta { len: u32::MAX, batch: 0xff_ffff, object: true };
        assert_eq!(Meta::decode(meta.encode()), meta);
        assert_ne!(pack(0, 0, 0), 0);
        assert_eq!(within(pack(31, u64::MAX, 77)), 77);
    }
}
