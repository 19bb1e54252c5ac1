//! Reliable delivery: both sides agree to it, and publishers set limits to it.

use std::time::Duration;

use outlive::topic::{Publisher, Topic};
use outlive::{Error, RecvError, SendError};

use crate::asleep::wait_asleep;
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
    the_slowest_is_named_while_it_lives_and_is_waited_for,
    a_publisher_dies_after_its_mark,
    who_waits_for_a_marked_one_waits_no_more,
    one_that_keeps_the_memory_is_waited_for_no_longer_than_agreed,
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
        let child = Child::start(|| {
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

/// Stopped with messages unread, a subscriber is named by its publisher and, in another thread, by the
/// wait source; killed or marked, no longer.
fn the_slowest_is_named_while_it_lives_and_is_waited_for(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let mut quick = topic.subscriber_with(reliable()).expect("a slot");
    for is_marked in [false, true] {
        let board = Board::new();
        let mut child = Child::start(|| {
            let _slow = topic.subscriber_with(reliable()).expect("a slot");
            board.add(0, 1);
            board.reach(0, 2);
        });
        board.reach(0, 1);
        child.stop();
        let options = Publisher::options();
        let publisher = topic.publisher_with(match is_marked {
            true => options.max_blocking(Duration::ZERO),
            false => options,
        });
        let publisher = publisher.expect("a ring");
        let room = publisher.writable();
        for lag in 1..=2 {
            publisher.publish(&message(1, lag, 60)).expect("room");
            drain(&mut quick, 1);
            let slowest = publisher.slowest().expect("it lives");
            assert_eq!((slowest.who.pid, slowest.lag), (child.pid() as u32, lag));
            assert_eq!(slowest.is_in_the_way, lag == 2);
            let seen = std::thread::scope(|scope| scope.spawn(|| room.slowest()).join());
            assert_eq!(seen.expect("no panic"), Some(slowest));
        }
        if is_marked {
            publisher.try_publish(&message(1, 3, 60)).expect("it waits for none");
            drain(&mut quick, 1);
            assert_eq!(publisher.slowest().map(|one| one.who.pid), Some(std::process::id()));
        }
        child.kill();
        let slowest = publisher.slowest().expect("the other one");
        assert_eq!((slowest.who.pid, slowest.lag), (std::process::id(), 0));
        drop(publisher);
        assert_eq!(room.slowest(), None, "its publisher has ended");
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
    let span = Duration::from_secs(2);
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

/// One publisher has no limit and sleeps behind the subscriber that another one marks.
fn who_waits_for_a_marked_one_waits_no_more(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 1);
    let mut slow = topic.subscriber_with(reliable()).expect("a slot");
    let patient = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..2 {
            publisher.publish(&message(1, number, 60)).expect("room");
        }
    });
    wait_asleep(patient.pid());
    let options = Publisher::options().max_blocking(Duration::ZERO);
    let publisher = topic.publisher_with(options).expect("another ring");
    for number in 0..2 {
        publisher.publish(&message(2, number, 60)).expect("it waits for none");
    }
    patient.finish();
    assert_eq!(slow.try_recv().map(drop), Err(RecvError::Lagged { lost: 1 }));
}

/// There are slots for more messages, and no memory.
fn one_that_keeps_the_memory_is_waited_for_no_longer_than_agreed(world: &World) {
    let span = Duration::from_millis(30);
    for span in [Some(span), Some(Duration::ZERO), None] {
        let domain = world.domain();
        let options = Topic::<[u8]>::options().depth(64).max_bytes(1 << 20).reliable(true);
        let topic = options.open_or_create(&domain, "topic").expect("made");
        let mut slow = topic.subscriber_with(reliable()).expect("a slot");
        let limit =
            span.map_or(Publisher::options(), |span| Publisher::options().max_blocking(span));
        let publisher = topic.publisher_with(limit).expect("a ring");
        let publish = |number| publisher.publish(&message(1, number, 100_000)).map(drop);
        let count = (0..64).take_while(|&number| publish(number).is_ok()).count() as u64;
        if span == Some(Duration::ZERO) {
            assert_eq!(count, 64, "it never waits");
        } else {
            assert!((2..20).contains(&count), "{count} messages have room");
            std::thread::sleep(span.unwrap_or_default());
            let late = publish(count);
            match span {
                Some(_) => late.expect("long enough"),
                None => assert!(matches!(late, Err(SendError::NoSpace { .. })), "{late:?}"),
            }
        }
        assert_eq!(publisher.stopped_waiting(), u64::from(span.is_some()));
        let (mut next, mut told) = (0, 0);
        loop {
            match slow.try_recv() {
                Ok(Some(sample)) => {
                    let (_, number) = read_message(&sample);
                    assert_eq!(number, next + std::mem::take(&mut told));
                    next = number + 1;
                }
                Ok(None) => break,
                Err(RecvError::Lagged { lost }) => {
                    assert!(told == 0 && lost > 0, "told once of all");
                    told = lost;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(slow.lost() > 0, span.is_some(), "the oldest, and it was told");
        publish(next).expect("its memory is free");
        assert_eq!(publisher.stopped_waiting(), u64::from(span.is_some()), "it is reliable again");
    }
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
