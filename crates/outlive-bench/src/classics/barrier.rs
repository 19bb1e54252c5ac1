//! A barrier: no thread goes on before all have come, again and again. One of them is told that it
//! was the serial one.
//!
//! Two words: how many have come in this round, and the round. Sleepers sleep on the *round*: they
//! must go on when it changes, whatever the count is by then (a quick one may have come to the next
//! round already).
//!
//! With many threads the last often comes between another's look at the round and its sleep. The
//! kernel compares again and answers `EAGAIN`: handled like any wake-up, by looking. Taken for an
//! error, a barrier of thousands breaks down.

use std::sync::atomic::{AtomicU32, Ordering};

use outlive::{Deadline, futex};

/// See the file's head. Zeroes are a barrier that no thread has come to; it may lie in memory that
/// processes share.
#[derive(Default)]
pub struct Barrier {
    come: AtomicU32,
    round: AtomicU32,
}

impl Barrier {
    /// Waits until `all` have called it. True for one of them in each round.
    pub fn wait(&self, all: u32) -> bool {
        // Acquire: before this thread comes. Otherwise the last one might have ended the round
        // already, and this one would sleep through the next.
        let round = self.round.load(Ordering::Acquire);
        // AcqRel: what each did before is seen by the last, and through the round by all.
        if self.come.fetch_add(1, Ordering::AcqRel) + 1 == all {
            // No other thread touches the count now: all are here. It must be right before the
            // round lets any of them go.
            self.come.store(0, Ordering::Relaxed);
            self.round.fetch_add(1, Ordering::Release);
            let _ = futex::wake(&self.round, futex::ALL);
            return true;
        }
        while self.round.load(Ordering::Acquire) == round {
            match futex::wait(&self.round, round, Deadline::NEVER) {
                Err(error) if !error.is_look_again() => panic!("{error}"),
                _ => {}
            }
        }
        false
    }
}
