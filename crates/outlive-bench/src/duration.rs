//! Times on the command line: `250ms`, `2s`, `1m30s`. A number without a unit is of the unit that
//! the option's help names.

use std::time::Duration;

use fundu::{CustomDurationParser, CustomTimeUnit, TimeUnit};

/// The units as the program writes them.
const UNITS: [CustomTimeUnit<'_>; 7] = [
    CustomTimeUnit::with_default(TimeUnit::NanoSecond, &["ns"]),
    CustomTimeUnit::with_default(TimeUnit::MicroSecond, &["us", "µs"]),
    CustomTimeUnit::with_default(TimeUnit::MilliSecond, &["ms"]),
    CustomTimeUnit::with_default(TimeUnit::Second, &["s", "sec"]),
    CustomTimeUnit::with_default(TimeUnit::Minute, &["m", "min"]),
    CustomTimeUnit::with_default(TimeUnit::Hour, &["h"]),
    CustomTimeUnit::with_default(TimeUnit::Day, &["d"]),
];

/// Reads a time; a number without a unit is of the unit `bare`.
pub fn of(text: &str, bare: TimeUnit) -> Result<Duration, String> {
    let parser = CustomDurationParser::builder()
        .time_units(&UNITS)
        .default_unit(bare)
        .parse_multiple(None)
        .build();
    let read = parser.parse(text).ok().and_then(|time| Duration::try_from(time).ok());
    // Too much is the most that there is, to the parser.
    read.filter(|time| *time < Duration::MAX).ok_or_else(|| {
        "a time is a number with ns, us, ms, s, m, h or d, as in 250ms, 2s or 1m30s".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bare_number_is_of_the_unit_that_the_option_names() {
        assert_eq!(of("40", TimeUnit::MilliSecond), Ok(Duration::from_millis(40)));
        assert_eq!(of("100", TimeUnit::NanoSecond), Ok(Duration::from_nanos(100)));
        assert_eq!(of("1m30s", TimeUnit::NanoSecond), Ok(Duration::from_secs(90)));
        for wrong in ["", "-1", "inf", "nan", "1e99", "2x"] {
            assert!(of(wrong, TimeUnit::Second).is_err(), "{wrong}");
        }
    }
}
