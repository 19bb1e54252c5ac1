//! Times on the command line: `250ms`, `2s`, `1m30s`, `1.5h`. A number without a unit is seconds.

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

/// Reads a time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let parser = CustomDurationParser::builder().time_units(&UNITS).parse_multiple(None).build();
    let read = parser.parse(text).ok().and_then(|time| Duration::try_from(time).ok());
    // Too much is the most that there is, to the parser.
    read.filter(|time| *time < Duration::MAX).ok_or_else(|| {
        "a time is a number with ns, us, ms, s, m, h or d, as in 250ms, 2s or 1m30s".to_owned()
    })
}

/// Reads a time that is not none.
pub fn more_than_none(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("more than 0 is needed".to_owned()),
        time => Ok(time),
    }
}

/// Reads a time, or 'forever', the longest that there is.
pub fn or_forever(text: &str) -> Result<Duration, String> {
    match text {
        "forever" => Ok(Duration::MAX),
        text => seconds(text).map_err(|why| format!("{why}; or 'forever'")),
    }
}

/// Reads a time, 'never', which is none, or 'forever'.
pub fn never_or_forever(text: &str) -> Result<Duration, String> {
    match text {
        "never" => Ok(Duration::ZERO),
        "forever" => Ok(Duration::MAX),
        text => seconds(text).map_err(|why| format!("{why}; or 'never', or 'forever'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        let reads = |text: &str, nanoseconds: u64| {
            assert_eq!(seconds(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        };
        reads("250ms", 250_000_000);
        reads("2s", 2_000_000_000);
        reads("1m30s", 90_000_000_000);
        reads("1m30", 90_000_000_000);
        reads("1.5h", 5_400_000_000_000);
        reads("1d2min3sec", 86_523_000_000_000);
        reads("7us", 7_000);
        reads("7µs", 7_000);
        reads("100ns", 100);
        reads("0s", 0);
        for wrong in ["", "s", "2x", "2 s", "-1s", "ms250", ".s", "2S", "nans", "1e99h", "2s-1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn never_and_forever_are_times_where_they_mean_something() {
        let (never, forever) = (Ok(Duration::ZERO), Ok(Duration::MAX));
        assert_eq!((never_or_forever("never"), never_or_forever("forever")), (never, forever));
        assert_eq!(or_forever("forever"), Ok(Duration::MAX));
        assert_eq!(more_than_none("2s"), seconds("2s"));
        assert!(more_than_none("0ms").is_err());
        assert_eq!((or_forever("2s"), never_or_forever("0")), (seconds("2s"), seconds("0")));
        for (read, text) in [
            (seconds as fn(&str) -> Result<Duration, String>, "forever"),
            (or_forever, "never"),
            (never_or_forever, "Never"),
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_number_means_what_it_has_always_meant() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["-1", "nan", "inf", "1e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
