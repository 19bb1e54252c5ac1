//! Putting a job: while a worker sleeps for one, or, woken by a worker, into a queue that was full.
//! The job is there, whole, or not at all.
//!
//! A death between the job and the notification leaves the worker asleep until the next job, as the
//! documentation says.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop, help_beside};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// A worker sleeps.
    ToSleeper,
    /// The queue is full.
    Waiting,
}

/// The victim's job.
const OWN: u64 = 7;
/// The job of a survivor.
const OTHER: u64 = 8;

impl Put {
    /// Puts another job, which wakes the worker; once in a round.
    fn put_another(world: &mut World, name: &str, beside: bool) -> Result<(), Failure> {
        let order = format!("jobs put {name} {OTHER}");
        if world.first_time("put") {
            let put =
                if beside { world.passes("second", &order) } else { world.ask("second", &order) };
            put?;
        }
        Ok(())
    }

    /// Fetches the worker's answer, and keeps which job it was.
    fn worker_got(world: &mut World, alive: bool) -> Result<(), Failure> {
        let answer = if alive { world.answer_by_now("worker")? } else { world.answer("worker")? };
        let got = match answer.as_str() {
            "7:1" => OWN,
            "8:1" => OTHER,
            _ => return Err(Failure::wrong(format!("the worker got `{answer}`"))),
        };
        world.remember(got);
        Ok(())
    }
}

impl Scenario for Put {
    fn name(&self) -> &'static str {
        match self {
            Put::ToSleeper => "jobs-put",
            Put::Waiting => "jobs-put-waiting",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Put::ToSleeper => "put a job, a worker asleep",
            Put::Waiting => "put a job into a full queue, woken by a worker that is done with one",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Put::ToSleeper => {
                world.survivor("worker")?.tell_and_see_asleep(&format!("jobs take {name}"))
            }
            Put::Waiting => {
                for number in [1, 2] {
                    world.ask("second", &format!("jobs put {name} {number}"))?;
                }
                Ok(())
            }
        }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Put::ToSleeper => Err(Failure::Hang("the victim sleeps beside free slots".to_owned())),
            Put::Waiting => world.ask("worker", &format!("jobs take {name}")).map(drop),
        }
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        match self {
            Put::ToSleeper => Put::worker_got(world, true),
            Put::Waiting => Ok(()),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Put::Waiting {
            let [first, second, own] = super::drain(world, &name, [1, 2, OWN])?;
            let is_right = second == 1
                && first == u32::from(!death.helped)
                && (own == 1 || own == 0 && !death.ended);
            if !is_right {
                return Err(Failure::wrong(format!("taken {first}, {second}, {own} times")));
            }
            world.saw(if own == 1 { "put" } else { "not put" });
            return super::still_works(world, &name);
        }
        if !death.ended {
            Put::put_another(world, &name, false)?;
            Put::worker_got(world, false)?;
        }
        let [mut own, other] = super::drain(world, &name, [OWN, OTHER])?;
        if world.remembered() == OWN {
            own += 1;
        }
        if own > 1 || death.ended && own == 0 || other > 1 {
            return Err(Failure::wrong(format!("taken {own} and {other} times")));
        }
        world.saw(if own == 1 { "put" } else { "not put" });
        super::still_works(world, &name)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Put::Waiting {
            help_beside(self, world, stop)?;
            return super::held_by_victim(world, &name);
        }
        Put::put_another(world, &name, true)?;
        world.all_get_past()?;
        super::held_by_victim(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let queue = super::victims(place)?;
        stage.perform(|| queue.put(&OWN)).map(drop).map_err(|error| error.to_string())
    }
}
