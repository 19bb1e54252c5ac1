//! Times on the command line: `250ms`, `2s`, `1m30s`, `1.5h`. One parser for every option that
//! takes a time.
//!
//! A number without a unit means what the option's help says: seconds, unless it names another
//! unit. The crate `humantime` reads neither such numbers nor fractions, so this is ours.

use std::time::Duration;

/// The units, in nanoseconds.
const UNITS: [(&str, f64); 10] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("sec", 1e9),
    ("m", 60e9),
    ("min", 60e9),
    ("h", 3600e9),
    ("d", 86_400e9),
];

/// Reads a time; a number without a unit is seconds.
pub fn seconds(text: &str) -> Result<Duration, String> {
    of(text, "s")
}

/// Reads a time; a number without a unit is of the unit `bare`.
pub fn of(text: &str, bare: &str) -> Result<Duration, String> {
    let unit = |name: &str| UNITS.iter().find(|(known, _)| *known == name).map(|(_, nanoseconds)| *nanoseconds);
    let sum = match text.parse::<f64>() {
        Ok(number) => unit(bare).map(|unit| number * unit),
        Err(_) => parts(text).and_then(|parts| {
            let times = parts.iter().map(|(number, name)| Some(number.parse::<f64>().ok()? * unit(name)?));
            times.sum::<Option<f64>>()
        }),
    };
    let sum = sum.ok_or("a time is a number with ns, us, ms, s, m, h or d, as in 250ms, 2s or 1m30s")?;
    Duration::try_from_secs_f64(sum / 1e9).map_err(|_| "no such time; use 0 or more".to_owned())
}

/// `1m30s` as `1` `m` and `30` `s`. `None`: a number or a unit is missing.
fn parts(text: &str) -> Option<Vec<(&str, &str)>> {
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    let (mut parts, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, behind) = behind.split_at(behind.find(is_number).unwrap_or(behind.len()));
        if number.is_empty() {
            return None;
        }
        parts.push((number, unit));
        rest = behind;
    }
    (!parts.is_empty()).then_some(parts)
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
        reads("1.5h", 5_400_000_000_000);
        reads("1d2min3sec", 86_523_000_000_000);
        reads("7us", 7_000);
        reads("7µs", 7_000);
        reads("100ns", 100);
        reads("0s", 0);
        for wrong in ["", "s", "2x", "2 s", "-1s", "1m30", "ms250", "1..5s", ".s", "2S", "nans", "1e99h", "2s-1s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bare_number_means_what_it_has_always_meant() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(of("40", "ms"), Ok(Duration::from_millis(40)));
        assert_eq!(of("100", "ns"), Ok(Duration::from_nanos(100)));
        for wrong in ["-1", "nan", "inf", "1e99"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
