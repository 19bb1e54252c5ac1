//! Bringing an item and notifying, with two sleepers: once the call has returned, a sleeper comes
//! for the item; if the victim died before, the next process that locks and notifies finds all of
//! them well.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Notify {
    /// One item for one of the two.
    One,
    /// An item for each.
    All,
}

impl Notify {
    fn items(self) -> u64 {
        if self == Notify::One { 1 } else { 2 }
    }
}

impl Scenario for Notify {
    fn name(&self) -> &'static str {
        match self {
            Notify::One => "condvar-notify-one",
            Notify::All => "condvar-notify-all",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Notify::One => "bring an item and notify one of two sleepers",
            Notify::All => "bring two items and notify all, two sleepers",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["first", "second"] {
            world.survivor(survivor)?.tell_and_see_asleep(&format!("condvar take {name}"))?;
        }
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("next", &format!("condvar settle {name} 0")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.ended {
            // The operation was cut short: the next process to lock is told if the victim had the
            // mutex, and notifies.
            world.ask("next", &format!("condvar notify-all {name}"))?;
            world.ask("next", &format!("condvar settle {name} 0"))?;
            world.saw("cut short");
        }
        world.ask("next", &format!("condvar bring {name} 2"))?;
        world.answer("first")?;
        world.answer("second")?;
        super::still_works(world, self.stem())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        super::notified_by_another(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let shelf = super::victims(place)?;
        stage.perform(|| {
            let mut guard = shelf.lock()?;
            shelf.put(&mut guard, self.items());
            drop(guard);
            match self {
                Notify::One => shelf.delivered.notify_one(),
                Notify::All => shelf.delivered.notify_all(),
            }
            Ok(())
        })
    }
}
