//! Moments to wait for in a set.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::clock;
use crate::wake::{Readiness, Source, SourceState, Waited, Watched};
use crate::{Deadline, Error};

/// Becomes ready at a moment, or at a series of moments, in a [`WaitSet`](super::WaitSet).
///
/// A timer is ready from its moment until the program has [taken](Timer::take) it. It belongs to
/// this process alone; clones are the same timer.
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-timer-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::wait::{Timer, WaitSet, Readiness};
/// use std::time::Duration;
///
/// let mut set = WaitSet::new(&domain);
/// let tick = Timer::every(Duration::from_millis(2));
/// let key = set.add(&tick)?;
/// for _ in 0..3 {
///     assert_eq!(set.wait_timeout(Duration::from_secs(9))?.collect::<Vec<_>>(), [(key, Readiness::Elapsed)]);
///     assert!(tick.take() > 0);
/// }
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timer(Arc<Moments>);

#[derive(Debug)]
enum Moments {
    /// One moment, and whether it has been taken.
    Once { moment: Deadline, taken: AtomicU64 },
    /// Nanoseconds of the monotonic clock: the start, the distance between moments, and how many
    /// have been taken.
    Every { begin: u64, span: u64, taken: AtomicU64 },
}

impl Timer {
    /// Makes a timer that is ready once, at that moment.
    pub fn at(moment: Deadline) -> Timer {
        Timer(Arc::new(Moments::Once { moment, taken: AtomicU64::new(0) }))
    }

    /// Makes a timer that is ready once, so long from now.
    pub fn after(span: Duration) -> Timer {
        Timer::at(Deadline::after(span))
    }

    /// Makes a timer that is ready again and again, at that distance, first one span from now. A
    /// span of zero counts as a nanosecond.
    pub fn every(span: Duration) -> Timer {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1);
        let begin = clock::monotonic_nanos();
        Timer(Arc::new(Moments::Every { begin, span, taken: AtomicU64::new(0) }))
    }

    /// Returns how many of its moments have passed since the last call. After that it is not ready
    /// before its next moment.
    pub fn take(&self) -> u64 {
        let (passed, taken) = self.passed();
        // Relaxed: a count, nothing comes with it.
        passed.saturating_sub(taken.fetch_max(passed, Ordering::Relaxed))
    }

    /// Returns how many moments have passed altogether, and how many are taken.
    fn passed(&self) -> (u64, &AtomicU64) {
        match &*self.0 {
            Moments::Once { moment, taken } => (u64::from(moment.has_passed()), taken),
            Moments::Every { begin, span, taken } => {
                (clock::monotonic_nanos().saturating_sub(*begin) / span, taken)
            }
        }
    }
}

impl Source for Timer {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched { waited: Arc::new(self.clone()), registry: None })
    }
}

impl Waited for Timer {
    fn look(&self) -> SourceState {
        let (passed, taken) = self.passed();
        let taken = taken.load(Ordering::Relaxed);
        if passed > taken {
            return SourceState::Ready(Readiness::Elapsed);
        }
        match &*self.0 {
            Moments::Once { .. } if taken > 0 => SourceState::Waiting,
            Moments::Once { moment, .. } => SourceState::NotBefore(*moment),
            Moments::Every { begin, span, .. } => SourceState::NotBefore(Deadline::at_nanos(
                begin.saturating_add(span.saturating_mul(taken + 1)),
            )),
        }
    }
}
