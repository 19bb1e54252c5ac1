//! Taking a dead owner's lock, repairing, unlocking: cut short anywhere, the next takes it up.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::repair;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Recover;

/// A lock whose owner was killed holding it.
pub(super) fn orphan(world: &mut World, name: &str) -> Result<(), Failure> {
    world.ask("holder", &format!("mutex hold {name}"))?;
    world.dismiss("holder");
    Ok(())
}

impl Scenario for Recover {
    fn name(&self) -> &'static str {
        "mutex-recover"
    }

    fn about(&self) -> &'static str {
        "take a dead owner's lock, repair, mark consistent, unlock"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        orphan(world, &name)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        if death.ended && answer != "clean" {
            return Err(Failure::wrong(format!(
                "got `{answer}` after it had been repaired and unlocked"
            )));
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
            match mutex.lock() {
                Err(LockError::OwnerDied(mut guard)) => {
                    repair(&mut guard);
                    drop(guard);
                }
                Ok(guard) if stage.is_overtaken() => drop(guard),
                _ => return Err("was not told that the owner died".to_owned()),
            }
            Ok(())
        })
    }
}
