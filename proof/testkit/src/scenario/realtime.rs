//! The mutexes with priority inheritance, with a ceiling, and those that their owner locks again:
//! locked, unlocked beside sleepers, waited for and handed over, taken from a dead owner, recovered.
//! Each as its counterpart of the plain mutex.

use super::member::realtime::{Got, Kind, Mutex};
use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;
use outlive::Deadline;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    /// Open one that is there.
    Open,
    /// Lock, change, unlock, uncontended.
    Lock,
    /// Change and unlock, with two sleepers.
    Unlock,
    /// Wait, be handed it, unlock, with a sleeper after.
    Wait,
    /// Wait, have its owner killed, repair, unlock, with a sleeper after.
    OwnerDeath,
    /// Take a dead owner's, unlock without a repair, take it again, repair, unlock.
    Recover,
    /// Wait until a deadline, beside another sleeper.
    TimeOut,
}

struct Realtime {
    kind: Kind,
    operation: Operation,
    name: &'static str,
    about: &'static str,
}

/// Returns the scenarios of this file; the ceiling's only where priorities may be raised.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    use Kind::{Ceiling, Pi, Reentrant};
    use Operation::{Lock, Open, OwnerDeath, Recover, TimeOut, Unlock, Wait};
    let table = [
        (Pi, Open, "pi-open", "priority inheritance: open a mutex that is there"),
        (
            Pi,
            Lock,
            "pi-lock",
            "priority inheritance: lock, change what it guards, unlock, uncontended",
        ),
        (
            Pi,
            Unlock,
            "pi-unlock",
            "priority inheritance: change what it guards and unlock, with two sleepers",
        ),
        (
            Pi,
            Wait,
            "pi-wait",
            "priority inheritance: wait, be handed the lock, unlock, with a sleeper after it",
        ),
        (
            Pi,
            OwnerDeath,
            "pi-owner-death",
            "priority inheritance: wait, have the owner killed, repair, unlock",
        ),
        (
            Pi,
            Recover,
            "pi-recover",
            "priority inheritance: take a dead owner's lock, unlock, take it again, repair, unlock",
        ),
        (
            Pi,
            TimeOut,
            "pi-time-out",
            "priority inheritance: wait until a deadline, beside another sleeper",
        ),
        (Ceiling, Open, "ceiling-open", "ceiling: open a mutex that is there"),
        (
            Ceiling,
            Lock,
            "ceiling-lock",
            "ceiling: be raised, lock, change what it guards, unlock, be lowered",
        ),
        (
            Ceiling,
            Unlock,
            "ceiling-unlock",
            "ceiling: change what it guards and unlock, with two sleepers",
        ),
        (
            Ceiling,
            Wait,
            "ceiling-wait",
            "ceiling: wait, be handed the lock, unlock, with a sleeper after it",
        ),
        (
            Ceiling,
            OwnerDeath,
            "ceiling-owner-death",
            "ceiling: wait, have the owner killed, repair, unlock",
        ),
        (
            Ceiling,
            Recover,
            "ceiling-recover",
            "ceiling: take a dead owner's lock, unlock, take it again, repair, unlock",
        ),
        (Reentrant, Open, "reentrant-open", "reentrant: open a mutex that is there"),
        (
            Reentrant,
            Lock,
            "reentrant-lock",
            "reentrant: lock twice, change what it guards, unlock twice, uncontended",
        ),
        (
            Reentrant,
            Unlock,
            "reentrant-unlock",
            "reentrant: change what it guards and unlock twice, with two sleepers",
        ),
        (
            Reentrant,
            Wait,
            "reentrant-wait",
            "reentrant: wait, be handed the lock, lock again, unlock twice, with a sleeper after it",
        ),
        (
            Reentrant,
            OwnerDeath,
            "reentrant-owner-death",
            "reentrant: wait, have the owner killed that locked twice, lock again, repair, unlock twice",
        ),
        (
            Reentrant,
            Recover,
            "reentrant-recover",
            "reentrant: take a dead owner's lock, unlock, take it again, repair, unlock",
        ),
        (
            Reentrant,
            TimeOut,
            "reentrant-time-out",
            "reentrant: wait until a deadline, beside another sleeper",
        ),
    ];
    let may_raise = may_raise();
    table
        .into_iter()
        .filter(|(kind, ..)| may_raise || *kind != Ceiling)
        .map(|(kind, operation, name, about)| -> Box<dyn Scenario> {
            Box::new(Realtime { kind, operation, name, about })
        })
        .collect()
}

/// Returns whether this process may run at a real-time priority.
pub(super) fn may_raise() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: no pointers but to a place of ours.
    unsafe {
        libc::getrlimit(libc::RLIMIT_RTPRIO, &raw mut limit);
        libc::geteuid() == 0 || limit.rlim_cur >= 10
    }
}

impl Realtime {
    fn order(&self, verb: &str, name: &str) -> String {
        format!("{} {verb} {name}", self.kind.word())
    }

    fn count(world: &mut World, answer: &str) -> Result<(), Failure> {
        world.saw(match answer {
            "died" => "owner died",
            "clean" => "clean",
            other => return Err(Failure::wrong(format!("the lock was got `{other}`"))),
        });
        Ok(())
    }
}

impl Scenario for Realtime {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self.operation {
            Operation::Open | Operation::Lock => {
                world.ask("next", &self.order("open", &name)).map(drop)
            }
            Operation::Unlock => {
                world.ask("first", &self.order("open", &name))?;
                world.ask("second", &self.order("open", &name)).map(drop)
            }
            Operation::Wait | Operation::OwnerDeath => {
                world.ask("holder", &self.order("hold", &name)).map(drop)
            }
            Operation::Recover => {
                world.ask("holder", &self.order("hold", &name))?;
                world.dismiss("holder");
                Ok(())
            }
            Operation::TimeOut => {
                world.ask("holder", &self.order("hold", &name))?;
                world.survivor("first")?.tell_and_see_asleep(&self.order("use", &name))
            }
        }
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        if self.operation == Operation::Unlock {
            let order = self.order("use", &world.fresh(self.stem()));
            world.survivor("first")?.tell_and_see_asleep(&order)?;
            world.survivor("second")?.tell_and_see_asleep(&order)?;
        }
        Ok(())
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self.operation {
            Operation::Wait => {
                world.survivor("late")?.tell_and_see_asleep(&self.order("use", &name))?;
                world.ask("holder", &self.order("release", &name)).map(drop)
            }
            Operation::OwnerDeath => {
                world.survivor("late")?.tell_and_see_asleep(&self.order("use", &name))?;
                world.dismiss("holder");
                Ok(())
            }
            // Its deadline wakes it.
            Operation::TimeOut => Ok(()),
            _ => Err(Failure::Hang("the victim sleeps and nobody is there to wake it".to_owned())),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self.operation {
            Operation::Open | Operation::Lock | Operation::Recover => {}
            Operation::Unlock => {
                let answers = [world.answer("first")?, world.answer("second")?];
                let told = answers.iter().filter(|answer| *answer == "died").count();
                if told > 1 || (death.ended && told > 0) {
                    return Err(Failure::wrong(format!(
                        "{told} were told that the owner died, ended: {}",
                        death.ended
                    )));
                }
                for answer in &answers {
                    Realtime::count(world, answer)?;
                }
            }
            Operation::Wait | Operation::OwnerDeath => {
                if !death.helped {
                    self.help(world)?;
                }
                let answer = world.answer("late")?;
                Realtime::count(world, &answer)?;
            }
            Operation::TimeOut => {
                if world.first_time("release") {
                    world.ask("holder", &self.order("release", &name))?;
                }
                let answer = world.answer("first")?;
                if answer != "clean" {
                    return Err(Failure::wrong(format!(
                        "the sleeper got `{answer}`, the victim never held it"
                    )));
                }
            }
        }
        let answer = world.ask("next", &self.order("use", &name))?;
        if death.ended && answer != "clean" {
            return Err(Failure::wrong(format!("got `{answer}` after it had been given back")));
        }
        Realtime::count(world, &answer)?;
        for survivor in ["next", "another"] {
            let answer = world.ask(survivor, &self.order("use", &name))?;
            if answer != "clean" {
                return Err(Failure::wrong(format!(
                    "{survivor} got the lock `{answer}` after it had been repaired"
                )));
            }
        }
        super::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        match self.operation {
            Operation::Wait | Operation::OwnerDeath => super::help_beside(self, world, stop)?,
            Operation::TimeOut if world.first_time("release") => {
                world.passes("holder", &self.order("release", &name)).map(drop)?;
            }
            _ => {}
        }
        let held = super::held(world, &format!("{} holder", self.kind.word()), &[&name])?;
        world.others_get_past(&held)?;
        if !held.is_empty() {
            return Ok("holds the lock");
        }
        world.passes("passer", &self.order("use", &name))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        if self.operation == Operation::Open {
            return stage.perform(|| Mutex::open(self.kind, &domain, place.name).map(drop));
        }
        let mutex = Mutex::open(self.kind, &domain, place.name)?;
        let before = match self.operation {
            Operation::Unlock => Some(mutex.lock_until(Deadline::NEVER)?),
            _ => None,
        };
        stage.perform(|| {
            if self.operation == Operation::TimeOut {
                let soon = Deadline::after(std::time::Duration::from_millis(30));
                if mutex.lock_until(soon).is_ok() && !stage.is_overtaken() {
                    return Err("got a lock that is held".to_owned());
                }
                return Ok(());
            }
            let got = match before {
                Some(got) => got,
                None => mutex.lock_until(Deadline::NEVER)?,
            };
            let got = match (got, self.operation) {
                (Got::OwnerDied(guard), Operation::Recover) => {
                    drop(guard);
                    mutex.lock_until(Deadline::NEVER)?
                }
                (got, _) => got,
            };
            match (got, self.operation) {
                (Got::Clean(_), Operation::Recover) if !stage.is_overtaken() => {
                    return Err("was not told that the owner died".to_owned());
                }
                (Got::Clean(mut guard), _) => guard.raise(),
                // The other sleeper may have been quicker and have repaired it; here it was not.
                (Got::OwnerDied(mut guard), Operation::Recover | Operation::OwnerDeath) => {
                    guard.repair()
                }
                (Got::OwnerDied(_), _) => {
                    return Err("told that an owner died, and none had".to_owned());
                }
                (Got::NotRecoverable, _) => return Err("it was not recoverable".to_owned()),
            }
            Ok(())
        })
    }
}
