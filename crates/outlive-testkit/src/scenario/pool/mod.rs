//! The public pool: objects taken (from the cache, from a list, by a look, from new memory), freed, handed over, claimed, and
//! the pool's upkeep; objects that several hold (shares.rs).
//!
//! Beside the victim a survivor holds three objects, filled, and one more is on offer; afterwards it takes, fills and frees
//! objects of the same size, what it held is as it was, and each object is counted where it belongs.

mod modes;
mod shares;
mod steps;

use super::Scenario;
use super::member::pool::Counted;
use crate::failure::Failure;
use crate::world::World;

/// Those of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let steps = steps::ALL.iter().map(|step| Box::new(*step) as Box<dyn Scenario>);
    let shares = shares::ALL.iter().map(|share| Box::new(*share) as Box<dyn Scenario>);
    let modes = modes::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    steps.chain(shares).chain(modes).collect()
}

/// Nobody has anything, and each object is counted. What was needed until now `gc` may keep; whoever needs memory gets it all the
/// same.
fn all_is_free(world: &mut World, name: &str) -> Result<(), Failure> {
    for order in ["gc", "use-all"] {
        world.ask("other", &format!("pool {order} {name}"))?;
        let counted = Counted::of(&world.ask("next", &format!("pool count {name}"))?).map_err(Failure::broken)?;
        if counted.free != counted.total {
            return Err(Failure::wrong(format!("all was freed, yet {counted:?} after {order}")));
        }
    }
    Ok(())
}
