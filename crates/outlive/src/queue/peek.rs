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

use core::borrow::Borrow;
use std::ops::Deref;

use super::head::{AtHead, FoundMessage};
use super::layout::{is_up_to, pack};
use super::receive::no_such_message;
use super::receiver::RawReceiver;
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::{Deadline, Payload, RecvError};

/// A message that stays in the queue until the receiver commits it.
///
/// It dereferences to the message in shared memory, without a copy; no sender writes there before
/// the commit. A value of a batch that does not lie there as its type is aligned is copied.
pub struct Peeked<'a, M: Payload + ?Sized = [u8]> {
    receiver: &'a RawReceiver,
    found: FoundMessage<'a>,
    value: Value<'a, M>,
    redelivered: bool,
}

enum Value<'a, M: Payload + ?Sized> {
    InPlace(&'a M),
    Copied(M::Owned),
}

impl RawReceiver {
    /// Returns the message at the head; `None` for a deadline does not wait.
    pub(super) fn peeked<M: Payload + ?Sized>(
        &self,
        deadline: Option<Deadline>,
    ) -> Result<Option<Peeked<'_, M>>, RecvError> {
        let Some((found, redelivered)) = self.found_to_peek(self.enter()?, deadline)? else {
            return Ok(None);
        };
        let Some(value) = value_of(&found) else {
            self.commit(&found);
            return Err(no_such_message::<M>());
        };
        Ok(Some(Peeked { receiver: self, found, value, redelivered }))
    }

    /// Does steps 1 and 2; returns whether a predecessor had the message.
    fn found_to_peek(
        &self,
        me: Me,
        deadline: Option<Deadline>,
    ) -> Result<Option<(FoundMessage<'_>, bool)>, RecvError> {
        let found = match self.look(me)? {
            AtHead::Message(found) => found,
            AtHead::Nothing(_) => {
                self.spin(deadline);
                let Some(found) = self.wait_for_message(me, deadline)? else { return Ok(None) };
                found
            }
        };
        let place = pack(self.region.get(), self.head.get(), found.number);
        Ok(Some((found, self.hand_out(place))))
    }

    /// Does step 2; returns whether a predecessor had handed out the message of that place.
    pub(super) fn hand_out(&self, place: u64) -> bool {
        let words = &self.inner.ring.head().receiver_words;
        let slots = self.inner.ring.nominal(self.region.get());
        let redelivered = is_up_to(place, self.taken_before.get(), slots);
        // Counted once, however often this receiver looks at it.
        if redelivered && !is_up_to(place, self.counted_again.get(), slots) {
            self.counted_again.set(place);
            words.redelivered.store(
                words.redelivered.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        }
        // It never goes back: a receiver that dies while it hands out again what its predecessor
        // had leaves a successor that tells so of all of them.
        if !is_up_to(place, words.taken.load(Ordering::Relaxed), slots) {
            // Release, and before the caller sees the message. If this process died just before,
            // the next receiver gets the message as if for the first time, which it is.
            words.taken.store(place, Ordering::Release);
        }
        redelivered
    }
}

/// Returns the value of a message, where it lies if it is aligned; `None`: it is none of the type.
fn value_of<'a, M: Payload + ?Sized>(found: &FoundMessage<'a>) -> Option<Value<'a, M>> {
    let (at, len) = (found.bytes.as_ptr(), found.bytes.len());
    if at.addr().is_multiple_of(M::METADATA.align) {
        // SAFETY: the address is aligned as the type is; `len` bytes lie there, and no sender
        // writes to them before `give_back`.
        return unsafe { M::at(at, len) }.map(Value::InPlace);
    }
    let mut copy = M::blank();
    M::replace(&mut copy, found.bytes).then_some(Value::Copied(copy))
}

impl<M: Payload + ?Sized> Peeked<'_, M> {
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

impl<M: Payload + ?Sized> Deref for Peeked<'_, M> {
    type Target = M;

    fn deref(&self) -> &M {
        match &self.value {
            Value::InPlace(value) => value,
            Value::Copied(copy) => copy.borrow(),
        }
    }
}
