//! Making a named mutex: a death leaves nothing, or the whole thing; the next to open it makes it
//! or finds it.

use outlive::sync::Mutex;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Create;

impl Scenario for Create {
    fn name(&self) -> &'static str {
        "segment-create"
    }

    fn about(&self) -> &'static str {
        "make a named mutex: file, pages, header, value, name"
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
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let made = stage
            .perform(|| Mutex::<[u64; 2]>::options([7, 7]).open_or_create(&domain, place.name));
        made.map(drop).map_err(|error| error.to_string())
    }
}
