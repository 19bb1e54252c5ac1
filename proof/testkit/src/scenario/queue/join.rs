//! Receiving two messages as tasks and doing them, while another process waits in `join`: it waits
//! while a message is unread or is not done by a living process, and no longer, wherever the victim
//! dies.

use std::time::Duration;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct Join;

impl Scenario for Join {
    fn name(&self) -> &'static str {
        "queue-join"
    }

    fn about(&self) -> &'static str {
        "receive two messages as tasks and do them, another process waiting in join"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("filler", &format!("queue create {name} 65536 4"))?;
        world.ask("filler", &format!("queue send {name} 3 1 2 48")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let order = format!("queue join {}", world.fresh(self.stem()));
        world.survivor("second")?.tell_and_see_asleep(&order)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let unread = super::counters(world, "heir", &name)?.pending;
        if unread > 0 && world.survivor("second")?.has_answered(Duration::ZERO)? {
            return Err(Failure::wrong(format!("join returned, and {unread} are unread")));
        }
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let left = super::drain(world, "heir", &name)?;
        let answer = world.answer("second")?;
        if answer != "joined" {
            return Err(Failure::wrong(format!("the waiter is told `{answer}`")));
        }
        let handed = death.acknowledged;
        let lost = 2 - handed - left.len() as u64;
        if left.len() as u64 != unread || lost > 1 || (lost == 1 && death.ended) {
            return Err(Failure::wrong(format!(
                "{handed} were acknowledged, {unread} unread, and {} left",
                left.len()
            )));
        }
        super::adds_up(&super::counters(world, "heir", &name)?, 2, 0)?;
        world.saw_many("lost with its receiver", lost);
        super::still_works(world, "heir", &name, 1)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if super::pending(world, &name)? > 0 {
            return Ok("is the receiver");
        }
        if world.passes("witness", &format!("queue try-join {name}"))? != "joined" {
            return Ok("has a task");
        }
        world.gets_past("second")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 4).create(&domain, place.name)?;
        let tasks = queue.tasks().map_err(|error| error.to_string())?;
        let mut receiver = queue.receiver().map_err(|error| error.to_string())?;
        stage.perform(|| {
            for number in 1..=2 {
                let message = tasks.recv(&mut receiver).map_err(|error| error.to_string())?;
                let (wanted, got) = (Stamp { sender: 3, number }, Stamp::of(&message)?);
                if got != wanted {
                    return Err(format!("received {got:?} instead of {wanted:?}"));
                }
                stage.acknowledge(1);
                if !tasks.done() {
                    return Err("there was no task".to_owned());
                }
            }
            Ok(())
        })
    }
}
