//! How many tests passed and failed, read from what a stage prints.

/// Passed, failed and skipped tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Count {
    pub(crate) const PASSED: Count = Count { passed: 1, failed: 0, skipped: 0 };
    pub(crate) const FAILED: Count = Count { passed: 0, failed: 1, skipped: 0 };
    pub(crate) const SKIPPED: Count = Count { passed: 0, failed: 0, skipped: 1 };

    pub(crate) fn add(&mut self, other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Reads a closing line: libtest's (`test result: ok. 3 passed; 0 failed; 1 ignored; …`) or the
    /// plain `3 passed, 0 failed[, 1 skipped]`.
    pub(crate) fn of_line(line: &str) -> Option<Count> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("test result: ") {
            let (_, rest) = rest.split_once(". ")?;
            let mut parts = rest.split("; ");
            return Some(Count {
                passed: number(parts.next()?, "passed")?,
                failed: number(parts.next()?, "failed")?,
                skipped: number(parts.next()?, "ignored")?,
            });
        }
        let mut parts = line.split(", ");
        let count = Count {
            passed: number(parts.next()?, "passed")?,
            failed: number(parts.next()?, "failed")?,
            skipped: parts.next().map_or(Some(0), |part| number(part, "skipped"))?,
        };
        parts.next().is_none().then_some(count)
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 { write!(f, ", {} skipped", self.skipped) } else { Ok(()) }
    }
}

fn number(part: &str, word: &str) -> Option<u64> {
    part.strip_suffix(word)?.trim_end().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read_and_others_are_not() {
        let libtest = "test result: ok. 10 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        assert_eq!(Count::of_line(libtest), Some(Count { passed: 10, failed: 2, skipped: 1 }));
        assert_eq!(
            Count::of_line("7 passed, 0 failed"),
            Some(Count { passed: 7, failed: 0, skipped: 0 })
        );
        assert_eq!(
            Count::of_line("7 passed, 1 failed, 3 skipped"),
            Some(Count { passed: 7, failed: 1, skipped: 3 })
        );
        for other in [
            "",
            "running 3 tests",
            "7 passed",
            "x passed, 0 failed",
            "1 passed, 0 failed, 2 skipped, 3 more",
        ] {
            assert_eq!(Count::of_line(other), None, "{other}");
        }
    }
}
