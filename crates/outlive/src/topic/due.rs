//! Deadlines: a message is expected at least once in each period, by a subscriber from its topic,
//! or by a program from its own publisher.
//!
//! All of this is the process's own memory: a death leaves nothing to repair, and no other process
//! sees it. A process that is stopped finds its periods missed when it goes on. A subscriber's
//! period begins again when it takes a message, and a publisher's when it publishes one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::Error;
use crate::liveness::Registry;
use crate::sys::clock::{self, Deadline};
use crate::wake::{Readiness, Source, SourceState, Waited, Watched};

/// By when the next message is expected.
pub(super) struct Expected {
    /// Nanoseconds, not 0.
    period: u64,
    /// Nanoseconds of the monotonic clock.
    by: AtomicU64,
    /// How many periods have passed without a message.
    missed: AtomicU64,
}

impl Expected {
    /// Begins the first period.
    pub(super) fn new(period: Duration) -> Expected {
        let period = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX).max(1);
        let by = AtomicU64::new(clock::monotonic_nanos().saturating_add(period));
        Expected { period, by, missed: AtomicU64::new(0) }
    }

    /// Returns how many periods have passed, if the moment `by` was the end of the first.
    fn passed(&self, by: u64, now: u64) -> u64 {
        now.checked_sub(by).filter(|_| by != u64::MAX).map_or(0, |late| late / self.period + 1)
    }

    fn count(&self, periods: u64) {
        // Relaxed: a count, nothing comes with it. So are all orders of this file.
        self.missed.fetch_add(periods, Ordering::Relaxed);
    }

    /// Begins a period: a message is taken. What was there in time is not missed, however late it
    /// is taken, so nothing is counted.
    #[cold]
    pub(super) fn taken(&self) {
        let by = clock::monotonic_nanos().saturating_add(self.period);
        self.by.store(by, Ordering::Relaxed);
    }

    /// Begins a period: a message is published. Counts those that have passed before it.
    #[cold]
    pub(super) fn published(&self) {
        let now = clock::monotonic_nanos();
        // One step, so that a period which `take` counts meanwhile is counted once.
        let by = self.by.swap(now.saturating_add(self.period), Ordering::Relaxed);
        self.count(self.passed(by, now));
    }

    /// Returns how many periods have passed since a message, or the last call; counts them. The
    /// next period ends where it would have.
    #[cold]
    pub(super) fn take(&self) -> u64 {
        self.take_until(clock::monotonic_nanos())
    }

    /// Returns whether a period has passed at that moment.
    pub(super) fn is_late(&self, now: u64) -> bool {
        self.passed(self.by.load(Ordering::Relaxed), now) > 0
    }

    /// Does as [`Expected::take`], with the periods that had passed at that moment.
    pub(super) fn take_until(&self, now: u64) -> u64 {
        let mut by = self.by.load(Ordering::Relaxed);
        loop {
            let passed = self.passed(by, now);
            if passed == 0 {
                return 0;
            }
            let next = by.saturating_add(passed.saturating_mul(self.period));
            match self.by.compare_exchange(by, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.count(passed);
                    return passed;
                }
                Err(other) => by = other,
            }
        }
    }

    /// No message is expected any more: the publisher is gone.
    pub(super) fn end(&self) {
        self.by.store(u64::MAX, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Returns the end of the period.
    pub(super) fn moment(&self) -> Deadline {
        Deadline::at_nanos(self.by.load(Ordering::Relaxed))
    }

    /// Returns what a wait set sees.
    pub(super) fn look(&self) -> SourceState {
        match self.moment() {
            moment if moment.has_passed() => SourceState::Ready(Readiness::Missed),
            moment => SourceState::NotBefore(moment),
        }
    }
}

/// Tells when a publisher has not published for its
/// [period](super::PublisherOptions::period); made by
/// [`Publisher::due`](super::Publisher::due).
///
/// It is ready from the end of a period until a message is published, or until
/// [`Due::take`]. It belongs to this process alone; clones are the same.
#[derive(Clone)]
pub struct Due {
    expected: Option<Arc<Expected>>,
    registry: &'static Registry,
}

impl Due {
    pub(super) fn new(expected: Option<Arc<Expected>>, registry: &'static Registry) -> Due {
        Due { expected, registry }
    }

    /// Returns the registry whose reactor waits for a task.
    pub(crate) fn registry(&self) -> &'static Registry {
        self.registry
    }

    /// Returns how many periods have passed without a message since the last message, or the last
    /// call. After that it is not ready before the next period's end.
    pub fn take(&self) -> u64 {
        self.expected.as_ref().map_or(0, |expected| expected.take())
    }
}

impl Waited for Due {
    fn look(&self) -> SourceState {
        self.expected.as_ref().map_or(SourceState::Waiting, |expected| expected.look())
    }
}

/// Ready when its publisher has published nothing for its period.
impl Source for Due {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched { waited: Arc::new(self.clone()), registry: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moments are given, so the machine's load has no say.
    #[test]
    fn each_period_counts_once() {
        let long = Expected::new(Duration::from_secs(1 << 30));
        assert_eq!((long.take(), long.missed()), (0, 0));
        let short = Expected { period: 10, by: AtomicU64::new(100), missed: AtomicU64::new(0) };
        for (now, wanted) in [(0, 0), (99, 0), (100, 1), (109, 1), (110, 2), (199, 10)] {
            assert_eq!(short.passed(100, now), wanted, "{now}");
        }
        // The clock is far behind all that.
        let passed = short.take();
        assert!(passed > 1 && !short.is_late(0) && short.is_late(clock::monotonic_nanos()));
        assert_eq!(short.missed(), passed);
        assert_eq!(short.by.load(Ordering::Relaxed), 100 + passed * 10);
        short.taken();
        assert_eq!(short.missed(), passed);
        short.end();
        assert_eq!((short.take_until(u64::MAX), short.missed()), (0, passed));
    }

    #[test]
    fn a_period_of_any_length_is_kept() {
        for period in [Duration::ZERO, Duration::MAX] {
            let expected = Expected::new(period);
            let passed = expected.take();
            assert_eq!(passed > 0, period == Duration::ZERO);
            expected.published();
            assert!(expected.missed() >= passed);
        }
    }
}
