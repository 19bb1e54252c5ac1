//! Memory goes from one size to another by whole spans: a thread that finds no room takes free
//! spans apart.
//!
//! 1. See all objects of a span free, without taking any.
//! 2. Take all of them. From here no other thread gets one.
//! 3. Shut the frontier: no thread adds one.
//! 4. The word: class → taking(me). Pages back, tags to free, the word to free.
//!
//! | died in | seen by others |
//! | --- | --- |
//! | 2, 3 | tags held by the dead: `collect` frees them. Shut, the span only does not grow |
//! | 4 | a span that a dead thread was taking: free for the next thread that meets it. Its tags: held by the dead, `collect` frees them |
//!
//! proof/models/span.pml.

use super::host::HeapHost;
use super::span::{SPAN, Use};
use super::tag::{Tag, is_free};
use super::{Heap, INDEX_BITS};
use crate::Error;
use crate::liveness::Me;
use crate::segment::Segment;
use crate::shim::Ordering;

impl Heap {
    /// Frees whole spans whose objects are all free, and gives their pages back. Returns whether
    /// there are free spans now, also such as another thread freed: then another try is worth it.
    #[cold]
    pub(crate) fn reclaim(
        &self,
        segment: &Segment,
        me: Me,
        host: &dyn HeapHost,
    ) -> Result<bool, Error> {
        let mut any = false;
        for index in 0..self.used_spans(segment)? {
            any |= self.reclaim_run(segment, me, index, host)?
                || self.reclaim_span(segment, me, index, host)?;
        }
        Ok(any)
    }

    /// Takes all objects of a class's span; if that succeeds, no thread has any, and none can take
    /// one. Returns whether the span is free.
    fn reclaim_span(
        &self,
        segment: &Segment,
        me: Me,
        index: u32,
        host: &dyn HeapHost,
    ) -> Result<bool, Error> {
        let (span, word) = self.scan_span(segment, me, index, host)?;
        let Use::Class(class) = word.what() else { return Ok(word.what() == Use::Free) };
        let Some(layout) = self.shape.layout(class) else { return Ok(false) };
        let Some(frontier) = span.frontier(word) else {
            // Of another generation: another thread is changing it.
            host.met_in_hand();
            return Ok(false);
        };
        let objects = frontier.count().min(layout.count);
        let tag_of = |at: u32| self.tag_at(segment, index << INDEX_BITS | at);
        // First without a claim: an object is taken out of other threads' sight, even for a moment,
        // only if it is likely to pay.
        for at in 0..objects {
            if !is_free(tag_of(at)?, host) {
                return Ok(false);
            }
        }
        let mut taken = 0;
        while taken < objects
            && let Some(object) = self.object(segment, index << INDEX_BITS | taken)
            && self.take(segment, &object, me, host)?
        {
            self.forget_bytes(segment, object.tag_at)?;
            taken += 1;
        }
        // Shut before the word changes: a thread that extends the span just now either loses to
        // this, or makes this fail.
        let whole = taken == objects && span.shut(frontier);
        let mine = if whole { span.change(word, Use::Taking(me.id.as_u32())) } else { None };
        let punched = match mine {
            Some(_) => segment.punch(self.span_offset(index), SPAN),
            None => {
                // Another thread changed it.
                host.met_in_hand();
                Ok(())
            }
        };
        // Tags back to free: after a death in between, dead threads hold them.
        for at in 0..taken {
            let _ = tag_of(at)?.compare_exchange(
                Tag::Held(me.id).encode(),
                0,
                Ordering::Release,
                Ordering::Relaxed,
            );
        }
        if let Some(mine) = mine {
            span.change(mine, Use::Free);
        }
        // Without objects there were no pages: what a growth that failed leaves, see
        // `HeapHost::freed`.
        if taken > 0 {
            host.freed();
        }
        punched?;
        Ok(mine.is_some())
    }
}
