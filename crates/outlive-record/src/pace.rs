//! When the recorder looks again: by itself after a few milliseconds, or when it is woken.
//!
//! A publisher that finds a sleeping subscriber wakes it by a system call. On a busy topic, a recorder that
//! sleeps would cost its publishers such a call for most messages, and itself a wake-up. So the recorder polls,
//! and publishers do not see it sleep, as long as the rings have room for what comes meanwhile:
//!
//! | what came lately | the recorder |
//! | --- | --- |
//! | nothing, for [`QUIET`] | sleeps until a publisher wakes it |
//! | so little that no ring gets an eighth fuller within [`SHORTEST`] | looks again before one does, after [`LONGEST`] at most |
//! | more | sleeps until a publisher wakes it, for the next [`TIGHT`]; most looks find something, so it sleeps little |
//!
//! If a burst fills the ring of a reliable topic between two looks, its publisher waits until the next one. After
//! a quiet time, the first message wakes the recorder.

use std::time::{Duration, Instant};

/// The least time between two looks, and the greatest.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(8);
/// After so long without a message, the recorder sleeps.
const QUIET: Duration = Duration::from_millis(50);
/// For so long publishers wake the recorder, once polling would be too late.
const TIGHT: Duration = Duration::from_secs(1);

/// See the head of this file.
#[derive(Debug)]
pub struct Pace {
    interval: Duration,
    /// Since when messages are counted.
    counted_from: Instant,
    found_at: Option<Instant>,
    woken_until: Option<Instant>,
}

impl Pace {
    pub fn new(now: Instant) -> Pace {
        Pace { interval: SHORTEST, counted_from: now, found_at: None, woken_until: None }
    }

    /// It slept, and has been woken: how long nothing came says nothing of how fast it comes now.
    pub fn is_woken(&mut self, now: Instant) {
        (self.interval, self.counted_from) = (SHORTEST, now);
    }

    /// There has been a look at all topics. `fullest` returns how large a part of its ring has come in
    /// some topic, at most, since it was asked last.
    pub fn has_looked(&mut self, now: Instant, has_found: bool, fullest: impl FnOnce() -> f64) {
        if has_found {
            self.found_at = Some(now);
        }
        let span = now.saturating_duration_since(self.counted_from);
        if span < SHORTEST {
            return;
        }
        self.counted_from = now;
        let part = fullest();
        // Until an eighth of a ring.
        let room = Duration::try_from_secs_f64(span.as_secs_f64() / (8.0 * part));
        let room = room.unwrap_or(Duration::MAX);
        if room < SHORTEST {
            self.woken_until = Some(now + TIGHT);
        }
        self.interval = room.min(self.interval * 2).clamp(SHORTEST, LONGEST);
    }

    /// Returns after how long it looks without being told; `None`: it sleeps until a publisher wakes it.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let is_quiet = self.found_at.is_none_or(|found| now - found >= QUIET);
        let is_woken = self.woken_until.is_some_and(|until| now < until);
        (!is_quiet && !is_woken).then_some(self.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = SHORTEST;

    #[test]
    fn it_looks_as_often_as_rings_need_it() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        assert_eq!(pace.rest(begun), None, "nothing has come");
        // Too soon to say.
        pace.has_looked(begun, false, || unreachable!());
        let mut now = begun + MS;
        pace.has_looked(now, true, || 1.0 / 16.0);
        assert_eq!(pace.rest(now), Some(2 * MS));
        now += 2 * MS;
        pace.has_looked(now, true, || 1.0 / 16.0);
        assert_eq!(pace.rest(now), Some(4 * MS));
        // A quarter of a ring in 4 ms: an eighth in 2.
        now += 4 * MS;
        pace.has_looked(now, true, || 0.25);
        assert_eq!(pace.rest(now), Some(2 * MS));
        for _ in 0..5 {
            now += LONGEST;
            pace.has_looked(now, true, || 0.001);
        }
        assert_eq!(pace.rest(now), Some(LONGEST));
        assert_eq!(pace.rest(now + QUIET), None);
    }

    #[test]
    fn it_is_woken_where_looks_would_be_too_late() {
        let begun = Instant::now();
        let mut pace = Pace::new(begun);
        let mut now = begun + MS;
        pace.has_looked(now, true, || 0.2);
        assert_eq!(pace.rest(now), None);
        now += TIGHT;
        pace.has_looked(now, true, || 0.1);
        assert!(pace.rest(now).is_some());
        // One that slept begins anew.
        now += QUIET;
        pace.is_woken(now);
        pace.has_looked(now, true, || unreachable!());
        assert_eq!(pace.rest(now), Some(MS));
        pace.has_looked(now + MS, true, || 0.3);
        assert_eq!(pace.rest(now + MS), None);
    }
}
