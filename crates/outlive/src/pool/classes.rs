//! Size classes: four to each power of two, so that at most a fifth of an object is waste.

/// The smallest object, a cache line. The queue's begin at 256.
const SMALLEST: u64 = 64;
/// Larger ones are runs of whole spans.
pub(super) const LARGEST: u64 = 1 << 20;
/// How many classes there are.
pub(super) const CLASSES: u32 = 57;

/// The class whose objects hold `len` bytes; `None` when it takes a run.
#[inline]
pub(super) fn class_of(len: u64) -> Option<u32> {
    if len > LARGEST {
        return None;
    }
    let len = len.max(SMALLEST);
    // With 2^k <= len - 1 < 2^(k+1), quarters of 2^k above it; SMALLEST itself is class 0.
    let above = len - 1;
    let k = above.ilog2();
    if len == SMALLEST {
        return Some(0);
    }
    let quarter = above >> (k - 2) & 3;
    Some((k - SMALLEST.ilog2()) * 4 + quarter as u32 + 1)
}

/// Bytes that an object of this class holds.
pub(super) fn size_of_class(class: u32) -> u64 {
    if class == 0 {
        return SMALLEST;
    }
    let octave = (class - 1) / 4;
    let quarter = u64::from((class - 1) % 4) + 1;
    (SMALLEST << octave) + (SMALLEST << octave) / 4 * quarter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_fits_with_little_waste() {
        for len in (1..20_000).chain([65_536, 100_000, 999_999, LARGEST]) {
            let class = class_of(len).expect("small enough");
            assert!(class < CLASSES, "{len} -> {class}");
            let size = size_of_class(class);
            assert!(size >= len, "{len} in {size}");
            if len > SMALLEST {
                assert!((size - len) * 4 <= size, "{len} in {size}: more than a quarter wasted");
                assert!(size_of_class(class - 1) < len, "{len} would fit a smaller class");
            }
        }
        assert_eq!(class_of(LARGEST + 1), None);
        assert_eq!(size_of_class(CLASSES - 1), LARGEST);
    }
}
