//! Waiting for a bit beside two others: whichever waiter dies, the others get through.

use outlive::sync::Reset;
use outlive::wait::WaitSet;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::event;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, nothing_left};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The bits stay.
    Manual,
    /// The same; the victim is in a wait set that watches an owner, too.
    InSet,
    /// One waiter takes each bit.
    Automatic,
}

impl Scenario for Wait {
    fn name(&self) -> &'static str {
        match self {
            Wait::Manual => "event-wait",
            Wait::InSet => "event-wait-in-set",
            Wait::Automatic => "event-wait-automatic",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Wait::Manual => "wait for a bit, with a sleeper before and one after",
            Wait::InSet => "the same in a wait set that watches somebody's end, too",
            Wait::Automatic => {
                "the same with automatic reset: wait for one of two bits and take it"
            }
        }
    }

    fn stem(&self) -> &'static str {
        if *self == Wait::Automatic { "auto" } else { "thing" }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let bits = if *self == Wait::Automatic { 2 } else { 1 };
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("event wait {name} {bits}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Wait::Manual | Wait::InSet => {
                world.survivor("late")?.tell_and_see_asleep(&format!("event wait {name} 1"))?;
                world.ask("setter", &format!("event set {name} 1")).map(drop)
            }
            Wait::Automatic => {
                // Each waits for a bit that no other process wants, but the victim, too, wants the
                // first bit to be set.
                world.survivor("late")?.tell_and_see_asleep(&format!("event wait {name} 1"))?;
                for bit in [1, 2, 4] {
                    world.ask("setter", &format!("event set {name} {bit}"))?;
                }
                Ok(())
            }
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        if *self == Wait::Automatic && world.first_time("set") {
            // The victim may have had the bit that the last waits for.
            world.ask("setter", &format!("event set {name} 1"))?;
        }
        world.answer("sleeper")?;
        world.answer("late")?;
        world.saw("through");
        nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        crate::scenario::help_beside(self, world, stop)?;
        if *self == Wait::Automatic && world.first_time("set") {
            // The victim may have had the bit that the last waits for.
            world.passes("setter", &format!("event set {name} 1"))?;
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let (reset, bits) = match self {
            Wait::Manual | Wait::InSet => (Reset::Manual, 1),
            Wait::Automatic => (Reset::Automatic, 5),
        };
        let event = event::event(&domain, place.name, reset)?;
        if *self == Wait::InSet {
            // It does not matter which process that is: the sleeper lives, and has a token.
            let mut others = domain
                .tokens()
                .into_iter()
                .filter(|token| token.alive && token.pid != std::process::id());
            let other = others.next().ok_or("nobody else is there")?;
            let mut set = WaitSet::new(&domain);
            set.set_wait_strategy(outlive::WaitStrategy::Block);
            set.add(&domain.peer(other.id)).map_err(|error| error.to_string())?;
            set.add(&event.any_of(bits)).map_err(|error| error.to_string())?;
            let ready = stage.perform(|| set.wait().map(|ready| ready.count()));
            return ready.map(drop).map_err(|error| error.to_string());
        }
        let got = stage.perform(|| event.wait_any(bits));
        got.map(drop).map_err(|error| error.to_string())
    }
}
