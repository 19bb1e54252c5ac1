//! Deaths and stops elsewhere, as a subscriber here is told of them.

use std::time::{Duration, Instant};

use outlive::RecvError;
use outlive::topic::{Publisher, Subscriber, Topic};
use outlive_testnet::eventually;

use crate::support::{LONG, Machine, numbers, pair, topic};

/// A subscriber of that machine to what the example publishes, which is told of deaths.
fn listening(machine: &Machine, name: &str) -> (Topic<u64>, Subscriber<u64>) {
    let topic = topic(machine, name, 64);
    let options = Subscriber::options().liveliness(Duration::from_secs(3600)).reliable(true);
    let subscriber = topic.subscriber_with(options).expect("joins");
    (topic, subscriber)
}

/// Receives so many numbers, from that one on.
fn receive(subscriber: &mut Subscriber<u64>, from: u64, count: u64) {
    for number in from..from + count {
        let sample = subscriber.recv_timeout(LONG).expect("received").expect("in time");
        assert_eq!(*sample, number);
    }
}

/// Two machines, of which the second has had the first message of a publisher of the first.
fn going_on() -> (Machine, Machine, Publisher<u64>, Subscriber<u64>) {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (_, mut subscriber) = listening(&b, "n");
    let publisher = topic(&a, "n", 64).publisher().expect("publishes");
    publisher.publish(&0).expect("room");
    receive(&mut subscriber, 0, 1);
    (a, b, publisher, subscriber)
}

fn expect_death(subscriber: &mut Subscriber<u64>) {
    let told = subscriber.recv_timeout(LONG).map(|sample| sample.map(|number| *number));
    assert!(matches!(told, Err(RecvError::PublisherDied { .. })), "{told:?}");
}

#[test]
fn a_publisher_s_death_is_told_behind_its_last_message() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (there, mut subscriber) = listening(&b, "n");
    let mut publisher = numbers(&a.path(), "n", 20, Duration::ZERO);
    receive(&mut subscriber, 0, 20);
    assert_eq!(there.publishers().len(), 1);
    publisher.kill();
    let killed = Instant::now();
    expect_death(&mut subscriber);
    println!("told {:?} after the kill", killed.elapsed());
    assert_eq!(there.publishers().len(), 0);
    b.expect("died", 1);
    assert_eq!(b.events("unreachable").len(), 0);
}

/// Its ring has a living publisher by the time that the gateway looks.
#[test]
fn one_whose_ring_another_has_taken_has_died_nevertheless() {
    let (mut a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let options = Topic::<u64>::options().depth(64).reliable(true).described().max_publishers(1);
    let here = options.open_or_create(&a.domain, "n").expect("made");
    let (_there, mut subscriber) = listening(&b, "n");
    let mut publisher = numbers(&a.path(), "n", 20, Duration::ZERO);
    receive(&mut subscriber, 0, 20);
    a.gateway.as_mut().expect("started").stop();
    publisher.kill();
    let next = here.publisher().expect("the ring is free");
    next.publish(&20).expect("room");
    a.gateway.as_mut().expect("started").go_on();
    a.expect("died", 1);
    b.expect("came", 2);
    assert_eq!(a.events("left").len(), 0);
}

#[test]
fn one_that_leaves_has_not_died() {
    let (a, b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (there, mut subscriber) = listening(&b, "n");
    let publisher = topic(&a, "n", 64).publisher().expect("publishes");
    publisher.publish(&0).expect("room");
    receive(&mut subscriber, 0, 1);
    drop(publisher);
    b.expect("left", 1);
    assert!(eventually(LONG, || there.publishers().is_empty()));
    assert!(matches!(subscriber.try_recv(), Ok(None)));
    assert_eq!(b.events("died").len(), 0);
}

#[test]
fn a_sender_s_death_is_told_and_its_successor_goes_on() {
    let (mut a, b, publisher, mut subscriber) = going_on();
    a.kill();
    expect_death(&mut subscriber);
    b.expect("unreachable", 1);
    assert_eq!(b.events("died").len(), 0);
    // The ring holds these.
    for number in 1..=60 {
        publisher.publish(&number).expect("room");
    }
    a.start();
    receive(&mut subscriber, 1, 60);
    publisher.publish(&61).expect("room");
    receive(&mut subscriber, 61, 1);
    assert_eq!(b.events("lost").len(), 0);
}

/// What ended while no gateway acted: the successor finds it in the ring, or not at all.
#[test]
fn ends_that_no_sender_saw_are_told_by_the_successor() {
    let (mut a, b, publisher, mut subscriber) = going_on();
    let mut dying = numbers(&a.path(), "n", 1, Duration::ZERO);
    receive(&mut subscriber, 0, 1);
    b.expect("came", 2);
    a.kill();
    expect_death(&mut subscriber);
    expect_death(&mut subscriber);
    drop(publisher);
    dying.kill();
    let brief = topic(&a, "n", 64).publisher().expect("publishes");
    (7..10).for_each(|number| brief.publish(&number).map(drop).expect("room"));
    drop(brief);
    a.start();
    receive(&mut subscriber, 7, 3);
    let there = topic(&b, "n", 64);
    assert!(eventually(LONG, || b.events("left").len() == 2 && b.events("died").len() == 1));
    assert!(eventually(LONG, || there.publishers().is_empty()), "{:?}", there.publishers());
    assert_eq!(b.events("lost").len(), 0);
}

#[test]
fn what_the_ring_lost_meanwhile_is_counted() {
    let (mut a, b, publisher, mut subscriber) = going_on();
    a.kill();
    expect_death(&mut subscriber);
    for number in 1..=100 {
        publisher.publish(&number).expect("room");
    }
    a.start();
    receive(&mut subscriber, 37, 64);
    b.expect("lost", 1);
    assert_eq!(b.events("lost")[0]["messages"], 36);
}

#[test]
fn a_receiver_s_death_is_all_its_stand_ins_death_and_its_successor_goes_on() {
    let (a, mut b) = pair(&["--allow", "**"], &["--allow", "**"]);
    let (there, mut subscriber) = listening(&b, "n");
    let publisher = topic(&a, "n", 64).publisher().expect("publishes");
    for number in 0..10 {
        publisher.publish(&number).expect("room");
    }
    receive(&mut subscriber, 0, 10);
    b.kill();
    expect_death(&mut subscriber);
    assert_eq!(there.publishers().len(), 0);
    for number in 10..60 {
        publisher.publish(&number).expect("room");
    }
    b.start();
    receive(&mut subscriber, 10, 50);
    assert!(matches!(subscriber.recv_timeout(Duration::from_millis(200)), Ok(None)));
    assert_eq!(b.events("lost").len() + b.events("uncertain").len(), 0);
}

#[test]
fn a_second_gateway_waits_and_takes_over() {
    let (_a, mut b, publisher, mut subscriber) = going_on();
    let second = outlive_testnet::Child::start(b.command()).expect("starts");
    b.expect("waits", 1);
    assert_eq!(b.events("acts").len(), 1);
    b.kill();
    b.expect("acts", 2);
    expect_death(&mut subscriber);
    publisher.publish(&1).expect("room");
    receive(&mut subscriber, 1, 1);
    drop(second);
}

#[test]
fn a_stopped_sender_is_unreachable_and_nothing_is_lost_when_it_goes_on() {
    let (mut a, b, publisher, mut subscriber) = going_on();
    let gateway = a.gateway.as_mut().expect("started");
    gateway.stop();
    let stopped = Instant::now();
    b.expect("unreachable", 1);
    println!("told {:?} after the stop", stopped.elapsed());
    assert_eq!(b.events("died").len(), 0);
    expect_death(&mut subscriber);
    for number in 1..=50 {
        publisher.publish(&number).expect("room");
    }
    gateway.go_on();
    receive(&mut subscriber, 1, 50);
    assert_eq!(b.events("lost").len(), 0);
}

#[test]
fn a_stopped_receiver_holds_publishers_no_longer_than_its_lease() {
    let (a, mut b, publisher, mut subscriber) = going_on();
    let gateway = b.gateway.as_mut().expect("started");
    gateway.stop();
    // More than the ring has: the publisher waits, then goes on.
    for number in 1..=200 {
        publisher.publish_timeout(&number, LONG).expect("room in the end");
    }
    assert_eq!(a.events("slow").len(), 0);
    gateway.go_on();
    // What the ring still has by now comes; the others are counted. It was not heard for a lease, so its
    // stand-ins had died.
    let mut next = 1;
    let mut missing = 0;
    while next <= 200 {
        match subscriber.recv_timeout(LONG) {
            Ok(Some(number)) => {
                assert!(*number >= next, "{} after {next}", *number);
                missing += *number - next;
                next = *number + 1;
            }
            Ok(None) => panic!("{next} did not come"),
            Err(RecvError::PublisherDied { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    let count = |event: &serde_json::Value| event["messages"].as_u64().expect("a number");
    let lost = || b.events("lost").iter().map(count).sum::<u64>();
    assert!(eventually(LONG, || lost() == missing), "{} lost of {missing}", lost());
}
