//! A listener's slot: which process has it, and the notices that it has not taken.
//!
//! | `claim` | meaning | a death here |
//! | --- | --- | --- |
//! | 0 | free | |
//! | (P, joining) | its counts are being cleared | it counts for nothing; the slot is free once P has ended |
//! | (P, listening) | notifiers add to its counts | the same; what it had not taken goes with it |
//! | (P, kept), (0, kept) | a gateway's: its counts only grow | notifiers go on adding to its counts; the gateway's successor takes it over |
//!
//! | the notifier | the listener |
//! | --- | --- |
//! | 1. `counts[id]` + n | 1. `pending` -> 0 |
//! | 2. `pending` gets the bit of id | 2. for each bit of what was there: `counts[id]` -> 0 |
//! | 3. it notifies the eventcount | |
//!
//! | a notifier died, or was stopped | the listener |
//! | --- | --- |
//! | after 1 | the bit is not there: the next notice of that number brings the count with it |
//! | after 2 | takes it when it looks. One that sleeps is woken by the notifier's end, which it watches, or by the next notifier; beside a stopped notifier it finds it at its recheck |
//!
//! A listener that takes between another notifier's two steps takes its count, too. The bit then
//! comes with a count of 0, and stands for nothing.

use super::ids::IDS;
use super::notices::Notices;
use crate::liveness::TokenId;
use crate::segment::SharedLayout;
use crate::shim::{AtomicU64, Ordering, Pad64, fence};
use crate::wake::EventCount;

/// See the file's head. All zeroes: free.
#[repr(C)]
pub(super) struct ListenerSlot {
    // Written by a process that joins or leaves, and by a sweep.
    claim: AtomicU64,
    // Written by notifiers and by the listener.
    /// The numbers of which there are notices.
    pending: AtomicU64,
    pub(super) notifications: EventCount,
    reserved: [Pad64; 2],
    // Of a kept slot: constant since the first owner has joined.
    /// Which gateway's it is.
    pub(super) keeper: AtomicU64,
    /// A number that no other one has, nor a later one of that gateway.
    pub(super) tenure: AtomicU64,
    /// How many notifiers had died by then.
    pub(super) deaths_before: AtomicU64,
    counts: [AtomicU64; IDS],
}

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for ListenerSlot {}

const JOINING: u64 = 1 << 32;
const LISTENING: u64 = 2 << 32;
const KEPT: u64 = 3 << 32;

impl ListenerSlot {
    /// Returns the process that has the slot, joining or listening.
    pub(super) fn owner(&self) -> Option<TokenId> {
        // Acquire: a process that finds the owner dead frees the slot after all that it did.
        TokenId::from_word(self.claim.load(Ordering::Acquire) as u32)
    }

    /// Returns the process that listens.
    #[inline]
    pub(super) fn listening(&self) -> Option<TokenId> {
        // Acquire pairs with the Release in `join`: the counts are cleared.
        let word = self.claim.load(Ordering::Acquire);
        TokenId::from_word(word as u32).filter(|_| word >> 32 == LISTENING >> 32)
    }

    /// Returns whether a gateway counts by it, living or dead.
    #[inline]
    pub(super) fn is_kept(&self) -> bool {
        // Acquire pairs with the Release in `keep`: the counts are cleared.
        self.claim.load(Ordering::Acquire) >> 32 == KEPT >> 32
    }

    /// Takes the slot if it is free, or if its owner has ended; one that is kept, only if `kept_too`. It
    /// counts for nothing yet.
    pub(super) fn take(
        &self,
        process: TokenId,
        kept_too: bool,
        has_ended: impl Fn(TokenId) -> bool,
    ) -> bool {
        let seen = self.claim.load(Ordering::Acquire);
        let is_taken = TokenId::from_word(seen as u32).is_some_and(|owner| !has_ended(owner))
            || !kept_too && seen >> 32 == KEPT >> 32;
        let joining = JOINING | u64::from(process.as_u32());
        // Acquire: after all that its last owner did with it. Died just after: the slot has a dead
        // owner that counts for nothing.
        !is_taken
            && self
                .claim
                .compare_exchange(seen, joining, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }

    /// Begins to listen, with nothing pending.
    pub(super) fn join(&self, process: TokenId) {
        self.begin(process, LISTENING);
    }

    /// The same, for a gateway's totals: they are kept over its death.
    pub(super) fn keep(&self, process: TokenId) {
        self.begin(process, KEPT);
    }

    /// Takes a kept slot over from its last owner, with its counts. Returns whether it was kept.
    pub(super) fn take_over(&self, process: TokenId) -> bool {
        let seen = self.claim.load(Ordering::Acquire);
        let kept = KEPT | u64::from(process.as_u32());
        // Died before or after: the slot is kept, and the next one takes it over.
        seen >> 32 == KEPT >> 32
            && self.claim.compare_exchange(seen, kept, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    fn begin(&self, process: TokenId, how: u64) {
        // In this order: a notifier that took this slot for its last owner's sets a bit after its
        // count. So a count of its that stays has its bit; and its notice is one that was under way
        // when this listener joined.
        self.pending.swap(0, Ordering::AcqRel);
        for count in &self.counts {
            count.swap(0, Ordering::AcqRel);
        }
        // Release pairs with `listening`. Died just before or after: the slot has a dead owner.
        self.claim.store(how | u64::from(process.as_u32()), Ordering::Release);
        // Pairs with the fence in `Inner::tell`: a notification that does not find this listener is
        // of something that the listener's thread sees when it looks from here on.
        fence(Ordering::SeqCst);
    }

    /// Frees the slot: its owner leaves.
    pub(super) fn leave(&self, process: TokenId) {
        let own = LISTENING | u64::from(process.as_u32());
        // Release pairs with the Acquire in `take`. Died just before: the slot has a dead owner.
        // Failed: this process was taken for dead, and the slot is another's.
        let _ = self.claim.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Frees the slot of an owner that has ended, for a sweep; one that is kept stays so.
    pub(super) fn clear(&self, owner: TokenId) {
        let seen = self.claim.load(Ordering::Acquire);
        if TokenId::from_word(seen as u32) == Some(owner) {
            let next = if seen >> 32 == KEPT >> 32 { KEPT } else { 0 };
            let _ = self.claim.compare_exchange(seen, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Marks what is pending as seen, and leaves the counts.
    pub(super) fn look_at_totals(&self) -> [u64; IDS] {
        // Acquire pairs with the Release in `add`: the counts of these bits.
        self.pending.swap(0, Ordering::AcqRel);
        core::array::from_fn(|id| self.counts[id].load(Ordering::Relaxed))
    }

    /// Adds notices of one number, below [`IDS`], and wakes the listener.
    #[inline]
    pub(super) fn add(&self, id: u32, notices: u64) {
        self.count(id, notices);
        self.notifications.notify_all();
    }

    /// Adds notices and wakes no listener.
    #[inline]
    pub(super) fn count(&self, id: u32, notices: u64) {
        // Acquire pairs with `join`: a count that a new listener finds has a bit that comes after
        // the listener has cleared `pending`. A count of 64 bits is never full. Died or stopped
        // just after: the next notice of that number brings it with it; this one has not returned.
        self.counts[id as usize].fetch_add(notices, Ordering::Acquire);
        // Release pairs with the swap in `take_notices`: the count. Died or stopped just after: the
        // listener finds it when it looks.
        self.pending.fetch_or(1 << id, Ordering::Release);
    }

    /// Returns whether there is something to be taken. It may turn out to be nothing: see the head
    /// of this file.
    #[inline]
    pub(super) fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire) != 0
    }

    /// Takes all notices that are there.
    pub(super) fn take_notices(&self, into: &mut Notices) {
        if !self.is_pending() {
            return;
        }
        // Acquire pairs with the Release in `add`: the counts of these bits. Died just after: the
        // notices go with the listener.
        let mut bits = self.pending.swap(0, Ordering::AcqRel);
        while bits != 0 {
            let id = bits.trailing_zeros();
            bits &= bits - 1;
            if let Some(count) = self.counts.get(id as usize) {
                // Relaxed: nothing comes with a count but itself; the swap above has ordered what
                // was done before its bit.
                into.add(id, count.swap(0, Ordering::Relaxed));
            }
        }
    }

    /// Returns the notices that are there, and leaves them.
    pub(super) fn pending_notices(&self) -> Notices {
        let mut notices = Notices::default();
        let bits = self.pending.load(Ordering::Acquire);
        for (id, count) in self.counts.iter().enumerate().filter(|(id, _)| bits >> id & 1 != 0) {
            notices.add(id as u32, count.load(Ordering::Relaxed));
        }
        notices
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::shim::explore;

    fn slot() -> Arc<ListenerSlot> {
        Arc::new(ListenerSlot {
            claim: AtomicU64::new(0),
            pending: AtomicU64::new(0),
            notifications: EventCount::default(),
            reserved: [0; 2],
            keeper: AtomicU64::new(0),
            tenure: AtomicU64::new(0),
            deaths_before: AtomicU64::new(0),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Two notifiers of one number: one's count may go with the other's bit, and none is lost.
    #[test]
    fn loom_all_notices_are_taken() {
        explore(3, || {
            let slot = slot();
            let notifiers = [(0, 1), (0, 2)].map(|(id, count)| {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.add(id, count))
            });
            let mut told = Notices::default();
            slot.take_notices(&mut told);
            slot.take_notices(&mut told);
            notifiers.into_iter().for_each(|one| one.join().unwrap());
            slot.take_notices(&mut told);
            assert_eq!((told.count(0), told.count(1)), (3, 0));
        });
    }

    /// A gateway is killed beside a notifier, and its successor has all totals.
    #[test]
    fn loom_a_kept_slot_loses_no_count_when_it_is_taken_over() {
        explore(3, || {
            let slot = slot();
            slot.keep(TokenId::new(0, 0));
            let notifier = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.add(1, 2))
            };
            slot.clear(TokenId::new(0, 0));
            assert!(slot.is_kept() && !slot.take(TokenId::new(2, 0), false, |_| true));
            assert!(slot.take_over(TokenId::new(1, 0)));
            let before = slot.look_at_totals()[1];
            notifier.join().unwrap();
            assert!(slot.look_at_totals()[1] == 2 && (before == 2 || before == 0));
        });
    }

    /// A notifier that is slow means the slot's last owner.
    #[test]
    fn loom_a_count_that_a_new_listener_finds_has_its_bit() {
        explore(3, || {
            let slot = slot();
            let late = {
                let slot = Arc::clone(&slot);
                thread::spawn(move || slot.add(1, 1))
            };
            slot.join(TokenId::new(0, 0));
            late.join().unwrap();
            let count = slot.counts[1].load(Ordering::Relaxed);
            assert!(count == 0 || slot.is_pending());
        });
    }
}
