//! Collecting: objects that dead threads held are freed, and those that a dead receiver had taken
//! and not freed.
//!
//! | found | is |
//! | --- | --- |
//! | tag held(dead) | freed |
//! | tag queued(place), whose slot has moved on | freed, unless a living receiver is about to |
//! | span taking(dead), or of a run that does not begin where it says, or does not reach it | free |
//!
//! Each step is a compare-exchange from the value that was seen, so any number of collectors may
//! run beside all other operations. After a death anywhere the next one goes on.

use super::host::Message;
use super::span::Use;
use super::tag::Tag;
use super::{Heap, INDEX_BITS};
use crate::Error;
use crate::liveness::Me;
use crate::segment::Segment;

/// The first page of the control table has room for a little more than so many spans.
const SOME_SPANS: u32 = 64;

/// What [`Heap::collect`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Collected {
    /// Objects that dead threads held.
    pub(crate) held: u32,
    /// Objects of messages whose receiver died before it freed them.
    pub(crate) orphaned: u32,
    /// Spans that dead threads were taking.
    pub(crate) spans: u32,
    /// Objects and spans in the hands of other living threads: not free, and no message's yet, or
    /// any more.
    pub(crate) in_hand: u32,
}

impl Collected {
    /// Returns how much was, or could be, freed.
    pub(crate) fn count(&self) -> u32 {
        self.held + self.orphaned + self.spans
    }
}

impl Heap {
    /// Frees what dead threads left: objects that they held, and queued ones whose message is gone.
    pub(crate) fn collect(
        &self,
        segment: &Segment,
        me: Me,
        dry_run: bool,
        message_of: &dyn Fn(Tag) -> Message,
    ) -> Result<Collected, Error> {
        let mut found = Collected::default();
        // Some more than the count: a thread may have taken spans and died before counting. The
        // next allocation meets the rest.
        for index in 0..self.spans.min(self.used_spans(segment)?.saturating_add(SOME_SPANS)) {
            let span = self.span(segment, index)?;
            let word = span.word();
            let count = match word.what() {
                Use::Free => continue,
                Use::Class(class) => {
                    self.shape.layout(class).map_or(0, |layout| span.objects(word, layout))
                }
                Use::Taking(id) => {
                    if self.is_dead(me, id) {
                        found.spans += 1;
                        if !dry_run {
                            self.free_lost(segment, me, index, word)?;
                        }
                    } else if id != me.id.as_u32() {
                        found.in_hand += 1;
                    }
                    continue;
                }
                Use::Run(first) if first == index => 1,
                Use::Run(first) => {
                    if self.is_lost(segment, me, index, first)? {
                        found.spans += 1;
                        if !dry_run {
                            self.free_lost(segment, me, index, word)?;
                        }
                    }
                    continue;
                }
            };
            for at in 0..count {
                let Some(object) = self.find_object(segment, index << INDEX_BITS | at)? else {
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
                    // The holders' rows decide about what is shared.
                    Tag::Free | Tag::Damaged | Tag::Shared(_) => false,
                    other => match message_of(other) {
                        Message::There => false,
                        Message::BeingTaken => {
                            found.in_hand += 1;
                            false
                        }
                        Message::Gone => true,
                    },
                };
                if !over {
                    continue;
                }
                // By compare-exchange from the very tag that was seen: of several collectors one
                // frees it.
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
