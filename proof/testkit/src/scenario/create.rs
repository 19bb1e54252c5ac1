//! Making a thing with a name: a death leaves nothing, or the whole thing; the next process to open
//! it makes it or finds it.

use std::marker::PhantomData;

use outlive::Domain;

use super::{Death, Place, Scenario, Stop};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;

/// A kind of thing that is made.
pub(super) trait Makes: Send + Sync {
    /// The scenario's name.
    const NAME: &'static str;
    /// What is made, in one line.
    const ABOUT: &'static str;
    /// The survivor that has the domain open already.
    const OPENER: &'static str = "next";
    /// What the victim makes.
    type Thing;

    /// Makes it, in the victim.
    fn make(domain: &Domain, name: &str) -> Result<Self::Thing, String>;

    /// Whether it is there or not, survivors use it, and nothing is left in the end.
    fn still_works(world: &mut World, name: &str) -> Result<(), Failure>;

    /// Survivors use it beside the stopped victim; says what that holds.
    fn passes(world: &mut World, name: &str) -> Result<&'static str, Failure>;
}

/// Making one of that kind.
pub(super) struct Create<K>(PhantomData<K>);

impl<K: Makes + 'static> Create<K> {
    pub(super) fn scenario() -> Box<dyn Scenario> {
        Box::new(Create::<K>(PhantomData))
    }
}

impl<K: Makes> Scenario for Create<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn about(&self) -> &'static str {
        K::ABOUT
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask(K::OPENER, "domain open").map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let there = world.domain().join(&name).exists();
        if death.ended && !there {
            return Err(Failure::wrong("made and acknowledged, yet it is not there"));
        }
        world.saw(if there { "made" } else { "nothing made" });
        K::still_works(world, &name)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        K::passes(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let made = stage.perform(|| K::make(&domain, place.name));
        made.map(drop)
    }
}
