//! A campaign: one scenario in one mode, one life observed, then at each chosen point a death
//! ([`round`]), a stop ([`stop`]) or a system call that fails ([`faults`]), checked each time.

mod belongings;
mod faults;
mod round;
mod stop;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use self::round::Round;
use self::stop::{Sleep, Then};
use crate::engine::control::Control;
use crate::engine::plan::{Call, Moment, Route, Thoroughness, kill_points, routes, stop_points};
use crate::engine::{errnos, trace};
use crate::failure::Failure;
use crate::scenario::{Scenario, known};
use crate::world::scratch::Scratch;
use crate::world::{Recheck, World, affinity};

/// No process may be blocked for longer than this after a death.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// For things broken on purpose, whose hang is expected.
const PATIENCE_WITH_TOYS: Duration = Duration::from_millis(500);

/// How many instructions an operation may have before the machine calls it endless. The longest, record-finish, has
/// 423 thousand.
const LONGEST_LIFE: usize = 600_000;

/// After how many failures a campaign gives up.
const ENOUGH_FAILURES: usize = 3;

/// The same of faults, each of which is another one.
const MANY_FAILURES: usize = 12;

/// What befalls the victims of a campaign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Each is killed at its point.
    Killed,
    /// Each stands still at its point; then it goes on, or is killed.
    Stopped,
    /// The system call at its point fails.
    Failing,
}

/// Of how many stops a telling campaign has about, with the points before and after: the pairs of
/// more are thinned out. A brief one has half of it.
const MOST_STOPS: usize = 60;

/// Each `of`-th point of a campaign, from the `number`-th on, with everything that befalls the
/// victim there. All parts together are the whole campaign; the points of each part are spread over
/// the whole operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// From 1 on.
    pub number: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Part {
    /// All points.
    pub const WHOLE: Part = Part { number: 1, of: 1 };

    fn has(self, nth: usize) -> bool {
        nth as u64 % self.of == self.number - 1
    }
}

impl fmt::Display for Part {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}/{}", self.number, self.of)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let numbers = text
            .split_once('/')
            .and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        match numbers {
            Some((number, of)) if 1 <= number && number <= of => Ok(Part { number, of }),
            _ => Err("a part is K/N, with K from 1 to N".to_owned()),
        }
    }
}

/// What a campaign is to do.
#[derive(Clone, Debug)]
pub struct Orders {
    /// What befalls the victims.
    pub fate: Fate,
    /// Which of the points.
    pub thoroughness: Thoroughness,
    /// The first point to kill at.
    pub from: u64,
    /// The last one.
    pub to: u64,
    /// Which part of those points.
    pub part: Part,
    /// The processor on which engine and victim take turns.
    pub cpu: Option<usize>,
    /// The program that plays survivors.
    pub program: PathBuf,
    /// The program that plays victims.
    pub victim: PathBuf,
}

/// What came out of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Instructions in the observed life.
    pub instructions: u64,
    /// How many of its points differ for survivors or kernel.
    pub telling: u64,
    /// System calls in the observed life that may fail.
    pub calls: u64,
    /// Deaths, stops or faults carried out.
    pub rounds: u64,
    /// The longest time for which a survivor was kept waiting by a stopped victim that held
    /// nothing.
    pub slowest: Duration,
    /// What befell the victims.
    pub fate: Option<Fate>,
    /// Deaths or stops that did not come to their point: the victim's life took another turn than
    /// the observed one.
    pub drifted: u64,
    /// Outcomes and how often they were seen.
    pub seen: Vec<(&'static str, u64)>,
    /// What failed, with the point.
    pub failures: Vec<(u64, String)>,
    /// Duration of the whole.
    pub took: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { rounds, instructions, telling, .. } = self;
        match self.fate {
            Some(Fate::Failing) => write!(to, "{rounds} faults of {} calls", self.calls)?,
            Some(Fate::Stopped) => {
                write!(to, "{rounds} stops of {instructions} instructions, {telling} telling")?
            }
            _ => write!(
                to,
                "{rounds} kill points of {instructions} instructions, {telling} telling"
            )?,
        }
        if self.fate == Some(Fate::Stopped) {
            write!(to, "; slowest {:.3} s", self.slowest.as_secs_f64())?;
        }
        for (what, times) in &self.seen {
            write!(to, "; {what} {times}")?;
        }
        if self.drifted > 0 {
            write!(to, "; elsewhere than planned {}", self.drifted)?;
        }
        write!(to, "; {:.1} s", self.took.as_secs_f64())
    }
}

/// The surroundings for the next rounds, in a folder of their own.
struct Worlds<'a> {
    scenario: &'a dyn Scenario,
    recheck: Recheck,
    orders: &'a Orders,
    scratch: Scratch,
    /// The page on which one engine meets the victims of all its worlds.
    control: PathBuf,
    begun: u64,
}

impl Worlds<'_> {
    fn next(&mut self) -> Result<World, Failure> {
        self.begun += 1;
        let folder = self.scratch.path().join(format!("world-{}", self.begun));
        let patience = if self.scenario.must_fail() { PATIENCE_WITH_TOYS } else { PATIENCE };
        let mut world =
            World::new(folder, &self.orders.program, self.scenario.name(), self.recheck, patience)?;
        world.meet_at(&self.control);
        Ok(world)
    }
}

fn is_fallible(call: &Call) -> bool {
    !errnos::of(call.number, call.arguments).is_empty()
}

/// What one life is to come to.
#[derive(Clone, Copy, Debug)]
enum End {
    Death,
    Stop(Then, Sleep),
    Fault(libc::c_int),
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Death => Ok(()),
            End::Stop(then, sleep) => write!(to, " ({then:?}, {sleep:?})"),
            End::Fault(errno) => write!(to, " ({})", errnos::name(*errno)),
        }
    }
}

/// The lives to come: where, and what happens there.
fn lives(life: &[Moment], orders: &Orders) -> Vec<(u64, End)> {
    use Sleep::{Frozen, Stopped};
    use Then::{GoesOn, IsKilled};
    let every = orders.thoroughness == Thoroughness::Every;
    let is_thinned = matches!(orders.thoroughness, Thoroughness::Telling | Thoroughness::Brief);
    let mut all = Vec::new();
    match orders.fate {
        Fate::Killed => {
            all.extend(
                kill_points(life, orders.thoroughness).into_iter().map(|point| (point, End::Death)),
            );
        }
        Fate::Stopped => {
            let points = stop_points(life, orders.thoroughness);
            // Telling points come in pairs, before and after, unless it is to be brief.
            let beside = if orders.thoroughness == Thoroughness::Brief { 1 } else { 2 };
            let nth = if is_thinned { points.len().div_ceil(MOST_STOPS / 2 * beside) } else { 1 };
            for (number, point) in points.into_iter().enumerate() {
                let asleep = life[point as usize].asleep;
                if !asleep && (number / beside) % nth != 0 {
                    continue;
                }
                let sleeps = if asleep { &[Frozen, Stopped][..] } else { &[Frozen][..] };
                // Each of a pair comes to have both ends in turn; those that are thinned out must
                // not all have one.
                let then = if (number % beside + number / beside / nth) % 2 == 0 {
                    &[GoesOn][..]
                } else {
                    &[IsKilled][..]
                };
                let thens = if !is_thinned || asleep { &[GoesOn, IsKilled][..] } else { then };
                for &sleep in sleeps {
                    all.extend(thens.iter().map(|&then| (point, End::Stop(then, sleep))));
                }
            }
        }
        Fate::Failing => {
            all.extend(
                faults::faults(life, every)
                    .into_iter()
                    .map(|(point, errno)| (point, End::Fault(errno))),
            );
        }
    }
    all.retain(|(point, _)| (orders.from..=orders.to).contains(point));
    let mut points: Vec<u64> = all.iter().map(|(point, _)| *point).collect();
    points.dedup();
    all.retain(|(point, _)| points.binary_search(point).is_ok_and(|nth| orders.part.has(nth)));
    all
}

type Totals = BTreeMap<&'static str, u64>;

impl Round<'_> {
    /// One more life. Says whether the victim came to its point.
    fn live(
        &self,
        world: &mut World,
        route: Route,
        expected: &Moment,
        last: u64,
        end: End,
    ) -> Result<bool, Failure> {
        match end {
            End::Death => self.kill_at(world, route, expected, last),
            End::Stop(then, sleep) => self.stop_at(world, route, expected, last, (then, sleep)),
            End::Fault(errno) => self.fail_at(world, route, expected, last, errno),
        }
    }
}

impl Round<'_> {
    /// A world's last check, then its end.
    fn end(&self, mut world: World, point: u64, report: &mut Report, totals: &mut Totals) {
        match self.scenario.check_world(&mut world) {
            Ok(()) => {
                report.slowest = report.slowest.max(world.slowest());
                discard(world, totals);
            }
            Err(failure) => {
                let folder = world.folder().display().to_string();
                report.failures.push((
                    point,
                    format!("at one of {} rounds: {failure}; kept: {folder}", world.round()),
                ));
            }
        }
    }
}

fn discard(world: World, totals: &mut Totals) {
    for (what, times) in world.seen() {
        *totals.entry(what).or_default() += times;
    }
    let folder = world.folder().to_owned();
    drop(world);
    let _ = std::fs::remove_dir_all(folder);
}

/// Returns whether a life with a stop, in surroundings of its own, comes to its point and goes as
/// it must this time.
fn is_in_time_again(
    round: &Round<'_>,
    worlds: &mut Worlds<'_>,
    route: Route,
    expected: &Moment,
    last: u64,
    how: End,
) -> bool {
    let is_expected_late = round.scenario.must_fail()
        || known::to_fail_stopped(round.scenario.name(), worlds.recheck).is_some();
    if is_expected_late {
        return false;
    }
    let Ok(mut world) = worlds.next() else { return false };
    // As at first: the ordinary round is a world's second, where it has several.
    let is_ready = round.scenario.rounds_per_world() == 1 || round.pass_through(&mut world).is_ok();
    let is_in_time = is_ready
        && matches!(round.live(&mut world, route, expected, last, how), Ok(true))
        && round.scenario.check_world(&mut world).is_ok();
    let folder = world.folder().to_owned();
    drop(world);
    let _ = std::fs::remove_dir_all(folder);
    is_in_time
}

/// Carries out a campaign. Failures of single rounds stand in the report.
///
/// # Errors
/// When the undisturbed life already fails, or the machine itself.
pub fn run(scenario: &dyn Scenario, recheck: Recheck, orders: &Orders) -> Result<Report, Failure> {
    let began = Instant::now();
    trace::arm_interrupts();
    if let Some(cpu) = orders.cpu {
        affinity::stay_on(cpu);
    }
    let scratch = Scratch::new(&format!("crash-{}-{}", scenario.name(), recheck.word()))?;
    let control = scratch.path().join("control");
    let round = Round {
        scenario,
        orders,
        control: Control::open(&control)?,
        usual: RefCell::default(),
        before: RefCell::default(),
    };
    let mut worlds = Worlds { scenario, recheck, orders, scratch, control, begun: 0 };
    let mut report = Report::default();
    let mut totals = Totals::new();

    let mut world = worlds.next()?;
    // The first round of a world makes things that the later ones find made; the second is the
    // ordinary one.
    let is_ready =
        if scenario.rounds_per_world() == 1 { Ok(()) } else { round.pass_through(&mut world) };
    let life = match is_ready.and_then(|()| round.observe(&mut world)) {
        Ok(life) => life,
        Err(failure) => {
            worlds.scratch.keep();
            return Err(Failure::broken(format!(
                "undisturbed: {failure}; kept: {}",
                world.folder().display()
            )));
        }
    };
    discard(world, &mut totals);
    totals.clear();
    report.instructions = life.len() as u64 - 1;
    report.telling = life.iter().filter(|moment| moment.telling).count() as u64;

    report.fate = Some(orders.fate);
    let lives = lives(&life, orders);
    report.calls = life.iter().filter_map(|moment| moment.call).filter(is_fallible).count() as u64;
    let points: Vec<u64> = lives.iter().map(|(point, _)| *point).collect();
    let end = life.last().map_or(0, |moment| moment.address);
    let mut world: Option<World> = None;
    for (&(point, how), route) in lives.iter().zip(routes(&life, &points)) {
        let mut here = match world.take() {
            Some(world) if world.round() < scenario.rounds_per_world() => world,
            old => {
                if let Some(old) = old {
                    round.end(old, point, &mut report, &mut totals);
                }
                worlds.next()?
            }
        };
        report.rounds += 1;
        match round.live(&mut here, route, &life[point as usize], end, how) {
            Ok(met) => {
                report.drifted += u64::from(!met);
                world = Some(here);
            }
            // The promise about stops has a time in it, and the machine one of its own: a survivor
            // that was late here is late at this point again, or it was not the victim that kept it
            // waiting. Both are counted and told.
            Err(Failure::Late(_))
                if orders.fate == Fate::Stopped
                    && is_in_time_again(
                        &round,
                        &mut worlds,
                        route,
                        &life[point as usize],
                        end,
                        how,
                    ) =>
            {
                *totals.entry("late once, in time when repeated").or_default() += 1;
                discard(here, &mut totals);
            }
            Err(failure) => {
                let situation = here.situation();
                let kept = here.folder().display();
                report
                    .failures
                    .push((point, format!("{failure}{how} [{situation}]; kept: {kept}")));
                report.slowest = report.slowest.max(here.slowest());
                // Its survivors are ended; the folder stays.
                drop(here);
                let enough = match orders.fate {
                    _ if scenario.must_fail() => 1,
                    // What is known costs time only.
                    Fate::Stopped if known::to_fail_stopped(scenario.name(), recheck).is_some() => {
                        1
                    }
                    Fate::Failing => MANY_FAILURES,
                    _ => ENOUGH_FAILURES,
                };
                if report.failures.len() >= enough {
                    break;
                }
            }
        }
    }
    if let Some(world) = world {
        round.end(world, points.last().copied().unwrap_or(0), &mut report, &mut totals);
    }
    if report.failures.iter().any(|_| !scenario.must_fail()) {
        worlds.scratch.keep();
    }
    report.seen = totals.into_iter().collect();
    report.took = began.elapsed();
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops(thoroughness: Thoroughness, part: &str) -> Orders {
        Orders {
            fate: Fate::Stopped,
            thoroughness,
            from: 0,
            to: u64::MAX,
            part: part.parse().expect("a part"),
            cpu: None,
            program: PathBuf::new(),
            victim: PathBuf::new(),
        }
    }

    #[test]
    fn all_telling_points_are_stopped_at_with_both_ends() {
        // Each second point tells, so that the one before each is the point before that.
        let life: Vec<Moment> = (0..1000)
            .map(|point| Moment { telling: point % 2 == 0, ..Moment::default() })
            .collect();
        let count = |thoroughness| lives(&life, &stops(thoroughness, "1/1")).len();
        assert_eq!(count(Thoroughness::AllTelling), 2000);
        assert!(count(Thoroughness::Telling) <= MOST_STOPS + 2, "{}", count(Thoroughness::Telling));
        assert!(count(Thoroughness::Brief) <= MOST_STOPS / 2 + 1, "{}", count(Thoroughness::Brief));
    }

    #[test]
    fn all_parts_are_the_whole() {
        let life = vec![Moment::default(); 50];
        let of = |part: &str| {
            lives(&life, &stops(Thoroughness::Every, part))
                .iter()
                .map(|life| format!("{life:?}"))
                .collect::<Vec<_>>()
        };
        let mut parts: Vec<String> = ["1/3", "2/3", "3/3"].into_iter().flat_map(of).collect();
        let mut whole = of("1/1");
        assert_eq!(whole.len(), 100);
        parts.sort();
        whole.sort();
        assert_eq!(parts, whole);
        for wrong in ["0/3", "4/3", "1/0", "3", "a/b"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }
}
