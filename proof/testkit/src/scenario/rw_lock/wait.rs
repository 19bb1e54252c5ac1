//! Waiting for the lock, being let in, giving it back, with two sleepers of each kind queued before
//! and after: all of them get in, whichever sleeper was woken and died.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::{look, raise};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// The victim reads, behind a writer.
    Read,
    /// The victim writes, behind two readers.
    Write,
}

impl Scenario for Wait {
    fn name(&self) -> &'static str {
        match self {
            Wait::Read => "rwlock-read-wait",
            Wait::Write => "rwlock-write-wait",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Wait::Read => {
                "wait behind a writer, read, give back; a reader and a writer asleep before it, two after it"
            }
            Wait::Write => {
                "wait for two readers to leave, write, give back; readers and a writer asleep after it"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Wait::Read {
            world.ask("holder", &format!("rwlock hold-write {name}"))?;
            world.survivor("reader")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
            world.survivor("writer")?.tell_and_see_asleep(&format!("rwlock write {name}"))
        } else {
            world.ask("holder", &format!("rwlock hold-read {name}"))?;
            world.ask("bystander", &format!("rwlock hold-read {name}")).map(drop)
        }
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Wait::Write {
            world.survivor("writer")?.tell_and_see_asleep(&format!("rwlock write {name}"))?;
            world.survivor("reader")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
        }
        world.survivor("late")?.tell_and_see_asleep(&format!("rwlock read {name}"))?;
        world.survivor("later")?.tell_and_see_asleep(&format!("rwlock write {name}"))?;
        world.ask("holder", &format!("rwlock release {name}"))?;
        if *self == Wait::Write {
            world.ask("bystander", &format!("rwlock release {name}"))?;
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        let mut told = 0;
        for survivor in ["reader", "writer", "late", "later"] {
            told += usize::from(super::count_answer(world, survivor)?);
        }
        let name = world.fresh(self.stem());
        // They may all have been first; then the next process is told of the victim.
        let answer = world.ask("next", &format!("rwlock read {name}"))?;
        told += usize::from(answer == "died");
        super::count(world, &answer)?;
        if told > 1 || (death.ended && told > 0) {
            return Err(Failure::wrong(format!(
                "{told} were told of a death, ended: {}",
                death.ended
            )));
        }
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        stage.perform(|| {
            if *self == Wait::Read {
                let guard = lock.read().map_err(|error| error.to_string())?;
                look(&guard)?;
            } else {
                let mut guard = lock.write().map_err(|error| error.to_string())?;
                raise(&mut guard);
            }
            Ok(())
        })
    }
}
