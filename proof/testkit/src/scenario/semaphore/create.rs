//! Making a named semaphore, with all its permits.

use outlive::Domain;
use outlive::sync::Semaphore;

use crate::failure::Failure;
use crate::scenario::create::{Create, Makes};
use crate::scenario::{Scenario, member};
use crate::world::World;

struct OfTwo;

/// The scenario.
pub fn scenario() -> Box<dyn Scenario> {
    Create::<OfTwo>::scenario()
}

impl Makes for OfTwo {
    const NAME: &'static str = "semaphore-create";
    const ABOUT: &'static str = "make a named semaphore: file, pages, header, permits, name";
    type Thing = Semaphore;

    fn make(domain: &Domain, name: &str) -> Result<Semaphore, String> {
        member::semaphore::open(domain, name)
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        super::still_works(world, name, 2, &[name])
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        super::pass(world, name)
    }
}
