//! Deadlines: moments on `CLOCK_MONOTONIC`, or on `CLOCK_REALTIME` for a time of day.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Holds the moment at which a waiting call gives up.
///
/// It is absolute, so waiting again after a spurious wake-up does not lengthen it. A span or an
/// [`Instant`] counts on the monotonic clock, which cannot be set; a [`SystemTime`] is a time of
/// day, and setting the clock moves it.
///
/// ```
/// use outlive::Deadline;
/// use std::time::{Duration, Instant, SystemTime};
/// let span = Duration::from_millis(10);
/// assert!(!Deadline::after(span).has_passed());
/// assert!(!Deadline::at(Instant::now() + span).has_passed());
/// assert!(!Deadline::at_time_of_day(SystemTime::now() + span).has_passed());
/// assert!(Deadline::at_time_of_day(SystemTime::UNIX_EPOCH).has_passed());
/// assert!(!Deadline::NEVER.has_passed());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Nanoseconds of the clock; `u64::MAX` means never.
    at: u64,
    clock: ClockId,
}

impl Deadline {
    /// Never passes. A call still ends when what it waits for can never come because its peer died.
    pub const NEVER: Deadline = Deadline { at: u64::MAX, clock: ClockId::Monotonic };

    /// Returns the moment that long from now. A span too long for the clock gives
    /// [`Deadline::NEVER`].
    pub fn after(span: Duration) -> Deadline {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Deadline { at: monotonic_nanos().saturating_add(span), clock: ClockId::Monotonic }
    }

    /// Returns the deadline at that moment.
    pub fn at(moment: Instant) -> Deadline {
        Deadline::after(moment.saturating_duration_since(Instant::now()))
    }

    /// Returns the deadline at that time of day. When the clock is set, the deadline comes sooner
    /// or later accordingly.
    pub fn at_time_of_day(time: SystemTime) -> Deadline {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let at = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        if at == u64::MAX { Deadline::NEVER } else { Deadline { at, clock: ClockId::Realtime } }
    }

    /// Returns the deadline at so many nanoseconds of `CLOCK_MONOTONIC`, as `clock_gettime` gives
    /// them; `u64::MAX` is [`Deadline::NEVER`].
    pub const fn at_nanos(at: u64) -> Deadline {
        Deadline { at, clock: ClockId::Monotonic }
    }

    /// Calls a function that waits until a deadline, without one, until it has something to return.
    /// It is how a verb waits for ever by its bounded form.
    pub(crate) fn never<T, E>(
        mut wait: impl FnMut(Deadline) -> Result<Option<T>, E>,
    ) -> Result<T, E> {
        loop {
            if let Some(found) = wait(Deadline::NEVER)? {
                return Ok(found);
            }
        }
    }

    /// Returns whether the moment has passed.
    pub fn has_passed(self) -> bool {
        self != Deadline::NEVER && nanos(self.clock) >= self.at
    }

    /// Returns the earlier of the two.
    pub(crate) fn earlier(self, other: Deadline) -> Deadline {
        let is_earlier = match (self.remaining(), other.remaining()) {
            _ if self.clock == other.clock => self.at <= other.at,
            (Some(mine), Some(others)) => mine <= others,
            (mine, _) => mine.is_some(),
        };
        if is_earlier { self } else { other }
    }

    /// Returns it as the kernel takes it; `None` means for ever.
    pub(crate) fn timespec(self) -> Option<Timespec> {
        (self != Deadline::NEVER).then_some(Timespec {
            tv_sec: (self.at / NANOS_PER_SECOND) as _,
            tv_nsec: (self.at % NANOS_PER_SECOND) as _,
        })
    }

    /// Returns the clock to which the moment belongs.
    pub(crate) fn clock(self) -> ClockId {
        self.clock
    }

    /// Returns the time that is left, for calls that take a span; `None` means for ever.
    ///
    /// ```
    /// use outlive::Deadline;
    /// use std::time::Duration;
    /// let hour = Duration::from_secs(3600);
    /// assert!(Deadline::after(hour).remaining().is_some_and(|left| left <= hour));
    /// assert_eq!(Deadline::NEVER.remaining(), None);
    /// ```
    pub fn remaining(self) -> Option<Duration> {
        (self != Deadline::NEVER)
            .then(|| Duration::from_nanos(self.at.saturating_sub(nanos(self.clock))))
    }
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_nanos() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns nanoseconds of `CLOCK_REALTIME`.
pub(crate) fn realtime_nanos() -> u64 {
    nanos(ClockId::Realtime)
}

/// Returns the time of day that is so far ahead by the clock's present reading: for calls that
/// know no other clock.
pub(crate) fn realtime_after(span: Duration) -> Deadline {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
    Deadline { at: nanos(ClockId::Realtime).saturating_add(span), clock: ClockId::Realtime }
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * NANOS_PER_SECOND + now.tv_nsec as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_of_two_is_found_across_clocks() {
        let soon = Deadline::after(Duration::from_secs(1));
        let later = Deadline::at_time_of_day(SystemTime::now() + Duration::from_secs(60));
        assert_eq!((soon.earlier(later), later.earlier(soon)), (soon, soon));
        assert_eq!(
            (later.earlier(Deadline::NEVER), Deadline::NEVER.earlier(later)),
            (later, later)
        );
        let past = Deadline::at_time_of_day(UNIX_EPOCH);
        assert_eq!((soon.earlier(past), past.earlier(soon)), (past, past));
        assert_eq!(Deadline::NEVER.earlier(Deadline::NEVER), Deadline::NEVER);
    }
}
