//! The senders of a queue: the table into which a sender's process writes its name, so that the
//! receiver learns when the last one has gone; and, for tests, which senders are at a slot or hold
//! memory.

use super::Inner;
#[cfg(all(not(loom), feature = "testing"))]
use super::layout::{CLOSED, SEALED, SlotWord, State, published};
use super::layout::{SENDER_SEEN, SENDERS_UNLISTED};
#[cfg(all(not(loom), feature = "testing"))]
use super::queue::Queue;
#[cfg(all(not(loom), feature = "testing"))]
use super::sweep::is_given_back;
use crate::Error;
#[cfg(all(not(loom), feature = "testing"))]
use crate::Payload;
#[cfg(all(not(loom), feature = "testing"))]
use crate::claim::Holder;
use crate::liveness::TokenId;
#[cfg(all(not(loom), feature = "testing"))]
use crate::pool::Tag;
use crate::shim::Ordering;

/// A sender's place in the table.
pub(super) struct SenderEntry {
    index: usize,
    process: TokenId,
}

/// Writes the calling process into the table of senders. `None`: the table is full, which is noted.
pub(super) fn enter_sender(inner: &Inner) -> Result<Option<SenderEntry>, Error> {
    let process = inner.registry.process_token()?;
    let head = inner.ring.head();
    head.senders_seen.fetch_or(SENDER_SEEN, Ordering::Relaxed);
    for (index, entry) in inner.ring.senders().iter().enumerate() {
        let word = entry.load(Ordering::Relaxed);
        let taken = TokenId::from_word(word).is_some_and(|id| inner.registry.is_alive(id));
        if !taken
            && entry
                .compare_exchange(word, process.as_u32(), Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(Some(SenderEntry { index, process }));
        }
    }
    head.senders_seen.fetch_or(SENDERS_UNLISTED, Ordering::Relaxed);
    Ok(None)
}

pub(super) fn leave_sender(inner: &Inner, entry: SenderEntry) {
    // A forked child's copy is not in the table.
    if inner.registry.process_token_if_any() != Some(entry.process) {
        return;
    }
    let words = inner.ring.senders();
    // If this thread died just before, the table names a dead process, whose token the receiver
    // watches. Just after, the receiver watches another sender's token, or this one's, whose end is
    // near.
    words[entry.index].store(0, Ordering::Release);
    inner.ring.head().messages.notify_all();
}

/// Which senders live.
pub(super) enum Senders {
    /// This one, and perhaps others.
    Some(TokenId),
    /// Unknown: there are, or were, more senders than the table has room for.
    Unknown,
    /// There never was a sender.
    NeverSeen,
    /// All senders have gone.
    Gone,
}

pub(super) fn senders(inner: &Inner) -> Senders {
    let seen = inner.ring.head().senders_seen.load(Ordering::Acquire);
    let alive = inner
        .ring
        .senders()
        .iter()
        .filter_map(|entry| TokenId::from_word(entry.load(Ordering::Acquire)))
        .find(|&id| inner.registry.is_alive(id));
    match alive {
        Some(id) => Senders::Some(id),
        None if seen & SENDERS_UNLISTED != 0 => Senders::Unknown,
        None if seen & SENDER_SEEN == 0 => Senders::NeverSeen,
        None => Senders::Gone,
    }
}

#[cfg(all(not(loom), feature = "testing"))]
impl<M: Payload + ?Sized> Queue<M> {
    /// Returns the threads, dead or alive, that have claimed a slot and have not published it yet.
    /// The receiver waits for the one whose slot comes first.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn writers(&self) -> Result<Vec<Holder>, Error> {
        let inner = self.inner();
        let ring = &inner.ring;
        let mut writers = Vec::new();
        for region in 0..ring.regions() {
            let slots = ring.limit(region)? & !SEALED;
            // One more than the tail: a claim whose owner has not moved the tail yet.
            let tail =
                ring.head().regions_words[region as usize].tail.load(Ordering::Acquire) & !CLOSED;
            for index in 0..slots.min(tail.saturating_add(1)) {
                let slot = ring.slot(region, index);
                let word = SlotWord(slot.claim.load(Ordering::Acquire));
                // A lap has 33 bits here, which no queue lives to see the end of.
                let is_published =
                    slot.head.ready.load(Ordering::Acquire) == published(word.0 >> 31);
                if word.state() == State::Writing && !is_published {
                    writers.extend(word.owner().map(|token| Holder::of(inner.registry, token)));
                }
            }
        }
        Ok(writers)
    }

    /// Returns the threads, dead or alive, that hold memory which is no message's: senders before
    /// their message is in its slot, and the receiver between giving a slot back and freeing its
    /// object. Senders that find no memory wait for those.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn memory_holders(&self) -> Result<Vec<Holder>, Error> {
        let inner = self.inner();
        let ring = &inner.ring;
        let inside = TokenId::from_word(ring.head().inside.load(Ordering::Acquire));
        let mut holders = Vec::new();
        let mut in_slots = false;
        ring.pool.in_hand(&ring.segment, |tag, _| match tag {
            Tag::Held(thread) => holders.push(thread),
            Tag::Queued { region, position } if region < ring.regions() => {
                match ring.limit(region) {
                    Ok(limit) if is_given_back(ring, region, limit, position) => {
                        holders.extend(inside)
                    }
                    // In a slot: a message, or it becomes one when its sender has published it.
                    _ => in_slots = true,
                }
            }
            _ => {}
        })?;
        let mut all: Vec<Holder> =
            holders.into_iter().map(|thread| Holder::of(inner.registry, thread)).collect();
        if in_slots {
            all.extend(self.writers()?);
        }
        Ok(all)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A sender holds memory from its allocation until the message is in its slot. The receiver
    /// holds it from giving the slot back until the object is free. No thread holds that of a
    /// message in its slot.
    #[test]
    fn who_has_memory_in_hand_is_told() {
        let folder = std::env::temp_dir().join(format!("outlive-in-hand-{}", std::process::id()));
        let domain = crate::Domain::open_or_create_at(&folder).expect("opens");
        let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
        let (sender, mut receiver) =
            (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        let (ring, me) = (&queue.inner().ring, domain.me().expect("a token"));
        let holders = || {
            queue.memory_holders().expect("readable").iter().map(|who| who.pid).collect::<Vec<_>>()
        };
        let own = std::process::id();
        let object = ring.pool.allocate(&ring.segment, me, 1000, ring).expect("room");
        assert_eq!(holders(), [own]);
        ring.pool.free_held(&ring.segment, &object, me, ring).expect("ours");
        assert_eq!(holders(), []);
        sender.send(&[1; 1000]).expect("room");
        assert_eq!(holders(), []);
        assert!(receiver.try_recv().expect("readable").is_some());
        assert_eq!(holders(), []);
        // What a receiver that has given the slot back holds for a moment.
        let object = ring.pool.allocate(&ring.segment, me, 1000, ring).expect("room");
        ring.pool.enqueue(&ring.segment, &object, me, 0, 0).expect("ours");
        assert_eq!(holders(), [own]);
        ring.pool.free_queued(&ring.segment, &object, 0, 0).expect("its message's");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
