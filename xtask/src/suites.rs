//! `cargo xtask suites`: other projects' own test suites, unmodified, over Outlive's objects.
//!
//! A suite is a folder of proof/suites: an adapter that gives Outlive's objects the names and
//! arguments that the tests use, and nothing else. The tests come from where their project
//! publishes them (an interpreter, a registry). doc/suites.md has a table of the cases that do not
//! pass, which this reads: a case in no row must pass. A suite whose tests are not there is skipped,
//! and counted so.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use crate::count::Count;
use crate::paths;
use crate::prefix;
use crate::programs::Domain;

mod boost;
mod cpython;
mod crates;
mod crossbeam;
mod glibc;
mod parking_lot;

/// What a suite's command prints, a case a line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

/// A suite: its name, which is its folder's and its heading's in doc/suites.md, and how it is got
/// ready. That gives its programs, or why this machine has none.
struct Suite {
    name: &'static str,
    ready: fn(may_install: bool) -> io::Result<Result<Vec<Program>, String>>,
    /// Short enough for the test command.
    is_quick: bool,
}

/// A program of a suite.
enum Program {
    /// One that prints its cases as `outcome_of` reads them, and takes `--without FILE`.
    Adapter(Command),
    /// Rust's own test harness: its cases are called by this name first, and have this domain.
    Harness(&'static str, Command, Domain),
}

const SUITES: [Suite; 5] = [
    Suite { name: "cpython", ready: cpython::ready, is_quick: true },
    Suite { name: "crossbeam-channel", ready: crossbeam::ready, is_quick: false },
    Suite { name: "glibc", ready: glibc::ready, is_quick: false },
    Suite { name: "parking_lot", ready: parking_lot::ready, is_quick: false },
    Suite { name: "boost", ready: boost::ready, is_quick: false },
];

/// The rows of a suite: by a case's name, or the beginning of its name and `*`.
struct Rows(BTreeMap<String, Row>);

impl Rows {
    fn of(&self, case: &str) -> Option<&Row> {
        let is_meant =
            |name: &str| name.strip_suffix('*').is_some_and(|start| case.starts_with(start));
        self.0
            .get(case)
            .or_else(|| self.0.iter().find(|(name, _)| is_meant(name)).map(|(_, row)| row))
    }

    fn not_applicable(&self) -> impl Iterator<Item = &str> {
        let is_left_out = |row: &Row| matches!(row, Row::NotApplicable(_));
        self.0.iter().filter(move |(_, row)| is_left_out(row)).map(|(name, _)| name.as_str())
    }
}

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
fn play(suite: &Suite, rows: &Rows, may_install: bool) -> io::Result<Count> {
    let programs = match (suite.ready)(may_install)? {
        Ok(programs) => programs,
        Err(why) => {
            println!("{}: skipped, {why}", suite.name);
            return Ok(Count::SKIPPED);
        }
    };
    let mut count = Count::default();
    for program in programs {
        count.add(play_one(suite.name, program, rows)?);
    }
    Ok(count)
}

fn play_one(suite: &str, program: Program, rows: &Rows) -> io::Result<Count> {
    let mut count = Count::default();
    // The domain's folder goes when the program has ended.
    let mut of_program = None;
    let (mut command, group) = match program {
        Program::Adapter(mut command) => {
            let without = prefix::target().join(format!("suites-{suite}.without"));
            let names: Vec<&str> = rows.not_applicable().collect();
            fs::write(&without, names.join("\n"))?;
            count.skipped += names.len() as u64;
            command.arg("--without").arg(&without);
            (command, None)
        }
        Program::Harness(group, mut command, domain) => {
            command.env("OUTLIVE_DOMAIN", &domain.path).arg("--");
            let left_out: Vec<&str> = rows
                .not_applicable()
                .filter_map(|name| name.strip_prefix(group)?.strip_prefix("::"))
                .collect();
            // The harness leaves out every test whose name has this in it, or is this.
            if left_out.iter().all(|test| !test.ends_with('*')) {
                command.arg("--exact");
            }
            for test in left_out {
                command.arg("--skip").arg(test.trim_end_matches('*'));
            }
            of_program = Some(domain);
            (command, Some(group))
        }
    };
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (mut cases, mut failures) = (0, 0);
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            let outcome = match group {
                None => outcome_of(&line).map(|(case, outcome)| (case.to_owned(), outcome)),
                Some(group) => outcome_in_harness(group, &line),
            };
            if let Some((case, outcome)) = outcome {
                cases += 1;
                failures += u64::from(matches!(outcome, Outcome::Failed(_)));
                count.add(judged(&case, outcome, rows.of(&case)));
            } else if let Some(why) = line.strip_prefix("not here: ") {
                println!("{suite}: skipped, {why}");
                return Ok(Count::SKIPPED);
            } else if let Some(left_out) = left_out(&line) {
                count.skipped += left_out;
            } else if group.is_none() {
                println!("{line}");
            }
        }
    }
    let ended = child.wait()?;
    drop(of_program);
    // The harness ends badly when a test failed, and that is judged by its row.
    let is_well = ended.success() || (group.is_some() && failures > 0);
    if !is_well || cases == 0 {
        println!("{suite}: its program ended badly, or ran no case");
        count.add(Count::FAILED);
    }
    Ok(count)
}

/// Reads a case's line of Rust's test harness: `test module::name ... ok`.
fn outcome_in_harness(group: &str, line: &str) -> Option<(String, Outcome)> {
    let (name, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.trim_end_matches(" - should panic");
    let outcome = match said.split(' ').next()? {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed("its output is above, or `cargo test` shows it".to_owned()),
        "ignored" => Outcome::Skipped("its own harness ignores it".to_owned()),
        _ => return None,
    };
    Some((format!("{group}::{name}"), outcome))
}

/// Reads how many tests the harness was told to leave out.
fn left_out(line: &str) -> Option<u64> {
    let (_, rest) = line.strip_prefix("test result: ")?.split_once("measured; ")?;
    rest.split_once(" filtered out")?.0.parse().ok()
}

/// Says what is worth saying of a case, and counts it.
fn judged(case: &str, outcome: Outcome, row: Option<&Row>) -> Count {
    match (outcome, row) {
        (Outcome::Passed, Some(Row::ToMend(_))) => {
            println!("passed {case}: remove its row from {}", paths::SUITES);
            Count::PASSED
        }
        (Outcome::Passed, _) => Count::PASSED,
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
fn rows(page: &str, suite: &str) -> Rows {
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
    Rows(rows)
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
            found.0.into_iter().collect::<Vec<_>>(),
            [
                ("a.B.test_c".to_owned(), Row::NotApplicable("no threads".to_owned())),
                ("a.B.test_d".to_owned(), Row::NotApplicable("no threads".to_owned())),
                ("a.E.test_f".to_owned(), Row::ToMend("late".to_owned())),
            ]
        );
        assert_eq!(rows(PAGE, "boost").of("g"), Some(&Row::ToMend("h".to_owned())));
        assert!(rows(PAGE, "none").0.is_empty());
        let many = rows("## m\n| `a::b::*` | not applicable | c |\n", "m");
        assert!(many.of("a::b::x").is_some() && many.of("a::c").is_none());
        assert_eq!(many.not_applicable().collect::<Vec<_>>(), ["a::b::*"]);
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
    fn rusts_harness_is_read() {
        let of = |line| outcome_in_harness("mpsc", line);
        assert_eq!(of("test a::b ... ok"), Some(("mpsc::a::b".to_owned(), Outcome::Passed)));
        assert!(matches!(of("test b ... FAILED"), Some((_, Outcome::Failed(_)))));
        assert!(matches!(of("test b - should panic ... ok"), Some((name, _)) if name == "mpsc::b"));
        assert_eq!(of("running 3 tests"), None);
        let result =
            "test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished";
        assert_eq!((left_out(result), of(result)), (Some(7), None));
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
