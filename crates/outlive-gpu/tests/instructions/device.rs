//! Device topics: the publisher or the subscriber is killed.

use outlive::topic::Subscriber;
use outlive_gpu::{DeviceLoan, DevicePublisher, DeviceSubscriber, DeviceTopic, GpuError};
use outlive_testkit::engine::victim::Stage;
use outlive_testkit::failure::Failure;
use outlive_testkit::scenario::{self, Death, Place, Scenario, Stop};
use outlive_testkit::world::World;

use crate::fake::scene::{BLOCK, Scene};
use crate::fake::{SOON, on_device, pattern};
use crate::{ROUNDS, checked, dies, gathered, prepared, victims};

/// What the thread that answers has (`device/exporter.rs`).
const ANSWERS_STACK: usize = 128 << 10;

const LEN: usize = 1000;
const DEPTH: u64 = 2;

pub fn all() -> [Box<dyn Scenario>; 5] {
    [
        Box::new(Publish::First),
        Box::new(Publish::FromLoan),
        Box::new(Publish::FromCopy),
        Box::new(Read::Receive),
        Box::new(Read::Release),
    ]
}

fn few(scene: &Scene, name: &str) -> DeviceTopic {
    let topic = DeviceTopic::<u8>::options()
        .depth(DEPTH as u32)
        .open_or_create(&scene.fake.domain, name)
        .expect("a topic");
    DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks")
}

fn publish(scene: &Scene, publisher: &DevicePublisher, number: u64) {
    let from = on_device(&scene.gpu, &scene.stream, &pattern(number, LEN));
    let mut loan = publisher.loan(LEN).expect("room");
    // SAFETY: as long as the loan; freeing it waits for the copy.
    unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
    publisher.publish_on(loan, &scene.stream).expect("due");
    publisher.wait_published_timeout(SOON).expect("published");
}

fn joins(topic: &DeviceTopic) -> DeviceSubscriber {
    let options = Subscriber::options().history(DEPTH as u32);
    topic.subscriber_with(options).expect("one")
}

fn receives(scene: &Scene, subscriber: &mut DeviceSubscriber, number: u64) {
    let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
    assert!(scene.bytes(&sample) == pattern(number, LEN), "message {number}, whole");
}

/// After a publisher's death: messages are whole, and the next publisher works as if nothing had
/// happened.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Publish {
    /// Nothing yet: it makes its first block, and begins to answer for it.
    First,
    FromLoan,
    FromCopy,
}

impl Scenario for Publish {
    fn name(&self) -> &'static str {
        match self {
            Publish::First => "gpu-device-first-loan",
            Publish::FromLoan => "gpu-device-loan",
            Publish::FromCopy => "gpu-device-publish",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Publish::First => {
                "lend the first place in a device topic: a socket is made, and a thread that answers on it"
            }
            Publish::FromLoan => {
                "lend a place in a device topic, copy into it and publish it, beside a subscriber"
            }
            Publish::FromCopy => "copy into what was lent, and publish it, beside a subscriber",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        prepared(world, |scene, name| {
            let topic = few(scene, name);
            let subscriber = topic.subscriber().expect("one");
            (topic, subscriber)
        })
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        gathered(world, |scene, (_, subscriber): &mut (DeviceTopic, DeviceSubscriber)| {
            let published = if *self == Publish::First { 0 } else { DEPTH };
            (0..published).for_each(|number| receives(scene, subscriber, number));
        })
    }

    /// It waits for an answer of a thread of this process, which needs no telling.
    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let mut seen = "";
        checked(world, |scene, (topic, mut subscriber): (DeviceTopic, DeviceSubscriber)| {
            match subscriber.try_recv() {
                Ok(Some(sample)) => {
                    assert!(scene.bytes(&sample) == pattern(DEPTH, LEN), "whole");
                    seen = "came";
                }
                Ok(None) => {
                    assert_eq!(death.acknowledged, 0, "published, and not there");
                    seen = "nothing came";
                }
                Err(GpuError::OwnerDied { .. }) => seen = "told of the end",
                Err(other) => panic!("{other}"),
            }
            let next = topic.publisher().expect("a ring");
            for number in 100..105 {
                publish(scene, &next, number);
                receives(scene, &mut subscriber, number);
            }
            assert_eq!(scene.fake.sockets(), 1, "the dead one's is removed");
        })?;
        world.saw(seen);
        Ok(())
    }

    fn lasting_mappings(&self) -> usize {
        usize::from(*self == Publish::First)
    }

    fn rounds_per_world(&self) -> u64 {
        ROUNDS
    }

    fn stopped(&self, _world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        Err(crate::killed_only())
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let scene = victims(place)?;
        let topic = few(&scene, place.name);
        let publisher = topic.publisher().expect("one");
        let from = on_device(&scene.gpu, &scene.stream, &pattern(DEPTH, LEN));
        let lend = || publisher.loan(LEN);
        if *self == Publish::First {
            scenario::has_had_a_thread(ANSWERS_STACK)?;
            dies(stage.perform(lend));
        }
        (0..DEPTH).for_each(|number| publish(&scene, &publisher, number));
        let publish = |mut loan: DeviceLoan| -> Result<(), GpuError> {
            // SAFETY: as long as the loan, and stays.
            unsafe { loan.copy_from_device(from.address(), &scene.stream) }?;
            publisher.publish_on(loan, &scene.stream)?;
            stage.acknowledge(1);
            Ok(())
        };
        if *self == Publish::FromLoan {
            dies(stage.perform(|| publish(lend()?)));
        }
        let loan = lend().expect("room");
        dies(stage.perform(|| publish(loan)))
    }
}

/// After a subscriber's death: what it held is used again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Read {
    Receive,
    Release,
}

impl Scenario for Read {
    fn name(&self) -> &'static str {
        match self {
            Read::Receive => "gpu-device-receive",
            Read::Release => "gpu-device-release",
        }
    }

    fn about(&self) -> &'static str {
        match self {
            Read::Receive => "receive from a device topic what is not mapped yet, and map it",
            Read::Release => "let go of a message of a device topic when a stream has got there",
        }
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        prepared(world, |scene, name| {
            let topic = few(scene, name);
            let publisher = topic.publisher().expect("one");
            (0..DEPTH).for_each(|number| publish(scene, &publisher, number));
            (topic, publisher)
        })
    }

    /// It waits for an answer of a thread of this process, which needs no telling.
    fn help(&self, _world: &mut World) -> Result<(), Failure> {
        Ok(())
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        checked(world, |scene, (topic, publisher): (DeviceTopic, DevicePublisher)| {
            let mut witness = topic.subscriber().expect("one");
            for number in 100..112 {
                publish(scene, &publisher, number);
                receives(scene, &mut witness, number);
                // Let go of by the copy, too.
                topic.wait_over_timeout(SOON).expect("over");
            }
            let most = (DEPTH + 4) * BLOCK;
            assert!(topic.exported_bytes() <= most, "{} of {most}", topic.exported_bytes());
        })?;
        world.saw("used again");
        Ok(())
    }

    fn rounds_per_world(&self) -> u64 {
        ROUNDS
    }

    fn stopped(&self, _world: &mut World, _stop: &mut Stop) -> Result<&'static str, Failure> {
        Err(crate::killed_only())
    }

    fn perform(&self, place: &Place<'_>, stage: &Stage) -> Result<(), String> {
        let scene = victims(place)?;
        let mut subscriber = joins(&few(&scene, place.name));
        let first = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        if *self == Read::Release {
            dies(
                stage
                    .perform(|| first.release_on(&scene.stream).inspect(|()| stage.acknowledge(1))),
            );
        }
        // One that is not mapped yet.
        dies(stage.perform(|| subscriber.recv_timeout(SOON).inspect(|_| stage.acknowledge(1))))
    }
}
