//! Moments on `CLOCK_BOOTTIME`, which goes on while the machine is suspended: a lease does, too.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, in nanoseconds since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    pub(crate) fn now() -> Moment {
        let now = clock_gettime(ClockId::Boottime);
        Moment(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
    }

    pub(crate) fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    pub(crate) fn has_passed(self) -> bool {
        self != Moment::NEVER && Moment::now() >= self
    }

    /// Returns how far ahead it is; a day, if it never comes.
    pub(crate) fn remaining(self) -> Duration {
        let day = Duration::from_secs(24 * 3600);
        Duration::from_nanos(self.0.saturating_sub(Moment::now().0)).min(day)
    }

    /// Returns the moment at which a deadline comes.
    pub(crate) fn of(deadline: outlive::Deadline) -> Moment {
        deadline.remaining().map_or(Moment::NEVER, |left| Moment::now().after(left))
    }
}
