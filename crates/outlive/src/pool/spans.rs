//! Spans: 2 MiB of file offsets each, the unit that a pool is carved in.
//!
//! A span's word says what it is for. It changes rarely, by compare-exchange, and a span that some thread is taking
//! names that thread.
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | free | nobody's; its pages are holes, or not yet | |
//! | class c | objects of class c, for good | nothing to repair: objects are claimed one by one |
//! | taking(id) | being prepared for a class, gathered into a run, or dissolved, by id | anybody frees it again once id is dead |
//! | run(first) | part of the run that begins at `first` | the run's one object has a tag like any other |
//!
//! A span's tags stand in a table of their own, 64 KiB for each span (what is used of it takes up memory): a thread that
//! was stopped with a stale reference may try its compare-exchange on a tag at any later time, and must never hit
//! anybody's bytes. Of a run only the first span has a tag.

use super::classes::{CLASSES, size_of_class};
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a span.
pub(crate) const SPAN: u64 = 2 << 20;
/// Bytes of control memory for each span.
pub(super) const CONTROL_BYTES_PER_SPAN: u64 = 32;
const PAGE: u64 = crate::sys::map::PAGE;

/// A span's entry in the control table.
#[repr(C)]
pub(super) struct Span {
    word: AtomicU64,
    /// Objects of a class span whose pages exist, and `SHUT`; bytes of a run's object that do.
    pub(super) frontier: AtomicU64,
    /// How many spans a run has; of its first span only.
    pub(super) spans: AtomicU32,
    reserved: AtomicU32,
    reserved_too: AtomicU64,
}

const _: () = assert!(size_of::<Span>() as u64 == CONTROL_BYTES_PER_SPAN);

// SAFETY: all its fields are atomics.
unsafe impl crate::segment::Shared for Span {}

/// In a class span's frontier: it grows no more, because somebody takes the span apart. Left by one who died doing so,
/// it only keeps the span from growing.
pub(super) const SHUT: u64 = 1 << 63;

/// What a span is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    Class(u32),
    Taking(u32),
    Run(u32),
}

impl Use {
    fn encode(self) -> u64 {
        match self {
            Use::Free => 0,
            Use::Class(class) => 1 << 32 | u64::from(class),
            Use::Taking(id) => 2 << 32 | u64::from(id),
            Use::Run(first) => 3 << 32 | u64::from(first),
        }
    }

    /// Damaged words read as a class that does not exist, which nobody uses.
    fn decode(word: u64) -> Use {
        let low = word as u32;
        match word >> 32 {
            0 if low == 0 => Use::Free,
            2 => Use::Taking(low),
            3 => Use::Run(low),
            _ => Use::Class(low),
        }
    }
}

impl Span {
    pub(super) fn what(&self) -> Use {
        // Acquire pairs with `change`: what was prepared before the change is seen.
        Use::decode(self.word.load(Ordering::Acquire))
    }

    /// How many objects a class span has.
    pub(super) fn objects(&self, layout: Layout) -> u32 {
        // Acquire pairs with `extend`: the pages exist.
        (self.frontier.load(Ordering::Acquire) & !SHUT).min(u64::from(layout.count)) as u32
    }

    /// From one use to another, unless somebody was quicker.
    pub(super) fn change(&self, from: Use, to: Use) -> bool {
        self.word.compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// How a class's objects lie in a span.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Bytes of an object.
    pub(super) size: u64,
    /// How many there are.
    pub(super) count: u32,
}

impl Layout {
    /// Bytes of tags, in pages.
    pub(super) fn tag_bytes(self) -> u64 {
        (u64::from(self.count) * 8).next_multiple_of(PAGE)
    }
}

/// `None` for a class that does not exist.
pub(super) fn layout(class: u32) -> Option<Layout> {
    (class < CLASSES).then(|| {
        let size = size_of_class(class);
        Layout { size, count: (SPAN / size) as u32 }
    })
}

/// Bytes of tags that each span has room for.
pub(super) const TAGS: u64 = 64 << 10;
const _: () = assert!(SPAN / 256 * 8 == TAGS);
