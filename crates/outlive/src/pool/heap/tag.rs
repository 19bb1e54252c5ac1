//! An object's tag, as bits, and as a scan for memory reads it.
//!
//! ```text
//! bits 62, 63   free, held, queued, the public pool's own
//! held          0 to 31 the thread's id
//! queued        56 to 61 the region, 0 to 55 the position
//! the pool's    59 to 61: 0 owned, 1 cached, 2 offered, 3 shared
//!   owned, cached   0 to 31 the process's id
//!   offered         30 to 58 the offer's number, 0 to 29 the receiver's id, 0: any process
//!   shared          30 to 58 the sharing's number, 27 to 29 lines of cells, 0 to 26 joinings: see share/holders.rs
//! ```

use super::host::HeapHost;
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
    /// In use by a process, by any of its threads.
    Owned(TokenId),
    /// In the cache of one of a process's threads.
    Cached(TokenId),
    /// Handed over, to one process or to any, and not claimed yet.
    Offered {
        to: Option<TokenId>,
        number: u32,
    },
    /// Held by several processes, whose names are in a row of the holder table.
    Shared(Sharing),
    Damaged,
}

/// What the objects of a topic's ring say: queued, by the ring's number, whose lower six bits stand
/// for the region, and the others for the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingTag {
    pub(crate) region: u32,
    pub(crate) position: u64,
}

impl RingTag {
    #[inline]
    pub(crate) fn of(ring: u32) -> RingTag {
        RingTag { region: ring & 63, position: u64::from(ring >> 6) }
    }

    pub(crate) fn tag(self) -> Tag {
        Tag::Queued { region: self.region, position: self.position }
    }
}

const KIND: u32 = 62;
const POSITION: u64 = (1 << 56) - 1;
const SORT: u32 = 59;
const OWNED: u64 = 3 << KIND;
const CACHED: u64 = 3 << KIND | 1 << SORT;
const OFFERED: u64 = 3 << KIND | 2 << SORT;
const RECEIVER: u64 = (1 << 30) - 1;
const NUMBER: u32 = 30;
/// The bits of an offer's number.
pub(in crate::pool) const NUMBER_BITS: u32 = SORT - NUMBER;

impl Tag {
    pub(in crate::pool) fn encode(self) -> u64 {
        match self {
            Tag::Free | Tag::Damaged => 0,
            Tag::Held(id) => 1 << KIND | u64::from(id.as_u32()),
            Tag::Queued { region, position } => {
                2 << KIND | u64::from(region & 63) << 56 | position & POSITION
            }
            Tag::Owned(id) => OWNED | u64::from(id.as_u32()),
            Tag::Cached(id) => CACHED | u64::from(id.as_u32()),
            Tag::Offered { to, number } => {
                let to = to.map_or(0, |id| u64::from(id.as_u32()) & RECEIVER);
                OFFERED | u64::from(number & ((1 << NUMBER_BITS) - 1)) << NUMBER | to
            }
            Tag::Shared(sharing) => sharing.word(),
        }
    }

    /// Exact: a tag with bits that no tag has is damaged, and no thread touches it.
    pub(in crate::pool) fn decode(bits: u64) -> Tag {
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

/// A sharing of an object: its number, and what else the tag of a shared object says
/// (share/holders.rs).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// Its number, which no other sharing has.
    pub(crate) number: u32,
    /// The cache lines, less one, whose cells were joined by.
    pub(crate) lines: u32,
    /// How often it was joined.
    pub(crate) joins: u32,
}

const SHARED: u64 = 3 << KIND | 3 << SORT;
const SORTS: u64 = 3 << KIND | 7 << SORT;
const NUMBERS: u32 = (1 << NUMBER_BITS) - 1;
const LINES: u32 = 27;
const JOINS: u32 = (1 << LINES) - 1;

impl Sharing {
    /// Begins a sharing with the first holder, whose cell is in that line.
    pub(crate) fn begin(number: u32, line: u32) -> Sharing {
        Sharing { number: number & NUMBERS, lines: line, joins: 0 }
    }

    /// Adds a holder, whose cell is in that line.
    pub(crate) fn joined(self, line: u32) -> Sharing {
        Sharing { lines: self.lines.max(line), joins: (self.joins + 1) & JOINS, ..self }
    }

    /// Returns the bits in a tag.
    pub(crate) fn word(self) -> u64 {
        SHARED
            | u64::from(self.number) << NUMBER
            | u64::from(self.lines) << LINES
            | u64::from(self.joins)
    }

    /// Reads a tag; `None` when it is not that of a shared object.
    pub(crate) fn of(tag: u64) -> Option<Sharing> {
        (tag & SORTS == SHARED).then_some(Sharing {
            number: (tag >> NUMBER) as u32 & NUMBERS,
            lines: (tag >> LINES) as u32 & 7,
            joins: tag as u32 & JOINS,
        })
    }
}

/// Returns whether a tag says free, as a scan for memory reads it.
pub(super) fn is_free(tag: &AtomicU64, host: &dyn HeapHost) -> bool {
    // Relaxed: a thread that wants it takes it by `take`.
    let seen = tag.load(Ordering::Relaxed);
    if seen != 0 {
        note_if_held(seen, host);
    }
    seen == 0
}

pub(super) fn note_if_held(seen: u64, host: &dyn HeapHost) {
    if let Tag::Held(_) = Tag::decode(seen) {
        host.met_in_hand();
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
            Tag::Shared(Sharing::begin(0, 7)),
        ] {
            assert_eq!(Tag::decode(tag.encode()), tag);
        }
        for damaged in
            [1, OWNED, CACHED | 1 << 40 | 0x2000_0000, 3 << KIND | 7 << SORT, OFFERED | 1]
        {
            assert_eq!(Tag::decode(damaged), Tag::Damaged, "{damaged:#x}");
        }
    }

    #[test]
    fn rings_have_tags_of_their_own() {
        let tags = (0..1024).map(|ring| RingTag::of(ring).tag());
        let all: std::collections::HashSet<u64> = tags
            .map(|tag| {
                assert_eq!(Tag::decode(tag.encode()), tag);
                tag.encode()
            })
            .collect();
        assert_eq!(all.len(), 1024);
    }

    #[test]
    fn tags_of_shared_objects_keep_what_they_are_given() {
        let sharing = Sharing { number: NUMBERS, lines: 7, joins: JOINS };
        assert_eq!(Sharing::of(sharing.word()), Some(sharing));
        assert_eq!(
            sharing.joined(0),
            Sharing { joins: 0, ..sharing },
            "joinings wrap, and only they"
        );
        for other in [0, 1 << 62, 3 << 62, SHARED | 1 << 61, SHARED & !(1 << 59)] {
            assert_eq!(Sharing::of(other), None, "{other:#x}");
        }
    }
}
