//! The layout of a state's file.
//!
//! ```text
//! page 0      header of every segment
//! page 1      StateHead: what it was made as, latest, where waiters wait, the role, the cells
//!    + 1024   buffers 0, 1, …, one after the other, a whole number of cache lines each: stamp, length, bytes
//! ```
//! `count` says how many buffers there are; address space is reserved for all that there may ever
//! be.

use crate::claim::RoleWords;
use crate::liveness::TokenId;
use crate::shim::{AtomicU32, AtomicU64, Pad32, Pad64};
use crate::wake::EventCount;

/// Readers that may have a buffer pinned at once.
pub(super) const CELLS: usize = if cfg!(loom) { 1 } else { 64 };
/// One for each of them, the latest, and one to write.
pub(super) const MOST_BUFFERS: u32 = CELLS as u32 + 2;
/// The number of buffers from the beginning: so a reader is overtaken only by three whole sets.
pub(super) const LEAST_BUFFERS: u32 = 4;
/// The largest value.
pub(super) const MOST_BYTES: u64 = 128 << 20;

/// The shared words of a state.
#[repr(C)]
pub(super) struct StateHead {
    // Written by the creator, constant from then on.
    /// The most bytes of a value.
    pub(super) capacity: AtomicU64,
    /// Bit 0: all values are of that size.
    pub(super) options: AtomicU32,
    /// Bytes of each of the values of a slice, or of the items of a tail; a value's length behind
    /// `base` is a multiple of it. 0: of one.
    pub(super) unit: AtomicU32,
    /// The fewest bytes of a value: of the head before a tail.
    pub(super) base: AtomicU32,
    pub(super) reserved: Pad32,
    // Written once, by the first gateway that carries it.
    /// A number that no other state has, or 0.
    pub(super) instance: AtomicU64,
    pub(super) reserved_1: [Pad32; 8],
    // Written by the writer with each set; read by each get.
    pub(super) latest: AtomicU64,
    pub(super) reserved_2: [Pad64; 7],
    // Written by readers that were overtaken or go to sleep, and by the writer that makes a buffer;
    // read by each set.
    pub(super) changes: EventCount,
    /// Cells that have ever been in use; the others are not read.
    pub(super) used: AtomicU32,
    /// Buffers that exist.
    pub(super) count: AtomicU32,
    pub(super) reserved_3: [Pad32; 12],
    // Written by a process that becomes the writer, or ceases to be.
    pub(super) role: RoleWords,
    pub(super) reserved_4: [Pad32; 12],
    /// Written by readers that were overtaken, and by the writer that helps them. See [`Cell`].
    pub(super) cells: [AtomicU64; CELLS],
}

crate::shim::assert_layout!(
    core::mem::offset_of!(StateHead, instance) == 24,
    core::mem::offset_of!(StateHead, latest) == 64,
    core::mem::offset_of!(StateHead, changes) == 128,
    core::mem::offset_of!(StateHead, role) == 192,
    core::mem::offset_of!(StateHead, cells) == 256,
    size_of::<StateHead>() as u64 <= BUFFERS_AT - HEAD_AT,
);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for StateHead {}

pub(super) const HEAD_AT: u64 = crate::segment::BODY;
pub(super) const BUFFERS_AT: u64 = HEAD_AT + 1024;
/// Stamp and length.
pub(super) const BUFFER_HEAD: u64 = 16;
/// In `options`.
pub(super) const FIXED_SIZE: u32 = 1;
/// In a buffer's length: a gateway has set the value, for a writer elsewhere.
pub(super) const FOREIGN: u64 = 1 << 63;

/// Returns the bytes from one buffer to the next.
pub(super) fn buffer_bytes(capacity: u64) -> u64 {
    (BUFFER_HEAD + capacity).next_multiple_of(64)
}

/// The value of `latest`: {version, buffer}. Versions have 56 bits, and 0 is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Latest(pub(super) u64);

impl Latest {
    #[inline]
    pub(super) fn new(version: u64, buffer: u32) -> Latest {
        Latest(version << 8 | u64::from(buffer & 0xff))
    }

    #[inline]
    pub(super) fn version(self) -> u64 {
        self.0 >> 8
    }

    #[inline]
    pub(super) fn buffer(self) -> u32 {
        self.0 as u32 & 0xff
    }

    /// Returns the next version.
    #[inline]
    pub(super) fn next_version(self) -> u64 {
        // 22 years at 100 million a second; but a damaged version may be at the end.
        ((self.version() + 1) & ((1 << 56) - 1)).max(1)
    }
}

/// The value of a cell.
///
/// ```text
///  63        32 31          0
/// +------------+-------------+
/// | what       | token       |
/// +------------+-------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell(pub(super) u64);

const ASKING: u64 = 1;
/// With a buffer's number.
const PIN: u64 = 2;

impl Cell {
    pub(super) const FREE: Cell = Cell(0);

    pub(super) fn asking(id: TokenId) -> Cell {
        Cell(ASKING << 32 | u64::from(id.as_u32()))
    }

    /// Returns the same owner's cell, with that buffer pinned.
    pub(super) fn pin(self, buffer: u32) -> Cell {
        Cell((PIN + u64::from(buffer)) << 32 | self.0 & 0xffff_ffff)
    }

    pub(super) fn owner(self) -> Option<TokenId> {
        TokenId::from_word(self.0 as u32)
    }

    pub(super) fn is_asking(self) -> bool {
        self.0 >> 32 == ASKING
    }

    /// Returns the buffer that it pins.
    pub(super) fn pinned(self) -> Option<u32> {
        let buffer = (self.0 >> 32).checked_sub(PIN)?;
        u32::try_from(buffer).ok().filter(|&buffer| buffer < MOST_BUFFERS)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_put_together() {
        let latest = Latest::new(7, 65);
        assert_eq!((latest.version(), latest.buffer(), latest.next_version()), (7, 65, 8));
        assert_eq!(Latest(u64::MAX).next_version(), 1, "0 is no version");
        let asking = Cell::asking(TokenId::new(65_535, 8_191));
        assert!(asking.is_asking() && asking.pinned().is_none());
        let pin = asking.pin(65);
        assert_eq!((pin.owner(), pin.pinned(), pin.is_asking()), (asking.owner(), Some(65), false));
        assert_eq!(Cell::FREE.owner(), None);
        assert_eq!(Cell(u64::MAX).pinned(), None, "no such buffer");
    }
}
