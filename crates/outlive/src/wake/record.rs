//! What a sleeping thread waits for, written into its own slot of the registry, for inspection.
//!
//! No protocol depends on a record: a thread writes it just before a sleep and clears it just
//! after. A record holds the *address* of the word, in the sleeper's own memory; an inspecting
//! process finds by `/proc/PID/maps` which file lies there. So a sleep costs two stores and a look
//! at the clock more, whatever the primitive.
//!
//! ```text
//! waiting_at                       waiting_since: milliseconds of CLOCK_MONOTONIC, modulo 2^32 (49 days);
//!  63     48 47             0      the first sleep of this acquisition
//! +---------+----------------+
//! |  later  |    address     |     later: how much later the word got its present value, in eighths of a second,
//! +---------+----------------+     rounded up; 65,535: too long ago to tell
//! ```
//! The slot's two cache lines have twelve bytes left for a record, hence the packing. 0: the thread
//! does not wait. A dead thread's record means nothing: its token is dead, and the
//! next claimer of the slot clears it.

use std::cell::Cell;
use std::time::Duration;

use crate::liveness::{Registry, Slot, TokenId, WAITERS};
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::sys::{clock, robust};

/// The last sleep of this thread: another sleep for the same thing continues its record.
#[derive(Clone, Copy)]
struct Last {
    acquisition: u32,
    address: u64,
    /// When the wait began, and when the word got this value; milliseconds.
    since: u32,
    value: u32,
    value_since: u32,
    /// The sleep ended because time passed, not because another thread woke this one.
    timed_out: bool,
}

thread_local! {
    static LAST: Cell<Option<Last>> = const { Cell::new(None) };
}

const ADDRESS: u64 = (1 << LATER_AT) - 1;
const LATER_AT: u32 = 48;
/// The unit of `later`, in milliseconds.
const EIGHTH: u32 = 125;
const TOO_LATE: u32 = 0xffff;

/// A record in place, to be cleared.
pub(crate) struct WaitRecord {
    slot: &'static Slot,
    last: Last,
}

impl WaitRecord {
    /// Records that the calling thread is about to sleep on that word. `None`: the thread has no
    /// token, so no process would find the record.
    pub(crate) fn begin(registry: &Registry, watch: Option<&Watch<'_>>) -> Option<WaitRecord> {
        let watch = watch?;
        let id = TokenId::from_word(registry.current_bits())?;
        let slot = registry.slot(id)?;
        let address = watch.word.as_ptr() as u64;
        if address & !ADDRESS != 0 {
            return None;
        }
        let now = now();
        let acquisition = robust::acquisition();
        let fresh = Last {
            acquisition,
            address,
            since: now,
            value: watch.expected & !WAITERS,
            value_since: now,
            timed_out: false,
        };
        let last = match LAST.get() {
            Some(last) if (last.acquisition, last.address) == (acquisition, address) => {
                let value_since = if last.value == fresh.value { last.value_since } else { now };
                Last { since: last.since, value_since, ..fresh }
            }
            _ => fresh,
        };
        let later = last.value_since.wrapping_sub(last.since).div_ceil(EIGHTH).min(TOO_LATE);
        slot.waiting_since.store(last.since, Ordering::Relaxed);
        // Release pairs with `Registry::note`. Died just after: a dead token's record.
        slot.waiting_at.store(address | u64::from(later) << LATER_AT, Ordering::Release);
        Some(WaitRecord { slot, last })
    }

    /// Clears the record.
    pub(crate) fn end(note: Option<WaitRecord>, timed_out: bool) {
        let Some(note) = note else { return };
        // Relaxed: nothing comes with it. Died just before: a dead token's record.
        note.slot.waiting_at.store(0, Ordering::Relaxed);
        LAST.set(Some(Last { timed_out, ..note.last }));
    }
}

/// Forgets the last sleep, unless the recheck ended it and the wait goes on: a wait that watches no
/// owner is one sleep.
pub(super) fn forget_if_woken() {
    if LAST.get().is_some_and(|last| !last.timed_out) {
        LAST.set(None);
    }
}

fn now() -> u32 {
    (clock::monotonic_nanos() / 1_000_000) as u32
}

/// The record of another thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) waiter: TokenId,
    /// An address in the waiter's memory.
    pub(crate) address: u64,
    since: u32,
    later: u32,
}

impl FoundRecord {
    /// Returns how long it has waited.
    pub(crate) fn waited(&self) -> Duration {
        // The clock may go on between our two readings: then it is not 49 days.
        let age = now().wrapping_sub(self.since) as i32;
        if age < 0 && age > -1000 {
            Duration::ZERO
        } else {
            Duration::from_millis(u64::from(age as u32))
        }
    }

    /// Returns for how long, at least, the word has had the value that the waiter sleeps on.
    pub(crate) fn unchanged(&self) -> Option<Duration> {
        let later = Duration::from_millis(u64::from(self.later) * u64::from(EIGHTH));
        (self.later != TOO_LATE).then(|| self.waited().saturating_sub(later))
    }
}

impl Registry {
    /// Returns what the living owner of that slot waits for.
    pub(crate) fn note(&self, index: u32) -> Option<FoundRecord> {
        let slot = self.slot_at(index)?;
        let generation = slot.generation().load(Ordering::Acquire);
        let waiter = TokenId::new(index, generation >> 1);
        // Acquire pairs with the Release in `WaitRecord::begin`.
        let at = slot.waiting_at.load(Ordering::Acquire);
        if at == 0 {
            return None;
        }
        let since = slot.waiting_since.load(Ordering::Relaxed);
        let noted =
            FoundRecord { waiter, address: at & ADDRESS, since, later: (at >> LATER_AT) as u32 };
        // Still the same waiter's?
        (slot.is_alive(waiter) && slot.waiting_at.load(Ordering::Acquire) == at).then_some(noted)
    }
}
