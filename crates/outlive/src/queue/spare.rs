//! One object of a queue's pool that this process keeps for its next long message: services use it.
//!
//! A long message is allocated on one side and freed on the other. A process that has read one
//! (a client a reply, a server a request) keeps its memory instead, and writes the next one there:
//! so two processes that call each other with messages of like length allocate and free nothing, and
//! each writes where its own processor has read last.
//!
//! | its tag | which process goes on; a death here |
//! | --- | --- |
//! | cached(process) | that process, when it writes a long message that suits the object: → owned. When it drops its last handle of the queue: free |
//! | | a process that finds no memory: free. So no message waits for memory that is kept |
//! | | the process dead: a sweep, or the next process that finds no memory: free |
//!
//! Each step is a compare-exchange of the tag from the very word that was seen, and no process
//! writes there before it has made that step. A process that is stopped here keeps nothing from the
//! others.

use std::sync::Mutex;

use crate::liveness::TokenId;
use crate::pool::ObjectRef;

/// The largest object that is kept, in bytes: for longer ones what a message's bytes cost is more.
const LARGEST: u64 = 64 << 10;

/// See the file's head.
#[derive(Default)]
pub(super) struct Spare {
    /// No thread waits for this lock: one that does not get it at once allocates or frees.
    kept: Mutex<Option<Kept>>,
}

/// An object, and the process whose it is: a forked child inherits this, and not the object.
type Kept = (ObjectRef, TokenId);

impl Spare {
    /// Keeps that process's object, which it does not use any more, if `note` can be made of that in
    /// its tag; returns whether it does.
    #[inline]
    pub(super) fn keep(
        &self,
        object: ObjectRef,
        process: TokenId,
        note: impl FnOnce() -> bool,
    ) -> bool {
        if object.capacity > LARGEST {
            return false;
        }
        let Ok(mut kept) = self.kept.try_lock() else { return false };
        if kept.is_some_and(|(_, owner)| owner == process) {
            return false;
        }
        if !note() {
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
