//! Publishing over the oldest message, which another process holds, beside two processes that sleep
//! until something comes.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the victim publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publish {
    /// In the slot.
    Small,
    /// A copy, in an object.
    Large,
    /// An object, lent and published in the operation.
    InPlace,
    /// The same, by a publisher that has said just before that a device writes into its loans.
    ByDevice,
}

/// All of them.
pub const ALL: [Publish; 4] = [Publish::Small, Publish::Large, Publish::InPlace, Publish::ByDevice];

/// One plainly, one in a wait set.
const SLEEPERS: [&str; 2] = ["sleeper", "in-set"];

fn is_woken_by(world: &mut World, sleeper: &'static str, message: &str) -> Result<(), Failure> {
    let answer = world.answer(sleeper)?;
    if answer == message {
        Ok(())
    } else {
        Err(Failure::wrong(format!("{sleeper} is woken by {answer}")))
    }
}

/// The message.
const FIFTH: Stamp = Stamp { sender: 1, number: DEPTH + 1 };

impl Publish {
    fn len(self) -> usize {
        if self == Publish::Small { super::IN_SLOT } else { super::OBJECT }
    }
}

impl Scenario for Publish {
    fn name(&self) -> &'static str {
        match self {
            Publish::Small => "topic-publish-small",
            Publish::Large => "topic-publish-large",
            Publish::InPlace => "topic-loan-and-publish",
            Publish::ByDevice => "topic-publish-by-device",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Publish::Small => {
                "publish 48 bytes over the oldest message, beside sleeping subscribers, one in a wait set"
            }
            Publish::Large => {
                "publish an object over a message that is held, beside sleeping subscribers, one in a wait set"
            }
            Publish::InPlace => "borrow an object and publish it over a message that is held",
            Publish::ByDevice => {
                "say that a device writes, borrow an object and publish it over a message that is held"
            }
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        world.ask("after", "topic token -")?;
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
        for plain in ["second", "holder", "sleeper", "in-set"] {
            world.ask(plain, &format!("topic subscriber {name} plain 0"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        for everything in ["keeper", "second", "sleeper", "in-set"] {
            super::finds(world, everything, &name, &[(1, 1..=DEPTH)], None)?;
        }
        world.ask("holder", &format!("topic hold {name} {DEPTH}"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("topic recv {name}"))?;
        world.survivor("in-set")?.tell_and_see_asleep(&format!("topic recv-in-set {name}"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::counts(world, &name, 1, 5)?;
        let there = super::finds(world, "keeper", &name, &[], Some(FIFTH))?;
        if death.acknowledged == 1 && !there {
            return Err(Failure::wrong("published and acknowledged, yet it is not there"));
        }
        if super::finds(world, "second", &name, &[], Some(FIFTH))? != there {
            return Err(Failure::wrong("one subscriber has it, another has not"));
        }
        world.saw(if there { "published" } else { "nothing published" });
        // A published message wakes the sleepers, though its publisher died in it; otherwise the
        // next message does.
        if there {
            SLEEPERS.iter().try_for_each(|sleeper| is_woken_by(world, sleeper, "1:5"))?;
        }
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, 1, self.len())?;
        if !there {
            SLEEPERS.iter().try_for_each(|sleeper| is_woken_by(world, sleeper, "2:1"))?;
        }
        // What was published in answer comes after it.
        world.ask("after", &format!("topic subscriber {name} plain 4"))?;
        let found = super::drain_of_what_is_left(world, "after", &name)?;
        if found.last() != Some(&Stamp { sender: 2, number: 1 }) || found.contains(&FIFTH) != there
        {
            return Err(Failure::wrong(format!(
                "2:1 was published last, yet a late joiner finds {found:?}"
            )));
        }
        super::finds(world, "keeper", &name, &[(2, 1..=1)], None)?;
        super::is_whole(world, "holder", &name)?;
        super::still_works(world, &name, 2, 2, self.len())
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        super::keeper_takes(world, &name, Some(FIFTH))?;
        if world.has_done(super::ARRIVED) {
            // One subscriber has it: then the others do not go on sleeping beside it.
            world.all_get_past()?;
        }
        world.passes("second", &format!("topic publish {name} 2 1 1 {}", self.len()))?;
        world.all_get_past()?;
        let found = super::keeper_takes(world, &name, Some(FIFTH))?;
        if found.contains(&Stamp { sender: 2, number: 1 }) {
            return Ok(HOLDS_NOTHING);
        }
        Err(Failure::wrong(format!("another has published, and the keeper finds {found:?}")))
    }

    fn check_after_stop(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::counts(world, &name, 1, 5)?;
        let there = super::keeper_finds(world, &name, FIFTH)?;
        if death.acknowledged == 1 && !there {
            return Err(Failure::wrong("published and acknowledged, yet it is not there"));
        }
        if super::finds(world, "second", &name, &[(2, 1..=1)], Some(FIFTH))? != there {
            return Err(Failure::wrong("one subscriber has it, another has not"));
        }
        for sleeper in SLEEPERS {
            let answer = world.answer(sleeper)?;
            if !["1:5", "2:1"].contains(&answer.as_str()) {
                return Err(Failure::wrong(format!("{sleeper} is woken by {answer}")));
            }
        }
        super::is_whole(world, "holder", &name)?;
        super::still_works(world, &name, 2, 2, self.len())
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        let publisher = topic.publisher().map_err(|error| error.to_string())?;
        for number in 1..=DEPTH {
            let message = Stamp { sender: 1, number }.message(self.len());
            publisher.publish(&message).map_err(|error| error.to_string())?;
        }
        let message = FIFTH.message(self.len());
        let published = stage.perform(|| {
            if *self == Publish::ByDevice {
                publisher.expect_device_writes();
            }
            if matches!(self, Publish::InPlace | Publish::ByDevice) {
                let mut loan = publisher.loan(message.len()).map_err(|error| error.to_string())?;
                loan.copy_from_slice(&message);
                publisher.publish(loan).map_err(|error| error.to_string())?;
            } else {
                publisher.publish(&message).map_err(|error| error.to_string())?;
            }
            stage.acknowledge(1);
            Ok(())
        });
        std::mem::forget(publisher);
        published
    }
}
