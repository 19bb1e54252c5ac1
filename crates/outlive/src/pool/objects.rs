//! Objects: taken, handed on and freed by one compare-exchange on their tag.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | held(id) | the thread `id` writes or reads it | `collect` frees it |
//! | queued(region, position) | belongs to the message at that place | freed with the message; if its receiver died between giving the slot back and this, `collect` sees that the slot has moved on |
//!
//! Memory goes from one class to another by whole spans: who finds no room takes all objects of a span in which all are
//! free, and the span is free. A thread that meets a stale reference meanwhile looks at the span again after it has taken
//! the tag, and lets go.
//!
//! There is no free list and so no list head to lock: a thread that is stopped or killed anywhere delays nobody, and
//! there is nothing to repair but tags. Free objects are found by a hint (the one freed last, still warm), else by
//! looking at tags from a cursor on.
//!
//! What a thread takes it need not use: it may be killed, or let go. One who looked meanwhile has found nothing, and would
//! sleep beside free memory. So every look reads tags by `is_free` or `take`, and spans' words by `look_at`, which note
//! what was in a hand ([`Room::met_in_hand`]): who met such a thing looks again soon. And who lets go says so
//! ([`Room::freed`]), which is quicker, but cannot be relied on: it may die before it has.

use std::sync::atomic::AtomicU64 as StdAtomicU64;

use super::classes::{CLASSES, LARGEST, class_of, size_of_class};
use super::room::{Message, Room};
use super::spans::{self, SPAN, Span, TAGS, Use, Word};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::{Segment, Shared};
use crate::shim::{AtomicU32, AtomicU64, Ordering};

const PAGE: u64 = crate::sys::map::PAGE;
/// How many tags an allocation looks at before it rather takes new memory.
const LOOKS: u32 = 128;
/// Pages of a class span are allocated in steps of this many bytes.
const STEP: u64 = 64 << 10;
/// The most spans that a pool has.
const MOST_SPANS: u32 = 1 << 12;
const INDEX_BITS: u32 = 13;
/// The first page of the control table has room for so many spans, and a little less.
const SOME_SPANS: u32 = 64;

/// The pool's own words.
#[repr(C)]
struct Heads {
    // Written by whoever takes a new span.
    used_spans: AtomicU32,
    reserved: [AtomicU32; 15],
    // Written by allocators and freers: by class, the object freed last (plus one), and where to look next.
    freed: [AtomicU32; CLASSES as usize],
    cursors: [AtomicU32; CLASSES as usize],
}

// SAFETY: all its fields are atomics.
unsafe impl Shared for Heads {}

/// Bytes kept for [`Heads`].
const HEADS: u64 = 1024;
const _: () = assert!(size_of::<Heads>() as u64 <= HEADS);

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
    fn encode(self) -> u64 {
        match self {
            Tag::Free | Tag::Damaged => 0,
            Tag::Held(id) => 1 << KIND | u64::from(id.as_u32()),
            Tag::Queued { region, position } => 2 << KIND | u64::from(region & 63) << 56 | position & POSITION,
        }
    }

    /// Exact: a tag with bits that no tag has is damaged, and nobody touches it.
    fn decode(bits: u64) -> Tag {
        let tag = match (bits >> KIND, TokenId::from_word(bits as u32)) {
            (0, _) => Tag::Free,
            (1, Some(id)) => Tag::Held(id),
            (2, _) => Tag::Queued { region: (bits >> 56 & 63) as u32, position: bits & POSITION },
            _ => Tag::Damaged,
        };
        if tag.encode() == bits { tag } else { Tag::Damaged }
    }
}

/// Makes sure that pages are there, for somebody who looks for memory.
fn grow(segment: &Segment, from: u64, len: u64, room: &dyn Room) -> Result<(), Error> {
    let grown = segment.grow(from, len);
    if let Err(Error::NoSpace { .. }) = grown {
        room.met_in_hand();
    }
    grown
}

/// Whether a tag, as somebody who looks for memory reads it, says free.
fn is_free(tag: &AtomicU64, room: &dyn Room) -> bool {
    // Relaxed: who wants it takes it by `take`.
    let seen = tag.load(Ordering::Relaxed);
    if seen != 0 {
        note_if_held(seen, room);
    }
    seen == 0
}

fn note_if_held(seen: u64, room: &dyn Room) {
    if let Tag::Held(_) = Tag::decode(seen) {
        room.met_in_hand();
    }
}

/// A pool inside a segment: control table at `control`, then tags, spans at `first_span`.
pub(crate) struct Pool {
    control: u64,
    tags: u64,
    first_span: u64,
    spans: u32,
    /// Bytes of the control table that this process has seen to have pages.
    control_known: StdAtomicU64,
}

/// An object, as far as this process is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// How messages name it.
    pub(crate) reference: u32,
    /// Where its bytes begin in the segment.
    pub(crate) offset: u64,
    /// How many there are.
    pub(crate) capacity: u64,
    tag_at: u64,
}

/// What [`Pool::collect`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Objects that the dead held.
    pub(crate) held: u32,
    /// Objects of messages that were received by one who died before freeing them.
    pub(crate) orphaned: u32,
    /// Spans that the dead were taking.
    pub(crate) spans: u32,
    /// Objects and spans in the hands of other living threads: not free, and nobody's message yet, or not any more.
    pub(crate) in_hand: u32,
}

impl Found {
    /// What was, or could be, freed.
    pub(crate) fn count(&self) -> u32 {
        self.held + self.orphaned + self.spans
    }
}

impl Pool {
    /// Bytes of the control table that exist from the beginning: enough for the first spans.
    pub(crate) const FIRST_CONTROL: u64 = PAGE;

    /// Bytes that an object for `len` takes in a pool that has nothing else.
    pub(crate) fn bytes_for(len: u64) -> u64 {
        match class_of(len).and_then(spans::layout) {
            Some(layout) => layout.tag_bytes() + layout.size,
            None => PAGE + len.next_multiple_of(PAGE),
        }
    }

    /// The longest message whose object takes no more than that.
    pub(crate) fn longest_in(bytes: u64) -> u64 {
        if Pool::bytes_for(LARGEST + 1) <= bytes {
            return (bytes - PAGE) / PAGE * PAGE;
        }
        (0..CLASSES).rev().map(size_of_class).find(|&size| Pool::bytes_for(size) <= bytes).unwrap_or(0)
    }

    /// Bytes of file offsets for the control table of so many spans; its pages come as they are needed.
    pub(crate) fn control_bytes(spans: u32) -> u64 {
        (HEADS + u64::from(spans) * spans::CONTROL_BYTES_PER_SPAN).next_multiple_of(PAGE)
    }

    /// Bytes of file offsets for their tags.
    pub(crate) fn tag_bytes(spans: u32) -> u64 {
        u64::from(spans) * TAGS
    }

    /// A pool with so many spans that this process can use.
    pub(crate) fn new(control: u64, tags: u64, first_span: u64, spans: u32) -> Pool {
        let control_known = StdAtomicU64::new(Pool::FIRST_CONTROL);
        Pool { control, tags, first_span, spans: spans.min(MOST_SPANS), control_known }
    }

    fn heads<'s>(&self, segment: &'s Segment) -> Result<&'s Heads, Error> {
        segment.at(self.control)
    }

    fn span<'s>(&self, segment: &'s Segment, index: u32) -> Result<&'s Span, Error> {
        if index >= self.spans {
            return Err(segment.damaged("a span's number"));
        }
        let at = HEADS + u64::from(index) * spans::CONTROL_BYTES_PER_SPAN;
        let end = (at + spans::CONTROL_BYTES_PER_SPAN).next_multiple_of(PAGE);
        let known = self.control_known.load(Ordering::Relaxed);
        if end > known {
            // Idempotent, and all zero is a table of free spans. Died just after: the next one finds the page there.
            segment.grow(self.control + known, end - known)?;
            self.control_known.fetch_max(end, Ordering::Relaxed);
        }
        segment.at(self.control + at)
    }

    fn span_offset(&self, index: u32) -> u64 {
        self.first_span + u64::from(index) * SPAN
    }

    fn tags_offset(&self, index: u32) -> u64 {
        self.tags + u64::from(index) * TAGS
    }

    fn used_spans(&self, segment: &Segment) -> Result<u32, Error> {
        Ok(self.heads(segment)?.used_spans.load(Ordering::Acquire).min(self.spans))
    }

    fn tag<'s>(&self, segment: &'s Segment, object: &Object) -> Result<&'s AtomicU64, Error> {
        segment.at(object.tag_at)
    }

    /// Bytes of the file that the pool has taken so far.
    pub(crate) fn bytes(&self, segment: &Segment) -> Result<u64, Error> {
        let mut bytes: u64 = 0;
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let taken = match word.what() {
                Use::Class(class) => spans::layout(class)
                    .map_or(0, |layout| layout.tag_bytes() + u64::from(span.objects(word, layout)) * layout.size),
                Use::Run(first) if first == index => span.run_bytes(word) + PAGE,
                _ => 0,
            };
            bytes = bytes.saturating_add(taken);
        }
        Ok(bytes)
    }

    /// The object of that reference, if there is one just now: its pages exist. It is there as long as its tag is not
    /// free; a free one's span may become something else at any moment.
    pub(crate) fn object(&self, segment: &Segment, reference: u32) -> Option<Object> {
        let index = reference >> INDEX_BITS;
        let at = reference & ((1 << INDEX_BITS) - 1);
        let span = self.span(segment, index).ok()?;
        let word = span.word();
        let (start, capacity) = match word.what() {
            Use::Class(class) => {
                let layout = spans::layout(class)?;
                (at < span.objects(word, layout)).then_some((u64::from(at) * layout.size, layout.size))?
            }
            Use::Run(first) if first == index && at == 0 => {
                let spans = span.spans.load(Ordering::Acquire);
                let capacity = span.run_bytes(word).min(u64::from(spans) * SPAN);
                (spans > 0 && spans <= self.spans - index).then_some((0, capacity))?
            }
            _ => return None,
        };
        let offset = self.span_offset(index) + start;
        // A damaged count must not lead behind the end of the file. There also lies a run that did not come to have any
        // pages (no room, or its owner died): it can be taken and taken apart like any other.
        if capacity > 0 {
            segment.exists(offset + capacity).ok()?;
        }
        Some(Object { reference, offset, capacity, tag_at: self.tags_offset(index) + u64::from(at) * 8 })
    }

    /// Takes an object of at least `len` bytes for the calling thread.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when neither a free object nor room for a new one is there; nothing is harmed by that.
    pub(crate) fn allocate(&self, segment: &Segment, me: Me, len: u64, room: &dyn Room) -> Result<Object, Error> {
        match class_of(len) {
            Some(class) => self.allocate_small(segment, me, class, room),
            None => self.allocate_run(segment, me, len, room),
        }
    }

    fn allocate_small(&self, segment: &Segment, me: Me, class: u32, room: &dyn Room) -> Result<Object, Error> {
        let heads = self.heads(segment)?;
        let hint = heads.freed[class as usize].swap(0, Ordering::Relaxed);
        if hint != 0
            && let Some(object) = self.object(segment, hint - 1)
            && object.capacity == size_of_class(class)
            && self.take(segment, &object, me, room)?
        {
            return Ok(object);
        }
        if let Some(object) = self.look(segment, me, class, LOOKS, room)? {
            return Ok(object);
        }
        match self.extend(segment, me, class, room) {
            Err(Error::NoSpace { path, wanted }) => {
                if let Some(object) = self.look(segment, me, class, u32::MAX, room)? {
                    return Ok(object);
                }
                // All that is free may be bound to other classes.
                if !self.reclaim(segment, me, room)? {
                    return Err(Error::NoSpace { path, wanted });
                }
                self.extend(segment, me, class, room)
            }
            other => other,
        }
    }

    /// From free to held.
    fn take(&self, segment: &Segment, object: &Object, me: Me, room: &dyn Room) -> Result<bool, Error> {
        let tag = self.tag(segment, object)?;
        let mine = Tag::Held(me.id).encode();
        // Acquire pairs with `free`: the former holder has finished with the bytes. Died just after: `collect`'s.
        if let Err(seen) = tag.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed) {
            note_if_held(seen, room);
            return Ok(false);
        }
        // The span may have been dissolved between our look at it and the tag. Now that the tag is ours, it cannot be.
        match self.object(segment, object.reference) {
            Some(now) if now.offset == object.offset && now.capacity == object.capacity => Ok(true),
            _ => {
                room.met_in_hand();
                self.free_held(segment, object, me, room)?;
                Ok(false)
            }
        }
    }

    /// A span and what it is for, to somebody who looks for memory.
    fn look_at<'s>(&self, segment: &'s Segment, index: u32, room: &dyn Room) -> Result<(&'s Span, Word), Error> {
        let span = self.span(segment, index)?;
        let word = span.word();
        if let Use::Taking(_) = word.what() {
            room.met_in_hand();
        }
        Ok((span, word))
    }

    /// Looks for a free object of the class, at so many tags at most, from where the last look ended.
    fn look(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        looks: u32,
        room: &dyn Room,
    ) -> Result<Option<Object>, Error> {
        let heads = self.heads(segment)?;
        let cursor = &heads.cursors[class as usize];
        let used = self.used_spans(segment)?;
        let from = cursor.load(Ordering::Relaxed);
        let (mut index, mut at) = (from >> INDEX_BITS, from & ((1 << INDEX_BITS) - 1));
        let mut looked = 0;
        // Once around all spans, and the first one again for what lies before the cursor.
        for _ in 0..=used {
            if index >= used {
                (index, at) = (0, 0);
            }
            let (span, word) = self.look_at(segment, index, room)?;
            if word.what() == Use::Class(class)
                && let Some(layout) = spans::layout(class)
            {
                let objects = span.objects(word, layout);
                while at < objects {
                    let reference = index << INDEX_BITS | at;
                    at += 1;
                    looked += 1;
                    // Taken apart since, or of another class by now: on to the next span.
                    let object = self.object(segment, reference).filter(|object| object.capacity == layout.size);
                    let Some(object) = object else {
                        room.met_in_hand();
                        break;
                    };
                    if is_free(self.tag(segment, &object)?, room) && self.take(segment, &object, me, room)? {
                        cursor.store(reference + 1, Ordering::Relaxed);
                        return Ok(Some(object));
                    }
                    if looked >= looks {
                        cursor.store(reference + 1, Ordering::Relaxed);
                        return Ok(None);
                    }
                }
            }
            index += 1;
            at = 0;
        }
        Ok(None)
    }

    /// Makes more objects of the class: more pages of a span that has some left, or of a new one.
    fn extend(&self, segment: &Segment, me: Me, class: u32, room: &dyn Room) -> Result<Object, Error> {
        let layout = spans::layout(class).ok_or_else(|| segment.damaged("a size class"))?;
        let no_space = |wanted| Error::NoSpace { path: segment.path().to_path_buf(), wanted };
        let mut index = 0;
        while index < self.spans {
            let (span, word) = self.look_at(segment, index, room)?;
            match word.what() {
                Use::Free => {
                    if !room.allows(layout.tag_bytes() + layout.size) {
                        return Err(no_space(layout.size));
                    }
                    // Lost to another: looked at again.
                    if let Some(mine) = span.change(word, Use::Taking(me.id.as_u32())) {
                        self.prepare(segment, index, mine, class, layout, room)?;
                    }
                    continue;
                }
                Use::Class(c) if c == class => {
                    // A claimant may have died between the span's word and this count.
                    self.heads(segment)?.used_spans.fetch_max(index + 1, Ordering::Release);
                    let frontier = span.frontier(word);
                    if frontier.is_none() {
                        // Of another life: somebody changes it just now.
                        room.met_in_hand();
                    }
                    if let Some(frontier) = frontier
                        && !frontier.is_shut()
                        && frontier.count() < layout.count
                    {
                        let have = frontier.count();
                        // A handful of small ones at once, where there is room for them.
                        let mut more = ((STEP / layout.size) as u32).clamp(1, layout.count - have);
                        if !room.allows(u64::from(more) * layout.size) {
                            more = 1;
                        }
                        let bytes = u64::from(more) * layout.size;
                        if !room.allows(bytes) {
                            return Err(no_space(bytes));
                        }
                        grow(segment, self.span_offset(index) + u64::from(have) * layout.size, bytes, room)?;
                        // Lost: somebody else did it, or the span has another life.
                        span.advance(frontier, more);
                        for at in have..have + more {
                            let object = self.object(segment, index << INDEX_BITS | at);
                            if let Some(object) = object
                                && object.capacity == layout.size
                                && self.take(segment, &object, me, room)?
                            {
                                self.heads(segment)?.cursors[class as usize]
                                    .store(object.reference + 1, Ordering::Relaxed);
                                return Ok(object);
                            }
                        }
                        continue;
                    }
                }
                Use::Taking(id) if self.is_dead(me, id) => {
                    span.change(word, Use::Free);
                    continue;
                }
                _ => {}
            }
            index += 1;
        }
        Err(no_space(layout.size))
    }

    /// Makes a span that this thread took one of the class, without objects yet.
    fn prepare(
        &self,
        segment: &Segment,
        index: u32,
        mine: Word,
        class: u32,
        layout: spans::Layout,
        room: &dyn Room,
    ) -> Result<(), Error> {
        let span = self.span(segment, index)?;
        // Died from here on: taking(dead) is freed by whoever meets it.
        if let Err(error) = grow(segment, self.tags_offset(index), layout.tag_bytes(), room) {
            // Silently, see `Room::freed`.
            span.change(mine, Use::Free);
            return Err(error);
        }
        span.begin(mine);
        span.change(mine, Use::Class(class));
        self.heads(segment)?.used_spans.fetch_max(index + 1, Ordering::Release);
        Ok(())
    }

    /// Frees whole spans whose objects are all free, and gives their pages back. Says whether there are free spans now,
    /// also such as somebody else freed: then it is worth another try.
    #[cold]
    fn reclaim(&self, segment: &Segment, me: Me, room: &dyn Room) -> Result<bool, Error> {
        let mut any = self.dissolve_free_runs(segment, me, room)?;
        for index in 0..self.used_spans(segment)? {
            any |= self.dissolve_span(segment, me, index, room)?;
        }
        Ok(any)
    }

    /// Takes all objects of a class's span; if that succeeds, nobody has any, and nobody can take one. Says whether the
    /// span is free.
    fn dissolve_span(&self, segment: &Segment, me: Me, index: u32, room: &dyn Room) -> Result<bool, Error> {
        let (span, word) = self.look_at(segment, index, room)?;
        let Use::Class(class) = word.what() else { return Ok(word.what() == Use::Free) };
        let Some(layout) = spans::layout(class) else { return Ok(false) };
        let Some(frontier) = span.frontier(word) else {
            // Of another life: somebody changes it just now.
            room.met_in_hand();
            return Ok(false);
        };
        let objects = frontier.count().min(layout.count);
        let tag_of = |at: u32| -> Result<&AtomicU64, Error> { segment.at(self.tags_offset(index) + u64::from(at) * 8) };
        // Without a claim first: nothing is taken out of anybody's sight, even for a moment, unless it is likely to pay.
        for at in 0..objects {
            if !is_free(tag_of(at)?, room) {
                return Ok(false);
            }
        }
        let mut taken = 0;
        while taken < objects
            && let Some(object) = self.object(segment, index << INDEX_BITS | taken)
            && self.take(segment, &object, me, room)?
        {
            taken += 1;
        }
        // Shut before the word changes: who extends the span just now either loses to this, or makes this fail.
        let whole = taken == objects && span.shut(frontier);
        let mine = if whole { span.change(word, Use::Taking(me.id.as_u32())) } else { None };
        let punched = match mine {
            Some(_) => segment.punch(self.span_offset(index), SPAN),
            None => {
                // Somebody else had a hand in it.
                room.met_in_hand();
                Ok(())
            }
        };
        // Tags back to free: died in between, they are held by the dead.
        for at in 0..taken {
            let _ = tag_of(at)?.compare_exchange(Tag::Held(me.id).encode(), 0, Ordering::Release, Ordering::Relaxed);
        }
        if let Some(mine) = mine {
            span.change(mine, Use::Free);
        }
        // Without objects there were no pages: what a growth that failed leaves, see `Room::freed`.
        if taken > 0 {
            room.freed();
        }
        punched?;
        Ok(mine.is_some())
    }

    fn is_dead(&self, me: Me, id: u32) -> bool {
        TokenId::from_word(id).is_none_or(|id| !me.is_alive(id))
    }

    fn allocate_run(&self, segment: &Segment, me: Me, len: u64, room: &dyn Room) -> Result<Object, Error> {
        let no_space = || Error::NoSpace { path: segment.path().to_path_buf(), wanted: len };
        let bytes = len.next_multiple_of(PAGE);
        let wanted = u32::try_from(bytes.div_ceil(SPAN)).map_err(|_| no_space())?;
        match self.try_run(segment, me, wanted, bytes, room) {
            Err(Error::NoSpace { .. }) => {}
            other => return other,
        }
        // Offsets or bytes are bound to free runs of other lengths, or to classes: take those apart and try once more.
        self.reclaim(segment, me, room)?;
        self.try_run(segment, me, wanted, bytes, room)
    }

    fn try_run(&self, segment: &Segment, me: Me, wanted: u32, bytes: u64, room: &dyn Room) -> Result<Object, Error> {
        let no_space = || Error::NoSpace { path: segment.path().to_path_buf(), wanted: bytes };
        // A free run that is large enough and not much too large.
        for index in 0..self.used_spans(segment)? {
            let (span, word) = self.look_at(segment, index, room)?;
            let fits = || (wanted..=wanted + wanted / 4).contains(&span.spans.load(Ordering::Relaxed));
            // Room is asked for before anything is taken: what could not be used is not even taken out of sight.
            let has_room = |object: &Object| match bytes.saturating_sub(object.capacity) {
                0 => true,
                missing => room.allows(missing),
            };
            if word.what() == Use::Run(index)
                && fits()
                && let Some(object) = self.object(segment, index << INDEX_BITS)
                && has_room(&object)
                && self.take(segment, &object, me, room)?
            {
                // Ours only now: it may have been another run when we looked.
                if fits() {
                    return self.fit_run(segment, me, object, index, bytes, room);
                }
                room.met_in_hand();
                self.free_held(segment, &object, me, room)?;
            }
        }
        if !room.allows(PAGE + bytes) {
            return Err(no_space());
        }
        match self.gather(segment, me, wanted, room)? {
            Some(first) => self.found_run(segment, me, first, wanted, bytes, room),
            None => Err(no_space()),
        }
    }

    /// Takes `wanted` free spans in a row. None is taken before all of them were seen free.
    fn gather(&self, segment: &Segment, me: Me, wanted: u32, room: &dyn Room) -> Result<Option<u32>, Error> {
        let (mut index, mut free) = (0, 0);
        while index < self.spans {
            let (span, word) = self.look_at(segment, index, room)?;
            free = match word.what() {
                Use::Free => free + 1,
                Use::Taking(id) if self.is_dead(me, id) && span.change(word, Use::Free).is_some() => free + 1,
                _ => 0,
            };
            index += 1;
            if free == wanted {
                let first = index - wanted;
                match self.take_spans(segment, me, first, wanted)? {
                    None => return Ok(Some(first)),
                    Some(lost) => {
                        room.met_in_hand();
                        if lost > first {
                            room.freed();
                        }
                        (index, free) = (lost + 1, 0);
                    }
                }
            }
        }
        Ok(None)
    }

    /// All of these free spans or none; then says at which one somebody else was quicker.
    pub(super) fn take_spans(&self, segment: &Segment, me: Me, first: u32, spans: u32) -> Result<Option<u32>, Error> {
        let mine = Use::Taking(me.id.as_u32());
        for index in first..first + spans {
            let span = self.span(segment, index)?;
            let word = span.word();
            if word.what() != Use::Free || span.change(word, mine).is_none() {
                self.change_all(segment, mine, Use::Free, first, index - first)?;
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Makes spans that nobody but this thread changes, while they say `from`, something else; the last one first.
    fn change_all(&self, segment: &Segment, from: Use, to: Use, first: u32, spans: u32) -> Result<(), Error> {
        for index in (first..first + spans).rev() {
            let span = self.span(segment, index)?;
            let word = span.word();
            if word.what() == from {
                span.change(word, to);
            }
        }
        Ok(())
    }

    /// Makes spans that this thread took a run with one object, held by it.
    fn found_run(
        &self,
        segment: &Segment,
        me: Me,
        first: u32,
        spans: u32,
        bytes: u64,
        room: &dyn Room,
    ) -> Result<Object, Error> {
        let mine = Use::Taking(me.id.as_u32());
        if let Err(error) = grow(segment, self.tags_offset(first), PAGE, room) {
            // Silently, see `Room::freed`.
            self.change_all(segment, mine, Use::Free, first, spans)?;
            return Err(error);
        }
        let head = self.span(segment, first)?;
        let object = Object {
            reference: first << INDEX_BITS,
            offset: self.span_offset(first),
            capacity: 0,
            tag_at: self.tags_offset(first),
        };
        // The spans are ours, so plain stores do. Tag first: from the first `Run` word on, the run is its object's.
        head.spans.store(spans, Ordering::Relaxed);
        head.begin(head.word());
        self.tag(segment, &object)?.store(Tag::Held(me.id).encode(), Ordering::Release);
        self.heads(segment)?.used_spans.fetch_max(first + spans, Ordering::Release);
        // The others before the first: died in between, the first is still `Taking` and all of them are freed, the
        // others because the run they name does not exist.
        self.change_all(segment, mine, Use::Run(first), first, spans)?;
        self.fit_run(segment, me, object, first, bytes, room)
    }

    /// Makes sure that so many bytes of a run's object have pages. The object is the caller's.
    fn fit_run(
        &self,
        segment: &Segment,
        me: Me,
        object: Object,
        first: u32,
        bytes: u64,
        room: &dyn Room,
    ) -> Result<Object, Error> {
        let head = self.span(segment, first)?;
        let word = head.word();
        let frontier = head.frontier(word).ok_or_else(|| segment.damaged("a run of spans"))?;
        let have = head.run_bytes(word);
        if have < bytes {
            let missing = bytes - have;
            let grown = if room.allows(missing) {
                grow(segment, object.offset + have, missing, room)
            } else {
                Err(Error::NoSpace { path: segment.path().to_path_buf(), wanted: missing })
            };
            if let Err(error) = grown {
                // Silently, see `Room::freed`.
                self.free(segment, &object, Tag::Held(me.id).encode())?;
                return Err(error);
            }
            head.advance(frontier, (missing / PAGE) as u32);
        }
        Ok(Object { capacity: bytes.max(have), ..object })
    }

    /// Gives a free run's pages back and frees its spans. Says whether there was one.
    fn dissolve_free_runs(&self, segment: &Segment, me: Me, room: &dyn Room) -> Result<bool, Error> {
        let mut any = false;
        for index in 0..self.used_spans(segment)? {
            let (span, word) = self.look_at(segment, index, room)?;
            if word.what() != Use::Run(index) {
                continue;
            }
            let Some(object) = self.object(segment, index << INDEX_BITS) else {
                room.met_in_hand();
                continue;
            };
            if !is_free(self.tag(segment, &object)?, room) || !self.take(segment, &object, me, room)? {
                continue;
            }
            let spans = span.spans.load(Ordering::Relaxed).min(self.spans - index);
            let taken = span.run_bytes(word);
            // The object is ours. First the head: from then on no run begins here. Died after it: the others name a run
            // that does not exist, and are freed by `collect`.
            let Some(mine) = span.change(word, Use::Taking(me.id.as_u32())) else {
                room.met_in_hand();
                self.free_held(segment, &object, me, room)?;
                continue;
            };
            any = true;
            self.change_all(segment, Use::Run(index), Use::Free, index + 1, spans - 1)?;
            let punched = segment.punch(self.span_offset(index), u64::from(spans) * SPAN);
            self.free(segment, &object, Tag::Held(me.id).encode())?;
            span.change(mine, Use::Free);
            // Without pages: what a growth that failed leaves, see `Room::freed`.
            if taken > 0 {
                room.freed();
            }
            punched?;
        }
        Ok(any)
    }

    /// From held by this thread to the message at that place.
    pub(crate) fn enqueue(
        &self,
        segment: &Segment,
        object: &Object,
        me: Me,
        region: u32,
        position: u64,
    ) -> Result<(), Error> {
        let tag = self.tag(segment, object)?;
        let queued = Tag::Queued { region, position }.encode();
        // Release: whoever frees it later has our bytes behind it. Only we may change a tag that names us.
        // Died just after: the slot says WRITING by a dead thread, and whoever skips it frees the object by this tag.
        tag.compare_exchange(Tag::Held(me.id).encode(), queued, Ordering::Release, Ordering::Relaxed)
            .map(|_| ())
            .map_err(|_| segment.damaged("an object's tag"))
    }

    /// Lets go of an object that this thread has taken and not used, and tells those who wait for memory: a sender that
    /// looked while we held it has found nothing, and would sleep on beside a free object. Died before they are told:
    /// they have met the object in our hand, and look again by themselves.
    pub(crate) fn free_held(&self, segment: &Segment, object: &Object, me: Me, room: &dyn Room) -> Result<(), Error> {
        if self.free(segment, object, Tag::Held(me.id).encode())? {
            room.freed();
        }
        Ok(())
    }

    /// Frees the object of the message at that place, if it is (still) that message's.
    pub(crate) fn free_queued(
        &self,
        segment: &Segment,
        object: &Object,
        region: u32,
        position: u64,
    ) -> Result<(), Error> {
        self.free(segment, object, Tag::Queued { region, position }.encode()).map(|_| ())
    }

    /// From that exact tag to free; says whether it was so.
    fn free(&self, segment: &Segment, object: &Object, from: u64) -> Result<bool, Error> {
        // Release: the next holder comes after all that we did with the bytes. Another tag: not ours to free, which is
        // so after a predecessor's death and no error.
        let freed = self.tag(segment, object)?.compare_exchange(from, 0, Ordering::Release, Ordering::Relaxed).is_ok();
        if freed
            && object.capacity > 0
            && let Some(class) = class_of(object.capacity)
        {
            // Still warm: the next allocation takes it. A hint, nothing depends on it.
            self.heads(segment)?.freed[class as usize].store(object.reference.wrapping_add(1), Ordering::Relaxed);
        }
        Ok(freed)
    }

    /// What a tag says, for those who look from outside.
    pub(crate) fn tag_of(&self, segment: &Segment, object: &Object) -> Result<Tag, Error> {
        Ok(Tag::decode(self.tag(segment, object)?.load(Ordering::Acquire)))
    }

    /// Frees what the dead left: objects they held, and queued ones whose message is gone.
    pub(crate) fn collect(
        &self,
        segment: &Segment,
        me: Me,
        dry_run: bool,
        message_at: &dyn Fn(u32, u64) -> Message,
    ) -> Result<Found, Error> {
        let mut found = Found::default();
        // Some more than the count: one may have taken spans and died before counting. The next to allocate meets the rest.
        for index in 0..self.spans.min(self.used_spans(segment)?.saturating_add(SOME_SPANS)) {
            let span = self.span(segment, index)?;
            let word = span.word();
            let count = match word.what() {
                Use::Free => continue,
                Use::Class(class) => spans::layout(class).map_or(0, |layout| span.objects(word, layout)),
                Use::Taking(id) => {
                    if self.is_dead(me, id) {
                        found.spans += 1;
                        if !dry_run {
                            span.change(word, Use::Free);
                        }
                    } else if id != me.id.as_u32() {
                        found.in_hand += 1;
                    }
                    continue;
                }
                Use::Run(first) if first == index => 1,
                Use::Run(first) => {
                    // The run must begin where this span says, or be on its way there.
                    let gone = first >= self.spans
                        || match self.span(segment, first)?.what() {
                            Use::Run(head) => head != first,
                            Use::Taking(id) => self.is_dead(me, id),
                            _ => true,
                        };
                    if gone {
                        found.spans += 1;
                        if !dry_run {
                            span.change(word, Use::Free);
                        }
                    }
                    continue;
                }
            };
            for at in 0..count {
                let Some(object) = self.object(segment, index << INDEX_BITS | at) else {
                    continue;
                };
                let tag = self.tag_of(segment, &object)?;
                let over = match tag {
                    Tag::Held(id) if id == me.id => false,
                    Tag::Held(id) if me.registry.is_alive(id) => {
                        found.in_hand += 1;
                        false
                    }
                    Tag::Held(_) => true,
                    Tag::Queued { region, position } => match message_at(region, position) {
                        Message::There => false,
                        Message::BeingTaken => {
                            found.in_hand += 1;
                            false
                        }
                        Message::Gone => true,
                    },
                    Tag::Free | Tag::Damaged => false,
                };
                if !over {
                    continue;
                }
                // By compare-exchange from the very tag that was seen: whoever else collects, one of us frees it.
                if dry_run || self.free(segment, &object, tag.encode())? {
                    match tag {
                        Tag::Held(_) => found.held += 1,
                        _ => found.orphaned += 1,
                    }
                }
            }
        }
        Ok(found)
    }
}
