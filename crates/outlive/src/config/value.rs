//! Sizes and times, as they are written in a configuration file.

use std::time::Duration;

/// Reads a size: a number, with K, M, G or T (also KiB, KB and so on) for powers of 1024.
pub(super) fn size(text: &str) -> Option<u64> {
    let (digits, unit) = parts(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Reads a time: a whole number with ns, us, ms, s, m or h.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (digits, unit) = parts(text);
    let nanos: u64 = match unit {
        "ns" => 1,
        "us" | "µs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" | "min" => 60 * 1_000_000_000,
        "h" => 3600 * 1_000_000_000,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(nanos).map(Duration::from_nanos)
}

/// Returns the digits at the beginning, and the unit behind them.
fn parts(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_read() {
        assert_eq!(
            (size("4096"), size("64K"), size("2GiB")),
            (Some(4096), Some(65_536), Some(2 << 30))
        );
        assert_eq!(
            (time("250ms"), time("2h")),
            (Some(Duration::from_millis(250)), Some(Duration::from_secs(7200)))
        );
        for wrong in ["", "K", "1X", "-1", "1.5G", "99999999999T"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        for wrong in ["", "s", "2", "-1s", "1.5s", "2 s", "99999999999999h"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
    }
}
