//! Receiving from a full queue while a sender waits for room, and dying in it: the sender is told
//! at once, the next receiver goes on where this one stopped. By `peek` and `commit` nothing is
//! lost, and what may have been acted on is marked; by `recv` at most the message that was
//! committed and not yet returned.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, Place, Scenario, Stop, names_victim};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Recv {
    /// `recv`, small messages.
    Plain,
    /// `peek` and `commit`, small messages.
    Peek,
    /// `peek` and `commit`, messages in objects.
    Large,
    /// Three messages handed out, then two committed.
    InFlight,
    /// `recv`, from a queue that holds 7 messages.
    Bounded,
}

impl Recv {
    fn shape(self) -> Shape {
        match self {
            Recv::Large => Shape::growing(256 << 10, 64),
            Recv::Bounded => Shape::bounded(7),
            _ => Shape::growing(64 << 10, 256),
        }
    }

    /// Whether it takes messages without a look first.
    fn is_plain(self) -> bool {
        matches!(self, Recv::Plain | Recv::Bounded)
    }

    fn length(self) -> usize {
        if self == Recv::Large { 5000 } else { 48 }
    }
}

impl Scenario for Recv {
    fn name(&self) -> &'static str {
        match self {
            Recv::Plain => "queue-recv",
            Recv::Peek => "queue-peek-commit",
            Recv::Large => "queue-peek-commit-large",
            Recv::InFlight => "queue-in-flight",
            Recv::Bounded => "queue-recv-bounded",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Recv::Plain => "receive two messages from a full queue, a sender waiting",
            Recv::Bounded => {
                "receive two messages from a queue full at its bound of 7, a sender waiting"
            }
            Recv::Peek => "peek and commit two messages of a full queue, a sender waiting",
            Recv::InFlight => {
                "hand out three messages of a full queue and then commit two, a sender waiting"
            }
            Recv::Large => {
                "peek and commit two messages of 5,000 bytes of a full queue, a sender waiting"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let shape = self.shape().words();
        world.ask("filler", &format!("queue create {name} {shape}"))?;
        let filled = world.ask("filler", &format!("queue fill {name} 3 {}", self.length()))?;
        world.remember(filled.parse().map_err(|_| Failure::broken("fill answers no number"))?);
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let order = format!("queue send {} 2 1 1 {}", world.fresh(self.stem()), self.length());
        world.survivor("second")?.tell_and_see_asleep(&order)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let sent = match world.answer("second")?.as_str() {
            "sent" => 1,
            "receiver-died" => 0,
            other => return Err(Failure::wrong(format!("the second sender is told `{other}`"))),
        };
        world.saw(if sent == 1 {
            "waiting sender got room"
        } else {
            "waiting sender told that the reader died"
        });
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let all = super::drain(world, "heir", &name)?;
        let first = super::numbers(&all, 3).first().copied().unwrap_or(0);
        let handed = death.acknowledged;
        let filled = world.remembered();
        super::in_order(&all, 3, first, filled, filled)?;
        super::in_order(&all, 2, 1, sent, sent)?;
        let lost = match self {
            // None is committed before the third is handed out.
            Recv::InFlight if first == 1 || handed == 3 && first <= 3 => 0,
            // Committed, then killed before the caller could know.
            _ if self.is_plain() && first == handed + 2 && !death.ended => 1,
            // Nothing that was handed out comes again, save what was not committed.
            _ if *self != Recv::InFlight && first == handed + 1 => 0,
            Recv::Peek | Recv::Large if first == handed && handed > 0 => 0,
            _ => {
                return Err(Failure::wrong(format!(
                    "{handed} were acknowledged, the next receiver begins at {first}"
                )));
            }
        };
        for seen in &all {
            let may = seen.stamp.sender == 3 && seen.stamp.number <= handed + 1;
            let must = seen.stamp.sender == 3 && seen.stamp.number <= handed;
            let wrongly = seen.redelivered && (!may || self.is_plain());
            if wrongly || (must && !seen.redelivered) {
                return Err(Failure::wrong(format!(
                    "wrongly marked, {handed} were acknowledged: {seen:?}"
                )));
            }
        }
        let again = all.iter().filter(|seen| seen.redelivered).count() as u64;
        let counted = super::counters(world, "heir", &name)?;
        super::adds_up(&counted, filled + sent, 0)?;
        if counted.redelivered != again {
            return Err(Failure::wrong(format!("{again} were marked as redelivered, {counted:?}")));
        }
        world.saw_many("lost with its receiver", lost);
        world.saw_many("redelivered", again);
        super::still_works(world, "heir", &name, 2)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // Between giving the slot back and freeing its object: the sender waits for that.
        if *self == Recv::Large && names_victim(world, &format!("queue memory-holders {name}"))? {
            return Ok("holds the memory");
        }
        super::room_is_used(world, &name)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = self.shape().create(&domain, place.name)?;
        let mut receiver = queue.receiver().map_err(|error| error.to_string())?;
        if *self == Recv::InFlight {
            let mut in_flight = receiver.in_flight();
            return stage.perform(|| {
                for number in 1..=3 {
                    let handed = in_flight.next_to_hand_out().map_err(|error| error.to_string())?;
                    let handed = handed.ok_or("the queue is full, and hands out nothing")?;
                    let (stamp, wanted) = (Stamp::of(&handed)?, Stamp { sender: 3, number });
                    if stamp != wanted || handed.number() + 1 != number || handed.redelivered() {
                        return Err(format!("handed out {stamp:?} instead of {wanted:?}"));
                    }
                    stage.acknowledge(1);
                }
                (0..2).try_for_each(|_| in_flight.commit()).map_err(|error| error.to_string())
            });
        }
        stage.perform(|| {
            for number in 1..=2 {
                let wanted = Stamp { sender: 3, number };
                if self.is_plain() {
                    let message = receiver.recv().map_err(|error| error.to_string())?;
                    if Stamp::of(&message)? != wanted {
                        return Err(format!(
                            "received {:?} instead of {wanted:?}",
                            Stamp::of(&message)
                        ));
                    }
                    stage.acknowledge(1);
                } else {
                    let peeked = receiver.peek().map_err(|error| error.to_string())?;
                    if Stamp::of(&peeked)? != wanted || peeked.redelivered() {
                        return Err(format!(
                            "peeked {:?} instead of {wanted:?}",
                            Stamp::of(&peeked)
                        ));
                    }
                    // Acted on, before the commit.
                    stage.acknowledge(1);
                    peeked.commit();
                }
            }
            Ok(())
        })
    }
}
