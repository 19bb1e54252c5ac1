//! The named semaphore: made, acquired, waited for, taken from the dead, given back, handed over,
//! made larger.
//!
//! Two permits at first, room for three: one record is absent, which every look passes by.

mod acquire;
mod add;
mod create;
mod hand_over;
mod many;
mod release;
mod wait;

use outlive::sync::Semaphore;

use super::{HOLDS_NOTHING, Place, Scenario, member};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        create::scenario(),
        Box::new(acquire::Acquire::Free),
        Box::new(acquire::Acquire::Dead),
        Box::new(wait::Wait::Release),
        Box::new(wait::Wait::HolderDeath),
        Box::new(many::Many),
        Box::new(release::Release),
        Box::new(hand_over::HandOver),
        Box::new(add::AddPermit),
    ]
}

/// The victim's semaphore of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<Semaphore, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    let semaphore = member::semaphore::open(&domain, place.name)?;
    semaphore.set_wait_strategy(outlive::WaitStrategy::Block);
    Ok(semaphore)
}

/// Beside the stopped victim: unless a permit names it, all processes that want one get it.
fn pass(world: &mut World, name: &str) -> Result<&'static str, Failure> {
    if super::names_victim(world, &format!("semaphore holders {name}"))? {
        return Ok("holds a permit");
    }
    world.all_get_past()?;
    world.passes("passer", &format!("semaphore acquire {name}"))?;
    Ok(HOLDS_NOTHING)
}

/// Insists that orders given before end with permits, one after the other; the victim lives, or
/// not.
fn expect_got(world: &mut World, survivors: &[&'static str], alive: bool) -> Result<(), Failure> {
    for survivor in survivors {
        let answer = if alive { world.answer_by_now(survivor)? } else { world.answer(survivor)? };
        world.saw(if alive { "got while the victim lived" } else { "got after its death" });
        if answer != "got" {
            return Err(Failure::wrong(format!("{survivor}: `{answer}` instead of a permit")));
        }
    }
    Ok(())
}

/// No process holds a permit: different processes can take so many, and no more at once; nothing
/// else is left.
fn still_works(
    world: &mut World,
    name: &str,
    permits: usize,
    names: &[&str],
) -> Result<(), Failure> {
    for survivor in ["next", "another"] {
        let counted = world.ask(survivor, &format!("semaphore count {name}"))?;
        if counted != permits.to_string() {
            return Err(Failure::wrong(format!(
                "{survivor} could have {counted} permits of {permits}"
            )));
        }
    }
    let holders = ["next", "another", "next"];
    for survivor in &holders[..permits] {
        world.ask(survivor, &format!("semaphore hold {name}"))?;
    }
    for (order, expected) in [("try", "none"), ("release", ""), ("try", "got")] {
        let survivor = if order == "release" { "next" } else { "third" };
        let answer = world.ask(survivor, &format!("semaphore {order} {name}"))?;
        if answer != expected {
            return Err(Failure::wrong(format!(
                "with all permits held: {order} answered `{answer}`"
            )));
        }
    }
    for survivor in &holders[1..permits] {
        world.ask(survivor, &format!("semaphore release {name}"))?;
    }
    super::nothing_left(world, names)
}
