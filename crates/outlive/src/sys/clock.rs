//! Deadlines: moments on `CLOCK_MONOTONIC`, the clock that futexes wait by.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// The moment at which a waiting call gives up.
///
/// Absolute, on the monotonic clock: waiting again after a spurious wake-up does not lengthen it.
///
/// ```
/// use outlive::Deadline;
/// use std::time::Duration;
/// let soon = Deadline::after(Duration::from_millis(10));
/// assert!(!soon.has_passed());
/// assert!(!Deadline::NEVER.has_passed());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// Nanoseconds of `CLOCK_MONOTONIC`; `u64::MAX` is never.
    at: u64,
}

impl Deadline {
    /// Wait as long as it takes. A call still ends when what it waits for can never come because its peer died.
    pub const NEVER: Deadline = Deadline { at: u64::MAX };

    /// That long from now. A span too long for the clock is [`Deadline::NEVER`].
    pub fn after(span: Duration) -> Deadline {
        let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Deadline { at: monotonic_nanos().saturating_add(span) }
    }

    /// At that moment.
    pub fn at(moment: Instant) -> Deadline {
        Deadline::after(moment.saturating_duration_since(Instant::now()))
    }

    /// Whether the moment is over.
    pub fn has_passed(self) -> bool {
        self != Deadline::NEVER && monotonic_nanos() >= self.at
    }

    /// The earlier of the two.
    pub(crate) fn earlier(self, other: Deadline) -> Deadline {
        Deadline { at: self.at.min(other.at) }
    }

    /// As the kernel wants it; `None` is for ever.
    pub(crate) fn timespec(self) -> Option<Timespec> {
        (self != Deadline::NEVER).then_some(Timespec {
            tv_sec: (self.at / NANOS_PER_SECOND) as _,
            tv_nsec: (self.at % NANOS_PER_SECOND) as _,
        })
    }

    /// What is left of it, for calls that take a span.
    #[cfg(not(loom))]
    pub(crate) fn remaining(self) -> Option<Duration> {
        (self != Deadline::NEVER).then(|| Duration::from_nanos(self.at.saturating_sub(monotonic_nanos())))
    }
}

impl From<Duration> for Deadline {
    fn from(span: Duration) -> Deadline {
        Deadline::after(span)
    }
}

impl From<Instant> for Deadline {
    fn from(moment: Instant) -> Deadline {
        Deadline::at(moment)
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub(crate) fn monotonic_nanos() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * NANOS_PER_SECOND + now.tv_nsec as u64
}
