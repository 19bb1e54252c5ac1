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
        _ => return Err(format!("'{unit}' is no unit; use K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "a number is needed, as in 64K".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "too large".to_owned())
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
    }
}
