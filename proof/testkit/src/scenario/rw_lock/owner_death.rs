//! A waiter is woken by a holder's death, gets in, and dies in turn: the other sleepers, on the
//! same lock or on another one of the same holder, go on.
//!
//! The kernel wakes one sleeper when a thread ends: here it is the victim, or another that was
//! queued before it.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::{look, raise, repair};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OwnerDeath {
    /// The victim reads, behind a writer that is killed: it may have to repair.
    Read,
    /// The victim writes, behind a reader that is killed.
    Write,
}

impl OwnerDeath {
    fn names(self, world: &World) -> (String, String) {
        (world.fresh(self.stem()), world.fresh("other"))
    }

    fn hold(self) -> &'static str {
        if self == OwnerDeath::Read { "hold-write" } else { "hold-read" }
    }
}

impl Scenario for OwnerDeath {
    fn name(&self) -> &'static str {
        match self {
            OwnerDeath::Read => "rwlock-writer-death",
            OwnerDeath::Write => "rwlock-reader-death",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            OwnerDeath::Read => {
                "wait to read, be woken by the writer's SIGKILL, repair or read; sleepers before and after"
            }
            OwnerDeath::Write => {
                "wait to write, be woken by the reader's SIGKILL, write; sleepers after, here and elsewhere"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let (name, other) = self.names(world);
        world.ask("holder", &format!("rwlock {} {name}", self.hold()))?;
        world.ask("holder", &format!("rwlock {} {other}", self.hold()))?;
        if *self == OwnerDeath::Read {
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
        } else {
            // Asleep on the very same word of the kernel's, for another lock.
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("rwlock write {other}"))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let (name, other) = self.names(world);
        // The writer comes first: without the victim, no other process keeps the reader out.
        world.survivor("later")?.tell_and_see_asleep(&format!("rwlock write {name}"))?;
        world.survivor("late")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
        world.survivor("elsewhere")?.tell_and_see_asleep(&format!("rwlock write {other}"))?;
        world.dismiss("holder");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        let (name, other) = self.names(world);
        let mut told = 0;
        for survivor in ["sleeper", "late", "later"] {
            told += usize::from(super::count_answer(world, survivor)?);
        }
        let elsewhere = super::count_answer(world, "elsewhere")?;
        if elsewhere != (*self == OwnerDeath::Read) {
            return Err(Failure::wrong(format!("elsewhere told of a death: {elsewhere}")));
        }
        let answer = world.ask("next", &format!("rwlock write {name}"))?;
        told += usize::from(answer == "died");
        super::count(world, &answer)?;
        let most = if *self == OwnerDeath::Read { 2 } else { 1 };
        if told > most {
            return Err(Failure::wrong(format!("{told} were told of a death")));
        }
        super::still_works(world, &[&name, &other])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let (name, other) = self.names(world);
        super::pass(world, &[&name, &other])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        stage.perform(|| {
            if *self == OwnerDeath::Read {
                match lock.read() {
                    // Another sleeper was quicker and has repaired it.
                    Ok(guard) => look(&guard)?,
                    Err(LockError::OwnerDied(guard)) => repair(guard),
                    Err(other) => return Err(other.to_string()),
                }
            } else {
                let mut guard = lock.write().map_err(|error| error.to_string())?;
                raise(&mut guard);
            }
            Ok(())
        })
    }
}
