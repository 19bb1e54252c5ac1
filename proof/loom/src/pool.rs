//! The pool where loom runs the queue: messages are small there, so there is none.

#[path = "../../../crates/outlive/src/pool/classes.rs"]
mod classes;
#[path = "../../../crates/outlive/src/pool/free_list.rs"]
mod free_list;
#[path = "../../../crates/outlive/src/pool/heap_host.rs"]
mod heap_host;
#[path = "../../../crates/outlive/src/pool/holders.rs"]
mod holders;
#[cfg(test)]
mod litmus;
#[path = "../../../crates/outlive/src/pool/modes.rs"]
mod modes;
#[path = "../../../crates/outlive/src/pool/poison.rs"]
mod poison;
#[path = "../../../crates/outlive/src/pool/spans.rs"]
mod spans;

/// Who has ended: nobody, here.
mod process_exit {
    use crate::liveness::TokenId;

    pub(crate) enum End {
        Lives,
        Ending,
        Ended,
    }

    pub(crate) struct Ends;

    impl Ends {
        pub(crate) fn of(&self, _: TokenId) -> End {
            End::Lives
        }
    }
}

use crate::Error;
use crate::liveness::{Me, TokenId};
use crate::segment::Segment;
pub(crate) use heap_host::{HeapHost, Message};

#[derive(Clone, Copy)]
pub(crate) struct ObjectRef {
    pub(crate) reference: u32,
    pub(crate) offset: u64,
    pub(crate) capacity: u64,
}

#[derive(PartialEq, Eq)]
pub(crate) enum Tag {
    Held(TokenId),
    Queued { region: u32, position: u64 },
}

#[derive(Default)]
pub(crate) struct Found {
    pub(crate) in_hand: u32,
}

impl Found {
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

    pub(crate) fn allocate(&self, s: &Segment, _: Me<'_>, _: u64, _: &dyn HeapHost) -> Result<ObjectRef, Error> {
        Err(self.none(s))
    }

    pub(crate) fn enqueue(&self, s: &Segment, _: &ObjectRef, _: Me<'_>, _: u32, _: u64) -> Result<(), Error> {
        Err(self.none(s))
    }

    pub(crate) fn free_held(&self, _: &Segment, _: &ObjectRef, _: Me<'_>, _: &dyn HeapHost) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn free_queued(&self, _: &Segment, _: &ObjectRef, _: u32, _: u64) -> Result<(), Error> {
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

    pub(crate) fn collect(&self, _: &Segment, _: Me<'_>, _: bool, _: &dyn Fn(Tag) -> Message) -> Result<Found, Error> {
        Ok(Found::default())
    }
}
