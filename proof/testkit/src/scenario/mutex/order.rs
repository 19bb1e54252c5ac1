//! Two locks, one inside the other, by a process that writes down in which order: whatever it
//! leaves of the record, others go on with it, and the opposite order is told.

use outlive::sync::LockError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::{Pair, raise};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Order;

impl Scenario for Order {
    fn name(&self) -> &'static str {
        "mutex-order"
    }

    fn about(&self) -> &'static str {
        "lock two, watching the order of locks: the record is made and added to"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for name in [&name, &inner(&name)] {
            world.ask("next", &format!("mutex open {name}"))?;
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let inner = inner(&name);
        for name in [&name, &inner] {
            let answer = world.ask("next", &format!("mutex use {name}"))?;
            super::count(world, &answer)?;
        }
        let told = world.ask("watcher", &format!("mutex order {inner} {name}"))?;
        match (death.ended, told.as_str()) {
            // A record that cannot be written down keeps no process from a lock.
            (true, "silent") if world.has_stop() => world.saw("not recorded"),
            (true, "silent") => {
                return Err(Failure::wrong("the order of one that had returned is not known"));
            }
            (_, "silent") => world.saw("not recorded"),
            _ => world.saw("recorded"),
        }
        // By now both orders are known in any case.
        let told = world.ask("another", &format!("mutex order {name} {inner}"))?;
        if told != "told" {
            return Err(Failure::wrong(format!(
                "locks taken both ways round, and the record is {told}"
            )));
        }
        world.ask("another", "mutex forget")?;
        super::still_works(world, &[&name, &inner])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name, &inner(&name)])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let outer = super::victims(place)?;
        let text = |error: outlive::Error| error.to_string();
        let domain = outlive::Domain::options()
            .lock_order(true)
            .open_or_create_at(place.domain)
            .map_err(text)?;
        let inner = outlive::sync::Mutex::<Pair>::options([0, 0])
            .open_or_create(&domain, &inner(place.name))
            .map_err(text)?;
        let failed = |error: LockError<_>| error.to_string();
        stage.perform(|| {
            let mut held = outer.lock().map_err(failed)?;
            raise(&mut held);
            drop(inner.lock().map_err(failed)?);
            drop(held);
            Ok(())
        })
    }
}

fn inner(name: &str) -> String {
    format!("{name}-inner")
}
