//! Runs: objects of more than a MiB, made of whole spans in a row.
//!
//! | words of the spans | meaning | a death here |
//! | --- | --- | --- |
//! | some taking(me) | being gathered | any thread frees them again |
//! | all taking(me), tag held(me) | the run's size and its tag are there | the same; the tag is written over by the next run, or freed by `collect` as that of a class's object |
//! | taking(me), then run(first) | they become a run, the first one last | they name a run that does not exist: the next thread that meets them frees them |
//! | all run(first), tag held(me) | a run, of as many pages as its frontier says, perhaps none | `collect` frees its object |
//! | first taking(me), then run(first), tag held(me) | taken apart, the first one first | `collect` frees its object |
//!
//! A thread that frees what dead threads left of spans takes them first (taking(me)), gives their
//! pages back, and only then marks them free: pages that no count includes would be more than the
//! file may have.
//!
//! proof/models/run.pml.
//!
//! A run is kept as it is when its object is freed, for the next message of its length, until a
//! thread needs the memory.

use super::host::HeapHost;
use super::span::{SPAN, Shape, Use, Word};
use super::tag::{Tag, is_free};
use super::{Heap, INDEX_BITS, ObjectRef, PAGE, grow};
use crate::Error;
use crate::liveness::Me;
use crate::segment::Segment;
use crate::shim::Ordering;

impl Heap {
    pub(super) fn allocate_run(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        match self.try_fast_run(segment, me, len, host) {
            Err(Error::NoSpace { .. }) => {}
            other => return other,
        }
        // Offsets or bytes belong to free runs of other lengths, or to classes: takes those apart
        // and tries once more.
        self.reclaim(segment, me, host)?;
        self.try_fast_run(segment, me, len, host)
    }

    /// Takes a run, without taking others apart for it.
    pub(super) fn try_fast_run(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let no_space = || Error::NoSpace { path: segment.path().to_path_buf(), wanted: len };
        let bytes = len.next_multiple_of(PAGE);
        let wanted = u32::try_from(bytes.div_ceil(SPAN)).map_err(|_| no_space())?;
        self.try_run(segment, me, wanted, bytes, host)
    }

    fn try_run(
        &self,
        segment: &Segment,
        me: Me,
        wanted: u32,
        bytes: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let no_space = || Error::NoSpace { path: segment.path().to_path_buf(), wanted: bytes };
        // A free run that is large enough and not much too large.
        for index in 0..self.used_spans(segment)? {
            let (span, word) = self.scan_span(segment, me, index, host)?;
            let fits =
                || (wanted..=wanted + wanted / 4).contains(&span.spans.load(Ordering::Relaxed));
            // Asks for room before it takes anything: memory that cannot be used is not even taken
            // out of sight.
            let has_room = |object: &ObjectRef| match bytes.saturating_sub(object.capacity) {
                0 => true,
                missing => host.allows(missing),
            };
            if word.what() == Use::Run(index)
                && fits()
                && let Some(object) = self.object(segment, index << INDEX_BITS)
                && has_room(&object)
                && self.take(segment, &object, me, host)?
            {
                // This thread's only now: it may have been another run at the look.
                if fits() {
                    return self.fit_run(segment, me, object, index, bytes, host);
                }
                host.met_in_hand();
                self.free_held(segment, &object, me, host)?;
            }
        }
        // The first span's tag needs a page as well. In a pool, that page may exist already.
        let can_make_tag = host.allows(PAGE + bytes);
        if !can_make_tag && (self.shape != Shape::POOL || !host.allows(bytes)) {
            return Err(no_space());
        }
        match self.gather(segment, me, wanted, can_make_tag, host)? {
            Some(first) => self.found_run(segment, me, first, wanted, bytes, host),
            None => Err(no_space()),
        }
    }

    /// Takes `wanted` free spans in a row; if no tag can be made, a row whose first span has a page
    /// for it. It takes none before it has seen all of them free.
    fn gather(
        &self,
        segment: &Segment,
        me: Me,
        wanted: u32,
        can_make_tag: bool,
        host: &dyn HeapHost,
    ) -> Result<Option<u32>, Error> {
        let (mut index, mut free) = (0, 0);
        while index < self.spans {
            let (_, word) = self.scan_span(segment, me, index, host)?;
            free = match word.what() {
                Use::Free => free + 1,
                Use::Taking(id)
                    if self.is_dead(me, id)
                        && self.free_lost(segment, me, index, word)?.is_some() =>
                {
                    free + 1
                }
                _ => 0,
            };
            index += 1;
            if free == wanted
                && !can_make_tag
                && self.missing_tags(self.span(segment, index - wanted)?, PAGE) > 0
            {
                // The next row may begin with one that has it.
                free -= 1;
            }
            if free == wanted {
                let first = index - wanted;
                match self.take_spans(segment, me, first, wanted)? {
                    None => return Ok(Some(first)),
                    Some(lost) => {
                        host.met_in_hand();
                        if lost > first {
                            host.freed();
                        }
                        (index, free) = (lost + 1, 0);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Takes all of these free spans or none; then returns at which one another thread was first.
    pub(super) fn take_spans(
        &self,
        segment: &Segment,
        me: Me,
        first: u32,
        spans: u32,
    ) -> Result<Option<u32>, Error> {
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

    /// Returns whether a span that says that it is part of the run at `first` is not, and never
    /// will be again: the thread that made that run, or took it apart, died in it.
    pub(super) fn is_lost(
        &self,
        segment: &Segment,
        me: Me,
        index: u32,
        first: u32,
    ) -> Result<bool, Error> {
        if first >= self.spans || first > index {
            return Ok(true);
        }
        let head = self.span(segment, first)?;
        let word = head.word();
        Ok(match word.what() {
            Use::Run(own) if own == first => {
                // A shorter run that was made there since. Acquire pairs with `found_run`: if it is
                // of a later generation than the word, it shows that the word has changed.
                index - first >= head.spans.load(Ordering::Acquire) && head.word() == word
            }
            // Until it died it may have gone on, and made the run: so the word is read again after
            // that.
            Use::Taking(id) => self.is_dead(me, id) && head.word() == word,
            _ => true,
        })
    }

    /// Frees a span of a dead thread, as it was seen: its pages go back before. `None`: another
    /// thread was first.
    ///
    /// Where the system does not take the pages back (a filter, a file system without holes), the
    /// span is free with its pages, which the next object that lies there uses: the caller looks
    /// for memory of its own, and does not fail for what a dead thread left.
    pub(super) fn free_lost(
        &self,
        segment: &Segment,
        me: Me,
        index: u32,
        seen: Word,
    ) -> Result<Option<Word>, Error> {
        let span = self.span(segment, index)?;
        // A death from here on: the next thread finds it taken by a dead one.
        let Some(mine) = span.change(seen, Use::Taking(me.id.as_u32())) else { return Ok(None) };
        let _ = segment.punch(self.span_offset(index), SPAN);
        Ok(span.change(mine, Use::Free))
    }

    /// Changes spans that only this thread changes from `from` to something else; the last one
    /// first.
    fn change_all(
        &self,
        segment: &Segment,
        from: Use,
        to: Use,
        first: u32,
        spans: u32,
    ) -> Result<(), Error> {
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
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let mine = Use::Taking(me.id.as_u32());
        let head = self.span(segment, first)?;
        // In a pool, only now is it certain whether the tag's page exists.
        let has_room = self.shape != Shape::POOL
            || match self.missing_tags(head, PAGE) {
                0 => true,
                tag => host.allows(tag + bytes),
            };
        let grown = match has_room {
            true => self.grow_tags(segment, first, PAGE, host),
            false => Err(Error::NoSpace { path: segment.path().to_path_buf(), wanted: bytes }),
        };
        if let Err(error) = grown {
            // Silently, see `HeapHost::freed`.
            self.change_all(segment, mine, Use::Free, first, spans)?;
            return Err(error);
        }
        let object = ObjectRef {
            reference: first << INDEX_BITS,
            offset: self.span_offset(first),
            capacity: 0,
            tag_at: self.tags_offset(first),
        };
        // The spans are this thread's, so plain stores do. Release pairs with `is_lost`: a thread
        // that reads this count has seen that the earlier run is gone.
        head.spans.store(spans, Ordering::Release);
        head.begin(head.word());
        // Before the words: from the first `Run` word on, the run is its object's. A plain store,
        // and not from 0: the tag belongs to no object as long as the span is this thread's, but a
        // thread that has seen an earlier object here may have put its name there at any time, and
        // be stopped before it looks again. It must not block the run; it finds this thread's name.
        self.tag(segment, &object)?.store(Tag::Held(me.id).encode(), Ordering::Release);
        self.header(segment)?.used_spans.fetch_max(first + spans, Ordering::Release);
        // The others before the first: died in between, the first is still `Taking` and all of them
        // are freed, the others because the run they name does not exist.
        self.change_all(segment, mine, Use::Run(first), first, spans)?;
        self.fit_run(segment, me, object, first, bytes, host)
    }

    /// Makes sure that so many bytes of a run's object, which this thread holds, have pages.
    /// Without room for them the object is free.
    pub(in crate::pool) fn grow_run(
        &self,
        segment: &Segment,
        me: Me,
        reference: u32,
        bytes: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let object =
            self.object(segment, reference).ok_or_else(|| segment.damaged("a run of spans"))?;
        self.fit_run(
            segment,
            me,
            object,
            reference >> INDEX_BITS,
            bytes.next_multiple_of(PAGE),
            host,
        )
    }

    /// Makes sure that so many bytes of a run's object have pages. The caller has the object.
    fn fit_run(
        &self,
        segment: &Segment,
        me: Me,
        object: ObjectRef,
        first: u32,
        bytes: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let head = self.span(segment, first)?;
        let word = head.word();
        let frontier = head.frontier(word).ok_or_else(|| segment.damaged("a run of spans"))?;
        // What the frontier says, but no more than the run has spans for and the file has bytes:
        // `object` has checked that. Only its owner changes it.
        let have = object.capacity;
        if have < bytes {
            let missing = bytes - have;
            self.forget_bytes(segment, object.tag_at)?;
            let grown = if head.run_bytes(word) != have {
                Err(segment.damaged("a run's pages"))
            } else if host.allows(missing) {
                grow(segment, object.offset + have, missing, host)
            } else {
                Err(Error::NoSpace { path: segment.path().to_path_buf(), wanted: missing })
            };
            if let Err(error) = grown {
                // Silently, see `HeapHost::freed`.
                self.free(segment, &object, Tag::Held(me.id).encode())?;
                return Err(error);
            }
            head.advance(frontier, (missing / PAGE) as u32);
        }
        Ok(ObjectRef { capacity: bytes.max(have), ..object })
    }

    /// Takes the run that begins there apart, if it is free, and gives its pages back. Returns
    /// whether it did.
    pub(super) fn reclaim_run(
        &self,
        segment: &Segment,
        me: Me,
        index: u32,
        host: &dyn HeapHost,
    ) -> Result<bool, Error> {
        let (span, word) = self.scan_span(segment, me, index, host)?;
        if word.what() != Use::Run(index) {
            return Ok(false);
        }
        let Some(object) = self.object(segment, index << INDEX_BITS) else {
            host.met_in_hand();
            return Ok(false);
        };
        if !is_free(self.tag(segment, &object)?, host) || !self.take(segment, &object, me, host)? {
            return Ok(false);
        }
        self.forget_bytes(segment, object.tag_at)?;
        let spans = span.spans.load(Ordering::Relaxed).min(self.spans - index);
        let taken = span.run_bytes(word);
        // This thread has the object. First the head: from then on no run begins here. A death
        // after it: the others name a run that does not exist, and are freed by `collect`; not
        // before, since the head names this thread.
        let Some(mine) = span.change(word, Use::Taking(me.id.as_u32())) else {
            host.met_in_hand();
            self.free_held(segment, &object, me, host)?;
            return Ok(false);
        };
        // Pages before spans: the next thread that takes one of them must not lose its bytes to
        // this one.
        let punched = segment.punch(self.span_offset(index), u64::from(spans) * SPAN);
        self.change_all(segment, Use::Run(index), Use::Free, index + 1, spans.saturating_sub(1))?;
        self.free(segment, &object, Tag::Held(me.id).encode())?;
        span.change(mine, Use::Free);
        // Without pages: what a growth that failed leaves, see `HeapHost::freed`.
        if taken > 0 {
            host.freed();
        }
        punched?;
        Ok(true)
    }
}
