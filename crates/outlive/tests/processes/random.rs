//! Random numbers that a failing check can be repeated with: the seed is printed.

/// xorshift64*.
pub struct Random(u64);

impl Random {
    /// Seeded by the clock, or by `OUTLIVE_TEST_SEED`.
    pub fn new() -> Random {
        let given = std::env::var("OUTLIVE_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let clock = || {
            let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
            since.as_nanos() as u64
        };
        let seed = given.unwrap_or_else(clock);
        eprintln!("OUTLIVE_TEST_SEED={seed}");
        Random::from_seed(seed)
    }

    pub fn from_seed(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    /// Lets up to so many microseconds pass.
    pub fn pause(&mut self, most_micros: u64) {
        let micros = self.below(most_micros);
        std::thread::sleep(std::time::Duration::from_micros(micros));
    }
}
