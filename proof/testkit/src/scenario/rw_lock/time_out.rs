//! A writer whose deadline passes while readers are inside, beside others that wait behind it: it
//! keeps no process out any more, and takes no other waiter's wake-up along.

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
        "rwlock-time-out"
    }

    fn about(&self) -> &'static str {
        "wait for a reader to leave until a deadline, a reader and a writer asleep behind"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("bystander", &format!("rwlock hold-read {name}")).map(drop)
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // Its deadline wakes it.
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // No process waits to write any more.
        let name = world.fresh(self.stem());
        let answer = world.ask("late", &format!("rwlock read {name}"))?;
        if answer == "clean" {
            Ok(())
        } else {
            Err(Failure::wrong(format!("a reader got in `{answer}`")))
        }
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("reader")?.tell(&format!("rwlock read {name}"))?;
        world.survivor("writer")?.tell(&format!("rwlock write {name}"))?;
        if world.first_time("release") {
            world.ask("bystander", &format!("rwlock release {name}"))?;
        }
        for survivor in ["reader", "writer"] {
            if super::count_answer(world, survivor)? {
                return Err(Failure::wrong("told of a death, though the victim only waited"));
            }
        }
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.first_time("release") {
            world.passes("bystander", &format!("rwlock release {name}"))?;
        }
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        stage.perform(|| {
            match lock.write_until(Deadline::after(Duration::from_millis(30))) {
                Ok(None) => {}
                Ok(_) if stage.is_overtaken() => {}
                Ok(_) => return Err("got a lock that is held".to_owned()),
                Err(other) => return Err(other.to_string()),
            }
            Ok(())
        })
    }
}
