//! The named mutex: locked, unlocked, waited for, handed over, taken from the dead, not
//! recoverable.

mod create;
mod lock;
mod mark_not_recoverable;
mod open;
mod order;
mod owner_death;
mod recover;
mod reset;
mod time_out;
mod unlock;
mod wait;

use outlive::sync::Mutex;

use super::member::mutex::Pair;
use super::{Death, HOLDS_NOTHING, Place, Scenario};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        create::scenario(),
        Box::new(open::Open),
        Box::new(lock::Lock),
        Box::new(unlock::Unlock),
        Box::new(wait::Wait::First),
        Box::new(wait::Wait::Between),
        Box::new(owner_death::OwnerDeath::First),
        Box::new(owner_death::OwnerDeath::Between),
        Box::new(recover::Recover),
        Box::new(mark_not_recoverable::MarkNotRecoverable),
        Box::new(reset::Reset),
        Box::new(time_out::TimeOut),
        Box::new(order::Order),
    ]
}

/// The victim's mutex of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<Mutex<Pair>, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    let mutex = Mutex::options([0, 0])
        .open_or_create(&domain, place.name)
        .map_err(|error| error.to_string())?;
    mutex.set_wait_strategy(outlive::WaitStrategy::Block);
    Ok(mutex)
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

/// After a victim that resets a lock which is not recoverable: the next process gets in, is told of
/// a death, or is refused until another process resets the lock.
fn is_refused_or_works(world: &mut World, death: &Death, name: &str) -> Result<(), Failure> {
    let answer = world.ask("next", &format!("mutex use {name}"))?;
    match (answer.as_str(), death.ended) {
        ("not-recoverable", false) => {
            world.saw("not recoverable");
            world.ask("another", &format!("mutex reset {name}"))?;
        }
        ("died", false) => world.saw("owner died"),
        ("clean", _) => world.saw("clean"),
        (other, ended) => return Err(Failure::wrong(format!("got `{other}`, ended: {ended}"))),
    }
    still_works(world, &[name])
}

/// Beside the stopped victim: a process that wants these locks gets them, save those that name the
/// victim.
fn pass(world: &mut World, names: &[&str]) -> Result<&'static str, Failure> {
    let held = super::held(world, "mutex holder", names)?;
    world.others_get_past(&held)?;
    for name in names.iter().filter(|name| !held.contains(name)) {
        let answer = world.passes("passer", &format!("mutex use {name}"))?;
        if !["clean", "died", "not-recoverable"].contains(&answer.as_str()) {
            return Err(Failure::wrong(format!("the passer got the lock `{answer}`")));
        }
    }
    Ok(if held.is_empty() { HOLDS_NOTHING } else { "holds the lock" })
}

/// Two more uses of each lock by different processes, all clean: nothing of the death is left.
fn still_works(world: &mut World, names: &[&str]) -> Result<(), Failure> {
    for name in names {
        for survivor in ["next", "another"] {
            let answer = world.ask(survivor, &format!("mutex use {name}"))?;
            if answer != "clean" {
                return Err(Failure::wrong(format!(
                    "{survivor} got the lock `{answer}` after it had been repaired"
                )));
            }
        }
    }
    super::nothing_left(world, names)
}
