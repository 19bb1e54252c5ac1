//! What an object's tag says, as bits, and as it looks to somebody who looks for memory.
//!
//! ```text
//! bits 62, 63   free, held, queued
//! held          0 to 31 the thread's id
//! queued        56 to 61 the region, 0 to 55 the position
//! ```

use super::room::Room;
use crate::liveness::TokenId;
use crate::shim::{AtomicU64, Ordering};

/// What an object's tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Free,
    Held(TokenId),
    Queued { region: u32, position: u64 },
    Damaged,
}

const KIND: u32 = 62;
const POSITION: u64 = (1 << 56) - 1;

impl Tag {
    pub(super) fn encode(self) -> u64 {
        match self {
            Tag::Free | Tag::Damaged => 0,
            Tag::Held(id) => 1 << KIND | u64::from(id.as_u32()),
            Tag::Queued { region, position } => 2 << KIND | u64::from(region & 63) << 56 | position & POSITION,
        }
    }

    /// Exact: a tag with bits that no tag has is damaged, and nobody touches it.
    pub(super) fn decode(bits: u64) -> Tag {
        let tag = match (bits >> KIND, TokenId::from_word(bits as u32)) {
            (0, _) => Tag::Free,
            (1, Some(id)) => Tag::Held(id),
            (2, _) => Tag::Queued { region: (bits >> 56 & 63) as u32, position: bits & POSITION },
            _ => Tag::Damaged,
        };
        if tag.encode() == bits { tag } else { Tag::Damaged }
    }
}

/// Whether a tag, as somebody who looks for memory reads it, says free.
pub(super) fn is_free(tag: &AtomicU64, room: &dyn Room) -> bool {
    // Relaxed: who wants it takes it by `take`.
    let seen = tag.load(Ordering::Relaxed);
    if seen != 0 {
        note_if_held(seen, room);
    }
    seen == 0
}

pub(super) fn note_if_held(seen: u64, room: &dyn Room) {
    if let Tag::Held(_) = Tag::decode(seen) {
        room.met_in_hand();
    }
}
