//! Resetting a barrier beside a sleeper: nothing has happened, or the sleeper is told without the
//! help of another process, and the next participant to arrive finds the barrier whole.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
pub struct Reset;

impl Scenario for Reset {
    fn name(&self) -> &'static str {
        "barrier-reset"
    }

    fn about(&self) -> &'static str {
        "reset a barrier with a sleeper"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::seat(world, &name, &["first", "second"])
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::put_to_sleep(world, &name, "first")
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        told(&world.answer_by_now("first")?)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut answer = world.ask("second", &format!("barrier arrive {name}"))?;
        if answer == "broken" && world.has_stop() {
            // It had arrived while the victim stood still.
            answer = world.ask("second", &format!("barrier arrive {name}"))?;
        }
        if answer != "early" {
            return Err(Failure::wrong(format!("the second to come is told `{answer}`")));
        }
        // With the sleeper, two have arrived in the old phase; in the new one, the second alone.
        let arrived = world.ask("next", &format!("barrier arrived {name}"))?;
        super::seat(world, &name, &["last"])?;
        match (arrived.as_str(), death.ended) {
            ("2", false) => {
                world.saw("not reset");
                for survivor in ["second", "last"] {
                    world.survivor(survivor)?.tell(&format!("barrier wait {name}"))?;
                }
                let answers =
                    [world.answer("first")?, world.answer("second")?, world.answer("last")?];
                if !super::all_passed(&answers)? {
                    return Err(Failure::wrong("all have arrived, and it is broken"));
                }
            }
            ("1", _) => {
                world.saw("reset");
                if !death.ended {
                    told(&world.answer("first")?)?;
                }
                super::three_pass(world, &name, ["first", "second", "last"])?;
            }
            (other, _) => return Err(Failure::wrong(format!("{other} have arrived"))),
        }
        super::still_works(world, &name, &["first", "second", "last"])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Before the reset, in it or after it: that is told at once.
        world.passes("witness", &format!("barrier participants {name}"))?;
        match world.passes("second", &format!("barrier arrive {name}"))?.as_str() {
            "early" => {}
            other => {
                return Err(Failure::wrong(format!("two of three, and one is told `{other}`")));
            }
        }
        if names_victim(world, &format!("barrier repairer {name}"))? {
            return Ok("holds the repair");
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        let reset = stage.perform(|| barrier.reset());
        reset.map_err(|error| error.to_string())
    }
}

fn told(answer: &str) -> Result<(), Failure> {
    match answer {
        "broken" => Ok(()),
        other => Err(Failure::wrong(format!("reset, and the sleeper is told `{other}`"))),
    }
}
