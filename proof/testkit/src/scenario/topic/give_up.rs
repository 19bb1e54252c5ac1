//! Publishing when memory has run out: the publisher's oldest messages are given up; another
//! process holds one of them.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::topic::{LARGE, SMALL_DEPTH, fill, small_topic};
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
pub struct GiveUp;

/// The mark of a round in which there was memory for another's large message beside the stopped
/// victim.
const LARGE_BESIDE: &str = "another has published a large one";

/// The numbers of the victim's messages among these.
fn of_the_victim(stamps: Vec<Stamp>) -> Vec<u64> {
    stamps.into_iter().filter(|stamp| stamp.sender == 1).map(|stamp| stamp.number).collect()
}

impl Scenario for GiveUp {
    fn name(&self) -> &'static str {
        "topic-give-up"
    }

    fn about(&self) -> &'static str {
        "publish when memory has run out: give up the oldest messages, the first of which is held"
    }

    fn stem(&self) -> &'static str {
        "topic"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::all_are_there(world)?;
        world.ask("after", "topic token -")?;
        for user in ["second", "keeper", "holder", "late", "heir", "after", "sleeper"] {
            world.ask(user, &format!("topic small {name}"))?;
        }
        world.ask("second", &format!("topic publisher {name}")).map(drop)
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        // Not before: what a reliable one has still to take is not given up.
        world.ask("keeper", &format!("topic subscriber {name} reliable 0"))?;
        for plain in ["holder", "sleeper"] {
            world.ask(plain, &format!("topic subscriber {name} plain {SMALL_DEPTH}"))?;
        }
        let here = of_the_victim(super::drain(world, "sleeper", &name)?);
        let (Some(&first), Some(&last)) = (here.first(), here.last()) else {
            return Err(Failure::broken("nothing is there"));
        };
        world.remember(first << 32 | last);
        world.ask("holder", &format!("topic hold {name} 1"))?;
        world.survivor("sleeper")?.tell_and_see_asleep(&format!("topic recv {name}"))
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        super::counts(world, &name, 1, 3)?;
        let (oldest, all) = (world.remembered() >> 32, world.remembered() & 0xffff_ffff);
        let next = Stamp { sender: 1, number: all + 1 };
        let there = super::keeper_finds(world, &name, next)?;
        if death.acknowledged == 1 && !there {
            return Err(Failure::wrong("published and acknowledged, yet it is not there"));
        }
        world.saw(if there { "published" } else { "nothing published" });
        // What is left are the newest: the held one goes first, and gains nothing.
        world.ask("after", &format!("topic subscriber {name} plain {SMALL_DEPTH}"))?;
        let left = of_the_victim(super::drain(world, "after", &name)?);
        let last = if there { all + 1 } else { all };
        let first = left.first().copied().unwrap_or(0);
        // A large message that was published beside the stopped victim has the memory that the
        // victim gave up: it then gives up more.
        let beside = u64::from(world.has_done(LARGE_BESIDE));
        if !left.iter().copied().eq(first..=last)
            || !(oldest..=oldest + 2 + beside).contains(&first)
        {
            return Err(Failure::wrong(format!(
                "a late joiner finds {left:?}, and {oldest} was the oldest"
            )));
        }
        if death.acknowledged == 1 && !(oldest + 2..=oldest + 2 + beside).contains(&first) {
            return Err(Failure::broken(format!(
                "{first} is the oldest: there was memory left, and nothing is tested"
            )));
        }
        super::is_whole(world, "holder", &name)?;
        // Another publisher needs that memory: the dead one's oldest messages are given up, too,
        // and its last one stays.
        super::publish(world, "second", &name, Stamp { sender: 2, number: 1 }, 2, LARGE)?;
        let answer = world.answer("sleeper")?;
        let is_right = match (answer.as_str(), there) {
            // Others have published beside the stopped victim.
            ("5:1", _) => world.has_done(super::SMALL_BESIDE),
            ("2:1", false) => true,
            (other, true) => other == format!("1:{}", all + 1),
            _ => false,
        };
        if !is_right {
            return Err(Failure::wrong(format!("the sleeper is woken by {answer}")));
        }
        super::finds(world, "keeper", &name, &[(2, 1..=2)], None)?;
        super::is_whole(world, "holder", &name)?;
        super::still_works(world, &name, 3, 2, LARGE)
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        let next = Stamp { sender: 1, number: (world.remembered() & 0xffff_ffff) + 1 };
        super::keeper_takes(world, &name, Some(next))?;
        if world.has_done(super::ARRIVED) {
            world.all_get_past()?;
        }
        world.passes("late", &format!("topic count {name}"))?;
        // What lies in its slot needs no memory.
        world.first_time(super::SMALL_BESIDE);
        super::others_go_on(world, &name, super::IN_SLOT, Some(next))?;
        world.all_get_past()?;
        // Memory is the victim's: for a large one there is none, or what the victim has just given
        // up. That is told at once.
        if world.passes("second", &format!("topic publish-one {name} 6 1 {LARGE}"))? == "published"
        {
            world.first_time(LARGE_BESIDE);
        }
        super::keeper_takes(world, &name, Some(next))?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let topic = small_topic(&domain, place.name)?;
        let publisher = topic.publisher().map_err(|error| error.to_string())?;
        let all = fill(&domain, place.name, &publisher)?;
        let message = Stamp { sender: 1, number: all + 1 }.message(LARGE);
        let published = stage.perform(|| {
            publisher.publish(&message).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            Ok(())
        });
        std::mem::forget(publisher);
        published
    }
}
