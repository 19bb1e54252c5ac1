//! Contenders against each other, interleaved turn by turn.
//!
//! A *turn* is one timed run of one contender. A *round* is one turn of each, begun by another contender every time.
//! Between any two turns the crossing is measured. Before the first round each contender finds out how many operations
//! make a turn of the wanted length.

use super::crossing::{self, Cores, Kind};
use super::error::Error;
use super::scratch::Scratch;
use indicatif::{ProgressBar, ProgressStyle};
use outlive::Wait;
use std::time::Duration;

/// Something that is measured. What a turn needs it sets up inside the turn, untimed, and takes down again by dropping.
pub trait Contender {
    /// The row's name: an interface, scripts look for it.
    fn name(&self) -> &'static str;

    /// One turn of so many operations: its cost in nanoseconds per operation, and how often a process of it lost its
    /// core to another.
    fn turn(&mut self, stage: &Stage, operations: u64) -> Result<Figure, Error>;

    /// The number of operations, where it is not to be chosen by time.
    fn fixed_operations(&self) -> Option<u64> {
        None
    }
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
}

/// Where the turns take place.
pub struct Stage {
    /// The two cores; None on a machine with one.
    pub cores: Option<Cores>,
    /// For files.
    pub scratch: Scratch,
    /// How Outlive's own rows wait.
    pub wait: Wait,
    /// The longest that one turn may take before it counts as hung.
    pub turn_limit: Duration,
}

impl Stage {
    /// The first process's core.
    pub fn first_core(&self) -> Option<usize> {
        self.cores.map(|cores| cores.first)
    }

    /// The second's.
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
    /// Whether figures depend on how far apart the cores are.
    pub kinds_differ: bool,
}

/// One timed turn and the crossings on both sides of it.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// What it gave.
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
#[derive(Clone, Debug, Default)]
pub struct Tracks {
    /// One for each contender.
    pub tracks: Vec<Track>,
    /// All crossings.
    pub crossings: Vec<f64>,
    /// Whether the figures depend on them: not where one process is measured.
    pub kinds_differ: bool,
}

impl Tracks {
    /// The kind of each turn of a track under this threshold. Where nothing crosses, all count as near.
    pub fn kinds<'a>(&self, track: &'a Track, threshold: f64) -> impl Iterator<Item = Kind> + use<'a> {
        let kinds_differ = self.kinds_differ;
        track.turns.iter().map(move |turn| match (turn.before, turn.after) {
            (Some(before), Some(after)) if kinds_differ => Kind::of(before, after, threshold),
            _ => Kind::Near,
        })
    }

    /// The figures of one kind, a place for each round: what may be compared.
    pub fn figures(&self, track: &Track, kind: Option<Kind>, threshold: f64) -> Vec<Option<f64>> {
        self.kinds(track, threshold)
            .zip(&track.turns)
            .map(|(is, turn)| kind.is_none_or(|wanted| is == wanted).then_some(turn.figure.ns))
            .collect()
    }

    /// How many rounds of a kind the least lucky row can be compared with the baseline in.
    pub fn comparable(&self, baseline: usize, kind: Kind, threshold: f64) -> usize {
        let base = self.figures(&self.tracks[baseline], Some(kind), threshold);
        self.tracks
            .iter()
            .map(|track| {
                let figures = self.figures(track, Some(kind), threshold);
                figures.iter().zip(&base).filter(|(figure, base)| figure.is_some() && base.is_some()).count()
            })
            .min()
            .unwrap_or(0)
    }

    /// The kind in which most can be compared, and how many rounds that is.
    pub fn best_kind(&self, baseline: usize, threshold: f64) -> (Kind, usize) {
        let near = self.comparable(baseline, Kind::Near, threshold);
        let far = self.comparable(baseline, Kind::Far, threshold);
        if far > near { (Kind::Far, far) } else { (Kind::Near, near) }
    }
}

/// Runs them until enough rounds are of one kind, but at most twice as many rounds as asked.
pub fn run(contenders: &mut [Box<dyn Contender>], baseline: usize, stage: &Stage, plan: Plan) -> Result<Tracks, Error> {
    let mut all = Tracks { kinds_differ: plan.kinds_differ, ..Tracks::default() };
    let bar = progress(contenders.len() * (plan.rounds + 1));
    for contender in contenders.iter_mut() {
        bar.set_message(format!("warming up {}", contender.name()));
        let operations = choose_operations(contender.as_mut(), stage, plan)?;
        all.tracks.push(Track { name: contender.name(), operations, turns: Vec::new() });
        bar.inc(1);
    }
    let mut before = cross(stage, &mut all.crossings)?;
    for round in 0..plan.rounds * 2 {
        for place in 0..contenders.len() {
            let which = (round + place) % contenders.len();
            let (contender, track) = (&mut contenders[which], &mut all.tracks[which]);
            bar.set_message(track.name);
            let figure = contender.turn(stage, track.operations)?;
            let after = cross(stage, &mut all.crossings)?;
            track.turns.push(Turn { figure, before, after });
            before = after;
            bar.inc(1);
        }
        let threshold = crossing::threshold(&all.crossings);
        if all.best_kind(baseline, threshold).1 >= plan.rounds {
            break;
        }
    }
    bar.finish_and_clear();
    Ok(all)
}

fn cross(stage: &Stage, crossings: &mut Vec<f64>) -> Result<Option<f64>, Error> {
    let Some(cores) = stage.cores else { return Ok(None) };
    let crossing = crossing::measure(cores)?;
    crossings.push(crossing);
    Ok(Some(crossing))
}

/// Raises the number of operations until a turn takes a measurable time, then scales it to the wanted one.
fn choose_operations(contender: &mut dyn Contender, stage: &Stage, plan: Plan) -> Result<u64, Error> {
    if let Some(fixed) = contender.fixed_operations().or(plan.operations) {
        return Ok(fixed);
    }
    let mut operations: u64 = 64;
    loop {
        // The timed part, not the whole turn: on a busy machine forking alone may take longer than a turn should.
        let took = contender.turn(stage, operations)?.span;
        if took * 3 >= plan.turn || operations >= 1 << 30 {
            let scaled = operations as f64 * plan.turn.as_secs_f64() / took.as_secs_f64();
            return Ok((scaled as u64).clamp(16, 1 << 31));
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
    use super::*;

    fn track(name: &'static str, turns: &[(f64, f64, f64)]) -> Track {
        let turns = turns
            .iter()
            .map(|&(ns, before, after)| Turn {
                figure: Figure { ns, span: Duration::ZERO, preempted: 0 },
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
                track("a", &[(1.0, 25.0, 25.0), (1.0, 25.0, 25.0), (9.0, 250.0, 250.0), (9.0, 250.0, 250.0)]),
                track("b", &[(2.0, 25.0, 25.0), (7.0, 25.0, 250.0), (27.0, 250.0, 250.0), (27.0, 250.0, 250.0)]),
            ],
            crossings: vec![25.0, 25.0, 25.0, 250.0, 250.0, 250.0],
            kinds_differ: true,
        }
    }

    #[test]
    fn only_turns_of_the_kind_count() {
        let all = some_far();
        assert_eq!(all.figures(&all.tracks[1], Some(Kind::Near), 120.0), [Some(2.0), None, None, None]);
        assert_eq!(all.figures(&all.tracks[1], Some(Kind::Far), 120.0), [None, None, Some(27.0), Some(27.0)]);
        assert_eq!(all.figures(&all.tracks[1], None, 120.0).iter().flatten().count(), 4);
    }

    #[test]
    fn the_kind_with_more_pairs_is_compared() {
        let all = some_far();
        assert_eq!(all.comparable(0, Kind::Near, 120.0), 1);
        assert_eq!(all.best_kind(0, 120.0), (Kind::Far, 2));
    }

    #[test]
    fn with_one_core_all_is_of_one_kind() {
        let mut all = some_far();
        for turn in all.tracks.iter_mut().flat_map(|track| &mut track.turns) {
            (turn.before, turn.after) = (None, None);
        }
        assert_eq!(all.best_kind(0, 120.0), (Kind::Near, 4));
    }

    #[test]
    fn where_one_process_is_measured_all_is_of_one_kind() {
        let all = Tracks { kinds_differ: false, ..some_far() };
        assert_eq!(all.best_kind(0, 120.0), (Kind::Near, 4));
    }
}
