//! `cargo xtask targets`: every benchmark that has a target, and whether it was met.
//!
//! `doc/targets.txt` lists the targets, one a line. Each benchmark named there is run once, by
//! the program that users run, and its JSON is compared. A miss fails nothing: figures depend on
//! the machine, and their place is doc/performance.md. Where the two cores were near each other in
//! some rounds and far in others, a target has to be met in both kinds.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

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
    /// Of the kind with most rounds.
    rows: Vec<Row>,
    other_kind: Option<OtherKind>,
    /// Where there are several groups of rows.
    #[serde(default)]
    groups: Vec<Group>,
    #[serde(default)]
    absent: Vec<Absent>,
}

#[derive(Deserialize)]
struct Group {
    other_kind: Option<OtherKind>,
}

#[derive(Deserialize)]
struct OtherKind {
    rows: Vec<Row>,
}

#[derive(Clone, Deserialize)]
struct Row {
    name: String,
    unit: String,
    median: f64,
    /// The median of the rounds' ratios to the baseline's cost.
    ratio: f64,
    /// `near`, `far`, or `all`.
    #[serde(default = "all")]
    kind: String,
    /// Rounds that it comes from; none where it was counted.
    turns: Option<usize>,
}

#[derive(Deserialize)]
struct Absent {
    name: String,
    why: String,
}

fn all() -> String {
    "all".into()
}

/// A figure of one kind of rounds.
#[derive(Clone, Debug, PartialEq)]
struct Figure {
    kind: String,
    number: f64,
    /// The fewest rounds of any row in it.
    rounds: usize,
}

/// With fewer rounds of a kind, its figure is told and says nothing, if there is another.
const FEWEST_ROUNDS: usize = 3;

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
    let (mut met, begun) = (0, Instant::now());
    for bench in benches {
        let report = measure(bench, quick);
        for target in targets.iter().filter(|target| target.bench == bench) {
            let figures = report.as_ref().map_err(String::clone);
            let figures = figures.and_then(|report| report.figures(target));
            met += usize::from(figures.as_ref().is_ok_and(|figures| target.is_met(figures)));
            println!("{}", target.line(figures));
        }
    }
    let minutes = begun.elapsed().as_secs().div_ceil(60);
    println!("{met} of {} targets met, in {minutes} minutes", targets.len());
    ExitCode::SUCCESS
}

/// Runs one benchmark.
fn measure(bench: &str, quick: bool) -> Result<Report, String> {
    eprintln!("outlive bench {bench} …");
    // Those with other libraries' rows are run by the program of proof/peers, a workspace of its
    // own.
    let mut command = match bench.strip_prefix(BESIDE) {
        Some(_) => {
            let mut command = cargo(&["run", "--profile", "dist", "--quiet", "--manifest-path"]);
            command.arg(paths::at(paths::PEERS)).arg("--");
            command
        }
        None => cargo(&["run", "--profile", "dist", "--quiet", "-p", "outlive-bench", "--"]),
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

impl Report {
    /// Returns all rows, of both kinds.
    fn rows(&self) -> impl Iterator<Item = &Row> {
        let others = self.groups.iter().filter_map(|group| group.other_kind.as_ref());
        let others = others.chain(&self.other_kind);
        self.rows.iter().chain(others.flat_map(|other| &other.rows))
    }

    fn row(&self, name: &str, kind: &str) -> Result<&Row, String> {
        let wanted = |row: &&Row| row.name == name && row.kind == kind;
        self.rows().find(wanted).ok_or_else(|| {
            let absent = self.absent.iter().find(|absent| absent.name == name);
            let why = absent.map_or(String::new(), |absent| format!(": {}", absent.why));
            format!("no row '{name}'{why}")
        })
    }

    /// Returns a target's figure of each kind of rounds in which there is one.
    fn figures(&self, target: &Target) -> Result<Vec<Figure>, String> {
        let mut kinds: Vec<&str> = Vec::new();
        for row in self.rows() {
            if !kinds.contains(&row.kind.as_str()) {
                kinds.push(&row.kind);
            }
        }
        let (mut figures, mut failed) = (Vec::new(), Err(format!("no row '{}'", target.row)));
        for kind in kinds {
            match self.figure(target, kind) {
                Ok(figure) => figures.push(figure),
                // Of the first kind, in which there are most rounds.
                Err(why) if figures.is_empty() && failed.is_err() => failed = Err(why),
                Err(_) => {}
            }
        }
        if figures.is_empty() { failed } else { Ok(figures) }
    }

    /// Returns the row's cost as a multiple of the other row's, or itself.
    fn figure(&self, target: &Target, kind: &str) -> Result<Figure, String> {
        let row = self.row(&target.row, kind)?;
        let mut rounds = row.turns.unwrap_or(usize::MAX);
        let kind = kind.to_owned();
        if target.against == row.unit {
            return Ok(Figure { kind, number: row.median, rounds });
        }
        // Both are ratios to the baseline, taken round by round.
        let mut cheapest = f64::INFINITY;
        for name in target.against.split(',').map(str::trim) {
            let other = self.row(name, &kind)?;
            rounds = rounds.min(other.turns.unwrap_or(usize::MAX));
            cheapest = other.ratio.min(cheapest);
        }
        Ok(Figure { kind, number: row.ratio / cheapest, rounds })
    }
}

impl Figure {
    fn told(&self) -> String {
        let number = short(self.number);
        match (self.kind.as_str(), self.rounds) {
            ("all", _) => number,
            (kind, rounds @ ..FEWEST_ROUNDS) => format!("{kind} {number} ({rounds} rounds only)"),
            (kind, _) => format!("{kind} {number}"),
        }
    }
}

impl Target {
    fn is_met(&self, figures: &[Figure]) -> bool {
        let is_met = |figure: &&Figure| {
            if self.at_most { figure.number <= self.number } else { figure.number >= self.number }
        };
        let mut judged: Vec<&Figure> =
            figures.iter().filter(|figure| figure.rounds >= FEWEST_ROUNDS).collect();
        if judged.is_empty() {
            judged.extend(figures);
        }
        !judged.is_empty() && judged.iter().all(is_met)
    }

    fn line(&self, figures: Result<Vec<Figure>, String>) -> String {
        let sign = if self.at_most { "<=" } else { ">=" };
        let target = format!(
            "{}: {} {sign} {} x {}",
            self.bench,
            self.row,
            short(self.number),
            self.against
        );
        match figures {
            Ok(figures) => {
                let verdict = if self.is_met(&figures) { "met   " } else { "missed" };
                let told: Vec<String> = figures.iter().map(Figure::told).collect();
                format!("{verdict}  {target:52}  {:>8}   {}", told.join(", "), self.meaning)
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

    fn report(json: &str) -> Report {
        serde_json::from_str(json).expect("well-formed")
    }

    fn target(against: &str, number: f64) -> Target {
        Target {
            bench: "queue".into(),
            row: "outlive".into(),
            against: against.into(),
            at_most: true,
            number,
            meaning: String::new(),
        }
    }

    /// Of rows that were not measured in rounds of one kind.
    fn alone(report: &Report, against: &str) -> Result<f64, String> {
        let figures = report.figures(&target(against, 0.0))?;
        assert_eq!((figures.len(), figures[0].kind.as_str()), (1, "all"));
        Ok(figures[0].number)
    }

    #[test]
    fn figures_are_ratios_to_the_row_named_or_the_median() {
        let report = report(
            r#"{"bench":"queue","absent":[{"name":"aeron","why":"no Maven"}],"rows":[
            {"name":"outlive","unit":"ns","median":50.0,"min":1.0,"max":2.0,"ratio":0.5,"baseline":false},
            {"name":"pipe","unit":"ns","median":400.0,"min":1.0,"max":2.0,"ratio":4.0,"baseline":false}]}"#,
        );
        assert_eq!(alone(&report, "pipe"), Ok(0.125));
        assert_eq!(alone(&report, "ns"), Ok(50.0));
        assert_eq!(alone(&report, "pipe, outlive"), Ok(1.0));
        for missing in ["posix_mq", "pipe,posix_mq"] {
            assert_eq!(alone(&report, missing), Err("no row 'posix_mq'".into()));
        }
        assert_eq!(alone(&report, "aeron"), Err("no row 'aeron': no Maven".into()));
    }

    /// Two kinds, in one group or in one of several.
    fn of_both(far: f64, far_rounds: usize, is_grouped: bool) -> Report {
        let row = |name: &str, kind: &str, ratio: f64, turns: usize| {
            format!(
                r#"{{"name":"{name}","kind":"{kind}","unit":"ns","median":1.0,"ratio":{ratio},"turns":{turns}}}"#
            )
        };
        let rows = |kind: &str, ratio, turns| {
            format!("[{},{}]", row("outlive", kind, ratio, turns), row("pipe", kind, 1.0, turns))
        };
        let other = format!(r#""other_kind":{{"rows":{}}}"#, rows("far", far, far_rounds));
        let other =
            if is_grouped { format!(r#""groups":[{{"rounds":{{}}}},{{{other}}}]"#) } else { other };
        report(&format!(r#"{{"rows":{},{other}}}"#, rows("near", 0.5, 15)))
    }

    #[test]
    fn a_target_has_to_be_met_near_and_far() {
        let target = target("pipe", 0.6);
        for is_grouped in [false, true] {
            for (far, rounds, is_met, told) in [
                (0.55, 9, true, "met     queue: outlive <= 0.6 x pipe"),
                (0.7, 9, false, "missed  queue: outlive <= 0.6 x pipe"),
                (0.7, 2, true, "met     queue: outlive <= 0.6 x pipe"),
            ] {
                let figures = of_both(far, rounds, is_grouped).figures(&target).expect("figures");
                assert_eq!(target.is_met(&figures), is_met, "{figures:?}");
                let line = target.line(Ok(figures));
                let few = if rounds < FEWEST_ROUNDS { " (2 rounds only)" } else { "" };
                assert!(line.starts_with(told), "{line}");
                assert!(line.contains(&format!("near 0.5, far {far}{few}")), "{line}");
            }
        }
    }

    #[test]
    fn the_table_in_the_tree_is_well_formed() {
        let text = fs::read_to_string(paths::at(paths::TARGETS)).expect("readable");
        assert!(parse(&text).is_ok_and(|targets| !targets.is_empty()));
    }
}
