//! Adding a permit while a process sleeps for one: the permit is there or it is not. A death
//! between adding and waking leaves the sleeper asleep until the next notification, as the
//! documentation of `add_permit` says.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct AddPermit;

impl Scenario for AddPermit {
    fn name(&self) -> &'static str {
        "semaphore-add"
    }

    fn about(&self) -> &'static str {
        "add a third permit with a sleeper, while others hold the two"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("semaphore hold {name}"))?;
        world.ask("bystander", &format!("semaphore hold {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("semaphore acquire {name}"))
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // Woken by the addition itself.
        super::expect_got(world, &["sleeper"], true)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.ask("holder", &format!("semaphore release {name}"))?;
        }
        if !death.ended {
            super::expect_got(world, &["sleeper"], false)?;
        }
        world.ask("bystander", &format!("semaphore release {name}"))?;
        let permits = match world.ask("next", &format!("semaphore count {name}"))?.as_str() {
            "3" => 3,
            "2" if !death.ended => 2,
            counted => {
                return Err(Failure::wrong(format!("{counted} permits, ended: {}", death.ended)));
            }
        };
        world.saw(if permits == 3 { "added" } else { "not added" });
        super::still_works(world, &name, permits, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let is_added = world.passes("witness", &format!("semaphore free {name}"))? != "0";
        if !is_added && world.first_time("release") {
            world.passes("holder", &format!("semaphore release {name}"))?;
        }
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let semaphore = super::victims(place)?;
        let added = stage.perform(|| semaphore.add_permit());
        added.map_err(|error| error.to_string())
    }
}
