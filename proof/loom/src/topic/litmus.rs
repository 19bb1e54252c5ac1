//! Joining, sleeping and changing hands, as loom's litmus tests: each has the words and the
//! orderings of the code that it names, and no more of it. proof/models/weak-memory.md has the
//! table.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::thread;

use super::hazard::{HazardPointers, names};
use super::slot::{MessageState, Metadata, Origin, Slot};
use crate::shim::explore_all;

/// `Subscriber::new` and `back_pressure::slowest`: a publisher that does not see a reliable
/// subscriber has published, before that one's first look, all that it overwrites without it.
#[test]
fn loom_topic_who_joins_is_seen_or_sees_what_was_published() {
    explore_all(|| {
        let world = Arc::new((Slot::new(), AtomicU64::new(0)));
        let joining = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (slot, claim) = &*world;
                claim.store(1, Ordering::Release);
                fence(Ordering::SeqCst);
                slot.look(0) == MessageState::There
            })
        };
        let (slot, claim) = &*world;
        slot.begin();
        slot.describe(Metadata {
            order: 1,
            origin: Origin::default(),
            len: 0,
            object: None,
            stamp: 0,
            has_header: false,
        });
        slot.publish(0);
        fence(Ordering::SeqCst);
        let is_seen = claim.load(Ordering::Acquire) == 1;
        assert!(joining.join().unwrap() || is_seen);
    });
}

/// `subscriber_slot::join` and `back_pressure::slowest`: a thread that sees the claim sees the
/// cursors that were written before it.
#[test]
fn loom_topic_a_claim_brings_its_cursors() {
    explore_all(|| {
        let world = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let joining = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.1.store(5, Ordering::Relaxed);
                world.0.store(1, Ordering::Release);
            })
        };
        if world.0.load(Ordering::Acquire) == 1 {
            assert_eq!(world.1.load(Ordering::Acquire), 5);
        }
        joining.join().unwrap();
    });
}

/// `Ring::leave` and `ring::take`: the ring's next owner sees all that the one before has
/// published, and published positions go on.
#[test]
fn loom_topic_the_next_owner_of_a_ring_sees_what_the_one_before_published() {
    explore_all(|| {
        let world = Arc::new((Slot::new(), AtomicU64::new(0), AtomicU32::new(1)));
        let leaving = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let (slot, published, owner) = &*world;
                slot.begin();
                slot.describe(Metadata {
                    order: 1,
                    origin: Origin::new(1, 0, false, false),
                    len: 0,
                    object: None,
                    stamp: 0,
                    has_header: false,
                });
                slot.publish(0);
                published.store(1, Ordering::Release);
                let _ = owner.compare_exchange(1, 0, Ordering::Release, Ordering::Relaxed);
            })
        };
        let (slot, published, owner) = &*world;
        if owner.load(Ordering::Acquire) == 0
            && owner.compare_exchange(0, 2, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            assert_eq!(published.load(Ordering::Relaxed), 1);
            assert_eq!(
                (slot.look(0), slot.metadata().origin.publisher()),
                (MessageState::There, 1)
            );
        }
        leaving.join().unwrap();
    });
}

/// `Subscriber::advance` and `back_pressure::slowest`: a publisher that sees the cursor beyond a
/// slot overwrites nothing that is still being read.
#[test]
fn loom_topic_a_slot_is_overwritten_after_it_was_read() {
    explore_all(|| {
        let world = Arc::new((Slot::new(), AtomicU64::new(0)));
        let metadata = |order| Metadata {
            order,
            origin: Origin::default(),
            len: 0,
            object: None,
            stamp: 0,
            has_header: false,
        };
        world.0.describe(metadata(1));
        world.0.publish(0);
        let reading = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let read = world.0.metadata().order;
                world.1.store(1, Ordering::Release);
                read
            })
        };
        if world.1.load(Ordering::Acquire) == 1 {
            world.0.begin();
            world.0.describe(metadata(2));
            world.0.publish(1);
        }
        assert_eq!(reading.join().unwrap(), 1, "a reliable subscriber reads its own message");
    });
}

/// `ring::make` and `Shared::rings`: a thread that sees a ring counted sees the ring's slots.
#[test]
fn loom_topic_a_ring_that_is_counted_has_slots() {
    explore_all(|| {
        let world = Arc::new((AtomicU64::new(0), AtomicU32::new(0)));
        let making = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.0.store(7, Ordering::Relaxed);
                world.1.fetch_max(1, Ordering::Release);
            })
        };
        if world.1.load(Ordering::Acquire) == 1 {
            assert_eq!(world.0.load(Ordering::Relaxed), 7);
        }
        making.join().unwrap();
    });
}

/// `subscriber_slot::join` and `hazard::names`: a publisher reads the number of subscribers after
/// it has overwritten the slot. So it finds a hold on the object that it would use again also of a
/// subscriber that has just been added.
#[test]
fn loom_topic_a_subscriber_that_has_just_come_is_looked_at() {
    explore_all(|| {
        let world = Arc::new(World::new());
        world.publish(0, 0);
        let joining = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                world.subscribers.fetch_max(1, Ordering::Release);
                let metadata = world.slot.metadata();
                world.slot.look(0) == MessageState::There
                    && metadata.object == Some(0)
                    && world.slot.hold(0, 0, &world.hazard_pointers(), 0)
            })
        };
        world.publish(1, 1);
        let mut held = Vec::new();
        let subscribers =
            || (0..world.subscribers.load(Ordering::Acquire)).map(|_| world.hazard_pointers());
        names(subscribers, &mut held);
        let is_named = held.contains(&0);
        assert!(
            !joining.join().unwrap() || is_named,
            "an object that a subscriber holds is used again"
        );
    });
}

/// A slot, and a subscriber that counts from the moment at which a subscriber joins.
struct World {
    slot: Slot,
    subscribers: AtomicU32,
    hazard_pointers: [AtomicU32; 1],
    high: AtomicU32,
}

impl World {
    fn new() -> World {
        World {
            slot: Slot::new(),
            subscribers: AtomicU32::new(0),
            hazard_pointers: [AtomicU32::new(0)],
            high: AtomicU32::new(0),
        }
    }

    fn hazard_pointers(&self) -> HazardPointers<'_> {
        HazardPointers { pointers: &self.hazard_pointers, high: &self.high }
    }

    fn publish(&self, position: u64, object: u32) {
        self.slot.begin();
        self.slot.describe(Metadata {
            order: position,
            origin: Origin::default(),
            len: 16,
            object: Some(object),
            stamp: 0,
            has_header: false,
        });
        self.slot.publish(position);
    }
}
