//! Reliable delivery: both sides agree to it, and publishers set limits to it.

use std::time::Duration;

use outlive::topic::{Publisher, Topic};
use outlive::{Error, RecvError, SendError};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::runner::World;
use crate::topics::{drain, open, reliable, usage};
use crate::wait_bridges::block_on;

crate::checks!(
    reliable_delivery_needs_both_sides,
    a_stopped_subscriber_is_waited_for_no_longer_than_agreed,
    one_that_lags_is_waited_for_again,
    a_publisher_dies_after_its_mark,
    nothing_is_lost_unseen: 120,
);

/// A subscriber that is stopped, of a topic that offers nothing, holds no publisher up: it does not
/// even come to be.
fn reliable_delivery_needs_both_sides(world: &World) {
    let domain = world.domain();
    let topic = Topic::<u64>::options().depth(2).open_or_create(&domain, "topic").expect("made");
    assert!(!topic.config().reliable);
    let publisher = topic.publisher().expect("a ring");
    let refused = topic.subscriber_with(reliable()).map(drop).expect_err("nothing is offered");
    let Error::OtherOptions { what: "reliability", found, wanted, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(found.starts_with("best effort") && &**wanted == "reliable", "{refused}");
    assert_eq!(topic.subscribers(), [], "it has taken no slot");
    let _slow = topic.subscriber().expect("a slot");
    for number in 0..10 {
        publisher.try_publish(&number).expect("no subscriber is in the way");
    }
    let asked = Topic::<u64>::options().reliable(true).open(&domain, "topic").map(drop);
    assert!(matches!(asked, Err(Error::OtherOptions { what: "option reliable", .. })), "{asked:?}");
    let refuses = Topic::<u64>::options().reliable(false).open(&domain, "topic");
    assert_eq!(refuses.map(drop), Ok(()), "it is as asked");

    let offers = Topic::<u64>::options().depth(2).reliable(true).create_new(&domain, "offers");
    let offers = offers.expect("made");
    assert!(Topic::<u64>::open(&domain, "offers").expect("there").config().reliable);
    let _slow = offers.subscriber_with(reliable()).expect("offered");
    let publisher = offers.publisher().expect("a ring");
    assert!((0..2).all(|number| publisher.try_publish(&number).is_ok()));
    assert!(publisher.try_publish(&2).is_err(), "it is waited for");
}

/// Stopped with a message unread: one publisher waits for as long as its options say, marks it, and
/// publishes on; another does not wait at all.
fn a_stopped_subscriber_is_waited_for_no_longer_than_agreed(world: &World) {
    for (round, span) in [Duration::from_millis(30), Duration::ZERO].into_iter().enumerate() {
        let domain = world.domain();
        let topic = open(&domain, 2);
        let board = Board::new();
        let mut child = Child::start(|| {
            let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
            board.add(0, 1);
            board.reach(0, 2);
            let lagged = subscriber.recv().map(drop);
            assert_eq!(lagged, Err(RecvError::Lagged { lost: 8 }));
            assert_eq!(drain(&mut subscriber, 1), [8, 9]);
            assert_eq!(subscriber.lost(), 8);
            board.add(1, 1);
            board.reach(0, 3);
        });
        board.reach(0, 1);
        child.stop();
        let options = Publisher::options().max_blocking(span);
        let publisher = topic.publisher_with(options).expect("a ring");
        for number in 0..10 {
            publisher.publish(&message(1, number, 60)).expect("published");
        }
        assert_eq!(publisher.stopped_waiting(), 1, "the rest waits for no marked one");
        let [one] = &usage(&domain).subscribers[..] else { panic!("one subscriber") };
        assert!(
            one.reliable && one.lagging && one.lagged == 0 && one.who.pid == child.pid() as u32
        );
        board.add(0, 1);
        child.go_on();
        board.reach(1, 1);
        let [one] = &usage(&domain).subscribers[..] else { panic!("one subscriber") };
        assert!(one.reliable && !one.lagging && one.lagged == 1, "{one:?}");
        // Of both publishers, one after the other in one ring.
        assert_eq!(usage(&domain).rings[0].stopped_waiting, round as u64 + 1);
        board.add(0, 1);
        child.finish();
    }
}

/// All forms of publishing keep to the limit; after a take the subscriber is reliable again.
fn one_that_lags_is_waited_for_again(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 1);
    let mut slow = topic.subscriber_with(reliable()).expect("a slot");
    let limit = |span| topic.publisher_with(Publisher::options().max_blocking(span));
    let mut never = limit(Duration::ZERO).expect("a ring");
    never.publish(b"0").expect("room");
    never.try_publish(b"1").expect("it waits for none");
    assert_eq!(slow.try_recv().map(drop), Err(RecvError::Lagged { lost: 1 }));
    assert_eq!(*slow.try_recv().expect("ours").expect("there"), *b"1");
    block_on(async {
        never.publish_async(b"2").await.map(drop).expect("room");
        never.publish_async(b"3").await.map(drop).expect("it waits for none");
    });
    assert_eq!(never.stopped_waiting(), 2);
    assert_eq!(slow.try_recv().map(drop), Err(RecvError::Lagged { lost: 1 }));
    assert_eq!(*slow.try_recv().expect("ours").expect("there"), *b"3");
    drop(never);

    // The same process in a ring of its own kind: it waits, and tells who is in the way.
    let span = Duration::from_millis(40);
    let mut patient = limit(span).expect("a ring");
    patient.publish(b"4").expect("room");
    let full = patient.try_publish(b"5").map(drop);
    assert!(matches!(full, Err(SendError::Full { slowest: Some(_) })), "{full:?}");
    let late = patient.publish_timeout(b"5", Duration::from_millis(1)).map(drop);
    assert!(matches!(late, Err(SendError::TimedOut { slowest: Some(_) })), "{late:?}");
    // Tries count, too: it has been in the way of this message all the time.
    std::thread::sleep(span);
    patient.try_publish(b"5").expect("long enough");
    block_on(async { patient.publish_async(b"6").await.map(drop).expect("it lags still") });
    assert_eq!(slow.try_recv().map(drop), Err(RecvError::Lagged { lost: 2 }));
    assert_eq!(*slow.try_recv().expect("ours").expect("there"), *b"6");
    patient.publish(b"7").expect("room");
    block_on(async { patient.publish_async(b"8").await.map(drop).expect("after the limit") });
    assert_eq!(slow.try_recv().map(drop), Err(RecvError::Lagged { lost: 1 }));
}

/// Killed while it waits, and after the mark: the subscriber gets what is there, and is reliable.
fn a_publisher_dies_after_its_mark(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let mut slow = topic.subscriber_with(reliable()).expect("a slot");
    let board = Board::new();
    let mut child = Child::start(|| {
        let options = Publisher::options().max_blocking(Duration::ZERO);
        let publisher = topic.publisher_with(options).expect("a ring");
        for number in 0..2 {
            publisher.publish(&message(1, number, 60)).expect("room");
        }
        // The mark alone: there is room now, and nothing is overwritten.
        publisher.wait_writable().expect("marked");
        board.add(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    child.kill();
    assert!(usage(&domain).subscribers[0].lagging);
    assert_eq!(drain(&mut slow, 1), [0, 1], "nothing was lost");
    assert!(!usage(&domain).subscribers[0].lagging);
    let publisher = topic.publisher().expect("a ring");
    for number in 0..2 {
        publisher.try_publish(&message(2, number, 60)).expect("room");
    }
    let full = publisher.try_publish(&message(2, 2, 60)).map(drop);
    assert!(matches!(full, Err(SendError::Full { .. })), "it is waited for: {full:?}");
}

/// Publishers that never wait, and a reliable subscriber: what it gets and what it is told it lost
/// are all that was published.
fn nothing_is_lost_unseen(world: &World) {
    const COUNT: u64 = 20_000;
    let domain = world.domain();
    let topic = open(&domain, 4);
    let mut subscriber = topic.subscriber_with(reliable()).expect("a slot");
    let children: Vec<Child> = (0..2)
        .map(|who| {
            let topic = &topic;
            Child::start(move || {
                let span = Duration::from_micros(20 * who);
                let options = Publisher::options().max_blocking(span);
                let publisher = topic.publisher_with(options).expect("a ring");
                for number in 0..COUNT {
                    publisher.publish(&message(who, number, 60)).expect("published");
                }
            })
        })
        .collect();
    let (mut next, mut told, mut missing) = ([0; 2], 0, 0);
    while next.iter().sum::<u64>() < 2 * COUNT {
        match subscriber.recv_timeout(PATIENCE) {
            Ok(Some(sample)) => {
                let (who, number) = read_message(&sample);
                let next = &mut next[who as usize];
                missing += number - *next;
                *next = number + 1;
            }
            Err(RecvError::Lagged { lost }) => told += lost,
            other => panic!("{:?}", other.map(drop)),
        }
    }
    children.into_iter().for_each(Child::finish);
    assert_eq!((missing, subscriber.lost()), (told, told), "{next:?}");
}
