//! What the machine says on its console, and what came of the tests by that.
//!
//! The machine has no other way to tell. Its script writes a line when a test begins and when it
//! has ended; a test whose end is never told has failed, whatever became of the machine.

use std::time::{Duration, Instant};

use serde::Deserialize;

use super::image::MARK;
use super::inside::Test;
use crate::count::Count;
use crate::stage::{Counts, is_skip};

/// What came of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) count: Count,
    pub(crate) took: Duration,
}

/// What was read so far.
pub(crate) struct Console<'a> {
    tests: &'a [Test],
    running: Option<Running<'a>>,
    pub(crate) outcomes: Vec<Outcome>,
    /// Whether the kernel has come so far as to start the script.
    pub(crate) has_booted: bool,
    /// What `outlive doctor` says is absent, or otherwise than it should be; `None` until it has
    /// said anything.
    pub(crate) absent: Option<Vec<String>>,
}

struct Running<'a> {
    test: &'a Test,
    begun: Instant,
    count: Count,
    /// Lines that counted.
    lines: u64,
    skips: u64,
}

impl<'a> Console<'a> {
    pub(crate) fn new(tests: &'a [Test]) -> Console<'a> {
        let (running, outcomes, absent) = (None, Vec::new(), None);
        Console { tests, running, outcomes, has_booted: false, absent }
    }

    /// Reads a line; returns what a person is told of it.
    pub(crate) fn line(&mut self, line: &str) -> Option<String> {
        let line = line.trim_end();
        // What a program has written without an end of line stands before it.
        if let Some((before, said)) = line.split_once(MARK) {
            let told = self.marked(said);
            let before = (!before.is_empty()).then(|| before.to_owned());
            let all: Vec<String> = before.into_iter().chain(told).collect();
            return Some(all.join("\n"));
        }
        let running = self.running.as_mut()?;
        if running.test.counts == Counts::ByLines {
            if let Some(count) = Count::of_line(line) {
                running.count.add(count);
                running.lines += 1;
            }
            running.skips += u64::from(is_skip(line));
        }
        match serde_json::from_str::<Doctor>(line) {
            Ok(doctor) => {
                let told: Vec<String> = doctor.findings.iter().map(Finding::told).collect();
                let is_other = |finding: &&Finding| finding.state != "good";
                let name = |finding: &Finding| finding.name.clone();
                self.absent = Some(doctor.findings.iter().filter(is_other).map(name).collect());
                Some(told.join("\n"))
            }
            Err(_) => Some(line.to_owned()),
        }
    }

    /// Reads what the script says.
    fn marked(&mut self, said: &str) -> Option<String> {
        let words: Vec<&str> = said.split(' ').collect();
        match words[..] {
            ["booted", release] => {
                self.has_booted = true;
                Some(format!("booted Linux {release}"))
            }
            ["begin", name] => {
                let test = self.tests.iter().find(|test| test.name == name)?;
                let (begun, count) = (Instant::now(), Count::default());
                self.running = Some(Running { test, begun, count, lines: 0, skips: 0 });
                Some(format!("-- {name}"))
            }
            ["end", _, code] => {
                let running = self.running.take()?;
                let outcome = running.ended(code == "0");
                let told = format!(
                    "-- {}: {} in {:.1} s, rc {code}",
                    outcome.name,
                    outcome.count,
                    outcome.took.as_secs_f64()
                );
                self.outcomes.push(outcome);
                Some(told)
            }
            _ => None,
        }
    }

    /// The machine is off: a test that has not come to its end has failed.
    pub(crate) fn close(&mut self) {
        for test in self.tests {
            if self.outcomes.iter().all(|outcome| outcome.name != test.name) {
                let outcome = match self.running.take() {
                    Some(running) if running.test == test => running.ended(false),
                    _ => Outcome {
                        name: test.name.clone(),
                        count: Count::FAILED,
                        took: Duration::ZERO,
                    },
                };
                self.outcomes.push(outcome);
            }
        }
    }
}

impl Running<'_> {
    fn ended(self, is_well: bool) -> Outcome {
        let mut count = self.count;
        // libtest counts a test that skips itself as passed.
        count.passed = count.passed.saturating_sub(self.skips);
        count.skipped += self.skips;
        match self.test.counts {
            Counts::ByExit | Counts::Not => {
                count = if is_well { Count::PASSED } else { Count::FAILED };
            }
            // One that has counted nothing has tested nothing.
            Counts::ByLines if self.lines == 0 || !is_well && count.failed == 0 => {
                count.add(Count::FAILED);
            }
            Counts::ByLines => {}
        }
        Outcome { name: self.test.name.clone(), count, took: self.begun.elapsed() }
    }
}

/// What `outlive doctor --json` says, as far as it is asked for here.
#[derive(Deserialize)]
struct Doctor {
    findings: Vec<Finding>,
}

#[derive(Deserialize)]
struct Finding {
    name: String,
    state: String,
    found: String,
}

impl Finding {
    fn told(&self) -> String {
        format!("{:<6}  {:<18}  {}", self.state, self.name, self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::inside::chosen;
    use super::*;

    /// Returns what came of these tests by what the console said.
    fn counts(tests: &[Test], said: &str) -> Vec<(String, u64, u64, u64)> {
        let mut console = Console::new(tests);
        for line in said.lines() {
            console.line(line);
        }
        console.close();
        let counted =
            |one: Outcome| (one.name, one.count.passed, one.count.failed, one.count.skipped);
        console.outcomes.into_iter().map(counted).collect()
    }

    #[test]
    fn outcomes_are_read_off_the_console() {
        let tests = chosen(&["doctor", "tokens", "mutex", "send"]);
        let said = "[    0.1] Linux\n@outlive booted 6.1.0\n@outlive begin doctor\r\n\
            {\"findings\":[{\"name\":\"a\",\"state\":\"note\",\"found\":\"x\"}]}\r\n@outlive end doctor 0\r\n\
            @outlive begin tokens\r\ntest a ... ok\ntest result: ok. 9 passed; 0 failed; 1 ignored; 0 measured\r\n\
            @outlive end tokens 0\n@outlive begin mutex\n2 passed, 0 failed\nno end of line@outlive end mutex 137\n";
        let of = |name: &str, passed, failed, skipped| (name.to_owned(), passed, failed, skipped);
        assert_eq!(
            counts(&tests, said),
            [
                of("doctor", 1, 0, 0),
                of("tokens", 9, 0, 1),
                of("mutex", 2, 1, 0),
                of("send", 0, 1, 0)
            ]
        );
    }

    #[test]
    fn what_never_ends_or_counts_nothing_has_failed() {
        let tests = chosen(&["tokens", "mutex"]);
        let said = "@outlive booted 6.1.0\n@outlive begin tokens\nok\n@outlive end tokens 0\n\
            @outlive begin mutex\n36 passed, 0 failed\nKernel panic\n";
        let of = |name: &str, passed, failed, skipped| (name.to_owned(), passed, failed, skipped);
        assert_eq!(counts(&tests, said), [of("tokens", 0, 1, 0), of("mutex", 36, 1, 0)]);
        assert_eq!(counts(&tests, "").len(), 2);
    }

    #[test]
    fn what_the_doctor_misses_is_kept() {
        let tests = chosen(&["doctor"]);
        let mut console = Console::new(&tests);
        console.line("@outlive begin doctor");
        let told = console.line(
            "{\"ok\":true,\"findings\":[{\"name\":\"futex_waitv\",\"state\":\"note\",\"found\":\"not there\"},\
             {\"name\":\"pidfd\",\"state\":\"good\",\"found\":\"works\"}]}",
        );
        assert!(told.expect("told").contains("not there"));
        assert_eq!(console.absent, Some(vec!["futex_waitv".to_owned()]));
    }
}
