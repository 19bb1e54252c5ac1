//! A slot's words, as far as the protocols use them, where loom can see them.

use super::id::WAITERS;
use crate::shim::{AtomicU32, Ordering};

/// As the kernel's mark.
const DIED: u32 = 0x4000_0000;
pub(super) const KIND: u32 = 0xff;

pub(crate) struct Slot {
    word: AtomicU32,
    pub(super) generation: AtomicU32,
    pub(super) tid: AtomicU32,
    pub(crate) relay: AtomicU32,
    pub(super) keeper: AtomicU32,
    pub(super) kind: AtomicU32,
}

impl Slot {
    pub(crate) fn held_by(tid: u32) -> Slot {
        Slot {
            kind: AtomicU32::new(1),
            word: AtomicU32::new(tid),
            generation: AtomicU32::new(1),
            tid: AtomicU32::new(tid),
            relay: AtomicU32::new(0),
            keeper: AtomicU32::new(0),
        }
    }

    /// What the kernel does when the holder ends, save the wakes.
    pub(crate) fn mark_died(&self) -> bool {
        // Changes nothing. A load would hide from loom that other threads have read the word.
        let mut seen = self.word.fetch_or(0, Ordering::Relaxed);
        loop {
            let marked = seen & WAITERS | DIED;
            match self.word.compare_exchange(seen, marked, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return seen & WAITERS != 0,
                Err(now) => seen = now,
            }
        }
    }

    /// libc's lock word.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    /// Only threads' slots are made here.
    pub(super) fn is_process(&self) -> bool {
        false
    }
}
