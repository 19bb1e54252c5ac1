//! Waiting for another thread's end, with a sleeper queued before and one after: whoever of the waiters dies when, the
//! others are told.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, Place, Scenario};
use crate::world::World;

/// See the file's head.
pub struct WaitDead;

impl Scenario for WaitDead {
    fn name(&self) -> &'static str {
        "peer-wait-dead"
    }

    fn about(&self) -> &'static str {
        "wait for another thread's end and be told, with a sleeper before and one after"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim")?;
        let tid = world.ask("mortal", "token start-thread")?;
        world.remember(tid.parse().map_err(|_| Failure::broken("no thread number"))?);
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("token wait-dead thread {tid}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let tid = world.remembered();
        world.survivor("late")?.tell_and_see_asleep(&format!("token wait-dead thread {tid}"))?;
        world.ask("mortal", &format!("token end-thread {tid}")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.helped {
            self.help(world)?;
        }
        world.answer("sleeper")?;
        world.answer("late")?;
        world.saw_many("told of an end", 2);
        super::none_alive(world)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        let tokens = domain.tokens();
        // The mortal thread is the newest living token but the victim's own.
        let own = std::process::id();
        let mortal = tokens
            .iter()
            .filter(|info| info.alive && info.pid != own && info.pid != info.tid)
            .min_by_key(|info| info.age)
            .ok_or("nobody to wait for")?;
        let peer = domain.peer(mortal.id);
        stage.begin();
        let waited = peer.wait_dead(outlive::Deadline::NEVER);
        stage.end();
        waited.map_err(|error| error.to_string())
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }
}
