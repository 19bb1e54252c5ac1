//! Repairing a barrier that a participant's death has broken: it is broken still, or whole; the
//! living keep their seats.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
pub struct Repair;

impl Scenario for Repair {
    fn name(&self) -> &'static str {
        "barrier-repair"
    }

    fn about(&self) -> &'static str {
        "repair a broken barrier with two living participants"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::seat(world, &name, &["first", "missed", "second"])?;
        super::put_to_sleep(world, &name, "first")?;
        world.dismiss("missed");
        let answer = world.answer_by_now("first")?;
        if answer == "broken" {
            Ok(())
        } else {
            Err(Failure::wrong(format!("told `{answer}`, not that it is broken")))
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if death.ended {
            super::seat(world, &name, &["last"])?;
        } else {
            let whole = world.ask("last", &format!("barrier join {name}"))? == "joined";
            world.saw(if whole { "whole" } else { "broken still" });
            world.ask("second", &format!("barrier repair {name}"))?;
            if !whole {
                super::seat(world, &name, &["last"])?;
            }
        }
        // With the seats that the two had all the time.
        super::three_pass(world, &name, ["first", "second", "last"])?;
        super::still_works(world, &name, &["first", "second", "last"])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Whether it is whole again or not: that is told at once.
        world.passes("witness", &format!("barrier participants {name}"))?;
        match world.passes("second", &format!("barrier arrive {name}"))?.as_str() {
            "broken" | "early" => {}
            other => {
                return Err(Failure::wrong(format!("one of three arrived and is told `{other}`")));
            }
        }
        if names_victim(world, &format!("barrier repairer {name}"))? {
            return Ok("holds the repair");
        }
        world.passes("second", &format!("barrier repair {name}"))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        let repaired = stage.perform(|| barrier.repair());
        repaired.map_err(|error| error.to_string())
    }
}
