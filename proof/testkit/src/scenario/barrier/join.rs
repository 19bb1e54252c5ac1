//! Taking a seat while another participant sleeps: a process that dies here has never come, or is
//! missed.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::barrier::COUNTED;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Join {
    /// Whether the dead are counted out.
    pub counted: bool,
}

impl Scenario for Join {
    fn name(&self) -> &'static str {
        if self.counted { "barrier-join-counted" } else { "barrier-join" }
    }

    fn about(&self) -> &'static str {
        if self.counted {
            "take a seat beside a sleeper; the dead are counted out"
        } else {
            "take a seat beside a sleeper; a death breaks the barrier"
        }
    }

    fn stem(&self) -> &'static str {
        if self.counted { COUNTED } else { "thing" }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::seat(world, &name, &["first"])
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::put_to_sleep(world, &name, "first")
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut waiting = vec!["first"];
        if death.ended && !self.counted {
            // Its end alone wakes the sleeper.
            let answer = world.answer("first")?;
            if answer != "broken" {
                return Err(Failure::wrong(format!(
                    "a participant died, and the sleeper was told `{answer}`"
                )));
            }
            world.saw("woken by the death");
            return super::still_works(world, &name, &["first", "second"]);
        }
        // The seats come first: as soon as all participants that have seats are there, they may
        // pass.
        let mut seated = Vec::new();
        for survivor in ["second", "last"] {
            let is_seated = survivor == "second" && !world.first_time("second has joined");
            if is_seated || world.ask(survivor, &format!("barrier join {name}"))? == "joined" {
                seated.push(survivor);
            }
        }
        for survivor in seated {
            world.survivor(survivor)?.tell(&format!("barrier wait {name}"))?;
            waiting.push(survivor);
        }
        let mut answers = Vec::new();
        for survivor in &waiting {
            answers.push(world.answer_by_now(survivor)?);
        }
        let passed = super::all_passed(&answers)?;
        if self.counted && !(passed && waiting.len() == 3) || passed && waiting.len() != 3 {
            return Err(Failure::wrong(format!("{waiting:?} were told {answers:?}")));
        }
        super::saw(world, passed);
        super::still_works(world, &name, &waiting)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Its seat is its own; others take theirs. The waiting participants are not all there yet.
        if world.passes("second", &format!("barrier join {name}"))? != "joined" {
            return Err(Failure::wrong("there is a seat, and it was not to be had"));
        }
        world.first_time("second has joined");
        Ok(crate::scenario::HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let barrier = super::victims(place)?;
        let seat = stage.perform(|| barrier.join());
        seat.map(drop).map_err(|error| error.to_string())
    }
}
