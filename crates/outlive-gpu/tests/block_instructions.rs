//! Operations on a device topic, killed at their instructions: a program with a main of its own, which is also what it kills. The driver does what is enqueued
//! at once, in the thread that enqueues it, so that host functions are among the instructions.
//!
//! At some of them, spread over the whole; `OUTLIVE_GPU_DEATHS` says at how many of each operation, a large number: at all.

mod fake;

use std::path::{Path, PathBuf};
use std::time::Instant;

use fake::member::run_all;
use fake::scene::{BLOCK, Scene};
use fake::{Fake, SOON, What, pattern};
use outlive::topic::SubscriberOptions;
use outlive_gpu::{DevicePublisher, DeviceSubscriber, DeviceTopic, Error};
use outlive_testkit::engine::control::Control;
use outlive_testkit::engine::trace;
use outlive_testkit::engine::victim::{Stage, Stand, Victim};

const LEN: usize = 1000;
/// At how many instructions of each operation.
const SOME: u64 = 12;
const DEPTH: u64 = 2;

fn topic(scene: &Scene) -> DeviceTopic {
    let topic = DeviceTopic::<u8>::options().depth(DEPTH as u32).open(&scene.fake.domain, "few").expect("a topic");
    DeviceTopic::new(&scene.gpu, &scene.fake.domain, topic).expect("blocks")
}

fn publish(scene: &Scene, publisher: &DevicePublisher, number: u64) {
    let from = fake::on_device(&scene.gpu, &scene.stream, &pattern(number, LEN));
    let mut loan = publisher.loan(LEN).expect("room");
    // SAFETY: as long as the loan; freeing it waits for the copy.
    unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
    publisher.publish_on(loan, &scene.stream).expect("due");
    publisher.wait_published(SOON).expect("published");
}

fn joins(topic: &DeviceTopic) -> DeviceSubscriber {
    let options = SubscriberOptions { history: DEPTH as u32, ..SubscriberOptions::default() };
    topic.subscriber_with(options).expect("one")
}

/// The victim.
fn operates(operation: &str, folder: &str, control: &str) {
    let scene = Scene::with(Fake::member_at(folder.into()));
    scene.fake.set_attribute(-4, 1);
    let topic = topic(&scene);
    let stage = Stage::enter(Path::new(control), None).expect("a stage");
    match operation {
        "receive" | "release" => {
            let mut subscriber = joins(&topic);
            let first = subscriber.recv_until(SOON).expect("comes");
            if operation == "release" {
                stage.begin();
                first.release_on(&scene.stream).expect("enqueued");
            } else {
                stage.begin();
                // One that is not mapped yet.
                std::mem::forget(subscriber.recv_until(SOON).expect("comes"));
            }
            stage.acknowledge(1);
            stage.end();
        }
        _ => {
            let publisher = topic.publisher().expect("one");
            (0..DEPTH).for_each(|number| publish(&scene, &publisher, number));
            let from = fake::on_device(&scene.gpu, &scene.stream, &pattern(DEPTH, LEN));
            if operation == "loan" {
                stage.begin();
            }
            let mut loan = publisher.loan(LEN).expect("room");
            if operation == "publish" {
                stage.begin();
            }
            // SAFETY: as long as the loan, and stays.
            unsafe { loan.copy_from_device(from.address(), &scene.stream) }.expect("enqueued");
            publisher.publish_on(loan, &scene.stream).expect("due");
            stage.acknowledge(1);
            stage.end();
        }
    }
    // Killed here at the latest: nothing is given back in order.
    loop {
        std::thread::park();
    }
}

struct Life {
    control: Control,
    place: PathBuf,
    log: PathBuf,
    operation: &'static str,
}

impl Life {
    fn start(&self, folder: &Path) -> Victim {
        let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
        let (folder, place) = (text(folder), text(&self.place));
        let own = std::env::current_exe().expect("a path");
        let arguments = ["operates", self.operation, &folder, &place];
        let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
        Victim::start(&own, &arguments, &self.control, &self.log).unwrap_or_else(|error| panic!("{error}\n{}", log()))
    }

    /// So many instructions; how many there were.
    fn run(&self, victim: &mut Victim, steps: u64) -> u64 {
        for step in 0..steps {
            let mut stand = victim.step(&self.control).expect("a step");
            while stand == Stand::Asleep {
                // It waits for an answer, which we give.
                stand = victim.awaken(&self.control, Instant::now() + SOON).expect("woken");
            }
            if stand != Stand::Within {
                return step + 1;
            }
        }
        steps
    }
}

/// Deaths at instructions of that operation, each in a world of its own: prepared before the victim comes, checked at its beginning and when it is dead.
fn kill_at_instructions<W>(
    operation: &'static str,
    prepare: impl Fn(&Scene) -> W,
    begun: impl Fn(&Scene, &mut W),
    check: impl Fn(&Scene, W, bool),
) {
    let scratch = PathBuf::from(format!("/dev/shm/outlive-gpu-{}-stage-{operation}", std::process::id()));
    std::fs::create_dir(&scratch).expect("ours");
    let _removed = Removed(scratch.clone());
    let place = scratch.join("control");
    let life = Life { control: Control::open(&place).expect("a page"), place, log: scratch.join("log"), operation };
    let die = |number: u64, steps: u64| {
        let scene = Scene::new(&format!("{operation}-{number}"));
        let mut world = prepare(&scene);
        let mut victim = life.start(scene.fake.domain.path());
        begun(&scene, &mut world);
        let steps = life.run(&mut victim, steps);
        victim.kill().expect("ours");
        let is_acknowledged = life.control.acknowledged() > 0;
        check(&scene, world, is_acknowledged);
        assert_eq!(scene.fake.count(What::Violations), 0);
        steps
    };
    let all = die(0, u64::MAX);
    let points = std::env::var("OUTLIVE_GPU_DEATHS").ok().and_then(|count| count.parse().ok()).unwrap_or(SOME).min(all);
    for point in 0..points {
        die(point + 1, point * all / points);
    }
    println!("{operation}: {all} instructions, {} deaths", points + 1);
}

/// Of one who publishes: messages whole, and the next publisher as if nothing had been.
fn publisher_killed(operation: &'static str) {
    kill_at_instructions(
        operation,
        |scene| {
            let topic = topic(scene);
            let subscriber = topic.subscriber().expect("one");
            (topic, subscriber)
        },
        |scene, (_, subscriber)| {
            for number in 0..DEPTH {
                let sample = subscriber.recv_until(SOON).expect("comes");
                assert!(scene.bytes(&sample) == pattern(number, LEN));
            }
        },
        |scene, (topic, mut subscriber), is_acknowledged| {
            match subscriber.try_recv() {
                Ok(Some(sample)) => assert!(scene.bytes(&sample) == pattern(DEPTH, LEN), "whole"),
                Ok(None) => assert!(!is_acknowledged, "published, and not there"),
                Err(Error::OwnerDied { .. }) => {}
                Err(other) => panic!("{other}"),
            }
            let next = topic.publisher().expect("a ring");
            for number in 100..105 {
                publish(scene, &next, number);
                let sample = subscriber.recv_until(SOON).expect("comes");
                assert!(scene.bytes(&sample) == pattern(number, LEN));
            }
            assert_eq!(scene.fake.sockets(), 1, "the dead one's is removed");
        },
    );
}

/// Of one who reads: what it held is used again.
fn reader_killed(operation: &'static str) {
    kill_at_instructions(
        operation,
        |scene| {
            let topic = topic(scene);
            let publisher = topic.publisher().expect("one");
            (0..DEPTH).for_each(|number| publish(scene, &publisher, number));
            (topic, publisher)
        },
        |_, _| (),
        |scene, (topic, publisher), _| {
            let mut witness = topic.subscriber().expect("one");
            for number in 100..112 {
                publish(scene, &publisher, number);
                let sample = witness.recv_until(SOON).expect("comes");
                assert!(scene.bytes(&sample) == pattern(number, LEN));
                drop(sample);
                // Let go of by the copy, too.
                topic.wait_over(SOON).expect("over");
            }
            let most = (DEPTH + 4) * BLOCK;
            assert!(topic.exported_bytes() <= most, "{} of {most}", topic.exported_bytes());
        },
    );
}

/// A victim, or all tests whose name contains the first argument.
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let ["operates", operation, folder, control] = words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return operates(operation, folder, control);
    }
    let part = words.into_iter().find(|word| !word.starts_with('-')).unwrap_or_default();
    trace::arm_interrupts();
    let tests: [(&str, fn()); 4] = [
        ("killed_while_it_lends_and_publishes", || publisher_killed("loan")),
        ("killed_while_it_publishes", || publisher_killed("publish")),
        ("killed_while_it_receives_and_maps", || reader_killed("receive")),
        ("killed_while_it_lets_go", || reader_killed("release")),
    ];
    run_all(&part, &tests);
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
