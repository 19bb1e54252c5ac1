//! Making a domain: its folder and its registry of tokens. A death leaves nothing, or what the next
//! one completes.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Create;

impl Scenario for Create {
    fn name(&self) -> &'static str {
        "domain-create"
    }

    fn about(&self) -> &'static str {
        "make a domain: folder, registry, name"
    }

    fn prepare(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let registry = world.domain().join(".tokens").exists();
        if death.ended && !registry {
            return Err(Failure::wrong("made and acknowledged, yet it is not there"));
        }
        world.saw(if registry { "made" } else { "nothing made" });
        for survivor in ["opener", "another"] {
            world.ask(survivor, "mutex use m")?;
        }
        crate::scenario::nothing_left(world, &["m"])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        world.passes("opener", "mutex use m")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let opened = stage.perform(|| place.open());
        opened.map(drop)
    }

    fn rounds_per_world(&self) -> u64 {
        1
    }
}
