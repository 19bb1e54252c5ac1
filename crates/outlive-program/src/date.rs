//! Moments as the programs print them for a person: by the clock on the wall where the program runs.

/// Returns a moment as the local date and time with its distance from UTC, which `date -d` reads:
/// `2026-11-27 23:08:49.000000001 +01:00`. `None`: the system has no such date.
pub fn local(nanoseconds: u64) -> Option<String> {
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let seconds = libc::time_t::try_from(seconds).ok()?;
    // SAFETY: all zeroes is a valid value: numbers, and a pointer that is not read.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both places are this function's own. The function reads the environment's TZ; the programs that use
    // this do not change their environment.
    let made = unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    if made.is_null() {
        return None;
    }
    let (sign, minutes) = match parts.tm_gmtoff / 60 {
        minutes @ 0.. => ('+', minutes),
        minutes => ('-', -minutes),
    };
    Some(format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{rest:09} {sign}{:02}:{:02}",
        i64::from(parts.tm_year) + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        minutes / 60,
        minutes % 60
    ))
}

/// Returns the same moment in seconds since 1970: `1764284929.000000001`.
pub fn seconds(nanoseconds: u64) -> String {
    format!("{}.{:09}", nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the zone is: a date has the same length, and the latest time is one.
    #[test]
    fn each_time_has_a_date() {
        for (time, year) in [(u64::MAX, "2554-"), (1_767_787_200_000_000_001, "2026-01-0")] {
            let text = local(time).expect("a date");
            assert!(text.starts_with(year) && text.len() == 36, "{text}");
        }
        assert_eq!(seconds(1_767_787_200_000_000_001), "1767787200.000000001");
    }
}
