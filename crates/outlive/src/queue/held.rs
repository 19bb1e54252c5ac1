//! For tests: which senders are at a slot, and which threads hold memory that is no message's.

use super::layout::{SlotWord, State, published};
use super::queue::Queue;
use super::sweep::{claimed_slots, is_given_back};
use crate::claim::Holder;
use crate::liveness::TokenId;
use crate::pool::Tag;
use crate::shim::Ordering;
use crate::{Error, Payload};

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
            for (_, slot) in claimed_slots(ring, region)? {
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

#[cfg(test)]
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
