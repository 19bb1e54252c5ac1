//! Waiting for the lock, being handed it, unlocking, with sleepers queued before and after, or
//! after only: all of them get it, whichever sleeper was woken and died.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::raise;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The victim was queued first.
    First,
    /// Another process was queued before it.
    Between,
}

impl Scenario for Wait {
    fn name(&self) -> &'static str {
        match self {
            Wait::First => "mutex-wait",
            Wait::Between => "mutex-wait-between",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Wait::First => "wait for the lock, be handed it, unlock, with a sleeper after it",
            Wait::Between => {
                "wait for the lock, be handed it, unlock, with a sleeper before and one after"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("mutex hold {name}"))?;
        if *self == Wait::Between {
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("late")?.tell_and_see_asleep(&format!("mutex use {name}"))?;
        world.ask("holder", &format!("mutex release {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        if *self == Wait::Between {
            let answer = world.answer("sleeper")?;
            super::count(world, &answer)?;
        }
        let answer = world.answer("late")?;
        super::count(world, &answer)?;
        let name = world.fresh(self.stem());
        // The sleepers may have been first; then the next process is told of the victim.
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        super::count(world, &answer)?;
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.perform(|| {
            let mut guard = mutex.lock().map_err(|error| error.to_string())?;
            raise(&mut guard);
            drop(guard);
            Ok(())
        })
    }
}
