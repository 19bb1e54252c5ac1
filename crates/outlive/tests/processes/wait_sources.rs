//! Wait sets that wait for participants to come and go, for room, for requests and for answers; and
//! deaths on the other side.

use std::task::Poll;
use std::time::Duration;

use outlive::rpc::CallError;
use outlive::topic::{Subscriber, SubscriberOptions, Topic};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;
use crate::services::{client_of, server_of, waiting_client_of};
use crate::wait_bridges::block_on;
use crate::wait_sets::{AS_IT_IS, NO_WAITV};
use crate::waiting::owner;

crate::checks!(
    who_comes_and_goes_is_told,
    who_comes_and_goes_is_told_without_futex_waitv,
    publishers_and_subscribers_watch_each_other,
    a_dropped_subscriber_s_key_stays_silent,
    a_killed_participant_is_noticed_at_once: 60,
    a_way_is_clear_once_a_message_is_taken,
    a_way_is_clear_once_the_slowest_dies,
    publishing_is_awaited,
    requests_wake_a_server_in_a_set,
    answers_and_ends_of_servers_are_told,
    answers_and_ends_are_told_without_futex_waitv,
    a_call_that_waits_for_a_server_is_told,
    killed_servers_end_calls_in_a_set: 60,
);

fn topic(domain: &Domain) -> Topic {
    let options = Topic::options().depth(1).reliable(true);
    let topic = options.open_or_create(domain, "topic").expect("opens");
    topic.set_wait_strategy(WaitStrategy::Block);
    topic
}

/// A set of one, whatever its source.
fn set_of(domain: &Domain, source: &impl outlive::wait::Source) -> WaitSet {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    set.add(source).expect("added");
    set
}

fn what(set: &mut WaitSet) -> Readiness {
    let told: Vec<_> = set.wait().expect("ready").map(|(_, what)| what).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    told[0]
}

/// A child that has a subscriber until it is killed, or told to leave by word 1.
fn subscribes(topic: &Topic, board: Board, options: SubscriberOptions) -> Child {
    let child = Child::start(|| {
        let subscriber = topic.subscriber_with(options).expect("free");
        board.set(0, 1);
        board.reach(1, 1);
        drop(subscriber);
    });
    board.reach(0, 1);
    child
}

const PUBLISHERS: usize = 10;
const SUBSCRIBERS: usize = 11;
const TOLD: usize = 12;

/// A child that tells by the board how many there are.
fn follows(domain: &Domain, topic: &Topic, board: Board, prepare: fn()) -> Child {
    let child = Child::start(|| {
        prepare();
        let mut presence = topic.watch();
        let mut set = set_of(domain, &presence);
        loop {
            assert_eq!(what(&mut set), Readiness::Changed);
            // A participant that came may have gone since.
            let Some(present) = presence.try_changed().expect("looked") else { continue };
            board.set(PUBLISHERS, present.publishers.len() as u64);
            board.set(SUBSCRIBERS, present.subscribers.len() as u64);
            board.add(TOLD, 1);
        }
    });
    board.reach(TOLD, 1);
    child
}

fn told(board: Board, publishers: u64, subscribers: u64) {
    wait_until(&format!("{publishers} publishers and {subscribers} subscribers are told"), || {
        (board.get(PUBLISHERS), board.get(SUBSCRIBERS)) == (publishers, subscribers)
    });
}

fn comes_and_goes(world: &World, prepare: fn()) {
    let domain = world.domain();
    let (topic, board) = (topic(&domain), Board::new());
    let mut follower = follows(&domain, &topic, board, prepare);
    for round in 0..4 {
        wait_asleep(follower.pid());
        let leaves = Board::new();
        let mut one = subscribes(&topic, leaves, Subscriber::options());
        told(board, 0, 1);
        let mut two = subscribes(&topic, Board::new(), Subscriber::options());
        told(board, 0, 2);
        wait_asleep(follower.pid());
        if round % 2 == 0 {
            one.kill();
        } else {
            leaves.set(1, 1);
            one.finish();
        }
        told(board, 0, 1);
        let publisher = topic.publisher().expect("free");
        told(board, 1, 1);
        wait_asleep(follower.pid());
        two.kill();
        told(board, 1, 0);
        drop(publisher);
        told(board, 0, 0);
    }
    follower.kill();
    assert_eq!(domain.stats().rescues, 0);
}

fn who_comes_and_goes_is_told(world: &World) {
    comes_and_goes(world, AS_IT_IS);
}

fn who_comes_and_goes_is_told_without_futex_waitv(world: &World) {
    comes_and_goes(world, NO_WAITV);
}

fn a_dropped_subscriber_s_key_stays_silent(world: &World) {
    let domain = world.domain();
    let topic = topic(&domain);
    let publisher = topic.publisher().expect("free");
    let gone = topic.subscriber().expect("free");
    let mut set = set_of(&domain, &gone);
    drop(gone);
    // The next one of the process has its line.
    let mut next = topic.subscriber().expect("free");
    publisher.publish(b"for the next one").expect("published");
    assert_eq!(set.try_wait().expect("looks").count(), 0, "told to who has left");
    assert_eq!(*next.recv().expect("there"), *b"for the next one");
    let key = set.add(&next).expect("added");
    publisher.publish(b"once more").expect("published");
    let told: Vec<_> = set.wait().expect("ready").collect();
    assert_eq!(told, [(key, Readiness::Readable)]);
}

fn publishers_and_subscribers_watch_each_other(world: &World) {
    let domain = world.domain();
    let topic = topic(&domain);
    let publisher = topic.publisher().expect("free");
    let mut subscribers = publisher.watch_subscribers();
    assert_eq!(subscribers.changed().expect("told").subscribers.len(), 0);
    let subscriber = topic.subscriber().expect("free");
    let mut publishers = subscriber.watch_publishers();
    assert_eq!(publishers.changed().expect("told").publishers.len(), 1);
    let present = subscribers.changed().expect("told");
    assert_eq!((present.publishers.len(), present.subscribers.len()), (0, 1), "those alone");
    let mut set = WaitSet::new(&domain);
    let keys = [set.add(&subscribers), set.add(&publishers)].map(|key| key.expect("added"));
    assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
    let mut other = Child::start(|| {
        let _publisher = topic.publisher().expect("free");
        loop {
            std::thread::park();
        }
    });
    assert_eq!(set.wait().expect("ready").collect::<Vec<_>>(), [(keys[1], Readiness::Changed)]);
    let told = publishers.try_changed().expect("looked");
    assert_eq!(told.map(|present| present.publishers.len()), Some(2));
    other.kill();
    assert_eq!(block_on(publishers.changed_async()).expect("told").publishers.len(), 1);
    assert_eq!(subscribers.try_changed(), Ok(None));
}

fn a_killed_participant_is_noticed_at_once(world: &World) {
    let domain = world.domain();
    let (topic, board) = (topic(&domain), Board::new());
    let mut follower = follows(&domain, &topic, board, AS_IT_IS);
    let mut random = Random::new();
    for _ in 0..150 {
        let publishes = random.below(2) == 0;
        let mut one = Child::start(|| {
            loop {
                if publishes {
                    drop(topic.publisher().expect("free"));
                } else {
                    drop(topic.subscriber().expect("free"));
                }
            }
        });
        std::thread::sleep(Duration::from_micros(random.below(3000)));
        one.kill();
        told(board, 0, 0);
    }
    follower.kill();
    assert_eq!(domain.stats().rescues, 0);
}

fn reliable() -> SubscriberOptions {
    Subscriber::options().reliable(true)
}

/// A child whose way is not clear, in a set; it publishes once more when it is.
fn waits_for_a_way(domain: &Domain, topic: &Topic) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let publisher = topic.publisher().expect("free");
        publisher.publish(b"first").expect("published");
        assert!(matches!(publisher.try_publish(b"second"), Err(outlive::SendError::Full { .. })));
        let mut set = set_of(domain, &publisher.writable());
        board.set(0, 1);
        while let Err(error) = publisher.try_publish(b"second") {
            assert!(matches!(error, outlive::SendError::Full { .. }), "{error:?}");
            assert_eq!(what(&mut set), Readiness::Writable);
        }
    });
    board.reach(0, 1);
    wait_asleep(child.pid());
    child
}

fn a_way_is_clear_once_a_message_is_taken(world: &World) {
    let domain = world.domain();
    let topic = topic(&domain);
    let mut subscriber = topic.subscriber_with(reliable()).expect("free");
    let child = waits_for_a_way(&domain, &topic);
    assert_eq!(*subscriber.recv().expect("there"), *b"first");
    child.finish();
    assert_eq!(*subscriber.recv().expect("there"), *b"second");
}

fn a_way_is_clear_once_the_slowest_dies(world: &World) {
    let domain = world.domain();
    let topic = topic(&domain);
    for round in 0..10 {
        let leaves = Board::new();
        let mut subscriber = subscribes(&topic, leaves, reliable());
        let child = waits_for_a_way(&domain, &topic);
        if round % 2 == 0 {
            subscriber.kill();
        } else {
            leaves.set(1, 1);
        }
        child.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn publishing_is_awaited(world: &World) {
    let domain = world.domain();
    let topic = topic(&domain);
    let mut subscriber = topic.subscriber_with(reliable()).expect("free");
    let child = Child::start(|| {
        let mut publisher = topic.publisher().expect("free");
        for number in 0..50 {
            let published = block_on(publisher.publish_async(&[number])).expect("published");
            assert_eq!(published.sequence(), u64::from(number));
        }
    });
    for number in 0..50 {
        assert_eq!(*subscriber.recv().expect("there"), [number]);
    }
    child.finish();
}

fn requests_wake_a_server_in_a_set(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut serving = Child::start(|| {
        let mut server = server_of(&domain, "service");
        let mut set = set_of(&domain, &server);
        board.set(0, 1);
        for _ in 0..20 {
            assert_eq!(what(&mut set), Readiness::Readable);
            server
                .try_next()
                .expect("served")
                .expect("there")
                .reply(b"in a set")
                .expect("answered");
        }
        loop {
            let request = block_on(server.next_async()).expect("there");
            request.reply(b"awaited").expect("answered");
        }
    });
    board.reach(0, 1);
    let client = client_of(&domain, "service");
    for _ in 0..20 {
        wait_asleep(serving.pid());
        assert_eq!(*client.call(b"?").expect("answered"), *b"in a set");
    }
    for _ in 0..20 {
        assert_eq!(*client.call(b"?").expect("answered"), *b"awaited");
    }
    serving.kill();
}

/// What a server does with the request that it gets.
const REPLIES: u64 = 1;
const STREAMS: u64 = 2;
const TAKES: u64 = 3;
const LEAVES: u64 = 4;

fn serves(domain: &Domain, orders: Board) -> Child {
    let child = Child::start(|| {
        let mut server = server_of(domain, "service");
        orders.set(0, 1);
        loop {
            let order = orders.reach(1, 1);
            if order == LEAVES {
                return;
            }
            let request = server.next().expect("there");
            orders.set(1, 0);
            match order {
                REPLIES => request.reply(b"answer").expect("answered"),
                STREAMS => {
                    let mut stream = request.stream();
                    for number in 0..20 {
                        stream.send(&[number]).expect("sent");
                    }
                    stream.finish().expect("sent");
                }
                _ => {
                    orders.set(2, 1);
                    loop {
                        std::thread::park();
                    }
                }
            }
        }
    });
    orders.reach(0, 1);
    child
}

fn answers_and_ends(world: &World, prepare: fn()) {
    let domain = world.domain();
    let (_other, peer) = owner(&domain, Board::new());
    for order in [REPLIES, STREAMS, TAKES, LEAVES, 0] {
        let (orders, board) = (Board::new(), Board::new());
        let mut server = serves(&domain, orders);
        let waiter = Child::start(|| {
            prepare();
            let client = client_of(&domain, "service");
            let mut call = client.begin(b"?").expect("begun");
            let mut set = set_of(&domain, &call);
            set.add(&peer).expect("added");
            board.set(0, 1);
            let mut replies = Vec::new();
            let end = loop {
                match call.try_next() {
                    Ok(Poll::Pending) => {
                        assert!(matches!(what(&mut set), Readiness::Readable | Readiness::Ended))
                    }
                    Ok(Poll::Ready(Some(reply))) => replies.push(reply[0]),
                    Ok(Poll::Ready(None)) => break None,
                    Err(error) => break Some(error),
                }
            };
            match order {
                REPLIES => assert_eq!((replies.len(), end), (1, None)),
                STREAMS => assert_eq!((replies, end), ((0..20).collect(), None)),
                TAKES => assert_eq!(end, Some(CallError::ServerDied { begun: true })),
                LEAVES => assert_eq!(end, Some(CallError::NoServer)),
                _ => assert_eq!(end, Some(CallError::ServerDied { begun: false })),
            }
            // Over, it is told no more.
            assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
        });
        board.reach(0, 1);
        wait_asleep(waiter.pid());
        orders.set(1, order);
        if order == TAKES {
            orders.reach(2, 1);
            wait_asleep(waiter.pid());
        }
        if matches!(order, TAKES | 0) {
            server.kill();
        }
        waiter.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn answers_and_ends_of_servers_are_told(world: &World) {
    answers_and_ends(world, AS_IT_IS);
}

fn answers_and_ends_are_told_without_futex_waitv(world: &World) {
    answers_and_ends(world, NO_WAITV);
}

fn a_call_that_waits_for_a_server_is_told(world: &World) {
    let domain = world.domain();
    for first_dies in [false, true] {
        let (orders, board) = (Board::new(), Board::new());
        let mut first = serves(&domain, orders);
        let waiter = Child::start(|| {
            let client = waiting_client_of(&domain, "service");
            let mut call = client.begin(b"?").expect("begun");
            let mut set = set_of(&domain, &call);
            board.set(0, 1);
            while call.try_next().expect("no end").is_pending() {
                assert_eq!(what(&mut set), Readiness::Readable);
            }
        });
        board.reach(0, 1);
        wait_asleep(waiter.pid());
        if first_dies {
            first.kill();
        } else {
            orders.set(1, LEAVES);
            first.finish();
        }
        wait_asleep(waiter.pid());
        // One that comes and dies before it takes anything.
        let mut second = serves(&domain, Board::new());
        second.kill();
        wait_asleep(waiter.pid());
        let orders = Board::new();
        let _third = serves(&domain, orders);
        orders.set(1, REPLIES);
        waiter.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn killed_servers_end_calls_in_a_set(world: &World) {
    const CALLS: usize = 30;
    let domain = world.domain();
    let board = Board::new();
    let mut waiter = Child::start(|| {
        let client = client_of(&domain, "service");
        loop {
            // As many at once, all in one set.
            let calls: Vec<_> = (0..CALLS).map(|_| client.begin(b"?")).collect();
            let mut calls: Vec<_> = calls.into_iter().flatten().collect();
            let mut set = WaitSet::new(&domain);
            let mut keys: Vec<_> = calls.iter().map(|call| set.add(call).expect("added")).collect();
            while !calls.is_empty() {
                let ready: Vec<_> = set.wait().expect("ready").collect();
                for (key, _) in ready {
                    let at = keys.iter().position(|known| *known == key).expect("one of them");
                    match calls[at].try_next() {
                        Ok(Poll::Pending) => continue,
                        Ok(Poll::Ready(_)) => board.add(0, 1),
                        Err(CallError::ServerDied { .. }) => board.add(1, 1),
                        Err(error) => panic!("{error}"),
                    };
                    drop(calls.swap_remove(at));
                    keys.swap_remove(at);
                    set.remove(key);
                }
            }
            board.add(2, 1);
        }
    });
    let mut random = Random::new();
    for _ in 0..100 {
        let mut server = Child::start(|| {
            let mut server = server_of(&domain, "service");
            loop {
                // Its client may have been told by another's death.
                let _ = server.next().expect("there").reply(b"answer");
            }
        });
        if board.get(0) == 0 {
            // On a busy machine no server comes to answer within the pauses.
            board.reach(0, 1);
        }
        random.pause(3000);
        server.kill();
        let rounds = board.get(2);
        board.reach(2, rounds + 1);
    }
    assert!(board.get(0) > 0 && board.get(1) > 0, "both have been seen");
    waiter.kill();
    assert_eq!(domain.stats().rescues, 0);
}
