//! Waiting for a message, being woken by one, and dying in it: later sends are told at once that
//! the reader died, and the message that woke it is not lost (by `recv`: unless it was committed).

use outlive::queue::Receiver;

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop, passes_with};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum RecvWaiting {
    /// `recv`.
    Plain,
    /// `peek` and `commit`.
    Peek,
}

/// The mark of a round in which another message was sent beside the stopped victim.
const SENT_BESIDE: &str = "second has sent beside it";

impl RecvWaiting {
    fn receive(self, receiver: &mut Receiver, stage: &Stage) -> Result<(), String> {
        if self == RecvWaiting::Plain {
            let message = receiver.recv().map_err(|error| error.to_string())?;
            Stamp::of(&message)?;
            stage.acknowledge(1);
        } else {
            let peeked = receiver.peek().map_err(|error| error.to_string())?;
            Stamp::of(&peeked)?;
            stage.acknowledge(1);
            peeked.commit();
        }
        Ok(())
    }
}

impl Scenario for RecvWaiting {
    fn name(&self) -> &'static str {
        match self {
            RecvWaiting::Plain => "queue-recv-waiting",
            RecvWaiting::Peek => "queue-peek-waiting",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            RecvWaiting::Plain => "wait for a message, be woken by it, receive it",
            RecvWaiting::Peek => "wait for a message, be woken by it, peek and commit it",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        world.ask("second", &format!("queue create {name} 65536 4"))?;
        world.ask("second", &format!("queue enter-sender {name}")).map(drop)
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match world.ask("second", &format!("queue send {name} 2 1 1 48"))?.as_str() {
            "sent" => Ok(()),
            other => {
                Err(Failure::wrong(format!("the sender is told `{other}`, its receiver lives")))
            }
        }
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let sent = u64::from(death.helped) + u64::from(world.has_done(SENT_BESIDE));
        let answer = world.ask("second", &format!("queue send {name} 2 9 1 48"))?;
        if answer != "receiver-died" {
            return Err(Failure::wrong(format!(
                "the sender is told `{answer}`, its receiver is dead"
            )));
        }
        world.ask("heir", &format!("queue become-receiver {name}"))?;
        let all = super::drain(world, "heir", &name)?;
        // At most one is missing, the first.
        let first = super::numbers(&all, 2).first().copied().unwrap_or(sent + 1);
        super::in_order(&all, 2, first, sent, sent)?;
        let (taken, handed) = (first - 1, death.acknowledged);
        if taken > 1 {
            return Err(Failure::wrong(format!(
                "sent {sent}, received one at most, the next receiver got {all:?}"
            )));
        }
        let again = all.iter().filter(|seen| seen.redelivered).count() as u64;
        if *self == RecvWaiting::Peek && (taken > handed || taken == 0 && handed == 1 && again == 0)
        {
            return Err(Failure::wrong(format!(
                "sent {sent}, acknowledged {handed}, the next receiver got {all:?}"
            )));
        }
        if *self == RecvWaiting::Plain && (handed > taken || again > 0) {
            return Err(Failure::wrong(format!(
                "sent {sent}, received {handed}, the next receiver got {all:?}"
            )));
        }
        super::adds_up(&super::counters(world, "heir", &name)?, sent, 0)?;
        world.saw_many("lost with its receiver", taken.saturating_sub(handed));
        world.saw_many("redelivered", again);
        super::still_works(world, "heir", &name, 3)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        let name = world.fresh(self.stem());
        // There is room: whether it takes the first one or not, the next one goes in.
        if world.first_time(SENT_BESIDE) {
            passes_with(world, "second", &format!("queue send {name} 2 2 1 48"), "sent")?;
        }
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = Shape::growing(64 << 10, 4).create(&domain, place.name)?;
        let mut receiver = queue.receiver().map_err(|error| error.to_string())?;
        stage.begin();
        let received = self.receive(&mut receiver, stage);
        // Before it leaves.
        stage.end_of(&received);
        received
    }
}
