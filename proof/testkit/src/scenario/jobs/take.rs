//! Taking a job and keeping it: one that waits, a dead worker's, or one that comes while the victim
//! sleeps. Whenever it dies, the job goes to the next worker.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop, help_beside};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// It waits.
    Waiting,
    /// A dead worker has it.
    Dead,
    /// It comes while the victim sleeps, and another worker before it.
    Asleep,
}

impl Take {
    /// How often the first job has been taken before.
    fn before(self) -> u32 {
        u32::from(self == Take::Dead)
    }
}

impl Scenario for Take {
    fn name(&self) -> &'static str {
        match self {
            Take::Waiting => "jobs-take",
            Take::Dead => "jobs-take-dead",
            Take::Asleep => "jobs-take-asleep",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Take::Waiting => "take a job that waits",
            Take::Dead => "take a dead worker's job, before one that was put later",
            Take::Asleep => "wait for a job, a worker asleep before it; two jobs come",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Take::Asleep => {
                world.survivor("before")?.tell_and_see_asleep(&format!("jobs take {name}"))
            }
            Take::Waiting | Take::Dead => {
                world.ask("second", &format!("jobs put {name} 7"))?;
                if *self == Take::Dead {
                    world.ask("holder", &format!("jobs hold {name}"))?;
                    world.dismiss("holder");
                }
                world.ask("second", &format!("jobs put {name} 8")).map(drop)
            }
        }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self != Take::Asleep {
            return Err(Failure::Hang("the victim sleeps beside a job".to_owned()));
        }
        for number in [7, 8] {
            world.ask("second", &format!("jobs put {name} {number}"))?;
        }
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        if *self == Take::Asleep {
            let got = world.answer_by_now("before")?;
            world.remember(if got == "7:1" { 7 } else { 8 });
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Take::Asleep {
            if !death.helped {
                self.help(world)?;
            }
            if !death.ended {
                let got = world.answer("before")?;
                let number = got.split(':').next().and_then(|number| number.parse().ok());
                world.remember(number.unwrap_or(0));
            }
            let attempts = super::drain(world, &name, [7, 8])?;
            let there = attempts.iter().filter(|&&times| times > 0).count();
            let taken = attempts.iter().map(|&times| times.saturating_sub(1)).sum::<u32>();
            let was_got = if world.remembered() == 7 { attempts[0] } else { attempts[1] };
            if there != 1 || was_got != 0 || taken > 1 || death.ended && taken != 1 {
                return Err(Failure::wrong(format!("left, and taken so often: {attempts:?}")));
            }
            return super::still_works(world, &name);
        }
        let before = self.before();
        let [first, second] = super::drain(world, &name, [7, 8])?;
        let is_right = (first == before + 2 || first == before + 1 && !death.ended) && second == 1;
        if !is_right {
            return Err(Failure::wrong(format!("taken {first} and {second} times")));
        }
        world.saw(if first == before + 2 { "taken" } else { "not taken" });
        super::still_works(world, &name)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Take::Asleep {
            help_beside(self, world, stop)?;
            world.all_get_past()?;
        }
        super::held_by_victim(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let queue = super::victims(place)?;
        let job = stage.perform(|| queue.take()).map_err(|error| error.to_string())?;
        // Its death gives it back.
        std::mem::forget(job);
        Ok(())
    }
}
