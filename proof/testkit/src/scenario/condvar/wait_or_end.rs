//! Waiting for an item or for the end of the process that brings it. The victim waits like that,
//! beside others that do; or it is the process that brings.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// The victim waits; the supplier is killed.
pub struct Watching;

impl Scenario for Watching {
    fn name(&self) -> &'static str {
        "condvar-wait-or-end"
    }

    fn about(&self) -> &'static str {
        "wait for an item or the supplier's end, be woken by its SIGKILL, with a watcher before and one after it"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("supplier", &format!("condvar supply {name}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("condvar take-or-end {name}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("late")?.tell_and_see_asleep(&format!("condvar take-or-end {name}"))?;
        world.dismiss("supplier");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        for survivor in ["sleeper", "late"] {
            let answer = world.answer(survivor)?;
            if answer != "ended" {
                return Err(Failure::wrong(format!(
                    "{survivor} was told `{answer}`, and nobody brought anything"
                )));
            }
        }
        world.saw("told of the end");
        super::still_works(world, self.stem())
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        if super::has_mutex(world, self.stem())? {
            return Ok("holds the lock");
        }
        crate::scenario::help_beside(self, world, stop)?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let shelf = super::victims(place)?;
        let supplier = shelf.supplier(&place.open()?)?;
        let taken = stage.perform(|| shelf.take_or_end(&supplier));
        if taken? { Err("took what nobody brought".to_owned()) } else { Ok(()) }
    }
}

/// The victim is the supplier.
pub struct Watched;

impl Scenario for Watched {
    fn name(&self) -> &'static str {
        "condvar-supplier"
    }

    fn about(&self) -> &'static str {
        "bring an item and notify, with two who watch the victim's end: both are through, whenever it ends"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("first", &format!("condvar open {name}"))?;
        world.ask("second", &format!("condvar open {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["first", "second"] {
            world
                .survivor(survivor)?
                .tell_and_see_asleep(&format!("condvar take-or-end {name}"))?;
        }
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("next", &format!("condvar settle {name} 0")).map(drop)
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let mut taken = 0;
        for survivor in ["first", "second"] {
            taken += u64::from(world.answer(survivor)? == "taken");
        }
        if taken > 1 {
            return Err(Failure::wrong("one item was taken twice"));
        }
        world.saw(if taken == 1 { "taken" } else { "nothing brought" });
        super::still_works(world, self.stem())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        super::notified_by_another(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let shelf = super::victims(place)?;
        shelf.supply();
        stage.perform(|| {
            let mut guard = shelf.lock()?;
            shelf.put(&mut guard, 1);
            drop(guard);
            shelf.delivered.notify_one();
            Ok(())
        })
    }
}
