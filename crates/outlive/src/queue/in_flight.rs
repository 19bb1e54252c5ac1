//! Several messages handed out before the first of them is committed.
//!
//! A receiver's head is the oldest message that is not committed. Ahead of it goes a *cursor*, which
//! is this process's alone: the place of the next message to be handed out.
//!
//! 1. Without a message in flight, the cursor is at the head, which looks as for a peek.
//! 2. Else the cursor goes on over slots that are READY in the head's region. Anything else stops
//!    it: a slot that is being written or was abandoned, damage, the region's end. What the cursor
//!    stops at is the head's affair, once all before it is committed: it alone moves past such slots.
//!    So the messages that the cursor passed are those that the head will find, in that order.
//! 3. Each message's place goes into `taken` before it is handed out (peek.rs, step 2).
//! 4. A commit is the head's, of the oldest message in flight (receive.rs, step 4).
//!
//! | died | a successor |
//! | --- | --- |
//! | with messages in flight | finds the oldest at the head; all up to `taken` are `redelivered` |
//!
//! Messages are numbered by those received before them: the journal keeps that count exact across
//! deaths, so a message has its number for good.

use std::ops::Deref;

use super::batch;
use super::handles::Receiver;
use super::head::{AtHead, FoundMessage};
use super::layout::{pack, published};
use super::receiver::RawReceiver;
use crate::liveness::Me;
use crate::shim::Ordering;
use crate::{Error, RecvError};

/// Hands out messages one after the other, and takes them out of the queue later, in the same order:
/// for a receiver that passes messages on and waits for an answer to each.
/// [`Receiver::in_flight`] makes it.
///
/// Dropped, it has taken what was committed; the messages that were not are the next again.
///
/// # If a process dies
/// If this process dies, the next receiver gets all messages that were not committed, and those that
/// were handed out are marked [`redelivered`](HandedOut::redelivered).
pub struct InFlight<'r> {
    receiver: &'r RawReceiver,
    /// Handed out and not committed.
    out: u64,
    // The cursor: a slot's position, the number of a message in a batch, and where that begins.
    position: u64,
    within: u32,
    at: usize,
    /// The number of the next message.
    number: u64,
}

/// A message that was handed out and is not committed. It dereferences to its bytes in shared memory.
pub struct HandedOut<'a> {
    bytes: &'a [u8],
    number: u64,
    redelivered: bool,
}

impl Receiver {
    /// Begins to hand out messages of which several are in flight at a time.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-in-flight-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "orders")?;
    /// let mut receiver = queue.receiver()?;
    /// queue.sender()?.send_batch(&["buy 10", "sell 5"].map(str::as_bytes))?;
    /// let mut orders = receiver.in_flight();
    /// for number in 0..2 {
    ///     let order = orders.next_to_hand_out()?.expect("both are there");
    ///     assert_eq!(order.number(), number);
    ///     // … send it, with its number …
    /// }
    /// orders.commit()?;                            // the first one was answered
    /// drop(orders);
    /// assert_eq!(receiver.recv()?, b"sell 5");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_flight(&mut self) -> InFlight<'_> {
        InFlight { receiver: &self.raw, out: 0, position: 0, within: 0, at: 0, number: 0 }
    }
}

impl<'r> InFlight<'r> {
    /// Returns the next message that was not handed out yet; `None` if there is none.
    ///
    /// With messages in flight, `None` may also mean that the next message can be handed out only
    /// when they are committed: behind a place where a sender died, and where the queue grew.
    ///
    /// # Errors
    /// The errors of [`Receiver::try_peek`].
    pub fn next_to_hand_out(&mut self) -> Result<Option<HandedOut<'_>>, RecvError> {
        let receiver = self.receiver;
        let me = receiver.enter()?;
        let found = match self.out {
            0 => self.first(me)?,
            _ => self.ahead()?,
        };
        let Some(found) = found else { return Ok(None) };
        let redelivered =
            receiver.hand_out(pack(receiver.region.get(), self.position, found.number));
        let number = self.number;
        self.out += 1;
        self.number = number.wrapping_add(1);
        if found.number + 1 < found.meta.batch {
            (self.within, self.at) = (found.number + 1, found.next_at);
        } else {
            (self.position, self.within, self.at) = (self.position.wrapping_add(1), 0, 0);
        }
        // The borrow of `self` ends before any commit, so no sender writes there meanwhile.
        Ok(Some(HandedOut { bytes: found.bytes, number, redelivered }))
    }

    /// Takes the oldest message in flight out of the queue for good.
    ///
    /// # Errors
    /// The errors of [`Receiver::try_peek`]; [`RecvError::Damaged`] also where no message is in
    /// flight.
    pub fn commit(&mut self) -> Result<(), RecvError> {
        let receiver = self.receiver;
        let me = receiver.enter()?;
        let nothing = || RecvError::Damaged(receiver.inner.ring.segment.damaged("a message"));
        let out = self.out.checked_sub(1).ok_or_else(nothing)?;
        // The cursor passed slots that were READY, and no process changes such a slot but this one:
        // the head finds what the cursor found.
        let found = receiver.look(me)?.message().ok_or_else(nothing)?;
        receiver.commit(&found);
        self.out = out;
        Ok(())
    }

    /// Returns how many messages are handed out and not committed.
    pub fn count(&self) -> u64 {
        self.out
    }

    /// Does step 1.
    fn first(&mut self, me: Me) -> Result<Option<FoundMessage<'r>>, RecvError> {
        let receiver = self.receiver;
        let AtHead::Message(found) = receiver.look(me)? else { return Ok(None) };
        self.position = receiver.head.get();
        let received = receiver.inner.ring.head().receiver_words.received.load(Ordering::Relaxed);
        // Those of a batch are counted when its slot is given back.
        self.number = received.wrapping_add(u64::from(found.number));
        Ok(Some(found))
    }

    /// Does step 2.
    fn ahead(&self) -> Result<Option<FoundMessage<'r>>, Error> {
        let receiver = self.receiver;
        let ring = &receiver.inner.ring;
        let region = receiver.region.get();
        let place = match ring.place(region, receiver.limit.get(), self.position) {
            Some(place) => place,
            None => {
                let limit = ring.limit(region)?;
                receiver.limit.set(limit);
                let Some(place) = ring.place(region, limit, self.position) else {
                    return Ok(None);
                };
                place
            }
        };
        let slot = ring.slot(region, place.index);
        // Acquire pairs with the sender's READY. A slot that wrapped round to the head still says
        // the head's lap.
        if slot.head.ready.load(Ordering::Acquire) != published(place.lap) {
            return Ok(None);
        }
        let Some(found) = receiver.found_whole(slot, place.lap)? else { return Ok(None) };
        if found.meta.batch == 0 {
            return Ok(Some(found));
        }
        // Only a hostile process changes the bytes now, and each number read from them is checked.
        let Some((range, next_at)) = batch::next(found.bytes, self.at) else { return Ok(None) };
        let Some(bytes) = found.bytes.get(range) else { return Ok(None) };
        Ok(Some(FoundMessage { bytes, number: self.within, next_at, ..found }))
    }
}

impl HandedOut<'_> {
    /// Returns the message's number in its queue: how many were received before it. No other message
    /// of the queue has it, and the next receiver finds the same number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns whether an earlier receiver got this message too, and left or died before it
    /// committed: it may have acted on it.
    pub fn redelivered(&self) -> bool {
        self.redelivered
    }
}

impl Deref for HandedOut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::queue::Queue;
    use crate::{Domain, RecvError};

    fn queue(name: &str) -> (std::path::PathBuf, Queue) {
        let folder =
            std::env::temp_dir().join(format!("outlive-in-flight-{name}-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::options().slots(8).open_or_create(&domain, "q").expect("made");
        (folder, queue)
    }

    /// Single messages, batches, long ones, regions that fill up: handed out as far as goes, some
    /// committed, the receiver dropped now and then. All come once for good, in order, each with its
    /// number.
    #[test]
    fn messages_in_flight_come_in_order_with_their_numbers_across_receivers() {
        let (folder, queue) = queue("order");
        let sender = queue.sender().expect("a sender");
        let message = |number: u64| {
            let mut bytes = vec![number as u8; if number.is_multiple_of(7) { 500 } else { 8 }];
            bytes[..8].copy_from_slice(&number.to_le_bytes());
            bytes
        };
        let (mut sent, mut committed, mut seed) = (0_u64, 0_u64, 1_u64);
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut handed_out_before = 0;
        while committed < 3000 {
            for _ in 0..random(12) {
                let count = random(4) + 1;
                let batch: Vec<Vec<u8>> = (sent..sent + count).map(message).collect();
                sender
                    .send_batch(&batch.iter().map(Vec::as_slice).collect::<Vec<_>>())
                    .expect("room");
                sent += count;
            }
            let mut receiver = queue.receiver().expect("free");
            let mut in_flight = receiver.in_flight();
            let (first, mut next) = (committed, committed);
            for _ in 0..random(40) {
                if random(3) == 0 && in_flight.count() > 0 {
                    in_flight.commit().expect("in flight");
                    committed += 1;
                } else if let Some(found) = in_flight.next_to_hand_out().expect("readable") {
                    assert_eq!((found.number(), &*found), (next, message(next).as_slice()));
                    assert_eq!(found.redelivered(), next < handed_out_before, "{next}");
                    next += 1;
                } else if in_flight.count() == 0 {
                    assert_eq!(committed, sent, "only an empty queue hands out none");
                }
            }
            assert!(in_flight.count() == next - committed && next >= first);
            handed_out_before = handed_out_before.max(next);
        }
        let counters = queue.counters().expect("readable");
        assert_eq!((counters.received, counters.abandoned), (committed, 0));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_commit_without_a_message_in_flight_is_refused() {
        let (folder, queue) = queue("none");
        queue.sender().expect("a sender").send(b"one").expect("room");
        let mut receiver = queue.receiver().expect("free");
        let mut in_flight = receiver.in_flight();
        assert!(matches!(in_flight.commit(), Err(RecvError::Damaged(_))));
        assert_eq!(
            in_flight.next_to_hand_out().expect("readable").expect("there").to_vec(),
            b"one"
        );
        assert!(in_flight.next_to_hand_out().expect("readable").is_none());
        in_flight.commit().expect("in flight");
        assert!(matches!(in_flight.commit(), Err(RecvError::Damaged(_))));
        assert_eq!(receiver.try_recv(), Ok(None));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// A receiver that lives long, or one that receives plainly between two looks: half of all
    /// positions, 2^33 slots, is some hours' traffic, and a queue that does not grow stays in one
    /// region.
    #[test]
    fn a_mark_from_long_ago_marks_nothing() {
        use crate::queue::layout::pack;
        use crate::shim::Ordering;
        let (folder, queue) = queue("long-ago");
        let sender = queue.sender().expect("a sender");
        sender.send_batch(&[b"1", b"2"].map(|text| &text[..])).expect("room");
        let mut receiver = queue.receiver().expect("free");
        // As if 2^33 + 1 slots had passed since.
        let raw = &receiver.raw;
        let old = pack(raw.region.get(), raw.head.get().wrapping_sub((1 << 33) + 1), 0);
        raw.taken_before.set(old);
        let inner = std::sync::Arc::clone(&raw.inner);
        let words = &inner.ring.head().receiver_words;
        words.taken.store(old, Ordering::Relaxed);
        let mut in_flight = receiver.in_flight();
        let message = in_flight.next_to_hand_out().expect("readable").expect("there");
        let (redelivered, number) = (message.redelivered(), message.number());
        assert_eq!(number, 0);
        let noted = words.taken.load(Ordering::Relaxed) != old;
        assert_eq!((redelivered, noted), (false, true), "(redelivered, noted)");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_queue_that_is_made_again_has_another_id() {
        let (folder, queue) = queue("id");
        let domain = Domain::open_at(&folder).expect("opens");
        let again = Queue::<[u8]>::open(&domain, "q").expect("there");
        assert_eq!(queue.id(), again.id());
        domain.remove("q").expect("removed");
        let other = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        assert!(other.id() != queue.id() && other.id() != 0);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
