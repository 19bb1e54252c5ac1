//! Sending: claim a slot, write, publish, wake.
//!
//! 1. r = current region; the receiver's token is dead: `ReceiverDied`, unless messages are kept for
//!    the next receiver.
//! 2. t = tail of r; closed: next region.
//! 3. The slot of t: a lap behind: full. Not empty: another sender claimed it and has not moved the
//!    tail: help, again.
//! 4. EMPTY → WRITING(me). *From here the slot names its owner.*
//! 5. tail t → t + 1; failed because the region was closed at or before t: the claim is **void**,
//!    no receiver will ever read that slot: next region.
//! 6. Write the payload; READY. If the object cannot be made the message's (its tag is damaged):
//!    WRITING → ABANDONED, by the sender itself.
//! 7. Notify `messages` (room.rs).
//!
//! | died after | seen by others |
//! | --- | --- |
//! | 4 | the next sender helps the tail past it; the receiver skips WRITING by a dead thread, counts it abandoned |
//! | 6 | the message is there; the receiver, if asleep, is woken by the next send, by a sender that finds the queue full, or by this sender's end, since it watches the owner of this slot |
//! | 7, before + 1 | the receiver is awake; its own number + 1 fails or the next sleep takes a new number |
//!
//! Two compare-exchanges a send: the second could be a hint only if the close mark stood in the
//! slot. A large message is written to its object before any slot is claimed, so a sender stopped
//! in a long copy delays no other sender. proof/models/queue.pml, proof/models/pool.pml;
//! doc/protocols/queue.md has the argument.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::Inner;
use super::layout::{CLOSED, LARGEST_MESSAGE, MOST_REGIONS, Meta, SlotWord, published};
use super::ring::{Growth, Position, Slot};
use super::room::{Receiver, Space, wait_for_memory, wait_for_room};
use super::senders;
use crate::liveness::Me;
use crate::pool::ObjectRef;
use crate::shim::Ordering;
use crate::sys::probe::probe;
use crate::{Deadline, Error, SendError};

/// A sending end, which knows messages as bytes alone.
pub(crate) struct RawSender {
    pub(super) inner: Arc<Inner>,
    /// The region where this sender's claims begin, and that region's limit as last read. Both
    /// change together: a limit of another region would lead outside the mapping.
    region: Cell<u32>,
    limit: Cell<u64>,
    entry: Option<senders::SenderEntry>,
    _not_sync: PhantomData<Cell<()>>,
}

/// What is sent: bytes for the slot, or an object that holds them.
enum Body<'a> {
    Inline(&'a [u8]),
    Object(ObjectRef),
}

/// Why a claim failed.
enum Refused {
    /// The region is at its largest, and full; with the slot that must be given back first.
    Full {
        region: u32,
        place: Position,
    },
    Error(SendError),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Refused {
        Refused::Error(error.into())
    }
}

struct Claim<'a> {
    slot: Slot<'a>,
    region: u32,
    position: u64,
    lap: u64,
}

impl RawSender {
    pub(super) fn new(inner: Arc<Inner>) -> Result<RawSender, Error> {
        // If it begins too low, the sender follows the closed tails.
        let region =
            inner.ring.head().current.load(Ordering::Acquire).min(inner.ring.regions() - 1);
        let limit = inner.ring.limit(region)?;
        let entry = senders::enter_sender(&inner)?;
        Ok(RawSender {
            inner,
            region: Cell::new(region),
            limit: Cell::new(limit),
            entry,
            _not_sync: PhantomData,
        })
    }

    /// Sends a message, or a batch of so many; `None` for a deadline does not wait.
    #[inline]
    pub(super) fn send_message(
        &self,
        bytes: &[u8],
        batch: u32,
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        self.send_here(bytes, batch, deadline)
    }

    #[inline(always)]
    pub(super) fn send_here(
        &self,
        bytes: &[u8],
        batch: u32,
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        let me = self.inner.registry.me()?;
        if bytes.len() <= self.inner.ring.inline_bytes() {
            let meta = Meta { len: bytes.len() as u32, batch, object: false };
            return self.put(me, &Body::Inline(bytes), meta, deadline);
        }
        self.send_large(me, bytes, batch, deadline)
    }

    #[inline(never)]
    fn send_large(
        &self,
        me: Me,
        bytes: &[u8],
        batch: u32,
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        let ring = &self.inner.ring;
        let len = bytes.len() as u64;
        if len > LARGEST_MESSAGE {
            return Err(SendError::TooLarge { len, max: LARGEST_MESSAGE });
        }
        // Before the copy: without a receiver there is nothing to write.
        self.inner.check_receiver()?;
        let object = match ring.pool.allocate(&ring.segment, me, len, ring) {
            Ok(object) => object,
            Err(Error::NoSpace { .. }) => {
                probe!(no_space, ring.segment.path(), len);
                let most = ring.most_message_bytes();
                if len > most {
                    return Err(SendError::TooLarge { len, max: most });
                }
                let region = self.region.get() as usize % MOST_REGIONS;
                let head = &ring.head().regions_words[region].head;
                let before = head.load(Ordering::Relaxed);
                let worth_a_look = || head.load(Ordering::Relaxed) != before;
                let receiver = &mut Receiver::of(&self.inner);
                wait_for_memory(&self.inner, me, len, deadline, &worth_a_look, receiver)?
            }
            Err(other) => return Err(other.into()),
        };
        // SAFETY: the object belongs to this thread alone (its tag says so), its pages exist, and
        // it has room for `len` bytes.
        unsafe {
            let to = ring.segment.address(object.offset);
            core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        let meta = Meta { len: len as u32, batch, object: true };
        let result = self.put(me, &Body::Object(object), meta, deadline);
        if result.is_err() {
            ring.pool.free_held(&ring.segment, &object, me, ring)?;
        }
        result
    }

    /// Does steps 1 to 7, waiting while the queue is full if there is a deadline.
    // Always inline: a call with so many arguments, some of them in memory, is a tenth of a send.
    #[inline(always)]
    fn put(
        &self,
        me: Me,
        body: &Body<'_>,
        meta: Meta,
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        loop {
            match self.claim(me) {
                Ok(claim) => match self.publish(me, &claim, body, meta) {
                    Ok(()) => {
                        self.inner.notify_receiver();
                        return Ok(());
                    }
                    Err(error) => return Err(self.abandon(me, &claim, error)),
                },
                Err(Refused::Error(error)) => return Err(error),
                Err(Refused::Full { region, place }) => {
                    self.wait_for_space(me, region, place, deadline)?
                }
            }
        }
    }

    /// Does steps 1 to 5.
    #[inline(always)]
    fn claim(&self, me: Me) -> Result<Claim<'_>, Refused> {
        let ring = &self.inner.ring;
        let head = ring.head();
        self.inner.check_receiver().map_err(Refused::Error)?;
        loop {
            let region = self.region.get();
            let words = &head.regions_words[region as usize % MOST_REGIONS];
            // Acquire pairs with the Release of step 5: the claim before t is seen.
            let t = words.tail.load(Ordering::Acquire);
            if t & CLOSED != 0 {
                self.next_region(region)?;
                continue;
            }
            let Some(place) = ring.place(region, self.limit.get(), t) else {
                self.reload_limit(region, t)?;
                continue;
            };
            let slot = ring.slot(region, place.index);
            // Acquire pairs with the receiver's EMPTY: it has finished with the payload.
            let seen = SlotWord(slot.claim.load(Ordering::Acquire));
            if seen == SlotWord::empty(place.lap) {
                let mine = SlotWord::writing(place.lap, me.id);
                // Acquire pairs with the receiver's EMPTY. A death just after: see the table, row
                // 4.
                if slot
                    .claim
                    .compare_exchange(seen.0, mine.0, Ordering::Acquire, Ordering::Relaxed)
                    .is_err()
                {
                    continue;
                }
                // Release: a thread that sees the new tail sees the claim. A failure: another
                // sender helped, or the region is closed.
                match words.tail.compare_exchange(t, t + 1, Ordering::Release, Ordering::Acquire) {
                    Err(now) if now & CLOSED != 0 && now & !CLOSED <= t => continue,
                    _ => {}
                }
                return Ok(Claim { slot, region, position: t, lap: place.lap });
            }
            if seen.laps_ahead(place.lap) < 0 {
                self.full(region, t, place)?;
                continue;
            }
            if seen.laps_ahead(place.lap) > 1 && words.tail.load(Ordering::Acquire) == t {
                return Err(ring.segment.damaged("a slot ahead of its tail").into());
            }
            // Helps the sender that claimed it and has not moved the tail yet.
            let _ = words.tail.compare_exchange(t, t + 1, Ordering::Release, Ordering::Relaxed);
        }
    }

    #[cold]
    fn next_region(&self, region: u32) -> Result<(), Refused> {
        let ring = &self.inner.ring;
        if region + 1 >= ring.regions() {
            return Err(ring.segment.damaged("a closed last region").into());
        }
        // Checked before this sender moves on: it may have mapped less than the region. Then it
        // stays where it is, and each send returns the same error.
        let limit = ring.limit(region + 1)?;
        // Release pairs with `Sender::new`: a sender that begins in that region finds its limit.
        // One that begins too low follows the closed tails.
        let _ = ring.head().current.compare_exchange(
            region,
            region + 1,
            Ordering::Release,
            Ordering::Relaxed,
        );
        self.region.set(region + 1);
        self.limit.set(limit);
        Ok(())
    }

    /// The limit as last read does not reach t: read it again, and let the region grow if it ends
    /// there.
    #[cold]
    fn reload_limit(&self, region: u32, t: u64) -> Result<(), Refused> {
        let ring = &self.inner.ring;
        let limit = ring.limit(region)?;
        self.limit.set(limit);
        if ring.place(region, limit, t).is_none()
            && ring.grow_region(region, limit)? == Growth::NoRoom
        {
            return Err(ring.segment.damaged("a region without slots").into());
        }
        if ring.place(region, limit, t).is_none() {
            self.limit.set(ring.limit(region)?);
        }
        Ok(())
    }

    /// Region r is full at t: first make sure that r + 1 has slots, only then close r. The other
    /// order would shut the queue for ever on a full file system.
    #[cold]
    fn full(&self, region: u32, t: u64, place: Position) -> Result<(), Refused> {
        let ring = &self.inner.ring;
        match ring.open_next(region)? {
            Growth::NoRoom => Err(Refused::Full { region, place }),
            Growth::Settled => {
                // `open_next` may have failed, or lost to another sender: closed only when r + 1 is
                // there.
                if ring.limit(region + 1)? != 0 {
                    let tail = &ring.head().regions_words[region as usize].tail;
                    // AcqRel: a thread that sees the mark finds r + 1. If this one died just after,
                    // the region is closed, as it should be.
                    let _ =
                        tail.compare_exchange(t, t | CLOSED, Ordering::AcqRel, Ordering::Relaxed);
                }
                Ok(())
            }
        }
    }

    /// Does step 6.
    #[inline]
    fn publish(
        &self,
        me: Me,
        claim: &Claim<'_>,
        body: &Body<'_>,
        meta: Meta,
    ) -> Result<(), SendError> {
        let ring = &self.inner.ring;
        match body {
            Body::Inline(bytes) => {
                // SAFETY: the slot is this sender's until READY, its payload has room for
                // `inline_bytes`, and `send_message` has checked the length against that.
                unsafe {
                    core::ptr::copy_nonoverlapping(bytes.as_ptr(), claim.slot.payload, bytes.len())
                };
                // Relaxed: READY's Release orders it.
                claim.slot.head.meta.store(meta.encode(), Ordering::Relaxed);
            }
            Body::Object(object) => {
                // SAFETY: the slot is this sender's until READY; slots hold at least 48 bytes of
                // payload, 8-aligned.
                let reference = unsafe { &*claim.slot.payload.cast::<crate::shim::AtomicU64>() };
                reference.store(u64::from(object.reference), Ordering::Relaxed);
                claim.slot.head.meta.store(meta.encode(), Ordering::Relaxed);
                // If this thread died before, the object is its own, for `collect`. After, it
                // belongs to this slot, and the receiver that skips the slot frees it. The tag's
                // Release orders the reference before it.
                ring.pool.enqueue(&ring.segment, object, me, claim.region, claim.position)?;
            }
        }
        // Release pairs with the receiver's Acquire. A death just before: abandoned. Just after:
        // sent.
        claim.slot.head.ready.store(published(claim.lap), Ordering::Release);
        probe!(queue_send, ring.segment.path(), u64::from(meta.len), meta.messages());
        Ok(())
    }

    /// Step 6 failed: no message will ever be in this slot, and the receiver must not wait for a
    /// thread that lives on.
    // Separate from a send that succeeds: that would carry the room for an error past its wake-up,
    // 11 instructions.
    #[cold]
    #[inline(never)]
    fn abandon(&self, me: Me, claim: &Claim<'_>, error: SendError) -> SendError {
        // From this thread's own claim: had a process taken this thread for dead, the slot may be
        // another sender's by now. Release, as the receiver's look is by Acquire. If it died just
        // before, the slot is abandoned by a dead sender. Just after and before the wake, a
        // sleeping receiver is woken by this thread's end, which it watches.
        let ours = SlotWord::writing(claim.lap, me.id);
        let abandoned = SlotWord::abandoned(claim.lap);
        let _ = claim.slot.claim.compare_exchange(
            ours.0,
            abandoned.0,
            Ordering::Release,
            Ordering::Relaxed,
        );
        self.inner.notify_receiver();
        error
    }

    /// The queue is full and at its largest size: waits for the receiver to give the slot back, or
    /// to die; where messages are kept for the next receiver, for that one.
    #[cold]
    fn wait_for_space(
        &self,
        me: Me,
        region: u32,
        place: Position,
        deadline: Option<Deadline>,
    ) -> Result<(), SendError> {
        let inner = &*self.inner;
        let slot = inner.ring.slot(region, place.index);
        let is_free = || SlotWord(slot.claim.load(Ordering::Acquire)).laps_ahead(place.lap) >= 0;
        let look = |_| Ok(if is_free() { Space::Some } else { Space::None });
        wait_for_room(inner, me, deadline, &is_free, &mut Receiver::of(inner), &look)
    }
}

impl Drop for RawSender {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            senders::leave_sender(&self.inner, entry);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::liveness::TokenId;
    use crate::queue::Queue;

    /// An object that is not the sender's any more when it should become the message's delays no
    /// other sender.
    #[test]
    fn a_message_that_fails_in_its_slot_holds_up_nobody() {
        let folder = std::env::temp_dir().join(format!("outlive-failing-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        let (sender, mut receiver) =
            (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        let (ring, me) = (&sender.raw.inner.ring, domain.me().expect("a token"));
        let object = ring.pool.allocate(&ring.segment, me, 1000, ring).expect("room");
        ring.pool.free_held(&ring.segment, &object, me, ring).expect("ours");
        let meta = Meta { len: 1000, batch: 0, object: true };
        let failed = sender.raw.put(me, &Body::Object(object), meta, None);
        assert!(matches!(failed, Err(SendError::Damaged(_))), "{failed:?}");
        sender.send(b"behind it").expect("room");
        assert_eq!(receiver.try_recv(), Ok(Some(b"behind it".to_vec())));
        assert_eq!(receiver.try_recv(), Ok(None));
        assert_eq!(queue.counters().map(|counts| (counts.received, counts.abandoned)), Ok((1, 1)));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// The receiver has given the slot of a thread taken for dead back, and another sender has it:
    /// that sender keeps it.
    #[test]
    fn a_slot_that_is_another_s_by_now_stays_its() {
        let folder = std::env::temp_dir().join(format!("outlive-successor-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        let sender = queue.sender().expect("a sender");
        let (me, slot) = (domain.me().expect("a token"), sender.raw.inner.ring.slot(0, 0));
        let another = TokenId::new(me.id.slot() + 1, 0);
        let claim = Claim { slot, region: 0, position: 0, lap: 0 };
        for (seen, left) in [
            (SlotWord::writing(0, me.id), SlotWord::abandoned(0)),
            (SlotWord::writing(1, another), SlotWord::writing(1, another)),
            (SlotWord::empty(1), SlotWord::empty(1)),
        ] {
            slot.claim.store(seen.0, Ordering::Relaxed);
            assert!(matches!(
                sender.raw.abandon(me, &claim, SendError::NoReceiver),
                SendError::NoReceiver
            ));
            assert_eq!(slot.claim.load(Ordering::Relaxed), left.0);
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
