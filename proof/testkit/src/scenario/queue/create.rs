//! Making a queue.

use outlive::Domain;
use outlive::queue::Queue;

use crate::failure::Failure;
use crate::scenario::create::{Create, Makes};
use crate::scenario::member::queue::Shape;
use crate::scenario::{HOLDS_NOTHING, Scenario};
use crate::world::World;

struct OfBytes;

/// The scenario.
pub fn scenario() -> Box<dyn Scenario> {
    Create::<OfBytes>::scenario()
}

impl Makes for OfBytes {
    const NAME: &'static str = "queue-create";
    const ABOUT: &'static str = "make a queue: file, pages, configuration, name";
    const OPENER: &'static str = "receiver";
    type Thing = Queue;

    fn make(domain: &Domain, name: &str) -> Result<Queue, String> {
        Shape::growing(65536, 4).create(domain, name)
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        world.ask("receiver", &format!("queue create {name} 65536 4"))?;
        world.ask("receiver", &format!("queue become-receiver {name}"))?;
        super::still_works(world, "receiver", name, 1)
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        world.passes("receiver", &format!("queue create {name} 65536 4"))?;
        world.passes("receiver", &format!("queue become-receiver {name}"))?;
        world.passes("second", &format!("queue counters {name}"))?;
        Ok(HOLDS_NOTHING)
    }
}
