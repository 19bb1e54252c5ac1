//! The last sender leaves, or is killed leaving, while the receiver sleeps until all senders are
//! gone: it is told.

use std::time::Duration;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, names_victim, passes_with};
use crate::world::World;

/// See the file's head.
pub struct SenderLeaves;

/// The mark of a round in which another has sent, and left, beside the stopped victim.
const SENT_BESIDE: &str = "second has sent beside it";

/// What the receiver got, without that.
fn got(world: &mut World) -> Result<String, Failure> {
    let answer = world.answer("receiver")?;
    if !world.has_done(SENT_BESIDE) {
        return Ok(answer);
    }
    let mut words: Vec<&str> = answer.split(' ').collect();
    let before = words.len();
    words.retain(|word| *word != "2:1");
    if words.len() + 1 == before {
        Ok(words.join(" "))
    } else {
        Err(Failure::wrong(format!("it got `{answer}`")))
    }
}

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
        match got(world)?.as_str() {
            "1:1 gone" => Ok(()),
            other => {
                Err(Failure::wrong(format!("the last sender has left, the receiver got `{other}`")))
            }
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.ended {
            match (got(world)?.as_str(), death.acknowledged) {
                ("1:1 gone", _) | ("gone", 0) => {}
                (other, sent) => {
                    return Err(Failure::wrong(format!(
                        "{sent} were acknowledged, the receiver got `{other}`"
                    )));
                }
            }
        }
        world.saw("told that the senders are gone");
        super::still_works(world, "receiver", &name, 1)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if !names_victim(world, &format!("queue senders {name}"))? {
            // The table of senders no longer has it: then the receiver does not wait for it.
            world.all_get_past()?;
            return Ok(HOLDS_NOTHING);
        }
        let is_writing = names_victim(world, &format!("queue writers {name}"))?;
        if world.first_time(SENT_BESIDE) {
            passes_with(world, "second", &format!("queue send {name} 2 1 1 48"), "sent")?;
            world.passes("second", &format!("queue leave-sender {name}"))?;
        }
        if is_writing {
            return Ok("holds its slot");
        }
        // Of what it has sent, and what others have, the receiver leaves nothing lying there.
        world.stop();
        while world.ask("witness", &format!("queue pending {name}"))? != "0" {
            world.is_in_time("the receiver is to take what lies there")?;
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok("is a sender")
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 4).create(&domain, place.name)?;
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
