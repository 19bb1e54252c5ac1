//! Memory that is brought in before it is used: cut short anywhere, what was made stays in the files,
//! what the victim had in hand comes back, and all others go on meanwhile.

use outlive::topic::Publisher;

use super::member::queue::Shape;
use super::member::topic::topic;
use super::member::{jobs as job_queues, state as states};
use super::{
    Death, HOLDS_NOTHING, Place, Scenario, Stop, jobs, nothing_left, queue, topic as topics,
};
use crate::engine::victim::Stage;
use crate::failure::Failure;
use crate::world::World;

/// What is brought in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prefault {
    /// Memory for a publisher's messages.
    Topic,
    /// Slots and memory for a queue's messages.
    Queue,
    /// A state's buffers.
    State,
    /// A job queue's slots.
    Jobs,
    /// All that the process has open, and its own; and locked.
    Lock,
}

/// All of them.
#[must_use]
pub fn all() -> Vec<Box<dyn Scenario>> {
    use Prefault::{Jobs, Lock, Queue, State, Topic};
    [Topic, Queue, State, Jobs, Lock].into_iter().map(|one| Box::new(one) as Box<_>).collect()
}

/// Messages that a queue gets memory for, and their bytes.
const MESSAGES: usize = 4;
const BYTES: usize = 9_000;

/// The readers that a state gets buffers for.
const READERS: usize = 6;

/// The mark of a round in which another has sent or published beside the stopped victim.
const BESIDE: &str = "another has sent one";

/// The part of the stack: none, since the C library reads where a stack ends from a file, and says of
/// each error of that read that there is none.
const STACK: usize = 0;

impl Prefault {
    /// Whether it is about a topic, beside a publisher and a subscriber.
    fn is_of_topic(self) -> bool {
        matches!(self, Prefault::Topic | Prefault::Lock)
    }
}

impl Scenario for Prefault {
    fn name(&self) -> &'static str {
        match self {
            Prefault::Topic => "prefault-topic",
            Prefault::Queue => "prefault-queue",
            Prefault::State => "prefault-state",
            Prefault::Jobs => "prefault-jobs",
            Prefault::Lock => "lock-memory",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Prefault::Topic => "prefault a publisher's messages",
            Prefault::Queue => "prefault a queue's messages",
            Prefault::State => "prefault a state's buffers",
            Prefault::Jobs => "prefault a job queue",
            Prefault::Lock => "lock what a process has open in memory, and its own",
        }
    }

    fn stem(&self) -> &'static str {
        if self.is_of_topic() { "topic" } else { "thing" }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        match self {
            Prefault::Topic | Prefault::Lock => topics::two_ends(world, &name),
            Prefault::Queue => {
                world.ask("second", &format!("queue create {name}"))?;
                world.ask("receiver", &format!("queue become-receiver {name}")).map(drop)
            }
            Prefault::State => world.ask("next", &format!("state set {name} 1")).map(drop),
            Prefault::Jobs => world.ask("another", &format!("jobs open {name}")).map(drop),
        }
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        let name = world.fresh(self.stem());
        let number = 1 + u64::from(world.has_done(BESIDE));
        match self {
            Prefault::Topic | Prefault::Lock => {
                // What was published beside the stopped victim is taken.
                world.ask("keeper", &format!("topic catch-up {name}"))?;
                topics::still_works(world, &name, number, 2, topics::OBJECT)
            }
            Prefault::Queue => {
                // What the dead one had in hand is free.
                world.ask("sweeper", "domain sweep")?;
                world.ask("second", &format!("queue prefault {name} {MESSAGES} {BYTES}"))?;
                queue::drain(world, "receiver", &name)?;
                queue::still_works(world, "receiver", &name, number)
            }
            Prefault::State => {
                let there = world.ask("reader", &format!("state get {name}"))?;
                if !there.starts_with("2 ") {
                    return Err(Failure::wrong(format!("2 was set, there is {there}")));
                }
                for number in 3..=5 {
                    let version = world.ask("next", &format!("state set {name} {number}"))?;
                    let there = world.ask("reader", &format!("state get {name}"))?;
                    if there != format!("{number} {version}") {
                        return Err(Failure::wrong(format!("{number} was set, there is {there}")));
                    }
                }
                nothing_left(world, &[&name])
            }
            Prefault::Jobs => jobs::still_works(world, &name),
        }
    }

    fn stopped(&self, world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        let name = world.fresh(self.stem());
        match self {
            Prefault::Topic | Prefault::Lock => {
                world
                    .passes("second", &format!("topic publish {name} 2 1 1 {}", topics::OBJECT))?;
                world.first_time(BESIDE);
            }
            Prefault::Queue => {
                world.passes("second", &format!("queue send {name} 2 1 1 48"))?;
                world.first_time(BESIDE);
                super::passes_with(world, "receiver", &format!("queue drain {name} 1"), "2:1")?;
            }
            Prefault::State => {
                world.passes("reader", &format!("state get {name}"))?;
            }
            Prefault::Jobs => {
                world.passes("another", &format!("jobs put {name} 9"))?;
                super::passes_with(world, "another", &format!("jobs take {name}"), "9:1")?;
            }
        }
        Ok(if *self == Prefault::State { "is the writer" } else { HOLDS_NOTHING })
    }

    fn has_sleepers(&self) -> bool {
        false
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let domain = place.open()?;
        domain.token().and_then(|_| domain.process_token()).map_err(|error| error.to_string())?;
        let name = place.name;
        match self {
            Prefault::Topic => {
                let topic = topic(&domain, name)?;
                let publisher: Publisher = topic.publisher().map_err(|error| error.to_string())?;
                let done = stage.perform(|| publisher.prefault(2, topics::OBJECT));
                std::mem::forget(publisher);
                done.map_err(|error| error.to_string())
            }
            Prefault::Queue => {
                let queue = Shape::of(&[])?.create(&domain, name)?;
                let done = stage.perform(|| queue.prefault(MESSAGES, BYTES));
                done.map_err(|error| error.to_string())
            }
            Prefault::State => {
                let state = states::open(&domain, name)?;
                let mut writer = state.writer().map_err(|error| error.to_string())?;
                writer.set(&states::eight(2)).map_err(|error| error.to_string())?;
                let done = stage.perform(|| writer.prefault(READERS));
                std::mem::forget(writer);
                done.map_err(|error| error.to_string())
            }
            Prefault::Jobs => {
                let queue = job_queues::open(&domain, name)?;
                let done = stage.perform(|| queue.prefault(job_queues::ROOM as usize));
                done.map_err(|error| error.to_string())
            }
            Prefault::Lock => {
                let topic = topic(&domain, name)?;
                let publisher: Publisher = topic.publisher().map_err(|error| error.to_string())?;
                let done = stage.perform(|| domain.lock_memory(STACK));
                std::mem::forget(publisher);
                done.map_err(|error| error.to_string())
            }
        }
    }
}
