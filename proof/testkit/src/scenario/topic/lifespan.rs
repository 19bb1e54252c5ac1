//! Messages that count for a lifespan, in a ring that changes hands: each message is older than any
//! lifespan, so one that has a lifespan is never given, to any process, and one that has none always
//! is.
//!
//! "old" is a publisher that died before; the victim comes into its ring, and "heir" into the
//! victim's. Sender 4 is "old", 1 the victim, 3 "heir", 2 "second", which has a ring of its own.

use outlive::topic::Publisher;

use super::log_of;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::reader::{lasting_publisher, publish_old};
use crate::scenario::member::topic::{STAMPED, topic};
use crate::scenario::told::{Told, numbers, told, when, when_beside};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// Whose messages have a lifespan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifespan {
    /// The victim's.
    Its,
    /// Those of the publisher before it.
    Before,
    /// Both.
    Both,
}

/// All of them.
pub const ALL: [Lifespan; 3] = [Lifespan::Its, Lifespan::Before, Lifespan::Both];

const READER: &str = "watcher";

/// A message of today, of sender 2: it has no lifespan.
fn probe(world: &mut World, beside: bool, name: &str, number: u64) -> Result<(), Failure> {
    let order = format!("topic publish {name} 2 {number} 1 48");
    let answer = if beside { world.passes("second", &order) } else { world.ask("second", &order) };
    answer.map(drop)
}

impl Lifespan {
    fn is_its(self) -> bool {
        self != Lifespan::Before
    }

    fn is_before(self) -> bool {
        self != Lifespan::Its
    }

    /// Checks that nothing that has expired is given to a subscriber that was there, nor to one that
    /// comes later. `is_whole`: no message has been written over.
    fn nothing_old(self, world: &mut World, is_whole: bool, name: &str) -> Result<(), Failure> {
        let look = world.ask("late", &format!("reader look {name} 4"))?;
        let log = world.ask(READER, &format!("reader log {name}"))?;
        let mut given = Vec::new();
        for words in look.split('|').chain(log.split('|')).filter(|words| *words != "nothing") {
            given.push(told(words)?);
        }
        let (its, before) = (|of: &_| numbers(of, 1), |of: &_| numbers(of, 4));
        let is_wrong = |list| {
            self.is_its() && !its(list).is_empty() || self.is_before() && !before(list).is_empty()
        };
        if given.iter().any(|list| is_wrong(list)) {
            return Err(Failure::wrong(format!("an expired message is given: {given:?}")));
        }
        // Those that do not expire are there: the topic is persistent.
        if is_whole && !self.is_before() && before(&given[0]) != [1, 2] {
            return Err(Failure::wrong(format!("4:1 and 4:2 do not expire: {given:?}")));
        }
        Ok(())
    }
}

fn has(sender: u64, number: u64) -> impl Fn(&[Told]) -> bool {
    move |log| log.iter().any(|told| told.stamp() == Some(Stamp { sender, number }))
}

impl Scenario for Lifespan {
    fn name(&self) -> &'static str {
        match self {
            Lifespan::Its => "topic-lifespan",
            Lifespan::Before => "topic-lifespan-before",
            Lifespan::Both => "topic-lifespan-both",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Lifespan::Its => "come into a dead publisher's ring, and publish with a lifespan",
            Lifespan::Before => {
                "publish without a lifespan, in a dead publisher's ring that has messages with one"
            }
            Lifespan::Both => "publish with a lifespan, in a ring that has messages with one",
        }
    }

    fn stem(&self) -> &'static str {
        STAMPED
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask(READER, &format!("reader begin {name}"))?;
        let kind = if self.is_before() { "lasting" } else { "plain" };
        world.ask("old", &format!("reader publisher {name} {kind}"))?;
        world.ask("old", &format!("reader publish-old {name} 4 1 2"))?;
        probe(world, false, &name, 1)?;
        when(world, READER, &log_of(&name), "2:1", has(2, 1)).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        // After the victim has its token: see `all_are_there`.
        world.dismiss("old");
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let its = |log: &[Told]| numbers(log, 1).len() as u64;
        if !self.is_its() {
            // All that it has acknowledged comes, although it is old.
            let least = death.acknowledged;
            let all = when(world, READER, &log_of(&name), "its messages", |log| its(log) >= least)?;
            world.saw(if its(&all[0]) > least { "one more" } else { "as acknowledged" });
        }
        self.nothing_old(world, true, &name)?;
        // The next owner of the ring has no lifespan; what is there keeps its own.
        world.ask("heir", &format!("reader publisher {name} plain"))?;
        self.nothing_old(world, true, &name)?;
        world.ask("heir", &format!("reader publish-old {name} 3 1 1"))?;
        when(world, READER, &log_of(&name), "3:1", has(3, 1))?;
        self.nothing_old(world, false, &name)?;
        world.ask("heir", &format!("reader leave-publisher {name}"))?;
        self.nothing_old(world, false, &name)?;
        world.ask(READER, &format!("reader end {name}"))?;
        for survivor in world.survivors() {
            world.ask(survivor, &format!("topic close {name}"))?;
        }
        world.ask("sweeper", "domain sweep")?;
        crate::scenario::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        probe(world, true, &name, 2)?;
        when_beside(world, READER, &log_of(&name), "2:2", has(2, 2))?;
        self.nothing_old(world, true, &name)?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let topic = topic(&domain, place.name)?;
        stage.perform(|| -> Result<(), String> {
            let publisher: Publisher = match self.is_its() {
                true => lasting_publisher(&topic)?,
                false => topic.publisher().map_err(|error| error.to_string())?,
            };
            for number in 1..=2 {
                publish_old(&publisher, Stamp { sender: 1, number })?;
                stage.acknowledge(1);
            }
            Ok(())
        })
    }
}
