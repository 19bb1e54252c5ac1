//! `cargo xtask suites`: other projects' own test suites, unmodified, over Outlive's objects.
//!
//! A suite is a folder of proof/suites: an adapter that gives Outlive's objects the names and
//! arguments that the tests use, and nothing else. The tests come from where their project
//! publishes them (an interpreter, a registry). doc/suites.md has a table of the cases that do not
//! pass, which this reads: a case in no row must pass. A suite whose tests cannot be had is skipped
//! and counted so.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::paths;
use crate::prefix;

mod cpython;

/// What a suite's command prints, a case a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A suite: its name, which is its folder's and its heading's in doc/suites.md, and how it is got
/// ready. That gives its command, or why this machine has none.
struct Suite {
    name: &'static str,
    ready: fn(may_install: bool) -> io::Result<Result<Command, String>>,
    /// Short enough for the test command.
    is_quick: bool,
}

const SUITES: [Suite; 1] = [Suite { name: "cpython", ready: cpython::ready, is_quick: true }];

/// Why a case does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Row {
    /// It asks for something that Outlive does not do, by design: it is not run.
    NotApplicable(String),
    /// A fault or a gap that is known: it is run, and may pass.
    ToMend(String),
}

const USAGE: &str = "usage: cargo xtask suites [--no-install] [--quick] [NAME]";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let (mut may_install, mut quick, mut only) = (true, false, None);
    for arg in args {
        match arg.as_str() {
            "--no-install" => may_install = false,
            "--quick" => quick = true,
            name if only.is_none() && SUITES.iter().any(|suite| suite.name == name) => {
                only = Some(name);
            }
            _ => {
                let names = SUITES.map(|suite| suite.name).join(", ");
                eprintln!("{USAGE}\nNAME is one of: {names}");
                return ExitCode::from(2);
            }
        }
    }
    let page = match fs::read_to_string(paths::at(paths::SUITES)) {
        Ok(page) => page,
        Err(error) => {
            println!("{}: {error}\n{}", paths::SUITES, Count::FAILED);
            return ExitCode::FAILURE;
        }
    };
    let mut total = Count::default();
    for suite in &SUITES {
        if only.is_none_or(|name| name == suite.name) && (suite.is_quick || !quick) {
            let count =
                play(suite, &rows(&page, suite.name), may_install).unwrap_or_else(|error| {
                    println!("{}: {error}", suite.name);
                    Count::FAILED
                });
            println!(
                "{}: {} passed, {} failed and {} skipped",
                suite.name, count.passed, count.failed, count.skipped
            );
            total.add(count);
        }
    }
    println!("{total}");
    if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs a suite and judges each case by its row.
fn play(suite: &Suite, rows: &BTreeMap<String, Row>, may_install: bool) -> io::Result<Count> {
    let mut command = match (suite.ready)(may_install)? {
        Ok(command) => command,
        Err(why) => {
            println!("{}: skipped, {why}", suite.name);
            return Ok(Count::SKIPPED);
        }
    };
    let mut count = Count::default();
    let without = prefix::target().join(format!("suites-{}.without", suite.name));
    let mut names = String::new();
    for (case, row) in rows {
        if matches!(row, Row::NotApplicable(_)) {
            count.add(Count::SKIPPED);
            names.push_str(case);
            names.push('\n');
        }
    }
    fs::write(&without, names)?;
    let mut child = command
        .arg("--without")
        .arg(&without)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut cases = 0;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some((case, outcome)) = outcome_of(&line) {
                cases += 1;
                count.add(judged(case, outcome, rows.get(case)));
            } else if let Some(why) = line.strip_prefix("not here: ") {
                println!("{}: skipped, {why}", suite.name);
                cases += 1;
                count.add(Count::SKIPPED);
            } else {
                println!("{line}");
            }
        }
    }
    if !child.wait()?.success() || cases == 0 {
        println!("{}: its command ended badly, or ran no case", suite.name);
        count.add(Count::FAILED);
    }
    Ok(count)
}

/// Says what is worth saying of a case, and counts it.
fn judged(case: &str, outcome: Outcome, row: Option<&Row>) -> Count {
    match (outcome, row) {
        (Outcome::Passed, Some(_)) => {
            println!("passed {case}: remove its row from {}", paths::SUITES);
            Count::PASSED
        }
        (Outcome::Passed, None) => Count::PASSED,
        (Outcome::Failed(why), Some(Row::ToMend(known))) => {
            println!("known, to mend: {case}: {known} (it says: {why})");
            Count::SKIPPED
        }
        (Outcome::Failed(why), _) => {
            println!("FAILED {case}: {why}");
            Count::FAILED
        }
        (Outcome::Skipped(why), _) => {
            println!("skips itself: {case}: {why}");
            Count::SKIPPED
        }
    }
}

/// Reads a case's line: `passed NAME`, `failed NAME: why`, `skipped NAME: why`.
fn outcome_of(line: &str) -> Option<(&str, Outcome)> {
    let (word, rest) = line.split_once(' ')?;
    let (case, why) = rest.split_once(": ").unwrap_or((rest, ""));
    let outcome = match word {
        "passed" => Outcome::Passed,
        "failed" => Outcome::Failed(why.to_owned()),
        "skipped" => Outcome::Skipped(why.to_owned()),
        _ => return None,
    };
    (!case.contains(' ')).then_some((case, outcome))
}

/// Reads the rows of a suite from the page: those below its heading, up to the next. A row of the
/// table names a case, or several with commas between.
fn rows(page: &str, suite: &str) -> BTreeMap<String, Row> {
    let heading = format!("## {suite}");
    let mut rows = BTreeMap::new();
    let below = page.lines().skip_while(|line| *line != heading).skip(1);
    for line in below.take_while(|line| !line.starts_with("## ")) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, cases, verdict, why, _] = cells[..] else { continue };
        let row = match verdict {
            "not applicable" => Row::NotApplicable(why.to_owned()),
            "to mend" => Row::ToMend(why.to_owned()),
            _ => continue,
        };
        for case in cases.split(", ") {
            rows.insert(case.trim_matches('`').to_owned(), row.clone());
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Suites\n## cpython\n| case | | why |\n| --- | --- | --- |\n\
                        | `a.B.test_c`, `a.B.test_d` | not applicable | no threads |\n\
                        | `a.E.test_f` | to mend | late |\n## boost\n| `g` | to mend | h |\n";

    #[test]
    fn rows_are_those_of_the_suites_own_heading() {
        let found = rows(PAGE, "cpython");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            [
                ("a.B.test_c".to_owned(), Row::NotApplicable("no threads".to_owned())),
                ("a.B.test_d".to_owned(), Row::NotApplicable("no threads".to_owned())),
                ("a.E.test_f".to_owned(), Row::ToMend("late".to_owned())),
            ]
        );
        assert_eq!(rows(PAGE, "boost").len(), 1);
        assert!(rows(PAGE, "none").is_empty());
    }

    #[test]
    fn a_case_in_no_row_must_pass_and_a_known_fault_may_fail() {
        let of = |line| outcome_of(line).expect("a case");
        assert_eq!(of("passed a.b"), ("a.b", Outcome::Passed));
        assert_eq!(of("failed a.b: x: y"), ("a.b", Outcome::Failed("x: y".to_owned())));
        assert_eq!(of("skipped a: b"), ("a", Outcome::Skipped("b".to_owned())));
        assert_eq!(outcome_of("passed by the house"), None);
        assert_eq!(outcome_of("running 3 tests"), None);
        let known = Row::ToMend("late".to_owned());
        let failed = || Outcome::Failed("x".to_owned());
        assert_eq!(judged("a", failed(), None), Count::FAILED);
        assert_eq!(judged("a", failed(), Some(&known)), Count::SKIPPED);
        assert_eq!(judged("a", Outcome::Passed, Some(&known)), Count::PASSED);
        assert_eq!(judged("a", Outcome::Passed, None), Count::PASSED);
    }

    #[test]
    fn each_suite_has_its_section_and_its_folder() {
        let page = fs::read_to_string(paths::at(paths::SUITES)).expect("the page is there");
        for suite in &SUITES {
            assert!(page.contains(&format!("\n## {}\n", suite.name)), "{}", suite.name);
            assert!(paths::at(paths::SUITES_FOLDER).join(suite.name).is_dir(), "{}", suite.name);
        }
    }
}
