//! A waiter is woken by its owner's death, takes over, and dies in turn: the other sleepers, on the
//! same lock or on another one of the same owner, are told and go on.
//!
//! The kernel wakes one sleeper when an owner ends: here it is the victim, or another that was
//! queued before it.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::repair;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OwnerDeath {
    /// The victim was queued first: the kernel wakes it.
    First,
    /// Another process was queued before it.
    Between,
}

impl OwnerDeath {
    fn names(self, world: &World) -> (String, String) {
        (world.fresh(self.stem()), world.fresh("other"))
    }
}

impl Scenario for OwnerDeath {
    fn name(&self) -> &'static str {
        match self {
            OwnerDeath::First => "mutex-owner-death",
            OwnerDeath::Between => "mutex-owner-death-between",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            OwnerDeath::First => {
                "wait, be woken by the owner's SIGKILL, take over, repair, unlock; sleepers after it"
            }
            OwnerDeath::Between => "the same with a sleeper before it, too",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let (name, other) = self.names(world);
        world.ask("holder", &format!("mutex hold {name}"))?;
        world.ask("holder", &format!("mutex hold {other}"))?;
        if *self == OwnerDeath::Between {
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("mutex use {name}"))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let (name, other) = self.names(world);
        world.survivor("late")?.tell_and_see_asleep(&format!("mutex use {name}"))?;
        world.survivor("elsewhere")?.tell_and_see_asleep(&format!("mutex use {other}"))?;
        world.dismiss("holder");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        let (name, other) = self.names(world);
        if *self == OwnerDeath::Between {
            let answer = world.answer("sleeper")?;
            super::count(world, &answer)?;
        }
        let answer = world.answer("late")?;
        super::count(world, &answer)?;
        let answer = world.answer("elsewhere")?;
        if answer != "died" {
            return Err(Failure::wrong(format!(
                "the other lock of the dead owner was got `{answer}`"
            )));
        }
        let answer = world.ask("next", &format!("mutex use {name}"))?;
        super::count(world, &answer)?;
        super::still_works(world, &[&name, &other])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let (name, other) = self.names(world);
        super::pass(world, &[&name, &other])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.perform(|| {
            match mutex.lock() {
                // The other sleeper was quicker and has repaired it.
                Ok(guard) => drop(guard),
                Err(LockError::OwnerDied(mut guard)) => {
                    repair(&mut guard);
                    drop(guard);
                }
                Err(other) => return Err(other.to_string()),
            }
            Ok(())
        })
    }
}
