//! Acquiring both permits while another holds one, with a sleeper that wants one: whatever becomes
//! of the victim and its part, the sleeper gets a permit, and both are there in the end.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Many;

impl Scenario for Many {
    fn name(&self) -> &'static str {
        "semaphore-acquire-many"
    }

    fn about(&self) -> &'static str {
        "acquire two permits, of which another holds one and gives it back; one sleeps for one as well"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("holder", &format!("semaphore hold {name}"))?;
        world.ask("after", &format!("semaphore open {name}")).map(drop)
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("after")?.tell(&format!("semaphore acquire {name}"))?;
        world.ask("holder", &format!("semaphore release {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        super::expect_got(world, &["after"], false)?;
        let name = world.fresh(self.stem());
        // Its turn comes, too.
        world.ask("next", &format!("semaphore both {name}"))?;
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
            drop(semaphore.acquire_many(2).map_err(|error| error.to_string())?);
            Ok(())
        })
    }
}
