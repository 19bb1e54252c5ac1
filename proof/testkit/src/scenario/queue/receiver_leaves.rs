//! A receiver leaves a full queue in good order while a sender waits: the queue goes on without
//! one, the sender waits for the next; cut short, it is told that the reader died.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
pub struct ReceiverLeaves;

impl Scenario for ReceiverLeaves {
    fn name(&self) -> &'static str {
        "queue-receiver-leaves"
    }

    fn about(&self) -> &'static str {
        "drop the receiver of a full queue, a sender waiting"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("filler", &format!("queue create {name} 65536 256"))?;
        let filled = world.ask("filler", &format!("queue fill {name} 3 48"))?;
        world.remember(filled.parse().map_err(|_| Failure::broken("fill answers no number"))?);
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let order = format!("queue send {} 2 1 1 48", world.fresh(self.stem()));
        world.survivor("second")?.tell_and_see_asleep(&order)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let mut all = super::seen(&world.ask("heir", &format!("queue drain {name} 4"))?)?;
        let sent = match (world.answer("second")?.as_str(), death.ended) {
            ("sent", _) => 1,
            ("receiver-died", false) => 0,
            (other, ended) => {
                return Err(Failure::wrong(format!(
                    "the second sender is told `{other}`, left in order: {ended}"
                )));
            }
        };
        world.saw(if sent == 1 {
            "waiting sender got room"
        } else {
            "waiting sender told that the reader died"
        });
        all.extend(super::drain(world, "heir", &name)?);
        let filled = world.remembered();
        let by_another = if world.has_done(super::TAKEN_BESIDE) { super::SOME } else { 0 };
        super::in_order(&all, 3, by_another + 1, filled, filled)?;
        super::in_order(&all, 2, 1, sent, sent)?;
        super::adds_up(&super::counters(world, "heir", &name)?, filled + sent, 0)?;
        super::still_works(world, "heir", &name, 2)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if names_victim(world, &format!("queue reader {name}"))? {
            return Ok("is the receiver");
        }
        super::another_receives(world, &name)?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 256).create(&domain, place.name)?;
        let receiver = queue.receiver().map_err(|error| error.to_string())?;
        stage.begin();
        drop(receiver);
        stage.end();
        Ok(())
    }
}
