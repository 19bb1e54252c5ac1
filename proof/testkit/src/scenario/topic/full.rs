//! All places of a topic are taken, and a process that has one of them is killed: the next process
//! gets its place, also if another process came into it and was killed, too.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, subscriber, topic};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// Of which the last one is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The 62 rings of publishers.
    Rings,
    /// The 64 subscribers' slots.
    Subscribers,
}

/// All of them.
pub const ALL: [Full; 2] = [Full::Rings, Full::Subscribers];

const RINGS: u32 = 62;
const SUBSCRIBERS: u32 = 64;

impl Scenario for Full {
    fn name(&self) -> &'static str {
        match self {
            Full::Rings => "topic-last-ring",
            Full::Subscribers => "topic-last-line",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Full::Rings => {
                "become a publisher, and publish, in the only place there is: that of one of 62 who was killed"
            }
            Full::Subscribers => {
                "become a subscriber, and take a message, in the place of one of 64 who was killed"
            }
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        for survivor in ["crowd", "dying"] {
            world.ask(survivor, "topic token -")?;
        }
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
        let first = Stamp { sender: 4, number: 1 };
        match self {
            Full::Rings => {
                world.ask("crowd", &format!("topic crowd {name} publishers {}", RINGS - 2))?;
                world.ask("dying", &format!("topic publisher {name}"))?;
                super::publish(world, "dying", &name, first, DEPTH, super::OBJECT)?;
                super::finds(world, "keeper", &name, &[(4, 1..=DEPTH)], None).map(drop)
            }
            Full::Subscribers => {
                world
                    .ask("crowd", &format!("topic crowd {name} subscribers {}", SUBSCRIBERS - 2))?;
                world.ask("dying", &format!("topic subscriber {name} reliable 0"))?;
                super::publish(
                    world,
                    "second",
                    &name,
                    Stamp { sender: 2, ..first },
                    DEPTH,
                    super::OBJECT,
                )?;
                super::finds(world, "keeper", &name, &[(2, 1..=DEPTH)], None)?;
                world.ask("dying", &format!("topic hold {name} {DEPTH}")).map(drop)
            }
        }
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        // Now that the victim has its tokens, and not in the slots of this one.
        world.dismiss("dying");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Full::Rings => {
                super::counts(world, &name, RINGS - 1, 1)?;
                let first = Stamp { sender: 1, number: 1 };
                let there = super::keeper_finds(world, &name, first)?;
                if death.acknowledged == 1 && !there {
                    return Err(Failure::wrong("published and acknowledged, yet it is not there"));
                }
                super::still_works(world, &name, 1, RINGS, super::OBJECT)
            }
            Full::Subscribers => {
                super::counts(world, &name, 1, SUBSCRIBERS - 1)?;
                // No process waits for the dead.
                super::publish(
                    world,
                    "second",
                    &name,
                    Stamp { sender: 2, number: DEPTH + 1 },
                    DEPTH,
                    super::OBJECT,
                )?;
                super::finds(world, "keeper", &name, &[(2, DEPTH + 1..=2 * DEPTH)], None)?;
                super::still_works(world, &name, 2 * DEPTH + 1, 2, super::OBJECT)
            }
        }
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let doubtful = Stamp { sender: 1, number: 1 };
        super::others_go_on(world, &name, super::OBJECT, Some(doubtful))
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let topic = topic(&domain, place.name)?;
        match self {
            Full::Rings => {
                let message = Stamp { sender: 1, number: 1 }.message(super::OBJECT);
                let published = stage.perform(|| -> Result<_, String> {
                    let publisher = topic.publisher().map_err(|error| error.to_string())?;
                    publisher.publish(&message).map_err(|error| error.to_string())?;
                    stage.acknowledge(1);
                    Ok(publisher)
                });
                std::mem::forget(published?);
            }
            Full::Subscribers => {
                let (subscriber, sample) = stage.perform(|| -> Result<_, String> {
                    let mut subscriber = subscriber(&topic, true, 1)?;
                    let sample = subscriber.try_recv().map_err(|error| error.to_string())?;
                    Ok((subscriber, sample))
                })?;
                let stamp = sample.as_ref().map(|sample| Stamp::of(sample)).transpose()?;
                std::mem::forget((sample, subscriber));
                if stamp != Some(Stamp { sender: 2, number: DEPTH }) {
                    return Err(format!("it took {stamp:?}"));
                }
            }
        }
        Ok(())
    }
}
