//! A domain that is followed: the victim makes a thing, names itself, gives its name up, and removes
//! the thing. Watchers are told of each step that is done; of one that the victim could not tell any
//! more, by the recheck, or with the next change.

use std::time::{Duration, Instant};

use crate::campaign::PATIENCE;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::state;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, nothing_left};
use crate::world::{Recheck, World, load};

/// See the file's head.
pub struct Watched;

const WATCHER: &str = "watcher";

/// The steps that the victim has done, by what is acknowledged: what its thing and its node are then.
/// `None`: there or not.
fn wanted(acknowledged: u64, ended: bool) -> (Option<bool>, Option<bool>) {
    match acknowledged {
        0 => (None, Some(false)),
        1 => (Some(true), None),
        2 => (Some(true), None),
        _ if ended => (Some(false), Some(false)),
        _ => (None, Some(false)),
    }
}

/// What both watchers were told last.
fn last(world: &mut World) -> Result<Vec<String>, Failure> {
    let logs = world.ask(WATCHER, "watches log")?;
    if logs.contains("failed:") {
        return Err(Failure::wrong(format!("a watcher was told {logs}")));
    }
    let last = |log: &str| log.rsplit(' ').next().unwrap_or_default().to_owned();
    Ok(logs.split('|').map(last).collect())
}

/// What is there, in a watcher's words: things of this round, without what other processes made.
fn contents(world: &mut World, who: &'static str) -> Result<String, Failure> {
    let names = world.ask(who, "domain names")?;
    let nodes = world.ask(who, "domain nodes")?;
    let node = if nodes == "0" { "" } else { "victim" };
    Ok(format!("{};{node}", names.replace(' ', ",")))
}

/// Waits until both watchers were told what is there; `false` when they are not within `patience`.
fn are_told(world: &mut World, patience: Duration) -> Result<bool, Failure> {
    let deadline = Instant::now() + patience;
    loop {
        let now = contents(world, "next")?;
        if last(world)?.iter().all(|last| *last == now) {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// The same, or a hang.
fn have_to_be_told(world: &mut World, why: &str) -> Result<(), Failure> {
    if are_told(world, load::stretched(PATIENCE))? {
        return Ok(());
    }
    let (there, told) = (contents(world, "next")?, last(world)?);
    Err(Failure::Hang(format!("{why}: there is {there}, the watchers were told {told:?}")))
}

impl Scenario for Watched {
    fn name(&self) -> &'static str {
        "domain-watched"
    }

    fn about(&self) -> &'static str {
        "make a thing, take a name, give it up, remove the thing; in a domain that is followed"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        for survivor in ["next", WATCHER, "sweeper"] {
            world.ask(survivor, "topic token -")?;
        }
        world.ask(WATCHER, "watches domain")?;
        have_to_be_told(world, "at first")
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // Its node is dead, which is told at once. It may have died before it could tell of a thing.
        if death.ended || world.recheck() == Recheck::On {
            have_to_be_told(world, "after the death")?;
        } else {
            let deadline = Instant::now() + load::stretched(PATIENCE);
            while last(world)?.iter().any(|last| last.ends_with("victim")) {
                if Instant::now() > deadline {
                    let told = last(world)?;
                    return Err(Failure::Hang(format!("a dead node is told as there: {told:?}")));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        let is_there = world.domain().join(&name).exists();
        world.saw(if is_there { "the thing is there" } else { "it is not there" });
        let (thing, _) = wanted(death.acknowledged, death.ended);
        if thing.is_some_and(|thing| thing != is_there) {
            let done = death.acknowledged;
            return Err(Failure::wrong(format!(
                "{done} steps are done, and it is there: {is_there}"
            )));
        }
        // The next change tells all.
        let other = world.fresh("other");
        world.ask("next", &format!("state set {other} 1"))?;
        have_to_be_told(world, "after another change")?;
        world.ask(WATCHER, &format!("watches end-domain {}", world.fresh("last")))?;
        let last = world.fresh("last");
        nothing_left(world, &[&name, &other, &last])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let (other, deadline) = (world.fresh("other"), Instant::now() + load::stretched(PATIENCE));
        // What is done has been told: no other change is needed.
        let (thing, node) = wanted(stop.acknowledged, stop.ended);
        let is_told = |told: &String| {
            thing.is_none_or(|thing| told.contains(&name) == thing)
                && node.is_none_or(|node| told.ends_with(";victim") == node)
        };
        world.stop();
        while !last(world)?.iter().all(is_told) {
            world.is_in_time("the watchers are to be told what is done")?;
            if Instant::now() > deadline {
                return Err(Failure::Hang("the watchers are not told what is done".to_owned()));
            }
        }
        // What the victim is at is told by the next change.
        world.passes("next", &format!("state set {other} 1"))?;
        world.stop();
        while !are_told(world, Duration::ZERO)? {
            world.is_in_time("the watchers are to be told what is there")?;
            if Instant::now() > deadline {
                return Err(Failure::Hang("the watchers are told nothing".to_owned()));
            }
        }
        let told = last(world)?;
        if !told.iter().all(is_told) {
            let done = stop.acknowledged;
            return Err(Failure::wrong(format!("{done} steps are done, and told was {told:?}")));
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        stage.perform(|| -> Result<(), String> {
            let thing = state::open(&domain, place.name)?;
            stage.acknowledge(1);
            let node = domain.node("victim").attribute("key", "value").register();
            let node = node.map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            drop(node);
            stage.acknowledge(1);
            drop(thing);
            domain.remove(place.name).map_err(|error| error.to_string())
        })
    }

    fn rounds_per_world(&self) -> u64 {
        20
    }
}
