//! Hazard pointers: words of a subscriber's slot that name the objects which it holds. The
//! subscriber alone writes its own, and publishers read all of them.
//!
//! | the subscriber | the publisher |
//! | --- | --- |
//! | pointer = reference | the ring's slot is overwritten |
//! | full fence | full fence |
//! | the ring's slot, again: changed, then pointer = 0 | all pointers, once for many objects: an object that none names is free to be used again |
//!
//! | died | |
//! | --- | --- |
//! | the subscriber, with pointers set | they count until its process has ended; then a process that looks clears the subscriber's slot (`subscriber_slot.rs`) |
//! | the publisher, with objects in limbo | the ring's next owner scans the pointers (`ring.rs`) |

use core::cell::Cell;

use crate::shim::{AtomicU32, Ordering, fence};

/// How many of them lie beside the claim, and are used first.
pub(super) const NEAR: usize = 8;

/// How many of those that have been in use a subscriber tries, in turn, before it uses one more.
const FEW: usize = 64;

/// The hazard pointers of one subscriber's slot.
#[derive(Clone, Copy)]
pub(super) struct HazardPointers<'l> {
    pub(super) pointers: &'l [AtomicU32],
    /// How many have ever been in use together; scans skip the others.
    pub(super) high: &'l AtomicU32,
}

impl HazardPointers<'_> {
    fn is_free(&self, at: usize) -> bool {
        // Acquire pairs with `release`, which another thread of this process may have called.
        self.pointers.get(at).is_some_and(|pointer| pointer.load(Ordering::Acquire) == 0)
    }

    /// Returns one that is free: that one, or else one from `next` on, where the last search ended.
    #[inline]
    pub(super) fn find(&self, first: usize, next: &Cell<usize>) -> Option<usize> {
        if self.is_free(first) { Some(first) } else { self.find_far(next) }
    }

    /// A subscriber that holds many samples finds a pointer as quickly as one that holds few: it
    /// tries some of those that have been in use, and takes a new one if none of these is free.
    #[inline(never)]
    fn find_far(&self, next: &Cell<usize>) -> Option<usize> {
        let high = self.used().len();
        for _ in 0..FEW.min(high) {
            let at = if next.get() < high { next.get() } else { 0 };
            next.set(at + 1);
            if self.is_free(at) {
                return Some(at);
            }
        }
        if self.is_free(high) {
            return Some(high);
        }
        (0..self.pointers.len()).find(|&at| self.is_free(at))
    }

    #[inline]
    pub(super) fn set(&self, at: usize, reference: u32) {
        if self.high.load(Ordering::Relaxed) as usize <= at {
            // Relaxed: before the fence in `Slot::hold`, as the pointer.
            self.high.store(at as u32 + 1, Ordering::Relaxed);
        }
        // Release, for what the pointer named before: a publisher that finds this name instead
        // knows that the other object has been read.
        self.pointers[at].store(reference.wrapping_add(1), Ordering::Release);
    }

    /// Clears a pointer that was set in vain.
    pub(super) fn clear(&self, at: usize) {
        self.pointers[at].store(0, Ordering::Release);
    }

    /// Returns whether any object is held.
    pub(super) fn any(&self) -> bool {
        self.pointers.iter().any(|pointer| pointer.load(Ordering::Acquire) != 0)
    }

    /// Returns how many objects are held.
    pub(super) fn count(&self) -> u32 {
        self.used().iter().filter(|pointer| pointer.load(Ordering::Relaxed) != 0).count() as u32
    }

    /// The slot changes hands, and no thread of the old owner reads any more.
    pub(super) fn reset(&self) {
        self.pointers.iter().for_each(|pointer| pointer.store(0, Ordering::Relaxed));
        self.high.store(0, Ordering::Release);
    }

    /// Returns those that have ever been in use together. A damaged word may say more.
    fn used(&self) -> &[AtomicU32] {
        let high = (self.high.load(Ordering::Relaxed) as usize).min(self.pointers.len());
        &self.pointers[..high]
    }
}

/// Clears the pointer: its holder has finished with the object.
#[inline]
pub(super) fn release(pointer: &AtomicU32) {
    // Release pairs with `names`: it has been read. If this thread died just before, the object is
    // held until its process has ended.
    pointer.store(0, Ordering::Release);
}

/// Collects what any subscriber holds, in order. The caller has overwritten the slots whose objects
/// it asks about; `subscribers` is called in here, after the fence, because a subscriber that came
/// before it may hold one of them.
pub(super) fn names<'l, L: Iterator<Item = HazardPointers<'l>>>(
    subscribers: impl FnOnce() -> L,
    into: &mut Vec<u32>,
) {
    // Pairs with the fence in `Slot::hold`.
    fence(Ordering::SeqCst);
    into.clear();
    for subscriber in subscribers() {
        // Acquire pairs with `release`.
        let held = subscriber.used().iter();
        let held = held.filter_map(|pointer| pointer.load(Ordering::Acquire).checked_sub(1));
        into.extend(held);
    }
    into.sort_unstable();
}

#[cfg(all(test, loom))]
mod loom_tests {
    use core::mem::MaybeUninit;

    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    use super::super::slot::{INLINE_WORDS, MessageState, Metadata, Origin, Slot};
    use super::*;
    use crate::shim::{explore, explore_all};

    /// One slot of a ring, one subscriber, two objects.
    struct World {
        slot: Slot,
        pointers: [AtomicU32; 1],
        high: AtomicU32,
        objects: [UnsafeCell<u64>; 2],
    }

    // SAFETY: loom checks the accesses to the objects; the test shows that they never overlap.
    unsafe impl Sync for World {}
    // SAFETY: loom checks the accesses to the objects, from whichever thread.
    unsafe impl Send for World {}

    fn metadata(order: u64, object: Option<u32>) -> Metadata {
        Metadata { order, origin: Origin::default(), len: 16, object, stamp: 0, has_header: false }
    }

    impl World {
        fn new() -> World {
            World {
                slot: Slot::new(),
                pointers: [AtomicU32::new(0)],
                high: AtomicU32::new(0),
                objects: [UnsafeCell::new(0), UnsafeCell::new(0)],
            }
        }

        fn hazard_pointers(&self) -> HazardPointers<'_> {
            HazardPointers { pointers: &self.pointers, high: &self.high }
        }

        fn publish_object(&self, position: u64, object: u32) {
            // SAFETY: loom reports an access at the same time; `names` shows that no reader holds
            // the object.
            self.objects[object as usize].with_mut(|bytes| unsafe { *bytes = position + 100 });
            self.slot.begin();
            self.slot.describe(metadata(position, Some(object)));
            self.slot.publish(position);
        }

        /// Takes message `position` if it is there, as a subscriber does.
        fn take(&self, position: u64) {
            if self.slot.look(position) != MessageState::There {
                return;
            }
            let metadata = self.slot.metadata();
            let Some(object) = metadata.object else { return };
            if self.slot.hold(position, object, &self.hazard_pointers(), 0) {
                assert_eq!(metadata.order, position, "no mix of two messages");
                // SAFETY: loom reports a write at the same time; the hazard pointer holds the
                // object.
                let bytes = self.objects[object as usize].with(|bytes| unsafe { *bytes });
                assert_eq!(bytes, position + 100, "the bytes of that message");
                release(&self.pointers[0]);
            }
        }

        fn is_held(&self, object: u32) -> bool {
            let mut held = Vec::new();
            names(|| [self.hazard_pointers()].into_iter(), &mut held);
            held.contains(&object)
        }
    }

    #[test]
    fn loom_topic_hold_against_reuse() {
        explore_all(|| {
            let world = Arc::new(World::new());
            world.publish_object(0, 0);
            let reader = {
                let world = Arc::clone(&world);
                thread::spawn(move || world.take(0))
            };
            world.publish_object(1, 1);
            if !world.is_held(0) {
                world.publish_object(2, 0);
            }
            reader.join().unwrap();
            assert!(!world.hazard_pointers().any(), "nothing is held any more");
        });
    }

    #[test]
    fn loom_topic_hold_of_the_later_message() {
        explore(3, || {
            let world = Arc::new(World::new());
            let reader = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.take(0);
                    world.take(1);
                })
            };
            world.publish_object(0, 0);
            world.publish_object(1, 1);
            if !world.is_held(0) {
                world.publish_object(2, 0);
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn loom_topic_inline_copies_are_whole() {
        explore_all(|| {
            let world = Arc::new(World::new());
            let write = |world: &World, position: u64| {
                world.slot.begin();
                world.slot.describe(metadata(position, None));
                world.slot.write(&[position as u8 + 1; 16]);
                world.slot.publish(position);
            };
            write(&world, 0);
            let reader = {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    for position in 0..2 {
                        if world.slot.look(position) != MessageState::There {
                            continue;
                        }
                        let metadata = world.slot.metadata();
                        let mut words = [MaybeUninit::new(0); INLINE_WORDS];
                        world.slot.read(16, &mut words);
                        if world.slot.is_still(position) {
                            let byte = position as u8 + 1;
                            // SAFETY: `words` is initialized above, to zeroes.
                            let read = words.map(|word| unsafe { word.assume_init() });
                            assert_eq!(
                                read,
                                [u64::from_ne_bytes([byte; 8]); 2],
                                "not of two messages"
                            );
                            assert_eq!(metadata.order, position);
                        }
                    }
                })
            };
            write(&world, 1);
            reader.join().unwrap();
        });
    }
}
