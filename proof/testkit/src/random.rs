//! Random numbers that a seed repeats (SplitMix64): what goes wrong can be tried again.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Every bit of the argument matters to every bit of the result.
pub(crate) fn mix(mut seed: u64) -> u64 {
    seed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    seed = (seed ^ (seed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    seed ^ (seed >> 31)
}

impl Random {
    /// The stream of that seed.
    #[must_use]
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number, all 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `limit`, not including it.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }
}
