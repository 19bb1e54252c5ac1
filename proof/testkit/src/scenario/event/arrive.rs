//! The last to arrive at a latch: if it has been counted, both waiters get through without the help
//! of another process.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::event;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, nothing_left};
use crate::world::World;

/// See the file's head.
pub struct Arrive;

impl Scenario for Arrive {
    fn name(&self) -> &'static str {
        "latch-arrive"
    }

    fn about(&self) -> &'static str {
        "arrive last at a latch, with two sleepers"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["first", "second"] {
            world.survivor(survivor)?.tell_and_see_asleep(&format!("latch wait {name}"))?;
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match (world.ask("next", &format!("latch missing {name}"))?.as_str(), death.ended) {
            ("0", _) => world.saw("open"),
            ("1", false) => {
                world.saw("not counted");
                world.ask("next", &format!("latch arrive {name}"))?;
            }
            (other, _) => return Err(Failure::wrong(format!("{other} are missing"))),
        }
        for survivor in ["first", "second"] {
            world.answer(survivor)?;
        }
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.passes("witness", &format!("latch missing {name}"))? == "0" {
            world.all_get_past()?;
        }
        world.passes("next", &format!("latch arrive {name}"))?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let latch = event::latch(&domain, place.name)?;
        stage.begin();
        latch.arrive(1);
        stage.end();
        Ok(())
    }
}
