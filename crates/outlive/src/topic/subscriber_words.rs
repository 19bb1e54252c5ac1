//! The words of a subscriber's slot, which lies in the topic's control file.
//!
//! ```text
//! 0     SubscriberSlot: the claim, counters
//! 32    hazard pointers, 4 bytes each
//! ...   cursors, 8 bytes for each ring
//! ...   KeptWords: its name, and since when publishers wait for a successor
//! ```
//! How many hazard pointers and cursors there are, the topic's [`Capacity`] says. A slot has pages of its
//! own, since no process but its owner's writes most of them.

use super::hazard::{HazardPointers, NEAR};
use super::layout::{Capacity, PAGE, Plan};
use crate::segment::SharedLayout;
use crate::shim::{AtomicU32, AtomicU64};

/// Where a subscriber's hazard pointers begin in its slot: the first [`NEAR`] lie in the same cache
/// line as the claim. Most subscribers need no more, and a publisher that scans takes one cache line
/// from them.
const POINTERS_AT: u64 = size_of::<SubscriberSlot>() as u64;

impl Capacity {
    /// Returns where the cursors begin in a subscriber's slot.
    fn cursors_at(self) -> u64 {
        (POINTERS_AT + u64::from(self.samples) * 4).next_multiple_of(8)
    }

    /// Returns where the words of a slot that is kept begin, behind the cursors.
    fn kept_at(self) -> u64 {
        self.cursors_at() + u64::from(self.publishers) * 8
    }

    /// Returns the bytes of a subscriber's slot: whole pages, since no other process writes there.
    pub(super) fn subscriber_slot_bytes(self) -> u64 {
        (self.kept_at() + size_of::<KeptWords>() as u64).next_multiple_of(PAGE)
    }
}

/// The first words of a subscriber's slot. Behind them lie its hazard pointers and its cursors:
/// [`SubscriberWords`].
#[repr(C)]
pub(super) struct SubscriberSlot {
    /// See [`Claim`].
    pub(super) claim: AtomicU64,
    high: AtomicU32,
    // Written by its owner.
    /// How often it was told that publishers had stopped waiting for it.
    pub(super) lagged: AtomicU32,
    pub(super) taken: AtomicU64,
    pub(super) lost: AtomicU64,
}

/// The most bytes of a subscriber's name.
pub(super) const NAME: usize = 64;

/// The last words of a subscriber's slot, of a subscriber that has a name: kept.rs.
#[repr(C)]
pub(super) struct KeptWords {
    // Written by the slot's owner, before its claim says that it is kept.
    /// Its bytes, then zeros.
    pub(super) name: [AtomicU64; NAME / 8],
    /// For how long publishers wait while it has no living owner: nanoseconds. A successor writes its own.
    pub(super) patience: AtomicU64,
    // Written by publishers; by the slot's owner before its claim says that it is kept.
    /// Since when publishers wait for it without a living owner, and for which of its turns: kept.rs.
    pub(super) ownerless: AtomicU64,
}

/// A subscriber's slot in this process's mapping.
#[derive(Clone, Copy)]
pub(super) struct SubscriberWords<'i> {
    words: &'i SubscriberSlot,
    pointers: &'i [AtomicU32],
    /// By ring: the subscriber's next message.
    pub(super) cursors: &'i [AtomicU64],
    pub(super) kept: &'i KeptWords,
}

/// Where a subscriber's slot lies in this process's mapping.
#[derive(Clone, Copy)]
pub(super) struct SubscriberAddress {
    words: *const SubscriberSlot,
    pointers: *const [AtomicU32],
    cursors: *const [AtomicU64],
    kept: *const KeptWords,
}

impl SubscriberAddress {
    /// Returns the slot.
    ///
    /// # Safety
    /// The topic stays mapped for `'i`.
    #[inline]
    pub(super) unsafe fn get<'i>(self) -> SubscriberWords<'i> {
        // SAFETY: they come from `SubscriberWords::address`; the caller keeps the mapping.
        unsafe {
            SubscriberWords {
                words: &*self.words,
                pointers: &*self.pointers,
                cursors: &*self.cursors,
                kept: &*self.kept,
            }
        }
    }
}

const _: () = assert!(size_of::<SubscriberSlot>() + NEAR * size_of::<AtomicU32>() == 64);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl SharedLayout for SubscriberSlot {}

impl<'i> SubscriberWords<'i> {
    /// # Safety
    /// At `base` lies a slot of that plan, aligned to a page, which stays mapped for `'i`.
    pub(super) unsafe fn at(base: *const u8, plan: &Plan) -> SubscriberWords<'i> {
        let Capacity { publishers, samples, .. } = plan.capacity;
        // SAFETY: all of it lies in the slot, by `Capacity::subscriber_slot_bytes`; aligned, and
        // all atomics.
        unsafe {
            let pointers = base.add(POINTERS_AT as usize).cast();
            let cursors = base.add(plan.capacity.cursors_at() as usize).cast();
            SubscriberWords {
                words: &*base.cast(),
                pointers: core::slice::from_raw_parts(pointers, samples as usize),
                cursors: core::slice::from_raw_parts(cursors, publishers as usize),
                kept: &*base.add(plan.capacity.kept_at() as usize).cast(),
            }
        }
    }

    pub(super) fn address(self) -> SubscriberAddress {
        let SubscriberWords { words, pointers, cursors, kept } = self;
        SubscriberAddress { words, pointers, cursors, kept }
    }

    #[inline]
    pub(super) fn hazard_pointers(self) -> HazardPointers<'i> {
        HazardPointers { pointers: self.pointers, high: &self.words.high }
    }

    #[inline]
    pub(super) fn hazard_pointer(self, at: usize) -> &'i AtomicU32 {
        &self.pointers[at]
    }
}

impl core::ops::Deref for SubscriberWords<'_> {
    type Target = SubscriberSlot;

    #[inline]
    fn deref(&self) -> &SubscriberSlot {
        self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::layout::{MOST, USUAL};

    #[test]
    fn a_usual_slot_is_a_page_and_the_largest_has_room_for_all() {
        assert_eq!((USUAL.cursors_at(), USUAL.subscriber_slot_bytes()), (1056, PAGE));
        assert_eq!(
            MOST.subscriber_slot_bytes(),
            (32 + (4 << 16) + 8192_u64).next_multiple_of(PAGE)
        );
    }
}
