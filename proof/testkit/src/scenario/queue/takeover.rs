//! Taking over from a dead receiver that had a message in hand: cut short anywhere, the next one
//! takes over; the message comes again, marked. While a successor lives, no other process becomes
//! the receiver.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
pub struct Takeover;

impl Scenario for Takeover {
    fn name(&self) -> &'static str {
        "queue-takeover"
    }

    fn about(&self) -> &'static str {
        "become the receiver after one that was killed with a message in hand, peek and commit that message"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("filler", &format!("queue create {name} 65536 4"))?;
        world.ask("old", &format!("queue become-receiver {name}"))?;
        world.ask("filler", &format!("queue send {name} 3 1 4 48"))?;
        world.ask("old", &format!("queue peek {name}"))?;
        world.dismiss("old");
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match world.ask("heir", &format!("queue become-receiver {name}"))?.as_str() {
            "taken" => Ok(()),
            other => Err(Failure::wrong(format!(
                "a second receiver is told `{other}` while the first lives"
            ))),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let answer = world.ask("filler", &format!("queue send {name} 3 5 1 48"))?;
        if answer != "receiver-died" {
            return Err(Failure::wrong(format!(
                "the sender is told `{answer}`, its receiver is dead"
            )));
        }
        let answer = world.ask("heir", &format!("queue become-receiver {name}"))?;
        if answer != "mine" {
            return Err(Failure::wrong(format!(
                "the queue's receiver is dead, yet it is `{answer}`"
            )));
        }
        let all = super::drain(world, "heir", &name)?;
        let first = super::numbers(&all, 3).first().copied().unwrap_or(0);
        super::in_order(&all, 3, first, 4, 4)?;
        let handed = death.acknowledged;
        // Until it is committed, the message comes again and is marked each time. Just after the
        // commit nothing is marked: no receiver had the next message in hand.
        let marked: Vec<u64> =
            all.iter().filter(|seen| seen.redelivered).map(|seen| seen.stamp.number).collect();
        let right = match first {
            1 => marked == [1] && !death.ended,
            2 => marked.is_empty() && handed == 1,
            _ => false,
        };
        if !right {
            return Err(Failure::wrong(format!(
                "{handed} were acknowledged, the next receiver got {all:?}"
            )));
        }
        let counted = super::counters(world, "heir", &name)?;
        super::adds_up(&counted, 4, 0)?;
        world.saw_many("redelivered", marked.len() as u64);
        super::still_works(world, "heir", &name, 1)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        world.passes("filler", &format!("queue counters {name}"))?;
        if !names_victim(world, &format!("queue reader {name}"))? {
            // Another may come in its place; and dies, so that it is as it was.
            let answer = world.passes("passer", &format!("queue become-receiver {name}"))?;
            world.dismiss("passer");
            return if answer == "mine" {
                Ok(HOLDS_NOTHING)
            } else {
                Err(Failure::wrong("the dead one receives still"))
            };
        }
        match world.passes("heir", &format!("queue become-receiver {name}"))?.as_str() {
            "taken" => Ok("is the receiver"),
            other => Err(Failure::wrong(format!(
                "a second receiver is told `{other}` while the first stands still"
            ))),
        }
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 4).create(&domain, place.name)?;
        domain.token().map_err(|error| error.to_string())?;
        domain.process_token().map_err(|error| error.to_string())?;
        let came = stage.perform(|| {
            let mut receiver = queue.receiver().map_err(|error| error.to_string())?;
            let peeked = receiver.peek().map_err(|error| error.to_string())?;
            if Stamp::of(&peeked)? != (Stamp { sender: 3, number: 1 }) || !peeked.redelivered() {
                return Err(
                    "the message that the dead receiver had is not handed out again, marked"
                        .to_owned(),
                );
            }
            stage.acknowledge(1);
            peeked.commit();
            Ok(receiver)
        });
        came.map(drop)
    }
}
