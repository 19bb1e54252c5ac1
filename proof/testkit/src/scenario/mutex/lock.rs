//! Lock and unlock with no other process near: the next process to come gets the lock, and is told
//! if the owner died inside.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::raise;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Lock;

impl Scenario for Lock {
    fn name(&self) -> &'static str {
        "mutex-lock"
    }

    fn about(&self) -> &'static str {
        "lock, change what it guards, unlock, uncontended"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("next", &format!("mutex open {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        if death.ended && answer != "clean" {
            return Err(Failure::wrong("told that the owner died, after it had unlocked"));
        }
        super::count(world, &answer)?;
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
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
