//! Deaths: of publishers, of clients, of the program.

use std::time::Duration;

use foxglove::Decode;
use foxglove::messages::Log;
use outlive::topic::Topic;
use outlive_testnet::eventually;

use crate::support::{LONG, Shown};

#[test]
fn a_publishers_death_is_told_and_its_successor_shown() {
    let shown = Shown::start("deaths", &[]);
    let mut robot = shown.robot(None);
    let mut client = shown.client();
    let events = client.subscribe("/outlive/events");
    let battery = client.subscribe("battery");
    client.message(battery);
    let event = |client: &mut crate::client::Client, name: &str, says: &str| loop {
        let line = Log::decode(&*client.message(events).1).expect("a line");
        if line.name == name && line.message.contains(says) {
            return line;
        }
    };
    robot.kill();
    let line = event(&mut client, "battery", "a publisher has died: robot (process ");
    assert_eq!(line.level, 4);
    let status = client.operation("status");
    assert!(status["message"].as_str().expect("a text").contains("has died"), "{status}");
    let told = std::iter::from_fn(|| shown.lines.recv_timeout(LONG).ok())
        .find(|line| line["event"] == "died" && line["name"] == "battery");
    assert!(told.is_some(), "no line on standard output");
    let _successor = shown.robot(None);
    event(&mut client, "battery", "a publisher has come: robot");
    client.kept.clear();
    client.message(battery);
}

/// A publisher that ends in order has not died.
#[test]
fn a_publisher_that_leaves_has_not_died() {
    let shown = Shown::start("leaves", &[]);
    let topic = Topic::<u32>::open_or_create(&shown.domain, "numbers").expect("made");
    let mut client = shown.client();
    client.channel("numbers");
    let events = client.subscribe("/outlive/events");
    // The subscription is there when the first event has come.
    let mut line = None;
    assert!(eventually(LONG, || {
        drop(topic.publisher().expect("publishes"));
        std::thread::sleep(Duration::from_millis(120));
        let publisher = topic.publisher().expect("publishes");
        std::thread::sleep(Duration::from_millis(250));
        drop(publisher);
        std::thread::sleep(Duration::from_millis(250));
        let found = Log::decode(&*client.message(events).1).expect("a line");
        let is_it = found.message.starts_with("a publisher has left");
        line = Some(found);
        is_it
    }));
    let line = line.expect("a line");
    assert_eq!((line.name.as_str(), line.level), ("numbers", 2), "{}", line.message);
}

#[test]
fn the_program_is_killed_and_the_next_one_shows_the_same() {
    let mut shown = Shown::start("killed", &[]);
    let topic = Topic::<u32>::options().depth(2).described().open_or_create(&shown.domain, "n");
    let topic = topic.expect("made");
    let publisher = topic.publisher().expect("publishes");
    let mut client = shown.client();
    let subscription = client.subscribe("n");
    assert!(eventually(LONG, || !topic.subscribers().is_empty()));
    publisher.publish(&1).expect("published");
    client.message(subscription);
    shown.child.kill();
    // Its publisher does not wait for the dead one.
    for number in 0..100 {
        publisher.publish(&number).expect("published");
    }
    let mut command = crate::support::command(&shown.folder, &["--port", &shown.port.to_string()]);
    command.stdout(std::process::Stdio::null());
    let mut next = outlive_testnet::Child::start(command).expect("starts");
    assert!(eventually(LONG, || crate::client::connected(shown.port, "foxglove.sdk.v1").is_ok()));
    let mut client = shown.client();
    let subscription = client.subscribe("n");
    assert!(eventually(LONG, || topic.subscribers().len() == 1));
    publisher.publish(&7).expect("published");
    // The last one that there was, and the new one.
    assert_eq!(client.json(subscription)["value"], 99);
    assert_eq!(client.json(subscription)["value"], 7);
    assert_eq!(next.end(LONG).and_then(|status| status.code()), Some(0));
    assert!(eventually(LONG, || topic.subscribers().is_empty()));
}
