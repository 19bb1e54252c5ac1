//! The layout of a job queue's file.
//!
//! ```text
//! page 0      header of every segment
//! page 1      JobsHead
//!    + 512    the words of all slots that there may ever be, 8 bytes each
//!             the tickets of the jobs in them, 8 bytes each
//! next page   slots 0, 1, …, a whole number of cache lines each: length, bytes
//! ```
//! `slots` says how many slots have pages; address space is reserved for all that there may ever
//! be.

use crate::segment::{BODY, MOST_RESERVED};
use crate::shim::{AtomicU32, AtomicU64, Pad32, Pad64};
use crate::wake::EventCount;

/// The shared words of a job queue.
#[repr(C)]
pub(super) struct JobsHead {
    // Written by the creator, constant from then on.
    /// The most bytes of a job.
    pub(super) job_bytes: AtomicU64,
    /// The most slots.
    pub(super) max_jobs: AtomicU32,
    /// How often a job may be taken; 0: no limit.
    pub(super) max_attempts: AtomicU32,
    /// Bit 0: all jobs are of `job_bytes` bytes.
    pub(super) options: AtomicU32,
    /// Bytes of each of the values of a slice, or of the items of a tail; a job's length behind
    /// `base` is a multiple of it.
    pub(super) unit: AtomicU32,
    /// The fewest bytes of a job: of the head before a tail.
    pub(super) base: AtomicU32,
    pub(super) reserved: [Pad32; 9],
    // Written by producers.
    pub(super) tickets: AtomicU64,
    /// Slots that have pages.
    pub(super) slots: AtomicU32,
    pub(super) reserved_2: [Pad32; 13],
    // Written by workers that go to sleep, and by producers.
    pub(super) jobs: EventCount,
    pub(super) reserved_3: [Pad64; 7],
    // Written by producers that go to sleep, and by workers.
    pub(super) room: EventCount,
    pub(super) reserved_4: [Pad64; 7],
    // Written by processes that join, and by workers.
    pub(super) finished: EventCount,
    pub(super) reserved_5: [Pad64; 7],
}

crate::shim::assert_layout!(
    core::mem::offset_of!(JobsHead, tickets) == 64,
    core::mem::offset_of!(JobsHead, jobs) == 128,
    core::mem::offset_of!(JobsHead, room) == 192,
    core::mem::offset_of!(JobsHead, finished) == 256,
    size_of::<JobsHead>() as u64 <= WORDS_AT - HEAD_AT,
);

// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for JobsHead {}

pub(super) const HEAD_AT: u64 = BODY;
pub(super) const WORDS_AT: u64 = HEAD_AT + 512;
/// Of a slot: the job's length, before its bytes.
pub(super) const SLOT_HEAD: u64 = 8;
/// In `options`.
pub(super) const FIXED_SIZE: u32 = 1;

pub(super) const MOST_JOBS: u32 = 1 << 16;
/// The largest job.
pub(super) const MOST_JOB_BYTES: u64 = 16 << 20;
/// The most attempts that can be set as the limit.
pub(super) const MOST_MAX_ATTEMPTS: u32 = 1000;
/// Slots are added in steps of no more bytes, but one at least.
const LONGEST_STEP: u64 = 2 << 20;
/// New queues have slots for so many bytes, but one at least.
const FIRST_BYTES: u64 = 32 << 10;

/// Where each part of the file lies.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub(super) max_jobs: u32,
    pub(super) job_bytes: u64,
}

impl Places {
    /// Returns the places, if such a file can be mapped.
    pub(super) fn checked(max_jobs: u32, job_bytes: u64) -> Option<Places> {
        let places = Places { max_jobs, job_bytes };
        let is_possible = (1..=MOST_JOBS).contains(&max_jobs)
            && job_bytes <= MOST_JOB_BYTES
            && places.slot_at(max_jobs) <= MOST_RESERVED;
        is_possible.then_some(places)
    }

    pub(super) fn ids_at(self) -> u64 {
        WORDS_AT + 8 * u64::from(self.max_jobs)
    }

    /// Returns the bytes from one slot to the next.
    pub(super) fn step(self) -> u64 {
        (SLOT_HEAD + self.job_bytes).next_multiple_of(64)
    }

    /// Returns where a slot begins; of the number of slots, where the file ends.
    pub(super) fn slot_at(self, index: u32) -> u64 {
        (self.ids_at() + 8 * u64::from(self.max_jobs)).next_multiple_of(4096)
            + u64::from(index) * self.step()
    }

    /// Returns how many slots a new file has.
    pub(super) fn first_slots(self) -> u32 {
        ((FIRST_BYTES / self.step()) as u32).clamp(1, self.max_jobs)
    }

    /// Returns how many slots there are after so many, when they are all in use: twice as many, as
    /// far as the limits allow.
    pub(super) fn more_slots(self, slots: u32) -> u32 {
        let step = u64::from(slots).min(LONGEST_STEP / self.step()).max(1);
        (slots + step as u32).min(self.max_jobs)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_stay_within_what_can_be_mapped() {
        assert!(Places::checked(0, 8).is_none());
        assert!(Places::checked(MOST_JOBS + 1, 8).is_none());
        assert!(Places::checked(1, MOST_JOB_BYTES + 1).is_none());
        assert!(Places::checked(MOST_JOBS, MOST_JOB_BYTES).is_none(), "a terabyte");
        let small = Places::checked(5, 1).expect("possible");
        assert_eq!((small.step(), small.first_slots(), small.more_slots(5)), (64, 5, 5));
        assert_eq!(small.slot_at(0) % 4096, 0);
        let large = Places::checked(1000, 4 << 20).expect("possible");
        assert_eq!((large.first_slots(), large.more_slots(1), large.more_slots(7)), (1, 2, 8));
        let usual = Places::checked(1024, 4096).expect("possible");
        assert_eq!((usual.first_slots(), usual.more_slots(7)), (7, 14));
    }
}
