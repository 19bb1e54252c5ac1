//! Objects: taken, handed on and freed by one compare-exchange on their tag.
//!
//! | tag | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | held(id) | the thread `id` writes or reads it | `collect` frees it |
//! | queued(region, position) | belongs to the message at that place | freed with the message; if its receiver died between giving the slot back and this, `collect` sees that the slot has moved on |
//! | owned(process) | that process's threads write or read it | in a service: `collect` frees it once the last thread of the process has ended; in a public pool: pool/gc.rs |
//!
//! Memory goes from one class to another by whole spans (`reclaim.rs`): a thread that finds no room
//! takes all objects of a span in which all are free, and the span is free. A thread that has a
//! stale reference meanwhile looks at the span again after it has taken the tag, and lets go.
//!
//! Objects are in no free list, so there is no list to lock: a thread that is stopped or
//! killed anywhere delays no other, and there is nothing to repair but tags. Free objects are found
//! by a hint (the one freed last, still warm), else by scanning tags from a cursor on.
//!
//! A thread may not use what it takes: it may be killed, or let go. Another thread that looked
//! meanwhile has found nothing, and would sleep although memory is free. So every scan reads tags
//! by `is_free` or `take`, and spans' words by `scan_span`, which note what another thread held
//! ([`HeapHost::met_in_hand`]): a thread that met such memory looks again soon. And a thread that
//! lets go says so ([`HeapHost::freed`]), which is quicker, but cannot be relied on: it may die
//! before it has.

use super::class::size_of_class;
use super::host::HeapHost;
use super::span::{self, Use, Word};
use super::tag::{RingTag, Tag, is_free, note_if_held};
use super::{Heap, INDEX_BITS, ObjectRef, grow};
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::Segment;
use crate::shim::Ordering;

/// How many tags an allocation scans before it takes new memory instead.
const MOST_SCANNED: u32 = 128;
/// Pages of a class span are allocated in steps of this many bytes.
const STEP: u64 = 64 << 10;

impl Heap {
    /// Takes an object of at least `len` bytes for the calling thread.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when there is neither a free object nor room for a new one; the heap
    /// stays intact.
    pub(crate) fn allocate(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        match self.shape.class_of(len) {
            Some(class) => self.allocate_small(segment, me, class, host),
            None => self.allocate_run(segment, me, len, host),
        }
    }

    /// Takes an object, or tries only the fast steps: without a scan of all tags, and without
    /// taking spans apart.
    pub(in crate::pool) fn allocate_or_try_fast(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        host: &dyn HeapHost,
        fast_only: bool,
    ) -> Result<ObjectRef, Error> {
        match self.shape.class_of(len) {
            _ if !fast_only => self.allocate(segment, me, len, host),
            Some(class) => self.try_fast(segment, me, class, host),
            None => self.try_fast_run(segment, me, len, host),
        }
    }

    fn try_fast(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let header = self.header(segment)?;
        let hint = header.freed[class as usize].swap(0, Ordering::Relaxed);
        if hint != 0
            && let Some(object) = self.object(segment, hint - 1)
            && object.capacity == size_of_class(class)
            && self.take(segment, &object, me, host)?
        {
            return Ok(object);
        }
        if let Some(object) = self.scan_for_one(segment, me, class, MOST_SCANNED, host)? {
            return Ok(object);
        }
        self.extend(segment, me, class, host)
    }

    fn allocate_small(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        match self.try_fast(segment, me, class, host) {
            Err(Error::NoSpace { path, wanted }) => {
                if let Some(object) = self.scan_for_one(segment, me, class, u32::MAX, host)? {
                    return Ok(object);
                }
                // All free memory may belong to other classes.
                if !self.reclaim(segment, me, host)? {
                    return Err(Error::NoSpace { path, wanted });
                }
                self.extend(segment, me, class, host)
            }
            other => other,
        }
    }

    /// Changes a tag from free to held.
    pub(in crate::pool) fn take(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        me: Me,
        host: &dyn HeapHost,
    ) -> Result<bool, Error> {
        let tag = self.tag(segment, object)?;
        let mine = Tag::Held(me.id).encode();
        // Acquire pairs with `free`: the former holder has finished with the bytes. A death just
        // after: `collect` frees it.
        if let Err(seen) = tag.compare_exchange(0, mine, Ordering::Acquire, Ordering::Relaxed) {
            note_if_held(seen, host);
            return Ok(false);
        }
        if self.is_still(segment, object, mine)? {
            return Ok(true);
        }
        host.met_in_hand();
        self.free_held(segment, object, me, host)?;
        Ok(false)
    }

    /// Returns whether an object, as it was seen before its tag was set to `mine`, is there and has
    /// that tag.
    ///
    /// The span may have been reclaimed between that look and the tag. Then it says something else;
    /// or another object is there by now, which belongs to this thread if the tag does. It may also
    /// have been gathered into a run of the same length meanwhile: the gathering thread writes its
    /// own name over this one's, before the words that say that there is a run. So the tag is
    /// looked at after them.
    pub(super) fn is_still(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        mine: u64,
    ) -> Result<bool, Error> {
        let is_there = self
            .object(segment, object.reference)
            .is_some_and(|now| now.offset == object.offset && now.capacity == object.capacity);
        // Relaxed: `object` has read the span's word by Acquire, which pairs with `found_run`'s
        // change of it.
        Ok(is_there && self.tag(segment, object)?.load(Ordering::Relaxed) == mine)
    }

    fn scan_for_one(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        most: u32,
        host: &dyn HeapHost,
    ) -> Result<Option<ObjectRef>, Error> {
        let mut found = None;
        self.scan(segment, me, class, most, host, &mut |object| {
            found = Some(object);
            false
        })?;
        Ok(found)
    }

    /// Takes more objects of a class for the calling thread, from where the last scan ended, as
    /// long as `wants_more` says so; it gets each of them. They are few where few are free.
    pub(in crate::pool) fn take_more(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        host: &dyn HeapHost,
        wants_more: &mut dyn FnMut(ObjectRef) -> bool,
    ) -> Result<(), Error> {
        self.scan(segment, me, class, MOST_SCANNED, host, wants_more)
    }

    /// Scans at most so many tags for free objects of the class, from where the last scan ended,
    /// and takes them as long as `wants_more`.
    fn scan(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        most: u32,
        host: &dyn HeapHost,
        wants_more: &mut dyn FnMut(ObjectRef) -> bool,
    ) -> Result<(), Error> {
        let header = self.header(segment)?;
        let cursor = &header.cursors[class as usize];
        let used = self.used_spans(segment)?;
        let from = cursor.load(Ordering::Relaxed);
        let (mut index, mut at) = (from >> INDEX_BITS, from & ((1 << INDEX_BITS) - 1));
        let mut scanned = 0;
        // Once around all spans, and the first one again for what lies before the cursor.
        for _ in 0..=used {
            if index >= used {
                (index, at) = (0, 0);
            }
            let (span, word) = self.scan_span(segment, me, index, host)?;
            if word.what() == Use::Class(class)
                && let Some(layout) = self.shape.layout(class)
            {
                let objects = span.objects(word, layout);
                while at < objects {
                    let reference = index << INDEX_BITS | at;
                    at += 1;
                    scanned += 1;
                    // The tag first, whose page exists below the frontier: most are not free.
                    if is_free(self.tag_at(segment, reference)?, host) {
                        // Its span was taken apart since, or is of another class by now: on to the
                        // next span.
                        let object = self
                            .object(segment, reference)
                            .filter(|object| object.capacity == layout.size);
                        let Some(object) = object else {
                            host.met_in_hand();
                            break;
                        };
                        if self.take(segment, &object, me, host)? && !wants_more(object) {
                            cursor.store(reference + 1, Ordering::Relaxed);
                            return Ok(());
                        }
                    }
                    if scanned >= most {
                        cursor.store(reference + 1, Ordering::Relaxed);
                        return Ok(());
                    }
                }
            }
            index += 1;
            at = 0;
        }
        Ok(())
    }

    /// Makes more objects of the class: more pages of a span that has some left, or of a new one.
    fn extend(
        &self,
        segment: &Segment,
        me: Me,
        class: u32,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let layout = self.shape.layout(class).ok_or_else(|| segment.damaged("a size class"))?;
        let no_space = |wanted| Error::NoSpace { path: segment.path().to_path_buf(), wanted };
        // The fewest missing bytes of tags for which there was no room.
        let mut refused = u64::MAX;
        let mut index = 0;
        while index < self.spans {
            let (span, word) = self.scan_span(segment, me, index, host)?;
            match word.what() {
                Use::Free => {
                    let tags = self.missing_tags(span, layout.tag_bytes(1));
                    if tags < refused && host.allows(tags + layout.object_bytes(1)) {
                        // If another thread was first, the span is looked at again.
                        if let Some(mine) = span.change(word, Use::Taking(me.id.as_u32())) {
                            self.prepare(segment, index, mine, class, layout, host)?;
                        }
                        continue;
                    }
                    // Another free span may have more tags already. A span that was never used has
                    // none.
                    refused = refused.min(tags);
                    if index >= self.used_spans(segment)? {
                        break;
                    }
                }
                Use::Class(c) if c == class => {
                    let frontier = span.frontier(word);
                    if frontier.is_none() {
                        // Of another generation: another thread is changing it.
                        host.met_in_hand();
                    }
                    if let Some(frontier) = frontier
                        && !frontier.is_shut()
                        && frontier.count() < layout.count
                    {
                        let have = frontier.count();
                        // A handful of small ones at once, where there is room for them.
                        let mut more = ((STEP / layout.size) as u32).clamp(1, layout.count - have);
                        let tags = layout.tag_bytes(have);
                        let missing_tags = |more| layout.tag_bytes(have + more) - tags;
                        let missing = |more| {
                            missing_tags(more) + layout.object_bytes(have + more)
                                - layout.object_bytes(have)
                        };
                        if !host.allows(missing(more)) {
                            more = 1;
                        }
                        let bytes = u64::from(more) * layout.size;
                        if !host.allows(missing(more)) {
                            return Err(no_space(bytes));
                        }
                        // Before the frontier: no thread touches a tag without a page. They stay,
                        // whatever becomes of the span.
                        if missing_tags(more) > 0 {
                            grow(
                                segment,
                                self.tags_offset(index) + tags,
                                missing_tags(more),
                                host,
                            )?;
                        }
                        grow(
                            segment,
                            self.span_offset(index) + u64::from(have) * layout.size,
                            bytes,
                            host,
                        )?;
                        // Lost: another thread did it, or the span has another generation.
                        span.advance(frontier, more);
                        for at in have..have + more {
                            // After an error the objects are there, and free; more of them would
                            // not help.
                            let object = self.find_object(segment, index << INDEX_BITS | at)?;
                            if let Some(object) = object
                                && object.capacity == layout.size
                                && self.take(segment, &object, me, host)?
                            {
                                self.header(segment)?.cursors[class as usize]
                                    .store(object.reference + 1, Ordering::Relaxed);
                                return Ok(object);
                            }
                        }
                        continue;
                    }
                }
                Use::Taking(id) if self.is_dead(me, id) => {
                    self.free_lost(segment, me, index, word)?;
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
        layout: span::Layout,
        host: &dyn HeapHost,
    ) -> Result<(), Error> {
        let span = self.span(segment, index)?;
        // A death from here on: taking(dead) is freed by the next thread that meets it.
        if let Err(error) = self.grow_tags(segment, index, layout.tag_bytes(1), host) {
            // Silently, see `HeapHost::freed`.
            span.change(mine, Use::Free);
            return Err(error);
        }
        span.begin(mine);
        span.change(mine, Use::Class(class));
        Ok(())
    }

    /// Takes an object of at least that many bytes, which belongs to that ring of a topic from the
    /// beginning.
    pub(crate) fn allocate_for(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        ring: RingTag,
        host: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        let object = self.allocate(segment, me, len, host)?;
        // A death just before: held by a dead thread. Just after: the ring's, and the ring's next
        // owner frees it.
        self.enqueue(segment, &object, me, ring.region, ring.position)?;
        Ok(object)
    }

    /// Gives an object that this thread holds to the message at that place.
    pub(crate) fn enqueue(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        me: Me,
        region: u32,
        position: u64,
    ) -> Result<(), Error> {
        let tag = self.tag(segment, object)?;
        let queued = Tag::Queued { region, position }.encode();
        // Release: the thread that frees it later sees this one's bytes. Only this thread may
        // change a tag that names it. A death just after: the slot says WRITING by a dead thread,
        // and the receiver that skips it frees the object by this tag.
        tag.compare_exchange(
            Tag::Held(me.id).encode(),
            queued,
            Ordering::Release,
            Ordering::Relaxed,
        )
        .map(|_| ())
        .map_err(|_| segment.damaged("an object's tag"))
    }

    /// Lets go of an object that this thread has taken and not used, and tells the threads that
    /// wait for memory: a sender that looked while this thread held it has found nothing, and would
    /// sleep on beside a free object. After a death before that, they look again by themselves,
    /// since they have met the object in this thread's hands.
    pub(crate) fn free_held(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        me: Me,
        host: &dyn HeapHost,
    ) -> Result<(), Error> {
        if self.free(segment, object, Tag::Held(me.id).encode())? {
            host.freed();
        }
        Ok(())
    }

    /// Frees the object of the message at that place, if it is (still) that message's.
    pub(crate) fn free_queued(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        region: u32,
        position: u64,
    ) -> Result<(), Error> {
        self.free(segment, object, Tag::Queued { region, position }.encode()).map(|_| ())
    }

    /// Frees an object from that exact tag; returns whether it did.
    pub(super) fn free(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        from: u64,
    ) -> Result<bool, Error> {
        // Release: the next holder comes after all that this thread did with the bytes. Another
        // tag: not this thread's to free, which is normal after a predecessor's death.
        let freed = self
            .tag(segment, object)?
            .compare_exchange(from, 0, Ordering::Release, Ordering::Relaxed)
            .is_ok();
        if freed
            && object.capacity > 0
            && let Some(class) = self.shape.class_of(object.capacity)
        {
            // It is still in the processor's cache: the next allocation takes it. A hint; nothing
            // depends on it.
            self.header(segment)?.freed[class as usize]
                .store(object.reference.wrapping_add(1), Ordering::Relaxed);
        }
        Ok(freed)
    }

    /// Changes an object's tag from that one to another; returns whether it was that one.
    pub(crate) fn retag(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        from: Tag,
        to: Tag,
    ) -> Result<bool, Error> {
        // Acquire and Release: the new owner sees what the former one wrote, and writes after it has
        // read. A death just before: the object is the former owner's; just after: the new one's.
        Ok(self
            .tag(segment, object)?
            .compare_exchange(from.encode(), to.encode(), Ordering::AcqRel, Ordering::Relaxed)
            .is_ok())
    }

    /// Frees an object that a process owns; returns whether it did.
    pub(crate) fn free_owned(
        &self,
        segment: &Segment,
        object: &ObjectRef,
        process: TokenId,
    ) -> Result<bool, Error> {
        self.free(segment, object, Tag::Owned(process).encode())
    }

    /// Returns what a tag says, for inspection from outside.
    pub(crate) fn tag_of(&self, segment: &Segment, object: &ObjectRef) -> Result<Tag, Error> {
        Ok(Tag::decode(self.tag(segment, object)?.load(Ordering::Acquire)))
    }
}
