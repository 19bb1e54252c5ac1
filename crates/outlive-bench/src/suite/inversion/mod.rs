//! A control loop beside a disturbing load: how long are its intervals?
//!
//! Three processes on one core, under `SCHED_FIFO`. The *control loop* (high priority) wakes every
//! 5 ms, takes a lock, computes a moment, gives it back. The *helper* (low) takes the same lock
//! again and again, for 2 ms of computing. The *load* (middling) has nothing to do with the lock:
//! it sleeps a while, and computes for 90 ms. While the helper holds the lock it must run for the
//! control loop to go on, and the load keeps it from that: priority inversion.
//!
//! A row's figure is the worst interval between two ends of the loop in a round. `undisturbed` is
//! without the load, with a plain mutex; the other rows are named after their lock. What all
//! intervals were is told as a histogram.
//!
//! The worst of many is what a virtual machine spoils first: its host takes the core away for some
//! milliseconds, now in one row, now in another. So the rounds are many and short, each row is
//! compared with the undisturbed one of its own round, and the round in the middle decides. A lock
//! that lets inversion happen does so in every round.

mod histogram;
mod processes;

use crate::duration;
use crate::harness::crew;
use crate::harness::error::Error;
use crate::harness::interrupt;
use crate::harness::machine::Machine;
use crate::harness::profile;
use crate::harness::report::{figure, ratio};
use crate::harness::scratch::Scratch;
use crate::harness::statistics::{Summary, paired_ratio};
use clap::{Args, value_parser};
use fundu::TimeUnit;
use histogram::Histogram;
use indicatif::ProgressBar;
use processes::{Lock, PERIOD_NS};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::path::PathBuf;
use std::time::Duration;

/// The arguments of `outlive bench inversion`.
#[derive(Args, Clone, Debug)]
pub struct InversionArgs {
    /// Print one line of JSON instead of a table
    #[arg(long)]
    json: bool,

    /// Also draw the histograms into this SVG file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,

    /// Rounds, each with every row; the one in the middle decides [default: 15]
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,

    /// How long each row takes in a round, 100ms to 10m [default: 1s]
    #[arg(long, value_name = "TIME", value_parser = parse_row)]
    seconds: Option<Duration>,

    /// One round of two seconds a row: a first look, not a result
    #[arg(long)]
    quick: bool,

    /// The core on which all three run [default: the first allowed]
    #[arg(long, value_name = "CORE")]
    core: Option<usize>,

    /// The time after which the whole is given up
    #[arg(long, value_name = "TIME", default_value = "15m", value_parser = crate::harness::parse_limit)]
    limit: u32,
}

/// Returns how long a row takes.
fn parse_row(text: &str) -> Result<Duration, String> {
    crate::harness::within(
        duration::of(text, TimeUnit::Second)?,
        Duration::from_millis(100)..=Duration::from_secs(600),
    )
}

/// The rows: their names are an interface. The first is what the others are compared with.
const ROWS: [(&str, Lock, bool); 4] = [
    ("undisturbed", Lock::Plain, false),
    ("plain", Lock::Plain, true),
    ("pi", Lock::Pi, true),
    ("ceiling", Lock::Ceiling, true),
];

/// How much worse a plain lock must be for the run to have shown anything.
const PROVOKED_FROM: f64 = 5.0;

/// The JSON document.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Report {
    bench: &'static str,
    mode: &'static str,
    meaning: &'static str,
    pub(super) machine: Machine,
    rounds: u32,
    period_ns: u64,
    rows: Vec<Row>,
    /// Whether the plain lock's ratio is at least five.
    provoked: bool,
}

/// One lock.
#[derive(Clone, Debug, Serialize)]
struct Row {
    name: &'static str,
    /// Always `ns`.
    unit: &'static str,
    /// Of the rounds' worst intervals.
    median: f64,
    min: f64,
    max: f64,
    /// The median of the rounds' ratios to the undisturbed worst.
    ratio: f64,
    baseline: bool,
    /// The worst interval of all rounds.
    worst: f64,
    /// Intervals seen in all rounds together.
    intervals: u64,
    histogram: Histogram,
}

/// Runs it and tells what came out.
///
/// # Errors
/// [`Error::Refused`] without the right to real-time priorities, and whatever else kept it from
/// giving right figures.
pub fn run(args: &InversionArgs) -> Result<(), Error> {
    crew::require_one_thread()?;
    let _signals = interrupt::Guard::new(args.limit)?;
    let report = measure(args)?;
    if let Some(path) = &args.svg {
        histogram::draw(&report, path)?;
        eprintln!("outlive bench: drew {}", path.display());
    }
    let text = if args.json { crate::harness::json_line(&report)? } else { report.table() };
    match io::stdout().write_all(text.as_bytes()) {
        // The reader has closed the output: no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(source) => Err(Error::System { doing: "writing the result", source }),
        Ok(()) => Ok(()),
    }
}

pub(super) fn measure(args: &InversionArgs) -> Result<Report, Error> {
    let allowed = crew::allowed_cores()?;
    let core = match args.core {
        Some(core) if !allowed.contains(&core) => {
            return Err(Error::Refused(format!("--core takes one of {allowed:?}")));
        }
        Some(core) => core,
        None => *allowed.first().ok_or_else(|| Error::Refused("no core is allowed".into()))?,
    };
    processes::require_real_time()?;
    profile::warn_if_not_published();
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 15 });
    let row = args.seconds.unwrap_or(Duration::from_secs(if args.quick { 2 } else { 1 }));
    let periods = row.as_nanos() as u64 / PERIOD_NS;
    let scratch = Scratch::new()?;
    let bar = ProgressBar::new(u64::from(rounds) * ROWS.len() as u64);
    let mut worst: [Vec<Option<f64>>; ROWS.len()] = Default::default();
    let mut histograms: [Histogram; ROWS.len()] = Default::default();
    for round in 0..rounds as usize {
        for place in 0..ROWS.len() {
            let which = (round + place) % ROWS.len();
            let (name, lock, disturbed) = ROWS[which];
            bar.set_message(name);
            let intervals = processes::turn(&scratch, core, lock, disturbed, periods)?;
            worst[which].push(intervals.iter().max().map(|ns| *ns as f64));
            intervals.into_iter().for_each(|ns| histograms[which].count(ns));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Report::new(Machine::look(allowed.len()), rounds, &worst, histograms)
}

impl Report {
    /// Returns the histograms.
    pub(super) fn svg(&self) -> Result<String, Error> {
        histogram::svg(self)
    }

    fn new(
        machine: Machine,
        rounds: u32,
        worst: &[Vec<Option<f64>>; ROWS.len()],
        histograms: [Histogram; ROWS.len()],
    ) -> Result<Report, Error> {
        let mut rows = Vec::new();
        for ((place, histogram), (name, ..)) in histograms.into_iter().enumerate().zip(ROWS) {
            let figures: Vec<f64> = worst[place].iter().flatten().copied().collect();
            let nothing = || Error::Wrong(format!("{name}: no interval was seen"));
            let summary = Summary::of(&figures).ok_or_else(nothing)?;
            rows.push(Row {
                name,
                unit: "ns",
                median: summary.median,
                min: summary.min,
                max: summary.max,
                ratio: paired_ratio(&worst[place], &worst[0]).ok_or_else(nothing)?,
                baseline: place == 0,
                worst: summary.max,
                intervals: histogram.total(),
                histogram,
            });
        }
        let provoked = rows[1].ratio >= PROVOKED_FROM;
        Ok(Report {
            bench: "inversion",
            mode: "control loop of 5 ms",
            meaning: "the worst interval of a control loop that shares a lock, beside a load that does not",
            machine,
            rounds,
            period_ns: PERIOD_NS,
            rows,
            provoked,
        })
    }

    fn heading(&self) -> [String; 2] {
        [
            format!("inversion, {}: {}", self.mode, self.meaning),
            format!(
                "{}, Linux {}; profile {}; rounds: {}",
                self.machine.cpu, self.machine.kernel, self.machine.profile, self.rounds
            ),
        ]
    }

    fn verdict(&self) -> String {
        let [_, plain, pi, ceiling] = &self.rows[..] else { return String::new() };
        let plain = ratio(plain.ratio);
        if !self.provoked {
            return format!(
                "inversion could not be provoked: a plain mutex is only {plain} × worse; nothing is shown"
            );
        }
        format!(
            "worst intervals against undisturbed: plain mutex {plain} ×, priority inheritance {} ×, ceiling {} ×",
            ratio(pi.ratio),
            ratio(ceiling.ratio)
        )
    }

    pub(super) fn table(&self) -> String {
        let [first, second] = self.heading();
        let mut text = format!("{first}\n{second}\n\n");
        // Writing to a String cannot fail; so with all below.
        let head = ["median ns", "min", "worst", "ratio", "intervals"];
        let _ = writeln!(
            text,
            "{:11}  {:>12}  {:>12}  {:>12}  {:>8}  {:>9}",
            "", head[0], head[1], head[2], head[3], head[4]
        );
        for row in &self.rows {
            let compared = if row.baseline { "baseline".to_owned() } else { ratio(row.ratio) };
            let _ = writeln!(
                text,
                "{:11}  {:>12}  {:>12}  {:>12}  {compared:>8}  {:>9}",
                row.name,
                figure(row.median),
                figure(row.min),
                figure(row.worst),
                row.intervals
            );
        }
        let _ = writeln!(text, "\nintervals of so many ms, and how many there were");
        text.push_str(&histogram::table(&self.rows));
        let _ = writeln!(text, "\n{}", self.verdict());
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(plain: f64) -> Report {
        // Each loses its core to the host in another round.
        report_with(plain, [(0, 90e6), (1, 90e6), (2, 90e6), (3, 90e6)])
    }

    fn report_with(plain: f64, hiccups: [(usize, f64); 4]) -> Report {
        let machine = Machine {
            cpu: "cpu".into(),
            cores: 2,
            kernel: "6".into(),
            profile: "dist",
            crossing_ns: None,
        };
        let mut worst = [7e6, plain, 8e6, 7.5e6].map(|worst| vec![Some(worst); 5]);
        for (row, (round, interval)) in worst.iter_mut().zip(hiccups) {
            row[round] = Some(interval);
        }
        let histograms = worst.clone().map(|worst| {
            let mut histogram = Histogram::default();
            (0..100).for_each(|_| histogram.count(5_000_000));
            worst.into_iter().flatten().for_each(|ns| histogram.count(ns as u64));
            histogram
        });
        Report::new(machine, 5, &worst, histograms).unwrap()
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        let json = serde_json::to_value(report(70e6)).unwrap();
        assert_eq!(json["bench"], "inversion");
        assert_eq!(json["provoked"], true);
        let names: Vec<_> =
            json["rows"].as_array().unwrap().iter().map(|row| row["name"].clone()).collect();
        assert_eq!(names, ["undisturbed", "plain", "pi", "ceiling"]);
        for row in json["rows"].as_array().unwrap() {
            assert_eq!((&row["unit"], row["intervals"].as_u64()), (&"ns".into(), Some(105)));
            for number in ["median", "min", "max", "ratio", "worst"] {
                assert!(row[number].is_f64(), "{number} in {row}");
            }
            let counted: u64 = row["histogram"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|bin| bin["count"].as_u64())
                .sum();
            assert_eq!(counted, 105);
        }
        assert_eq!(
            (&json["rows"][1]["median"], &json["rows"][1]["worst"]),
            (&70e6.into(), &90e6.into())
        );
    }

    #[test]
    fn a_run_that_shows_nothing_says_so() {
        assert!(report(70e6).verdict().contains("plain mutex 10.0 ×, priority inheritance 1.14 ×"));
        let text = report(20e6).table();
        assert!(text.contains("could not be provoked") && text.contains("2.86 ×"), "{text}");
    }

    #[test]
    fn a_round_that_the_host_has_spoilt_does_not_decide() {
        // The worst of all, undisturbed, is longer than the plain lock's.
        let report = report_with(70e6, [(0, 90e6), (1, 70e6), (2, 8e6), (3, 7.5e6)]);
        assert!(report.provoked && report.rows[0].worst > report.rows[1].worst);
        assert!(
            report.verdict().contains("plain mutex 10.0 ×, priority inheritance 1.14 ×"),
            "{}",
            report.verdict()
        );
    }

    #[test]
    fn the_chart_has_a_panel_for_each_row() {
        let path =
            std::env::temp_dir().join(format!("outlive-inversion-{}.svg", std::process::id()));
        histogram::draw(&report(70e6), &path).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for (name, ..) in ROWS {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.matches("<rect").count() > 8, "bars");
    }
}
