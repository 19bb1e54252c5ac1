//! Coming to read, being told that the writer died, leaving without a repair, being told again,
//! repairing: cut short anywhere, the next takes it up.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::repair;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Recover;

impl Scenario for Recover {
    fn name(&self) -> &'static str {
        "rwlock-recover"
    }

    fn about(&self) -> &'static str {
        "come to read, be told of a dead writer, leave, come again, repair, unlock; a dead reader is in the way, too"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("reader", &format!("rwlock hold-read {name}"))?;
        world.dismiss("reader");
        world.ask("writer", &format!("rwlock hold-write {name}"))?;
        world.dismiss("writer");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let answer = world.ask("next", &format!("rwlock read {name}"))?;
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
        let lock = super::victims(place)?;
        stage.perform(|| {
            match lock.read() {
                Err(LockError::OwnerDied(guard)) => drop(guard),
                Ok(guard) if stage.is_overtaken() => drop(guard),
                _ => return Err("was not told that the owner died".to_owned()),
            }
            match lock.read() {
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Ok(guard) if stage.is_overtaken() => drop(guard),
                _ => return Err("was not told again, though nobody has repaired it".to_owned()),
            }
            Ok(())
        })
    }
}
