//! Making a queue: a death leaves nothing, or the whole thing; the next to open it makes it or
//! finds it.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Create;

impl Scenario for Create {
    fn name(&self) -> &'static str {
        "queue-create"
    }

    fn about(&self) -> &'static str {
        "make a queue: file, pages, configuration, name"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("receiver", "domain open").map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let there = world.domain().join(&name).exists();
        if death.ended && !there {
            return Err(Failure::wrong("made and acknowledged, yet it is not there"));
        }
        world.saw(if there { "made" } else { "nothing made" });
        world.ask("receiver", &format!("queue create {name} 65536 4"))?;
        world.ask("receiver", &format!("queue become-receiver {name}"))?;
        super::still_works(world, "receiver", &name, 1)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("receiver", &format!("queue create {name} 65536 4"))?;
        world.passes("receiver", &format!("queue become-receiver {name}"))?;
        world.passes("second", &format!("queue counters {name}"))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let shape = Shape::growing(65536, 4);
        let made = stage.perform(|| shape.create(&domain, place.name));
        made.map(drop)
    }
}
