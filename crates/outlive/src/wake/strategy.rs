//! How a waiting call spends its time: spinning first, or asleep at once.
//!
//! A wake-up through the kernel takes some 20 µs; what the other side is about to do often takes
//! less than one. So by default a waiter spins a moment, as long as that has lately paid, and then
//! sleeps. It does not spin under a real-time policy (the very thread that it waits for may need
//! this processor), nor with a single processor.

use std::sync::atomic::{AtomicU32 as StdAtomicU32, Ordering as StdOrdering};

use crate::Deadline;
use crate::sys::process;

/// Says how a call waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Spins as long as that has lately paid, then sleeps. Never spins under `SCHED_FIFO` or
    /// `SCHED_RR`, or with one processor.
    #[default]
    Adaptive,
    /// Sleeps at once, and spends no processor time on waiting.
    Block,
    /// Spins long before sleeping: the lowest latency, for the price of a busy processor.
    Spin,
}

/// The longest spin of `Adaptive`, in rounds of a processor's pause (about 10 to 40 ns each).
const MOST_ROUNDS: u32 = 1000;
/// The shortest spin of `Adaptive`; some spinning remains, to notice when it pays again.
const LEAST_ROUNDS: u32 = 64;
/// Every so many spins, a spin tries the longest time all the same.
const PROBE_EVERY: u32 = 16;
/// The spin of `WaitStrategy::Spin`.
const LONG_ROUNDS: u32 = 200_000;

#[cfg(test)]
thread_local! {
    /// How many times this thread has begun to spin.
    pub(crate) static SPINS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// How one handle spins before it sleeps, tuned by how long spinning has paid lately.
pub struct SpinWait {
    wait: StdAtomicU32,
    rounds: StdAtomicU32,
    spins: StdAtomicU32,
}

impl SpinWait {
    pub(crate) const fn new() -> SpinWait {
        SpinWait {
            wait: StdAtomicU32::new(0),
            rounds: StdAtomicU32::new(MOST_ROUNDS),
            spins: StdAtomicU32::new(0),
        }
    }

    /// Returns one for another handle, with the same strategy.
    pub(crate) fn again(&self) -> SpinWait {
        let again = SpinWait::new();
        again.wait.store(self.wait.load(StdOrdering::Relaxed), StdOrdering::Relaxed);
        again
    }

    pub(crate) fn set(&self, wait: WaitStrategy) {
        self.wait.store(wait as u32, StdOrdering::Relaxed);
    }

    /// Returns whether that is the strategy.
    #[cfg(test)]
    pub(crate) fn is(&self, wait: WaitStrategy) -> bool {
        self.wait.load(StdOrdering::Relaxed) == wait as u32
    }

    /// Spins until `done` returns true. Returns false if it did not: then sleep.
    #[cold]
    pub(crate) fn spin(&self, mut done: impl FnMut() -> bool) -> bool {
        #[cfg(test)]
        SPINS.set(SPINS.get() + 1);
        let wait = self.wait.load(StdOrdering::Relaxed);
        if wait == WaitStrategy::Block as u32 || is_real_time() || single_processor() {
            return false;
        }
        let rounds = self.rounds.load(StdOrdering::Relaxed);
        // Now and then the longest spin, to see whether it would pay again: short spins never find
        // out.
        let probe = self.spins.fetch_add(1, StdOrdering::Relaxed).is_multiple_of(PROBE_EVERY);
        let limit = match wait {
            wait if wait == WaitStrategy::Spin as u32 => LONG_ROUNDS,
            _ if probe => MOST_ROUNDS,
            _ => rounds,
        };
        for round in 0..limit {
            if done() {
                // Twice the rounds that it took this time; less only step by step.
                let wanted = (round * 2).clamp(LEAST_ROUNDS, MOST_ROUNDS);
                self.rounds.store(wanted.max(rounds - rounds / 32), StdOrdering::Relaxed);
                return true;
            }
            crate::shim::spin_hint();
        }
        self.rounds.store((rounds - rounds / 8).max(LEAST_ROUNDS), StdOrdering::Relaxed);
        false
    }
}

impl SpinWait {
    /// Spins as [`SpinWait::spin`] does, unless the deadline has passed: then one look is enough.
    #[cold]
    pub(crate) fn spin_until(&self, deadline: Deadline, done: impl FnMut() -> bool) -> bool {
        !deadline.has_passed() && self.spin(done)
    }
}

/// A thread asks for its policy after so many spins: asking is a system call, which takes longer
/// than what most spins wait for. A thread that turns real-time spins at most so often more, 20 µs
/// each.
const ASK_EVERY: u32 = 64;

/// Returns whether the thread runs under a real-time policy, or did a few spins ago.
fn is_real_time() -> bool {
    use std::cell::Cell;
    thread_local! {
        static KNOWN: Cell<(bool, u32)> = const { Cell::new((false, 0)) };
    }
    let (mut real_time, mut left) = KNOWN.get();
    if left == 0 {
        real_time = process::is_real_time();
        left = ASK_EVERY;
    }
    KNOWN.set((real_time, left - 1));
    real_time
}

/// Returns whether this process may use one processor only. Asked once: a later change of affinity
/// costs a little time, but stays correct.
fn single_processor() -> bool {
    static COUNT: StdAtomicU32 = StdAtomicU32::new(0);
    let mut count = COUNT.load(StdOrdering::Relaxed);
    if count == 0 {
        count = process::processors().max(1);
        COUNT.store(count, StdOrdering::Relaxed);
    }
    count == 1
}
