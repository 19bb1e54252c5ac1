//! Pinned topics: the process is killed that publishes when its stream has got there, or whose
//! device reads a sample.

use outlive::topic::{Subscriber, Topic};
use outlive_gpu::{DeviceMemory, GpuError, PinnedPublisher, PinnedSubscriber, PinnedTopic};
use outlive_testkit::engine::victim::Stage;
use outlive_testkit::failure::Failure;
use outlive_testkit::scenario::{Death, Place, Scenario, Stop};
use outlive_testkit::world::World;

use crate::fake::scene::Scene;
use crate::fake::{SOON, on_device, pattern};
use crate::{ROUNDS, checked, dies, gathered, prepared, victims};

const LEN: usize = 200;
const DEPTH: u64 = 2;

pub fn all() -> [Box<dyn Scenario>; 2] {
    [Box::new(Publish), Box::new(Read)]
}

fn few(scene: &Scene, name: &str) -> PinnedTopic {
    let topic = Topic::options()
        .depth(DEPTH as u32)
        .max_bytes(256 << 10)
        .open_or_create(&scene.fake.domain, name)
        .expect("a topic");
    PinnedTopic::new(&scene.gpu, topic)
}

fn publish(scene: &Scene, publisher: &PinnedPublisher, number: u64) {
    let from = on_device(&scene.gpu, &scene.stream, &pattern(number, LEN));
    let mut loan = publisher.loan(LEN).expect("room");
    // SAFETY: as long as the loan; freeing it waits for the copy.
    unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
    publisher.publish_on(loan, &scene.stream).expect("due");
    publisher.wait_published_timeout(SOON).expect("published");
}

fn receives(subscriber: &mut PinnedSubscriber, number: u64) {
    assert!(
        **subscriber.recv_timeout(SOON).expect("no error").expect("comes") == *pattern(number, LEN),
        "message {number}, whole"
    );
}

/// After the death of a process that lends, copies from its device and publishes: messages are
/// whole, and the next publisher works as if nothing had happened.
struct Publish;

impl Scenario for Publish {
    fn name(&self) -> &'static str {
        "gpu-pinned-publish"
    }

    fn about(&self) -> &'static str {
        "lend a place in a pinned topic, have the device write into it and publish it, beside a subscriber"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        prepared(world, |scene, name| {
            let topic = few(scene, name);
            let subscriber = topic.subscriber().expect("one");
            (topic, subscriber)
        })
    }

    fn gather(&self, world: &mut World) -> Result<(), Failure> {
        gathered(world, |_, (_, subscriber): &mut (PinnedTopic, PinnedSubscriber)| {
            (0..DEPTH).for_each(|number| receives(subscriber, number));
        })
    }

    fn check(&self, world: &mut World, death: &Death) -> Result<(), Failure> {
        let mut seen = "";
        checked(world, |scene, (topic, mut subscriber): (PinnedTopic, PinnedSubscriber)| {
            if let Some(sample) = subscriber.try_recv().expect("nothing is wrong") {
                assert!(**sample == *pattern(DEPTH, LEN), "whole");
                seen = "came";
            } else {
                assert_eq!(death.acknowledged, 0, "published, and not there");
                seen = "nothing came";
            }
            let next = topic.publisher().expect("a ring");
            for number in 100..112 {
                publish(scene, &next, number);
                receives(&mut subscriber, number);
            }
        })?;
        world.saw(seen);
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
        let topic = few(&scene, place.name);
        let publisher = topic.publisher().expect("one");
        (0..DEPTH).for_each(|number| publish(&scene, &publisher, number));
        let from = on_device(&scene.gpu, &scene.stream, &pattern(DEPTH, LEN));
        dies(stage.perform(|| -> Result<(), GpuError> {
            let mut loan = publisher.loan(LEN)?;
            // SAFETY: as long as the loan, and stays.
            unsafe { loan.copy_from_device(from.address(), &scene.stream) }?;
            publisher.publish_on(loan, &scene.stream)?;
            stage.acknowledge(1);
            Ok(())
        }))
    }
}

/// After the death of a process whose device reads a sample that it drops meanwhile: what it held
/// is used again.
struct Read;

impl Scenario for Read {
    fn name(&self) -> &'static str {
        "gpu-pinned-read"
    }

    fn about(&self) -> &'static str {
        "receive from a pinned topic, have the device read it, and drop it"
    }

    fn prepare(&self, world: &mut World) -> Result<(), Failure> {
        prepared(world, |scene, name| {
            let topic = few(scene, name);
            let publisher = topic.publisher().expect("one");
            (0..DEPTH).for_each(|number| publish(scene, &publisher, number));
            (topic, publisher)
        })
    }

    fn check(&self, world: &mut World, _death: &Death) -> Result<(), Failure> {
        checked(world, |scene, (topic, publisher): (PinnedTopic, PinnedPublisher)| {
            let mut witness = topic.subscriber().expect("one");
            for number in 100..112 {
                publish(scene, &publisher, number);
                receives(&mut witness, number);
            }
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
        let to = DeviceMemory::new(&scene.gpu, LEN).expect("memory");
        let options = Subscriber::options().history(DEPTH as u32);
        let mut subscriber = few(&scene, place.name).subscriber_with(options).expect("one");
        dies(stage.perform(|| -> Result<(), GpuError> {
            let sample = subscriber.recv_timeout(SOON)?.ok_or(outlive_gpu::GpuError::TimedOut)?;
            // SAFETY: as long as the sample, and stays.
            unsafe { sample.copy_to_device(to.address(), &scene.stream) }?;
            drop(sample);
            stage.acknowledge(1);
            Ok(())
        }))
    }
}
