//! Topics that have room for more than usual: publishers, subscribers, and samples held, as many as
//! their makers have asked for.

use outlive::topic::{Publisher, Subscriber, Topic};
use std::time::Duration;

use outlive::{Detail, Error, RecvError, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;
use crate::topics::{reliable, usage};

crate::checks!(
    two_hundred_publish_at_once,
    two_hundred_subscribe_at_once,
    a_publisher_waits_for_just_those_that_are_in_its_way,
    ten_thousand_samples_are_held,
    the_thousand_and_twenty_fifth_is_refused,
    what_they_ask_for_is_kept_and_compared,
    what_no_topic_has_is_refused,
    a_sleeper_of_more_rings_than_it_watches_wakes,
);

/// Longer than any test waits.
const FAR: Duration = Duration::from_secs(600);

fn two_hundred_publish_at_once(world: &World) {
    const ALL: u64 = 200;
    let domain = world.domain();
    let options = Topic::options().depth(4).max_bytes(64 << 20).reliable(true).max_publishers(1024);
    let topic: Topic = options.open_or_create(&domain, "topic").expect("made");
    let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
    let board = Board::new();
    let mut crowds: Vec<Child> = (0..4)
        .map(|child| {
            let topic = &topic;
            Child::start(move || {
                let of = |who: u64| (who, topic.publisher().expect("a ring"));
                let all: Vec<(u64, Publisher)> = (child * 50..child * 50 + 50).map(of).collect();
                board.add(0, 1);
                board.reach(0, 4);
                for number in 0..4 {
                    for (who, publisher) in &all {
                        // A message that lies in an object.
                        publisher.publish(&message(*who, number, 300)).expect("room");
                    }
                }
                board.add(1, 1);
                std::thread::sleep(FAR);
            })
        })
        .collect();
    board.reach(1, 4);
    // Each ring has its own objects, and no other's.
    let there = usage(&domain);
    assert_eq!((there.rings.len() as u64, subscriber.publisher_count() as u64), (ALL, ALL));
    assert!(there.rings.iter().all(|ring| ring.objects == 4), "{:?}", there.rings);
    let mut next = vec![0; ALL as usize];
    let mut kept = Vec::new();
    for _ in 0..4 * ALL {
        let sample = subscriber.recv_timeout(PATIENCE).expect("ours").expect("published");
        let (who, number) = read_message(&sample);
        assert_eq!(number, std::mem::replace(&mut next[who as usize], number + 1), "{who}");
        if number == 3 {
            kept.push(sample);
        }
    }
    assert!(subscriber.try_recv().expect("ours").is_none());
    crowds.iter_mut().for_each(Child::kill);
    assert_eq!(subscriber.publisher_count(), 0);
    // Those that come take the rings of the dead, over and over, with their objects.
    for round in 0..2 * ALL {
        let publisher = topic.publisher().expect("a dead one's");
        publisher.publish(&message(round, 0, 300)).expect("room");
        assert_eq!(
            read_message(&subscriber.recv_timeout(PATIENCE).expect("ours").expect("there")),
            (round, 0)
        );
    }
    assert!(usage(&domain).rings.len() as u64 <= ALL + 1);
    for sample in kept {
        assert_eq!(read_message(&sample).1, 3, "held, whatever became of its ring");
    }
}

fn two_hundred_subscribe_at_once(world: &World) {
    const EACH: u64 = 60;
    let domain = world.domain();
    let options = Topic::options().depth(8).max_bytes(64 << 20).reliable(true).max_subscribers(256);
    let topic: Topic = options.open_or_create(&domain, "topic").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut crowds: Vec<Child> = (0..4)
        .map(|_| {
            let topic = &topic;
            Child::start(move || {
                let mut all: Vec<Subscriber> =
                    (0..50).map(|_| topic.subscriber_with(reliable()).expect("a slot")).collect();
                board.add(0, 1);
                for number in 0..EACH {
                    for subscriber in &mut all {
                        let sample = subscriber.recv_timeout(PATIENCE).expect("ours");
                        let wanted = (1, number);
                        assert_eq!(read_message(&sample.expect("published")), wanted);
                    }
                }
                // From now on none of them takes anything.
                board.add(1, 1);
                std::thread::sleep(FAR);
            })
        })
        .collect();
    board.reach(0, 4);
    assert_eq!(publisher.subscriber_count(), 200);
    for number in 0..EACH {
        let text = message(1, number, 300);
        assert_eq!(publisher.publish_timeout(&text, PATIENCE).expect("taken").subscribers(), 200);
    }
    board.reach(1, 4);
    for number in 0..8 {
        publisher.publish_timeout(&message(1, EACH + number, 300), PATIENCE).expect("room");
    }
    assert!(publisher.try_publish(&message(1, EACH + 8, 300)).is_err(), "they are in the way");
    crowds.iter_mut().for_each(Child::kill);
    publisher.publish_timeout(&message(1, EACH + 8, 300), PATIENCE).expect("the dead are not");
    assert_eq!(publisher.subscriber_count(), 0);
    let late: Vec<Subscriber> = (0..256).map(|_| topic.subscriber().expect("a slot")).collect();
    assert_eq!(publisher.subscriber_count(), 256);
    drop(late);
}

/// Reliable subscribers take one message after the other, come and leave, in any order: there is
/// room exactly if none of them has yet to take what the next message overwrites.
fn a_publisher_waits_for_just_those_that_are_in_its_way(world: &World) {
    const DEPTH: u64 = 4;
    let domain = world.domain();
    let options = Topic::<u64>::options().depth(DEPTH as u32).reliable(true).max_subscribers(100);
    let topic = options.open_or_create(&domain, "topic").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let mut random = Random::new();
    // Each with the message that it takes next.
    let mut subscribers: Vec<(Subscriber<u64>, u64)> = Vec::new();
    let (mut published, mut full) = (0, 0);
    for step in 0..20_000 {
        let which = random.below(subscribers.len().max(1) as u64) as usize;
        match random.below(20) {
            0 if subscribers.len() < 40 => {
                let new = topic.subscriber_with(reliable()).expect("a slot");
                subscribers.push((new, published));
            }
            1 if subscribers.len() > 20 => drop(subscribers.swap_remove(which)),
            2..=7 => {
                let is_full = subscribers.iter().any(|(_, next)| next + DEPTH <= published);
                match publisher.try_publish(&published).map(drop) {
                    Ok(()) => published += 1,
                    Err(error) => assert!(matches!(error, SendError::Full { .. }), "{error}"),
                }
                full += u64::from(is_full);
                let least = subscribers.iter().map(|(_, next)| *next).min().unwrap_or(published);
                assert!(published <= least + DEPTH, "step {step}");
                if step % 7 == 0 {
                    // This call looks at all of them.
                    assert_eq!(
                        publisher.room(),
                        (least + DEPTH - published).min(DEPTH),
                        "step {step}"
                    );
                }
            }
            _ if !subscribers.is_empty() => {
                // Some are slow.
                let (subscriber, next) = &mut subscribers[which];
                for _ in 0..if which < 12 { 1 } else { DEPTH } {
                    if let Some(sample) = subscriber.try_recv().expect("nothing is lost") {
                        assert_eq!(*sample, *next, "step {step}");
                        *next += 1;
                    }
                }
            }
            _ => {}
        }
        let is_full = subscribers.iter().any(|(_, next)| next + DEPTH <= published);
        assert_eq!(publisher.try_wait_writable().is_err(), is_full, "step {step}");
    }
    assert!(full > 1000 && published > 200, "{full} {published}");
}

fn ten_thousand_samples_are_held(world: &World) {
    const MANY: u64 = 10_000;
    let domain = world.domain();
    let options = Topic::options().depth(64).max_bytes(64 << 20).reliable(true);
    let topic: Topic =
        options.max_samples(MANY as u32).open_or_create(&domain, "topic").expect("made");
    let publisher = topic.publisher().expect("a ring");
    let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
    let mut take = |number: u64| {
        publisher.publish(&message(1, number, 200)).expect("room");
        subscriber.try_recv().map(|sample| sample.expect("published"))
    };
    let mut held: Vec<_> = (0..MANY).map(|number| take(number).expect("a pointer")).collect();
    assert_eq!(take(MANY).map(drop), Err(RecvError::TooManyHeld));
    assert_eq!(usage(&domain).subscribers[0].held, MANY as u32);
    for (number, sample) in held.iter().enumerate() {
        assert_eq!(read_message(sample), (1, number as u64), "none was overwritten");
    }
    drop(held.swap_remove(5_000));
    let next = subscriber.try_recv().expect("a pointer is free").expect("it was not passed over");
    assert_eq!(read_message(&next), (1, MANY));
    drop((held, next));
    assert_eq!(usage(&domain).subscribers[0].held, 0);
}

fn the_thousand_and_twenty_fifth_is_refused(world: &World) {
    let domain = world.domain();
    let options = Topic::<u64>::options().depth(1).max_bytes(64 << 20);
    let options = options.max_publishers(1024).max_subscribers(1024).max_samples(8);
    let topic = options.open_or_create(&domain, "topic").expect("made");
    let publishers: Vec<_> = (0..1024).map(|_| topic.publisher().expect("a ring")).collect();
    let mut subscribers: Vec<_> = (0..1024).map(|_| topic.subscriber().expect("a slot")).collect();
    match topic.publisher().map(drop) {
        Err(error @ Error::TooMany { what: "publishers", max: 1024, .. }) => {
            assert!(error.to_string().contains("1024"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    match topic.subscriber().map(drop) {
        Err(Error::TooMany { what: "subscribers", max: 1024, .. }) => {}
        other => panic!("{other:?}"),
    }
    publishers[1023].publish(&7).expect("room");
    for subscriber in [0, 1023] {
        assert_eq!(*subscribers[subscriber].recv().expect("there"), 7);
    }
}

fn what_they_ask_for_is_kept_and_compared(world: &World) {
    let domain = world.domain();
    let usual = Topic::<u64>::open_or_create(&domain, "usual").expect("made").config();
    assert_eq!((usual.max_publishers, usual.max_subscribers, usual.max_samples), (62, 64, 256));
    let asked = || Topic::<u64>::options().max_publishers(3).max_subscribers(2).max_samples(10);
    let made = asked().create_new(&domain, "topic").expect("made").config();
    assert_eq!((made.max_publishers, made.max_subscribers, made.max_samples), (3, 2, 10));
    assert_eq!(Topic::<u64>::open(&domain, "topic").expect("there").config(), made);
    let Detail::Topic(seen) = domain.entry("topic").expect("there").detail else { panic!() };
    assert_eq!((seen.max_publishers, seen.max_subscribers, seen.max_samples), (3, 2, 10));
    let told = asked().open(&domain, "usual").map(drop).expect_err("three differ").to_string();
    assert!(told.contains("max_publishers 3, max_subscribers 2, max_samples 10"), "{told}");
    let same = asked().as_is().open(&domain, "usual").expect("as it is");
    assert_eq!(same.config(), usual);
    let topic = asked().open_or_create(&domain, "topic").expect("the same");
    let _all = [(); 3].map(|()| topic.publisher().expect("a ring"));
    assert!(matches!(topic.publisher().map(drop), Err(Error::TooMany { max: 3, .. })));
}

fn what_no_topic_has_is_refused(world: &World) {
    let domain = world.domain();
    let options = Topic::<u64>::options;
    for (options, what) in [
        (options().max_publishers(0), "a topic's max_publishers"),
        (options().max_publishers(1025), "a topic's max_publishers"),
        (options().max_publishers(257).depth(1 << 16), "a topic's max_publishers"),
        (options().max_publishers(1024).max_bytes(256 << 10), "a topic's max_bytes"),
        (options().max_subscribers(0), "a topic's max_subscribers"),
        (options().max_subscribers(1025), "a topic's max_subscribers"),
        (options().max_samples(7), "a topic's max_samples"),
        (options().max_samples(65_537), "a topic's max_samples"),
        // Their slots would take what payloads need.
        (
            options().max_samples(65_536).max_subscribers(1024).max_bytes(16 << 20),
            "a topic's max_subscribers",
        ),
    ] {
        match options.open_or_create(&domain, "topic").map(drop) {
            Err(Error::InvalidOption { what: found, .. }) => assert_eq!(found, what),
            other => panic!("{what}: {other:?}"),
        }
    }
    let largest = options().max_publishers(256).depth(1 << 16).max_subscribers(1024);
    let largest = largest.max_samples(65_536).max_bytes(6 << 30).open_or_create(&domain, "topic");
    largest.expect("made").publisher().expect("a ring").publish(&1).map(drop).expect("room");
}

/// With more publishers than words that one sleep watches.
fn a_sleeper_of_more_rings_than_it_watches_wakes(world: &World) {
    let domain = world.domain();
    let topic = Topic::<u64>::options().depth(1).max_publishers(150);
    let topic = topic.open_or_create(&domain, "topic").expect("made");
    let publishers: Vec<_> = (0..150).map(|_| topic.publisher().expect("a ring")).collect();
    let board = Board::new();
    let waits = Child::start(|| {
        let mut subscriber = topic.subscriber().expect("a slot");
        board.set(0, 1);
        for number in 1..4 {
            let sample = subscriber.recv_timeout(PATIENCE).expect("ours");
            assert_eq!(*sample.expect("published"), number);
            board.set(1, number);
        }
    });
    board.reach(0, 1);
    for (publisher, number) in [(0, 1), (149, 2), (75, 3)] {
        wait_asleep(waits.pid());
        publishers[publisher].publish(&number).expect("room");
        board.reach(1, number);
    }
    waits.finish();
}
