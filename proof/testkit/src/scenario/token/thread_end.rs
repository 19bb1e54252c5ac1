//! The end of a thread whose process lives on: a process that waits for the thread is told; one
//! that waits for the process is not, until that ends too.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct ThreadEnd;

impl Scenario for ThreadEnd {
    fn name(&self) -> &'static str {
        "token-thread-end"
    }

    fn about(&self) -> &'static str {
        "a thread with a token ends, its process lives on; sleepers wait for both ends"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim").map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let (pid, tid) = (world.victim_pid(), world.victim_tid());
        world
            .survivor("of-thread")?
            .tell_and_see_asleep(&format!("token wait-dead thread {tid}"))?;
        world
            .survivor("of-thread-too")?
            .tell_and_see_asleep(&format!("token wait-dead thread {tid}"))?;
        world.survivor("of-process")?.tell_and_see_asleep(&format!("token wait-dead process {pid}"))
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        world.death();
        world.answer("of-thread")?;
        world.answer("of-thread-too")?;
        // Its process lives, and no process is told otherwise.
        let pid = world.victim_pid();
        match world.ask("watcher", &format!("token alive process {pid}"))?.as_str() {
            "1" => Ok(()),
            other => Err(Failure::wrong(format!("the living process has {other} living tokens"))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        if !death.ended {
            world.answer("of-thread")?;
            world.answer("of-thread-too")?;
        }
        world.answer("of-process")?;
        world.saw_many("told of an end", 3);
        super::none_alive(world)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let (pid, tid) = (world.victim_pid(), world.victim_tid());
        if world.passes("watcher", &format!("token alive thread {tid}"))? != "0" {
            return Ok("lives");
        }
        world.others_get_past(&[&pid.to_string()])?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.process_token().map_err(|error| error.to_string())?;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                domain.token().expect("a token for the thread that is to end");
                stage.begin();
            });
        });
        // Scoped threads have been joined here. Stays until it is killed.
        loop {
            std::thread::park();
        }
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }
}
