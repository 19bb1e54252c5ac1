//! Taking a message that a waiting publisher wants to be taken; and waiting for one, beside others
//! that do.

use outlive::Domain;
use outlive::topic::Subscriber;
use outlive::wait::WaitSet;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{DEPTH, subscriber, topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
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
    /// The same, asleep in a wait set.
    InSet,
}

/// All of them.
pub const ALL: [Receive; 4] = [Receive::Small, Receive::Large, Receive::Waiting, Receive::InSet];

impl Receive {
    fn waits(self) -> bool {
        matches!(self, Receive::Waiting | Receive::InSet)
    }

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
            Receive::InSet => "topic-receive-in-set",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Receive::Small => "reliably take 48 bytes, for which a publisher waits",
            Receive::Large => "reliably take an object, for which a publisher waits",
            Receive::Waiting => {
                "wait for a message, with a sleeper before and one after, and take it"
            }
            Receive::InSet => {
                "the same in a wait set that watches somebody's end, too, the sleeper after in another"
            }
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::two_ends(world, &name)?;
        if self.waits() {
            for plain in ["sleeper", "other"] {
                world.ask(plain, &format!("topic subscriber {name} plain 0"))?;
            }
            world.survivor("sleeper")?.tell_and_see_asleep(&format!("topic recv {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.waits() {
            return Ok(());
        }
        let len = self.len();
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, DEPTH, len)?;
        super::finds(world, "keeper", &name, &[(2, 1..=DEPTH)], None)?;
        world
            .survivor("second")?
            .tell_and_see_asleep(&format!("topic publish {name} 2 {} 1 {len}", DEPTH + 1))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        if !self.waits() {
            return Err(Failure::Hang("there is a message, yet it sleeps".to_owned()));
        }
        let name = world.fresh(self.stem());
        let recv = if *self == Receive::InSet { "recv-in-set" } else { "recv" };
        world.survivor("other")?.tell_and_see_asleep(&format!("topic {recv} {name}"))?;
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, 1, self.len())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.waits() {
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

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if self.waits() {
            crate::scenario::help_beside(self, world, stop)?;
            world.all_get_past()?;
            return Ok(HOLDS_NOTHING);
        }
        if super::lag_of_the_victim(world, &name)? == Some(DEPTH) {
            return Ok("has messages to take");
        }
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = topic(&domain, place.name)?;
        let mut subscriber = subscriber(&topic, true, 0)?;
        if *self == Receive::InSet {
            return receive_in_set(&domain, subscriber, stage);
        }
        let received = stage.perform(|| subscriber.recv().inspect(|_| stage.acknowledge(1)));
        let sample = received.map_err(|error| error.to_string())?;
        let stamp = Stamp::of(&sample)?;
        std::mem::forget((sample, subscriber));
        if stamp == (Stamp { sender: 2, number: 1 }) {
            Ok(())
        } else {
            Err(format!("it took {stamp:?}"))
        }
    }
}

fn receive_in_set(
    domain: &Domain,
    mut subscriber: Subscriber,
    stage: &Stage,
) -> Result<(), String> {
    let text = |error: outlive::Error| error.to_string();
    // It does not matter which process that is: the sleeper lives, and has a token.
    let mut others =
        domain.tokens().into_iter().filter(|token| token.alive && token.pid != std::process::id());
    let other = others.next().ok_or("nobody else is there")?;
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(outlive::WaitStrategy::Block);
    set.add(&domain.peer(other.id)).and_then(|_| set.add(&subscriber)).map_err(text)?;
    let sample = stage.perform(|| -> Result<_, String> {
        set.wait().map_err(|error| error.to_string())?;
        let sample = subscriber.try_recv().map_err(|error| error.to_string())?;
        stage.acknowledge(1);
        Ok(sample)
    })?;
    let stamp = sample.as_ref().map(|sample| Stamp::of(sample)).transpose()?;
    std::mem::forget((sample, subscriber));
    if stamp == Some(Stamp { sender: 2, number: 1 }) {
        Ok(())
    } else {
        Err(format!("it took {stamp:?}"))
    }
}
