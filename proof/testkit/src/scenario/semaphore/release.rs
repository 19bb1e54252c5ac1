//! Giving a permit back while two sleep for one: both get it, one after the other, whichever
//! process dies and whenever.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Release;

impl Scenario for Release {
    fn name(&self) -> &'static str {
        "semaphore-release"
    }

    fn about(&self) -> &'static str {
        "give one of two permits back with two sleepers, while another holds the other one"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("bystander", &format!("semaphore hold {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["first", "second"] {
            world.survivor(survivor)?.tell_and_see_asleep(&format!("semaphore acquire {name}"))?;
        }
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // The two run now or have run: given back is given back, whether or not the victim goes on
        // living.
        super::expect_got(world, &["first", "second"], true)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.ended {
            super::expect_got(world, &["first", "second"], false)?;
        }
        let name = world.fresh(self.stem());
        world.ask("bystander", &format!("semaphore release {name}"))?;
        super::still_works(world, &name, 2, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let semaphore = super::victims(place)?;
        let permit = semaphore.acquire().map_err(|error| error.to_string())?;
        stage.begin();
        drop(permit);
        stage.end();
        Ok(())
    }
}
