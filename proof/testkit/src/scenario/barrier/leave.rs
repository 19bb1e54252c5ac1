//! Giving a seat up while the two others have arrived, one of them asleep: they pass, or it is
//! broken for both.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Leave;

impl Scenario for Leave {
    fn name(&self) -> &'static str {
        "barrier-leave"
    }

    fn about(&self) -> &'static str {
        "give a seat up, with a sleeper and one more that has arrived"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::seat(world, &name, &["first", "second"])
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("second", &format!("barrier arrive {name}"))?;
        super::put_to_sleep(world, &name, "first")
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let answer = world.answer_by_now("first")?;
        if ["passed", "serial"].contains(&answer.as_str()) {
            return Ok(());
        }
        Err(Failure::wrong(format!("the one missing has left, and the sleeper is told `{answer}`")))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut answers = Vec::new();
        if !death.ended {
            answers.push(world.answer("first")?);
        }
        answers.push(world.ask("second", &format!("barrier wait {name}"))?);
        let passed = super::all_passed(&answers)?;
        if death.ended && !passed {
            return Err(Failure::wrong("it had left, and then its death broke the barrier"));
        }
        super::saw(world, passed);
        super::still_works(world, &name, &["first", "second"])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        let seat = barrier.join().map_err(|error| error.to_string())?;
        stage.begin();
        drop(seat);
        stage.end();
        Ok(())
    }
}
