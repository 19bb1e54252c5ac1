//! Coming and going as a subscriber, and dropping a sample: no process waits for the dead, and
//! nothing of theirs is held.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, subscriber, topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriberSlot {
    /// Joins, reliably and with history.
    Join,
    /// Leaves, while a publisher waits for it.
    Leave,
    /// The same with samples held, which it drops then.
    LeaveHolding,
    /// Drops a sample whose slot has been overwritten.
    Release,
}

/// All of them.
pub const ALL: [SubscriberSlot; 4] = [
    SubscriberSlot::Join,
    SubscriberSlot::Leave,
    SubscriberSlot::LeaveHolding,
    SubscriberSlot::Release,
];

impl SubscriberSlot {
    fn len(self) -> usize {
        if self == SubscriberSlot::Leave { super::IN_SLOT } else { super::OBJECT }
    }

    fn is_waited_for(self) -> bool {
        matches!(self, SubscriberSlot::Leave | SubscriberSlot::LeaveHolding)
    }
}

impl Scenario for SubscriberSlot {
    fn name(&self) -> &'static str {
        match self {
            SubscriberSlot::Join => "topic-join",
            SubscriberSlot::Leave => "topic-leave",
            SubscriberSlot::LeaveHolding => "topic-leave-holding",
            SubscriberSlot::Release => "topic-release",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            SubscriberSlot::Join => "become a reliable subscriber with history",
            SubscriberSlot::Leave => "stop subscribing while a publisher waits for it",
            SubscriberSlot::LeaveHolding => {
                "stop subscribing with samples held while a publisher waits in a wait set, and drop them"
            }
            SubscriberSlot::Release => "drop a sample whose message has been overwritten",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::two_ends(world, &name)?;
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, DEPTH, self.len())?;
        super::finds(world, "keeper", &name, &[(2, 1..=DEPTH)], None).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let (next, len) = (DEPTH + 1, self.len());
        match self {
            SubscriberSlot::Join => Ok(()),
            SubscriberSlot::Release => {
                super::publish(
                    world,
                    "second",
                    &name,
                    Stamp { sender: 2, number: next },
                    DEPTH,
                    len,
                )?;
                super::finds(world, "keeper", &name, &[(2, next..=2 * DEPTH)], None).map(drop)
            }
            // LeaveHolding has taken two.
            SubscriberSlot::Leave | SubscriberSlot::LeaveHolding => {
                let (publish, count) = if *self == SubscriberSlot::LeaveHolding {
                    ("publish-by-way", 3)
                } else {
                    ("publish", 1)
                };
                world
                    .survivor("second")?
                    .tell_and_see_asleep(&format!("topic {publish} {name} 2 {next} {count} {len}"))
            }
        }
    }

    fn check(&self, world: &mut World, _: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.is_waited_for() {
            world.answer("second")?;
        }
        super::counts(world, &name, 1, 1)?;
        let next = match self {
            SubscriberSlot::Join => DEPTH + 1,
            SubscriberSlot::Release => 2 * DEPTH + 1,
            SubscriberSlot::Leave => DEPTH + 2,
            SubscriberSlot::LeaveHolding => DEPTH + 4,
        };
        if self.is_waited_for() {
            super::finds(world, "keeper", &name, &[(2, DEPTH + 1..=next - 1)], None)?;
        }
        // No process waits for a dead one, whatever it had asked for.
        for turn in 0..2 {
            let first = next + turn * DEPTH;
            super::publish(
                world,
                "second",
                &name,
                Stamp { sender: 2, number: first },
                DEPTH,
                self.len(),
            )?;
            super::finds(world, "keeper", &name, &[(2, first..=first + DEPTH - 1)], None)?;
        }
        super::still_works(world, &name, next + 2 * DEPTH, 2, self.len())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if self.is_waited_for() {
            if super::lag_of_the_victim(world, &name)?.is_some() {
                return Ok("has messages to take");
            }
            world.all_get_past()?;
            return Ok(HOLDS_NOTHING);
        }
        // There is a slot for another one, too.
        for order in ["subscriber", "leave-subscriber"] {
            let more = if order == "subscriber" { " plain 0" } else { "" };
            world.passes("late", &format!("topic {order} {name}{more}"))?;
        }
        super::others_go_on(world, &name, self.len(), None)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        domain.process_token().map_err(|error| error.to_string())?;
        if *self == SubscriberSlot::Join {
            let joined = stage.perform(|| subscriber(&topic, true, 2));
            return joined.map(std::mem::forget);
        }
        let mut own = subscriber(&topic, self.is_waited_for(), DEPTH as u32)?;
        let count = match self {
            SubscriberSlot::LeaveHolding => 2,
            SubscriberSlot::Release => 1,
            _ => 0,
        };
        let samples: Vec<_> = (0..count)
            .map(|_| own.recv().map_err(|error| error.to_string()))
            .collect::<Result<_, _>>()?;
        match self {
            SubscriberSlot::Release => {
                stage.begin();
                drop(samples);
                stage.end();
                std::mem::forget(own);
            }
            _ => {
                stage.begin();
                drop(own);
                drop(samples);
                stage.end();
            }
        }
        Ok(())
    }
}
