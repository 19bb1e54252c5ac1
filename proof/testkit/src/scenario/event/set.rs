//! Setting a bit that two wait for: if it is set, both get through without the help of another
//! process, whenever the setter died. One of them may wait in a wait set, before the other or after
//! it: the kernel wakes the waiter that came first.

use outlive::sync::Reset;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::event;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, nothing_left};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// Both wait for the event alone.
    Plain,
    /// The first waits in a set.
    FirstAmongMany,
    /// The second waits in a set.
    LastAmongMany,
}

impl Scenario for Set {
    fn name(&self) -> &'static str {
        match self {
            Set::Plain => "event-set",
            Set::FirstAmongMany => "event-set-to-set-first",
            Set::LastAmongMany => "event-set-to-set-last",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Set::Plain => "set a bit of an event, with two sleepers",
            Set::FirstAmongMany => "the same, the first asleep in a wait set",
            Set::LastAmongMany => "the same, the second asleep in a wait set",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let how = |in_set: bool| if in_set { "wait-in-set" } else { "wait" };
        let (first, second) = (how(*self == Set::FirstAmongMany), how(*self == Set::LastAmongMany));
        world.survivor("first")?.tell_and_see_asleep(&format!("event {first} {name} 1"))?;
        world.survivor("second")?.tell_and_see_asleep(&format!("event {second} {name} 3"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let bits = world.ask("next", &format!("event bits {name}"))?;
        match (bits.as_str(), death.ended) {
            ("1", _) => world.saw("set"),
            ("0", false) => {
                world.saw("not set");
                world.ask("next", &format!("event set {name} 1"))?;
            }
            (other, _) => return Err(Failure::wrong(format!("the bits are {other}"))),
        }
        for survivor in ["first", "second"] {
            world.answer(survivor)?;
        }
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Set is set: then the waiters are through, without the help of another process.
        if world.passes("witness", &format!("event bits {name}"))? != "0" {
            world.all_get_past()?;
        }
        world.passes("next", &format!("event set {name} 1"))?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let event = event::event(&domain, place.name, Reset::Manual)?;
        stage.begin();
        event.set(1);
        stage.end();
        Ok(())
    }
}
