//! Acquiring a permit without waiting and giving it back, twice: one that is free, or a dead
//! holder's.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Acquire {
    /// No process holds any.
    Free,
    /// A dead process holds all of them.
    Dead,
}

impl Scenario for Acquire {
    fn name(&self) -> &'static str {
        match self {
            Acquire::Free => "semaphore-acquire",
            Acquire::Dead => "semaphore-acquire-dead",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Acquire::Free => "acquire a free permit and give it back, twice",
            Acquire::Dead => "acquire a dead holder's permit and give it back, twice",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Acquire::Dead {
            for _ in 0..2 {
                world.ask("holder", &format!("semaphore hold {name}"))?;
            }
            world.dismiss("holder");
        }
        world.ask("next", &format!("semaphore open {name}")).map(drop)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let counted = world.ask("next", &format!("semaphore count {name}"))?;
        if counted == "2" {
            Ok(())
        } else {
            Err(Failure::wrong(format!("{counted} permits of 2 were given back")))
        }
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::still_works(world, &name, 2, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // There are two, and the victim has one of them at most.
        world.passes("passer", &format!("semaphore acquire {name}"))?;
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let semaphore = super::victims(place)?;
        stage.perform(|| {
            // The first looks at all records; the second is the fast path.
            for _ in 0..2 {
                drop(semaphore.acquire().map_err(|error| error.to_string())?);
            }
            Ok(())
        })
    }
}
