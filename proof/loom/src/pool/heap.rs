//! The heap where loom runs the queue: messages are small there, so there is none.

#[path = "../../../../crates/outlive/src/pool/heap/class.rs"]
mod class;
#[path = "../../../../crates/outlive/src/pool/heap/host.rs"]
mod host;
#[cfg(test)]
mod litmus;
#[path = "../../../../crates/outlive/src/pool/heap/span.rs"]
mod span;
#[path = "../../../../crates/outlive/src/pool/heap/tag.rs"]
mod tag;

pub(crate) use host::{HeapHost, Message};
pub(crate) use tag::{Sharing, Tag};

use crate::Error;
use crate::liveness::Me;
use crate::segment::Segment;

#[derive(Clone, Copy)]
pub(crate) struct ObjectRef {
    pub(crate) reference: u32,
    pub(crate) offset: u64,
    pub(crate) capacity: u64,
}

#[derive(Default)]
pub(crate) struct Collected {
    pub(crate) in_hand: u32,
}

impl Collected {
    pub(crate) fn count(&self) -> u32 {
        0
    }
}

pub(crate) struct Heap;

impl Heap {
    fn none(&self, segment: &Segment) -> Error {
        segment.damaged("an object")
    }

    pub(crate) fn object(&self, _: &Segment, _: u32) -> Option<ObjectRef> {
        None
    }

    pub(crate) fn find_object(&self, _: &Segment, _: u32) -> Result<Option<ObjectRef>, Error> {
        Ok(None)
    }

    pub(crate) fn allocate(
        &self,
        s: &Segment,
        _: Me<'_>,
        _: u64,
        _: &dyn HeapHost,
    ) -> Result<ObjectRef, Error> {
        Err(self.none(s))
    }

    pub(crate) fn enqueue(
        &self,
        s: &Segment,
        _: &ObjectRef,
        _: Me<'_>,
        _: u32,
        _: u64,
    ) -> Result<(), Error> {
        Err(self.none(s))
    }

    pub(crate) fn free_held(
        &self,
        _: &Segment,
        _: &ObjectRef,
        _: Me<'_>,
        _: &dyn HeapHost,
    ) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn free_queued(
        &self,
        _: &Segment,
        _: &ObjectRef,
        _: u32,
        _: u64,
    ) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn tag_of(&self, segment: &Segment, _: &ObjectRef) -> Result<Tag, Error> {
        Err(self.none(segment))
    }

    pub(crate) fn expect_whole(&self, _: &Segment) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn reclaim(&self, _: &Segment, _: Me<'_>, _: &dyn HeapHost) -> Result<bool, Error> {
        Ok(false)
    }

    pub(crate) fn collect(
        &self,
        _: &Segment,
        _: Me<'_>,
        _: bool,
        _: &dyn Fn(Tag) -> Message,
    ) -> Result<Collected, Error> {
        Ok(Collected::default())
    }
}
