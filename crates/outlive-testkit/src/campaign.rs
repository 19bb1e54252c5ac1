//! A campaign: one scenario in one mode, one life observed, then a death at each chosen point, checked each time.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::engine::control::Control;
use crate::engine::plan::{Moment, Route, Thoroughness, kill_points, routes};
use crate::engine::trace;
use crate::engine::victim::{Goal, Stand, Victim};
use crate::engine::watch::Watch;
use crate::failure::Failure;
use crate::scenario::{Death, Scenario};
use crate::world::scratch::Scratch;
use crate::world::{Recheck, World, affinity, text};

/// Nobody may be blocked for longer than this after a death.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// For things broken on purpose, whose hang is expected.
const PATIENCE_WITH_TOYS: Duration = Duration::from_millis(500);

/// How many instructions an operation may have before the machine calls it endless.
const LONGEST_LIFE: usize = 400_000;

/// After how many failures a campaign gives up.
const ENOUGH_FAILURES: usize = 3;

/// What a campaign is to do.
#[derive(Clone, Debug)]
pub struct Orders {
    /// Which of the points.
    pub thoroughness: Thoroughness,
    /// The first point to kill at.
    pub from: u64,
    /// The last one.
    pub to: u64,
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
    /// Deaths carried out.
    pub kill_points: u64,
    /// Deaths that did not come to their point: the victim's life took another turn than the observed one.
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
        let Report { kill_points, instructions, telling, .. } = self;
        write!(to, "{kill_points} kill points of {instructions} instructions, {telling} telling")?;
        for (what, times) in &self.seen {
            write!(to, "; {what} {times}")?;
        }
        if self.drifted > 0 {
            write!(to, "; elsewhere than planned {}", self.drifted)?;
        }
        write!(to, "; {:.1} s", self.took.as_secs_f64())
    }
}

struct Round<'a> {
    scenario: &'a dyn Scenario,
    orders: &'a Orders,
    control: Control,
}

impl Round<'_> {
    /// A victim at its marker, in prepared surroundings.
    fn victim(&self, world: &mut World) -> Result<Victim, Failure> {
        world.next_round();
        self.scenario.prepare(world)?;
        let (domain, control) = (world.domain(), world.control().to_owned());
        let name = world.fresh(self.scenario.stem());
        let cpu = self.orders.cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string());
        let recheck = world.recheck().word();
        let arguments = [self.scenario.name(), "victim", text(&domain)?, recheck, &name, text(&control)?, &cpu];
        let log = world.folder().join("victim.log");
        let victim = Victim::start(&self.orders.victim, &arguments, &self.control, &log)
            .map_err(|error| Failure::broken(format!("the victim: {error}")))?;
        world.introduce(victim.pid() as u32, victim.tid() as u32);
        self.scenario.gather(world)?;
        Ok(victim)
    }

    /// The victim sleeps: help, once in its life.
    fn help(&self, world: &mut World, helped: &mut bool) -> Result<(), Failure> {
        if std::mem::replace(helped, true) { Ok(()) } else { self.scenario.help(world) }
    }

    /// After [`Stand::Asleep`] in a step: help, and wait until the sleeper is back.
    fn wake(&self, world: &mut World, victim: &mut Victim, helped: &mut bool) -> Result<Stand, Failure> {
        self.help(world, helped)?;
        victim.awaken(&self.control, Instant::now() + PATIENCE).map_err(not_woken)
    }

    /// One life from beginning to end, observed after each step.
    fn observe(&self, world: &mut World) -> Result<Vec<Moment>, Failure> {
        let mut victim = self.victim(world)?;
        let mut watch = Watch::new(&world.domain(), victim.tid())?;
        let mut life = vec![Moment { address: victim.address(), telling: true, ..Moment::default() }];
        let mut helped = false;
        loop {
            let mut stand = victim.step(&self.control)?;
            if stand == Stand::Asleep {
                life.push(Moment { address: victim.address(), telling: true, asleep: true, ..Moment::default() });
                stand = self.wake(world, &mut victim, &mut helped)?;
            }
            if stand == Stand::Gone {
                life.push(Moment { telling: true, ..Moment::default() });
                break;
            }
            let changed = watch.changed(victim.tid(), victim.entered_kernel())?;
            life.push(Moment {
                address: victim.address(),
                telling: changed || victim.entered_kernel(),
                repeating: victim.repeating(),
                asleep: false,
            });
            if stand == Stand::Ended {
                break;
            }
            if life.len() > LONGEST_LIFE {
                return Err(Failure::broken("the operation does not end under single steps"));
            }
        }
        self.finish(world, &mut victim, helped, true)?;
        Ok(life)
    }

    /// Kills the victim where it stands and checks the survivors.
    fn finish(&self, world: &mut World, victim: &mut Victim, helped: bool, ended: bool) -> Result<(), Failure> {
        if ended {
            self.scenario.check_alive(world)?;
        }
        victim.kill()?;
        world.death();
        let mut notes = [0; 8];
        for (place, note) in notes.iter_mut().enumerate() {
            *note = self.control.note(place);
        }
        let death = Death { ended, helped, acknowledged: self.control.acknowledged(), notes };
        self.scenario.check(world, &death)
    }

    /// A life that ends at a point of the observed one. Says whether it came there; otherwise the operation had ended
    /// first, or the victim stood elsewhere when it was killed.
    fn kill_at(&self, world: &mut World, route: Route, expected: &Moment, end: u64) -> Result<bool, Failure> {
        let mut victim = self.victim(world)?;
        let mut helped = false;
        let mut stand = Stand::Within;
        if route.arrivals > 0 {
            let mut goal = Goal { address: route.address, arrivals: route.arrivals, end };
            stand = victim.run(&self.control, &mut goal, None)?;
            while stand == Stand::Asleep {
                self.help(world, &mut helped)?;
                stand = victim.run(&self.control, &mut goal, Some(Instant::now() + PATIENCE)).map_err(not_woken)?;
            }
        }
        for _ in 0..route.steps {
            stand = match stand {
                Stand::Ended | Stand::Gone => break,
                Stand::Asleep => self.wake(world, &mut victim, &mut helped)?,
                Stand::Within => victim.step(&self.control)?,
            };
        }
        let met = expected.address == victim.address() || (expected.address == 0 && stand == Stand::Gone);
        let ended = matches!(stand, Stand::Ended | Stand::Gone);
        self.finish(world, &mut victim, helped, ended)?;
        Ok(met)
    }
}

fn not_woken(error: std::io::Error) -> Failure {
    Failure::Hang(format!("the victim, alive and helped: {error}"))
}

/// The surroundings for the next rounds, in a folder of their own.
struct Worlds<'a> {
    scenario: &'a dyn Scenario,
    recheck: Recheck,
    orders: &'a Orders,
    scratch: Scratch,
    begun: u64,
}

impl Worlds<'_> {
    fn next(&mut self) -> Result<World, Failure> {
        self.begun += 1;
        let folder = self.scratch.path().join(format!("world-{}", self.begun));
        let patience = if self.scenario.must_fail() { PATIENCE_WITH_TOYS } else { PATIENCE };
        World::new(folder, &self.orders.program, self.scenario.name(), self.recheck, patience)
    }
}

type Totals = BTreeMap<&'static str, u64>;

impl Round<'_> {
    /// A world's last check, then its end.
    fn end(&self, mut world: World, point: u64, report: &mut Report, totals: &mut Totals) {
        match self.scenario.check_world(&mut world) {
            Ok(()) => discard(world, totals),
            Err(failure) => {
                let folder = world.folder().display().to_string();
                report.failures.push((point, format!("at one of {} deaths: {failure}; kept: {folder}", world.round())));
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
    let control_file = scratch.path().join("control");
    let mut worlds = Worlds { scenario, recheck, orders, scratch, begun: 0 };
    let mut report = Report::default();
    let mut totals = Totals::new();

    let mut world = worlds.next()?;
    world.meet_at(&control_file);
    let round = Round { scenario, orders, control: Control::open(&control_file)? };
    // The first round of a world makes things that the later ones find made; the second is the ordinary one.
    let life = match round
        .observe(&mut world)
        .and_then(|first| if scenario.rounds_per_world() > 1 { round.observe(&mut world) } else { Ok(first) })
    {
        Ok(life) => life,
        Err(failure) => {
            worlds.scratch.keep();
            return Err(Failure::broken(format!("undisturbed: {failure}; kept: {}", world.folder().display())));
        }
    };
    discard(world, &mut totals);
    totals.clear();
    report.instructions = life.len() as u64 - 1;
    report.telling = life.iter().filter(|moment| moment.telling).count() as u64;

    let mut points: Vec<u64> = kill_points(&life, orders.thoroughness);
    points.retain(|point| (orders.from..=orders.to).contains(point));
    let end = life.last().map_or(0, |moment| moment.address);
    let mut world: Option<World> = None;
    for (&point, route) in points.iter().zip(routes(&life, &points)) {
        let mut here = match world.take() {
            Some(world) if world.round() < scenario.rounds_per_world() => world,
            old => {
                if let Some(old) = old {
                    round.end(old, point, &mut report, &mut totals);
                }
                let mut new = worlds.next()?;
                new.meet_at(&control_file);
                new
            }
        };
        report.kill_points += 1;
        match round.kill_at(&mut here, route, &life[point as usize], end) {
            Ok(met) => {
                report.drifted += u64::from(!met);
                world = Some(here);
            }
            Err(failure) => {
                let situation = here.situation();
                let kept = here.folder().display();
                report.failures.push((point, format!("{failure} [{situation}]; kept: {kept}")));
                // Its survivors are ended; the folder stays.
                drop(here);
                if report.failures.len() >= if scenario.must_fail() { 1 } else { ENOUGH_FAILURES } {
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
