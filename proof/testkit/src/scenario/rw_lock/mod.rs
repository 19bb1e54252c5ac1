//! The named reader-writer lock: read, written, waited for on both sides, taken from the dead,
//! turned up and down.

mod convert;
mod owner_death;
mod recover;
mod time_out;
mod uncontended;
mod unlock;
mod wait;

use outlive::sync::RwLock;

use super::member::mutex::Pair;
use super::{HOLDS_NOTHING, Place, Scenario};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(uncontended::Uncontended::Read),
        Box::new(uncontended::Uncontended::Write),
        Box::new(uncontended::Uncontended::Upgradable),
        Box::new(wait::Wait::Read),
        Box::new(wait::Wait::Write),
        Box::new(owner_death::OwnerDeath::Read),
        Box::new(owner_death::OwnerDeath::Write),
        Box::new(unlock::Unlock::Read),
        Box::new(unlock::Unlock::Write),
        Box::new(convert::Convert::Downgrade),
        Box::new(convert::Convert::Upgrade),
        Box::new(convert::Convert::UpgradeSurely),
        Box::new(convert::Convert::DowngradeToUpgradable),
        Box::new(recover::Recover),
        Box::new(time_out::TimeOut),
    ]
}

/// The victim's lock of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<RwLock<Pair>, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    let lock = RwLock::options([0, 0])
        .open_or_create(&domain, place.name)
        .map_err(|error| error.to_string())?;
    lock.set_wait_strategy(outlive::WaitStrategy::Block);
    Ok(lock)
}

/// Counts how a survivor got the lock.
fn count(world: &mut World, answer: &str) -> Result<(), Failure> {
    world.saw(match answer {
        "died" => "owner died",
        "clean" => "clean",
        other => return Err(Failure::wrong(format!("the lock was got `{other}`"))),
    });
    Ok(())
}

/// The answer of a survivor that slept on the lock, counted.
fn count_answer(world: &mut World, survivor: &'static str) -> Result<bool, Failure> {
    let answer = world.answer(survivor)?;
    count(world, &answer)?;
    Ok(answer == "died")
}

/// Beside the stopped victim: a process that wants these locks gets in, save where the victim
/// writes or reads.
fn pass(world: &mut World, names: &[&str]) -> Result<&'static str, Failure> {
    let held = super::held(world, "rwlock holders", names)?;
    world.others_get_past(&held)?;
    for name in names.iter().filter(|name| !held.contains(name)) {
        for order in ["write", "read"] {
            let answer = world.passes("passer", &format!("rwlock {order} {name}"))?;
            if !["clean", "died"].contains(&answer.as_str()) {
                return Err(Failure::wrong(format!("the passer got in `{answer}`")));
            }
        }
    }
    Ok(if held.is_empty() { HOLDS_NOTHING } else { "is inside" })
}

/// Both ways in by different processes, all clean: nothing of the death is left.
fn still_works(world: &mut World, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        for (survivor, order) in
            [("next", "read"), ("another", "write"), ("next", "write"), ("another", "read")]
        {
            let answer = world.ask(survivor, &format!("rwlock {order} {name}"))?;
            if answer != "clean" {
                return Err(Failure::wrong(format!(
                    "{survivor} got the lock `{answer}` after it had been repaired"
                )));
            }
        }
    }
    super::nothing_left(world, names)
}
