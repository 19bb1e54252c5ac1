//! Topics: published to (in the slot, by objects, waiting, without memory), received from, joined
//! and left, rings taken over and swept; with all places taken; followed by processes that want to
//! know the participants.
//!
//! In all of them sender 1 is the victim; sender 2 is "second", which has ring 0; sender 3 is
//! "heir", which takes the victim's ring; sender 4 is "dying". Beside them "keeper" subscribes
//! reliably: it may lose nothing. "holder" holds samples: nothing may change in them.

mod full;
mod give_up;
mod kept;
mod lifespan;
mod liveliness;
mod presence;
mod publish;
mod publish_waiting;
mod receive;
mod rings;
mod sessions;
mod subscriber_slots;

use super::{HOLDS_NOTHING, Scenario};
use crate::failure::Failure;
use crate::message::Stamp;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    let publish = publish::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let waiting = publish_waiting::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let receive = receive::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let subscribers = subscriber_slots::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let kept = kept::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let rings = rings::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let full = full::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let presence = presence::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>);
    let give_up = std::iter::once(Box::new(give_up::GiveUp) as Box<dyn Scenario>);
    publish
        .chain(give_up)
        .chain(waiting)
        .chain(receive)
        .chain(subscribers)
        .chain(kept)
        .chain(rings)
        .chain(full)
        .chain(presence)
        .chain(sessions::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>))
        .chain(liveliness::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>))
        .chain(lifespan::ALL.iter().map(|one| Box::new(*one) as Box<dyn Scenario>))
        .collect()
}

/// The order that answers what a topic's readers were told.
fn log_of(name: &str) -> String {
    format!("reader log {name}")
}

/// Bytes of a message that lies in its slot, and of one that does not.
pub(super) const IN_SLOT: usize = 48;
pub(super) const OBJECT: usize = 5000;

/// Every process has opened the domain and has a token. A process that claims its token later may
/// get the slot of one that has died, and can ask that one nothing for a second.
fn all_are_there(world: &mut World) -> Result<(), Failure> {
    for survivor in ["keeper", "second", "holder", "late", "heir", "sweeper"] {
        world.ask(survivor, "topic token -")?;
    }
    Ok(())
}

/// Every process is there, `second` publishes, and `keeper` subscribes reliably.
pub(super) fn two_ends(world: &mut World, name: &str) -> Result<(), Failure> {
    all_are_there(world)?;
    world.ask("second", &format!("topic publisher {name}"))?;
    world.ask("keeper", &format!("topic subscriber {name} reliable 0")).map(drop)
}

/// A survivor's list of stamps.
pub(super) fn stamps(answer: &str) -> Result<Vec<Stamp>, Failure> {
    let stamp = |word: &str| {
        let (sender, number) = word.split_once(':')?;
        Some(Stamp { sender: sender.parse().ok()?, number: number.parse().ok()? })
    };
    let words = answer.split(' ').filter(|word| !word.is_empty());
    words
        .map(|word| stamp(word).ok_or_else(|| Failure::broken(format!("`{word}` is no stamp"))))
        .collect()
}

/// Everything that is there for a subscriber. Of sender 0: how many it has lost.
fn drain(world: &mut World, who: &'static str, name: &str) -> Result<Vec<Stamp>, Failure> {
    stamps(&world.ask(who, &format!("topic drain {name}"))?)
}

/// The same for a subscriber that joined with history: a message that was about to be overwritten
/// may be gone, without another in its place.
fn drain_of_what_is_left(
    world: &mut World,
    who: &'static str,
    name: &str,
) -> Result<Vec<Stamp>, Failure> {
    let mut found = drain(world, who, name)?;
    found.retain(|stamp| *stamp != Stamp { sender: 0, number: 1 });
    Ok(found)
}

/// Checks that a subscriber that loses nothing finds exactly those messages, in any order of the
/// senders; returns how many it finds of the doubtful message, which may have been published.
pub(super) fn finds(
    world: &mut World,
    who: &'static str,
    name: &str,
    expected: &[(u64, std::ops::RangeInclusive<u64>)],
    doubtful: Option<Stamp>,
) -> Result<bool, Failure> {
    let mut found = drain(world, who, name)?;
    let all = format!("{found:?}");
    let is_doubtful = |stamp: &Stamp| Some(*stamp) == doubtful;
    let doubted = found.iter().filter(|stamp| is_doubtful(stamp)).count();
    found.retain(|stamp| !is_doubtful(stamp));
    for (sender, numbers) in expected {
        let own = found.iter().filter(|stamp| stamp.sender == *sender).map(|stamp| stamp.number);
        if !own.eq(numbers.clone()) {
            return Err(Failure::wrong(format!(
                "{who} finds {all}, expected {expected:?}, and perhaps {doubtful:?}"
            )));
        }
    }
    found.retain(|stamp| !expected.iter().any(|(sender, _)| *sender == stamp.sender));
    if !found.is_empty() || doubted > 1 {
        return Err(Failure::wrong(format!(
            "{who} finds {all}, expected {expected:?}, and perhaps {doubtful:?}"
        )));
    }
    Ok(doubted == 1)
}

/// Publishes as that sender.
pub(super) fn publish(
    world: &mut World,
    who: &'static str,
    name: &str,
    first: Stamp,
    count: u64,
    len: usize,
) -> Result<(), Failure> {
    let Stamp { sender, number } = first;
    world.ask(who, &format!("topic publish {name} {sender} {number} {count} {len}")).map(drop)
}

/// The mark of a round in which another has published a message that lies in its slot, beside the
/// stopped victim.
const SMALL_BESIDE: &str = "another has published a small one";

/// The mark of a round in which the doubtful message had arrived before the victim went on or was
/// killed.
const ARRIVED: &str = "the message has arrived";

/// Beside the stopped victim: the keeper takes what is there. Whether the doubtful message is,
/// which is noted.
fn keeper_takes(
    world: &mut World,
    name: &str,
    doubtful: Option<Stamp>,
) -> Result<Vec<Stamp>, Failure> {
    let found = stamps(&world.passes("keeper", &format!("topic drain {name}"))?)?;
    if doubtful.is_some_and(|doubtful| found.contains(&doubtful)) {
        world.first_time(ARRIVED);
    }
    Ok(found)
}

/// As [`finds`] of the keeper, which may have found the doubtful one while the victim stood still.
fn keeper_finds(world: &mut World, name: &str, doubtful: Stamp) -> Result<bool, Failure> {
    let now = finds(world, "keeper", name, &[], Some(doubtful))?;
    let before = !world.first_time(ARRIVED);
    if now && before {
        return Err(Failure::wrong(format!("{doubtful:?} has arrived twice")));
    }
    Ok(now || before)
}

/// Beside the stopped victim: another publishes, and the keeper takes it.
pub(super) fn others_go_on(
    world: &mut World,
    name: &str,
    len: usize,
    doubtful: Option<Stamp>,
) -> Result<&'static str, Failure> {
    keeper_takes(world, name, doubtful)?;
    let probe = Stamp { sender: 5, number: 1 };
    world.passes("second", &format!("topic publish {name} 5 1 1 {len}"))?;
    let found = keeper_takes(world, name, doubtful)?;
    if found.contains(&probe) {
        return Ok(HOLDS_NOTHING);
    }
    Err(Failure::wrong(format!("another has published, and the keeper finds {found:?}")))
}

/// How many messages the stopped victim has still to take; `None`: it is no subscriber.
fn lag_of_the_victim(world: &mut World, name: &str) -> Result<Option<u64>, Failure> {
    let lags = world.passes("witness", &format!("topic lags {name}"))?;
    let victim = format!("{}:", world.victim_pid());
    Ok(lags.split(' ').find_map(|word| word.strip_prefix(&victim)?.parse().ok()))
}

/// Checks that the topic counts the living participants, and no others.
fn counts(world: &mut World, name: &str, publishers: u32, subscribers: u32) -> Result<(), Failure> {
    let answer = world.ask("keeper", &format!("topic count {name}"))?;
    if answer == format!("{publishers} {subscribers}") {
        return Ok(());
    }
    Err(Failure::wrong(format!(
        "{publishers} publishers and {subscribers} subscribers live, counted are {answer}"
    )))
}

/// Checks that what a survivor holds is as it was.
fn is_whole(world: &mut World, who: &'static str, name: &str) -> Result<(), Failure> {
    let whole = world.ask(who, &format!("topic check {name}"))?;
    if whole == "whole" { Ok(()) } else { Err(Failure::wrong(format!("{who}'s samples: {whole}"))) }
}

/// What a topic has, as seen by a process that has not opened it.
struct Usage {
    rings: u32,
    kept: u32,
    objects: u32,
    subscribers: u32,
    held: u32,
}

impl Usage {
    fn of(world: &mut World, name: &str) -> Result<Usage, Failure> {
        let usage = world.ask("sweeper", &format!("topic usage {name}"))?;
        let figures: Vec<u32> = usage.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [rings, kept, objects, subscribers, held] = figures[..] else {
            return Err(Failure::broken(format!("`{usage}` tells nothing")));
        };
        Ok(Usage { rings, kept, objects, subscribers, held })
    }
}

/// A ring with messages that a living subscriber has not taken is not taken over while another one
/// is free.
fn all_take_what_is_there(world: &mut World, name: &str) -> Result<(), Failure> {
    for survivor in world.survivors() {
        world.ask(survivor, &format!("topic catch-up {name}"))?;
    }
    Ok(())
}

/// After the death, all that has happened so far taken by the keeper: a late joiner finds whole
/// messages; an heir takes a dead publisher's ring, if there is one, and all goes on; at the end
/// there is nothing but what is in place.
pub(super) fn still_works(
    world: &mut World,
    name: &str,
    second: u64,
    rings: u32,
    len: usize,
) -> Result<(), Failure> {
    world.ask("late", &format!("topic subscriber {name} plain 4"))?;
    let found = drain_of_what_is_left(world, "late", name)?;
    for sender in 1..=4 {
        let numbers = found.iter().filter(|stamp| stamp.sender == sender).map(|stamp| stamp.number);
        if !numbers.is_sorted() {
            return Err(Failure::wrong(format!("the late joiner finds {found:?}")));
        }
    }
    all_take_what_is_there(world, name)?;
    world.ask("heir", &format!("topic publisher {name}"))?;
    for turn in 0..3 {
        let numbers = 2 * turn + 1..=2 * turn + 2;
        publish(world, "heir", name, Stamp { sender: 3, number: 2 * turn + 1 }, 2, len)?;
        publish(world, "second", name, Stamp { sender: 2, number: second + turn }, 1, len)?;
        let expected = [(3, numbers), (2, second + turn..=second + turn)];
        finds(world, "keeper", name, &expected, None)?;
        let before = drain_of_what_is_left(world, "late", name)?;
        let last = Stamp { sender: 2, number: second + turn };
        if before.last() != Some(&last) {
            return Err(Failure::wrong(format!(
                "{last:?} was published last, the late joiner finds {before:?}"
            )));
        }
    }
    if world.survivors().contains(&"holder") {
        is_whole(world, "holder", name)?;
        world.ask("holder", &format!("topic drop {name}"))?;
    }
    for survivor in world.survivors() {
        world.ask(survivor, &format!("topic close {name}"))?;
    }
    world.ask("sweeper", "domain sweep")?;
    let Usage { rings: has, kept, objects, subscribers, held } = Usage::of(world, name)?;
    let in_place = if len > IN_SLOT { kept } else { 0 };
    // Of messages in objects, one that lies in its slot may be among those kept.
    let small = u32::from(world.has_done(SMALL_BESIDE));
    let is_in_place = objects == in_place || objects + small == in_place;
    if has > rings || !is_in_place || subscribers != 0 || held != 0 {
        return Err(Failure::wrong(format!(
            "all have gone; {rings} rings were needed and {has} are there, {kept} messages are kept with {objects} \
             objects, {subscribers} subscribers and {held} samples are left"
        )));
    }
    super::nothing_left(world, &[name])
}
