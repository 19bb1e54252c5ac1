//! Coming as a named subscriber, in a dead one's place or as the first, and giving that place up:
//! nothing that was not acknowledged is missing, and the name has one owner.

use std::ops::RangeInclusive;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, NAME, named_subscriber, topic};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Comes as the first of that name.
    Come,
    /// Takes the place of a dead one, two messages, and acknowledges them.
    Succeed,
    /// Gives up the place of a dead one.
    Forget,
}

/// All of them.
pub const ALL: [Kept; 3] = [Kept::Come, Kept::Succeed, Kept::Forget];

/// What is there for the one of that name, sent by the second process.
const LEFT: RangeInclusive<u64> = 1..=2;

impl Scenario for Kept {
    fn name(&self) -> &'static str {
        match self {
            Kept::Come => "topic-named-join",
            Kept::Succeed => "topic-named-succeed",
            Kept::Forget => "topic-named-forget",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Kept::Come => "become a named subscriber",
            Kept::Succeed => {
                "take the place of a dead named subscriber, and acknowledge what is there"
            }
            Kept::Forget => "give up the place of a dead named subscriber",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::two_ends(world, &name)?;
        if *self == Kept::Come {
            return Ok(());
        }
        world.ask("corpse", &format!("topic named-subscriber {name}"))?;
        let first = Stamp { sender: 2, number: *LEFT.start() };
        super::publish(world, "second", &name, first, *LEFT.end(), super::OBJECT)?;
        super::finds(world, "keeper", &name, &[(2, LEFT)], None)?;
        // It has them, and does not acknowledge.
        super::finds(world, "corpse", &name, &[(2, LEFT)], None).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        if *self != Kept::Come {
            world.dismiss("corpse");
        }
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let mut next = 1;
        if *self == Kept::Come {
            // For the dead one, if it has joined.
            let first = Stamp { sender: 2, number: next };
            super::publish(world, "second", &name, first, *LEFT.end(), super::OBJECT)?;
            super::finds(world, "keeper", &name, &[(2, LEFT)], None)?;
        }
        next += LEFT.end();
        world.ask("holder", &format!("topic named-subscriber {name}"))?;
        let mut found = super::drain(world, "holder", &name)?;
        // Of another, beside the stopped victim.
        found.retain(|stamp| stamp.sender == 2);
        let left: Vec<_> = LEFT.map(|number| Stamp { sender: 2, number }).collect();
        let is_done = match self {
            Kept::Come => found == left,
            Kept::Succeed | Kept::Forget => found.is_empty(),
        };
        if !(is_done || death.acknowledged == 0 && (found.is_empty() || found == left)) {
            return Err(Failure::wrong(format!("its successor finds {found:?}")));
        }
        world.saw(if is_done { "done" } else { "not done" });
        // It is waited for, and misses nothing.
        world.ask("holder", &format!("topic acknowledge {name}"))?;
        for _ in 0..2 {
            let first = Stamp { sender: 2, number: next };
            super::publish(world, "second", &name, first, DEPTH, super::OBJECT)?;
            let numbers = next..=next + DEPTH - 1;
            next += DEPTH;
            super::finds(world, "keeper", &name, &[(2, numbers.clone())], None)?;
            super::finds(world, "holder", &name, &[(2, numbers)], None)?;
            world.ask("holder", &format!("topic acknowledge {name}"))?;
        }
        world.ask("holder", &format!("topic leave-subscriber {name}"))?;
        super::counts(world, &name, 1, 1)?;
        super::still_works(world, &name, next, 2, super::OBJECT)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        // There is room for one more, whether it is waited for or not.
        super::others_go_on(world, &name, super::OBJECT, None)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        domain.process_token().map_err(|error| error.to_string())?;
        let done = stage.perform(|| match self {
            Kept::Come => named_subscriber(&topic).map(Some),
            Kept::Succeed => {
                let mut subscriber = named_subscriber(&topic)?;
                while subscriber.try_recv().map_err(|error| error.to_string())?.is_some() {}
                subscriber.acknowledge().map_err(|error| error.to_string())?;
                Ok(Some(subscriber))
            }
            Kept::Forget => match topic.forget(NAME).map_err(|error| error.to_string())? {
                true => Ok(None),
                false => Err("there was none".to_owned()),
            },
        });
        done.map(std::mem::forget)
    }
}
