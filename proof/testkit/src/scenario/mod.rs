//! What happens to the victim, which processes survive, and what must hold afterwards: one scenario
//! a file.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::survivor::Obeys;
use crate::world::{Recheck, World};

mod barrier;
mod condvar;
mod create;
mod domain;
mod event;
mod jobs;
pub mod known;
mod member;
mod mutex;
mod notifier;
mod once;
mod pool;
mod prefault;
mod pthread;
mod queue;
mod realtime;
mod record;
mod rpc;
mod rw_lock;
mod semaphore;
mod stand_by;
mod state;
mod token;
mod told;
mod topic;
mod toy;

/// Where a victim or survivor works.
pub struct Place<'a> {
    /// The domain's folder; it need not exist yet.
    pub domain: &'a Path,
    /// How the domain is to be opened.
    pub recheck: Recheck,
    /// The round's fresh name, for a victim; the survivor's own name, for a survivor.
    pub name: &'a str,
}

impl Place<'_> {
    /// Opens the domain.
    ///
    /// # Errors
    /// What opening reports, as text.
    pub fn open(&self) -> Result<outlive::Domain, String> {
        self.recheck.open(self.domain).map_err(|error| error.to_string())
    }
}

/// How a victim died.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    /// Whether the operation had returned.
    pub ended: bool,
    /// Whether it had slept and [`Scenario::help`] had been given.
    pub helped: bool,
    /// Things acknowledged to the victim.
    pub acknowledged: u64,
    /// The numbers it left for the check.
    pub notes: [u64; 8],
}

/// How a victim stands still.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Whether the operation had returned.
    pub ended: bool,
    /// Whether it had slept and [`Scenario::help`] was given. Set by [`Scenario::stopped`] when it
    /// gives it.
    pub helped: bool,
    /// Things acknowledged to the victim.
    pub acknowledged: u64,
    /// Whether it is in a system call in which it sleeps.
    pub asleep: bool,
}

/// What [`World::first_time`] notes of a victim that was passed over and let on.
pub const LET_ON: &str = "let on";

/// What [`Scenario::stopped`] answers where survivors got past everything.
pub const HOLDS_NOTHING: &str = "holds nothing";

/// An operation, killed at each of its instructions. One implementation has both sides: the test's
/// ([`Scenario::prepare`], [`Scenario::help`], [`Scenario::check`]) and the victim's
/// ([`Scenario::perform`]), which runs in a process of its own.
pub trait Scenario: Send + Sync {
    /// Its name, as in reports and arguments.
    fn name(&self) -> &'static str;

    /// Names the operation and the processes beside it, in one line.
    fn about(&self) -> &'static str;

    /// What the victim uses, and what survivors wait on, before the victim starts. The names of the
    /// round come from [`World::fresh`] with [`Scenario::stem`].
    ///
    /// # Errors
    /// When it cannot be prepared.
    fn prepare(&self, world: &mut World) -> Result<(), Failure>;

    /// The victim is about to begin its operation: brings survivors into positions that need the
    /// victim's set-up, as asleep on a lock that it holds.
    ///
    /// # Errors
    /// When a survivor does not come into its position.
    fn gather(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    /// The victim sleeps in its operation and is to be let on.
    ///
    /// # Errors
    /// When help fails; by default there is none, so that a sleeping victim is a failure.
    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        Err(Failure::Hang("the victim sleeps and nobody is there to wake it".to_owned()))
    }

    /// The operation has returned and the victim's process still lives: what must hold already.
    ///
    /// # Errors
    /// What does not hold.
    fn check_alive(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    /// The victim is dead: what must hold now.
    ///
    /// # Errors
    /// What does not hold.
    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure>;

    /// The victim stands still, for as long as this takes: survivors must get past everything that
    /// it does not hold, by [`World::gets_past`] and [`World::passes`]. What it holds is asked of
    /// the shared state (which lock, permit or slot names it), never of a table of instructions;
    /// answers what that is, for the report.
    ///
    /// # Errors
    /// The process that the victim kept waiting.
    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure>;

    /// The victim sleeps though it was helped, and was not stopped: returns whether another process
    /// has rightly taken what it was to have, so that [`Scenario::let_on`] is in order.
    ///
    /// # Errors
    /// What asking the survivors reports.
    fn was_passed_over(&self, _world: &mut World) -> Result<bool, Failure> {
        Ok(false)
    }

    /// The victim was stopped, and goes on, and sleeps: another process has taken meanwhile what it
    /// was to have. Provides one more of that.
    ///
    /// # Errors
    /// When no survivor can provide it.
    fn let_on(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    /// As [`Scenario::check`], of a victim that was stopped: then it went on to its end, or was
    /// killed at that point.
    ///
    /// # Errors
    /// What does not hold.
    fn check_after_stop(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        self.check(world, death)
    }

    /// The world ends: what is too costly to look at after each death, and shows as well after
    /// some. A failure counts against the last point, and is of one of those since the world began.
    ///
    /// # Errors
    /// What does not hold.
    fn check_world(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    /// In the victim: set-up, [`Stage::begin`], the operation, [`Stage::end`].
    ///
    /// # Errors
    /// A text that says what went wrong; it fails the round.
    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String>;

    /// In a survivor: what carries out its orders. By default a member of the domain.
    ///
    /// # Errors
    /// A text that says what went wrong.
    fn member(&self, place: &Place<'_>) -> Result<Box<dyn Obeys>, String> {
        Ok(Box::new(member::Member::new(place)))
    }

    /// What round names begin with.
    fn stem(&self) -> &'static str {
        "thing"
    }

    /// How many mappings of a file the operation makes for a thing that was there before it, and that
    /// stay with that thing also when the operation fails later, each with its descriptor: a topic's
    /// second mapping, made for its first publisher.
    fn lasting_mappings(&self) -> usize {
        0
    }

    /// How many deaths a world sees before a new one begins.
    fn rounds_per_world(&self) -> u64 {
        40
    }

    /// True for a thing that is broken on purpose: the machine must find it out.
    fn must_fail(&self) -> bool {
        false
    }

    /// Returns whether any process in it sleeps until something happens.
    fn has_sleepers(&self) -> bool {
        true
    }

    /// Returns whether it concerns outlive, which is then tested with the coarse recheck off and
    /// on.
    fn uses_recheck(&self) -> bool {
        true
    }
}

/// In a victim's set-up, where its operation may start a thread with such a stack: what the C
/// library makes for a first thread, and keeps, is no belonging of the operation's. That is the
/// stack, also when the thread could not be started, and memory to allocate.
///
/// # Errors
/// Why no thread can be started; or it does not end.
pub fn has_had_a_thread(stack: usize) -> Result<(), String> {
    let threads = || std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let before = threads();
    let thread = std::thread::Builder::new().stack_size(stack).spawn(|| drop(Box::new(0)));
    thread.map_err(|error| error.to_string())?.join().map_err(|_| "the thread panicked")?;
    // Joined, it may still be among the process's threads for a moment.
    let deadline = Instant::now() + Duration::from_secs(60);
    while threads() > before {
        if Instant::now() > deadline {
            return Err("the thread does not end".to_owned());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Of these things, those that name the stopped victim, as another process sees it that is given
/// this order for each.
fn held<'a>(world: &mut World, order: &str, names: &[&'a str]) -> Result<Vec<&'a str>, Failure> {
    let mut held = Vec::new();
    for &name in names {
        if names_victim(world, &format!("{order} {name}"))? {
            held.push(name);
        }
    }
    Ok(held)
}

/// Returns whether the answer to that order names the victim's process.
fn names_victim(world: &mut World, order: &str) -> Result<bool, Failure> {
    let victim = world.victim_pid().to_string();
    Ok(world.passes("witness", order)?.split(' ').any(|word| word == victim))
}

/// Returns whether the answer to that order names that survivor's process.
fn names_survivor(world: &mut World, survivor: &'static str, order: &str) -> Result<bool, Failure> {
    let pid = world.survivor(survivor)?.pid().to_string();
    Ok(world.passes("witness", order)?.split(' ').any(|word| word == pid))
}

/// Beside the stopped victim: the survivor's answer to that order is this one.
fn passes_with(
    world: &mut World,
    survivor: &'static str,
    order: &str,
    wanted: &str,
) -> Result<(), Failure> {
    match world.passes(survivor, order)? {
        answer if answer == wanted => Ok(()),
        answer => Err(Failure::wrong(format!(
            "{survivor} is answered `{answer}` to `{order}`, not `{wanted}`"
        ))),
    }
}

/// The help that the stopped victim will need when it sleeps, if it has not had it.
fn help_beside(scenario: &dyn Scenario, world: &mut World, stop: &mut Stop) -> Result<(), Failure> {
    if !std::mem::replace(&mut stop.helped, true) {
        scenario.help(world)?;
        world.stop();
    }
    Ok(())
}

/// A sweep of everything, as victims do it: what could not be looked at is an error.
fn sweep_all(domain: &outlive::Domain) -> Result<(), String> {
    let report = domain.sweep(false).map_err(|error| error.to_string())?;
    if report.failed.is_empty() { Ok(()) } else { Err(format!("{:?}", report.failed)) }
}

/// A victim that swept while a system call failed has left what it could not look at. The next
/// sweep finds all of that.
fn sweep_after_a_fault(world: &mut World) -> Result<(), Failure> {
    if world.has_fault() {
        world.ask("sweeper", "domain sweep")?;
    }
    Ok(())
}

/// The end of a round: the coarse recheck had to rescue no process, one sweep is enough, the things
/// under test can be removed, and nothing is left in the domain.
fn nothing_left(world: &mut World, names: &[&str]) -> Result<(), Failure> {
    let rescues = world.ask("sweeper", "domain rescues")?;
    if rescues != "0" && !world.allows_rescues(&rescues) {
        return Err(Failure::wrong(format!("the coarse recheck rescued {rescues} sleepers")));
    }
    world.ask("sweeper", "domain sweep")?;
    let second = world.ask("sweeper", "domain sweep")?;
    if second != "clean" {
        return Err(Failure::wrong(format!("a second sweep still finds something: {second}")));
    }
    for name in names {
        if world.domain().join(name).exists() {
            world.ask("sweeper", &format!("domain remove {name}"))?;
        }
    }
    let names = world.ask("sweeper", "domain names")?;
    if !names.is_empty() {
        return Err(Failure::wrong(format!("left in the domain: {names}")));
    }
    let internal = std::fs::read_dir(world.domain())?
        .flatten()
        .filter(|entry| entry.file_name() != ".tokens")
        .count();
    if internal != 0 {
        return Err(Failure::wrong(format!("{internal} files left in the domain's folder")));
    }
    Ok(())
}

/// All scenarios, in the order of reports.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let mut all: Vec<Box<dyn Scenario>> = vec![
        Box::new(toy::OwnerlessLock),
        Box::new(toy::LostWake),
        Box::new(pthread::RobustUnlock),
        Box::new(pthread::RobustHandOver),
    ];
    all.extend(domain::all());
    all.extend(token::all());
    all.extend(mutex::all());
    all.extend(realtime::all());
    all.extend(rw_lock::all());
    all.extend(condvar::all());
    all.extend(event::all());
    all.extend(once::all());
    all.extend(semaphore::all());
    all.extend(barrier::all());
    all.extend(pool::all());
    all.extend(queue::all());
    all.extend(jobs::all());
    all.extend(state::all());
    all.extend(stand_by::all());
    all.extend(notifier::all());
    all.extend(rpc::all());
    all.extend(topic::all());
    all.extend(prefault::all());
    all.extend(record::all());
    all
}

/// The scenario of that name.
#[must_use]
pub fn find(name: &str) -> Option<Box<dyn Scenario>> {
    all().into_iter().find(|scenario| scenario.name() == name)
}
