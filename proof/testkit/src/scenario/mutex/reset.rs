//! Resetting a lock that is not recoverable, with half a value inside: a process that gets in
//! without a warning finds a whole one.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

use super::recover::orphan;

/// See the file's head.
pub struct Reset;

impl Scenario for Reset {
    fn name(&self) -> &'static str {
        "mutex-reset"
    }

    fn about(&self) -> &'static str {
        "reset a lock that is not recoverable, with half a value inside"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        orphan(world, &name)?;
        world.ask("spoiler", &format!("mutex spoil {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // Says so itself when it gets in and finds two numbers that differ.
        super::is_refused_or_works(world, death, &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        stage.perform(|| {
            mutex.reset([5, 5]).map_err(|error| error.to_string())?;
            Ok(())
        })
    }
}
