//! The net under the protocols: when a sleeper looks by himself.
//!
//! | who sleeps | why | looks by himself |
//! | --- | --- | --- |
//! | watching somebody's end | the kernel loses the mark when memory is reaped before the robust list is walked (token.md) | after `recheck`, then each time after twice as long, up to 64 times |
//! | where a wake-up may have died with a wait set | such a set can pass on one only (wait_set.md) | the same |
//! | on a condition | its notifier may be dead (condvar.md) | the same |
//! | else | whoever wakes him lives, or the kernel wakes in his place: each has its model, without a net | never |
//!
//! An idle process so uses no processor, or that of one look in a minute. A mark that the kernel has lost is found after as long a wait again, at most.

use std::cell::Cell;

use super::registry::Registry;
use crate::sys::clock::Deadline;

/// Whether there is a net under a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Spread,
    Needless,
}

/// By how many doublings the distance grows.
const MOST_DOUBLINGS: u32 = 6;

thread_local! {
    /// How many sleeps of this thread in a row the net has ended.
    static ENDED: Cell<u32> = const { Cell::new(0) };
}

impl Net {
    /// Until when to sleep at most.
    pub(super) fn until(self, registry: &Registry, deadline: Deadline) -> Deadline {
        match registry.recheck() {
            Some(span) if self == Net::Spread => {
                let doublings = ENDED.get().min(MOST_DOUBLINGS);
                deadline.earlier(Deadline::after(span.saturating_mul(1 << doublings)))
            }
            _ => deadline,
        }
    }

    /// The sleep has ended: by the net, or otherwise.
    pub(super) fn note_end(self, by_net: bool) {
        if self == Net::Spread {
            ENDED.set(if by_net { ENDED.get().saturating_add(1) } else { 0 });
        }
    }
}
