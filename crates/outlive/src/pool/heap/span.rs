//! Spans: 2 MiB of file offsets each, the unit in which a heap is divided.
//!
//! A span's word says what it is used for. It changes rarely, by compare-exchange, and names the
//! thread that is taking it.
//!
//! | word | meaning | a death here |
//! | --- | --- | --- |
//! | free | no thread's; its pages are holes, or not yet | |
//! | class c | objects of class c, until a thread that needs the memory finds them all free | nothing to repair: objects are claimed one by one |
//! | taking(id) | being prepared for a class, gathered into a run, or reclaimed, by id | any thread frees it again once id is dead |
//! | run(first) | part of the run that begins at `first` | the run's one object has a tag like any other |
//!
//! A span's tags lie in a table of their own, 64 or 512 KiB for each span (what is used of it takes
//! up memory): a thread that was stopped with a stale reference may try its compare-exchange on a
//! tag at any later time, and must never hit an object's bytes. Of a run only the first span has a
//! tag. For the same reason the pages of the tags stay when the span is taken apart; they count
//! against a pool's limit (doc/protocols/pool.md, "What counts against `max_bytes`").

use super::class::{CLASSES, class_of, size_of_class};
use crate::shim::{AtomicU32, AtomicU64, Ordering};

/// Bytes of a span.
pub(crate) const SPAN: u64 = 2 << 20;
/// Bytes of control memory for each span.
pub(super) const CONTROL_BYTES_PER_SPAN: u64 = 32;
const PAGE: u64 = crate::sys::map::PAGE;

/// A span's entry in the control table.
#[repr(C)]
#[derive(Default)]
pub(in crate::pool) struct Span {
    /// See [`Word`].
    word: AtomicU64,
    /// See [`Frontier`].
    frontier: AtomicU64,
    /// How many spans a run has; valid for its first span only.
    pub(in crate::pool) spans: AtomicU32,
    /// See [`Span::tag_bytes`].
    tag_pages: AtomicU32,
    reserved: AtomicU64,
}

crate::shim::assert_layout!(size_of::<Span>() as u64 == CONTROL_BYTES_PER_SPAN);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for Span {}

/// What a span is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) enum Use {
    Free,
    Class(u32),
    Taking(u32),
    Run(u32),
}

/// What a span is for, and in which of its generations: each time that a thread takes it, the next
/// one begins. Every change is from the exact word that was seen, so a thread that was stopped in
/// between changes nothing of a later generation, even when the span has the same use again.
/// proof/models/span.pml.
///
/// ```text
/// bits 62, 63   free, class, taking, run
/// 32 to 61      generation
/// 0 to 31       the class, the taker's id, the run's first span
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pool) struct Word(u64);

const GENERATIONS: u64 = (1 << 30) - 1;

impl Word {
    fn new(what: Use, generation: u64) -> Word {
        let (kind, value) = match what {
            Use::Free => (0, 0),
            Use::Class(class) => (1, class),
            Use::Taking(id) => (2, id),
            Use::Run(first) => (3, first),
        };
        Word(kind << 62 | (generation & GENERATIONS) << 32 | u64::from(value))
    }

    /// Returns the use. Damaged words read as a class that does not exist, which no thread uses.
    pub(in crate::pool) fn what(self) -> Use {
        let low = self.0 as u32;
        match self.0 >> 62 {
            0 if low == 0 => Use::Free,
            0 => Use::Class(u32::MAX),
            1 => Use::Class(low),
            2 => Use::Taking(low),
            _ => Use::Run(low),
        }
    }

    /// Returns the bits in the table: never the same again in another generation, until generations
    /// wrap.
    pub(super) fn raw(self) -> u64 {
        self.0
    }

    fn generation(self) -> u64 {
        self.0 >> 32 & GENERATIONS
    }
}

/// How much of a span exists: objects of a class, or pages of a run's object; and in which of the
/// span's generations.
///
/// ```text
/// bit 63     shut: it grows no more, because a thread takes the span apart. Left by a thread
///            that died doing so, it only keeps the span from growing
/// 32 to 61   the generation
/// 0 to 31    objects or pages
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Frontier(u64);

const SHUT: u64 = 1 << 63;

impl Frontier {
    pub(super) fn count(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn is_shut(self) -> bool {
        self.0 & SHUT != 0
    }
}

impl Span {
    pub(in crate::pool) fn word(&self) -> Word {
        // Acquire pairs with `change`: what was prepared before the change is seen.
        Word(self.word.load(Ordering::Acquire))
    }

    pub(super) fn what(&self) -> Use {
        self.word().what()
    }

    /// Changes the word from the one that was seen to another use, unless another thread was first.
    /// Taking begins a generation.
    pub(super) fn change(&self, from: Word, to: Use) -> Option<Word> {
        let generation = from.generation() + u64::from(matches!(to, Use::Taking(_)));
        let to = Word::new(to, generation);
        self.word
            .compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
            .then_some(to)
    }

    /// Returns the frontier of the generation that this word belongs to.
    pub(super) fn frontier(&self, word: Word) -> Option<Frontier> {
        // Acquire pairs with `advance`: the pages exist.
        let bits = self.frontier.load(Ordering::Acquire);
        (bits >> 32 & GENERATIONS == word.generation()).then_some(Frontier(bits))
    }

    /// Returns how many objects a class span has.
    pub(in crate::pool) fn objects(&self, word: Word, layout: Layout) -> u32 {
        self.frontier(word).map_or(0, |frontier| frontier.count().min(layout.count))
    }

    /// Returns the bytes of a run's object that have pages.
    pub(in crate::pool) fn run_bytes(&self, word: Word) -> u64 {
        self.frontier(word).map_or(0, |frontier| u64::from(frontier.count()) * PAGE)
    }

    /// Begins the generation of this word, which is the caller's: nothing exists yet.
    pub(super) fn begin(&self, mine: Word) -> Frontier {
        let nothing = Frontier(mine.generation() << 32);
        self.frontier.store(nothing.0, Ordering::Relaxed);
        nothing
    }

    /// Adds so many, if nothing has changed since.
    pub(super) fn advance(&self, from: Frontier, more: u32) -> bool {
        // Release: a thread that sees the new count finds the pages.
        let to = from.0 + u64::from(more);
        self.frontier.compare_exchange(from.0, to, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Returns how many bytes of the span's tags have pages, from the first tag on: the most that
    /// any use of the span has needed so far, since none of these pages is given back. In the
    /// public pool never less than exist (doc/protocols/pool.md names the one exception); elsewhere
    /// more may have come with the objects, and no code asks.
    pub(super) fn tag_bytes(&self) -> u64 {
        u64::from(self.tag_pages.load(Ordering::Relaxed)) * PAGE
    }

    /// Sets [`Span::tag_bytes`]. Called by the thread that is taking the span, before it asks for
    /// the pages: if it dies in between, fewer pages exist than the number says.
    pub(super) fn set_tag_bytes(&self, bytes: u64) {
        // Relaxed: no other thread writes the number while the span's word names this one, and
        // readers only add it up.
        self.tag_pages.store((bytes / PAGE) as u32, Ordering::Relaxed);
    }

    /// Shuts the frontier, if nothing has changed since.
    pub(super) fn shut(&self, from: Frontier) -> bool {
        self.frontier
            .compare_exchange(from.0, from.0 | SHUT, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

/// How a class's objects lie in a span.
#[derive(Clone, Copy)]
pub(in crate::pool) struct Layout {
    /// Bytes of an object.
    pub(super) size: u64,
    /// How many there are.
    pub(in crate::pool) count: u32,
    /// Bytes of each one's record.
    record: u64,
}

/// The kinds of heaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of the smallest objects.
    smallest: u64,
    /// Bytes of the record that each object has in the table of tags; the tag comes first.
    pub(in crate::pool) record: u64,
}

impl Shape {
    /// A heap for messages, as a queue's: its records have only a tag.
    pub(crate) const QUEUE: Shape = Shape { smallest: 256, record: 8 };
    /// The public pool's heap: its records have a link and a note besides.
    pub(crate) const POOL: Shape = Shape { smallest: 64, record: 16 };

    /// The note's place in a record of the public pool's.
    pub(in crate::pool) const NOTE: u64 = 12;

    /// Returns how objects of a class lie in a span; `None` for a class that does not exist here.
    pub(in crate::pool) fn layout(self, class: u32) -> Option<Layout> {
        if class >= CLASSES {
            return None;
        }
        let size = size_of_class(class);
        (size >= self.smallest).then(|| Layout {
            size,
            count: (SPAN / size) as u32,
            record: self.record,
        })
    }

    /// Returns the class whose objects hold `len` bytes; `None` when the object takes a run.
    pub(super) fn class_of(self, len: u64) -> Option<u32> {
        class_of(len.max(self.smallest))
    }

    /// Returns the bytes of records that each span has room for.
    pub(crate) const fn tags(self) -> u64 {
        SPAN / self.smallest * self.record
    }

    /// Returns the bytes of file offsets for the records of so many spans.
    pub(crate) fn tag_bytes(self, spans: u32) -> u64 {
        u64::from(spans) * self.tags()
    }
}

impl Layout {
    /// Returns the bytes of so many objects, in whole pages.
    pub(super) fn object_bytes(self, objects: u32) -> u64 {
        (u64::from(objects) * self.size).next_multiple_of(PAGE)
    }

    /// Returns the bytes of records, in whole pages, that have to be there before a span has so
    /// many objects.
    ///
    /// In the public pool, all of them: only the thread that takes the span may count them.
    /// Elsewhere those of the objects, and one page at least: otherwise a short message would need
    /// more memory than a long one, and might fit nowhere.
    pub(super) fn tag_bytes(self, objects: u32) -> u64 {
        let records = match self.record == Shape::POOL.record {
            true => self.count,
            false => objects.clamp(1, self.count),
        };
        (u64::from(records) * self.record).next_multiple_of(PAGE)
    }
}

const _: () = assert!(Shape::QUEUE.tags() == 64 << 10 && Shape::POOL.tags() == 512 << 10);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_in_an_earlier_generation_changes_nothing_of_a_later_one() {
        // SAFETY: all its fields are atomics, for which zero is a value.
        let span: Span = unsafe { core::mem::zeroed() };
        let live = |class| {
            let mine = span.change(span.word(), Use::Taking(7)).expect("nobody else is there");
            span.begin(mine);
            span.change(mine, Use::Class(class)).expect("ours")
        };
        let before = live(3);
        let seen = span.frontier(before).expect("of this generation");
        assert!(span.advance(seen, 4));
        let seen = span.frontier(before).expect("of this generation");
        assert!(
            span.shut(seen) && span.objects(before, Shape::QUEUE.layout(12).expect("a class")) == 4
        );
        let after = live(3);
        assert_eq!((before.what(), after.what()), (Use::Class(3), Use::Class(3)));
        assert_eq!(span.change(before, Use::Free), None);
        assert!(span.frontier(before).is_none());
        assert!(span.advance(span.frontier(after).expect("of this generation"), 4));
        assert!(!span.advance(seen, 1) && !span.shut(seen));
    }

    #[test]
    fn words_keep_what_they_are_given() {
        for what in [Use::Free, Use::Class(48), Use::Taking(u32::MAX), Use::Run(4095)] {
            let word = Word::new(what, GENERATIONS);
            assert_eq!((word.what(), word.generation()), (what, GENERATIONS));
        }
        assert_eq!(Word::new(Use::Free, GENERATIONS + 1), Word(0), "generations wrap");
        assert_eq!(Word(9).what(), Use::Class(u32::MAX), "damaged");
    }
}
