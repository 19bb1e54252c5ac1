//! Processes that are killed while a device works for them: a program with a main of its own, which
//! is also what it starts. With the fake driver, or the one that `OUTLIVE_GPU_DRIVER` names.

mod fake;

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use fake::member::{Member, moment, run_all};
use fake::{Fake, SOON, What, bytes_of, on_device, pattern, wait_for};
use outlive::topic::Topic;
use outlive_gpu::{DeviceMemory, GpuError, PinnedTopic, Stream};

const LEN: usize = 400_000;
const ROUNDS: u64 = 15;

fn small_topic(fake: &Fake) -> Topic<[u8]> {
    // What the dead would leave for good would fill it within a few rounds.
    Topic::options()
        .depth(4)
        .max_bytes(6 << 20)
        .open_or_create(&fake.domain, "frames")
        .expect("a topic")
}

fn publishes_until_it_is_killed() {
    let fake = Fake::member();
    let gpu = fake.gpu();
    let (topic, stream) =
        (PinnedTopic::new(&gpu, small_topic(&fake)), Stream::new(&gpu).expect("a stream"));
    let publisher = topic.publisher().expect("one");
    fake.delay(Duration::from_micros(200));
    for number in u64::from(std::process::id()) << 20.. {
        let from = on_device(&gpu, &stream, &numbered(number));
        for _ in 0..3 {
            let mut loan = publisher.loan(LEN).expect("room");
            // SAFETY: as long as the loan, and freeing it waits for the copies.
            unsafe { loan.copy_from_device(from.address(), &stream) }.expect("enqueued");
            publisher.publish_on(loan, &stream).expect("due");
        }
    }
}

fn subscribes_until_it_is_killed() {
    let fake = Fake::member();
    let gpu = fake.gpu();
    let (topic, stream) =
        (PinnedTopic::new(&gpu, small_topic(&fake)), Stream::new(&gpu).expect("a stream"));
    let mut subscriber = topic.subscriber().expect("one");
    let to = DeviceMemory::new(&gpu, LEN).expect("memory");
    fake.delay(Duration::from_micros(500));
    loop {
        let sample = subscriber.recv_timeout(SOON).expect("no error").expect("comes");
        // SAFETY: as long as the sample, and stays.
        unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
    }
}

fn becomes_another_program(has_device: bool) {
    let fake = Fake::member();
    let topic = small_topic(&fake);
    let publisher = topic.publisher().expect("one");
    if has_device {
        publisher.expect_device_writes();
    }
    let _loan = publisher.loan(LEN).expect("room");
    panic!("{}", Command::new("sleep").arg("60").exec());
}

/// Returns bytes of which each tells the number.
fn numbered(number: u64) -> Vec<u8> {
    let mut bytes = pattern(number, LEN);
    bytes[..8].copy_from_slice(&number.to_ne_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> u64 {
    u64::from_ne_bytes(bytes[..8].try_into().expect("eight"))
}

fn a_publisher_killed_while_its_device_writes_leaves_whole_messages_only() {
    let fake = Fake::new("publisher");
    let gpu = fake.gpu();
    let (topic, stream) =
        (PinnedTopic::new(&gpu, small_topic(&fake)), Stream::new(&gpu).expect("a stream"));
    let mut subscriber = topic.subscriber().expect("one");
    let to = DeviceMemory::new(&gpu, LEN).expect("memory");
    let take = |sample: outlive_gpu::PinnedSample| {
        assert!(**sample == *numbered(number_of(&sample)), "one message, whole");
        // SAFETY: as long as the sample, and read below.
        unsafe { sample.copy_to_device(to.address(), &stream) }.expect("enqueued");
        let number = number_of(&sample);
        drop(sample);
        assert!(bytes_of(&to, &stream) == numbered(number));
    };
    for round in 0..ROUNDS {
        let mut member = Member(fake.start("publishes"));
        let pid = u64::from(member.0.id());
        // Of this one: so it took what the one before left.
        loop {
            let sample = subscriber
                .recv_timeout(SOON)
                .unwrap_or_else(|error| panic!("round {round}: {error}"))
                .unwrap_or_else(|| panic!("round {round}: none came"));
            let is_its = number_of(&sample) >> 20 == pid;
            take(sample);
            if is_its {
                break;
            }
        }
        std::thread::sleep(moment(round));
        member.kill();
        while let Some(sample) = subscriber.try_recv().expect("nothing is wrong") {
            take(sample);
        }
    }
    assert_eq!(fake.count(What::Violations), 0);
}

fn a_subscriber_killed_while_its_device_reads_holds_nothing_for_long() {
    let fake = Fake::new("subscriber");
    let gpu = fake.gpu();
    let (topic, stream) =
        (PinnedTopic::new(&gpu, small_topic(&fake)), Stream::new(&gpu).expect("a stream"));
    let publisher = topic.publisher().expect("one");
    let mut witness = topic.topic().subscriber().expect("one");
    let from = on_device(&gpu, &stream, &numbered(7));
    for round in 0..ROUNDS {
        let mut member = Member(fake.start("subscribes"));
        wait_for("a subscriber", || topic.topic().subscribers().len() == 2);
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(10) + moment(round) {
            publish(&publisher, &from, &stream).expect("room, whatever subscribers hold");
            assert!(*witness.recv_timeout(SOON).expect("no error").expect("comes") == *numbered(7));
        }
        member.kill();
        publish(&publisher, &from, &stream).expect("room");
        assert!(*witness.recv_timeout(SOON).expect("no error").expect("comes") == *numbered(7));
    }
}

fn publish(
    publisher: &outlive_gpu::PinnedPublisher,
    from: &DeviceMemory,
    stream: &Stream,
) -> Result<(), GpuError> {
    // A living reader may have all of the memory for a moment.
    let begun = std::time::Instant::now();
    let mut loan = loop {
        match publisher.loan(LEN) {
            Err(_) if begun.elapsed() < SOON => std::thread::sleep(Duration::from_millis(1)),
            other => break other?,
        }
    };
    // SAFETY: as long as the loan, and stays.
    unsafe { loan.copy_from_device(from.address(), stream) }?;
    publisher.publish_on(loan, stream)
}

fn the_memory_that_a_device_writes_stays_taken_until_its_process_is_gone() {
    for has_device in [false, true] {
        let fake = Fake::new(if has_device { "device" } else { "no-device" });
        let topic = small_topic(&fake);
        let role = if has_device { "becomes-another-with-a-device" } else { "becomes-another" };
        let mut member = Member(fake.start(role));
        // Its token is dead, its mapping gone, and the process still there: perhaps with files of a
        // driver's.
        wait_for("its becoming another program", || {
            let program = std::fs::read_to_string(format!("/proc/{}/comm", member.0.id()))
                .unwrap_or_default();
            program == "sleep\n" && topic.publishers().is_empty()
        });
        let second = topic.publisher().expect("one");
        assert_eq!(
            rings(&fake),
            1 + usize::from(has_device),
            "whether the first one's ring could be taken"
        );
        member.kill();
        let third = topic.publisher().expect("one");
        assert_eq!(rings(&fake), 2, "now it can");
        drop((second, third));
    }
}

/// Returns how many rings the topic has needed so far.
fn rings(fake: &Fake) -> usize {
    match fake.domain.entry("frames").expect("there").detail {
        outlive::Detail::Topic(usage) => usage.rings.len(),
        other => panic!("{other:?}"),
    }
}

/// A member, or all tests whose name contains the first argument.
fn main() {
    let role = std::env::args().nth(1).filter(|word| !word.starts_with('-')).unwrap_or_default();
    if std::env::var_os(fake::MEMBER).is_some() {
        match role.as_str() {
            "publishes" => publishes_until_it_is_killed(),
            "subscribes" => subscribes_until_it_is_killed(),
            "becomes-another" => becomes_another_program(false),
            "becomes-another-with-a-device" => becomes_another_program(true),
            other => panic!("no member is called {other}"),
        }
        return;
    }
    let tests: [(&str, fn()); 3] = [
        (
            "a_publisher_killed_while_its_device_writes_leaves_whole_messages_only",
            a_publisher_killed_while_its_device_writes_leaves_whole_messages_only,
        ),
        (
            "a_subscriber_killed_while_its_device_reads_holds_nothing_for_long",
            a_subscriber_killed_while_its_device_reads_holds_nothing_for_long,
        ),
        (
            "the_memory_that_a_device_writes_stays_taken_until_its_process_is_gone",
            the_memory_that_a_device_writes_stays_taken_until_its_process_is_gone,
        ),
    ];
    run_all(&role, &tests);
}
