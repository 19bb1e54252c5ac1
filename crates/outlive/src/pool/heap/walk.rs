//! Walks over the objects of a heap: all of them, those that are in use, and those that belong to
//! one ring of a topic, which lends them out again by itself.

use super::span::Use;
use super::tag::{RingTag, Tag};
use super::{Heap, INDEX_BITS, ObjectRef};
use crate::Error;
use crate::liveness::TokenId;
use crate::segment::Segment;
use crate::shim::Ordering;

type See<'a> = &'a mut dyn FnMut(Option<u32>, u32, &ObjectRef, Tag);

impl Heap {
    /// Returns all objects of that ring of a topic. The caller is the only thread that may free them.
    pub(crate) fn queued_in(
        &self,
        segment: &Segment,
        owner: RingTag,
        mut visit: impl FnMut(ObjectRef),
    ) -> Result<(), Error> {
        self.in_hand(segment, |tag, object| {
            if let (true, Some(object)) = (tag == owner.tag(), object) {
                visit(object);
            }
        })
    }

    /// Returns all objects that are not free, with their tags; and `Held`, without an object, for
    /// each span that a thread is taking.
    pub(crate) fn in_hand(
        &self,
        segment: &Segment,
        mut visit: impl FnMut(Tag, Option<ObjectRef>),
    ) -> Result<(), Error> {
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let count = match word.what() {
                Use::Class(class) => {
                    self.shape.layout(class).map_or(0, |layout| span.objects(word, layout))
                }
                Use::Run(first) if first == index => 1,
                Use::Taking(id) => {
                    if let Some(thread) = TokenId::from_word(id) {
                        visit(Tag::Held(thread), None);
                    }
                    0
                }
                _ => 0,
            };
            for at in 0..count {
                let Some(object) = self.find_object(segment, index << INDEX_BITS | at)? else {
                    continue;
                };
                match self.tag_of(segment, &object)? {
                    Tag::Free => {}
                    tag => visit(tag, Some(object)),
                }
            }
        }
        Ok(())
    }

    /// Visits all objects that there are: class, or how many spans a run has; the object; its tag.
    pub(in crate::pool) fn scan_all(&self, segment: &Segment, see: See<'_>) -> Result<(), Error> {
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let (class, objects) = match word.what() {
                Use::Class(class) => (
                    Some(class),
                    self.shape.layout(class).map_or(0, |layout| span.objects(word, layout)),
                ),
                Use::Run(first) if first == index => (None, 1),
                _ => continue,
            };
            let spans = span.spans.load(Ordering::Relaxed);
            for at in 0..objects {
                if let Some(object) = self.object(segment, index << INDEX_BITS | at) {
                    see(class, spans, &object, self.tag_of(segment, &object)?);
                }
            }
        }
        Ok(())
    }
}
