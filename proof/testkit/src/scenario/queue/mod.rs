//! The growing queue: made, sent to (small, large, growing, waiting, in batches), received from,
//! taken over, left.
//!
//! In all of them sender 1 is the victim, 2 the second sender, 3 the filler. Numbers count from 1
//! for each.

mod create;
mod join;
mod receiver_comes;
mod receiver_dies;
mod receiver_leaves;
mod recv;
mod recv_waiting;
mod send;
mod send_waiting;
mod sender_leaves;
mod takeover;

use std::fmt::Write;

use super::{HOLDS_NOTHING, Scenario};
use crate::failure::Failure;
use crate::message::Stamp;
use crate::world::World;

/// Returns the scenarios of this folder.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    vec![
        create::scenario(),
        Box::new(send::Send::Small),
        Box::new(send::Send::Large),
        Box::new(send::Send::Growing),
        Box::new(send::Send::Batch),
        Box::new(send::Send::Last),
        Box::new(send::Send::ToSet),
        Box::new(send::Send::ToLargeSet),
        Box::new(send_waiting::SendWaiting::Slot),
        Box::new(send_waiting::SendWaiting::Memory),
        Box::new(send_waiting::SendWaiting::Bounded),
        Box::new(send_waiting::SendWaiting::SlotKept),
        Box::new(send_waiting::SendWaiting::MemoryKept),
        Box::new(receiver_dies::ReceiverDies),
        Box::new(recv::Recv::Plain),
        Box::new(recv::Recv::Peek),
        Box::new(recv::Recv::InFlight),
        Box::new(recv::Recv::Large),
        Box::new(recv::Recv::Bounded),
        Box::new(recv_waiting::RecvWaiting::Plain),
        Box::new(recv_waiting::RecvWaiting::Peek),
        Box::new(join::Join),
        Box::new(takeover::Takeover),
        Box::new(receiver_comes::ReceiverComes::First),
        Box::new(receiver_comes::ReceiverComes::Next),
        Box::new(receiver_leaves::ReceiverLeaves),
        Box::new(sender_leaves::SenderLeaves),
    ]
}

/// A message as a survivor received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) stamp: Stamp,
    pub(super) redelivered: bool,
}

/// A survivor's list of stamps.
pub(super) fn seen(answer: &str) -> Result<Vec<Seen>, Failure> {
    let stamp = |word: &str| {
        let (stamp, redelivered) =
            word.strip_suffix(":again").map_or((word, false), |stamp| (stamp, true));
        let (sender, number) = stamp.split_once(':')?;
        Some(Seen {
            stamp: Stamp { sender: sender.parse().ok()?, number: number.parse().ok()? },
            redelivered,
        })
    };
    answer
        .split(' ')
        .filter(|word| !word.is_empty())
        .map(|word| stamp(word).ok_or_else(|| Failure::broken(format!("`{word}` is no stamp"))))
        .collect()
}

/// Everything that lies in the queue, taken out by its receiver.
pub(super) fn drain(
    world: &mut World,
    receiver: &'static str,
    name: &str,
) -> Result<Vec<Seen>, Failure> {
    seen(&world.ask(receiver, &format!("queue drain {name}"))?)
}

/// The numbers of one sender's messages, in the order of arrival.
pub(super) fn numbers(seen: &[Seen], sender: u64) -> Vec<u64> {
    seen.iter().filter(|seen| seen.stamp.sender == sender).map(|seen| seen.stamp.number).collect()
}

/// Checks that a sender's messages arrived in order, each once, from `first` on, and not fewer than
/// to `least` nor more than to `most`. Returns the last.
pub(super) fn in_order(
    seen: &[Seen],
    sender: u64,
    first: u64,
    least: u64,
    most: u64,
) -> Result<u64, Failure> {
    let numbers = numbers(seen, sender);
    let last = first + numbers.len() as u64 - 1;
    if numbers.iter().copied().ne(first..=last) || last < least || last > most {
        let mut text = format!("sender {sender}: arrived ");
        for number in &numbers {
            let _ = write!(text, "{number} ");
        }
        return Err(Failure::wrong(format!(
            "{text}; they begin at {first}, at least to {least}, at most to {most}"
        )));
    }
    Ok(last)
}

/// Messages that lie there, beside the stopped victim.
pub(super) fn pending(world: &mut World, name: &str) -> Result<u64, Failure> {
    let pending = world.passes("witness", &format!("queue pending {name}"))?;
    pending.parse().map_err(|_| Failure::broken(format!("`{pending}` is no number")))
}

/// Beside the stopped victim, which receives: the sender that waits goes on as soon as one of those
/// messages is gone.
fn room_is_used(world: &mut World, name: &str) -> Result<&'static str, Failure> {
    if pending(world, name)? < world.remembered() {
        world.gets_past("second")?;
        return Ok(HOLDS_NOTHING);
    }
    Ok("has received nothing yet")
}

/// The mark of a round in which another received some beside the stopped victim; and how many.
const TAKEN_BESIDE: &str = "another has received";
const SOME: u64 = 4;

/// Beside the stopped victim, which is not the receiver: another becomes it, and makes room for the
/// sender that waits.
fn another_receives(world: &mut World, name: &str) -> Result<(), Failure> {
    super::passes_with(world, "heir", &format!("queue become-receiver {name}"), "mine")?;
    if world.first_time(TAKEN_BESIDE) {
        in_order(
            &seen(&world.passes("heir", &format!("queue drain {name} {SOME}"))?)?,
            3,
            1,
            SOME,
            SOME,
        )?;
    }
    world.gets_past("second")
}

/// What a queue has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) pending: u64,
    pub(super) abandoned: u64,
    pub(super) redelivered: u64,
    pub(super) bytes: u64,
}

pub(super) fn counters(
    world: &mut World,
    survivor: &'static str,
    name: &str,
) -> Result<Counted, Failure> {
    let answer = world.ask(survivor, &format!("queue counters {name}"))?;
    let figures: Vec<u64> = answer.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [sent, received, pending, abandoned, redelivered, bytes] = figures[..] else {
        return Err(Failure::broken(format!("`{answer}` are no counters")));
    };
    Ok(Counted { sent, received, pending, abandoned, redelivered, bytes })
}

/// Checks that the counters of a drained queue say what was seen.
pub(super) fn adds_up(
    counted: &Counted,
    received: u64,
    most_abandoned: u64,
) -> Result<(), Failure> {
    let right = counted.sent == received
        && counted.received == received
        && counted.pending == 0
        && counted.abandoned <= most_abandoned;
    if right {
        Ok(())
    } else {
        Err(Failure::wrong(format!("{received} messages were received, yet {counted:?}")))
    }
}

/// The second sender sends one more of this number and the receiver gets it; then everything is
/// closed and swept.
pub(super) fn still_works(
    world: &mut World,
    receiver: &'static str,
    name: &str,
    number: u64,
) -> Result<(), Failure> {
    let answer = world.ask("second", &format!("queue send {name} 2 {number} 1 48"))?;
    let more = drain(world, receiver, name)?;
    if answer != "sent" || numbers(&more, 2) != [number] || more.len() != 1 {
        return Err(Failure::wrong(format!(
            "afterwards a message is `{answer}`, and what arrives is {more:?}"
        )));
    }
    close(world, name)
}

/// Every process closes the queue; it is removed and swept.
pub(super) fn close(world: &mut World, name: &str) -> Result<(), Failure> {
    for survivor in world.survivors() {
        world.ask(survivor, &format!("queue close {name}"))?;
    }
    super::nothing_left(world, &[name])
}
