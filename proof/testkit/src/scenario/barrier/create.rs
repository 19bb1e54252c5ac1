//! Making a named barrier, with all its seats.

use outlive::Domain;
use outlive::sync::Barrier;

use crate::failure::Failure;
use crate::scenario::create::{Create, Makes};
use crate::scenario::{HOLDS_NOTHING, Scenario, member};
use crate::world::World;

struct OfThree;

/// The scenario.
pub fn scenario() -> Box<dyn Scenario> {
    Create::<OfThree>::scenario()
}

impl Makes for OfThree {
    const NAME: &'static str = "barrier-create";
    const ABOUT: &'static str = "make a named barrier: file, pages, header, seats, name";
    type Thing = Barrier;

    fn make(domain: &Domain, name: &str) -> Result<Barrier, String> {
        member::barrier::open(domain, name)
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        super::still_works(world, name, &[])
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        for order in ["join", "leave"] {
            world.passes("passer", &format!("barrier {order} {name}"))?;
        }
        Ok(HOLDS_NOTHING)
    }
}
