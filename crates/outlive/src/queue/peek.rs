//! Peeking: the receiver sees a message in shared memory, and takes it when it commits.
//!
//! 1. Look, as a receive does.
//! 2. Write the place into `taken`.
//! 3. Return it.
//! 4. Commit, as in `receive.rs`.
//!
//! | died | a successor |
//! | --- | --- |
//! | before 2 | gets the message as if for the first time, which it is |
//! | 2 to 4 | finds it at the head, where `taken` says: `redelivered` |

use std::ops::Deref;

use super::error::RecvError;
use super::head::{AtHead, FoundMessage};
use super::layout::pack;
use super::receiver::Receiver;
use crate::Deadline;
use crate::shim::Ordering;

/// A message that stays in the queue until the receiver commits it.
///
/// It dereferences to the bytes in shared memory, without a copy; no sender writes there before the
/// commit.
pub struct Peeked<'a> {
    receiver: &'a Receiver,
    found: FoundMessage<'a>,
    redelivered: bool,
}

impl Receiver {
    /// Returns the next message without taking it out of the queue, waiting for one until the
    /// deadline.
    ///
    /// The message stays in the queue until [`Peeked::commit`]. Dropped without a commit, it is the
    /// next message again. So each message is processed at least once.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv_until`].
    ///
    /// # If a process dies
    /// If this process dies before the commit, the next receiver gets the same message, marked
    /// [`redelivered`](Peeked::redelivered).
    pub fn peek(&mut self, deadline: impl Into<Deadline>) -> Result<Peeked<'_>, RecvError> {
        self.peeked(Some(deadline.into()))
    }

    /// Returns the next message without taking it out of the queue, or `Empty` at once.
    ///
    /// # Errors
    /// The errors of [`Receiver::try_recv`].
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
            words.redelivered.store(
                words.redelivered.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
        // Release, and before the caller sees the message. If this process died just before, the
        // next receiver gets the message as if for the first time, which it is.
        words.taken.store(place, Ordering::Release);
        Ok(Peeked { receiver: this, found, redelivered })
    }
}

impl Peeked<'_> {
    /// Returns whether an earlier receiver got this message too and died before it committed: it
    /// may have acted on it.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }

    /// Takes the message out of the queue for good.
    pub fn commit(self) {
        self.receiver.commit(&self.found);
    }
}

impl Deref for Peeked<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `found` has checked that `len` bytes lie there; no sender writes to a slot or to
        // its object before `give_back`.
        unsafe { core::slice::from_raw_parts(self.found.bytes, self.found.len) }
    }
}
