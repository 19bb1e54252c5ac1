//! Which rings a subscriber looks at, and a publisher: not at those whose publishers are long gone.
//!
//! `publisher_changes` counts publishers that have come and gone. A publisher counts itself after
//! its name is in `owner`, and before its first message. So a process that has seen all that it
//! needs of a ring without a publisher need not look there again until the count changes.
//!
//! | step of the one that looks | why |
//! | --- | --- |
//! | the count | first: a publisher that comes later changes it |
//! | each ring's `owner` | 0, looked after, or a process that has exited: no message comes |
//! | what is in the ring | after `owner`: the last publisher has published all of it |
//!
//! A publisher that dies or is stopped before it counts itself has published nothing. One that dies
//! later stays in sight until it has exited and the rings are chosen again: after the next change,
//! or some looks. proof/models/topic_watched.pml.

use std::sync::Arc;

use super::due::Expected;
use super::mapping::Inner;
use super::ring_owner::publisher;
use crate::liveness::Ends;
use crate::shim::Ordering;

/// After so many looks that found something, or a 64th of that which found nothing, a subscriber
/// of several rings chooses again: a publisher that was killed does not change the count.
const OLD: u32 = 1024;

/// The rings that a subscriber looks at.
#[derive(Default)]
pub(super) struct Watched {
    /// The count that they were chosen by; `None`: they were not chosen yet.
    seen: Option<u32>,
    pub(super) rings: Vec<u32>,
    gone: Gone,
    age: u32,
    /// The place among `rings` where something was found last.
    found_at: usize,
}

/// By ring: the owner that is known to have exited, or 0.
#[derive(Default)]
struct Gone(Vec<u32>);

impl Gone {
    fn with_room_for(publishers: u32) -> Gone {
        let mut gone = in_memory(publishers, 0);
        gone.resize(publishers as usize, 0);
        Gone(gone)
    }

    /// Returns whether a publisher may write into the ring.
    fn has_publisher(&mut self, inner: &Inner, ends: &Ends, index: u32) -> bool {
        // Acquire pairs with `ring::release`: what its last publisher did. And with the kernel's
        // mark of a dead one.
        let owner = inner.ring(index).owner.load(Ordering::Acquire);
        let at = index as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        // A token's number is given to another process in time, so what is known is of an owner
        // that was there at the last choice, and dead: each change in between leads to a choice.
        let is_known = core::mem::take(&mut self.0[at]) == owner;
        let Some(id) = publisher(owner) else { return false };
        if inner.registry.is_alive(id) {
            return true;
        }
        if is_known {
            self.0[at] = owner;
            return false;
        }
        // Dead is not enough: a thread of it may still publish.
        if !ends.has_ended(id) {
            return true;
        }
        self.0[at] = owner;
        false
    }
}

/// Returns an empty list with room for so many items, whose memory has been written to: what is put there
/// later, in a control loop, is no page fault and takes no memory.
pub(super) fn in_memory<T: Copy>(items: u32, any: T) -> Vec<T> {
    let mut list = vec![any; items as usize];
    // Zeros alone would be no write: fresh memory has them.
    core::hint::black_box(&mut list[..]);
    list.fill(any);
    core::hint::black_box(&mut list[..]);
    list.clear();
    list
}

impl Watched {
    /// Returns the rings of a topic with so many publishers at the most: none is chosen yet.
    pub(super) fn with_room_for(publishers: u32) -> Watched {
        let (rings, gone) = (in_memory(publishers, 0), Gone::with_room_for(publishers));
        Watched { seen: None, rings, gone, age: 0, found_at: 0 }
    }

    /// Returns whether a publisher has come or gone since the rings were chosen.
    #[inline]
    pub(super) fn has_changed(&self, inner: &Inner) -> bool {
        self.seen != Some(inner.publisher_changes())
    }

    /// Returns the count that the rings were chosen by.
    pub(super) fn seen(&self) -> u32 {
        self.seen.unwrap_or(0)
    }

    /// Chooses anew among so many rings, how many there were after the count was `seen`.
    /// `has_something` says whether there is anything for the subscriber in a ring.
    pub(super) fn choose(
        &mut self,
        inner: &Inner,
        seen: u32,
        rings: u32,
        has_something: impl Fn(u32) -> bool,
    ) {
        (self.age, self.found_at) = (0, 0);
        let ends = inner.ends();
        let gone = &mut self.gone;
        self.rings.clear();
        self.rings.extend(
            (0..rings)
                .filter(|&ring| gone.has_publisher(inner, &ends, ring) || has_something(ring)),
        );
        self.seen = Some(seen);
    }

    /// Notes a look at several rings, and at which place it found something.
    #[inline]
    pub(super) fn note_look(&mut self, found_at: Option<usize>) {
        self.age = self.age.saturating_add(if found_at.is_some() { 1 } else { OLD / 64 });
        self.found_at = found_at.unwrap_or(self.found_at);
    }

    /// Returns the place where something was found last, or the first.
    #[inline]
    pub(super) fn found_at(&self) -> usize {
        self.found_at
    }

    /// Returns whether it is time to choose again, before the next look. Not between a look and the
    /// count that it is judged by: a publisher that came in between would be counted and not seen.
    pub(super) fn is_old(&self) -> bool {
        self.age >= OLD
    }
}

/// The other rings, as a publisher sees them: whose orders may still grow.
#[derive(Default)]
pub(super) struct Others {
    rings: Vec<u32>,
    gone: Gone,
    seen: Option<u32>,
    /// The count at which there was no other publisher.
    alone_at: Option<u32>,
    /// By when this publisher's next message is expected, if it has a period: each publish tells.
    expected: Option<Arc<Expected>>,
}

impl Others {
    /// Returns the other rings of a topic with so many publishers at the most.
    pub(super) fn with_room_for(publishers: u32) -> Others {
        let (rings, gone) = (in_memory(publishers, 0), Gone::with_room_for(publishers));
        Others { rings, gone, ..Others::default() }
    }

    /// From now on each message is noted there.
    pub(super) fn expect(&mut self, expected: Option<Arc<Expected>>) {
        self.expected = expected;
    }

    /// Returns whether no other process publishes.
    #[inline]
    pub(super) fn is_alone(&self, inner: &Inner) -> bool {
        // Relaxed: a publisher that this one has not heard of has published nothing before.
        self.alone_at == Some(inner.head().publisher_changes.load(Ordering::Relaxed))
    }

    /// Returns the highest order of the other rings and of this one, whose last order is `own`.
    pub(super) fn highest_order(&mut self, inner: &Inner, index: u32, own: u64) -> u64 {
        let mut highest = own;
        // Acquire: an order is written before its message is.
        let order = |other: u32| inner.ring(other).order.load(Ordering::Acquire);
        let seen = inner.publisher_changes();
        if self.seen != Some(seen) {
            let ends = inner.ends();
            self.rings.clear();
            for other in (0..inner.rings()).filter(|&other| other != index) {
                if self.gone.has_publisher(inner, &ends, other) {
                    self.rings.push(other);
                } else {
                    // Its last one: from here on this publisher's own order says it.
                    highest = highest.max(order(other));
                }
            }
            match &self.expected {
                None => {
                    self.seen = Some(seen);
                    self.alone_at = self.rings.is_empty().then_some(seen);
                }
                // As if another publisher were there, and had come just now: so that the next
                // message comes here, too, and a publisher without a period pays nothing.
                Some(expected) => expected.published(),
            }
        }
        self.rings.iter().map(|&other| order(other)).fold(highest, u64::max)
    }
}
