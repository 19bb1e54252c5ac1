//! One object of a queue's pool that this process keeps for its next long message: services use it.
//!
//! A long message is allocated on one side and freed on the other. A process that has read one
//! (a client a reply, a server a request) keeps its memory instead, and writes the next one there:
//! so two processes that call each other with messages of like length allocate and free nothing, and
//! each writes where its own processor has read last.
//!
//! | the object is | next; after a death here |
//! | --- | --- |
//! | kept: owned(process), like a loan that is not written | a loan, or free, when the last handle of the queue is dropped in this process; `collect` frees it once the last thread of the process has ended |
//!
//! Another process sees a loan. It cannot have that memory back while this one lives, or is
//! stopped; so an object is kept only if those of a thousand processes together are no more than a
//! quarter of the queue's memory, and none of more than 64 KiB.

use std::sync::Mutex;

use crate::liveness::TokenId;
use crate::pool::ObjectRef;

/// The largest object that is kept, in bytes.
const LARGEST: u64 = 64 << 10;
/// How many processes may keep one, so that a quarter of the memory suffices: a service's clients.
const MOST_KEPT: u64 = 1024;

/// See the file's head.
pub(super) struct Spare {
    /// No thread waits for this lock: one that does not get it at once allocates or frees.
    kept: Mutex<Option<Kept>>,
    /// The largest object that is kept here, in bytes.
    largest: u64,
}

/// An object, and the process whose it is: a forked child inherits this, and not the object.
type Kept = (ObjectRef, TokenId);

impl Spare {
    /// `memory`: how many bytes the queue may have.
    pub(super) fn new(memory: u64) -> Spare {
        Spare { kept: Mutex::new(None), largest: LARGEST.min(memory / 4 / MOST_KEPT) }
    }

    /// Keeps that process's object, which it does not use any more; returns whether it does.
    #[inline]
    pub(super) fn keep(&self, object: ObjectRef, process: TokenId) -> bool {
        if object.capacity > self.largest {
            return false;
        }
        let Ok(mut kept) = self.kept.try_lock() else { return false };
        if kept.is_some_and(|(_, owner)| owner == process) {
            return false;
        }
        *kept = Some((object, process));
        true
    }

    /// Returns the object that is kept, if a message of so many bytes suits it.
    #[inline]
    pub(super) fn take(&self, len: usize, process: TokenId) -> Option<ObjectRef> {
        let mut kept = self.kept.try_lock().ok()?;
        kept.take_if(|(object, owner)| *owner == process && suits(object, len))
            .map(|(object, _)| object)
    }

    /// Returns the object that is kept, to be freed.
    #[cold]
    pub(super) fn give_up(&self, process: TokenId) -> Option<ObjectRef> {
        self.kept.try_lock().ok()?.take_if(|(_, owner)| *owner == process).map(|(object, _)| object)
    }
}

/// Returns whether a message of so many bytes may take that object's memory: it fits, and leaves not
/// much of it unused.
#[inline]
pub(crate) fn suits(object: &ObjectRef, len: usize) -> bool {
    (object.capacity / 4..=object.capacity).contains(&(len as u64))
}
