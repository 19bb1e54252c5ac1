//! Taking the lock and giving it back with no other process near: a dead reader concerns no other
//! process, and the next process is told of a dead writer.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::{look, raise};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Uncontended {
    /// To read, beside another reader.
    Read,
    /// To write, alone; another has read before.
    Write,
    /// As the upgradable reader, alone, which becomes the writer and comes back.
    Upgradable,
}

impl Scenario for Uncontended {
    fn name(&self) -> &'static str {
        match self {
            Uncontended::Read => "rwlock-read",
            Uncontended::Write => "rwlock-write",
            Uncontended::Upgradable => "rwlock-upgradable",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Uncontended::Read => "read and give back, twice, beside another reader",
            Uncontended::Write => "write and give back, uncontended",
            Uncontended::Upgradable => {
                "read as the upgradable reader, write, come back, become a reader, give back, uncontended"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let order = if *self == Uncontended::Read { "hold-read" } else { "read" };
        world.ask("bystander", &format!("rwlock {order} {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Uncontended::Read {
            // The bystander reads on: others may read beside it, whatever became of the victim.
            for order in ["read", "write"] {
                let answer = world.ask("next", &format!("rwlock {order} {name}"))?;
                if answer != "clean" {
                    return Err(Failure::wrong(format!(
                        "{order} was got `{answer}`, though no writer died"
                    )));
                }
                super::count(world, &answer)?;
                if order == "read" && world.first_time("release") {
                    world.ask("bystander", &format!("rwlock release {name}"))?;
                }
            }
        } else {
            let answer = world.ask("next", &format!("rwlock read {name}"))?;
            if death.ended && answer != "clean" {
                return Err(Failure::wrong("told that the owner died, after it had unlocked"));
            }
            super::count(world, &answer)?;
        }
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Uncontended::Read {
            // Whether or not the victim reads, others do.
            world.passes("passer", &format!("rwlock read {name}"))?;
            if world.first_time("release") {
                world.passes("bystander", &format!("rwlock release {name}"))?;
            }
        }
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        stage.perform(|| {
            if *self == Uncontended::Read {
                // The first marks its line; the second is the fast path.
                for _ in 0..2 {
                    let guard = lock.read().map_err(|error| error.to_string())?;
                    look(&guard)?;
                }
            } else if *self == Uncontended::Upgradable {
                let reading = lock.upgradable_read().map_err(|error| error.to_string())?;
                look(&reading)?;
                let mut writing = reading.upgrade().map_err(|refused| refused.to_string())?;
                raise(&mut writing);
                let refused = || "could not be downgraded".to_owned();
                let reading = writing.downgrade_to_upgradable().map_err(|_| refused())?;
                look(&reading)?;
                look(&*reading.downgrade().map_err(|_| refused())?)?;
            } else {
                let mut guard = lock.write().map_err(|error| error.to_string())?;
                raise(&mut guard);
            }
            Ok(())
        })
    }
}
