//! What a sleeping thread waits for, noted in its own slot of the registry, for those who look.
//!
//! Nobody's correctness depends on a note: it is written just before a sleep and taken back just after. A note tells the
//! *address* of the word, in the sleeper's own memory; who looks finds out by `/proc/PID/maps` which file lies there. So
//! the sleeper pays for two stores and a look at the clock, whatever primitive it is in.
//!
//! ```text
//! waiting_at                       waiting_since: milliseconds of CLOCK_MONOTONIC, modulo 2^32 (49 days);
//!  63     48 47             0      the first sleep of this acquisition
//! +---------+----------------+
//! |  later  |    address     |     later: how much later the word got its present value, in eighths of a second,
//! +---------+----------------+     rounded up; 65,535: too long ago to tell
//! ```
//! 0: it does not wait. A dead thread's note means nothing: its token is dead, and the next claimer of the slot clears it.

use std::cell::Cell;
use std::time::Duration;

use crate::liveness::{Registry, Slot, TokenId, WAITERS};
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::sys::{clock, robust};

/// The sleep that this thread was in last: another one for the same thing goes on with its note.
#[derive(Clone, Copy)]
struct Last {
    acquisition: u32,
    address: u64,
    /// Since when it has waited, and since when the word has had this value; milliseconds.
    since: u32,
    value: u32,
    value_since: u32,
    /// It ended because time passed, not because somebody woke us.
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

/// A note that is out.
pub(crate) struct WaitRecord {
    slot: &'static Slot,
    last: Last,
}

impl WaitRecord {
    /// Notes that the calling thread is about to sleep on that word. `None`: it has no token, so nobody would look.
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
        // Release pairs with `Registry::note`. Died just after: a dead token's note.
        slot.waiting_at.store(address | u64::from(later) << LATER_AT, Ordering::Release);
        Some(WaitRecord { slot, last })
    }

    /// Takes it back.
    pub(crate) fn end(note: Option<WaitRecord>, timed_out: bool) {
        let Some(note) = note else { return };
        // Relaxed: nothing comes with it. Died just before: a dead token's note.
        note.slot.waiting_at.store(0, Ordering::Relaxed);
        LAST.set(Some(Last { timed_out, ..note.last }));
    }
}

/// A wait that watches nobody's end was one sleep, unless that ended by the coarse re-check and it goes on.
pub(super) fn forget_if_woken() {
    if LAST.get().is_some_and(|last| !last.timed_out) {
        LAST.set(None);
    }
}

fn now() -> u32 {
    (clock::monotonic_nanos() / 1_000_000) as u32
}

/// Somebody else's note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundRecord {
    pub(crate) waiter: TokenId,
    /// In the waiter's memory.
    pub(crate) address: u64,
    since: u32,
    later: u32,
}

impl FoundRecord {
    /// How long it has waited.
    pub(crate) fn waited(&self) -> Duration {
        // A clock that goes on between our two looks at it: not 49 days.
        let age = now().wrapping_sub(self.since) as i32;
        if age < 0 && age > -1000 { Duration::ZERO } else { Duration::from_millis(u64::from(age as u32)) }
    }

    /// For how long the word has had, at least, the value that the waiter sleeps on.
    pub(crate) fn unchanged(&self) -> Option<Duration> {
        let later = Duration::from_millis(u64::from(self.later) * u64::from(EIGHTH));
        (self.later != TOO_LATE).then(|| self.waited().saturating_sub(later))
    }
}

impl Registry {
    /// What the living owner of that slot waits for.
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
        let noted = FoundRecord { waiter, address: at & ADDRESS, since, later: (at >> LATER_AT) as u32 };
        // Still the same one's?
        (slot.is_alive(waiter) && slot.waiting_at.load(Ordering::Acquire) == at).then_some(noted)
    }
}
