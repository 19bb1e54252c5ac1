//! Giving the lock back while two writers and a reader sleep: all of them get in, whichever process
//! dies and whenever.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::rw_lock::raise;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unlock {
    /// The victim has read: a writer sleeps on its word, the others behind that one.
    Read,
    /// The victim has written.
    Write,
}

impl Scenario for Unlock {
    fn name(&self) -> &'static str {
        match self {
            Unlock::Read => "rwlock-leave",
            Unlock::Write => "rwlock-unlock",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Unlock::Read => "give back what was read, with two writers and a reader asleep",
            Unlock::Write => {
                "change what it guards and give it back, with two writers and a reader asleep"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for survivor in ["first", "second", "third"] {
            world.ask(survivor, &format!("rwlock open {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for (survivor, order) in [("first", "write"), ("second", "read"), ("third", "write")] {
            world.survivor(survivor)?.tell_and_see_asleep(&format!("rwlock {order} {name}"))?;
        }
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // The three run now or have run: given back is given back, whether or not the victim goes
        // on living.
        let name = world.fresh(self.stem());
        world.ask("next", &format!("rwlock write {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let mut told = 0;
        for survivor in ["first", "second", "third"] {
            told += usize::from(super::count_answer(world, survivor)?);
        }
        let most = usize::from(*self == Unlock::Write && !death.ended);
        if told > most {
            return Err(Failure::wrong(format!(
                "{told} were told of a death, ended: {}",
                death.ended
            )));
        }
        let name = world.fresh(self.stem());
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let lock = super::victims(place)?;
        if *self == Unlock::Read {
            let guard = lock.read().map_err(|error| error.to_string())?;
            stage.begin();
            drop(guard);
        } else {
            let mut guard = lock.write().map_err(|error| error.to_string())?;
            stage.begin();
            raise(&mut guard);
            drop(guard);
        }
        stage.end();
        Ok(())
    }
}
