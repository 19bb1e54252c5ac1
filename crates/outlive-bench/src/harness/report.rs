//! From turns to what is told: the JSON document and the table.

use super::crossing::{self, EXPLAINED, Kind};
use super::machine::Machine;
use super::round::{Run, Setting, Track, Tracks};
use super::statistics::{Summary, median, paired_ratio};
use serde::{Serialize, Serializer};
use std::fmt::Write;

/// What a benchmark is called and what its figures mean.
#[derive(Clone, Copy, Debug)]
pub struct Title {
    /// The benchmark: `liveness`, `locks`, `queue`, …
    pub bench: &'static str,
    /// The way it was run: `uncontended`, `one-way 64 B`, …
    pub mode: &'static str,
    /// What one operation is, in a sentence.
    pub meaning: &'static str,
    /// The rows that are this project's own.
    pub ours: &'static [&'static str],
    /// What an operation is called in a rate, where a rate says something: `messages`.
    pub rate_of: Option<&'static str>,
}

/// Everything that is told of a benchmark.
#[derive(Clone, Debug)]
pub struct Report {
    /// What was measured.
    pub title: Title,
    /// What was the same in all groups, as the bytes in a message.
    pub fixed: Vec<Setting>,
    /// What it ran on.
    pub machine: Machine,
    /// One for each group of contenders that were compared; at least one.
    pub parts: Vec<Part>,
    /// Contenders that could not take part, and why.
    pub absent: Vec<Absent>,
}

/// What is told of one group.
#[derive(Clone, Debug)]
pub struct Part {
    /// What sets it apart, where there are several.
    pub setting: Option<Setting>,
    /// The rounds that the rows come from.
    pub rounds: Rounds,
    /// One for each contender. Costs: less is better.
    pub rows: Vec<Row>,
    /// The same rows from rounds of the other kind, if there were any.
    pub other_kind: Option<OtherKind>,
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    bench: &'a str,
    mode: &'a str,
    meaning: &'a str,
    #[serde(flatten, serialize_with = "by_key")]
    fixed: &'a [Setting],
    machine: &'a Machine,
    /// Where there is one group only.
    #[serde(skip_serializing_if = "Option::is_none")]
    rounds: Option<&'a Rounds>,
    /// Those of all groups, each with its setting.
    rows: Vec<SetRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_kind: Option<&'a OtherKind>,
    /// Where there are several groups: what is not in their rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<GroupRounds<'a>>,
    #[serde(skip_serializing_if = "<[Absent]>::is_empty")]
    absent: &'a [Absent],
}

/// Writes each setting as a field of the document itself.
fn by_key<S: Serializer>(settings: &[Setting], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(settings.iter().map(|setting| (setting.key(), setting.number())))
}

#[derive(Serialize)]
struct SetRow<'a> {
    #[serde(flatten)]
    row: &'a Row,
    #[serde(flatten)]
    setting: Option<Setting>,
}

#[derive(Serialize)]
struct GroupRounds<'a> {
    #[serde(flatten)]
    setting: Option<Setting>,
    rounds: &'a Rounds,
    #[serde(skip_serializing_if = "Option::is_none")]
    other_kind: Option<&'a OtherKind>,
}

/// How many rounds there were of which kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Rounds {
    /// The kind that is compared: `near`, `far`; `all` where one process is measured, or if no kind
    /// had a round for each row.
    pub kind: &'static str,
    /// The same in words.
    #[serde(skip)]
    pub words: &'static str,
    /// Rounds run.
    pub run: usize,
    /// Rounds of that kind in which every row had a figure beside the baseline's; rows may have a
    /// few more.
    pub compared: usize,
    /// Turns between two crossings of different kinds; they are compared with nothing.
    pub mixed_turns: usize,
}

/// A contender's costs.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The contender.
    pub name: &'static str,
    /// Of which rounds the figures are: `near`, `far`, `all`.
    pub kind: &'static str,
    /// Always `ns`.
    pub unit: &'static str,
    /// The median of its turns.
    pub median: f64,
    /// The cheapest turn.
    pub min: f64,
    /// The dearest turn.
    pub max: f64,
    /// The median of the rounds' ratios to the baseline.
    pub ratio: f64,
    /// Whether this is the row that the others are compared with.
    pub baseline: bool,
    /// Operations a second, from the median.
    pub per_second: f64,
    /// Operations in each turn.
    pub operations: u64,
    /// The median over the turns of what one operation in 100 exceeded, where each was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// The same of one in 1,000.
    #[serde(rename = "p99.9", skip_serializing_if = "Option::is_none")]
    pub p99_9: Option<f64>,
    /// Turns that the figures come from.
    pub turns: usize,
    /// How often a process lost its core to another in those turns: above a few a turn, the machine
    /// was busy.
    pub preempted: u64,
}

/// A contender that could not take part.
#[derive(Clone, Debug, Serialize)]
pub struct Absent {
    /// The row's name.
    pub name: &'static str,
    /// Why.
    pub why: String,
}

/// Rows from the rounds of the kind that had fewer.
#[derive(Clone, Debug, Serialize)]
pub struct OtherKind {
    /// `near` or `far`.
    pub kind: &'static str,
    /// The same in words.
    #[serde(skip)]
    pub words: &'static str,
    /// Rounds of that kind with a figure for each row.
    pub compared: usize,
    /// The rows.
    pub rows: Vec<Row>,
}

impl<'a> GroupRounds<'a> {
    fn of(part: &'a Part) -> Self {
        Self { setting: part.setting, rounds: &part.rounds, other_kind: part.other_kind.as_ref() }
    }
}

impl Part {
    fn of(all: &Tracks, threshold: f64) -> Self {
        let (best, compared) = all.best_kind(threshold);
        // With no round of one kind for every row, figures of all kinds are better than none, but
        // it is said.
        let kind = (compared > 0 && all.kinds_differ).then_some(best);
        let run = all.tracks.iter().map(|track| track.turns.len()).max().unwrap_or(0);
        let mixed = |track| all.kinds(track, threshold).filter(|kind| *kind == Kind::Mixed).count();
        let rounds = Rounds {
            kind: kind.map_or("all", Kind::name),
            words: kind.map_or("all", Kind::words),
            run,
            compared: if kind.is_some() { compared } else { run },
            mixed_turns: all.tracks.iter().map(mixed).sum(),
        };
        let other = if best == Kind::Near { Kind::Far } else { Kind::Near };
        let other_compared = all.comparable(other, threshold);
        Self {
            setting: all.setting,
            rounds,
            rows: rows(all, kind, threshold),
            other_kind: (other_compared > 0).then(|| OtherKind {
                kind: other.name(),
                words: other.words(),
                compared: other_compared,
                rows: rows(all, Some(other), threshold),
            }),
        }
    }

    fn set_rows(&self) -> impl Iterator<Item = SetRow<'_>> {
        self.rows.iter().map(|row| SetRow { row, setting: self.setting })
    }

    /// Returns which rounds it rests on.
    pub fn counted(&self) -> String {
        format!(
            "{} of {} rounds compared ({})",
            self.rounds.compared, self.rounds.run, self.rounds.words
        )
    }
}

impl Report {
    /// Sums up what was measured.
    pub fn new(title: Title, machine: Machine, all: &Run, absent: Vec<Absent>) -> Self {
        let threshold = crossing::threshold(&all.crossings);
        Self {
            title,
            fixed: Vec::new(),
            machine: machine.with_crossings(&all.crossings, threshold),
            parts: all.groups.iter().map(|group| Part::of(group, threshold)).collect(),
            absent,
        }
    }

    /// Returns the JSON document.
    pub fn document(&self) -> impl Serialize + '_ {
        let alone = if let [part] = &self.parts[..] { Some(part) } else { None };
        Document {
            bench: self.title.bench,
            mode: self.title.mode,
            meaning: self.title.meaning,
            fixed: &self.fixed,
            machine: &self.machine,
            rounds: alone.map(|part| &part.rounds),
            rows: self.parts.iter().flat_map(Part::set_rows).collect(),
            other_kind: alone.and_then(|part| part.other_kind.as_ref()),
            groups: if alone.is_some() {
                Vec::new()
            } else {
                self.parts.iter().map(GroupRounds::of).collect()
            },
            absent: &self.absent,
        }
    }

    /// Returns what was measured.
    fn what(&self) -> String {
        let fixed: String =
            self.fixed.iter().map(|setting| format!(", {}", setting.label())).collect();
        format!("{}{fixed}", self.title.meaning)
    }

    /// Returns what was measured, as a line of its own.
    pub fn subtitle(&self) -> String {
        let what = self.what();
        let mut letters = what.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    }

    /// Returns the heading: what was measured, on what, under which circumstances.
    pub fn heading(&self) -> [String; 2] {
        let first = format!("{} {}: {}", self.title.bench, self.title.mode, self.what());
        let counted = if let [part] = &self.parts[..] {
            format!("; {}", part.counted())
        } else {
            String::new()
        };
        let Machine { cpu, cores, kernel, profile, .. } = &self.machine;
        let crossing = self.machine.crossing();
        let second =
            format!("{cpu}, {cores} cores, Linux {kernel}; profile {profile}; {crossing}{counted}");
        [first, second]
    }

    /// Returns whether it says of its rounds how far apart the cores were.
    pub fn tells_kinds(&self) -> bool {
        self.parts.iter().any(|part| part.rounds.kind != "all")
    }

    /// Returns the table that a person reads.
    pub fn table(&self) -> String {
        let [first, second] = self.heading();
        let mut text = format!("{first}\n{second}\n");
        for part in &self.parts {
            // Writing to a String cannot fail; so with all below.
            let _ = match part.setting {
                Some(setting) => writeln!(text, "\n{}: {}", setting.label(), part.counted()),
                None => writeln!(text),
            };
            self.push_rows(&mut text, &part.rows);
            if let Some(other) = &part.other_kind {
                let _ = write!(
                    text,
                    "\nthe same in {} other rounds ({}):\n",
                    other.compared, other.words
                );
                self.push_rows(&mut text, &other.rows);
            }
        }
        if self.tells_kinds() {
            let _ = writeln!(text, "\n{EXPLAINED}");
        }
        for absent in &self.absent {
            let _ = writeln!(text, "\n{} did not take part: {}", absent.name, absent.why);
        }
        text
    }

    fn push_rows(&self, text: &mut String, rows: &[Row]) {
        let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
        let _ = write!(
            text,
            "{:width$}  {:>11}  {:>11}  {:>11}  {:>8}",
            "", "median ns", "min", "max", "ratio"
        );
        let tails = rows.iter().any(|row| row.p99.is_some());
        if tails {
            let _ = write!(text, "  {:>11}  {:>11}", "p99", "p99.9");
        }
        let _ = match self.title.rate_of {
            Some(rate_of) => writeln!(text, "  {:>14}", format!("{rate_of}/s")),
            None => writeln!(text),
        };
        for row in rows {
            let _ = write!(
                text,
                "{:width$}  {:>11}  {:>11}  {:>11}  {:>8}",
                row.name,
                figure(row.median),
                figure(row.min),
                figure(row.max),
                if row.baseline { "baseline".into() } else { ratio(row.ratio) },
            );
            if tails {
                let told = |tail: Option<f64>| tail.map(figure).unwrap_or_default();
                let _ = write!(text, "  {:>11}  {:>11}", told(row.p99), told(row.p99_9));
            }
            let _ = match self.title.rate_of {
                Some(_) => writeln!(text, "  {:>14}", rate(row.per_second)),
                None => writeln!(text),
            };
        }
    }
}

fn rows(all: &Tracks, kind: Option<Kind>, threshold: f64) -> Vec<Row> {
    let base = all.figures(&all.tracks[all.baseline], kind, threshold);
    let row = |(place, track): (usize, &Track)| {
        let figures = all.figures(track, kind, threshold);
        let seen: Vec<f64> = figures.iter().flatten().copied().collect();
        let summary = Summary::of(&seen)?;
        let counted = track.turns.iter().zip(&figures).filter(|(_, figure)| figure.is_some());
        let tail = |place: usize| {
            let tails: Vec<f64> =
                counted.clone().filter_map(|(turn, _)| turn.figure.tail[place]).collect();
            median(&tails)
        };
        Some(Row {
            name: track.name,
            kind: kind.map_or("all", Kind::name),
            unit: "ns",
            median: summary.median,
            min: summary.min,
            max: summary.max,
            ratio: paired_ratio(&figures, &base)?,
            baseline: place == all.baseline,
            per_second: 1e9 / summary.median,
            operations: track.operations,
            turns: seen.len(),
            p99: tail(0),
            p99_9: tail(1),
            preempted: counted.clone().map(|(turn, _)| turn.figure.preempted).sum(),
        })
    };
    all.tracks.iter().enumerate().filter_map(row).collect()
}

/// Prints a figure with three significant digits or so, whole numbers in groups of three.
pub fn figure(nanoseconds: f64) -> String {
    if nanoseconds < 10.0 {
        format!("{nanoseconds:.2}")
    } else if nanoseconds < 100.0 {
        format!("{nanoseconds:.1}")
    } else {
        grouped(nanoseconds)
    }
}

/// Returns a ratio as printed.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        ..0.1 => format!("{ratio:.3}"),
        0.1..10.0 => format!("{ratio:.2}"),
        10.0..100.0 => format!("{ratio:.1}"),
        _ => grouped(ratio),
    }
}

fn rate(per_second: f64) -> String {
    if per_second >= 1e6 { format!("{:.2} million", per_second / 1e6) } else { grouped(per_second) }
}

fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::round::{Figure, Turn};
    use super::*;
    use serde_json::{Value, json};
    use std::time::Duration;

    fn turn(ns: f64, before: f64, after: f64) -> Turn {
        let figure = Figure { ns, span: Duration::ZERO, preempted: 2, tail: [None; 2] };
        Turn { figure, before: Some(before), after: Some(after) }
    }

    fn measured() -> Tracks {
        let base = vec![turn(10.0, 25.0, 25.0), turn(12.0, 25.0, 25.0), turn(90.0, 25.0, 250.0)];
        let quick = vec![turn(5.0, 25.0, 25.0), turn(9.0, 25.0, 25.0), turn(80.0, 250.0, 250.0)];
        Tracks {
            setting: None,
            tracks: vec![
                Track { name: "quick", operations: 7, turns: quick },
                Track { name: "base", operations: 8, turns: base },
            ],
            baseline: 1,
            kinds_differ: true,
        }
    }

    fn told(groups: Vec<Tracks>) -> Report {
        let title = Title {
            bench: "mutex",
            mode: "uncontended",
            meaning: "a pair",
            ours: &["quick"],
            rate_of: None,
        };
        let machine = Machine {
            cpu: "cpu".into(),
            cores: 2,
            kernel: "6".into(),
            profile: "dist",
            crossing_ns: None,
        };
        let crossings = vec![25.0, 25.0, 25.0, 25.0, 250.0, 250.0];
        let run = Run { groups, crossings, failed: Vec::new() };
        Report::new(title, machine, &run, vec![Absent { name: "gone", why: "no".into() }])
    }

    fn report() -> Report {
        told(vec![measured()])
    }

    fn document(report: &Report) -> Value {
        serde_json::to_value(report.document()).unwrap()
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        let json = document(&report());
        assert_eq!(json["bench"], "mutex");
        assert_eq!(json["machine"]["cpu"], "cpu");
        assert_eq!(json["machine"]["cores"], 2);
        assert_eq!(json["machine"]["kernel"], "6");
        assert_eq!(json["machine"]["profile"], "dist");
        assert_eq!(json["machine"]["crossing_ns"]["min"], 25.0);
        assert_eq!(json["machine"]["crossing_ns"]["max"], 250.0);
        assert_eq!(json["rounds"]["kind"], "near");
        assert_eq!(json["rounds"]["run"], 3);
        assert_eq!(json["rounds"]["compared"], 2);
        assert_eq!(json["rounds"]["mixed_turns"], 1);
        let rows = json["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(row["unit"], "ns");
            for number in ["median", "min", "max", "ratio"] {
                assert!(row[number].is_f64(), "{number} in {row}");
            }
            assert!(row["baseline"].is_boolean());
        }
        assert_eq!((&rows[0]["name"], &rows[0]["baseline"]), (&"quick".into(), &false.into()));
        assert_eq!((&rows[0]["kind"], &rows[0]["turns"]), (&"near".into(), &2.into()));
        assert_eq!((&rows[1]["name"], &rows[1]["baseline"]), (&"base".into(), &true.into()));
        assert_eq!(json["absent"][0]["name"], "gone");
        assert!(json.get("groups").is_none());
    }

    #[test]
    fn rows_of_several_groups_carry_their_setting() {
        let group = |threads| Tracks { setting: Some(Setting::Threads(threads)), ..measured() };
        let report = told(vec![group(1), group(4)]);
        let json = document(&report);
        let rows: Vec<_> = json["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| (&row["name"], &row["threads"]))
            .collect();
        let wanted = json!([["quick", 1], ["base", 1], ["quick", 4], ["base", 4]]);
        assert_eq!(json!(rows), wanted);
        assert_eq!(json["groups"][1]["threads"], 4);
        assert_eq!(json["groups"][1]["rounds"]["compared"], 2);
        assert!(json.get("rounds").is_none());
        let table = report.table();
        assert!(
            table.contains("\n1 thread: 2 of 3 rounds")
                && table.contains("\n4 threads: 2 of 3 rounds"),
            "{table}"
        );
    }

    #[test]
    fn figures_of_another_kind_stay_out() {
        let rows = &report().parts[0].rows;
        assert_eq!((rows[0].median, rows[0].min, rows[0].max), (7.0, 5.0, 9.0));
        assert_eq!(rows[0].ratio, (5.0 / 10.0 + 9.0 / 12.0) / 2.0);
        assert_eq!((rows[1].ratio, rows[1].turns, rows[1].preempted), (1.0, 2, 4));
    }

    #[test]
    fn without_a_common_kind_all_is_compared_and_said() {
        let mut all = measured();
        for turn in &mut all.tracks[1].turns {
            (turn.before, turn.after) = (Some(25.0), Some(250.0));
        }
        let part = &told(vec![all]).parts[0];
        assert_eq!((part.rounds.kind, part.rounds.compared, part.rows[0].turns), ("all", 3, 3));
    }

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(figure(0.5), "0.50");
        assert_eq!(figure(23.04), "23.0");
        assert_eq!(figure(21_000.4), "21 000");
        assert_eq!(ratio(0.0164), "0.016");
        assert_eq!(ratio(0.947), "0.95");
        assert_eq!(ratio(1234.0), "1 234");
        assert_eq!(rate(17_200_000.0), "17.20 million");
    }

    #[test]
    fn the_table_names_every_row() {
        let table = report().table();
        for part in [
            "quick",
            "base",
            "baseline",
            "0.62",
            "ns it is the same core complex",
            "same core complex: yes",
            "A core complex is",
            "2 of 3 rounds",
            "gone did not take part: no",
        ] {
            assert!(table.contains(part), "{part} is missing in\n{table}");
        }
    }
}
