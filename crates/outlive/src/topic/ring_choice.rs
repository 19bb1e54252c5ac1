//! Which ring a new publisher takes: its first messages overwrite the oldest ones of that ring.
//!
//! | rank | the ring |
//! | --- | --- |
//! | 1 | free, and each living subscriber has taken all that is in it; of several the first |
//! | 2 | never used, as long as rings take no more than half of the topic's memory |
//! | 3 | free, with messages that a living subscriber has not taken: the one whose last message is the oldest |
//! | 4 | never used, beyond that half |
//!
//! The look takes no ring. The publisher claims the ring that it has chosen as one that *looks
//! after* it, looks at that ring once more, and goes back if its rank is worse by then: another
//! publisher may have had the ring in between, published, and left. proof/models/topic_choice.pml.
//!
//! | the publisher dies, or is stopped | what others see |
//! | --- | --- |
//! | before the claim | nothing |
//! | between claim and second look | a ring that is looked after: others choose among the rest; with none left they wait for it, two seconds at most |

use super::claim::{Claim, Kept};
use super::mapping::Inner;
use crate::shim::{Ordering, fence};

/// How good a ring is for a publisher that joins; a lower one is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// No living subscriber has anything to take in it.
    Read,
    /// It was never used.
    New,
    /// A living subscriber has not taken all of it; its last message has that order.
    Unread(u64),
    /// It was never used, and rings take much of the topic's memory already.
    Costly,
}

/// Returns the rank of a ring, whichever process has it.
pub(super) fn rank(inner: &Inner, index: u32) -> Rank {
    if index >= inner.rings() {
        return match inner.has_memory_for_rings(index + 1) {
            true => Rank::New,
            false => Rank::Costly,
        };
    }
    match is_read(inner, index) {
        true => Rank::Read,
        // Relaxed: the claim that has been read, or made, came after it.
        false => Rank::Unread(inner.ring(index).order.load(Ordering::Relaxed)),
    }
}

/// Returns the free rings that come into question, the best one first: either one that is read, or
/// all that are not and the first that was never used.
pub(super) fn candidates(inner: &Inner, is_free: impl Fn(u32) -> bool) -> Vec<(Rank, u32)> {
    let rings = inner.rings();
    let mut found = Vec::new();
    for index in (0..rings).filter(|&index| is_free(index)) {
        let rank = rank(inner, index);
        if rank == Rank::Read {
            return vec![(rank, index)];
        }
        found.push((rank, index));
    }
    if let Some(index) = (rings..inner.plan.capacity.publishers).find(|&index| is_free(index)) {
        found.push((rank(inner, index), index));
    }
    found.sort_unstable();
    found
}

/// Returns whether no subscriber, living or kept, has anything to take in that ring, whose slots exist.
fn is_read(inner: &Inner, index: u32) -> bool {
    let published = inner.all_published(index);
    // Pairs with the fence in `Subscriber::join`: a subscriber that has joined by now is in sight.
    fence(Ordering::SeqCst);
    inner.subscriber_slots().all(|words| {
        // Acquire pairs with `subscriber_slot::join`: its cursors are written.
        let word = words.claim.load(Ordering::Acquire);
        // Relaxed: an older cursor only makes the ring look less read than it is.
        let cursor = || words.cursors[index as usize].load(Ordering::Relaxed);
        let counts = Kept::of(word).is_some()
            || Claim::of(word).is_some_and(|claim| {
                claim.is_subscribed() && inner.registry.is_alive(claim.process)
            });
        !counts || cursor() >= published
    })
}

#[cfg(test)]
mod tests {
    use super::super::ring;
    use super::*;
    use crate::Domain;
    use crate::topic::{Durability, Subscriber, Topic};

    /// Another publisher has the ring, publishes and leaves, between the look and the claim.
    #[test]
    fn a_ring_that_is_unread_by_now_is_not_taken() {
        let folder = std::env::temp_dir().join(format!("outlive-choice-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let options = Topic::<u64>::options().depth(1).durability(Durability::Persistent);
        let topic = options.open_or_create(&domain, "t").expect("made");
        let inner = &**topic.inner.publishing().expect("mapped");
        let publish = |number: u64| {
            topic.publisher().expect("a ring").publish(&number).map(drop).expect("published");
        };
        publish(0);
        let mut subscriber = topic.subscriber().expect("a slot");
        let ends = inner.ends();
        let chosen = candidates(inner, |index| ring::is_left(inner, index, &ends));
        assert_eq!(chosen, [(Rank::Read, 0)]);
        let process = inner.registry.process_token().expect("a token");
        publish(1);
        assert!(ring::take_chosen(inner, process, chosen[0]).expect("no error").is_none());
        assert_eq!(inner.ring(0).owner.load(Ordering::Relaxed), 0);
        // So does each of the others, until a living subscriber has taken what is there.
        let chosen = candidates(inner, |index| ring::is_left(inner, index, &ends));
        assert_eq!(chosen, [(Rank::New, 1), (Rank::Unread(2), 0)]);
        publish(2);
        assert!(ring::take_chosen(inner, process, chosen[0]).expect("no error").is_none());
        for wanted in 1..3 {
            assert_eq!(*subscriber.try_recv().expect("ours").expect("kept"), wanted);
        }
        assert_eq!(rank(inner, 0), Rank::Read);
        // History that is not taken counts, too.
        let options = Subscriber::options().history(1);
        let late: Subscriber<u64> = topic.subscriber_with(options).expect("a slot");
        assert_eq!((rank(inner, 0), rank(inner, 1)), (Rank::Unread(2), Rank::Unread(3)));
        drop(late);
        assert_eq!((rank(inner, 0), rank(inner, 1)), (Rank::Read, Rank::Read));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
