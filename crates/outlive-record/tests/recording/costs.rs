//! What a recorder costs a publisher: no system call. Its instructions are counted one by one, by a tracer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Contents, LONG, Place, eventually};
use outlive::queue::Queue;
use outlive::topic::{Subscriber, Topic};
use outlive_costs::{Counted, count};

/// As many messages.
const COUNT: u64 = 60;

/// Counts the instructions of a publisher's messages; `None` where a process may not be traced.
fn counted(domain: &Path) -> Option<Counted> {
    counted_in(domain, "steps")
}

/// Counts those of so many messages into the topic, or the queue, of that name.
fn counted_in(domain: &Path, name: &str) -> Option<Counted> {
    let record = Path::new(env!("CARGO_BIN_EXE_outlive-record"));
    let mut command = Command::new(record.with_file_name("examples").join("stepped"));
    command.arg(domain).args([name, &COUNT.to_string(), "64"]).stdin(Stdio::null());
    count(command)
}

/// What is published while the recorder rests between two looks costs what it costs with any reliable
/// subscriber that looks, and no system call.
#[test]
fn a_recorder_costs_a_publisher_no_call() {
    let place = Place::new("costs");
    let topic = Topic::<[u8]>::options().reliable(true).open_or_create(&place.domain, "steps");
    let topic = topic.expect("made");
    let Some(alone) = counted(place.domain.path()) else {
        println!("a_recorder_costs_a_publisher_no_call: skipped, a process may not be traced here");
        return;
    };
    let polled = beside_a_reliable_subscriber(&topic, || counted(place.domain.path()));
    let polled = polled.expect("as before");
    let busy = Topic::<[u8]>::open_or_create(&place.domain, "busy").expect("made");
    let recording = place.record(&["--all", "-o", "out.mcap"], 2);
    // Something comes all the time, on another topic: the recorder does not sleep.
    let ends = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        scope.spawn(|| {
            let publisher = busy.publisher().expect("a ring");
            while !ends.load(Ordering::Relaxed) {
                publisher.publish(b"busy").map(drop).expect("published");
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        // On a busy machine the recorder may not run for so long that it sleeps.
        let mut recorded = counted(place.domain.path()).expect("as before");
        for _ in 0..20 {
            if recorded.calls == alone.calls {
                break;
            }
            recorded = counted(place.domain.path()).expect("as before");
        }
        ends.store(true, Ordering::Relaxed);
        recorded
    });
    recording.end();
    println!("{COUNT} messages: alone {alone:?}; with a reader {polled:?}; recorded {recorded:?}");
    // What it would cost if the recorder slept.
    let mut sleeper = topic.subscriber().expect("joins");
    let sleeper =
        std::thread::spawn(
            move || while sleeper.recv_timeout(LONG).is_ok_and(|one| one.is_some()) {},
        );
    assert!(eventually(|| topic.subscribers().len() == 1));
    let woken = counted(place.domain.path()).expect("as before");
    println!("with a subscriber that sleeps {woken:?}");
    assert!(woken.calls > alone.calls, "nothing was woken: the counts say nothing");
    drop(sleeper);
    // The calls are those of the stop itself.
    assert_eq!(recorded.calls, alone.calls, "{alone:?}, {recorded:?}");
    // The publisher looks whether a reliable subscriber has taken what it writes over.
    assert!(
        recorded.instructions <= polled.instructions + polled.instructions / 10,
        "{polled:?}, {recorded:?}"
    );
}

/// A recorder of queues costs a sender nothing at all: as many instructions, and no call.
#[test]
fn a_recorder_costs_a_sender_nothing() {
    let place = Place::new("sender-costs");
    let queue = Queue::<[u8]>::options().max_messages(128).open_or_create(&place.domain, "sends");
    let queue = queue.expect("made");
    let count = || {
        let counted = counted_in(place.domain.path(), "sends");
        // The next one begins with an empty queue, too.
        let mut receiver = queue.receiver().expect("none lives");
        while receiver.try_recv().expect("readable").is_some() {}
        counted
    };
    let Some(alone) = count() else {
        println!("a_recorder_costs_a_sender_nothing: skipped, a process may not be traced here");
        return;
    };
    let recording = place.begin(&["--all", "--queues", "-o", "out.mcap"], "out.mcap");
    let recorded = count().expect("as before");
    recording.end();
    println!("{COUNT} messages: alone {alone:?}; recorded {recorded:?}");
    assert!(alone.instructions > 20 * COUNT, "{alone:?} is too little to be true");
    assert_eq!(alone, recorded);
    assert!(!Contents::of(&place.file("out.mcap")).messages("queue/sends").is_empty());
}

/// Does something while a reliable subscriber takes what comes, and never sleeps so that it would have to be
/// woken.
fn beside_a_reliable_subscriber<T>(topic: &Topic<[u8]>, work: impl FnOnce() -> T) -> T {
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut subscriber =
            topic.subscriber_with(Subscriber::options().reliable(true)).expect("joins");
        let ends = &ends;
        scope.spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                while subscriber.try_recv().is_ok_and(|one| one.is_some()) {}
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let done = work();
        ends.store(true, Ordering::Relaxed);
        done
    })
}
