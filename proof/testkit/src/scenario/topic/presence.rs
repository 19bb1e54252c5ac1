//! The participants that come, go and die: every process that follows them is told, plainly and in
//! a wait set, of the victim as of all others.

use std::time::{Duration, Instant};

use outlive::topic::{Presence, Publisher, Subscriber, Topic};
use outlive::wait::WaitSet;
use outlive::{Domain, WaitStrategy};

use crate::campaign::PATIENCE;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::scenario::member::topic::{subscriber, topic};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::{World, load};

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Members {
    /// Becomes a publisher.
    PublisherComes,
    /// Stops being one.
    PublisherGoes,
    /// Becomes a subscriber.
    SubscriberComes,
    /// Stops being one.
    SubscriberGoes,
    /// Follows, and is told.
    Follows,
    /// The same in a wait set.
    FollowsInSet,
}

/// All of them.
pub const ALL: [Members; 6] = [
    Members::PublisherComes,
    Members::PublisherGoes,
    Members::SubscriberComes,
    Members::SubscriberGoes,
    Members::Follows,
    Members::FollowsInSet,
];

/// The processes that follow from the beginning, and those that come after the victim sleeps.
const BEFORE: &str = "watcher";
const AFTER: &str = "late-watcher";

/// Checks that both threads of a survivor come to be told of those numbers, as the last.
fn is_told(
    world: &mut World,
    who: &'static str,
    name: &str,
    publishers: u32,
    subscribers: u32,
) -> Result<(), Failure> {
    let wanted = format!("{publishers} {subscribers}, {publishers} {subscribers}");
    let deadline = Instant::now() + load::stretched(PATIENCE);
    loop {
        let told = world.ask(who, &format!("presence told {name}"))?;
        if told == wanted {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Failure::Hang(format!("{who} was told {told}, there are {wanted}")));
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

impl Members {
    fn follows(self) -> bool {
        matches!(self, Members::Follows | Members::FollowsInSet)
    }

    /// Publishers and subscribers when the victim is about to begin its operation.
    fn at_first(self) -> (u32, u32) {
        match self {
            Members::PublisherGoes => (2, 1),
            Members::SubscriberGoes => (1, 2),
            _ => (1, 1),
        }
    }
}

impl Scenario for Members {
    fn name(&self) -> &'static str {
        match self {
            Members::PublisherComes => "topic-presence-publisher-comes",
            Members::PublisherGoes => "topic-presence-publisher-goes",
            Members::SubscriberComes => "topic-presence-subscriber-comes",
            Members::SubscriberGoes => "topic-presence-subscriber-goes",
            Members::Follows => "topic-presence-follow",
            Members::FollowsInSet => "topic-presence-follow-in-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Members::PublisherComes => {
                "become a publisher of a topic whose presence is followed, plainly and in a wait set"
            }
            Members::PublisherGoes => "stop being one",
            Members::SubscriberComes => "become a subscriber of a topic whose presence is followed",
            Members::SubscriberGoes => "stop being one",
            Members::Follows => "follow who comes and goes, beside others who do, and be told",
            Members::FollowsInSet => "the same in a wait set",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::two_ends(world, &name)?;
        world.ask(BEFORE, &format!("presence follow {name}"))?;
        is_told(world, BEFORE, &name, 1, 1)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let (publishers, subscribers) = self.at_first();
        is_told(world, BEFORE, &name, publishers, subscribers)
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        if !self.follows() {
            return Err(Failure::Hang(
                "the victim sleeps and nobody is there to wake it".to_owned(),
            ));
        }
        let name = world.fresh(self.stem());
        world.ask(AFTER, &format!("presence follow {name}"))?;
        is_told(world, AFTER, &name, 1, 1)?;
        world.ask("late", &format!("topic subscriber {name} plain 0")).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.follows() {
            if !death.helped {
                self.help(world)?;
            }
            is_told(world, BEFORE, &name, 1, 2)?;
            is_told(world, AFTER, &name, 1, 2)?;
            world.ask("late", &format!("topic close {name}"))?;
            is_told(world, AFTER, &name, 1, 1)?;
            world.ask(AFTER, &format!("presence end {name}"))?;
        }
        // The dead one is not there, and nothing else has happened that could wake any process.
        is_told(world, BEFORE, &name, 1, 1)?;
        super::counts(world, &name, 1, 1)?;
        // The followers are told of others that come and go, as before.
        world.ask("late", &format!("topic subscriber {name} plain 0"))?;
        is_told(world, BEFORE, &name, 1, 2)?;
        world.ask("heir", &format!("topic publisher {name}"))?;
        is_told(world, BEFORE, &name, 2, 2)?;
        for goes in ["late", "heir"] {
            world.ask(goes, &format!("topic close {name}"))?;
        }
        is_told(world, BEFORE, &name, 1, 1)?;
        world.ask(BEFORE, &format!("presence end {name}"))?;
        super::still_works(world, &name, 1, 2, super::OBJECT)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if self.follows() {
            crate::scenario::help_beside(self, world, stop)?;
        }
        // What one process sees of it, the processes that follow are told.
        let counted = world.passes("keeper", &format!("topic count {name}"))?;
        let wanted = format!("{counted}, {counted}");
        for who in if self.follows() { &[BEFORE, AFTER][..] } else { &[BEFORE] } {
            world.stop();
            while world.ask(who, &format!("presence told {name}"))? != wanted {
                world.is_in_time(&format!("{who} is to be told of {wanted}"))?;
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        super::others_go_on(world, &name, super::OBJECT, None)
    }

    fn lasting_mappings(&self) -> usize {
        usize::from(*self == Members::PublisherComes)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let topic: Topic = topic(&domain, place.name)?;
        let publisher = || -> Result<Publisher, String> {
            topic.publisher().map_err(|error| error.to_string())
        };
        let subscriber = || -> Result<Subscriber, String> { subscriber(&topic, true, 0) };
        match self {
            Members::PublisherComes => {
                let come = stage.perform(publisher);
                come.map(std::mem::forget)
            }
            Members::SubscriberComes => {
                let come = stage.perform(subscriber);
                come.map(std::mem::forget)
            }
            Members::PublisherGoes => {
                let goes = publisher()?;
                stage.begin();
                drop(goes);
                stage.end();
                Ok(())
            }
            Members::SubscriberGoes => {
                let goes = subscriber()?;
                stage.begin();
                drop(goes);
                stage.end();
                Ok(())
            }
            Members::Follows => {
                let mut presence = topic.watch();
                presence.changed().map_err(|error| error.to_string())?;
                stage.begin();
                let told = presence.changed();
                stage.end_of(&told);
                let told = told.map_err(|error| error.to_string())?;
                if told.subscribers.len() == 2 { Ok(()) } else { Err(format!("told {told:?}")) }
            }
            Members::FollowsInSet => follow_in_set(&domain, topic.watch(), stage),
        }
    }
}

fn follow_in_set(domain: &Domain, mut presence: Presence, stage: &Stage) -> Result<(), String> {
    presence.changed().map_err(|error| error.to_string())?;
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(&presence).map_err(|error| error.to_string())?;
    let told = stage.perform(|| set.wait().map(drop).map(|()| presence.try_changed()));
    let told = told.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    if told.as_ref().is_some_and(|told| told.subscribers.len() == 2) {
        Ok(())
    } else {
        Err(format!("told {told:?}"))
    }
}
