//! Making a named semaphore: a death leaves nothing, or the whole thing with all its permits.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop, member};
use crate::world::World;

/// See the file's head.
pub struct Create;

impl Scenario for Create {
    fn name(&self) -> &'static str {
        "semaphore-create"
    }

    fn about(&self) -> &'static str {
        "make a named semaphore: file, pages, header, permits, name"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("next", "domain open").map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let there = world.domain().join(&name).exists();
        if death.ended && !there {
            return Err(Failure::wrong("made and acknowledged, yet it is not there"));
        }
        world.saw(if there { "made" } else { "nothing made" });
        super::still_works(world, &name, 2, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let made = stage.perform(|| member::semaphore::open(&domain, place.name));
        made.map(drop)
    }
}
