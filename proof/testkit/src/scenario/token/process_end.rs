//! The end of a process by returning from main: destructors, the hand-over of the process's token,
//! `exit_group`.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct ProcessEnd;

impl Scenario for ProcessEnd {
    fn name(&self) -> &'static str {
        "token-process-end"
    }

    fn about(&self) -> &'static str {
        "a process with a thread's and a process's token returns from main; sleepers wait for both ends"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        world.ask("watcher", "token claim").map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let pid = world.victim_pid();
        world
            .survivor("of-thread")?
            .tell_and_see_asleep(&format!("token wait-dead thread {pid}"))?;
        world
            .survivor("of-process")?
            .tell_and_see_asleep(&format!("token wait-dead process {pid}"))?;
        world
            .survivor("of-process-too")?
            .tell_and_see_asleep(&format!("token wait-dead process {pid}"))
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // It waits for its own keeper, or for its threads to end.
        Ok(())
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        world.answer("of-thread")?;
        world.answer("of-process")?;
        world.answer("of-process-too")?;
        world.saw_many("told of an end", 3);
        super::none_alive(world)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let pid = world.victim_pid();
        let mut lives = false;
        for (what, who) in
            [("thread", &["of-thread"][..]), ("process", &["of-process", "of-process-too"])]
        {
            if world.passes("watcher", &format!("token alive {what} {pid}"))? == "0" {
                who.iter().try_for_each(|survivor| world.gets_past(survivor))?;
            } else {
                lives = true;
            }
        }
        Ok(if lives { "lives" } else { HOLDS_NOTHING })
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        stage.begin();
        Ok(())
    }

    fn check_world(&self, world: &mut World) -> Result<(), Failure> {
        super::none_lost(world)
    }
}
