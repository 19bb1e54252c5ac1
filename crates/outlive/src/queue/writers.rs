//! The senders at a slot, and the threads with memory in hand: for tests, and to see why a receiver or a sender waits.

use super::layout::{CLOSED, SEALED, SlotWord, State, published};
use super::queue::Queue;
use super::sweep::is_given_back;
use crate::Error;
use crate::claim::Holder;
use crate::liveness::TokenId;
use crate::pool::Tag;
use crate::shim::Ordering;

impl Queue {
    /// The threads, dead or alive, that have claimed a slot and have not published it yet. The receiver waits for those
    /// whose slot comes first.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn writers(&self) -> Result<Vec<Holder>, Error> {
        let shared = self.shared();
        let ring = &shared.ring;
        let mut writers = Vec::new();
        for region in 0..ring.regions() {
            let slots = ring.limit(region)? & !SEALED;
            // One more than the tail: a claim whose owner has not moved the tail yet.
            let tail = ring.head().regions_words[region as usize].tail.load(Ordering::Acquire) & !CLOSED;
            for index in 0..slots.min(tail.saturating_add(1)) {
                let slot = ring.slot(region, index);
                let word = SlotWord(slot.claim.load(Ordering::Acquire));
                // A lap has 33 bits here, which no queue lives to see the end of.
                let is_published = slot.head.ready.load(Ordering::Acquire) == published(word.0 >> 31);
                if word.state() == State::Writing && !is_published {
                    writers.extend(word.owner().map(|token| Holder::of(shared.registry, token)));
                }
            }
        }
        Ok(writers)
    }

    /// The threads, dead or alive, that have memory in hand which is no message's: senders before their message is in its
    /// slot, and the receiver between giving a slot back and freeing its object. Senders that find no memory wait for those.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    #[doc(hidden)]
    pub fn memory_holders(&self) -> Result<Vec<Holder>, Error> {
        let shared = self.shared();
        let ring = &shared.ring;
        let inside = TokenId::from_word(ring.head().inside.load(Ordering::Acquire));
        let mut holders = Vec::new();
        let mut in_slots = false;
        ring.pool.in_hand(&ring.segment, |tag, _| match tag {
            Tag::Held(thread) => holders.push(thread),
            Tag::Queued { region, position } if region < ring.regions() => {
                match ring.limit(region) {
                    Ok(limit) if is_given_back(ring, region, limit, position) => holders.extend(inside),
                    // In a slot: a message, or to be one when its sender has published it.
                    _ => in_slots = true,
                }
            }
            _ => {}
        })?;
        let mut all: Vec<Holder> = holders.into_iter().map(|thread| Holder::of(shared.registry, thread)).collect();
        if in_slots {
            all.extend(self.writers()?);
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender has memory in hand from its allocation until the message is in its slot. The receiver has it from giving the
    /// slot back until the object is free. No thread has that of a message that lies in its slot.
    #[test]
    fn who_has_memory_in_hand_is_told() {
        let folder = std::env::temp_dir().join(format!("outlive-in-hand-{}", std::process::id()));
        let domain = crate::Domain::open_at(&folder).expect("opens");
        let queue = Queue::create(&domain, "q").expect("made");
        let (sender, mut receiver) = (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
        let (ring, me) = (&queue.shared().ring, domain.me().expect("a token"));
        let holders = || queue.memory_holders().expect("readable").iter().map(|who| who.pid).collect::<Vec<_>>();
        let own = std::process::id();
        let object = ring.pool.allocate(&ring.segment, me, 1000, ring).expect("room");
        assert_eq!(holders(), [own]);
        ring.pool.free_held(&ring.segment, &object, me, ring).expect("ours");
        assert_eq!(holders(), []);
        sender.send(&[1; 1000]).expect("room");
        assert_eq!(holders(), []);
        receiver.try_recv().expect("there");
        assert_eq!(holders(), []);
        // What a receiver leaves for a moment that has given the slot back.
        let object = ring.pool.allocate(&ring.segment, me, 1000, ring).expect("room");
        ring.pool.enqueue(&ring.segment, &object, me, 0, 0).expect("ours");
        assert_eq!(holders(), [own]);
        ring.pool.free_queued(&ring.segment, &object, 0, 0).expect("its message's");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
