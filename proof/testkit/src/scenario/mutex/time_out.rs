//! A waiter whose deadline passes, beside another sleeper: it takes no other waiter's wake-up along
//! when it leaves.

use std::time::Duration;

use outlive::Deadline;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct TimeOut;

impl Scenario for TimeOut {
    fn name(&self) -> &'static str {
        "mutex-time-out"
    }

    fn about(&self) -> &'static str {
        "wait for the lock until a deadline, beside another sleeper"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("mutex hold {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // Its deadline wakes it.
        Ok(())
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.ask("holder", &format!("mutex release {name}"))?;
        }
        let answer = world.answer("sleeper")?;
        if answer != "clean" {
            return Err(Failure::wrong(format!(
                "the sleeper got the lock `{answer}`, the victim never held it"
            )));
        }
        super::count(world, &answer)?;
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.passes("holder", &format!("mutex release {name}"))?;
        }
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.perform(|| {
            match mutex.lock_until(Deadline::after(Duration::from_millis(30))) {
                Ok(None) => {}
                Ok(_) if stage.is_overtaken() => {}
                Ok(_) => return Err("got a lock that is held".to_owned()),
                Err(other) => return Err(other.to_string()),
            }
            Ok(())
        })
    }
}
