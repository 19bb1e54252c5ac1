//! Publishers that are watched. The topic tells readers with a lease that the victim has died, at once
//! and once. It tells them of a victim that stands still, which then is not lively, and tells them again
//! when the victim goes on.

use outlive::topic::Publisher;

use super::log_of;
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{LIVING, topic};
use crate::scenario::told::{
    Life, Told, is_lively_again, last_of, life, numbers, times_lively, when, when_beside,
};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveliness {
    /// It is there: it asserts that, publishes a message, and asserts it again.
    Asserts,
    /// It comes, publishes a message, and leaves in order.
    ComesAndGoes,
}

/// All of them.
pub const ALL: [Liveliness; 2] = [Liveliness::Asserts, Liveliness::ComesAndGoes];

const READER: &str = "watcher";

/// In milliseconds: what it takes to lead a victim to a point, more or less, so that a lapse is told at
/// some points, and not at others. With a shorter one, watchers that look change words so often that
/// each instruction seems to be one at which something differs.
const LEASE: &str = "20";

/// The mark of a round in which the stopped victim will still do something before its operation
/// ends.
const TO_COME: &str = "the victim will do something";

/// The sessions that are told of, beside that of sender 2.
fn others(log: &[Told]) -> Vec<u32> {
    let second = session_of(log, 2);
    let mut all: Vec<u32> = log
        .iter()
        .map(|told| match *told {
            Told::Message { session, .. }
            | Told::NewSession(session)
            | Told::NotLively(session)
            | Told::Lively(session)
            | Told::Died(session) => session,
        })
        .filter(|session| Some(*session) != second)
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// The session of a sender's messages.
fn session_of(log: &[Told], sender: u64) -> Option<u32> {
    log.iter().find_map(|told| match told {
        Told::Message { stamp, session, .. } if stamp.sender == sender => Some(*session),
        _ => None,
    })
}

fn has(sender: u64, number: u64) -> impl Fn(&[Told]) -> bool {
    move |log| log.iter().any(|told| told.stamp() == Some(Stamp { sender, number }))
}

/// Whether that session is told of as dead.
fn died(log: &[Told], session: u32) -> bool {
    log.contains(&Told::Died(session))
}

impl Liveliness {
    /// The victim's messages before its operation.
    fn before(self) -> u64 {
        u64::from(self == Liveliness::Asserts)
    }

    /// The victim's session, if a reader has been told of one.
    fn session(log: &[Told]) -> Result<Option<u32>, Failure> {
        match others(log)[..] {
            [] => Ok(None),
            [session] => Ok(Some(session)),
            _ => Err(Failure::wrong(format!("told of sessions that are not there: {log:?}"))),
        }
    }
}

impl Scenario for Liveliness {
    fn name(&self) -> &'static str {
        match self {
            Liveliness::Asserts => "topic-liveliness",
            Liveliness::ComesAndGoes => "topic-liveliness-comes-and-goes",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Liveliness::Asserts => {
                "assert liveliness, publish, assert it again; watched with a lease"
            }
            Liveliness::ComesAndGoes => "become a publisher, publish, leave; watched with a lease",
        }
    }

    fn stem(&self) -> &'static str {
        LIVING
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        world.ask("second", &format!("topic publisher {name}"))?;
        world.ask(READER, &format!("reader begin-with-lease {name} {LEASE}"))?;
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, 1, super::IN_SLOT)?;
        when(world, READER, &log_of(&name), "2:1", has(2, 1)).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        if *self == Liveliness::ComesAndGoes {
            return Ok(());
        }
        let name = world.fresh(self.stem());
        when(world, READER, &log_of(&name), "1:1", has(1, 1)).map(drop)
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        if !world.has_done(TO_COME) {
            return Ok(());
        }
        // It has done something since it stood still, and lives.
        let name = world.fresh(self.stem());
        let before = world.remembered();
        let its = |log: &[Told]| session_of(log, 1).unwrap_or(0);
        is_lively_again(world, READER, &log_of(&name), its, before)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // Nothing else happens that could wake a reader.
        if *self == Liveliness::Asserts {
            let is_told = |log: &[Told]| session_of(log, 1).is_some_and(|of| died(log, of));
            when(world, READER, &log_of(&name), "the victim's death", is_told)?;
        }
        super::publish(world, "second", &name, Stamp { sender: 2, number: 2 }, 1, super::IN_SLOT)?;
        let mut logs = when(world, READER, &log_of(&name), "2:2", has(2, 2))?;
        // Of one that has come, and has not left: dead, also without having been seen before.
        let acknowledged = death.acknowledged;
        let has_come = *self == Liveliness::Asserts || acknowledged > 0;
        if has_come && !death.ended {
            let is_told = |log: &[Told]| {
                Liveliness::session(log).is_ok_and(|of| of.is_some_and(|of| died(log, of)))
            };
            // As it leaves, it has left or has died.
            let is_leaving = *self == Liveliness::ComesAndGoes && acknowledged == 2;
            if !is_leaving {
                logs = when(world, READER, &log_of(&name), "the victim's death", is_told)?;
            }
        }
        let first = self.before();
        for log in &logs {
            let its = numbers(log, 1);
            if !its.iter().copied().eq(1..=its.len() as u64) {
                return Err(Failure::wrong(format!("messages are missing: {log:?}")));
            }
            let published = first + u64::from(acknowledged >= 2);
            let most = first + u64::from(acknowledged >= 1);
            if !(published..=most).contains(&(its.len() as u64)) {
                return Err(Failure::wrong(format!(
                    "{acknowledged} steps were acknowledged: {log:?}"
                )));
            }
            let Some(session) = Liveliness::session(log)? else { continue };
            let life = life(log, session)?;
            world.saw(match life {
                Life { died: false, .. } => "left",
                Life { lapses: 0, .. } => "died",
                _ => "died after a lapse",
            });
            if *self == Liveliness::ComesAndGoes && death.ended && life.died {
                return Err(Failure::wrong(format!("it has left, and is told as dead: {log:?}")));
            }
            let second = session_of(log, 2).ok_or_else(|| Failure::broken("no sender 2"))?;
            if self::life(log, second)?.died {
                return Err(Failure::wrong(format!("a living publisher is told as dead: {log:?}")));
            }
        }
        // Another one comes, does nothing, asserts that it is there, and leaves in order.
        world.ask("heir", &format!("reader publisher {name} plain"))?;
        let known = logs.iter().map(|log| others(log)).collect::<Vec<_>>().concat();
        let heir = |log: &[Told]| others(log).pop().filter(|session| !known.contains(session));
        let lapsed = |log: &[Told]| {
            heir(log).is_some_and(|of| last_of(log, of) == Some(Told::NotLively(of)))
        };
        when(world, READER, &log_of(&name), "that the heir is not lively", lapsed)?;
        world.ask("heir", &format!("reader assert {name}"))?;
        let lively = |log: &[Told]| heir(log).is_some_and(|of| log.contains(&Told::Lively(of)));
        when(world, READER, &log_of(&name), "that the heir is lively", lively)?;
        world.ask("heir", &format!("reader leave-publisher {name}"))?;
        super::publish(world, "second", &name, Stamp { sender: 2, number: 3 }, 1, super::IN_SLOT)?;
        for log in when(world, READER, &log_of(&name), "2:3", has(2, 3))? {
            let heir = heir(&log).ok_or_else(|| Failure::wrong("the heir was not told of"))?;
            if life(&log, heir)?.died {
                return Err(Failure::wrong(format!(
                    "the heir has left, and is told as dead: {log:?}"
                )));
            }
        }
        world.ask(READER, &format!("reader end {name}"))?;
        for survivor in world.survivors() {
            world.ask(survivor, &format!("topic close {name}"))?;
        }
        crate::scenario::nothing_left(world, &[&name])
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if *self == Liveliness::ComesAndGoes {
            world.passes("second", &format!("topic publish {name} 5 1 1 {}", super::IN_SLOT))?;
            // It has come, and does nothing.
            let is_there = stop.acknowledged == 1;
            let is_told = |log: &[Told]| {
                let lapsed = |of: u32| last_of(log, of) == Some(Told::NotLively(of));
                has(5, 1)(log) && (!is_there || others(log).into_iter().any(lapsed))
            };
            when_beside(
                world,
                READER,
                &log_of(&name),
                "5:1, and a lapse of one that has come",
                is_told,
            )?;
            return Ok(HOLDS_NOTHING);
        }
        let is_told = |log: &[Told]| {
            session_of(log, 1).is_some_and(|of| last_of(log, of) == Some(Told::NotLively(of)))
        };
        let logs =
            when_beside(world, READER, &log_of(&name), "that the victim is not lively", is_told)?;
        for log in &logs {
            let session = session_of(log, 1).ok_or_else(|| Failure::broken("no sender 1"))?;
            if life(log, session)?.died {
                return Err(Failure::wrong(format!(
                    "the victim lives, and is told as dead: {log:?}"
                )));
            }
        }
        if stop.acknowledged < 2 {
            world.first_time(TO_COME);
            let times = |log: &[Told]| times_lively(log, session_of(log, 1).unwrap_or(0));
            world.remember(times(&logs[0]) | times(&logs[1]) << 16);
        }
        Ok(HOLDS_NOTHING)
    }

    fn lasting_mappings(&self) -> usize {
        usize::from(*self == Liveliness::ComesAndGoes)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let topic = topic(&domain, place.name)?;
        let become_publisher = || -> Result<Publisher, String> {
            topic.publisher().map_err(|error| error.to_string())
        };
        let publish = |publisher: &Publisher, number| -> Result<(), String> {
            let message = Stamp { sender: 1, number }.message(super::IN_SLOT);
            publisher.publish(&message).map(drop).map_err(|error| error.to_string())?;
            Ok(())
        };
        match self {
            Liveliness::Asserts => {
                let publisher = become_publisher()?;
                publish(&publisher, 1)?;
                let done = stage.perform(|| -> Result<(), String> {
                    publisher.assert_liveliness();
                    stage.acknowledge(1);
                    publish(&publisher, 2)?;
                    stage.acknowledge(1);
                    publisher.assert_liveliness();
                    stage.acknowledge(1);
                    Ok(())
                });
                std::mem::forget(publisher);
                done
            }
            Liveliness::ComesAndGoes => stage.perform(|| -> Result<(), String> {
                let publisher = become_publisher()?;
                stage.acknowledge(1);
                publish(&publisher, 1)?;
                stage.acknowledge(1);
                Ok(())
            }),
        }
    }
}
