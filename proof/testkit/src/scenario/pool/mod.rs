//! The public pool: objects taken (from the cache, by a hint, by a scan, from new memory), freed,
//! handed over, claimed, and the pool's gc; objects that several hold (shares.rs).
//!
//! Beside the victim a survivor holds three objects, filled, and one more is on offer; afterwards
//! it takes, fills and frees objects of the same size, what it held is as it was, and each object
//! is counted where it belongs.

mod modes;
mod shares;
mod steps;

use std::ops::RangeInclusive;

use super::member::pool::Counted;
use super::{HOLDS_NOTHING, Scenario};
use crate::failure::Failure;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let steps = steps::ALL.iter().map(|step| Box::new(*step) as Box<dyn Scenario>);
    let shares = shares::ALL.iter().map(|share| Box::new(*share) as Box<dyn Scenario>);
    let modes = modes::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    steps.chain(shares).chain(modes).collect()
}

/// Survivors take, fill, compare and free objects, beside all that the dead left, before any
/// process sweeps.
fn use_beside_the_dead(world: &mut World, name: &str) -> Result<(), Failure> {
    for survivor in ["other", "next"] {
        let whole = world.ask(survivor, &format!("pool use {name} 20"))?;
        if whole != "whole" {
            return Err(Failure::wrong(format!("{survivor}'s objects: {whole}")));
        }
    }
    Ok(())
}

/// Beside the stopped victim: the same within what is promised, and the pool is looked after.
fn use_beside_the_stopped(world: &mut World, name: &str) -> Result<&'static str, Failure> {
    for survivor in ["other", "next"] {
        let whole = world.passes(survivor, &format!("pool use {name} 20"))?;
        if whole != "whole" {
            return Err(Failure::wrong(format!("{survivor}'s objects: {whole}")));
        }
    }
    let offset = world.passes("other", &format!("pool offer-one {name}"))?;
    super::passes_with(world, "next", &format!("pool claim-one {name} {offset}"), "whole")?;
    world.passes("next", &format!("pool count {name}"))?;
    world.passes("next", &format!("pool flush {name}"))?;
    world.passes("next", &format!("pool gc {name}"))?;
    Ok(HOLDS_NOTHING)
}

/// After a sweep, and with empty caches, there are what a survivor holds, so many on offer, and
/// free ones.
fn three_are_held(
    world: &mut World,
    name: &str,
    offered: RangeInclusive<u64>,
) -> Result<Counted, Failure> {
    world.ask("sweeper", "domain sweep")?;
    for survivor in ["other", "next"] {
        world.ask(survivor, &format!("pool flush {name}"))?;
    }
    let counted = Counted::of(&world.ask("other", &format!("pool count {name}"))?)
        .map_err(Failure::broken)?;
    let right = counted.used == 3
        && counted.cached == 0
        && counted.moving == 0
        && offered.contains(&counted.offered)
        && counted.shared == 0
        && counted.adds_up();
    if !right {
        return Err(Failure::wrong(format!(
            "three in use and {offered:?} offered, yet {counted:?}"
        )));
    }
    world.saw_many("offered", counted.offered);
    Ok(counted)
}

/// What is on offer is whole, and so is what that survivor held all the time.
fn all_are_whole(world: &mut World, name: &str, orders: &[&str]) -> Result<(), Failure> {
    for order in orders {
        let whole = world.ask("other", &format!("pool {order} {name}"))?;
        if whole != "whole" {
            return Err(Failure::wrong(format!("{order}: {whole}")));
        }
    }
    Ok(())
}

/// No process holds anything, and each object is counted. What was needed until now `gc` may keep;
/// a process that needs memory gets it all the same.
fn all_is_free(world: &mut World, name: &str) -> Result<(), Failure> {
    for order in ["gc", "use-all"] {
        world.ask("other", &format!("pool {order} {name}"))?;
        let counted = Counted::of(&world.ask("next", &format!("pool count {name}"))?)
            .map_err(Failure::broken)?;
        if counted.free != counted.total {
            return Err(Failure::wrong(format!("all was freed, yet {counted:?} after {order}")));
        }
    }
    Ok(())
}
