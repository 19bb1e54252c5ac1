//! Peeking: a message is handed out where it lies, and taken when told.
//!
//! 1. Look, as a receive does.
//! 2. Note the place in `taken`.
//! 3. Hand it out.
//! 4. Commit, as in `receive.rs`.
//!
//! | died | a successor |
//! | --- | --- |
//! | before 2 | is handed the message as if for the first time, which it is |
//! | 2 to 4 | finds it at the head, where `taken` says: `redelivered` |

use std::ops::Deref;

use super::error::RecvError;
use super::head::{AtHead, FoundMessage};
use super::layout::pack;
use super::receiver::Receiver;
use crate::Deadline;
use crate::shim::Ordering;

/// A message that stays in the queue until it is committed.
///
/// The bytes are the shared memory itself, not a copy; nobody writes there until the commit.
pub struct Peeked<'a> {
    receiver: &'a Receiver,
    found: FoundMessage<'a>,
    redelivered: bool,
}

impl Receiver {
    /// Looks at the next message where it lies, waiting for one until the deadline. At least once: it stays in the queue
    /// until it is committed; dropped without, it is handed out again.
    ///
    /// # Errors
    /// As [`Receiver::recv_until`].
    ///
    /// # If a process dies
    /// This one, before the commit: the next receiver is handed the same message, marked
    /// [`redelivered`](Peeked::redelivered).
    pub fn peek(&mut self, deadline: impl Into<Deadline>) -> Result<Peeked<'_>, RecvError> {
        self.peeked(Some(deadline.into()))
    }

    /// Looks at the next message if there is one.
    ///
    /// # Errors
    /// As [`Receiver::try_recv`].
    pub fn try_peek(&mut self) -> Result<Peeked<'_>, RecvError> {
        self.peeked(None)
    }

    fn peeked(&mut self, deadline: Option<Deadline>) -> Result<Peeked<'_>, RecvError> {
        let me = self.enter()?;
        let this = &*self;
        let found = match this.look(me)? {
            AtHead::Message(found) => found,
            AtHead::Nothing(_) => {
                if deadline.is_some() {
                    this.spin();
                }
                this.wait_for_message(me, deadline)?
            }
        };
        let place = pack(this.region.get(), this.head.get(), found.number);
        let words = &this.inner.ring.head().receiver_words;
        let redelivered = this.taken_before.get() == place;
        if redelivered {
            this.taken_before.set(0);
            words.redelivered.store(words.redelivered.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
        // Release, and before the user sees the message. Died just before: it is handed out as if for the first time,
        // which it is.
        words.taken.store(place, Ordering::Release);
        Ok(Peeked { receiver: this, found, redelivered })
    }
}

impl Peeked<'_> {
    /// Whether a receiver that died had been handed this message too: it may have acted on it.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Takes the message out of the queue.
    pub fn commit(self) {
        self.receiver.commit(&self.found);
    }
}

impl Deref for Peeked<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `found` has checked that `len` bytes lie there; senders do not write to a slot, nor anybody to its
        // object, before it is given back.
        unsafe { core::slice::from_raw_parts(self.found.bytes, self.found.len) }
    }
}
