//! The condition variable: waited at, notified, beside sleepers and watchers.

mod notify;
mod wait;
mod wait_or_end;

use super::member::condvar::Shelf;
use super::{Place, Scenario};
use crate::failure::Failure;
use crate::world::World;

/// Those of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        Box::new(wait::Wait::First),
        Box::new(wait::Wait::Between),
        Box::new(wait::Wait::Contended),
        Box::new(notify::Notify::One),
        Box::new(notify::Notify::All),
        Box::new(wait_or_end::Watching),
        Box::new(wait_or_end::Watched),
    ]
}

/// The victim's shelf of the round; its thread has a token already.
fn victims(place: &Place<'_>) -> Result<Shelf, String> {
    let domain = place.open()?;
    domain.token().map_err(|error| error.to_string())?;
    Shelf::open(&domain, place.name)
}

/// Two more uses by different processes: nothing of the death is left.
fn still_works(world: &mut World) -> Result<(), Failure> {
    let name = world.fresh("thing");
    for (giver, taker) in [("next", "another"), ("another", "next")] {
        world.ask(giver, &format!("condvar bring {name} 1"))?;
        world.ask(taker, &format!("condvar take {name}"))?;
    }
    super::nothing_left(world, &[&name])
}
