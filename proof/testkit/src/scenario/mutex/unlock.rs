//! Unlock while two processes sleep on the lock: both get it, one after the other, whichever
//! process dies and whenever; at most the first is told that the owner died.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::mutex::raise;
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Unlock;

impl Scenario for Unlock {
    fn name(&self) -> &'static str {
        "mutex-unlock"
    }

    fn about(&self) -> &'static str {
        "change what it guards and unlock, with two sleepers"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("first", &format!("mutex open {name}"))?;
        world.ask("second", &format!("mutex open {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let order = format!("mutex use {}", world.fresh(self.stem()));
        world.survivor("first")?.tell_and_see_asleep(&order)?;
        world.survivor("second")?.tell_and_see_asleep(&order)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // The two run now or have run: unlocked is unlocked, whether or not the unlocker goes on
        // living.
        let name = world.fresh(self.stem());
        world.ask("next", &format!("mutex use {name}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let answers = [world.answer("first")?, world.answer("second")?];
        let told = answers.iter().filter(|answer| *answer == "died").count();
        if told > 1 || (death.ended && told > 0) {
            return Err(Failure::wrong(format!(
                "{told} were told that the owner died, ended: {}",
                death.ended
            )));
        }
        for answer in &answers {
            super::count(world, answer)?;
        }
        let name = world.fresh(self.stem());
        super::still_works(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::pass(world, &[&name])
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let mutex = super::victims(place)?;
        let mut guard = mutex.lock().map_err(|error| error.to_string())?;
        stage.begin();
        raise(&mut guard);
        drop(guard);
        stage.end();
        Ok(())
    }
}
