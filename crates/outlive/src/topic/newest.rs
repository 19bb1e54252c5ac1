//! How a subscriber finds the newest message of a topic, and which messages it passes over for
//! that.
//!
//! | step | why |
//! | --- | --- |
//! | look at each ring for its newest message; the message with the highest order is the topic's newest | |
//! | take it | if it has been overwritten meanwhile, look at all rings again |
//! | look at the other rings again: from the newest message of each back to the first that is older | see below |
//! | set the cursors there | each message that is passed over is older than the returned one |
//!
//! A publisher saw every message that was published before it began. So once the subscriber has
//! seen that publisher's message, it can see all of those, too, and the second look finds them;
//! without the second look an older message would come after the returned one. A message that is
//! newer than the returned one is never passed over. proof/models/topic_order.pml checks both.
//!
//! A death changes nothing here: a publisher that dies or is stopped between a message's `ready`
//! and its own `published` has published that message.

use super::slot::{MessageState, Slot};

/// The rings of a topic, as far as the search for the newest message looks at them.
pub(super) trait Rings {
    fn depth(&self) -> u64;
    fn published(&self, ring: usize) -> u64;
    fn slot(&self, ring: usize, position: u64) -> &Slot;
}

/// A message's place in the order of all messages: of two with the same order, the lower ring's
/// comes first.
type OrderKey = (u64, usize);

/// How often at most the search for a ring's newest message is repeated after its publisher has
/// lapped it. There is a limit because a damaged ring may change for ever.
const TRIES: usize = 100;

/// Returns the order of a message, if it is there.
fn order_of(rings: &impl Rings, ring: usize, position: u64) -> Option<u64> {
    let slot = rings.slot(ring, position);
    if slot.look(position) != MessageState::There {
        return None;
    }
    let order = slot.order();
    // Overwritten meanwhile, that was another message's order.
    slot.is_still(position).then_some(order)
}

/// Returns a ring's newest message: its order and its position.
pub(super) fn newest_in(rings: &impl Rings, ring: usize) -> Option<(u64, u64)> {
    for _ in 0..TRIES {
        let published = rings.published(ring);
        // `published` follows a step after the message: the publisher may have died or been stopped
        // in between, and other subscribers may have received that message already.
        for position in [Some(published), published.checked_sub(1)].into_iter().flatten() {
            if let Some(order) = order_of(rings, ring, position) {
                return Some((order, position));
            }
        }
        if rings.published(ring) == published {
            // No message was published yet, or the only one that is kept is just being overwritten.
            return None;
        }
    }
    None
}

/// Returns up to which position a ring's messages are older than `newest`, which has been taken;
/// never less than `from`.
pub(super) fn older_end(rings: &impl Rings, ring: usize, from: u64, newest: OrderKey) -> u64 {
    let mut found = newest_in(rings, ring);
    // At most a lap: a damaged ring may show one more message at each look.
    for _ in 0..=rings.depth() {
        match found {
            Some((order, position)) if (order, ring) < newest => return from.max(position + 1),
            Some((_, position)) if position > from => {
                found = order_of(rings, ring, position - 1).map(|order| (order, position - 1));
            }
            // No message is there that has not been taken, or what was there has been overwritten:
            // older or newer, it counts as lost when the subscriber comes to it.
            _ => return from,
        }
    }
    from
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::thread;

    use super::super::slot::{Metadata, Origin};
    use super::*;
    use crate::shim::explore;

    /// Two rings of one slot each: a message that was seen may be overwritten before the next look.
    struct World {
        slots: [Slot; 2],
        published: [AtomicU64; 2],
        orders: [AtomicU64; 2],
    }

    impl Rings for World {
        fn depth(&self) -> u64 {
            1
        }

        fn published(&self, ring: usize) -> u64 {
            // Acquire, as in `Inner::published`.
            self.published[ring].load(Ordering::Acquire)
        }

        fn slot(&self, ring: usize, _: u64) -> &Slot {
            &self.slots[ring]
        }
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                slots: [Slot::new(), Slot::new()],
                published: [AtomicU64::new(0), AtomicU64::new(0)],
                orders: [AtomicU64::new(0), AtomicU64::new(0)],
            })
        }

        /// Publishes as `Publisher::put` does; returns the order.
        fn publish(&self, ring: usize, position: u64) -> u64 {
            let own = self.orders[ring].load(Ordering::Relaxed);
            let order = own.max(self.orders[1 - ring].load(Ordering::Acquire)) + 1;
            let slot = &self.slots[ring];
            slot.begin();
            slot.describe(Metadata {
                order,
                origin: Origin::default(),
                len: 0,
                object: None,
                stamp: 0,
                has_header: false,
            });
            self.orders[ring].store(order, Ordering::Relaxed);
            slot.publish(position);
            self.published[ring].store(position + 1, Ordering::Release);
            order
        }

        fn newest(&self) -> Option<(OrderKey, u64)> {
            let of = |ring: usize| {
                newest_in(self, ring).map(|(order, position)| ((order, ring), position))
            };
            [of(0), of(1)].into_iter().flatten().max()
        }
    }

    #[test]
    fn loom_topic_latest_is_never_before_what_it_answers() {
        explore(3, || {
            let world = World::new();
            let asking = {
                let world = Arc::clone(&world);
                thread::spawn(move || _ = world.publish(1, 0))
            };
            let answering = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    // An answer to the message that this publisher has seen.
                    if world.slots[1].look(0) == MessageState::There {
                        world.publish(0, 0);
                    }
                })
            };
            if let Some((newest, _)) = world.newest()
                && newest.1 == 0
            {
                assert_eq!(
                    order_of(&*world, 1, 0),
                    Some(1),
                    "the question is in sight of who sees the answer"
                );
                assert!(newest.0 > 1, "and comes before it");
                assert_eq!(older_end(&*world, 1, 0, newest), 1, "so it is passed over");
            }
            asking.join().unwrap();
            answering.join().unwrap();
        });
    }

    #[test]
    fn loom_topic_latest_passes_over_nothing_newer() {
        explore(3, || {
            let world = World::new();
            let first = [world.publish(0, 0)];
            let publishing = {
                let world = Arc::clone(&world);
                thread::spawn(move || [0, 1].map(|position| world.publish(1, position)))
            };
            let found = world.newest().map(|(newest, _)| {
                let other = 1 - newest.1;
                (newest, other, older_end(&*world, other, 0, newest))
            });
            let second = publishing.join().unwrap();
            let (newest, other, end) = found.expect("one was published before");
            let orders = [&first[..], &second[..]][other];
            let is_older = |order: &u64| (*order, other) < newest;
            assert!(
                orders[..end as usize].iter().all(is_older),
                "{newest:?} beside {orders:?}: up to {end}"
            );
        });
    }
}
