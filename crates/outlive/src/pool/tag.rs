//! What an object's tag says, as bits, and as it looks to somebody who looks for memory.
//!
//! ```text
//! bits 62, 63   free, held, queued, the public pool's own
//! held          0 to 31 the thread's id
//! queued        56 to 61 the region, 0 to 55 the position
//! the pool's    59 to 61: 0 owned, 1 cached, 2 offered, 3 shared
//!   owned, cached   0 to 31 the process's id
//!   offered         30 to 58 the offer's number, 0 to 29 the receiver's id, 0: anybody
//!   shared          30 to 58 the sharing's number, 27 to 29 lines of cells, 0 to 26 joinings: see holders.rs
//! ```

use super::heap_host::HeapHost;
use super::holders::Sharing;
use crate::liveness::TokenId;
use crate::shim::{AtomicU64, Ordering};

/// What an object's tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tag {
    Free,
    Held(TokenId),
    Queued {
        region: u32,
        position: u64,
    },
    /// In use by a process, whichever of its threads.
    Owned(TokenId),
    /// In the cache of one of a process's threads.
    Cached(TokenId),
    /// Handed over, to somebody or to anybody, and not claimed yet.
    Offered {
        to: Option<TokenId>,
        number: u32,
    },
    /// Held by several processes, whose names stand in a block of their own.
    Shared(Sharing),
    Damaged,
}

const KIND: u32 = 62;
const POSITION: u64 = (1 << 56) - 1;
const SORT: u32 = 59;
const OWNED: u64 = 3 << KIND;
const CACHED: u64 = 3 << KIND | 1 << SORT;
const OFFERED: u64 = 3 << KIND | 2 << SORT;
const RECEIVER: u64 = (1 << 30) - 1;
const NUMBER: u32 = 30;
/// Numbers of offers have so many bits.
pub(super) const NUMBER_BITS: u32 = SORT - NUMBER;

impl Tag {
    pub(super) fn encode(self) -> u64 {
        match self {
            Tag::Free | Tag::Damaged => 0,
            Tag::Held(id) => 1 << KIND | u64::from(id.as_u32()),
            Tag::Queued { region, position } => 2 << KIND | u64::from(region & 63) << 56 | position & POSITION,
            Tag::Owned(id) => OWNED | u64::from(id.as_u32()),
            Tag::Cached(id) => CACHED | u64::from(id.as_u32()),
            Tag::Offered { to, number } => {
                let to = to.map_or(0, |id| u64::from(id.as_u32()) & RECEIVER);
                OFFERED | u64::from(number & ((1 << NUMBER_BITS) - 1)) << NUMBER | to
            }
            Tag::Shared(sharing) => sharing.word(),
        }
    }

    /// Exact: a tag with bits that no tag has is damaged, and nobody touches it.
    pub(super) fn decode(bits: u64) -> Tag {
        let tag = match (bits >> KIND, TokenId::from_word(bits as u32)) {
            (0, _) => Tag::Free,
            (1, Some(id)) => Tag::Held(id),
            (2, _) => Tag::Queued { region: (bits >> 56 & 63) as u32, position: bits & POSITION },
            (3, id) => match (bits >> SORT & 7, id) {
                (0, Some(id)) => Tag::Owned(id),
                (1, Some(id)) => Tag::Cached(id),
                (2, _) => Tag::Offered {
                    to: TokenId::from_word((bits & RECEIVER) as u32),
                    number: (bits >> NUMBER) as u32 & ((1 << NUMBER_BITS) - 1),
                },
                _ => Sharing::of(bits).map_or(Tag::Damaged, Tag::Shared),
            },
            _ => Tag::Damaged,
        };
        if tag.encode() == bits { tag } else { Tag::Damaged }
    }
}

/// Whether a tag, as somebody who looks for memory reads it, says free.
pub(super) fn is_free(tag: &AtomicU64, room: &dyn HeapHost) -> bool {
    // Relaxed: who wants it takes it by `take`.
    let seen = tag.load(Ordering::Relaxed);
    if seen != 0 {
        note_if_held(seen, room);
    }
    seen == 0
}

pub(super) fn note_if_held(seen: u64, room: &dyn HeapHost) {
    if let Tag::Held(_) = Tag::decode(seen) {
        room.met_in_hand();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_keep_what_they_are_given() {
        let id = TokenId::new(65_535, 8_191);
        let first = TokenId::new(0, 0);
        let number = (1 << NUMBER_BITS) - 1;
        for tag in [
            Tag::Free,
            Tag::Held(id),
            Tag::Queued { region: 63, position: POSITION },
            Tag::Owned(id),
            Tag::Owned(first),
            Tag::Cached(id),
            Tag::Offered { to: None, number },
            Tag::Offered { to: Some(id), number: 0 },
            Tag::Offered { to: Some(first), number },
            Tag::Shared(Sharing::begin(number, 0)),
            Tag::Shared(Sharing::begin(0, 61)),
        ] {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
        for damaged in [1, OWNED, CACHED | 1 << 40 | 0x2000_0000, 3 << KIND | 7 << SORT, OFFERED | 1] {
            assert_eq!(Tag::decode(damaged), Tag::Damaged, "{damaged:#x}");
        }
    }
}
