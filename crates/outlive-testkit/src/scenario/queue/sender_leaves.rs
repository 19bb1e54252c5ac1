//! The last sender leaves, or is killed leaving, while the receiver sleeps until all senders are gone: it is told.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct SenderLeaves;

impl Scenario for SenderLeaves {
    fn name(&self) -> &'static str {
        "queue-sender-leaves"
    }

    fn about(&self) -> &'static str {
        "send one message and drop the only sender, the receiver asleep until all senders are gone"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("receiver", &format!("queue create {name} 65536 4"))?;
        world.ask("receiver", &format!("queue become-receiver {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let order = format!("queue recv-until-gone {}", world.fresh(self.stem()));
        world.survivor("receiver")?.tell_and_see_asleep(&order)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        world.death();
        match world.answer("receiver")?.as_str() {
            "1:1 gone" => Ok(()),
            other => Err(Failure::wrong(format!("the last sender has left, the receiver got `{other}`"))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.ended {
            match (world.answer("receiver")?.as_str(), death.acknowledged) {
                ("1:1 gone", _) | ("gone", 0) => {}
                (other, sent) => {
                    return Err(Failure::wrong(format!("{sent} were acknowledged, the receiver got `{other}`")));
                }
            }
        }
        world.saw("told that the senders are gone");
        super::still_works(world, "receiver", &name, 1)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if !stop.ended {
            world.passes("second", &format!("queue counters {name}"))?;
            return Ok("may be a sender still");
        }
        world.everybody_gets_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape { max_bytes: 64 << 10, first_slots: 4 }.create(&domain, place.name)?;
        let sender = queue.sender().map_err(|error| error.to_string())?;
        let message = Stamp { sender: 1, number: 1 }.message(48);
        stage.perform(|| {
            sender.send(&message).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            drop(sender);
            Ok(())
        })
    }
}
