//! Making a named mutex.

use outlive::Domain;
use outlive::sync::Mutex;

use crate::failure::Failure;
use crate::scenario::Scenario;
use crate::scenario::create::{Create, Makes};
use crate::world::World;

struct OfTwoNumbers;

/// The scenario.
pub fn scenario() -> Box<dyn Scenario> {
    Create::<OfTwoNumbers>::scenario()
}

impl Makes for OfTwoNumbers {
    const NAME: &'static str = "segment-create";
    const ABOUT: &'static str = "make a named mutex: file, pages, header, value, name";
    type Thing = Mutex<[u64; 2]>;

    fn make(domain: &Domain, name: &str) -> Result<Mutex<[u64; 2]>, String> {
        Mutex::options([7, 7]).open_or_create(domain, name).map_err(|error| error.to_string())
    }

    fn still_works(world: &mut World, name: &str) -> Result<(), Failure> {
        super::still_works(world, &[name])
    }

    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure> {
        super::pass(world, &[name])
    }
}
