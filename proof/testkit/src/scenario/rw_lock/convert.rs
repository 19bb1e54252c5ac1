//! From writing to reading and from reading to writing, with sleepers on both sides: all of them
//! get in, and what the victim was, reader or writer, decides whether the next process is told.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::{look, raise};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Convert {
    /// Writes, then reads on.
    Downgrade,
    /// Reads, then writes, once the other readers have left.
    Upgrade,
    /// Reads as the upgradable reader, then writes, once the other readers have left.
    UpgradeSurely,
    /// Writes, then reads on as the upgradable reader.
    DowngradeToUpgradable,
}

impl Convert {
    /// Whether it begins with reading.
    fn goes_up(self) -> bool {
        matches!(self, Convert::Upgrade | Convert::UpgradeSurely)
    }
}

impl Scenario for Convert {
    fn name(&self) -> &'static str {
        match self {
            Convert::Downgrade => "rwlock-downgrade",
            Convert::Upgrade => "rwlock-upgrade",
            Convert::UpgradeSurely => "rwlock-upgrade-surely",
            Convert::DowngradeToUpgradable => "rwlock-back-to-upgradable",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Convert::Downgrade => {
                "write, become a reader, give back, with a reader and a writer asleep"
            }
            Convert::Upgrade => {
                "become a writer when another reader leaves, give back, with a reader and a writer asleep"
            }
            Convert::UpgradeSurely => {
                "become a writer from the upgradable reader when another reader leaves, give back, with \
                 a reader and a writer asleep"
            }
            Convert::DowngradeToUpgradable => {
                "write, become the upgradable reader, a reader, give back, with a reader and a writer \
                 asleep"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.goes_up() {
            world.ask("bystander", &format!("rwlock hold-read {name}"))?;
        }
        for survivor in ["reader", "writer"] {
            world.ask(survivor, &format!("rwlock open {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        if !self.goes_up() {
            sleepers(world, &world.fresh(self.stem()))?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.goes_up() {
            sleepers(world, &name)?;
            world.ask("bystander", &format!("rwlock release {name}"))?;
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.goes_up() && !death.helped {
            // No longer kept out by the victim, which may have died as a reader.
            world.survivor("reader")?.tell(&format!("rwlock read {name}"))?;
            world.survivor("writer")?.tell(&format!("rwlock write {name}"))?;
            world.ask("bystander", &format!("rwlock release {name}"))?;
        }
        let mut told = 0;
        for survivor in ["reader", "writer"] {
            told += usize::from(super::count_answer(world, survivor)?);
        }
        if told > usize::from(!death.ended) {
            return Err(Failure::wrong(format!(
                "{told} were told of a death, ended: {}",
                death.ended
            )));
        }
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        if *self == Convert::UpgradeSurely {
            let reading = lock.upgradable_read().map_err(|error| error.to_string())?;
            stage.perform(|| {
                let mut writing = reading.upgrade().map_err(|refused| refused.to_string())?;
                raise(&mut writing);
                Ok(())
            })
        } else if *self == Convert::DowngradeToUpgradable {
            let mut writing = lock.write().map_err(|error| error.to_string())?;
            stage.perform(|| {
                raise(&mut writing);
                let refused = || "could not be downgraded".to_owned();
                let reading = writing.downgrade_to_upgradable().map_err(|_| refused())?;
                look(&reading)?;
                look(&*reading.downgrade().map_err(|_| refused())?)
            })
        } else if *self == Convert::Downgrade {
            let mut writing = lock.write().map_err(|error| error.to_string())?;
            stage.perform(|| {
                raise(&mut writing);
                let reading =
                    writing.downgrade().map_err(|_| "could not be downgraded".to_owned())?;
                look(&reading)
            })
        } else {
            let reading = lock.read().map_err(|error| error.to_string())?;
            stage.perform(|| {
                let mut writing = reading
                    .upgrade_until(outlive::Deadline::NEVER)
                    .map_err(|refused| refused.to_string())?;
                raise(&mut writing);
                Ok(())
            })
        }
    }
}

fn sleepers(world: &mut World, name: &str) -> Result<(), Failure> {
    world.survivor("reader")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
    world.survivor("writer")?.tell_and_see_asleep(&format!("rwlock write {name}"))
}
