//! Sending while the receiver sleeps and another sender stands by: what was acknowledged arrives,
//! whole and in order, without further help from any process; what was not arrives whole or not at
//! all.
//!
//! Small messages lie in their slot; large ones (5,000 bytes) in objects; growing ones find the
//! first region full; a batch arrives whole or not at all.
//!
//! The *last* message takes all the memory there is: its sender, killed before it has woken the
//! receiver, leaves the next sender without room and the receiver asleep; the next sender has to
//! see to both.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Send {
    /// Two messages that lie in their slots.
    Small,
    /// Two messages in objects.
    Large,
    /// Two messages that find all slots taken.
    Growing,
    /// Three messages in one step.
    Batch,
    /// One message that leaves no room for another.
    Last,
    /// Two messages to a receiver that sleeps in a wait set.
    ToSet,
    /// Two messages to a receiver that sleeps on the doorbell of a large wait set.
    ToLargeSet,
}

impl Send {
    fn attempted(self) -> u64 {
        match self {
            Send::Batch => 3,
            Send::Last => 1,
            _ => 2,
        }
    }

    fn length(self) -> usize {
        match self {
            Send::Large => 5000,
            Send::Last => 100_000,
            _ => 48,
        }
    }

    fn shape(self) -> Shape {
        let (max_bytes, first_slots) = match self {
            Send::Growing => (1 << 20, 4),
            Send::Last => (224 << 10, 64),
            _ => (1 << 20, 64),
        };
        Shape::growing(max_bytes, first_slots)
    }

    /// What the second sender sends then: from which number on, how many, of which length.
    fn of_the_second(self) -> (u64, u64, usize) {
        let first = self.waiting() + 1;
        if self == Send::Last { (first, 1, 100_000) } else { (first, 2, 48) }
    }

    /// Messages of the second sender's that lie there before.
    fn waiting(self) -> u64 {
        if self == Send::Growing { 4 } else { 0 }
    }
}

impl Scenario for Send {
    fn name(&self) -> &'static str {
        match self {
            Send::Small => "queue-send-small",
            Send::Large => "queue-send-large",
            Send::Growing => "queue-send-growing",
            Send::Batch => "queue-send-batch",
            Send::Last => "queue-send-last",
            Send::ToSet => "queue-send-to-set",
            Send::ToLargeSet => "queue-send-to-large-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Send::Small => "send two messages of 48 bytes, the receiver asleep",
            Send::Large => "send two messages of 5,000 bytes, the receiver asleep",
            Send::Growing => {
                "send two messages to a queue whose slots are all taken, so that it grows"
            }
            Send::Batch => "send three messages in one step, the receiver asleep",
            Send::Last => "send 100,000 bytes for which there is room once, the receiver asleep",
            Send::ToSet => "send two messages of 48 bytes, the receiver asleep in a wait set",
            Send::ToLargeSet => "send two messages of 48 bytes, the receiver asleep in a large set",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let shape = self.shape().words();
        world.ask("receiver", &format!("queue create {name} {shape}"))?;
        world.ask("receiver", &format!("queue become-receiver {name}"))?;
        world.ask("second", &format!("queue enter-sender {name}"))?;
        if *self == Send::Growing {
            world.ask("second", &format!("queue send {name} 2 1 {} 48", self.waiting())).map(drop)
        } else {
            let recv = match self {
                Send::ToSet => "recv-in-set",
                Send::ToLargeSet => "recv-in-large-set",
                _ => "recv",
            };
            world.survivor("receiver")?.tell_and_see_asleep(&format!("queue {recv} {name}"))
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut all = Vec::new();
        let asleep = *self != Send::Growing;
        if asleep && death.acknowledged > 0 {
            // The message is acknowledged, so the receiver has been woken: no process has sent
            // anything since.
            all.extend(super::seen(&world.answer("receiver")?)?);
        }
        let (first, count, length) = self.of_the_second();
        if world.first_time("second sends") {
            world
                .survivor("second")?
                .tell(&format!("queue send {name} 2 {first} {count} {length}"))?;
        }
        if asleep && death.acknowledged == 0 {
            all.extend(super::seen(&world.answer("receiver")?)?);
        }
        let answer = world.answer("second")?;
        if answer != "sent" {
            return Err(Failure::wrong(format!("the second sender's message is `{answer}`")));
        }
        all.extend(super::drain(world, "receiver", &name)?);
        let arrived = super::in_order(&all, 1, 1, death.acknowledged, self.attempted())?;
        let last = first + count - 1;
        super::in_order(&all, 2, 1, last, last)?;
        if *self == Send::Batch && arrived != 0 && arrived != 3 {
            return Err(Failure::wrong(format!("{arrived} messages of a batch of 3 arrived")));
        }
        let counted = super::counters(world, "receiver", &name)?;
        super::adds_up(&counted, all.len() as u64, u64::from(!death.ended))?;
        world.saw_many("arrived", arrived);
        world.saw_many("arrived unacknowledged", arrived - death.acknowledged);
        world.saw_many("abandoned", counted.abandoned);
        if *self == Send::Large {
            no_object_leaked(world, &name, last + 1)?;
            return super::still_works(world, "receiver", &name, last + 13);
        }
        super::still_works(world, "receiver", &name, last + 1)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let waits = *self != Send::Growing;
        // The message is there for every process, or it is not: no other process has to come before
        // the receiver gets it.
        if waits && super::pending(world, &name)? > 0 {
            world.gets_past("receiver")?;
        }
        let is_writing = names_victim(world, &format!("queue writers {name}"))?;
        // Its message takes all memory there is, also before it is sent.
        if *self == Send::Last && names_victim(world, &format!("queue memory-holders {name}"))? {
            return Ok("holds the memory");
        }
        let (first, count, length) = self.of_the_second();
        if world.first_time("second sends") {
            world
                .survivor("second")?
                .tell(&format!("queue send {name} 2 {first} {count} {length}"))?;
            world.stop();
        }
        world.gets_past("second")?;
        if waits && !is_writing {
            world.gets_past("receiver")?;
        }
        Ok(if is_writing { "holds its slot" } else { HOLDS_NOTHING })
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = self.shape().create(&domain, place.name)?;
        let sender = queue.sender().map_err(|error| error.to_string())?;
        let messages: Vec<Vec<u8>> = (1..=self.attempted())
            .map(|number| Stamp { sender: 1, number }.message(self.length()))
            .collect();
        stage.perform(|| {
            if *self == Send::Batch {
                sender.send_batch(&messages).map_err(|error| error.to_string())?;
                stage.acknowledge(3);
            } else {
                for message in &messages {
                    sender.send(message).map_err(|error| error.to_string())?;
                    stage.acknowledge(1);
                }
            }
            Ok(())
        })
    }
}

/// After a sweep all objects are free: twelve messages find room in the memory that the first four
/// made the queue take (memory for objects of this size comes in steps of twelve).
fn no_object_leaked(world: &mut World, name: &str, first: u64) -> Result<(), Failure> {
    world.ask("sweeper", "domain sweep")?;
    world.ask("second", &format!("queue send {name} 2 {first} 1 5000"))?;
    super::drain(world, "receiver", name)?;
    let before = super::counters(world, "receiver", name)?.bytes;
    world.ask("second", &format!("queue send {name} 2 {} 11 5000", first + 1))?;
    let after = super::counters(world, "receiver", name)?.bytes;
    super::drain(world, "receiver", name)?;
    if before == after {
        Ok(())
    } else {
        Err(Failure::wrong(format!(
            "objects are lost: eleven messages grew the queue from {before} to {after} bytes"
        )))
    }
}
