//! A waiter is woken by its owner's death, takes over, and dies in turn: the sleepers queued before and after it are told
//! and go on.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::repair;
use crate::scenario::{Death, Place, Scenario};
use crate::world::World;

/// See the file's head.
pub struct OwnerDeath;

impl Scenario for OwnerDeath {
    fn name(&self) -> &'static str {
        "mutex-owner-death"
    }

    fn about(&self) -> &'static str {
        "wait, be woken by the owner's SIGKILL, take over, repair, unlock, with a sleeper before and one after"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("mutex hold {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("late")?.tell_and_see_asleep(&format!("mutex use {name}"))?;
        world.dismiss("holder");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        let answer = world.answer("sleeper")?;
        super::count(world, &answer)?;
        let name = world.fresh(self.stem());
        let answer = world.answer("late")?;
        super::count(world, &answer)?;
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        super::count(world, &answer)?;
        super::still_works(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.begin();
        match mutex.lock() {
            // The other sleeper was quicker and has repaired it.
            Ok(guard) => drop(guard),
            Err(LockError::OwnerDied(mut guard)) => {
                repair(&mut guard);
                drop(guard);
            }
            Err(other) => return Err(other.to_string()),
        }
        stage.end();
        Ok(())
    }
}
