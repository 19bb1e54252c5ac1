//! Taking a message that a waiting publisher wants to be taken; and waiting for one, beside others who do.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, subscriber, topic};
use crate::scenario::{Death, Place, Scenario};
use crate::world::World;

/// What the victim takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// A copy of what lies in a slot.
    Small,
    /// An object, and it dies with it.
    Large,
    /// What comes while it sleeps.
    Waiting,
}

/// All of them.
pub const ALL: [Receive; 3] = [Receive::Small, Receive::Large, Receive::Waiting];

impl Receive {
    fn len(self) -> usize {
        if self == Receive::Small { super::IN_SLOT } else { super::OBJECT }
    }
}

impl Scenario for Receive {
    fn name(&self) -> &'static str {
        match self {
            Receive::Small => "topic-receive-small",
            Receive::Large => "topic-receive-large",
            Receive::Waiting => "topic-receive-waiting",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Receive::Small => "reliably take 48 bytes, for which a publisher waits",
            Receive::Large => "reliably take an object, for which a publisher waits",
            Receive::Waiting => "wait for a message, with a sleeper before and one after, and take it",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::everybody_is_there(world)?;
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
        if *self == Receive::Waiting {
            for plain in ["sleeper", "other"] {
                world.ask(plain, &format!("topic subscriber {name} plain 0"))?;
            }
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("topic recv {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Receive::Waiting {
            return Ok(());
        }
        let len = self.len();
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, DEPTH, len)?;
        super::finds(world, "keeper", &name, &[(2, 1..=DEPTH)], None)?;
        world.survivor("second")?.tell_and_see_asleep(&format!("topic publish {name} 2 {} 1 {len}", DEPTH + 1))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        if *self != Receive::Waiting {
            return Err(Failure::Hang("there is a message, yet it sleeps".to_owned()));
        }
        let name = world.fresh(self.stem());
        world.survivor("other")?.tell_and_see_asleep(&format!("topic recv {name}"))?;
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, 1, self.len())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if *self == Receive::Waiting {
            if !death.helped {
                self.help(world)?;
            }
            for survivor in ["sleeper", "other"] {
                let answer = world.answer(survivor)?;
                if answer != "2:1" {
                    return Err(Failure::wrong(format!("{survivor} is woken by {answer}")));
                }
            }
            super::finds(world, "keeper", &name, &[(2, 1..=1)], None)?;
            super::counts(world, &name, 1, 3)?;
            return super::still_works(world, &name, 2, 2, self.len());
        }
        world.answer("second")?;
        super::finds(world, "keeper", &name, &[(2, DEPTH + 1..=DEPTH + 1)], None)?;
        super::counts(world, &name, 1, 1)?;
        super::still_works(world, &name, DEPTH + 2, 2, self.len())
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        let mut subscriber = subscriber(&topic, true, 0)?;
        stage.begin();
        let sample = subscriber.recv().map_err(|error| error.to_string())?;
        stage.acknowledge(1);
        stage.end();
        let stamp = Stamp::of(&sample)?;
        std::mem::forget((sample, subscriber));
        if stamp == (Stamp { sender: 2, number: 1 }) { Ok(()) } else { Err(format!("it took {stamp:?}")) }
    }
}
