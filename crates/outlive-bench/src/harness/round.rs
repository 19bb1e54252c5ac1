//! Contenders against each other, interleaved turn by turn.
//!
//! A *turn* is one timed run of one contender. A *round* is one turn of each, begun by another
//! contender every time. Between any two turns the crossing is measured. Before the first round
//! each contender finds out how many operations make a turn of the wanted length.

use super::crossing::{self, Cores, Kind};
use super::error::Error;
use super::report::Absent;
use super::scratch::Scratch;
use indicatif::{ProgressBar, ProgressStyle};
use outlive::WaitStrategy;
use serde::Serialize;
use std::time::Duration;

/// Something that is measured. What a turn needs it sets up inside the turn, untimed, and takes
/// down again by dropping.
pub trait Contender {
    /// Returns the row's name: an interface, scripts look for it.
    fn name(&self) -> &'static str;

    /// Runs one turn of so many operations: returns its cost in nanoseconds per operation, and how
    /// often a process of it lost its core to another.
    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error>;

    /// Returns the fewest operations of which a turn says something.
    fn least_operations(&self) -> u64 {
        16
    }

    /// Returns the number of operations, where it is not to be chosen by time.
    fn fixed_operations(&self) -> Option<u64> {
        None
    }
}

/// What sets a group of contenders apart from the others of its run; in JSON, a field of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// So many threads as workers.
    Threads(usize),
    /// So many processes as workers.
    Processes(usize),
    /// Messages of so many bytes.
    MessageBytes(usize),
    /// Objects of so many bytes.
    ObjectBytes(usize),
    /// So many nanoseconds of computing inside a lock, and as many outside.
    WorkNs(usize),
    /// Messages of so many bytes, received and used in a manner.
    Messages {
        /// Bytes in each.
        message_bytes: usize,
        /// The manner: `busy`, `sleeping, every byte`.
        how: &'static str,
    },
    /// So many subscribers.
    Subscribers(usize),
    /// So many publishers.
    Publishers(usize),
    /// So many topics.
    Topics(usize),
}

impl Setting {
    /// Returns it as a heading.
    pub fn label(self) -> String {
        match self {
            Self::Threads(1) => "1 thread".into(),
            Self::Threads(threads) => format!("{threads} threads"),
            Self::Processes(1) => "1 process".into(),
            Self::Processes(processes) => format!("{processes} processes"),
            Self::MessageBytes(bytes) => format!("{bytes} B a message"),
            Self::ObjectBytes(bytes) => format!("{bytes} B an object"),
            Self::WorkNs(ns) => format!("{ns} ns of computing inside and outside"),
            Self::Messages { message_bytes, how } => format!("{message_bytes} B a message, {how}"),
            Self::Subscribers(1) => "1 subscriber".into(),
            Self::Subscribers(subscribers) => format!("{subscribers} subscribers"),
            Self::Publishers(1) => "1 publisher".into(),
            Self::Publishers(publishers) => format!("{publishers} publishers"),
            Self::Topics(1) => "1 topic".into(),
            Self::Topics(topics) => format!("{topics} topics"),
        }
    }

    /// Returns its name in JSON.
    pub fn key(self) -> &'static str {
        match self {
            Self::Threads(_) => "threads",
            Self::Processes(_) => "processes",
            Self::MessageBytes(_) => "message_bytes",
            Self::ObjectBytes(_) => "object_bytes",
            Self::WorkNs(_) => "work_ns",
            Self::Messages { .. } => "messages",
            Self::Subscribers(_) => "subscribers",
            Self::Publishers(_) => "publishers",
            Self::Topics(_) => "topics",
        }
    }

    /// Returns its place on an axis.
    pub fn number(self) -> usize {
        match self {
            Self::Threads(number)
            | Self::Processes(number)
            | Self::MessageBytes(number)
            | Self::ObjectBytes(number)
            | Self::WorkNs(number)
            | Self::Messages { message_bytes: number, .. }
            | Self::Subscribers(number)
            | Self::Publishers(number)
            | Self::Topics(number) => number,
        }
    }

    /// Returns what the axis counts.
    pub fn axis(self) -> &'static str {
        match self {
            Self::Threads(_) => "threads",
            Self::Processes(_) => "processes",
            Self::MessageBytes(_) | Self::Messages { .. } => "bytes in a message",
            Self::ObjectBytes(_) => "bytes in an object",
            Self::WorkNs(_) => "ns of computing",
            Self::Subscribers(_) => "subscribers",
            Self::Publishers(_) => "publishers",
            Self::Topics(_) => "topics",
        }
    }
}

/// Contenders that are compared with each other. Several groups are interleaved in one run.
pub struct Group {
    /// What sets it apart, where there are several.
    pub setting: Option<Setting>,
    /// In the order they are shown.
    pub rows: Vec<Box<dyn Contender>>,
    /// The name of the row that the others are compared with.
    pub baseline: &'static str,
    /// Whether figures depend on how far apart the cores are.
    pub kinds_differ: bool,
}

/// What one turn gave.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The cost of one operation.
    pub ns: f64,
    /// How long the timed part took: what the number of operations is chosen by.
    pub span: Duration,
    /// Times a process of the turn lost its core to another.
    pub preempted: u64,
    /// The costs that one operation in 100 and one in 1,000 exceeded, where each was timed by
    /// itself and there were as many; `ns` is then the turn's median.
    pub tail: [Option<f64>; 2],
}

/// Where the turns take place.
pub struct Stage {
    /// The two cores; None on a machine with one.
    pub cores: Option<Cores>,
    /// All cores that may be used, where there may be more workers than two.
    pub workers_on: Vec<usize>,
    /// For files.
    pub scratch: Scratch,
    /// How Outlive's own rows wait.
    pub wait: WaitStrategy,
    /// The longest that one turn may take before it counts as hung.
    pub turn_limit: Duration,
}

impl Stage {
    /// Returns the first process's core.
    pub fn first_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.first)
    }

    /// Returns the second's.
    pub fn second_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.second)
    }
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds of one kind that are wanted.
    pub rounds: usize,
    /// The wanted length of a turn.
    pub turn: Duration,
    /// Operations per turn, if given by hand.
    pub operations: Option<u64>,
}

/// One timed turn and the crossings on both sides of it.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Its figure.
    pub figure: Figure,
    /// The crossing before, where there are two cores.
    pub before: Option<f64>,
    /// The crossing after.
    pub after: Option<f64>,
}

/// All turns of one contender, one each round.
#[derive(Clone, Debug)]
pub struct Track {
    /// The contender.
    pub name: &'static str,
    /// Operations in each of its turns.
    pub operations: u64,
    /// Its turns, in the order of the rounds.
    pub turns: Vec<Turn>,
}

/// Everything that was measured.
#[derive(Clone, Debug)]
pub struct Run {
    /// Group by group.
    pub groups: Vec<Tracks>,
    /// All crossings.
    pub crossings: Vec<f64>,
    /// The contenders that failed, and why.
    pub failed: Vec<Absent>,
}

/// What was measured of one group.
#[derive(Clone, Debug)]
pub struct Tracks {
    /// What sets it apart.
    pub setting: Option<Setting>,
    /// One for each contender.
    pub tracks: Vec<Track>,
    /// The place of the one that the others are compared with.
    pub baseline: usize,
    /// Whether the figures depend on the crossings: not where one process is measured.
    pub kinds_differ: bool,
}

impl Tracks {
    /// Returns the kind of each turn of a track under this threshold. Where nothing crosses, all
    /// count as near.
    pub fn kinds<'a>(
        &self,
        track: &'a Track,
        threshold: f64,
    ) -> impl Iterator<Item = Kind> + use<'a> {
        let kinds_differ = self.kinds_differ;
        track.turns.iter().map(move |turn| match (turn.before, turn.after) {
            (Some(before), Some(after)) if kinds_differ => Kind::of(before, after, threshold),
            _ => Kind::Near,
        })
    }

    /// Returns the figures of one kind, a place for each round: what may be compared.
    pub fn figures(&self, track: &Track, kind: Option<Kind>, threshold: f64) -> Vec<Option<f64>> {
        self.kinds(track, threshold)
            .zip(&track.turns)
            .map(|(is, turn)| kind.is_none_or(|wanted| is == wanted).then_some(turn.figure.ns))
            .collect()
    }

    /// Returns how many rounds of a kind the least lucky row can be compared with the baseline in.
    pub fn comparable(&self, kind: Kind, threshold: f64) -> usize {
        let base = self.figures(&self.tracks[self.baseline], Some(kind), threshold);
        self.tracks
            .iter()
            .map(|track| {
                let figures = self.figures(track, Some(kind), threshold);
                figures
                    .iter()
                    .zip(&base)
                    .filter(|(figure, base)| figure.is_some() && base.is_some())
                    .count()
            })
            .min()
            .unwrap_or(0)
    }

    /// Returns the kind in which most can be compared, and how many rounds that is.
    pub fn best_kind(&self, threshold: f64) -> (Kind, usize) {
        let near = self.comparable(Kind::Near, threshold);
        let far = self.comparable(Kind::Far, threshold);
        if far > near { (Kind::Far, far) } else { (Kind::Near, near) }
    }
}

/// Runs them until enough rounds are of one kind, but at most twice as many rounds as asked.
///
/// A contender that fails, or hangs until the turn's limit, loses its row, and the others go on
/// without it. If it was the baseline, another library's first row becomes it, or else the first. A
/// failure of one of `ours` is the run's.
pub fn run(mut groups: Vec<Group>, stage: &Stage, plan: Plan, ours: &[&str]) -> Result<Run, Error> {
    let rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    let bar = progress(rows * (plan.rounds + 1));
    let mut all =
        Run { groups: Vec::with_capacity(groups.len()), crossings: Vec::new(), failed: Vec::new() };
    for group in &mut groups {
        let mut tracks = Vec::with_capacity(group.rows.len());
        let mut ready = Vec::with_capacity(group.rows.len());
        for mut contender in group.rows.drain(..) {
            let name = contender.name();
            bar.set_message(format!("warming up {name}"));
            match choose_operations(contender.as_mut(), stage, plan) {
                Ok(operations) => {
                    tracks.push(Track { name, operations, turns: Vec::new() });
                    ready.push(contender);
                }
                Err(error) => all.failed.push(lost(name, error, ours)?),
            }
            bar.inc(1);
        }
        group.rows = ready;
        let baseline = baseline_of(&tracks, group.baseline, ours)?;
        all.groups.push(Tracks {
            setting: group.setting,
            tracks,
            baseline,
            kinds_differ: group.kinds_differ,
        });
    }
    let mut before = cross(stage, &mut all.crossings)?;
    for round in 0..plan.rounds * 2 {
        // In a round every contender of every group has its turn.
        let order: Vec<(usize, usize)> = groups
            .iter()
            .enumerate()
            .flat_map(|(group, of)| (0..of.rows.len()).map(move |row| (group, row)))
            .collect();
        let mut failed_now = Vec::new();
        for place in 0..order.len() {
            let (group, row) = order[(round + place) % order.len()];
            let (contender, track) =
                (&mut groups[group].rows[row], &mut all.groups[group].tracks[row]);
            bar.set_message(track.name);
            match contender.turn(stage, track.operations) {
                Ok(figure) => {
                    let after = cross(stage, &mut all.crossings)?;
                    track.turns.push(Turn { figure, before, after });
                    before = after;
                }
                Err(error) => {
                    all.failed.push(lost(track.name, error, ours)?);
                    failed_now.push((group, row));
                    before = cross(stage, &mut all.crossings)?;
                }
            }
            bar.inc(1);
        }
        // From behind, so that the places before stay what they are.
        failed_now.sort_unstable();
        for (group, row) in failed_now.into_iter().rev() {
            groups[group].rows.remove(row);
            let tracks = &mut all.groups[group];
            let baseline = tracks.tracks[tracks.baseline].name;
            tracks.tracks.remove(row);
            tracks.baseline = baseline_of(&tracks.tracks, baseline, ours)?;
        }
        let threshold = crossing::threshold(&all.crossings);
        if all.groups.iter().all(|group| group.best_kind(threshold).1 >= plan.rounds) {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

/// Returns the place of the baseline of that name, or of the row that takes its place.
fn baseline_of(tracks: &[Track], name: &str, ours: &[&str]) -> Result<usize, Error> {
    let place = |is_wanted: &dyn Fn(&Track) -> bool| tracks.iter().position(is_wanted);
    place(&|track| track.name == name)
        .or_else(|| place(&|track| !ours.contains(&track.name)))
        .or_else(|| place(&|_| true))
        .ok_or_else(|| Error::Refused(format!("the baseline {name} failed, and there is no other")))
}

/// Returns the row that a contender loses by its failure. `Err`: the run fails with it.
fn lost(name: &'static str, error: Error, ours: &[&str]) -> Result<Absent, Error> {
    let is_the_runs =
        ours.contains(&name) || matches!(error, Error::Interrupted(_) | Error::Refused(_));
    if is_the_runs { Err(error) } else { Ok(Absent { name, why: format!("it failed: {error}") }) }
}

fn cross(stage: &Stage, crossings: &mut Vec<f64>) -> Result<Option<f64>, Error> {
    let Some(cores) = stage.cores else { return Ok(None) };
    let crossing = crossing::measure(cores)?;
    crossings.push(crossing);
    Ok(Some(crossing))
}

/// Raises the number of operations until a turn takes a measurable time, then scales it to the
/// wanted one.
fn choose_operations(
    contender: &mut dyn Contender,
    stage: &Stage,
    plan: Plan,
) -> Result<u64, Error> {
    if let Some(fixed) = contender.fixed_operations().or(plan.operations) {
        return Ok(fixed);
    }
    let least = contender.least_operations();
    let mut operations = least.max(64);
    loop {
        // The timed part, not the whole turn: on a busy machine forking alone may take longer than
        // a turn should.
        let took = contender.turn(stage, operations)?.span;
        if took * 3 >= plan.turn || operations >= 1 << 30 {
            let scaled = operations as f64 * plan.turn.as_secs_f64() / took.as_secs_f64();
            return Ok((scaled as u64).clamp(least, 1 << 31));
        }
        operations *= 4;
    }
}

/// Progress on stderr, if a person looks there. No ticking thread: a benchmark forks.
fn progress(turns: usize) -> ProgressBar {
    let bar = ProgressBar::new(turns as u64);
    // A literal that indicatif accepts; were it wrong, the plain style stays.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::super::crew::{self, Crew};
    use super::*;

    fn track(name: &'static str, turns: &[(f64, f64, f64)]) -> Track {
        let turns = turns
            .iter()
            .map(|&(ns, before, after)| Turn {
                figure: Figure { ns, span: Duration::ZERO, preempted: 0, tail: [None; 2] },
                before: Some(before),
                after: Some(after),
            })
            .collect();
        Track { name, operations: 1, turns }
    }

    fn some_far() -> Tracks {
        // Round 0: near for both. 1: the cores part during b's turn. 2 and 3: far for both.
        Tracks {
            tracks: vec![
                track(
                    "a",
                    &[
                        (1.0, 25.0, 25.0),
                        (1.0, 25.0, 25.0),
                        (9.0, 250.0, 250.0),
                        (9.0, 250.0, 250.0),
                    ],
                ),
                track(
                    "b",
                    &[
                        (2.0, 25.0, 25.0),
                        (7.0, 25.0, 250.0),
                        (27.0, 250.0, 250.0),
                        (27.0, 250.0, 250.0),
                    ],
                ),
            ],
            setting: None,
            baseline: 0,
            kinds_differ: true,
        }
    }

    #[test]
    fn only_turns_of_the_kind_count() {
        let all = some_far();
        assert_eq!(
            all.figures(&all.tracks[1], Some(Kind::Near), 120.0),
            [Some(2.0), None, None, None]
        );
        assert_eq!(
            all.figures(&all.tracks[1], Some(Kind::Far), 120.0),
            [None, None, Some(27.0), Some(27.0)]
        );
        assert_eq!(all.figures(&all.tracks[1], None, 120.0).iter().flatten().count(), 4);
    }

    #[test]
    fn the_kind_with_more_pairs_is_compared() {
        let all = some_far();
        assert_eq!(all.comparable(Kind::Near, 120.0), 1);
        assert_eq!(all.best_kind(120.0), (Kind::Far, 2));
    }

    #[test]
    fn with_one_core_all_is_of_one_kind() {
        let mut all = some_far();
        for turn in all.tracks.iter_mut().flat_map(|track| &mut track.turns) {
            (turn.before, turn.after) = (None, None);
        }
        assert_eq!(all.best_kind(120.0), (Kind::Near, 4));
    }

    #[test]
    fn where_one_process_is_measured_all_is_of_one_kind() {
        let all = Tracks { kinds_differ: false, ..some_far() };
        assert_eq!(all.best_kind(120.0), (Kind::Near, 4));
    }

    /// What one of the contenders does in its second turn.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum Does {
        Fails,
        Hangs,
    }

    struct Row {
        name: &'static str,
        does: Option<Does>,
        turns: u64,
    }

    impl Contender for Row {
        fn name(&self) -> &'static str {
            self.name
        }

        fn fixed_operations(&self) -> Option<u64> {
            Some(1)
        }

        fn turn(&mut self, stage: &Stage, _: u64) -> Result<Figure, Error> {
            self.turns += 1;
            match self.does.filter(|_| self.turns == 2) {
                Some(Does::Fails) => return Err(Error::Child("the server was gone".into())),
                // A process that never ends, as of a library whose call never returns.
                Some(Does::Hangs) => {
                    let mut crew = Crew::new()?;
                    crew.start("server", None, || crew::stay())?;
                    crew.finish(stage.turn_limit)?;
                }
                None => {}
            }
            Ok(Figure { ns: 1.0, span: Duration::ZERO, preempted: 0, tail: [None; 2] })
        }
    }

    fn of_rows(names: &[&'static str], one: &'static str, does: Does) -> Result<Run, Error> {
        let row = |&name| -> Box<dyn Contender> {
            Box::new(Row { name, does: (name == one).then_some(does), turns: 0 })
        };
        let rows = names.iter().map(row).collect();
        let groups = vec![Group { setting: None, rows, baseline: "floor", kinds_differ: false }];
        let stage = Stage {
            cores: None,
            workers_on: vec![0],
            scratch: Scratch::new()?,
            wait: WaitStrategy::default(),
            turn_limit: Duration::from_millis(1),
        };
        let plan = Plan { rounds: 3, turn: Duration::from_millis(1), operations: None };
        run(groups, &stage, plan, &["ours"])
    }

    /// Which rows there are at the end, and which of them is the baseline.
    fn left(run: &Run) -> (Vec<&'static str>, &'static str) {
        let group = &run.groups[0];
        assert!(group.tracks.iter().all(|track| track.turns.len() == 3));
        let names: Vec<_> = group.tracks.iter().map(|track| track.name).collect();
        (names.clone(), names[group.baseline])
    }

    #[test]
    fn a_contender_that_fails_or_hangs_loses_its_row_and_not_the_table() {
        for (does, why) in [(Does::Fails, "was gone"), (Does::Hangs, "took too long")] {
            let run = of_rows(&["other", "ours", "floor"], "other", does).expect("others go on");
            assert_eq!(left(&run), (vec!["ours", "floor"], "floor"));
            assert_eq!((run.failed.len(), run.failed[0].name), (1, "other"));
            assert!(run.failed[0].why.contains(why), "{}", run.failed[0].why);
        }
    }

    #[test]
    fn a_baseline_that_fails_or_hangs_loses_its_row_and_not_the_table() {
        for does in [Does::Fails, Does::Hangs] {
            let run = of_rows(&["ours", "floor", "other"], "floor", does).expect("others go on");
            assert_eq!(left(&run), (vec!["ours", "other"], "other"));
            assert_eq!(run.failed[0].name, "floor");
            let alone = of_rows(&["ours", "floor"], "floor", does).expect("ours goes on");
            assert_eq!(left(&alone), (vec!["ours"], "ours"));
            assert!(matches!(of_rows(&["floor"], "floor", does), Err(Error::Refused(_))));
        }
    }

    #[test]
    fn a_failure_of_our_own_row_is_the_runs() {
        let failed = of_rows(&["other", "ours", "floor"], "ours", Does::Hangs);
        assert!(matches!(failed, Err(Error::TimedOut(_))));
    }
}
