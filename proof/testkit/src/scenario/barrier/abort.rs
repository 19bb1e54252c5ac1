//! Aborting a barrier beside a sleeper, by a process without a seat, and by a participant whose
//! time has run out: nothing has happened, or the sleeper is told, without the help of another
//! process.

use outlive::sync::AcquireError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Abort {
    /// By a process without a seat.
    Bystander,
    /// By a participant that has arrived.
    OutOfTime,
}

impl Scenario for Abort {
    fn name(&self) -> &'static str {
        match self {
            Abort::Bystander => "barrier-abort",
            Abort::OutOfTime => "barrier-abort-wait",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Abort::Bystander => "abort a barrier with a sleeper, without a seat",
            Abort::OutOfTime => "arrive, and abort that phase, with a sleeper",
        }
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
        match world.answer_by_now("first")?.as_str() {
            "broken" => Ok(()),
            other => Err(Failure::wrong(format!("aborted, and the sleeper is told `{other}`"))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let broken = world.ask("next", &format!("barrier broken {name}"))? == "yes";
        if death.ended && !broken {
            return Err(Failure::wrong("aborted and acknowledged, yet it is whole"));
        }
        world.saw(if broken { "broken" } else { "not broken" });
        if !broken && *self == Abort::OutOfTime {
            // The dead one had arrived: with the last one, all have.
            let last = world.ask("second", &format!("barrier wait {name}"))?;
            if !super::all_passed(&[world.answer("first")?, last])? {
                return Err(Failure::wrong("all have arrived, and it is broken"));
            }
            return super::still_works(world, &name, &["first", "second"]);
        }
        if !broken {
            world.ask("second", &format!("barrier abort {name}"))?;
        }
        let mut answers = vec![world.ask("second", &format!("barrier wait {name}"))?];
        if !death.ended {
            answers.push(world.answer("first")?);
        }
        if super::all_passed(&answers)? {
            return Err(Failure::wrong("aborted, and they passed"));
        }
        super::still_works(world, &name, &["first", "second"])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if world.passes("witness", &format!("barrier broken {name}"))? == "yes" {
            world.all_get_past()?;
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        if *self == Abort::Bystander {
            stage.begin();
            barrier.abort();
            stage.end();
            return Ok(());
        }
        let mut seat = barrier.join().map_err(|error| error.to_string())?;
        match seat.try_wait() {
            Ok(None) => {}
            other => return Err(format!("the second of three arrives: {other:?}")),
        }
        // Not `Stage::perform`: the error is what it is to return.
        stage.begin();
        let end = seat.abort();
        stage.end();
        match end {
            Err(AcquireError::Broken) => Ok(()),
            other => Err(format!("it aborts its phase: {other:?}")),
        }
    }
}
