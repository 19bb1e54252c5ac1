//! A receiver comes to a full queue that has none, while a sender waits: once it makes room, or
//! dies, the sender is told; if it dies before it has come, the next receiver that comes frees the
//! sender. Where the queue keeps messages for the next receiver, and the one before is dead, the
//! sender is told of no death; what the victim gave back before its own is room at once.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim, passes_with};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ReceiverComes {
    /// There was none yet.
    First,
    /// The one before is dead, and the queue keeps messages.
    Next,
}

impl Scenario for ReceiverComes {
    fn name(&self) -> &'static str {
        match self {
            ReceiverComes::First => "queue-receiver-comes",
            ReceiverComes::Next => "queue-keep-receiver-comes",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            ReceiverComes::First => {
                "become the receiver of a full queue that has none and receive one, a sender waiting"
            }
            ReceiverComes::Next => {
                "become the receiver of a full queue that keeps messages after a receiver's death, and receive one, a sender waiting"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            ReceiverComes::First => {
                world.ask("filler", &format!("queue create {name} 65536 256"))?;
            }
            ReceiverComes::Next => {
                world.ask("old", &format!("queue create-keeping {name} 65536 256"))?;
                world.ask("old", &format!("queue become-receiver {name}"))?;
            }
        }
        let filled = world.ask("filler", &format!("queue fill {name} 3 48"))?;
        world.remember(filled.parse().map_err(|_| Failure::broken("fill answers no number"))?);
        if *self == ReceiverComes::Next {
            world.dismiss("old");
        }
        world.survivor("second")?.tell_and_see_asleep(&format!("queue send {name} 2 1 1 48"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let keeps = *self == ReceiverComes::Next;
        // A slot that was given back is room before another receiver comes.
        let has_room = keeps && super::counters(world, "heir", &name)?.received > 0;
        let early = if has_room { Some(world.answer("second")?) } else { None };
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let mut all = super::seen(&world.ask("heir", &format!("queue drain {name} 4"))?)?;
        let answer = match early {
            Some(answer) => answer,
            None => world.answer("second")?,
        };
        let sent = match answer.as_str() {
            "sent" => 1,
            "receiver-died" if !keeps => 0,
            other => return Err(Failure::wrong(format!("the second sender is told `{other}`"))),
        };
        world.saw(if sent == 1 {
            "waiting sender got room"
        } else {
            "waiting sender told that the reader died"
        });
        all.extend(super::drain(world, "heir", &name)?);
        let filled = world.remembered();
        let first = super::numbers(&all, 3).first().copied().unwrap_or(0);
        super::in_order(&all, 3, first, filled, filled)?;
        super::in_order(&all, 2, 1, sent, sent)?;
        let by_another = if world.has_done(super::TAKEN_BESIDE) { super::SOME } else { 0 };
        let lost = first.wrapping_sub(by_another + death.acknowledged + 1);
        if lost > u64::from(!death.ended) {
            return Err(Failure::wrong(format!(
                "{} received, the next begins at {first}",
                death.acknowledged
            )));
        }
        super::adds_up(&super::counters(world, "heir", &name)?, filled + sent, 0)?;
        world.saw_many("lost with its receiver", lost);
        super::still_works(world, "heir", &name, 2)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if names_victim(world, &format!("queue reader {name}"))? {
            passes_with(world, "heir", &format!("queue become-receiver {name}"), "taken")?;
            return super::room_is_used(world, &name);
        }
        // It has not come: another does, makes room, and leaves.
        super::another_receives(world, &name)?;
        world.passes("heir", &format!("queue leave-receiver {name}"))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 256).create(&domain, place.name)?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        let came = stage.perform(|| -> Result<_, String> {
            let mut receiver = queue.receiver().map_err(|error| error.to_string())?;
            let message = receiver.recv().map_err(|error| error.to_string())?;
            Stamp::of(&message)?;
            stage.acknowledge(1);
            Ok(receiver)
        });
        came.map(drop)
    }
}
