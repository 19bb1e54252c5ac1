//! Sending to a queue that is full at its largest, beside another waiting sender: when there is
//! room again, both go on, whichever process dies and whenever. Room comes from the receiver, or
//! from the next one, where the queue keeps messages for it.

use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::message::Stamp;
use crate::scenario::member::queue::Shape;
use crate::scenario::{Death, HOLDS_NOTHING, Place, Scenario, Stop};
use crate::world::World;

/// See the file's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendWaiting {
    /// All slots are taken.
    Slot,
    /// All memory for objects is taken.
    Memory,
    /// So many messages are unread as the queue may hold.
    Bounded,
    /// All slots are taken, and the receiver is dead: the next one makes room.
    SlotKept,
    /// All memory for objects is taken, and the receiver is dead.
    MemoryKept,
}

/// What the bounded queue holds: one more than `help` receives, and no power of two.
const BOUND: u32 = 7;

impl SendWaiting {
    fn shape(self) -> Shape {
        match self {
            SendWaiting::Bounded => Shape::bounded(BOUND),
            SendWaiting::Slot | SendWaiting::SlotKept => Shape::growing(64 << 10, 256),
            SendWaiting::Memory | SendWaiting::MemoryKept => Shape::growing(256 << 10, 64),
        }
    }

    /// Whether the receiver is dead before the victim comes.
    fn is_receiver_dead(self) -> bool {
        matches!(self, SendWaiting::SlotKept | SendWaiting::MemoryKept)
    }

    fn length(self) -> usize {
        match self {
            SendWaiting::Slot | SendWaiting::SlotKept | SendWaiting::Bounded => 48,
            SendWaiting::Memory | SendWaiting::MemoryKept => 5000,
        }
    }
}

impl Scenario for SendWaiting {
    fn name(&self) -> &'static str {
        match self {
            SendWaiting::Slot => "queue-send-waiting",
            SendWaiting::Memory => "queue-send-waiting-large",
            SendWaiting::Bounded => "queue-send-bounded",
            SendWaiting::SlotKept => "queue-keep-waiting",
            SendWaiting::MemoryKept => "queue-keep-waiting-large",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            SendWaiting::Slot => {
                "send to a queue that is full at its largest, beside another waiting sender"
            }
            SendWaiting::Memory => {
                "send 5,000 bytes to a queue without memory left, beside another waiting sender"
            }
            SendWaiting::Bounded => {
                "send to a queue that is full at its bound of 7 messages, beside another waiting sender"
            }
            SendWaiting::SlotKept => {
                "send to a full queue that keeps messages while its receiver is dead, beside another waiting sender"
            }
            SendWaiting::MemoryKept => {
                "send 5,000 bytes to such a queue without memory left, beside another waiting sender"
            }
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let length = self.length();
        let shape = self.shape().words();
        let (create, receiver) = if self.is_receiver_dead() {
            ("create-keeping", "old")
        } else {
            ("create", "receiver")
        };
        world.ask(receiver, &format!("queue {create} {name} {shape}"))?;
        world.ask(receiver, &format!("queue become-receiver {name}"))?;
        let filled = world.ask("filler", &format!("queue fill {name} 3 {length}"))?;
        world.remember(filled.parse().map_err(|_| Failure::broken("fill answers no number"))?);
        if *self == SendWaiting::Bounded && world.remembered() != u64::from(BOUND) {
            return Err(Failure::wrong(format!("{BOUND} messages fit, it took {filled}")));
        }
        if self.is_receiver_dead() {
            world.dismiss(receiver);
        }
        world.survivor("second")?.tell_and_see_asleep(&format!("queue send {name} 2 1 1 {length}"))
    }

    fn help(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if self.is_receiver_dead() {
            world.ask("receiver", &format!("queue become-receiver {name}"))?;
        }
        // One region from the beginning, so that any message received makes room.
        let some = super::seen(&world.ask("receiver", &format!("queue drain {name} 6"))?)?;
        super::in_order(&some, 3, 1, 6, 6).map(drop)
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        if !death.helped {
            self.help(world)?;
        }
        let answer = world.answer("second")?;
        if answer != "sent" {
            return Err(Failure::wrong(format!("the second sender's message is `{answer}`")));
        }
        let all = super::drain(world, "receiver", &name)?;
        let filled = world.remembered();
        let arrived = super::in_order(&all, 1, 1, death.acknowledged, 1)?;
        super::in_order(&all, 2, 1, 1, 1)?;
        let counted = super::counters(world, "receiver", &name)?;
        super::in_order(&all, 3, 7, filled, filled)?;
        super::adds_up(&counted, all.len() as u64 + 6, u64::from(!death.ended))?;
        world.saw_many("arrived", arrived);
        world.saw_many("abandoned", counted.abandoned);
        super::still_works(world, "receiver", &name, 2)
    }

    fn stopped(&self, world: &mut World, stop: &mut Stop) -> Result<&'static str, Failure> {
        crate::scenario::help_beside(self, world, stop)?;
        world.all_get_past()?;
        Ok(HOLDS_NOTHING)
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        let queue = self.shape().create(&domain, place.name)?;
        let sender = queue.sender().map_err(|error| error.to_string())?;
        let message = Stamp { sender: 1, number: 1 }.message(self.length());
        stage.perform(|| {
            sender.send(&message).map_err(|error| error.to_string())?;
            stage.acknowledge(1);
            Ok(())
        })
    }
}
