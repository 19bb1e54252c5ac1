//! Publishing when a reliable subscriber is in the way, beside another publisher that waits for it,
//! too: both go on when the subscriber has taken what lies in the way, and when it is killed;
//! whichever other process dies and whenever.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What lets the publishers go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishWaiting {
    /// The subscriber takes its messages.
    ForTaken,
    /// The subscriber is killed.
    ForDeath,
}

/// All of them.
pub const ALL: [PublishWaiting; 2] = [PublishWaiting::ForTaken, PublishWaiting::ForDeath];

impl PublishWaiting {
    fn len(self) -> usize {
        if self == PublishWaiting::ForDeath { super::IN_SLOT } else { super::OBJECT }
    }
}

impl Scenario for PublishWaiting {
    fn name(&self) -> &'static str {
        match self {
            PublishWaiting::ForTaken => "topic-publish-waiting",
            PublishWaiting::ForDeath => "topic-publish-waiting-for-death",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            PublishWaiting::ForTaken => {
                "wait for a reliable subscriber, beside another publisher who does, in a wait set, and publish"
            }
            PublishWaiting::ForDeath => "the same, and the subscriber is killed",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::two_ends(world, &name)?;
        if *self == PublishWaiting::ForDeath {
            world.ask("dying", &format!("topic subscriber {name} reliable 0"))?;
        }
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, DEPTH, self.len())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == PublishWaiting::ForDeath {
            super::finds(world, "keeper", &name, &[(1, 1..=DEPTH), (2, 1..=DEPTH)], None)?;
        }
        let len = self.len();
        let publish = if *self == PublishWaiting::ForTaken { "publish-by-way" } else { "publish" };
        world
            .survivor("second")?
            .tell_and_see_asleep(&format!("topic {publish} {name} 2 {} 1 {len}", DEPTH + 1))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            // As it drains, the publishers go on.
            PublishWaiting::ForTaken => {
                let found = world.ask("keeper", &format!("topic hold {name} {}", 2 * DEPTH))?;
                let found = super::stamps(&found)?;
                let right = |sender| {
                    let numbers = found
                        .iter()
                        .filter(|stamp| stamp.sender == sender)
                        .map(|stamp| stamp.number);
                    numbers.eq(1..=DEPTH)
                };
                if right(1) && right(2) {
                    Ok(())
                } else {
                    Err(Failure::wrong(format!("it finds {found:?}")))
                }
            }
            PublishWaiting::ForDeath => {
                world.dismiss("dying");
                Ok(())
            }
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        world.answer("second")?;
        super::counts(world, &name, 1, 1)?;
        let fifth = Stamp { sender: 1, number: DEPTH + 1 };
        let there =
            super::finds(world, "keeper", &name, &[(2, DEPTH + 1..=DEPTH + 1)], Some(fifth))?;
        if death.acknowledged == 1 && !there {
            return Err(Failure::wrong("published and acknowledged, yet it is not there"));
        }
        world.saw(if there { "published" } else { "nothing published" });
        super::is_whole(world, "keeper", &name)?;
        world.ask("keeper", &format!("topic drop {name}"))?;
        super::still_works(world, &name, DEPTH + 2, 2, self.len())
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        let publisher = topic.publisher().map_err(|error| error.to_string())?;
        for number in 1..=DEPTH {
            let message = Stamp { sender: 1, number }.message(self.len());
            publisher.publish(&message).map_err(|error| error.to_string())?;
        }
        let message = Stamp { sender: 1, number: DEPTH + 1 }.message(self.len());
        let published = stage.perform(|| {
            publisher.publish(&message).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            Ok(())
        });
        std::mem::forget(publisher);
        published
    }
}
