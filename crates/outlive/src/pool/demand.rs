//! Demand for objects, by size: how many were out of the shared lists, as an average that slides
//! over time.
//!
//! HAProxy keeps such an average of what was in use at each refill and eviction, so that its
//! collector does not give back what the next second takes again. Here the average slides over time
//! and not over events: the demand on a pool that no process uses falls to zero after a while.
//!
//! How many objects are out (in use, in caches, handed over) the tags say, and nothing else.
//! Counting them is a scan of all tags, so between two scans there are two plain counts with each
//! list, of what was taken and what was given back, on a cache line that a thread has just written
//! when it takes or gives back eight. A process that is killed between a tag and its count leaves
//! them wrong by at most eight; the next scan that frees something of the dead, or `gc`, puts them
//! right. Nothing but `gc`'s choice of what to keep depends on them.

use std::time::Duration;

use super::cache::{MAGAZINES, magazine_of_run};
use super::file::File;
use super::heap::{CLASSES, ObjectRef, Tag, Traffic};
use crate::Error;
use crate::shim::{AtomicU64, Ordering};
use crate::sys::clock::coarse_millis;

/// After so long without a look, only what was out since counts. With looks all the time, what was
/// out before counts for a third after so long, and for an eighth after twice as long.
pub(super) const WINDOW: Duration = Duration::from_secs(2);
/// The average is updated no more often than each so many milliseconds.
const STEP: u32 = 50;
/// Averages are kept in sixteenths of an object.
const FRACTION: u64 = 16;

/// The average, and when it was last updated, in one word: bits 32 to 63 milliseconds, 0 to 31
/// sixteenths of an object. It is only a hint: a thread that loses a race for it leaves it, and a
/// thread that dies has changed it or not.
#[repr(transparent)]
pub(super) struct Demand(AtomicU64);

/// Returns the word a moment later, when so many have been out since; `None` when that is too soon.
fn slid(word: u64, now: u32, out: u32) -> Option<u64> {
    let window = WINDOW.as_millis() as u64;
    let since = now.wrapping_sub((word >> 32) as u32);
    // A little before the last look: another thread was first. Much: another clock (a time
    // namespace), or damaged; it begins anew.
    if !(STEP..=u32::MAX - STEP * 20).contains(&since) {
        return None;
    }
    let out = (u64::from(out) * FRACTION).min(u64::from(u32::MAX));
    let (before, weight) = (word & u64::from(u32::MAX), u64::from(since).min(window));
    // Rounded towards the new value, which it would otherwise never reach.
    let step = (before.abs_diff(out) * weight).div_ceil(window);
    let average = if out > before { before + step } else { before - step };
    Some(u64::from(now) << 32 | average)
}

impl Demand {
    /// Updates the average: so many have been out since the last look.
    pub(super) fn slide(&self, now: u32, out: u32) {
        let word = self.0.load(Ordering::Relaxed);
        if let Some(word_now) = slid(word, now, out) {
            let _ = self.0.compare_exchange(word, word_now, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Returns whether it is time for an update.
    fn is_due(&self, now: u32) -> bool {
        now.wrapping_sub((self.0.load(Ordering::Relaxed) >> 32) as u32) >= STEP
    }

    /// Returns how many are needed on average, if so many are out now.
    pub(super) fn objects(&self, now: u32, out: u32) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        let word = slid(word, now, out).unwrap_or(word);
        (word & u64::from(u32::MAX)).div_ceil(FRACTION) as u32
    }
}

/// The objects of one magazine's size.
#[derive(Clone, Copy, Default)]
pub(super) struct Stock {
    pub(super) total: u32,
    /// Those that are not free.
    pub(super) out: u32,
}

/// The objects of each size that `gc` may give back.
pub(super) struct Spare {
    /// Below zero: the demand is for more than there are.
    objects: Vec<i64>,
}

impl Spare {
    /// Returns whether so many objects of a magazine are more than the demand; always for objects
    /// without a magazine.
    pub(super) fn has(&self, magazine: Option<u32>, objects: u32) -> bool {
        let spare = magazine.and_then(|magazine| self.objects.get(magazine as usize));
        spare.is_none_or(|&spare| spare >= i64::from(objects))
    }

    /// Counts them as given back.
    pub(super) fn take(&mut self, magazine: Option<u32>, objects: u32) {
        if let Some(spare) = magazine.and_then(|magazine| self.objects.get_mut(magazine as usize)) {
            *spare -= i64::from(objects);
        }
    }
}

impl File {
    /// Returns the counts of a magazine, for a thread whose list has that number.
    fn traffic(&self, magazine: u32, home: usize) -> Option<&Traffic> {
        if magazine < CLASSES {
            return self.lists(magazine).get(home % super::heap::BUCKETS).map(|list| &list.traffic);
        }
        self.header().runs.get((magazine - CLASSES) as usize)
    }

    /// Returns how many are out, by the counts; none, where a death has left the counts below zero.
    fn counted(&self, magazine: u32) -> u32 {
        let out = if magazine < CLASSES {
            self.lists(magazine).iter().fold(0u32, |sum, list| sum.wrapping_add(list.traffic.out()))
        } else {
            self.traffic(magazine, 0).map_or(0, Traffic::out)
        };
        (out as i32).max(0) as u32
    }

    /// Updates the average before the counts change, with what was out until now.
    fn slide_need(&self, magazine: u32) {
        let Some(need) = self.header().needed.get(magazine as usize) else { return };
        let now = coarse_millis();
        if need.is_due(now) {
            need.slide(now, self.counted(magazine));
        }
    }

    /// Counts so many objects as taken.
    pub(super) fn note_taken(&self, magazine: u32, home: usize, objects: u32) {
        self.slide_need(magazine);
        if let Some(traffic) = self.traffic(magazine, home) {
            traffic.taken.fetch_add(objects, Ordering::Relaxed);
        }
    }

    /// Counts so many objects as given back.
    pub(super) fn note_freed(&self, magazine: u32, home: usize, objects: u32) {
        self.slide_need(magazine);
        match self.traffic(magazine, home) {
            Some(traffic) => traffic.freed.fetch_add(objects, Ordering::Relaxed),
            None => self.header().frees.fetch_add(1, Ordering::Relaxed),
        };
    }

    /// Counts all objects, by their tags, and corrects the counts. Each figure is true of some
    /// moment.
    pub(super) fn take_stock(&self) -> Result<Vec<Stock>, Error> {
        let mut stock = vec![Stock::default(); MAGAZINES as usize];
        self.heap.scan_all(&self.segment, &mut |class, spans, _: &ObjectRef, tag| {
            let magazine = class.or_else(|| magazine_of_run(u64::from(spans)));
            if let Some(one) = magazine.and_then(|magazine| stock.get_mut(magazine as usize)) {
                one.total += 1;
                one.out += u32::from(tag != Tag::Free);
            }
        })?;
        for (magazine, one) in (0..MAGAZINES).zip(&stock) {
            let wrong = one.out.wrapping_sub(self.counted(magazine));
            if wrong != 0
                && let Some(traffic) = self.traffic(magazine, 0)
            {
                traffic.taken.fetch_add(wrong, Ordering::Relaxed);
            }
        }
        Ok(stock)
    }

    /// Returns what is more than the sliding demand.
    pub(super) fn spare(&self) -> Result<Spare, Error> {
        let stock = self.take_stock()?;
        let now = coarse_millis();
        let objects = stock.iter().zip(&self.header().needed).map(|(one, need)| {
            need.slide(now, one.out);
            i64::from(one.total) - i64::from(one.out.max(need.objects(now, one.out)))
        });
        Ok(Spare { objects: objects.collect() })
    }

    /// Returns a number that changes whenever an object has become free for other threads, except
    /// by a death.
    pub(super) fn changes(&self) -> u32 {
        let lists = (0..CLASSES).flat_map(|class| self.lists(class)).map(|list| &list.traffic);
        let freed =
            lists.chain(&self.header().runs).map(|traffic| traffic.freed.load(Ordering::Relaxed));
        freed.fold(self.header().frees.load(Ordering::Relaxed), u32::wrapping_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Updates the average each millisecond with what is out.
    fn run(need: &Demand, from: u32, millis: u32, out: u32) -> u32 {
        (0..millis).for_each(|at| need.slide(from.wrapping_add(at), out));
        need.objects(from.wrapping_add(millis), out)
    }

    #[test]
    fn it_slides_to_what_is_out() {
        let need = Demand(AtomicU64::new(0));
        // The clock wraps meanwhile.
        let begun = u32::MAX - 2_000;
        assert_eq!(
            Demand(AtomicU64::new(0)).objects(begun, 5),
            5,
            "a fresh one, whatever the clock says"
        );
        need.slide(begun, 0);
        let half = run(&need, begun, 2_500, 1000);
        assert!((600..800).contains(&half), "{half} of 1000 after a little more than the window");
        let whole = run(&need, begun.wrapping_add(2_500), 30_000, 1000);
        assert_eq!(whole, 1000);
        let later = begun.wrapping_add(32_500);
        // No look for a while: then it is what has been out since.
        assert_eq!(need.objects(later.wrapping_add(60_000), 3), 3);
        assert!((400..600).contains(&need.objects(later.wrapping_add(1_000), 0)));
        let one = run(&need, later, 60_000, 1);
        assert_eq!(one, 1);
        assert_eq!(run(&need, later.wrapping_add(60_000), 60_000, 0), 0);
    }

    #[test]
    fn a_damaged_word_is_a_number() {
        for word in [u64::MAX, 1 << 63, u64::from(u32::MAX)] {
            let need = Demand(AtomicU64::new(word));
            need.slide(7, u32::MAX);
            assert!(
                need.objects(12_345, u32::MAX) <= u32::MAX / 16 + 1 + u32::MAX / FRACTION as u32
            );
        }
    }
}
