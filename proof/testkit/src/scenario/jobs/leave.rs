//! Being done with a job while a producer sleeps for room; giving a job back while a worker sleeps.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It is done.
    Done,
    /// It is given back.
    Release,
}

impl Scenario for Leave {
    fn name(&self) -> &'static str {
        match self {
            Leave::Done => "jobs-done",
            Leave::Release => "jobs-release",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Leave::Done => "be done with a job of a full queue, a producer asleep",
            Leave::Release => "give a job back, a worker asleep",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("second", &format!("jobs put {name} 7")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Leave::Done => {
                world.ask("second", &format!("jobs put {name} 8"))?;
                world.survivor("producer")?.tell_and_see_asleep(&format!("jobs put {name} 9"))
            }
            Leave::Release => {
                world.survivor("worker")?.tell_and_see_asleep(&format!("jobs take {name}"))
            }
        }
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let (who, wanted) = match self {
            Leave::Done => ("producer", "put"),
            Leave::Release => ("worker", "7:2"),
        };
        match world.answer_by_now(who)? {
            answer if answer == wanted => Ok(()),
            answer => Err(Failure::wrong(format!("the {who} was answered `{answer}`"))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Leave::Release {
            if !death.ended {
                let answer = world.answer("worker")?;
                if answer != "7:2" {
                    return Err(Failure::wrong(format!("the worker got `{answer}`")));
                }
            }
            return super::still_works(world, &name);
        }
        let [own, other, late] = super::drain(world, &name, [7, 8, 9])?;
        let is_right = other == 1 && late <= 1 && (own == 0 || own == 2 && !death.ended);
        if !is_right || death.ended && late == 0 {
            return Err(Failure::wrong(format!("taken {own}, {other}, {late} times")));
        }
        world.saw(if own == 0 { "done" } else { "came back" });
        if !death.ended {
            // There is room, at the latest since the drain.
            world.answer("producer")?;
        }
        if late == 0 && super::drain(world, &name, [9])? != [1] {
            return Err(Failure::wrong("what was put is not there"));
        }
        super::still_works(world, &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let held = super::held_by_victim(world, &name)?;
        if held == crate::scenario::HOLDS_NOTHING {
            world.all_get_past()?;
        }
        Ok(held)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let queue = super::victims(place)?;
        let job = queue.take().map_err(|error| error.to_string())?;
        let left = stage.perform(|| match self {
            Leave::Done => job.done(),
            Leave::Release => job.release(),
        });
        left.map_err(|error| error.to_string())
    }
}
