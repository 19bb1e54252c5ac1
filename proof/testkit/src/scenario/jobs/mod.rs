//! The job queue: made, jobs put, taken, taken from the dead, acknowledged and given back.

mod create;
mod leave;
mod put;
mod take;

use outlive::jobs::JobQueue;

use super::{HOLDS_NOTHING, Place, Scenario, member};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        create::scenario(),
        Box::new(put::Put::ToSleeper),
        Box::new(put::Put::Waiting),
        Box::new(take::Take::Waiting),
        Box::new(take::Take::Dead),
        Box::new(take::Take::Asleep),
        Box::new(leave::Leave::Done),
        Box::new(leave::Leave::Release),
    ]
}

/// The victim's job queue of the round; its thread and its process have tokens already.
fn victims(place: &Place<'_>) -> Result<JobQueue<u64>, String> {
    let domain = place.open()?;
    domain.process_token().map_err(|error| error.to_string())?;
    let queue = member::jobs::open(&domain, place.name)?;
    queue.set_wait_strategy(outlive::WaitStrategy::Block);
    Ok(queue)
}

/// What the stopped victim holds.
fn held_by_victim(world: &mut World, name: &str) -> Result<&'static str, Failure> {
    if super::names_victim(world, &format!("jobs workers {name}"))? {
        return Ok("has a job");
    }
    Ok(match world.passes("witness", &format!("jobs being-put {name}"))?.as_str() {
        "0" => HOLDS_NOTHING,
        _ => "writes a job",
    })
}

/// Takes all jobs that are left, and returns how often each of these was taken: 0 when it is not
/// there.
fn drain<const N: usize>(
    world: &mut World,
    name: &str,
    numbers: [u64; N],
) -> Result<[u32; N], Failure> {
    let said = world.ask("next", &format!("jobs drain {name}"))?;
    let mut attempts = [0; N];
    for job in said.split(' ').filter(|job| !job.is_empty()) {
        let found = job.split_once(':').and_then(|(number, times)| {
            let at = numbers.iter().position(|wanted| Ok(*wanted) == number.parse())?;
            Some((at, times.parse::<u32>().ok()?))
        });
        match found {
            Some((at, times)) if attempts[at] == 0 => attempts[at] = times,
            _ => return Err(Failure::wrong(format!("`{job}` among what is left: `{said}`"))),
        }
    }
    Ok(attempts)
}

/// All jobs are done: as many can be put as there is room for, and taken, and nothing is left.
pub(super) fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
    for number in [1, 2] {
        world.ask("another", &format!("jobs put {name} {number}"))?;
    }
    let attempts = drain(world, name, [1, 2])?;
    if attempts != [1, 1] {
        return Err(Failure::wrong(format!("two new jobs were taken {attempts:?} times")));
    }
    world.ask("another", &format!("jobs join {name}"))?;
    super::nothing_left(world, &[name])
}
