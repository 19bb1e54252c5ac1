//! Size classes: four to each power of two, so that at most a fifth of an object is waste.

/// The smallest object, a cache line. The queue's begin at 256.
const SMALLEST: u64 = 64;
/// Larger objects are runs of whole spans.
pub(super) const LARGEST: u64 = 1 << 20;
/// How many classes there are.
pub(in crate::pool) const CLASSES: u32 = 57;

/// Returns the class whose objects hold `len` bytes; `None` when the object takes a run.
#[inline]
pub(in crate::pool) fn class_of(len: u64) -> Option<u32> {
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

/// Up to this length all sizes are multiples of 16.
const TABLED: usize = 1024;

/// The results of [`class_of`] for lengths up to [`TABLED`], by sixteenths.
const TABLE: [u8; TABLED / 16 + 1] = {
    let mut table = [0; TABLED / 16 + 1];
    let mut at = 0;
    let mut class = 0;
    while at < table.len() {
        if at as u64 * 16 > size_of_class(class) {
            class += 1;
        }
        table[at] = class as u8;
        at += 1;
    }
    table
};

/// Returns the same as [`class_of`], in eight instructions fewer for all short lengths but 64.
#[inline]
pub(in crate::pool) fn class_of_short_or_long(len: usize) -> Option<u32> {
    if len <= TABLED { Some(u32::from(TABLE[len.div_ceil(16)])) } else { class_of(len as u64) }
}

/// Returns the bytes that an object of this class holds.
pub(in crate::pool) const fn size_of_class(class: u32) -> u64 {
    if class == 0 {
        return SMALLEST;
    }
    let octave = (class - 1) / 4;
    let quarter = ((class - 1) % 4 + 1) as u64;
    (SMALLEST << octave) + (SMALLEST << octave) / 4 * quarter
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_length_fits_with_little_waste() {
        for len in (1..20_000).chain([65_536, 100_000, 999_999, LARGEST]) {
            let class = class_of(len).expect("small enough");
            assert!(class < CLASSES, "{len} -> {class}");
            assert_eq!(class_of_short_or_long(len as usize), Some(class));
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
