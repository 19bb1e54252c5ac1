//! Standing by for a queue's receiver or a state's writer that dies or leaves, while another process
//! stands by as well: cut short anywhere, the other one takes over at once. Both do their work and
//! leave, one after the other, and each finds what the one before it has left.
//!
//! Services have theirs in `rpc/stand_by.rs`.

use outlive::wait::{StandBy as ToTake, WaitSet};
use outlive::{Domain, Error, WaitError, WaitStrategy};

use super::member::queue::Shape;
use super::member::state as states;
use super::{Death, HOLDS_NOTHING, Place, Scenario, Stop, help_beside, names_victim, queue};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::world::World;

/// What the victim stands by for, and how it waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StandBy {
    /// A queue's receiver.
    Receiver,
    /// The same in a wait set.
    ReceiverInSet,
    /// The same, for one that leaves in order.
    ReceiverLeaves,
    /// A state's writer.
    Writer,
    /// The same in a wait set.
    WriterInSet,
    /// The same, for one that leaves in order.
    WriterLeaves,
}

use StandBy::{Receiver, ReceiverInSet, ReceiverLeaves, Writer, WriterInSet, WriterLeaves};

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    [Receiver, ReceiverInSet, ReceiverLeaves, Writer, WriterInSet, WriterLeaves]
        .into_iter()
        .map(|one| Box::new(one) as Box<dyn Scenario>)
        .collect()
}

/// The queue, and the messages that lie in it. A receiver that dies has the first of them in hand.
const QUEUE: (u64, u32) = (64 << 10, 4);
const MESSAGES: u64 = 3;

/// What is written by the victim, and by the other.
const BY_VICTIM: u64 = 2;
const BY_OTHER: u64 = 9;

/// Sleeps in a wait set until `take` takes the role.
///
/// # Errors
/// What taking it or waiting reports.
pub(super) fn wait_in_set<R>(
    domain: &Domain,
    role: &ToTake,
    mut take: impl FnMut() -> Result<Option<R>, Error>,
) -> Result<R, Error> {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(role)?;
    loop {
        if let Some(taken) = take()? {
            return Ok(taken);
        }
        set.wait().map_err(|error| match error {
            WaitError::System(error) => error,
            other => unreachable!("no deadline: {other}"),
        })?;
    }
}

impl StandBy {
    fn is_of_queue(self) -> bool {
        matches!(self, Receiver | ReceiverInSet | ReceiverLeaves)
    }

    /// The holder leaves in order: nothing but its wake-up tells those that stand by.
    fn leaves(self) -> bool {
        matches!(self, ReceiverLeaves | WriterLeaves)
    }

    /// The order to the other one; it answers when it has had the role and has left.
    fn order(self, name: &str) -> String {
        match self.is_of_queue() {
            true => format!("queue stand-by {name}"),
            false => format!("state set-in-turn {name} {BY_OTHER}"),
        }
    }

    /// Receives what is there, each message by peek and commit, and leaves. It acknowledges each when
    /// it has it in hand.
    fn receive(self, domain: &Domain, name: &str, stage: &Stage) -> Result<(), String> {
        let (max_bytes, first) = QUEUE;
        let queue = Shape::growing(max_bytes, first).create(domain, name)?;
        stage.perform(|| {
            let receiver = match self {
                Receiver => queue.wait_to_receive(),
                _ => wait_in_set(domain, &queue.stand_by(), || queue.try_wait_to_receive()),
            };
            let mut receiver = receiver.map_err(|error| error.to_string())?;
            // None: the other one was faster.
            while let Some(peeked) = receiver.try_peek().map_err(|error| error.to_string())? {
                let Stamp { sender, number } = Stamp::of(&peeked)?;
                if sender != 3 || peeked.redelivered() != (number == 1 && !self.leaves()) {
                    return Err(format!("{sender}:{number}, marked: {}", peeked.redelivered()));
                }
                stage.acknowledge(1);
                peeked.commit();
            }
            Ok(())
        })
    }

    /// Sets a value, and leaves.
    fn write(self, domain: &Domain, name: &str, stage: &Stage) -> Result<(), String> {
        let state = states::open(domain, name)?;
        stage.perform(|| {
            let writer = match self {
                Writer => state.wait_to_write(),
                _ => wait_in_set(domain, &state.stand_by(), || state.try_wait_to_write()),
            };
            let mut writer = writer.map_err(|error| error.to_string())?;
            writer.set(&states::eight(BY_VICTIM)).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            Ok(())
        })
    }

    /// Every message was received once, in order; the one in hand of a dead receiver comes again.
    fn was_received(
        self,
        world: &mut World,
        name: &str,
        by_other: &str,
        death: &Death,
    ) -> Result<(), Failure> {
        let mut seen = queue::seen(by_other)?;
        let heir = world.ask("heir", &format!("queue become-receiver {name}"))?;
        if heir != "mine" {
            return Err(Failure::wrong(format!("no process receives, yet it is `{heir}`")));
        }
        seen.extend(queue::drain(world, "heir", name)?);
        let handed = death.acknowledged;
        let first = seen.first().map_or(MESSAGES + 1, |seen| seen.stamp.number);
        // The victim had the message before in hand, and may not have committed it.
        let is_again = first == handed && handed > 0 && !death.ended;
        let marked: Vec<u64> =
            seen.iter().filter(|seen| seen.redelivered).map(|seen| seen.stamp.number).collect();
        let right = match (first, handed) {
            (1, 0) if !self.leaves() => marked == [1],
            _ if is_again => marked == [first],
            _ => first == handed + 1 && marked.is_empty(),
        };
        if !right {
            return Err(Failure::wrong(format!("{handed} were handed out, afterwards {seen:?}")));
        }
        queue::in_order(&seen, 3, first, MESSAGES, MESSAGES)?;
        queue::adds_up(&queue::counters(world, "heir", name)?, MESSAGES, 0)?;
        world.saw(if handed == 0 { "received by the other" } else { "received by the victim" });
        queue::still_works(world, "heir", name, 1)
    }

    /// Both values were set one after the other, or the other's alone.
    fn was_written(
        world: &mut World,
        name: &str,
        by_other: &str,
        death: &Death,
    ) -> Result<(), Failure> {
        let there = world.ask("reader", &format!("state get {name}"))?;
        let (alone, last, first) =
            (format!("{BY_OTHER} 2"), format!("{BY_OTHER} 3"), format!("{BY_VICTIM} 3"));
        let has_set = match (by_other, &there) {
            ("2", there) if *there == alone => false,
            ("2", there) if *there == first => true,
            ("3", there) if *there == last => true,
            _ => {
                let text = format!("{there} is there, and the other has set version {by_other}");
                return Err(Failure::wrong(text));
            }
        };
        if death.acknowledged == 1 && !has_set {
            return Err(Failure::wrong("what the victim has set is not there".to_owned()));
        }
        world.saw(if by_other == "2" { "the other came first" } else { "the victim came first" });
        for number in [11, 12] {
            let version = world.ask("next", &format!("state set {name} {number}"))?;
            let there = world.ask("reader", &format!("state get {name}"))?;
            if there != format!("{number} {version}") {
                return Err(Failure::wrong(format!("{number} was set, there is {there}")));
            }
        }
        super::nothing_left(world, &[name])
    }
}

impl Scenario for StandBy {
    fn name(&self) -> &'static str {
        match self {
            Receiver => "queue-stand-by",
            ReceiverInSet => "queue-stand-by-in-set",
            ReceiverLeaves => "queue-stand-by-leaves",
            Writer => "state-stand-by",
            WriterInSet => "state-stand-by-in-set",
            WriterLeaves => "state-stand-by-leaves",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Receiver => {
                "sleep until the receiver dies, beside another that does, receive what is there, and leave"
            }
            Writer => {
                "sleep until the writer dies, beside another that does, set a value, and leave"
            }
            ReceiverInSet | WriterInSet => "the same in a wait set",
            ReceiverLeaves => "the same in a wait set, beside a receiver that leaves in order",
            WriterLeaves => "the same in a wait set, beside a writer that leaves in order",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !self.is_of_queue() {
            world.ask("reader", &format!("state get {name}"))?;
            return world.ask("old", &format!("state hold {name}")).map(drop);
        }
        let (max_bytes, first) = QUEUE;
        world.ask("filler", &format!("queue create {name} {max_bytes} {first}"))?;
        world.ask("old", &format!("queue become-receiver {name}"))?;
        world.ask("filler", &format!("queue send {name} 3 1 {MESSAGES} 48"))?;
        if self.leaves() {
            return Ok(());
        }
        world.ask("old", &format!("queue peek {name}")).map(drop)
    }

    /// The other one sleeps behind the victim: the kernel wakes the victim first, which wakes it.
    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.survivor("other")?.tell_and_see_asleep(&self.order(&name))?;
        if self.leaves() {
            let what = if self.is_of_queue() { "queue leave-receiver" } else { "state leave" };
            return world.ask("old", &format!("{what} {name}")).map(drop);
        }
        world.dismiss("old");
        Ok(())
    }

    fn check_alive(&self, world: &mut World) -> Result<(), Failure> {
        // The victim has left, and needs not die for the other to get on.
        world.has_to_answer("other")
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        let by_other = world.answer("other")?;
        match self.is_of_queue() {
            true => self.was_received(world, &name, &by_other, death),
            false => StandBy::was_written(world, &name, &by_other, death),
        }
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        if !stop.ended {
            help_beside(self, world, stop)?;
        }
        let (holder, held) = match self.is_of_queue() {
            true => ("queue reader", "is the receiver"),
            false => ("state writer-pid", "is the writer"),
        };
        if names_victim(world, &format!("{holder} {name}"))? {
            return Ok(held);
        }
        world.gets_past("other")?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        match self.is_of_queue() {
            true => self.receive(&domain, place.name, stage),
            false => self.write(&domain, place.name, stage),
        }
    }
}
