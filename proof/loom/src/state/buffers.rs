//! The buffers where loom runs the state: values of two words.

use super::layout::{MOST_BUFFERS, StateHead};
use crate::Error;
use crate::claim::RoleWords;
use crate::segment::Segment;
use crate::shim::{AtomicU32, AtomicU64};
use crate::wake::EventCount;

pub(super) struct Buffers {
    pub(super) segment: Segment,
    head: StateHead,
    buffers: Vec<(AtomicU64, AtomicU64, [AtomicU64; 2])>,
}

#[derive(Clone, Copy)]
pub(super) struct Buffer<'a> {
    pub(super) stamp: &'a AtomicU64,
    pub(super) len: &'a AtomicU64,
    pub(super) words: &'a [AtomicU64],
}

impl Buffers {
    /// Version 1, of zeroes, in buffer 0.
    pub(super) fn new() -> Buffers {
        let head = StateHead {
            capacity: AtomicU64::new(16),
            options: AtomicU32::new(1),
            unit: AtomicU32::new(0),
            base: AtomicU32::new(0),
            reserved: 0,
            instance: AtomicU64::new(0),
            reserved_1: [0; 8],
            latest: AtomicU64::new(1 << 8),
            reserved_2: [0; 7],
            changes: EventCount::default(),
            used: AtomicU32::new(0),
            count: AtomicU32::new(MOST_BUFFERS),
            reserved_3: [0; 12],
            role: RoleWords::default(),
            reserved_4: [0; 12],
            cells: Default::default(),
        };
        let buffer =
            |n: u32| (AtomicU64::new(u64::from(n == 0)), AtomicU64::new(16), Default::default());
        Buffers { segment: Segment, head, buffers: (0..MOST_BUFFERS).map(buffer).collect() }
    }

    pub(super) fn head(&self) -> &StateHead {
        &self.head
    }

    pub(super) fn capacity(&self) -> usize {
        16
    }

    pub(super) fn is_fixed(&self) -> bool {
        true
    }

    pub(super) fn get(&self, index: u32) -> Result<Buffer<'_>, Error> {
        let (stamp, len, words) = self
            .buffers
            .get(index as usize)
            .ok_or_else(|| self.segment.damaged("a buffer's number"))?;
        Ok(Buffer { stamp, len, words })
    }

    pub(super) fn make(&self, _index: u32) -> Result<(), Error> {
        Err(self.segment.damaged("no more buffers than cells and two"))
    }
}
