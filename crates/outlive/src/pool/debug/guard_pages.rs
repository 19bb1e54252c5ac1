//! Guard pages: objects that this process has given away and may not touch have the protection
//! `PROT_NONE` here.
//!
//! | step | died here |
//! | --- | --- |
//! | 1. noted, protection changed | owned(P): free once P has ended, and with it its mappings |
//! | 2. tag to 0, or offered | as without modes |
//! | later: some of it is taken again by this process (its tag first): protection given back, note removed | held(T), or owned(P) |
//!
//! A thread that takes an object in this process has acquired its tag from the one that gave it
//! away, and so sees the note.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::{Mutex, PoisonError};

use crate::Error;
use crate::segment::Segment;
use crate::shim::Ordering;
use crate::sys::map::PAGE;

/// The most ranges at once: each may cost two mappings, of which a process has 65,530.
const MOST: usize = 8192;

/// Ranges of a segment that are out of this process's reach.
#[derive(Default)]
pub(in crate::pool) struct GuardPages {
    /// How many there are, for threads that need not lock.
    count: AtomicUsize,
    ranges: Mutex<Ranges>,
}

#[derive(Default)]
struct Ranges {
    /// Lengths by offset; they do not overlap.
    lengths: BTreeMap<u64, u64>,
    /// Offsets in order of arrival; those that are not in `lengths` any more are void.
    order: VecDeque<u64>,
}

impl Ranges {
    /// Takes out a range that has some of these bytes.
    fn take_any(&mut self, from: u64, to: u64) -> Option<(u64, u64)> {
        let (&at, &len) =
            self.lengths.range(..to).next_back().filter(|&(&at, &len)| at + len > from)?;
        self.lengths.remove(&at);
        Some((at, len))
    }
}

impl GuardPages {
    /// Returns whether an object can be put out of reach without its neighbours.
    pub(super) fn is_able_to(offset: u64, len: u64) -> bool {
        len > 0 && offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE)
    }

    /// Puts an object that the caller still has out of reach. Where the system does not allow more
    /// ranges it stays within reach.
    pub(super) fn hide(&self, segment: &Segment, offset: u64, len: u64) {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        while ranges.lengths.len() >= MOST
            && let Some(oldest) = ranges.order.pop_front()
        {
            let Some(&len) = ranges.lengths.get(&oldest) else { continue };
            if segment.set_reach(oldest, len, true).is_err() {
                break;
            }
            ranges.lengths.remove(&oldest);
        }
        if ranges.lengths.len() < MOST && segment.set_reach(offset, len, false).is_ok() {
            ranges.lengths.insert(offset, len);
            ranges.order.push_back(offset);
            if ranges.order.len() > 2 * MOST {
                let Ranges { lengths, order } = &mut *ranges;
                order.retain(|at| lengths.contains_key(at));
            }
        }
        self.count.store(ranges.lengths.len(), Ordering::Relaxed);
    }

    /// Brings an object within reach that the caller has taken.
    ///
    /// # Errors
    /// Errors of the system.
    #[inline]
    pub(in crate::pool) fn show(
        &self,
        segment: &Segment,
        offset: u64,
        len: u64,
    ) -> Result<(), Error> {
        // Relaxed: seen with the object's tag.
        if self.count.load(Ordering::Relaxed) == 0 {
            Ok(())
        } else {
            self.show_slow(segment, offset, len)
        }
    }

    #[cold]
    fn show_slow(&self, segment: &Segment, offset: u64, len: u64) -> Result<(), Error> {
        let mut ranges = self.ranges.lock().unwrap_or_else(PoisonError::into_inner);
        // Whole ranges: part of one has become something else, so the rest of it is no object of
        // old any more.
        while let Some((at, len)) = ranges.take_any(offset, offset + len) {
            if let Err(error) = segment.set_reach(at, len, true) {
                ranges.lengths.insert(at, len);
                return Err(error);
            }
            self.count.store(ranges.lengths.len(), Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_found_by_any_byte_of_them() {
        let mut ranges = Ranges::default();
        for (at, len) in [(0, 10), (10, 10), (40, 20)] {
            ranges.lengths.insert(at, len);
        }
        assert_eq!(ranges.take_any(20, 40), None);
        assert_eq!(ranges.take_any(9, 11), Some((10, 10)));
        assert_eq!(ranges.take_any(9, 11), Some((0, 10)));
        assert_eq!(ranges.take_any(59, 100), Some((40, 20)));
        assert_eq!(ranges.take_any(0, 100), None);
    }
}
