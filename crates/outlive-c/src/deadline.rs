//! Deadlines, as one number.

use std::ffi::c_int;
use std::time::{Duration, UNIX_EPOCH};

use outlive::{Deadline, WaitError};

use crate::code::Failure;

/// Until when a call may wait: a point in time, so that waiting again does not make it longer.
///
/// A number of nanoseconds of `CLOCK_MONOTONIC`, as `outlive_after_ms` makes it; or of the time of
/// day, with the highest bit set, as `outlive_at_time_of_day` makes it; or `OUTLIVE_NEVER`, or
/// `OUTLIVE_TRY`.
pub type outlive_deadline_t = u64;

/// Wait without a deadline. A call still ends when what it waits for can never come because its
/// peer died.
pub const OUTLIVE_NEVER: outlive_deadline_t = u64::MAX;
/// Do not wait: a lock that is held gives `EBUSY`; anything else that is not available gives
/// `EAGAIN`.
pub const OUTLIVE_TRY: outlive_deadline_t = 0;

const TIME_OF_DAY: u64 = 1 << 63;

/// Returns the deadline; `None`: do not wait.
#[inline]
pub(crate) fn moment(deadline: outlive_deadline_t) -> Option<Deadline> {
    match deadline {
        OUTLIVE_TRY => None,
        OUTLIVE_NEVER => Some(Deadline::NEVER),
        deadline if deadline & TIME_OF_DAY == 0 => Some(Deadline::at_nanos(deadline)),
        deadline => Some(time_of_day(deadline & !TIME_OF_DAY)),
    }
}

#[cold]
#[inline(never)]
fn time_of_day(nanoseconds: u64) -> Deadline {
    UNIX_EPOCH
        .checked_add(Duration::from_nanos(nanoseconds))
        .map_or(Deadline::NEVER, Deadline::at_time_of_day)
}

/// Returns the deadline for functions without a form that does not wait: one that has passed.
#[inline]
pub(crate) fn moment_or_past(deadline: outlive_deadline_t) -> Deadline {
    moment(deadline).unwrap_or(past())
}

/// Returns a deadline that has passed: the call does not wait.
#[inline]
pub(crate) fn past() -> Deadline {
    Deadline::at_nanos(1)
}

/// Returns what a wait until that deadline found. `None`: the deadline passed first, or, with
/// `OUTLIVE_TRY`, there is nothing just now; `busy` is the code for that.
#[inline]
pub(crate) fn in_time<T>(
    found: Option<T>,
    deadline: outlive_deadline_t,
    busy: c_int,
) -> Result<T, Failure> {
    found.ok_or_else(|| match moment(deadline) {
        Some(_) => WaitError::TimedOut.into(),
        None => Failure::new(busy, "not to be had just now; wait for it, or try later"),
    })
}

/// Returns the deadline that many nanoseconds from now. A span too long for the clock gives
/// `OUTLIVE_NEVER`.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_after(nanoseconds: u64) -> outlive_deadline_t {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a place for the time. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    let at = now.saturating_add(nanoseconds);
    if at < TIME_OF_DAY { at.max(1) } else { OUTLIVE_NEVER }
}

/// Returns the deadline that many milliseconds from now.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_after_ms(milliseconds: u64) -> outlive_deadline_t {
    outlive_after(milliseconds.saturating_mul(1_000_000))
}

/// Returns the deadline at that time of day, in seconds and nanoseconds since 1970. When the clock
/// is set, it comes sooner or later accordingly. A time before 1970 has passed.
#[unsafe(no_mangle)]
pub extern "C" fn outlive_at_time_of_day(seconds: i64, nanoseconds: u32) -> outlive_deadline_t {
    let Ok(seconds) = u64::try_from(seconds) else { return TIME_OF_DAY };
    let at = seconds.saturating_mul(1_000_000_000).saturating_add(u64::from(nanoseconds));
    if at < TIME_OF_DAY - 1 { at | TIME_OF_DAY } else { OUTLIVE_NEVER }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    #[test]
    fn moments_are_told_apart() {
        assert_eq!(moment(OUTLIVE_TRY), None);
        assert_eq!(moment(OUTLIVE_NEVER), Some(Deadline::NEVER));
        assert!(!moment(outlive_after_ms(60_000)).expect("waits").has_passed());
        assert!(moment(outlive_after(0)).expect("waits").has_passed());
        assert_eq!(
            (outlive_after(u64::MAX), outlive_after_ms(u64::MAX)),
            (OUTLIVE_NEVER, OUTLIVE_NEVER)
        );
        let today =
            SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() as i64;
        assert!(moment(outlive_at_time_of_day(today - 5, 0)).expect("waits").has_passed());
        assert!(!moment(outlive_at_time_of_day(today + 60, 0)).expect("waits").has_passed());
        assert!(moment(outlive_at_time_of_day(-5, 0)).expect("waits").has_passed());
        assert_eq!(outlive_at_time_of_day(i64::MAX, 0), OUTLIVE_NEVER);
        assert!(moment_or_past(OUTLIVE_TRY).has_passed());
    }
}
