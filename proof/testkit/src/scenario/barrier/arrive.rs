//! Arriving: as the last of three, with two asleep, and as the first, asleep until the last lets it
//! on.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::barrier::COUNTED;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Arrive {
    /// The last; a death breaks the barrier.
    Last,
    /// The last; the dead are counted out.
    LastCounted,
    /// One sleeps before it, the last comes when both sleep.
    First,
}

impl Scenario for Arrive {
    fn name(&self) -> &'static str {
        match self {
            Arrive::Last => "barrier-arrive-last",
            Arrive::LastCounted => "barrier-arrive-last-counted",
            Arrive::First => "barrier-wait",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Arrive::Last => "arrive as the last, with two asleep; a death breaks the barrier",
            Arrive::LastCounted => "arrive as the last, with two asleep; the dead are counted out",
            Arrive::First => "arrive, sleep beside a sleeper, be let on by the last",
        }
    }

    fn stem(&self) -> &'static str {
        if *self == Arrive::LastCounted { COUNTED } else { "thing" }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::seat(world, &name, &["first", "second"])
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::put_to_sleep(world, &name, "first")?;
        if *self == Arrive::First { Ok(()) } else { super::put_to_sleep(world, &name, "second") }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self != Arrive::First {
            return Err(Failure::wrong("the last to arrive sleeps"));
        }
        world.survivor("second")?.tell(&format!("barrier wait {name}"))
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let answers = [world.answer_by_now("first")?, world.answer_by_now("second")?];
        if !super::all_passed(&answers)? {
            return Err(Failure::wrong("all have arrived, and it is broken"));
        }
        let serial = answers.iter().any(|answer| answer == "serial");
        // The last to come may have stood still, and another has opened the next phase instead.
        if serial == (*self == Arrive::First) || world.has_stop() {
            return Ok(());
        }
        Err(Failure::wrong(format!("the last to come is the serial one, but: {answers:?}")))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Arrive::First && !death.helped {
            self.help(world)?;
        }
        if !death.ended {
            let answers = [world.answer("first")?, world.answer("second")?];
            let passed = super::all_passed(&answers)?;
            if !passed && (*self == Arrive::LastCounted || death.helped) {
                return Err(Failure::wrong("it is broken, though nobody had to be missed"));
            }
            super::saw(world, passed);
        }
        super::still_works(world, &name, &["first", "second"])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Arrive::First {
            // It has arrived: now the last one comes.
            if super::is_awaited(world, &name)? {
                return Ok("has a seat and is awaited");
            }
            crate::scenario::help_beside(self, world, stop)?;
        }
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        let mut seat = barrier.join().map_err(|error| error.to_string())?;
        let turn = stage.perform(|| seat.wait());
        turn.map(drop).map_err(|error| error.to_string())
    }
}
