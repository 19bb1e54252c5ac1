//! What clients cost a publisher: nothing. Its instructions are counted one by one, by a tracer.

use std::path::Path;
use std::process::{Command, Stdio};

use outlive::topic::Topic;
use outlive_costs::{Counted, count};
use outlive_testnet::{eventually, skip};

use crate::support::{LONG, Shown};

/// As many messages.
const COUNT: u64 = 60;

/// Counts the instructions of a publisher's messages; `None` where a process may not be traced.
fn counted(domain: &Path) -> Option<Counted> {
    let view = Path::new(env!("CARGO_BIN_EXE_outlive-view"));
    let mut command = Command::new(view.with_file_name("examples").join("stepped"));
    command.arg(domain).args(["steps", &COUNT.to_string(), "64"]).stdin(Stdio::null());
    count(command)
}

#[test]
fn three_clients_cost_a_publisher_nothing() {
    let shown = Shown::start("costs", &[]);
    let topic = Topic::<[u8]>::open_or_create(&shown.domain, "steps").expect("made");
    let domain = shown.folder.join("domain");
    let Some(alone) = counted(&domain) else {
        skip("three_clients_cost_a_publisher_nothing", "a process may not be traced here");
        return;
    };
    let mut clients: Vec<_> = (0..3).map(|_| shown.client()).collect();
    let subscriptions: Vec<u32> = clients.iter_mut().map(|one| one.subscribe("steps")).collect();
    assert!(eventually(LONG, || topic.subscribers().len() == 1));
    let seen = counted(&domain).expect("as before");
    for (client, subscription) in clients.iter_mut().zip(subscriptions) {
        client.message(subscription);
    }
    println!("{COUNT} messages: alone {alone:?}; with three clients {seen:?}");
    // What it would cost if the reader slept.
    let mut sleeper = topic.subscriber().expect("joins");
    let sleeper =
        std::thread::spawn(
            move || while sleeper.recv_timeout(LONG).is_ok_and(|one| one.is_some()) {},
        );
    let woken = counted(&domain).expect("as before");
    println!("with a subscriber that sleeps {woken:?}");
    assert!(woken.calls > alone.calls, "nothing was woken: the counts say nothing");
    drop(sleeper);
    // The calls are those of the stop itself.
    assert_eq!(seen.calls, alone.calls, "{alone:?}, {seen:?}");
    // While the reader copies a message, its publisher takes another place for the next one: a few
    // instructions, once in a while.
    assert!(
        seen.instructions <= alone.instructions + alone.instructions / 10,
        "{alone:?}, {seen:?}"
    );
}
