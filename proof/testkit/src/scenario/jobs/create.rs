//! Making a job queue.

use outlive::Domain;
use outlive::jobs::JobQueue;

use crate::failure::Failure;
use crate::scenario::create::{Create, Makes};
use crate::scenario::{HOLDS_NOTHING, Scenario, member};
use crate::world::World;

struct OfNumbers;

/// The scenario.
pub fn scenario() -> Box<dyn Scenario> {
    Create::<OfNumbers>::scenario()
}

impl Makes for OfNumbers {
    const NAME: &'static str = "jobs-create";
    const ABOUT: &'static str = "make a job queue: file, pages, header, words, name";
    type Thing = JobQueue<u64>;

    fn make(domain: &Domain, name: &str) -> Result<JobQueue<u64>, String> {
        member::jobs::open(domain, name)
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        super::still_works(world, name)
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        world.passes("passer", &format!("jobs put {name} 3"))?;
        world.passes("passer", &format!("jobs take {name}"))?;
        Ok(HOLDS_NOTHING)
    }
}
