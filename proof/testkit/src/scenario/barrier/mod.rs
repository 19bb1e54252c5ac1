//! The named barrier of three: made, joined, arrived at, left, aborted, reset, repaired.

mod abort;
mod arrive;
mod create;
mod join;
mod leave;
mod repair;
mod reset;

use outlive::sync::Barrier;

use super::{HOLDS_NOTHING, Place, Scenario, member};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        create::scenario(),
        Box::new(join::Join { counted: false }),
        Box::new(join::Join { counted: true }),
        Box::new(arrive::Arrive::Last),
        Box::new(arrive::Arrive::LastCounted),
        Box::new(arrive::Arrive::First),
        Box::new(leave::Leave),
        Box::new(abort::Abort::Bystander),
        Box::new(abort::Abort::OutOfTime),
        Box::new(reset::Reset),
        Box::new(repair::Repair),
    ]
}

/// The victim's barrier of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<Barrier, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    let barrier = member::barrier::open(&domain, place.name)?;
    barrier.set_wait_strategy(outlive::WaitStrategy::Block);
    Ok(barrier)
}

/// Returns whether the others have to wait for the stopped victim: it has a seat, and they have
/// arrived and it has not.
fn is_awaited(world: &mut World, name: &str) -> Result<bool, Failure> {
    let participants = world.passes("witness", &format!("barrier participants {name}"))?;
    let (victim, mine) =
        (world.victim_pid().to_string(), format!("arrived:{}", world.victim_pid()));
    let has = |wanted: &str| participants.split(' ').any(|word| word == wanted);
    Ok(has(&victim) && !has(&mine) && participants.contains("arrived"))
}

/// Beside the stopped victim: all waiters pass, unless it is the victim that they wait for.
fn pass(world: &mut World, name: &str) -> Result<&'static str, Failure> {
    if is_awaited(world, name)? {
        return Ok("has a seat and is awaited");
    }
    world.all_get_past()?;
    Ok(HOLDS_NOTHING)
}

/// Insists on a seat for each.
fn seat(world: &mut World, name: &str, survivors: &[&'static str]) -> Result<(), Failure> {
    for survivor in survivors {
        let answer = world.ask(survivor, &format!("barrier join {name}"))?;
        if answer != "joined" {
            return Err(Failure::wrong(format!("{survivor}: `{answer}` instead of a seat")));
        }
    }
    Ok(())
}

/// The survivor waits, asleep.
fn put_to_sleep(world: &mut World, name: &str, survivor: &'static str) -> Result<(), Failure> {
    world.survivor(survivor)?.tell_and_see_asleep(&format!("barrier wait {name}"))
}

/// Returns whether all of them passed, or none: anything between is wrong, and so are two serial
/// ones.
fn all_passed(answers: &[String]) -> Result<bool, Failure> {
    let count = |word| answers.iter().filter(|answer| *answer == word).count();
    let (serial, passed, broken) = (count("serial"), count("passed"), count("broken"));
    if serial <= 1 && serial + passed == answers.len() {
        return Ok(true);
    }
    if broken == answers.len() {
        return Ok(false);
    }
    Err(Failure::wrong(format!("those of one phase were told {answers:?}")))
}

/// Notes what became of the phase.
fn saw(world: &mut World, passed: bool) {
    world.saw(if passed { "passed" } else { "told that it is broken" });
}

/// All of these give their seats up; then three others repair what is broken, go through two
/// phases, and nothing is left.
fn still_works(world: &mut World, name: &str, seated: &[&'static str]) -> Result<(), Failure> {
    for survivor in seated {
        world.ask(survivor, &format!("barrier leave {name}"))?;
    }
    world.ask("next", &format!("barrier repair {name}"))?;
    seat(world, name, &["next"])?;
    // A process that died as a participant and has not been missed yet is missed now.
    let mut answer = world.ask("next", &format!("barrier arrive {name}"))?;
    if answer == "broken" {
        world.ask("another", &format!("barrier repair {name}"))?;
        answer = world.ask("next", &format!("barrier arrive {name}"))?;
    }
    // All other seats are given up: it is alone. Or it is the first at a barrier whose seats no
    // process ever took.
    if !["early", "serial"].contains(&answer.as_str()) {
        return Err(Failure::wrong(format!("repaired, and the first to come is told `{answer}`")));
    }
    seat(world, name, &["another", "third"])?;
    for _ in 0..2 {
        three_pass(world, name, ["next", "another", "third"])?;
    }
    for survivor in ["next", "another", "third"] {
        world.ask(survivor, &format!("barrier leave {name}"))?;
    }
    super::nothing_left(world, &[name])
}

/// A whole phase, with two asleep; exactly one of them is serial.
fn three_pass(world: &mut World, name: &str, three: [&'static str; 3]) -> Result<(), Failure> {
    put_to_sleep(world, name, three[0])?;
    put_to_sleep(world, name, three[1])?;
    let mut answers = vec![world.ask(three[2], &format!("barrier wait {name}"))?];
    for survivor in &three[..2] {
        answers.push(world.answer_by_now(survivor)?);
    }
    if !all_passed(&answers)? || !answers.iter().any(|answer| answer == "serial") {
        return Err(Failure::wrong(format!("three at a whole barrier were told {answers:?}")));
    }
    Ok(())
}
