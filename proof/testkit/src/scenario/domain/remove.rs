//! Removing a mutex that one process holds and another sleeps on: they go on with it, whether or
//! not its name is gone.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Remove;

impl Scenario for Remove {
    fn name(&self) -> &'static str {
        "domain-remove"
    }

    fn about(&self) -> &'static str {
        "remove a mutex that is held and slept on"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("mutex hold {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.ask("holder", &format!("mutex release {name}"))?;
        }
        let answer = world.answer("sleeper")?;
        if answer != "clean" {
            return Err(Failure::wrong(format!("the sleeper got the lock `{answer}`")));
        }
        let there = world.domain().join(&name).exists();
        if death.ended && there {
            return Err(Failure::wrong("removed and acknowledged, yet it is there"));
        }
        world.saw(if there { "still there" } else { "removed" });
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        if answer != "clean" {
            return Err(Failure::wrong(format!("the next got the lock `{answer}`")));
        }
        crate::scenario::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.passes("holder", &format!("mutex release {name}"))?;
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let removed = stage.perform(|| domain.remove(place.name));
        removed.map_err(|error| error.to_string())
    }
}
