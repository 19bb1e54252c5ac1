//! Told that the owner died: the victim unlocks without a repair, is told again, marks the lock not
//! recoverable, and resets it.
//!
//! Killed before the lock is marked, the next one is told that an owner died, as ever; afterwards
//! the next one is refused, until the lock has been reset.

use outlive::sync::LockError;

use super::recover::orphan;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct MarkNotRecoverable;

impl Scenario for MarkNotRecoverable {
    fn name(&self) -> &'static str {
        "mutex-not-recoverable"
    }

    fn about(&self) -> &'static str {
        "take a dead owner's lock, unlock without repair, take it again, mark it not recoverable, then reset it"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        orphan(world, &name)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::is_refused_or_works(world, death, &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.perform(|| {
            match mutex.lock() {
                Err(LockError::OwnerDied(guard)) => drop(guard),
                Ok(guard) if stage.is_overtaken() => drop(guard),
                _ => return Err("was not told that the owner died".to_owned()),
            }
            match mutex.lock() {
                Err(LockError::OwnerDied(guard)) => guard.mark_not_recoverable(),
                Ok(guard) if stage.is_overtaken() => drop(guard),
                _ => return Err("was not told again, though nobody has repaired it".to_owned()),
            }
            mutex.reset([5, 5]).map_err(|error| error.to_string())?;
            Ok(())
        })
    }
}
