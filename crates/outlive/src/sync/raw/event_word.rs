//! The word of an event (`event.rs`): bits to sleep on in its lower half, and in its upper half how
//! often bits were cleared.
//!
//! Processes change it as one word of 64 bits, so that a bit is cleared and the clearing counted in
//! one step. The kernel knows the halves only: it sets and clears bits of the lower one, and
//! sleepers sleep on both.

use crate::shim::Ordering;
use crate::sys::futex::Watch;

/// In the lower half: a thread may sleep.
pub(crate) const WAITERS: u32 = 1 << WAITERS_AT;
pub(crate) const WAITERS_AT: u8 = 31;
/// The rest of the lower half.
pub(crate) const VALUE: u32 = WAITERS - 1;

/// Both halves, as they were at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Both(u64);

impl Both {
    #[inline]
    pub(crate) fn low(self) -> u32 {
        self.0 as u32
    }

    /// Returns how often bits were cleared, modulo 2^32.
    #[inline]
    pub(crate) fn clearings(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the word with another lower half.
    #[inline]
    pub(crate) fn with(self, low: u32) -> Both {
        Both(self.0 & !u64::from(u32::MAX) | u64::from(low))
    }

    /// Returns the word with another number of clearings.
    pub(crate) fn at_clearings(self, clearings: u32) -> Both {
        Both(u64::from(clearings) << 32 | u64::from(self.low()))
    }

    /// Returns the word without these bits, and with one clearing more.
    pub(crate) fn clearing(self, bits: u32) -> Both {
        self.with(self.low() & !bits).at_clearings(self.clearings().wrapping_add(1))
    }
}

#[cfg(not(loom))]
mod word {
    use super::{Both, Ordering, Watch};
    use crate::shim::{AtomicU32, AtomicU64};

    /// See the file's head.
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU64);

    // The lower half comes first.
    const _: () = assert!(cfg!(target_endian = "little"));

    impl Word {
        pub(crate) fn new(low: u32) -> Word {
            Word(AtomicU64::new(u64::from(low)))
        }

        #[inline]
        pub(crate) fn load(&self, order: Ordering) -> Both {
            Both(self.0.load(order))
        }

        #[inline]
        pub(crate) fn compare_exchange(
            &self,
            from: Both,
            to: Both,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Both, Both> {
            self.0.compare_exchange(from.0, to.0, success, failure).map(Both).map_err(Both)
        }

        /// Sets bits of the lower half; returns the word as it was.
        pub(crate) fn set_bits(&self, bits: u32) -> Both {
            Both(self.0.fetch_or(u64::from(bits), Ordering::AcqRel))
        }

        /// Clears bits of the lower half, and counts no clearing; returns the word as it was.
        pub(crate) fn clear_bits(&self, bits: u32) -> Both {
            Both(self.0.fetch_and(!u64::from(bits), Ordering::AcqRel))
        }

        /// Returns the lower half, for the kernel alone.
        pub(crate) fn low(&self) -> &AtomicU32 {
            self.half(0)
        }

        /// Returns the upper half to sleep on, as long as no bit has been cleared since `seen`.
        pub(crate) fn watch_clearings(&self, seen: Both) -> Watch<'_> {
            Watch { word: self.half(1), expected: seen.clearings() }
        }

        fn half(&self, index: usize) -> &AtomicU32 {
            // SAFETY: a half of a word that lives as long, aligned to 4. The kernel reads and writes
            // through it; this process does so too where the kernel has no `futex_waitv` or no
            // `FUTEX_WAKE_OP` (`sys::futex`), by atomic instructions. Rust's memory model has no
            // atomics of two sizes on the same bytes; x86-64 and aarch64 have, and order them as
            // those of one size.
            unsafe { &*(&raw const self.0).cast::<AtomicU32>().add(index) }
        }
    }
}

/// Loom's words have no halves: two words, which change together under a lock.
#[cfg(loom)]
mod word {
    use super::{Both, Ordering, Watch};
    use crate::shim::{AtomicU32, Mutex};

    pub(crate) struct Word {
        low: AtomicU32,
        clearings: AtomicU32,
        both: Mutex<()>,
    }

    impl Word {
        pub(crate) fn new(low: u32) -> Word {
            Word { low: AtomicU32::new(low), clearings: AtomicU32::new(0), both: Mutex::new(()) }
        }

        fn of(low: u32, clearings: u32) -> Both {
            Both(u64::from(clearings) << 32 | u64::from(low))
        }

        pub(crate) fn load(&self, order: Ordering) -> Both {
            let _both = self.both.lock();
            Word::of(self.low.load(order), self.clearings.load(order))
        }

        pub(crate) fn compare_exchange(
            &self,
            from: Both,
            to: Both,
            success: Ordering,
            failure: Ordering,
        ) -> Result<Both, Both> {
            let _both = self.both.lock();
            let clearings = self.clearings.load(Ordering::Acquire);
            if clearings != from.clearings() {
                return Err(Word::of(self.low.load(failure), clearings));
            }
            // The number first: a sleeper that finds the new lower half must find it, too. One that
            // finds a number that is taken back only looks again.
            self.clearings.store(to.clearings(), Ordering::Release);
            let changed = self.low.compare_exchange(from.low(), to.low(), success, failure);
            if changed.is_err() {
                self.clearings.store(clearings, Ordering::Release);
            }
            changed.map(|_| from).map_err(|now| Word::of(now, clearings))
        }

        pub(crate) fn set_bits(&self, bits: u32) -> Both {
            let _both = self.both.lock();
            Word::of(
                self.low.fetch_or(bits, Ordering::AcqRel),
                self.clearings.load(Ordering::Acquire),
            )
        }

        pub(crate) fn clear_bits(&self, bits: u32) -> Both {
            let _both = self.both.lock();
            Word::of(
                self.low.fetch_and(!bits, Ordering::AcqRel),
                self.clearings.load(Ordering::Acquire),
            )
        }

        pub(crate) fn low(&self) -> &AtomicU32 {
            &self.low
        }

        pub(crate) fn watch_clearings(&self, seen: Both) -> Watch<'_> {
            Watch { word: &self.clearings, expected: seen.clearings() }
        }
    }
}

pub(crate) use word::Word;
