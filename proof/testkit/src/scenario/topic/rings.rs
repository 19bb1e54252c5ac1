//! Coming and going as a publisher, taking over from a dead one, and looking after what the dead
//! left.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ring {
    /// Makes the topic.
    Create,
    /// Becomes its second publisher.
    Take,
    /// Becomes a publisher after one that was killed, and publishes.
    Takeover,
    /// Borrows an object, and gives it back.
    Loan,
    /// Stops publishing, with objects in its free list.
    Leave,
    /// Sweeps after a publisher and a subscriber that were killed.
    Sweep,
}

/// What the victim publishes that takes over.
const FIRST: Stamp = Stamp { sender: 1, number: 1 };

/// The mark of a round in which another publisher has come and gone beside the stopped victim.
const CAME_BESIDE: &str = "another publisher has come";

/// All of them.
pub const ALL: [Ring; 6] =
    [Ring::Create, Ring::Take, Ring::Takeover, Ring::Loan, Ring::Leave, Ring::Sweep];

/// Checks that no ring is lost for good: the topic has at most `most` rings, and new publishers
/// take over all of them but the living publisher's before they make another one. Returns how many
/// there are.
fn all_are_taken_over(world: &mut World, name: &str, most: u32) -> Result<u32, Failure> {
    super::all_take_what_is_there(world, name)?;
    let before = super::Usage::of(world, name)?.rings;
    world.ask("sweeper", &format!("topic crowd {name} publishers {}", before.saturating_sub(1)))?;
    let after = super::Usage::of(world, name)?.rings;
    world.ask("sweeper", &format!("topic close {name}"))?;
    if before > most || after != before {
        return Err(Failure::wrong(format!(
            "the topic had {before} rings (allowed: {most}), one of them with a living publisher; after one \
             more publisher for each other ring it has {after}"
        )));
    }
    world.saw(if before == most {
        "one more ring, taken over later"
    } else {
        "no additional ring"
    });
    Ok(after)
}

impl Scenario for Ring {
    fn name(&self) -> &'static str {
        match self {
            Ring::Create => "topic-create",
            Ring::Take => "topic-become-publisher",
            Ring::Takeover => "topic-takeover",
            Ring::Loan => "topic-loan",
            Ring::Leave => "topic-leave-publisher",
            Ring::Sweep => "topic-sweep",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Ring::Create => "make a topic: file, pages, configuration, name",
            Ring::Take => "become a topic's second publisher",
            Ring::Takeover => "become a publisher in the place of one that was killed, and publish",
            Ring::Loan => "borrow an object of a new size, and give it back",
            Ring::Leave => {
                "stop publishing, with objects in the free list and objects that are held"
            }
            Ring::Sweep => "sweep after a publisher and a subscriber that were killed",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        if *self == Ring::Create {
            return Ok(());
        }
        world.ask("second", &format!("topic publisher {name}"))?;
        if matches!(self, Ring::Takeover | Ring::Sweep) {
            world.ask("dying", &format!("topic publisher {name}"))?;
        }
        if *self == Ring::Sweep {
            world.ask("corpse", &format!("topic subscriber {name} reliable 0"))?;
        }
        world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
        world.ask("holder", &format!("topic subscriber {name} plain 0"))?;
        if matches!(self, Ring::Takeover | Ring::Sweep) {
            for turn in 0..2 {
                let first = Stamp { sender: 4, number: turn * DEPTH + 1 };
                super::publish(world, "dying", &name, first, DEPTH, super::OBJECT)?;
                super::finds(
                    world,
                    "keeper",
                    &name,
                    &[(4, first.number..=first.number + DEPTH - 1)],
                    None,
                )?;
                if turn == 0 {
                    world.ask("holder", &format!("topic hold {name} 2"))?;
                    if *self == Ring::Sweep {
                        world.ask("corpse", &format!("topic hold {name} {DEPTH}"))?;
                    }
                }
            }
            // What a living subscriber has not taken keeps a ring from the next publisher.
            world.ask("holder", &format!("topic catch-up {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            // Of the victim: four published before.
            Ring::Loan | Ring::Leave => {
                world.ask("holder", &format!("topic hold {name} 3"))?;
                super::finds(world, "keeper", &name, &[(1, 1..=DEPTH)], None).map(drop)
            }
            // Now that the victim has its tokens, and not in the slots of these.
            Ring::Takeover | Ring::Sweep => {
                world.dismiss("dying");
                world.dismiss("corpse");
                Ok(())
            }
            Ring::Create | Ring::Take => Ok(()),
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Ring::Create {
            let there = world.domain().join(&name).exists();
            if death.ended && !there {
                return Err(Failure::wrong("made and acknowledged, yet it is not there"));
            }
            world.saw(if there { "made" } else { "nothing made" });
            world.ask("second", &format!("topic publisher {name}"))?;
            world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
            super::counts(world, &name, 1, 1)?;
            return super::still_works(world, &name, 1, 2, super::OBJECT);
        }
        if *self == Ring::Sweep {
            crate::scenario::sweep_after_a_fault(world)?;
        }
        super::counts(world, &name, 1, 2)?;
        let there = if *self == Ring::Takeover {
            super::keeper_finds(world, &name, FIRST)?
        } else {
            super::finds(world, "keeper", &name, &[], None)?
        };
        if death.acknowledged == 1 && !there {
            return Err(Failure::wrong("published and acknowledged, yet it is not there"));
        }
        super::is_whole(world, "holder", &name)?;
        // A victim whose `kill(2)` fails cannot tell that the dead publisher has ended. It must not
        // take that publisher's ring then, since a process that has not ended may still write
        // there: the victim makes a ring of its own.
        let may_have_made_one =
            *self == Ring::Takeover && world.has_fault() && death.acknowledged == 1;
        let rings = if may_have_made_one { all_are_taken_over(world, &name, 3)? } else { 2 };
        let rings = if world.has_done(CAME_BESIDE) { rings.max(3) } else { rings };
        super::still_works(world, &name, 1, rings, super::OBJECT)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Ring::Create {
            for order in ["publisher", "leave-publisher"] {
                world.passes("second", &format!("topic {order} {name}"))?;
            }
            return Ok(HOLDS_NOTHING);
        }
        if *self == Ring::Sweep {
            world.passes("passer", "domain sweep")?;
        }
        // Another comes, and goes; it has a ring of its own where the victim has, or is about to
        // take, the one that is free.
        for order in ["publisher", "leave-publisher"] {
            world.passes("late", &format!("topic {order} {name}"))?;
        }
        world.first_time(CAME_BESIDE);
        let doubtful = (*self == Ring::Takeover).then_some(FIRST);
        super::others_go_on(world, &name, super::OBJECT, doubtful)
    }

    fn lasting_mappings(&self) -> usize {
        usize::from(*self == Ring::Take)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.process_token().map_err(|error| error.to_string())?;
        let text = |error: outlive::Error| error.to_string();
        if *self == Ring::Create {
            let made = stage.perform(|| topic(&domain, place.name));
            return made.map(drop);
        }
        if *self == Ring::Sweep {
            let swept = stage.perform(|| crate::scenario::sweep_all(&domain));
            return swept;
        }
        let topic = topic(&domain, place.name)?;
        if matches!(self, Ring::Take | Ring::Takeover) {
            let message = Stamp { sender: 1, number: 1 }.message(super::OBJECT);
            let taken = stage.perform(|| -> Result<_, String> {
                let publisher = topic.publisher().map_err(text)?;
                if *self == Ring::Takeover {
                    publisher.publish(&message).map_err(|error| error.to_string())?;
                    stage.acknowledge(1);
                }
                Ok(publisher)
            });
            return taken.map(std::mem::forget);
        }
        let publisher = topic.publisher().map_err(text)?;
        for number in 1..=DEPTH {
            let message = Stamp { sender: 1, number }.message(super::OBJECT);
            publisher.publish(&message).map_err(|error| error.to_string())?;
        }
        if *self == Ring::Loan {
            let lent =
                stage.perform(|| publisher.loan(900).map(drop).map_err(|error| error.to_string()));
            std::mem::forget(publisher);
            return lent;
        }
        for len in [900, 6000, 6000] {
            drop(publisher.loan(len).map_err(|error| error.to_string())?);
        }
        stage.begin();
        drop(publisher);
        stage.end();
        Ok(())
    }
}
