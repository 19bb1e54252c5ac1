//! Waiting for one of two permits that others hold, getting one, giving it back, with a sleeper
//! before and one after: both get one, whichever sleeper was woken and died. All of them sleep on
//! the eventcount and on the ends of both holders.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// A holder gives one back.
    Release,
    /// A holder is killed: the kernel wakes one of the sleepers, the victim or the one before it.
    HolderDeath,
}

impl Scenario for Wait {
    fn name(&self) -> &'static str {
        match self {
            Wait::Release => "semaphore-wait",
            Wait::HolderDeath => "semaphore-holder-death",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Wait::Release => {
                "wait for one of two permits, be woken by a release; a sleeper before it, one after it"
            }
            Wait::HolderDeath => {
                "wait for one of two permits, be woken by a holder's SIGKILL; a sleeper before it, one after it"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("semaphore hold {name}"))?;
        world.ask("bystander", &format!("semaphore hold {name}"))?;
        world.survivor("before")?.tell_and_see_asleep(&format!("semaphore acquire {name}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("after")?.tell_and_see_asleep(&format!("semaphore acquire {name}"))?;
        match self {
            Wait::Release => world.ask("holder", &format!("semaphore release {name}")).map(drop),
            Wait::HolderDeath => {
                world.dismiss("holder");
                Ok(())
            }
        }
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        super::expect_got(world, &["before", "after"], true)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        if !death.ended {
            super::expect_got(world, &["before", "after"], false)?;
        }
        let name = world.fresh(self.stem());
        world.ask("bystander", &format!("semaphore release {name}"))?;
        super::still_works(world, &name, 2, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let name = world.fresh(self.stem());
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let semaphore = super::victims(place)?;
        stage.perform(|| {
            drop(semaphore.acquire().map_err(|error| error.to_string())?);
            Ok(())
        })
    }
}
