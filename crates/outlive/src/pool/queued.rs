//! Objects that belong to one region of a queue, or to one ring of a topic, which lends them out again by itself.

use super::layout::{Heap, INDEX_BITS, ObjectRef};
use super::spans::Use;
use super::tag::Tag;
use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::Segment;

impl Heap {
    /// All objects of that region, at whatever position. The caller is the only one who may free them.
    pub(crate) fn queued_in(
        &self,
        segment: &Segment,
        region: u32,
        mut visit: impl FnMut(ObjectRef),
    ) -> Result<(), Error> {
        self.in_hand(segment, |tag, object| {
            if let (Tag::Queued { region: of, .. }, Some(object)) = (tag, object)
                && of == region
            {
                visit(object);
            }
        })
    }

    /// All objects that are not free, with their tags; and `Held`, without an object, for each span that a thread is taking.
    pub(crate) fn in_hand(
        &self,
        segment: &Segment,
        mut visit: impl FnMut(Tag, Option<ObjectRef>),
    ) -> Result<(), Error> {
        for index in 0..self.used_spans(segment)? {
            let span = self.span(segment, index)?;
            let word = span.word();
            let count = match word.what() {
                Use::Class(class) => self.shape.layout(class).map_or(0, |layout| span.objects(word, layout)),
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
                let Some(object) = self.find_object(segment, index << INDEX_BITS | at)? else { continue };
                match self.tag_of(segment, &object)? {
                    Tag::Free => {}
                    tag => visit(tag, Some(object)),
                }
            }
        }
        Ok(())
    }

    /// An object of at least that many bytes, which belongs to the region from the beginning.
    pub(crate) fn allocate_for(
        &self,
        segment: &Segment,
        me: Me,
        len: u64,
        region: u32,
        room: &dyn super::heap_host::HeapHost,
    ) -> Result<ObjectRef, Error> {
        let object = self.allocate(segment, me, len, room)?;
        // Died just before: held by a dead thread. Just after: the region's, which its next owner looks after.
        self.enqueue(segment, &object, me, region, 0)?;
        Ok(object)
    }
}
