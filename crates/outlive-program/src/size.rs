//! Sizes on the command line: `4096`, `64K`, `16M`, `2G`.

/// Reads a size. `K`, `M`, `G` and `T` (also `KiB` and so on) are powers of 1024.
pub fn parse(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(NO_SIZE.to_owned()),
    };
    let number: u64 = digits.parse().map_err(|_| NO_SIZE.to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
}

const NO_SIZE: &str = "a size is a number, with K, M, G or T for powers of 1024, as in 4096 or 64K";

/// Reads a size that says its unit, of at least so many bytes. For options whose name does not say what a bare number
/// counts: `1` may be meant as a gigabyte, or as a second.
pub fn with_unit(text: &str, least: u64) -> Result<u64, String> {
    let bytes = parse(text).ok().filter(|_| !text.ends_with(|c: char| c.is_ascii_digit()));
    let bytes = bytes.ok_or("a size is a number with its unit, as in 64K, 1M or 1G")?;
    match bytes < least {
        true => Err(format!("a size of at least {} is needed", shown(least))),
        false => Ok(bytes),
    }
}

/// Returns a size as it is typed, in the largest unit of which it is a whole number.
fn shown(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or(format!("{bytes}B"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Reads a size of less than 4 GiB.
pub fn parse_small(text: &str) -> Result<u32, String> {
    parse(text)?.try_into().map_err(|_| "too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64K"), Ok(65_536));
        assert_eq!(parse("2gib"), Ok(2 << 30));
        for wrong in ["", "K", "1X", "-1", "99999999999T"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!((with_unit("64K", 1 << 16), with_unit("7b", 0)), (Ok(1 << 16), Ok(7)));
        for wrong in ["1", "65536", "", "K", "1X", "99999999999T"] {
            assert!(with_unit(wrong, 0).is_err_and(|why| why.contains("1M or 1G")), "{wrong}");
        }
        for (least, told) in [(1 << 16, "64K"), (1 << 20, "1M"), (3 << 30, "3G"), (1000, "1000B")] {
            assert!(with_unit("1B", least).is_err_and(|why| why.contains(told)), "{told}");
        }
        assert_eq!((parse_small("3G"), parse_small("4G").is_err()), (Ok(3 << 30), true));
    }
}
