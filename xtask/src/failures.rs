//! What failed, said again at the end: the output of the test command has many thousand lines, and
//! often only its last ones are looked at or kept.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Of a stage no more lines are said again: its own output has them all.
const MOST: usize = 40;

/// Behind a line that begins to tell of a failure, so many belong to it: the place of a panic is
/// followed by its words.
const FOLLOWING: usize = 4;

/// Where no line tells of a failure, the last ones may.
const LAST: usize = 10;

/// All stages of this program that failed, with the lines that say why.
static KEPT: Mutex<Vec<(String, Failures)>> = Mutex::new(Vec::new());

/// The lines of a stage that tell of failures.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    told: Vec<String>,
    /// So many lines still belong to the last one.
    following: usize,
    last: VecDeque<String>,
}

impl Failures {
    /// Takes a line that the stage has printed.
    pub(crate) fn hear(&mut self, line: &str) {
        let begins = begins(line);
        if (begins.is_some() || self.following > 0) && !is_result(line) {
            self.following = begins.unwrap_or_else(|| self.following.saturating_sub(1));
            if self.told.len() < MOST && !line.trim().is_empty() {
                self.told.push(line.to_owned());
            }
        }
        if self.last.len() == LAST {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
    }

    fn lines(&self) -> impl Iterator<Item = &String> {
        let none = self.told.is_empty();
        self.told.iter().chain(self.last.iter().filter(move |_| none))
    }
}

/// Keeps what a stage that failed has told, for the end.
pub(crate) fn keep(stage: &str, failures: Failures) {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).push((stage.to_owned(), failures));
}

/// Returns all that was kept, for people; nothing, if nothing failed.
pub(crate) fn kept() -> String {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let mut text = String::new();
    for (stage, failures) in kept.iter() {
        // A `String` takes all that is written into it.
        let _ = writeln!(text, "\nfailed in {stage}:");
        for line in failures.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    text
}

/// Returns how many of the following lines belong to this one, if it tells of a failure.
fn begins(line: &str) -> Option<usize> {
    if line.contains("panicked at ") {
        return Some(FOLLOWING);
    }
    // libtest's and pytest's lines are whole; ours, Go's, Java's and ctest's go on below.
    let whole = line.ends_with(" ... FAILED") || line.starts_with("FAILED ") && line.contains("::");
    match line.contains("FAIL") {
        true if whole => Some(0),
        true => Some(FOLLOWING),
        false => None,
    }
}

/// Returns whether the line only counts.
fn is_result(line: &str) -> bool {
    line.starts_with("test result: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(lines: &[&str]) -> Vec<String> {
        let mut failures = Failures::default();
        lines.iter().for_each(|line| failures.hear(line));
        failures.lines().cloned().collect()
    }

    #[test]
    fn a_test_s_name_its_place_and_its_words_are_kept() {
        let said = [
            "test a ... ok",
            "test b::c ... FAILED",
            "test d ... ok",
            "",
            "thread 'b::c' panicked at tests/b.rs:3:5:",
            "the words",
            "test result: FAILED. 2 passed; 1 failed; 0 ignored",
        ];
        assert_eq!(told(&said), [said[1], said[4], said[5]]);
    }

    #[test]
    fn where_no_line_tells_of_a_failure_the_last_ones_are_kept() {
        let lines: Vec<String> = (0..30).map(|line| line.to_string()).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(told(&lines), lines[20..]);
    }

    #[test]
    fn no_stage_fills_the_end() {
        let lines = vec!["FAILED all"; 1000];
        assert_eq!(told(&lines).len(), MOST);
    }

    #[test]
    fn what_was_kept_names_its_stage() {
        let mut failures = Failures::default();
        failures.hear("--- FAIL: TestLock");
        keep("Go in a test", failures);
        assert!(kept().contains("\nfailed in Go in a test:\n  --- FAIL: TestLock\n"), "{}", kept());
    }
}
