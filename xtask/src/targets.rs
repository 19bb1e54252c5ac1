//! `cargo xtask targets`: every benchmark that has a target, and whether it was met.
//!
//! The targets stand in `doc/targets.txt`, one a line. Each benchmark named there is run once, by
//! the program that users run, and its JSON is compared. A miss fails nothing: figures depend on
//! the machine, and their place is doc/performance.md.

use std::fs;
use std::process::ExitCode;

use serde::Deserialize;

use crate::paths;
use crate::test::cargo;

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
struct Target {
    /// `mutex --contended`: the benchmark and its options.
    bench: String,
    row: String,
    /// Another row, several with commas between them, or a unit.
    against: String,
    at_most: bool,
    number: f64,
    meaning: String,
}

/// What `outlive bench … --json` prints, as far as it is asked for here.
#[derive(Deserialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    name: String,
    unit: String,
    median: f64,
    /// The median of the rounds' ratios to the baseline's cost.
    ratio: f64,
}

/// Before the words of a benchmark that the program of proof/peers runs.
const BESIDE: &str = "peers ";

pub(crate) fn run(args: &[String]) -> ExitCode {
    let quick = args.iter().any(|arg| arg == "--quick");
    let part = args.iter().find(|arg| !arg.starts_with("--"));
    if args.len() > usize::from(quick) + usize::from(part.is_some()) {
        eprintln!("usage: cargo xtask targets [--quick] [NAME]");
        return ExitCode::from(2);
    }
    let text = fs::read_to_string(paths::at(paths::TARGETS)).map_err(|error| error.to_string());
    let mut targets = match text.and_then(|text| parse(&text)) {
        Ok(targets) => targets,
        Err(error) => {
            eprintln!("doc/targets.txt: {error}");
            return ExitCode::FAILURE;
        }
    };
    targets.retain(|target| part.is_none_or(|part| target.bench.contains(part.as_str())));
    let mut benches: Vec<&str> = targets.iter().map(|target| target.bench.as_str()).collect();
    benches.dedup();
    let mut met = 0;
    for bench in benches {
        let report = measure(bench, quick);
        for target in targets.iter().filter(|target| target.bench == bench) {
            let figure =
                report.as_ref().map_err(String::clone).and_then(|report| figure(target, report));
            met += usize::from(figure.as_ref().is_ok_and(|&figure| target.is_met(figure)));
            println!("{}", target.line(figure));
        }
    }
    println!("{met} of {} targets met", targets.len());
    ExitCode::SUCCESS
}

/// Runs one benchmark.
fn measure(bench: &str, quick: bool) -> Result<Report, String> {
    eprintln!("outlive bench {bench} …");
    // Those with other libraries' rows are run by the program of proof/peers, a workspace of its
    // own.
    let mut command = match bench.strip_prefix(BESIDE) {
        Some(_) => {
            let mut command = cargo(&["run", "--release", "--quiet", "--manifest-path"]);
            command.arg(paths::at(paths::PEERS)).arg("--");
            command
        }
        None => cargo(&["run", "--release", "--quiet", "-p", "outlive-cli", "--", "bench"]),
    };
    command
        .args(bench.strip_prefix(BESIDE).unwrap_or(bench).split_ascii_whitespace())
        .arg("--json");
    if quick {
        command.arg("--quick");
    }
    let done = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| error.to_string())?;
    if !done.status.success() {
        return Err(format!("the benchmark ended with {}", done.status));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| format!("not the JSON expected: {error}"))
}

/// Returns the row's cost as a multiple of the other row's, or itself.
fn figure(target: &Target, report: &Report) -> Result<f64, String> {
    let find = |name: &str| report.rows.iter().find(|row| row.name == name);
    let row = find(&target.row).ok_or_else(|| format!("no row '{}'", target.row))?;
    if target.against == row.unit {
        return Ok(row.median);
    }
    // Both are ratios to the baseline, taken round by round, so near and far rounds do not mix.
    let mut cheapest = f64::INFINITY;
    for name in target.against.split(',').map(str::trim) {
        cheapest = find(name).ok_or_else(|| format!("no row '{name}'"))?.ratio.min(cheapest);
    }
    Ok(row.ratio / cheapest)
}

impl Target {
    fn is_met(&self, figure: f64) -> bool {
        if self.at_most { figure <= self.number } else { figure >= self.number }
    }

    fn line(&self, figure: Result<f64, String>) -> String {
        let sign = if self.at_most { "<=" } else { ">=" };
        let target = format!(
            "{}: {} {sign} {} x {}",
            self.bench,
            self.row,
            short(self.number),
            self.against
        );
        match figure {
            Ok(figure) => {
                let verdict = if self.is_met(figure) { "met   " } else { "missed" };
                format!("{verdict}  {target:52}  {:>8}   {}", short(figure), self.meaning)
            }
            Err(why) => format!("missed  {target:52}  no figure: {why}"),
        }
    }
}

/// Prints a number with three places: such figures are good for no more.
fn short(number: f64) -> String {
    format!("{number:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn parse(text: &str) -> Result<Vec<Target>, String> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.splitn(6, '|').map(str::trim).collect();
            let [bench, row, against, operator, value, meaning] = fields[..] else {
                return Err(format!("'{line}'"));
            };
            let at_most = match operator {
                "<=" => true,
                ">=" => false,
                other => return Err(format!("'{other}' in '{line}'")),
            };
            Ok(Target {
                bench: bench.to_owned(),
                row: row.to_owned(),
                against: against.to_owned(),
                at_most,
                number: number(value).ok_or_else(|| format!("'{value}' in '{line}'"))?,
                meaning: meaning.to_owned(),
            })
        })
        .collect()
}

/// Returns a decimal, or a fraction of two.
fn number(text: &str) -> Option<f64> {
    let value: f64 = match text.split_once('/') {
        Some((over, under)) => {
            over.trim().parse::<f64>().ok()? / under.trim().parse::<f64>().ok()?
        }
        None => text.parse().ok()?,
    };
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "# words\nqueue --batch 64 | outlive | posix_mq | <= | 1/25 | a | b\nqueue | outlive | ns | >= | 3 | c\n";

    #[test]
    fn a_line_is_a_target_and_a_bad_one_is_named() {
        let targets = parse(TABLE).expect("well-formed");
        assert_eq!((targets[0].bench.as_str(), targets[0].number), ("queue --batch 64", 0.04));
        assert_eq!((targets[0].meaning.as_str(), targets[1].at_most), ("a | b", false));
        for bad in [
            "queue | outlive | ns | < | 3 | c",
            "queue | outlive | ns | <= | 3/0 | c",
            "queue | outlive",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn figures_are_ratios_to_the_row_named_or_the_median() {
        let json = r#"{"bench":"queue","rows":[
            {"name":"outlive","unit":"ns","median":50.0,"min":1.0,"max":2.0,"ratio":0.5,"baseline":false},
            {"name":"pipe","unit":"ns","median":400.0,"min":1.0,"max":2.0,"ratio":4.0,"baseline":false}]}"#;
        let report: Report = serde_json::from_str(json).expect("well-formed");
        let target = |against: &str, number| Target {
            bench: "queue".into(),
            row: "outlive".into(),
            against: against.into(),
            at_most: true,
            number,
            meaning: String::new(),
        };
        assert_eq!(figure(&target("pipe", 0.1), &report), Ok(0.125));
        assert!(!target("pipe", 0.1).is_met(0.125) && target("pipe", 0.2).is_met(0.125));
        assert_eq!(figure(&target("ns", 60.0), &report), Ok(50.0));
        assert_eq!(figure(&target("pipe, outlive", 0.1), &report), Ok(1.0));
        for missing in ["posix_mq", "pipe,posix_mq"] {
            assert!(figure(&target(missing, 0.1), &report).is_err(), "{missing}");
        }
    }

    #[test]
    fn the_table_in_the_tree_is_well_formed() {
        let text = fs::read_to_string(paths::at(paths::TARGETS)).expect("readable");
        assert!(parse(&text).is_ok_and(|targets| !targets.is_empty()));
    }
}
