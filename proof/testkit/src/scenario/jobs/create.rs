//! Making a job queue: a death leaves nothing, or the whole thing.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, member};
use crate::world::World;

/// See the file's head.
pub struct Create;

impl Scenario for Create {
    fn name(&self) -> &'static str {
        "jobs-create"
    }

    fn about(&self) -> &'static str {
        "make a job queue: file, pages, header, words, name"
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
        super::still_works(world, &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("passer", &format!("jobs put {name} 3"))?;
        world.passes("passer", &format!("jobs take {name}"))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let made = stage.perform(|| member::jobs::open(&domain, place.name));
        made.map(drop)
    }
}
