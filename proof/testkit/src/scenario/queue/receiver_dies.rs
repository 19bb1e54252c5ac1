//! The receiver is killed while senders wait for room: all of them are told, whichever of them dies
//! and whenever, and the next receiver finds everything that was sent.

use outlive::SendError;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct ReceiverDies;

impl Scenario for ReceiverDies {
    fn name(&self) -> &'static str {
        "queue-receiver-dies"
    }

    fn about(&self) -> &'static str {
        "wait for room in a full queue and be told of the receiver's SIGKILL, beside another waiting sender"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("receiver", &format!("queue create {name} 65536 4"))?;
        world.ask("receiver", &format!("queue become-receiver {name}"))?;
        let filled = world.ask("filler", &format!("queue fill {name} 3 48"))?;
        world.remember(filled.parse().map_err(|_| Failure::broken("fill answers no number"))?);
        world.survivor("second")?.tell_and_see_asleep(&format!("queue send {name} 2 1 1 48"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        world.dismiss("receiver");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        let answer = world.answer("second")?;
        if answer != "receiver-died" {
            return Err(Failure::wrong(format!("the second sender is told `{answer}`")));
        }
        world.saw("told that the reader died");
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let all = super::drain(world, "heir", &name)?;
        let filled = world.remembered();
        super::in_order(&all, 3, 1, filled, filled)?;
        super::adds_up(&super::counters(world, "heir", &name)?, filled, 0)?;
        super::still_works(world, "heir", &name, 1)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 4).create(&domain, place.name)?;
        let sender = queue.sender().map_err(|error| error.to_string())?;
        let message = Stamp { sender: 1, number: 1 }.message(48);
        stage.perform(|| {
            match sender.send(&message) {
                Err(SendError::ReceiverDied) => {}
                other => return Err(format!("told {other:?} instead of the reader's death")),
            }
            Ok(())
        })
    }
}
