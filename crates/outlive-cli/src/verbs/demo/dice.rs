//! Random numbers for the demo: which process dies when, and how long a record is. A seed gives the
//! same numbers again.

use std::hash::{BuildHasher, Hasher};

/// Marsaglia's xorshift with a multiplier: good enough to choose victims, and five lines.
pub struct Dice(u64);

impl Dice {
    /// Begins from a seed; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Dice {
        // 0 would stay 0; neighbouring seeds should not begin alike.
        let mut dice = Dice((seed ^ 0x9e37_79b9_7f4a_7c15).max(1));
        for _ in 0..8 {
            dice.next();
        }
        dice
    }

    /// Returns a seed that is another one each time.
    pub fn any_seed() -> u64 {
        std::hash::RandomState::new().build_hasher().finish() & 0xffff_ffff
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number from `0` to `below - 1`.
    pub fn below(&mut self, below: u64) -> u64 {
        (self.next() >> 16) % below.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_seed_others() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            std::array::from_fn::<u64, 16, _>(|_| dice.below(1000))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert!(draw(0).iter().any(|&number| number != draw(0)[0]));
    }
}
