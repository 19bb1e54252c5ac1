//! The notifications of a condition variable that no waiter has used yet, in one word.
//!
//! A wake-up says that something happened, not for which waiter: a woken waiter that finds the mutex
//! held wakes another one, so that its death would lose nothing, and so one notification may wake
//! many. Each of them uses a notification up, under the mutex, or waits again. So `notify_one` ends
//! one wait.
//!
//! | bits | meaning | which thread changes it, and how |
//! | --- | --- | --- |
//! | 0 to 23 | the latest 24 notifications of one waiter, the newest in bit 0: set, not used yet | a notifier shifts them up by one; a waiter clears one |
//! | 24 to 31 | how many notifications ago the last one of all waiters was, 255 at most | a notifier |
//! | 32 to 55 | how many notifications there have been | a notifier |
//! | 56 to 63 | how many waiters there are, dead ones among them; 255: as many or more, for good | a waiter that begins, or returns |
//!
//! All by compare-exchange. A waiter notes the number when its wait begins, and may use later
//! notifications only, the oldest first: then one that began later finds a newer one. A set bit
//! that is shifted out turns into a notification of all that began before it: a waiter may return
//! for nothing, but none is left asleep.
//!
//! The waiters are counted because the eventcount forgets those that are awake: a notifier that wakes
//! none clears `SOMEBODY`, and the next one would note nothing for waiters that are about to sleep
//! again. A dead waiter stays counted: then a notification without a waiter costs a compare-exchange.
//!
//! | a death | what is left |
//! | --- | --- |
//! | a notifier, before it has woken a waiter | a notification: the next waiter to look uses it |
//! | a notified waiter, before it has used it | the same |
//! | a waiter that has used it, and holds the mutex | the next locker is told |

use crate::shim::{AtomicU64, Ordering};

/// See the file's head. All zeroes: no notification yet.
#[repr(transparent)]
#[derive(Default)]
pub(crate) struct Notifications(AtomicU64);

/// How many notifications there had been when a wait began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(u32);

/// What the word says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Said {
    unused: u32,
    /// How many notifications ago all were notified.
    all: u32,
    number: u32,
    waiters: u32,
}

/// So many notifications are noted one by one.
const NOTED: u32 = 24;
/// Of `all`: so many, or more.
const LONG_AGO: u32 = 255;
/// Of `waiters`: so many, or more.
const MANY: u32 = 255;
const NUMBERS: u32 = 1 << 24;

impl Said {
    fn of(word: u64) -> Said {
        let bits = |at: u32, count: u32| (word >> at) as u32 & ((1 << count) - 1);
        Said { unused: bits(0, 24), all: bits(24, 8), number: bits(32, 24), waiters: bits(56, 8) }
    }

    fn word(self) -> u64 {
        u64::from(self.waiters) << 56
            | u64::from(self.number) << 32
            | u64::from(self.all) << 24
            | u64::from(self.unused)
    }

    fn next(self) -> u32 {
        (self.number + 1) % NUMBERS
    }

    fn with_one(self) -> Said {
        // The bit that is shifted out is of so many notifications ago.
        let dropped = if self.unused >> (NOTED - 1) != 0 { NOTED } else { LONG_AGO };
        let all = (self.all + 1).min(LONG_AGO).min(dropped);
        let unused = (self.unused << 1 | 1) & ((1 << NOTED) - 1);
        Said { unused, all, number: self.next(), ..self }
    }

    fn with_all(self) -> Said {
        Said { unused: 0, all: 0, number: self.next(), ..self }
    }

    /// Returns the word after a waiter has used a notification; `None` if there is none for it.
    fn used(self, since: Since) -> Option<Said> {
        let later = (self.number + NUMBERS - since.0) % NUMBERS;
        if later == 0 {
            return None;
        }
        if later > self.all || later >= LONG_AGO {
            return Some(self);
        }
        let mine = if later >= NOTED { self.unused } else { self.unused & ((1 << later) - 1) };
        let oldest = mine.checked_ilog2()?;
        Some(Said { unused: self.unused & !(1 << oldest), ..self })
    }
}

impl Notifications {
    /// Counts a waiter, and returns the point at which its wait begins: before it prepares its sleep,
    /// or it would not count a notification of which it is told. Died after this: it stays counted.
    pub(crate) fn begin(&self) -> Since {
        self.change(|said| Some(Said { waiters: (said.waiters + 1).min(MANY), ..said }));
        self.since()
    }

    /// Ends what `begin` has begun.
    pub(crate) fn end(&self) {
        self.change(|said| match said.waiters {
            0 | MANY => None,
            waiters => Some(Said { waiters: waiters - 1, ..said }),
        });
    }

    /// Returns whether a waiter has begun, and has not returned.
    #[inline]
    pub(crate) fn is_any_waiting(&self) -> bool {
        // Relaxed: as with the eventcount, the mutex orders it with the change of the condition.
        self.0.load(Ordering::Relaxed) >> 56 != 0
    }

    fn since(&self) -> Since {
        // Relaxed: an older number only makes an older notification count.
        Since(Said::of(self.0.load(Ordering::Relaxed)).number)
    }

    /// Notifies one waiter. Before the wake: a woken waiter must find it.
    pub(crate) fn give_one(&self) {
        self.change(|said| Some(said.with_one()));
    }

    /// Notifies all waiters. Before the wake.
    pub(crate) fn give_all(&self) {
        self.change(|said| Some(said.with_all()));
    }

    /// Uses a notification that came since a wait began. Returns false if there is none.
    pub(crate) fn take(&self, since: Since) -> bool {
        self.change(|said| said.used(since))
    }

    /// Returns whether a notification is unused.
    pub(crate) fn is_any_unused(&self) -> bool {
        Said::of(self.0.load(Ordering::Acquire)).unused != 0
    }

    fn change(&self, change: impl Fn(Said) -> Option<Said>) -> bool {
        // Acquire pairs with the Release of a notifier: what it did before comes along.
        let mut seen = self.0.load(Ordering::Acquire);
        loop {
            let Some(to) = change(Said::of(seen)).map(Said::word) else { return false };
            if to == seen {
                return true;
            }
            match self.0.compare_exchange(seen, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_is_used_once_and_by_no_wait_that_began_after_it() {
        let given = Notifications::default();
        let before = given.since();
        assert!(!given.take(before));
        given.give_one();
        let between = given.since();
        assert!(!given.take(between));
        given.give_one();
        let after = given.since();
        // The later waiter first: it takes the newer one.
        assert!(given.take(between) && !given.take(between));
        assert!(given.take(before) && !given.take(before));
        assert!(!given.take(after) && !given.is_any_unused());
    }

    #[test]
    fn the_oldest_is_used_first() {
        let given = Notifications::default();
        let before = given.since();
        given.give_one();
        let between = given.since();
        given.give_one();
        assert!(given.take(before));
        assert!(given.take(between), "the newer one is left for it");
    }

    #[test]
    fn all_that_began_before_return_and_none_that_began_after() {
        let given = Notifications::default();
        let before = given.since();
        given.give_one();
        given.give_all();
        let after = given.since();
        assert!(given.take(before) && given.take(before) && !given.take(after));
        given.give_one();
        assert!(given.take(before) && given.take(after) && !given.take(after));
        assert!(given.take(before));
    }

    #[test]
    fn of_many_at_once_none_is_lost() {
        let given = Notifications::default();
        let before = given.since();
        (0..100).for_each(|_| given.give_one());
        assert!((0..100).all(|_| given.take(before)));
        let after = given.since();
        assert!(!given.take(after));
    }

    #[test]
    fn what_no_waiter_used_is_not_for_later_ones() {
        let given = Notifications::default();
        for _ in 0..1000 {
            given.give_one();
            let since = given.since();
            assert!(!given.take(since));
            given.give_one();
            assert!(given.take(since) && !given.take(since));
        }
    }

    #[test]
    fn waiters_are_counted_beside_all_else() {
        let given = Notifications::default();
        assert!(!given.is_any_waiting());
        let begun = given.begin();
        (0..3).for_each(|_| given.give_one());
        given.begin();
        given.end();
        assert!(given.is_any_waiting() && given.take(begun));
        given.end();
        given.end();
        assert!(!given.is_any_waiting() && given.take(begun) && given.take(begun));
        // Too many to count: for good.
        (0..300).for_each(|_| assert_ne!(given.begin(), Since(1)));
        (0..300).for_each(|_| given.end());
        assert!(given.is_any_waiting());
    }

    #[test]
    fn numbers_wrap() {
        let given = Notifications(AtomicU64::new(
            Said { unused: 0, all: LONG_AGO, number: NUMBERS - 1, waiters: 0 }.word(),
        ));
        let before = given.since();
        given.give_one();
        given.give_one();
        assert_eq!(Said::of(given.0.load(Ordering::Relaxed)).number, 1);
        assert!(given.take(before) && given.take(before) && !given.take(before));
    }
}
