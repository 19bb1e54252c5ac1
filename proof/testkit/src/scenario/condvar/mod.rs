//! The condition variable: waited at, notified, beside sleepers and watchers.

mod notify;
mod wait;
mod wait_or_end;

use super::member::condvar::Shelf;
use super::realtime::may_raise;
use super::{HOLDS_NOTHING, Place, Scenario};
use crate::failure::Failure;
use crate::world::World;
use wait::{Under, Wait, When};

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let kinds = [Under::Mutex, Under::Pi, Under::Ceiling, Under::Reentrant];
    let kinds = kinds.into_iter().filter(|under| *under != Under::Ceiling || may_raise());
    let waits = kinds.flat_map(|under| {
        let whens = [When::First, When::Between, When::Contended];
        // A waiter of a mutex with priority inheritance wakes the next one before it locks. That one
        // may be quicker: the others bring an item for one of the two alone.
        // Under a reentrant mutex the sleeper after the victim is quicker each time with two
        // notifications: two waits end, as they must, and not the victim's.
        let fits = move |when: &When| match under {
            Under::Pi => *when == When::Contended,
            Under::Reentrant => *when != When::Between,
            Under::Mutex | Under::Ceiling => true,
        };
        let waits = whens.into_iter().filter(fits);
        waits.map(move |when| -> Box<dyn Scenario> { Box::new(Wait { when, under }) })
    });
    let others: [Box<dyn Scenario>; 4] = [
        Box::new(notify::Notify::One),
        Box::new(notify::Notify::All),
        Box::new(wait_or_end::Watching),
        Box::new(wait_or_end::Watched),
    ];
    waits.chain(others).collect()
}

/// The victim's shelf of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<Shelf, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    Shelf::open(&domain, place.name)
}

/// Beside the stopped victim, which was to notify: a waiter takes what was brought once another
/// process has notified.
fn notified_by_another(world: &mut World) -> Result<&'static str, Failure> {
    let stem = "thing";
    let name = world.fresh(stem);
    if has_mutex(world, stem)? {
        return Ok("holds the lock");
    }
    if world.passes("witness", &format!("condvar items {name}"))? != "0" {
        world.passes("next", &format!("condvar notify-all {name}"))?;
        world.passes("next", &format!("condvar settle {name} 0"))?;
    }
    Ok(HOLDS_NOTHING)
}

/// Returns whether the stopped victim has the mutex.
fn has_mutex(world: &mut World, stem: &str) -> Result<bool, Failure> {
    let name = world.fresh(stem);
    super::names_victim(world, &format!("condvar holder {name}"))
}

/// Two more uses by different processes: nothing of the death is left.
fn still_works(world: &mut World, stem: &str) -> Result<(), Failure> {
    let name = world.fresh(stem);
    for (giver, taker) in [("next", "another"), ("another", "next")] {
        world.ask(giver, &format!("condvar bring {name} 1"))?;
        world.ask(taker, &format!("condvar take {name}"))?;
    }
    super::nothing_left(world, &[&name])
}
