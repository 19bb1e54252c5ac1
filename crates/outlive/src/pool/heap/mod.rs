//! The heap: memory in objects by size class, each named by a tag. Pools, queues, topics and
//! services are built on it.
//!
//! An object is taken, handed on and freed by one compare-exchange on its tag (`alloc.rs`,
//! `tag.rs`). It lies in a span of its size class, or is a run of spans (`class.rs`, `span.rs`,
//! `run.rs`). `reclaim.rs` makes spans whose objects are all free usable for other sizes, and
//! `collect.rs` frees what the dead held. `free_hints.rs` has hints to free objects, of the public
//! pool's. This folder uses none of the others, and no file of the pool.
//!
//! The layout of a heap: its own words, spans' words, tags, objects.
//!
//! ```text
//! control table   the header, then a `Span` for each span; its pages come as they are needed
//! tags            64 KiB (of a queue) or 512 KiB of offsets for each span, of which its objects use what they need
//! spans           2 MiB each
//! ```

mod alloc;
mod class;
mod collect;
mod free_hints;
mod host;
mod reclaim;
mod resident;
mod run;
#[cfg(test)]
mod run_tests;
mod span;
mod tag;
mod unit;
#[cfg(test)]
mod waiting_tests;
mod walk;

use std::sync::atomic::{AtomicU32 as StdAtomicU32, AtomicU64 as StdAtomicU64};

use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::{Segment, SharedLayout};
use crate::shim::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use class::LARGEST;
pub(in crate::pool) use class::{CLASSES, class_of, class_of_short_or_long, size_of_class};
pub(crate) use collect::Collected;
pub(in crate::pool) use free_hints::{BUCKETS, CLUSTER, FreeHints, HINTS, take_any};
pub(crate) use host::{HeapHost, Message};
pub(in crate::pool) use span::Use;
pub(crate) use span::{SPAN, Shape};
use span::{Span, Word};
pub(in crate::pool) use tag::{NUMBER_BITS, Sharing};
pub(crate) use tag::{RingTag, Tag};
#[cfg(test)]
pub(in crate::pool) use waiting_tests::World;

pub(in crate::pool) const PAGE: u64 = crate::sys::map::PAGE;
/// The most spans that a heap has.
const MOST_SPANS: u32 = (1 << 14) - 1;
/// In a reference: the bits of the object's number in its span.
pub(in crate::pool) const INDEX_BITS: u32 = 15;

/// The heap's own words.
#[repr(C)]
pub(in crate::pool) struct HeapHeader {
    // Written by a thread that takes a new span.
    pub(in crate::pool) used_spans: AtomicU32,
    reserved: [AtomicU32; 15],
    // Written by allocators and freers: by class, the object freed last (plus one), and where to
    // look next.
    pub(in crate::pool) freed: [AtomicU32; CLASSES as usize],
    pub(in crate::pool) cursors: [AtomicU32; CLASSES as usize],
}

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for HeapHeader {}

/// Bytes kept for [`HeapHeader`].
const HEADER: u64 = 1024;
const _: () = assert!(size_of::<HeapHeader>() as u64 <= HEADER);

/// A heap inside a segment: control table at `control`, then tags, spans at `first_span`.
pub(crate) struct Heap {
    pub(in crate::pool) shape: Shape,
    control: u64,
    tags: u64,
    first_span: u64,
    pub(in crate::pool) spans: u32,
    /// Bytes of the control table that this process has found to have pages.
    control_known: StdAtomicU64,
    /// Spans that this process has seen to be used: their number only grows.
    used_known: StdAtomicU32,
}

/// An object, as far as this process is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectRef {
    /// How messages name it.
    pub(crate) reference: u32,
    /// Where its bytes begin in the segment.
    pub(crate) offset: u64,
    /// How many bytes it has.
    pub(crate) capacity: u64,
    pub(in crate::pool) tag_at: u64,
}

impl Heap {
    /// Bytes of the control table that exist from the beginning: enough for the first spans.
    pub(crate) const FIRST_CONTROL: u64 = PAGE;

    /// Returns the bytes that an object for `len` takes in a heap that has nothing else.
    pub(crate) fn bytes_for(shape: Shape, len: u64) -> u64 {
        match shape.class_of(len).and_then(|class| shape.layout(class)) {
            Some(layout) => layout.tag_bytes(1) + layout.object_bytes(1),
            None => PAGE + len.next_multiple_of(PAGE),
        }
    }

    /// Returns the length of the longest message whose object takes no more than that. No shorter
    /// one's takes more.
    pub(crate) fn longest_in(shape: Shape, bytes: u64) -> u64 {
        if Heap::bytes_for(shape, LARGEST + 1) <= bytes {
            return (bytes - PAGE) / PAGE * PAGE;
        }
        (0..CLASSES)
            .rev()
            .map(size_of_class)
            .find(|&size| Heap::bytes_for(shape, size) <= bytes)
            .unwrap_or(0)
    }

    /// Returns the bytes of file offsets for the control table of so many spans; its pages come as
    /// they are needed.
    pub(crate) fn control_bytes(spans: u32) -> u64 {
        (HEADER + u64::from(spans) * span::CONTROL_BYTES_PER_SPAN).next_multiple_of(PAGE)
    }

    /// Returns a heap with so many spans that this process can use.
    pub(crate) fn new(shape: Shape, control: u64, tags: u64, first_span: u64, spans: u32) -> Heap {
        let control_known = StdAtomicU64::new(Heap::FIRST_CONTROL);
        let (spans, used_known) = (spans.min(MOST_SPANS), StdAtomicU32::new(0));
        Heap { shape, control, tags, first_span, spans, control_known, used_known }
    }

    pub(in crate::pool) fn header<'s>(
        &self,
        segment: &'s Segment,
    ) -> Result<&'s HeapHeader, Error> {
        segment.at(self.control)
    }

    pub(in crate::pool) fn span<'s>(
        &self,
        segment: &'s Segment,
        index: u32,
    ) -> Result<&'s Span, Error> {
        if index >= self.spans {
            return Err(segment.damaged("a span's number"));
        }
        let at = HEADER + u64::from(index) * span::CONTROL_BYTES_PER_SPAN;
        let end = (at + span::CONTROL_BYTES_PER_SPAN).next_multiple_of(PAGE);
        let known = self.control_known.load(Ordering::Relaxed);
        if end > known {
            // Idempotent, and all zero is a table of free spans. A death just after: the next
            // process finds the page there. A subscriber only looks: the publisher that claimed the
            // span has grown the table before.
            segment.grow_or_exists(self.control + known, end - known)?;
            self.control_known.fetch_max(end, Ordering::Relaxed);
        }
        segment.at(self.control + at)
    }

    pub(in crate::pool) fn span_offset(&self, index: u32) -> u64 {
        self.first_span + u64::from(index) * SPAN
    }

    /// Returns where spans begin, and where those end that are mapped.
    pub(in crate::pool) fn spans_range(&self, mapped: u64) -> (u64, u64) {
        (self.first_span, self.span_offset(self.spans).min(mapped))
    }

    pub(in crate::pool) fn tags_offset(&self, index: u32) -> u64 {
        self.tags + u64::from(index) * self.shape.tags()
    }

    pub(in crate::pool) fn used_spans(&self, segment: &Segment) -> Result<u32, Error> {
        Ok(self.header(segment)?.used_spans.load(Ordering::Acquire).min(self.spans))
    }

    /// Refuses a heap of which this process has not mapped all spans that are in use: a scan of the
    /// others has not seen all names.
    pub(crate) fn expect_whole(&self, segment: &Segment) -> Result<(), Error> {
        let used = self.header(segment)?.used_spans.load(Ordering::Acquire);
        if used <= self.spans {
            Ok(())
        } else {
            segment.expect_mapped(self.span_offset(used.min(MOST_SPANS)))
        }
    }

    pub(in crate::pool) fn tag<'s>(
        &self,
        segment: &'s Segment,
        object: &ObjectRef,
    ) -> Result<&'s AtomicU64, Error> {
        segment.at(object.tag_at)
    }

    /// Returns the tag that belongs to a reference, whether or not there is an object just now: the
    /// caller has seen it below a frontier, so its page exists, and stays.
    fn tag_at<'s>(&self, segment: &'s Segment, reference: u32) -> Result<&'s AtomicU64, Error> {
        let (index, at) = (reference >> INDEX_BITS, reference & ((1 << INDEX_BITS) - 1));
        segment.at(self.tags_offset(index) + u64::from(at) * self.shape.record)
    }

    /// Clears what the record says of an object's bytes: they are about to change. The caller has
    /// its tag.
    pub(in crate::pool) fn forget_bytes(
        &self,
        segment: &Segment,
        tag_at: u64,
    ) -> Result<(), Error> {
        if self.shape == Shape::POOL {
            let note: &AtomicU32 = segment.at(tag_at + Shape::NOTE)?;
            if note.load(Ordering::Relaxed) != 0 {
                // Relaxed: seen with the tag. A death just after: an object of which less is known.
                note.store(0, Ordering::Relaxed);
                compiler_fence(Ordering::SeqCst);
            }
        }
        Ok(())
    }

    /// Returns the bytes of the file that the heap has taken so far, in whole pages, without the
    /// control table.
    pub(crate) fn bytes(&self, segment: &Segment) -> Result<u64, Error> {
        let mut bytes: u64 = 0;
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let (tags, objects) = match word.what() {
                Use::Class(class) => self.shape.layout(class).map_or((0, 0), |layout| {
                    let objects = span.objects(word, layout);
                    (layout.tag_bytes(objects), layout.object_bytes(objects))
                }),
                Use::Run(first) if first == index => (PAGE, span.run_bytes(word)),
                _ => (0, 0),
            };
            bytes = bytes.saturating_add(tags.max(self.kept_tags(span)) + objects);
        }
        Ok(bytes)
    }

    /// Returns the bytes of a span's tags that count whatever the span is used for. In a queue, a
    /// topic or a service none do: otherwise a message that fitted once might not fit later.
    fn kept_tags(&self, span: &Span) -> u64 {
        // A damaged number counts as no more than a span can have.
        if self.shape == Shape::POOL { span.tag_bytes().min(self.shape.tags()) } else { 0 }
    }

    /// Returns by how much the counted bytes grow when a free span is taken for a use that needs
    /// `wanted` bytes of tags.
    pub(in crate::pool) fn missing_tags(&self, span: &Span, wanted: u64) -> u64 {
        wanted.saturating_sub(self.kept_tags(span))
    }

    /// Makes sure that so many bytes of a span's tags have pages. The calling thread is taking the
    /// span.
    pub(in crate::pool) fn grow_tags(
        &self,
        segment: &Segment,
        index: u32,
        bytes: u64,
        host: &dyn HeapHost,
    ) -> Result<(), Error> {
        let span = self.span(segment, index)?;
        let before = span.tag_bytes();
        // The tags are counted, and the span is noted as used, before the pages exist. If this
        // thread dies in between, more is counted than exists, until a use of the span needs as
        // many tags.
        span.set_tag_bytes(before.max(bytes));
        self.header(segment)?.used_spans.fetch_max(index + 1, Ordering::Release);
        grow(segment, self.tags_offset(index), bytes, host)
            .inspect_err(|_| span.set_tag_bytes(before))
    }

    /// Returns the object of that reference, if there is one just now: its pages exist. It stays as
    /// long as its tag is not free; a free one's span may become something else at any moment.
    ///
    /// Returns `None` also when the system does not say whether the pages exist: for callers to
    /// which that makes no difference.
    pub(crate) fn object(&self, segment: &Segment, reference: u32) -> Option<ObjectRef> {
        self.find_object(segment, reference).ok().flatten()
    }

    /// Returns the same for a caller that gives something up for lost where there is no object: a
    /// system call that failed is an error, and the caller can ask again.
    #[inline]
    pub(crate) fn find_object(
        &self,
        segment: &Segment,
        reference: u32,
    ) -> Result<Option<ObjectRef>, Error> {
        match self.try_object(segment, reference) {
            // What this process has not mapped does not exist for it.
            Err(Error::Damaged { .. } | Error::NoAddressSpace { .. }) => Ok(None),
            other => other,
        }
    }

    fn try_object(&self, segment: &Segment, reference: u32) -> Result<Option<ObjectRef>, Error> {
        let index = reference >> INDEX_BITS;
        let at = reference & ((1 << INDEX_BITS) - 1);
        // Beyond the spans that were ever used there is no object, and the table may have no page.
        // A look-up must not make one, because the bytes may be no reference at all. A process that
        // was given a reference sees the use of its span: the allocation noted the use before it
        // took the object.
        if index >= self.used_known.load(Ordering::Relaxed) {
            let used = self.used_spans(segment)?;
            self.used_known.fetch_max(used, Ordering::Relaxed);
            if index >= used {
                return Ok(None);
            }
        }
        let span = self.span(segment, index)?;
        let word = span.word();
        let (start, capacity) = match word.what() {
            Use::Class(class) => {
                let layout =
                    self.shape.layout(class).filter(|&layout| at < span.objects(word, layout));
                let Some(layout) = layout else { return Ok(None) };
                (u64::from(at) * layout.size, layout.size)
            }
            Use::Run(first) if first == index && at == 0 => {
                let spans = span.spans.load(Ordering::Acquire);
                if spans == 0 || spans > self.spans - index {
                    return Ok(None);
                }
                (0, span.run_bytes(word).min(u64::from(spans) * SPAN))
            }
            _ => return Ok(None),
        };
        let offset = self.span_offset(index) + start;
        // A damaged count must not lead behind the end of the file. There also lies a run that did
        // not come to have any pages (no room, or its owner died): it can be taken and taken apart
        // like any other.
        if capacity > 0 {
            segment.exists(offset + capacity)?;
        }
        let tag_at = self.tags_offset(index) + u64::from(at) * self.shape.record;
        Ok(Some(ObjectRef { reference, offset, capacity, tag_at }))
    }

    /// Returns the object that begins at that offset just now.
    pub(in crate::pool) fn object_at(&self, segment: &Segment, offset: u64) -> Option<ObjectRef> {
        let within = offset.checked_sub(self.span_offset(0))?;
        let index = u32::try_from(within / SPAN).ok().filter(|&index| index < self.spans)?;
        let at = match self.span(segment, index).ok()?.what() {
            Use::Class(class) => {
                u32::try_from(within % SPAN / self.shape.layout(class)?.size).ok()?
            }
            _ => 0,
        };
        // A run has one object, in its first span.
        self.object(segment, index << INDEX_BITS | at).filter(|object| object.offset == offset)
    }

    /// Returns a span and its use, for a scan for memory. From then on, what dead threads left of a
    /// run is free.
    pub(in crate::pool) fn scan_span<'s>(
        &self,
        segment: &'s Segment,
        me: Me,
        index: u32,
        host: &dyn HeapHost,
    ) -> Result<(&'s Span, Word), Error> {
        let span = self.span(segment, index)?;
        let mut word = span.word();
        match word.what() {
            Use::Taking(_) => host.met_in_hand(),
            Use::Run(first) if first != index && self.is_lost(segment, me, index, first)? => {
                word = match self.free_lost(segment, me, index, word)? {
                    Some(free) => free,
                    None => {
                        // Another thread was first.
                        host.met_in_hand();
                        span.word()
                    }
                };
            }
            _ => {}
        }
        Ok((span, word))
    }

    pub(in crate::pool) fn is_dead(&self, me: Me, id: u32) -> bool {
        TokenId::from_word(id).is_none_or(|id| !me.is_alive(id))
    }
}

/// Makes sure that pages are there, for a scan for memory.
pub(in crate::pool) fn grow(
    segment: &Segment,
    from: u64,
    len: u64,
    host: &dyn HeapHost,
) -> Result<(), Error> {
    let grown = segment.grow(from, len);
    if let Err(Error::NoSpace { .. }) = grown {
        host.met_in_hand();
    }
    grown
}
