//! Hints to free objects of one size: a cache line with the numbers of some that were freed last.
//!
//! A thread that frees objects writes their numbers there. A thread that needs objects takes
//! numbers out, the last first, and tries the objects' tags. A hint is no more than that: the *tag*
//! says whether an object is free, and a scan of the tags finds what no hint names. So hints may be
//! wrong or lost in any way. A scan may have taken the object meanwhile; its span may be of another
//! size; two threads may read one hint, or write over each other's; a thread that dies between a
//! tag and its hint leaves a free object without one. Plain loads and stores are enough, there is
//! nothing to lock or to repair, and no thread waits.
//!
//! Why there are hints beside the scan: where few objects are free, the scan reads many tags for
//! each. doc/performance.md, "Hints in place of free lists", has the figures.

use crate::shim::{AtomicU32, Ordering};

/// The most objects that go from a thread's cache to other threads, or to it, at once.
pub(crate) const CLUSTER: usize = 8;
/// Lines for each size: threads begin at one of their own, and go on to the others.
pub(crate) const BUCKETS: usize = 4;
/// Hints of a line.
pub(crate) const HINTS: usize = 14;

/// The hints of one line.
#[derive(Default)]
#[repr(C, align(64))]
pub(crate) struct FreeHints {
    /// Each an object's reference plus one, or 0.
    hints: [AtomicU32; HINTS],
    /// Where the next one goes.
    next: AtomicU32,
    /// How many objects were freed here, wrapping. See `File::changes`
    /// and the negative cache.
    pub(crate) freed: AtomicU32,
}

crate::shim::assert_layout!(size_of::<FreeHints>() == 64);
// SAFETY: all its fields are atomics, for which every bit pattern is valid.
unsafe impl crate::segment::SharedLayout for FreeHints {}

impl FreeHints {
    /// Notes objects that the caller has just freed. What it writes over, a scan finds.
    pub(crate) fn put(&self, references: impl ExactSizeIterator<Item = u32>) {
        let freed = references.len() as u32;
        // Relaxed, as all here: the thread that takes a hint asks the tag.
        let mut next = self.next.load(Ordering::Relaxed) as usize % HINTS;
        for reference in references {
            self.hints[next].store(reference.wrapping_add(1), Ordering::Relaxed);
            next = (next + 1) % HINTS;
        }
        self.next.store(next as u32, Ordering::Relaxed);
        self.freed.fetch_add(freed, Ordering::Relaxed);
    }

    /// Takes out as many hints as `out` has room for; returns how many. The caller has yet to take
    /// the objects' tags.
    pub(crate) fn take(&self, out: &mut [u32]) -> usize {
        let begin = self.next.load(Ordering::Relaxed) as usize % HINTS;
        let (mut next, mut taken) = (begin, 0);
        for back in 1..=HINTS {
            let at = (begin + HINTS - back) % HINTS;
            let hint = self.hints[at].load(Ordering::Relaxed);
            if hint != 0 {
                if taken == out.len() {
                    break;
                }
                self.hints[at].store(0, Ordering::Relaxed);
                (out[taken], next) = (hint - 1, at);
                taken += 1;
            }
        }
        if taken > 0 {
            self.next.store(next as u32, Ordering::Relaxed);
        }
        taken
    }
}

/// Takes hints out of the first line, from `home` on, that has any.
pub(crate) fn take_any(lines: &[FreeHints; BUCKETS], home: usize, out: &mut [u32]) -> usize {
    (0..BUCKETS)
        .map(|turn| lines[(home + turn) % BUCKETS].take(out))
        .find(|&taken| taken > 0)
        .unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_come_first_and_the_oldest_are_forgotten() {
        let lines: [FreeHints; BUCKETS] = Default::default();
        let mut out = [0; CLUSTER];
        assert_eq!(take_any(&lines, 7, &mut out), 0);
        for first in [0, 8, 16] {
            lines[1].put(first..first + 8);
        }
        assert_eq!(lines[1].freed.load(Ordering::Relaxed), 24);
        assert_eq!(take_any(&lines, 7, &mut out), 8);
        assert_eq!(out, [23, 22, 21, 20, 19, 18, 17, 16]);
        assert_eq!(lines[1].take(&mut out[..1]), 1);
        assert_eq!(out[0], 15);
        lines[1].put([99].into_iter());
        assert_eq!(take_any(&lines, 0, &mut out), 6);
        assert_eq!(out[..6], [99, 14, 13, 12, 11, 10]);
        assert_eq!(take_any(&lines, 0, &mut out), 0);
    }

    #[test]
    fn damaged_words_are_hints_like_others() {
        let line = FreeHints::default();
        line.next.store(u32::MAX, Ordering::Relaxed);
        line.hints.iter().for_each(|hint| hint.store(u32::MAX, Ordering::Relaxed));
        let mut out = [0; CLUSTER];
        line.put([u32::MAX].into_iter());
        assert_eq!(line.take(&mut out), CLUSTER);
    }
}
