//! Time that passes, the same for all processes of a benchmark, and time that one process computes.

use std::hint::black_box;

/// Nanoseconds of `CLOCK_MONOTONIC`. Unlike `Instant` it is a number that another process can
/// subtract from.
#[inline]
pub fn now() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds that this process has computed, in the kernel and outside.
///
/// The right measure for what one process does alone: on an idle machine it is the same as the time
/// that passes, and on a busy one it leaves out the time that others had the core. Reading it is a
/// system call.
pub fn computed() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec, and these clocks exist on every Linux.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Computing that touches nothing but this process's own stack: as much as takes a given time,
/// without reading a clock.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    rounds: u64,
}

impl Work {
    /// Measures how much this core computes in so many nanoseconds when nothing interrupts it.
    pub fn of(nanoseconds: u32) -> Self {
        const TRIED: u64 = 20_000;
        let tried = Self { rounds: TRIED };
        // The quickest of several: the others were interrupted.
        let took = (0..9).map(|_| {
            let begun = now();
            tried.compute();
            now() - begun
        });
        Self { rounds: u64::from(nanoseconds) * TRIED / took.min().unwrap_or(1).max(1) }
    }

    /// Returns whether there is none.
    pub fn is_none(self) -> bool {
        self.rounds == 0
    }

    /// Computes that much.
    #[inline(never)]
    pub fn compute(self) {
        let mut number = self.rounds;
        for _ in 0..self.rounds {
            number = black_box(number.wrapping_mul(5));
        }
        black_box(number);
    }
}

/// Keeps this core busy for so long. A sleep would let the core go idle, and the next figure would
/// hold its waking.
pub fn spin_for(nanoseconds: u64) {
    let end = now() + nanoseconds;
    while now() < end {
        std::hint::spin_loop();
    }
}
