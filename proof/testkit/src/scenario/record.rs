//! A recorder, with a name and a successor: wherever it is killed, each message is in the file once.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::record::{start, take};
use crate::scenario::member::topic::DEPTH;
use crate::scenario::topic::{finds, others_go_on, publish, stamps, still_works, two_ends};
use crate::scenario::{Death, Place, Scenario, Stop};
use crate::world::World;

/// What the victim does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    /// Takes messages, writes them, and acknowledges.
    Group,
    /// The same, and begins the next file.
    NextFile,
    /// Comes in the place of a dead one, which has left a part of a group.
    Succeed,
    /// The same, takes the rest, writes the index, and leaves.
    Finish,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    use Record::{Finish, Group, NextFile, Succeed};
    [Group, NextFile, Succeed, Finish].into_iter().map(|one| Box::new(one) as Box<_>).collect()
}

/// How many messages are there to be recorded: of these the last one is in an object.
const THERE: u64 = 3;

impl Record {
    fn succeeds(self) -> bool {
        matches!(self, Record::Succeed | Record::Finish)
    }

    fn split(self) -> &'static str {
        if self == Record::NextFile { "split" } else { "whole" }
    }
}

/// Messages of the second process, from that number on.
fn publish_some(world: &mut World, name: &str, first: u64) -> Result<(), Failure> {
    let stamp = |number| Stamp { sender: 2, number };
    publish(world, "second", name, stamp(first), THERE - 1, super::topic::IN_SLOT)?;
    publish(world, "second", name, stamp(first + THERE - 1), 1, super::topic::OBJECT)?;
    finds(world, "keeper", name, &[(2, first..=first + THERE - 1)], None).map(drop)
}

impl Scenario for Record {
    fn name(&self) -> &'static str {
        match self {
            Record::Group => "record-group",
            Record::NextFile => "record-next-file",
            Record::Succeed => "record-succeed",
            Record::Finish => "record-finish",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Record::Group => "record messages: take them, write the group, acknowledge",
            Record::NextFile => "record messages, and begin the next file",
            Record::Succeed => "go on with the recording of a dead one, behind a torn group",
            Record::Finish => "go on with the recording of a dead one, and end it in order",
        }
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        two_ends(world, &name)?;
        if self.succeeds() {
            world.ask("corpse", &format!("record start {name} whole"))?;
            publish_some(world, &name, 1)?;
            // In its open group.
            world.ask("corpse", &format!("record take {name}"))?;
        }
        Ok(())
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.succeeds() {
            world.dismiss("corpse");
            world.ask("heir", &format!("record tear {name}")).map(drop)
        } else {
            publish_some(world, &name, 1)
        }
    }

    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        // Its topic was refused by the system, and it wakes by itself to try again.
        Ok(())
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // A successor: none is there whom it would have to wait for.
        world.ask("heir", &format!("record start {name} {}", self.split()))?;
        world.ask("heir", &format!("record take {name}"))?;
        publish_some(world, &name, THERE + 1)?;
        world.ask("heir", &format!("record finish {name}"))?;
        let mut found =
            stamps(&world.ask("heir", &format!("record list {name} {}", self.split()))?)?;
        // Of another, beside the stopped victim: before the first of these, or behind them.
        found.retain(|stamp| stamp.sender == 2);
        let all = (1..=2 * THERE).map(|number| Stamp { sender: 2, number });
        if !all.eq(found.iter().copied()) {
            return Err(Failure::wrong(format!("in the file are {found:?}")));
        }
        still_works(world, &name, 2 * THERE + 1, 2, super::topic::OBJECT)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        const { assert!(THERE < DEPTH, "there is room for one more") };
        let name = world.fresh(self.stem());
        others_go_on(world, &name, super::topic::OBJECT, None)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let is_split = self.split() == "split";
        let begin = || start(&domain, place.domain, place.name, is_split);
        let mut recorder = match self {
            Record::Succeed | Record::Finish => {
                domain.process_token().map_err(|error| error.to_string())?;
                None
            }
            Record::Group | Record::NextFile => Some(begin()?),
        };
        let done = stage.perform(|| {
            let Some(recorder) = &mut recorder else {
                let mut recorder = begin()?;
                if *self == Record::Succeed {
                    return Ok(Some(recorder));
                }
                take(&mut recorder)?;
                return recorder.finish().map(|_| None).map_err(|error| error.to_string());
            };
            take(recorder)?;
            recorder.flush().map(|()| None).map_err(|error| error.to_string())
        });
        // It lives on.
        std::mem::forget(recorder);
        done.map(std::mem::forget)
    }
}
