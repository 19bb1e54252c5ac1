//! What a later subscriber gets, and which start of which publisher a message is of.

use std::time::Duration;

use outlive::topic::{Durability, Header, Outgoing, Subscriber, Topic};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error, RecvError};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::wait_bridges::block_on;

crate::checks!(
    old_data_is_not_new_data,
    no_more_than_is_offered,
    a_start_is_told_in_order,
    a_ring_changes_hands,
    a_start_is_told_in_wait_sets_and_futures,
    a_forked_child_ends_no_session,
    what_is_too_old_is_passed_over,
    all_that_differs_is_told_at_once,
);

fn made(domain: &Domain, durability: Durability) -> Topic<u64> {
    let options = Topic::options().depth(4).durability(durability);
    options.open_or_create(domain, &durability.to_string()).expect("made")
}

/// All that a subscriber gets that comes now and asks for everything, and the newest message.
fn late(topic: &Topic<u64>) -> (Vec<u64>, Option<u64>) {
    let all = || topic.subscriber_with(Subscriber::options().history(99)).expect("a slot");
    let newest = all().latest().expect("ours").map(|newest| *newest);
    let mut subscriber = all();
    let mut got = Vec::new();
    while let Some(sample) = subscriber.try_recv().expect("ours") {
        got.push(*sample);
    }
    (got, newest)
}

/// A publisher leaves, is killed, starts again in the same ring: what it left is given as history
/// only where the topic says so. Subscribers that were there get all.
fn old_data_is_not_new_data(world: &World) {
    let domain = world.domain();
    let [lively, kept] = [Durability::TransientLocal, Durability::Persistent].map(|durability| {
        let topic = made(&domain, durability);
        assert_eq!(topic.config().durability, durability);
        topic
    });
    let board = Board::new();
    let mut there = lively.subscriber().expect("a slot");
    let mut child = Child::start(|| {
        let publishers = [&lively, &kept].map(|topic| topic.publisher().expect("a ring"));
        for publisher in &publishers {
            publisher.publish(&1).expect("published");
        }
        board.add(0, 1);
        board.reach(0, 2);
        drop(publishers);
        board.add(1, 1);
        let publishers = [&lively, &kept].map(|topic| topic.publisher().expect("a ring"));
        for publisher in &publishers {
            publisher.publish(&2).expect("published");
        }
        board.add(1, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    assert_eq!((late(&lively), late(&kept)), ((vec![1], Some(1)), (vec![1], Some(1))));
    let first = there.recv().expect("comes");
    assert!(first.publisher_alive() && first.session() == 1);
    assert!(first.age().is_some_and(|age| age < PATIENCE), "{:?}", first.age());
    board.add(0, 1);
    board.reach(1, 2);
    // It has left, and started again.
    assert_eq!((late(&lively), late(&kept)), ((vec![2], Some(2)), (vec![1, 2], Some(2))));
    child.kill();
    assert_eq!((late(&lively), late(&kept)), ((vec![], None), (vec![1, 2], Some(2))));
    assert!(!first.publisher_alive(), "at once");
    let second = there.recv().expect("it was there when that was published");
    assert_eq!((*second, second.session()), (2, 2));
    // One that asks for less gets less.
    let only_living = Subscriber::options().history(9).durability(Durability::TransientLocal);
    let mut careful = kept.subscriber_with(only_living).expect("offered");
    assert_eq!(careful.try_recv().expect("ours").map(|sample| *sample), None);
    assert_eq!(careful.latest().expect("ours").map(|sample| *sample), None);
    // The stamp tells the age, whatever it is.
    let publisher = lively.publisher().expect("a ring");
    let header = Header { stamp: u64::MAX, ..Header::default() };
    publisher.publish(Outgoing::new(&3).header(header)).expect("published");
    assert_eq!(there.recv().expect("comes").age(), Some(Duration::ZERO), "not in the future");
}

fn no_more_than_is_offered(world: &World) {
    let domain = world.domain();
    let levels = [Durability::Volatile, Durability::TransientLocal, Durability::Persistent];
    for offered in levels {
        let topic = made(&domain, offered);
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&1).expect("published");
        for wanted in levels {
            let asks = Subscriber::options().durability(wanted);
            let told = topic.subscriber_with(asks).map(drop);
            if wanted <= offered {
                assert_eq!(told, Ok(()), "{wanted} of {offered}");
                continue;
            }
            let Err(Error::OtherOptions { what: "durability", found, wanted: asked, .. }) = told
            else {
                panic!("{wanted} of {offered}: {told:?}");
            };
            assert_eq!((&*found, &*asked), (&*offered.to_string(), &*wanted.to_string()));
        }
        let history = topic.subscriber_with(Subscriber::options().history(1)).map(drop);
        assert_eq!(history.is_ok(), offered > Durability::Volatile, "{history:?}");
        let other = levels.into_iter().find(|level| *level != offered).expect("there are three");
        let again = Topic::<u64>::options().durability(other).open(&domain, &offered.to_string());
        let told = again.map(drop).expect_err("another one is there");
        assert!(matches!(told, Error::OtherOptions { what: "durability", .. }), "{told}");
    }
    let topic = made(&domain, Durability::Volatile);
    let disagrees = Subscriber::options().history(1).durability(Durability::Volatile);
    assert!(topic.subscriber_with(disagrees).is_err());
    // It would receive nothing, and count all as lost.
    assert!(topic.subscriber_with(Subscriber::options().keep_last(0)).is_err());
    // What is published while it is there it gets, and nothing else is the newest.
    let mut subscriber = topic.subscriber().expect("a slot");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&1).expect("published");
    let mut later = topic.subscriber().expect("a slot");
    assert_eq!(later.latest().expect("ours").map(|newest| *newest), None);
    assert_eq!(subscriber.latest().expect("ours").map(|newest| *newest), Some(1));
    publisher.publish(&2).expect("published");
    assert_eq!(later.latest().expect("ours").map(|newest| *newest), Some(2));
}

/// A publisher that is killed and started again, beside one that goes on: each start is told once,
/// before its first message.
fn a_start_is_told_in_order(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::TransientLocal);
    let told = Subscriber::options().sessions(true);
    let mut subscriber = topic.subscriber_with(told).expect("a slot");
    let steady = topic.publisher().expect("a ring");
    steady.publish(&0).expect("published");
    for round in 1..4 {
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            publisher.publish(&round).expect("published");
            publisher.publish(&round).expect("published");
            std::thread::sleep(PATIENCE);
        });
        let (mut sessions, mut got) = (Vec::new(), Vec::new());
        while got.iter().filter(|(_, value)| *value == round).count() < 2 {
            match subscriber.recv_timeout(PATIENCE) {
                Ok(Some(sample)) => got.push((sample.session(), *sample)),
                Err(RecvError::NewSession { session }) => sessions.push(session),
                other => panic!("{:?}", other.map(drop)),
            }
        }
        let session = round as u32 + 1;
        if round == 1 {
            assert_eq!((sessions, got), (vec![1, 2], vec![(1, 0), (2, 1), (2, 1)]));
        } else {
            assert_eq!((sessions, got), (vec![session], vec![(session, round); 2]));
        }
        child.kill();
    }
    steady.publish(&9).expect("published");
    let sample = subscriber.recv().expect("told already");
    assert_eq!((sample.session(), *sample), (1, 9));
}

/// Processes that publish and leave, or are killed, one after the other in the same rings: a later
/// subscriber gets messages of those that are there, and of no earlier one.
fn a_ring_changes_hands(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::TransientLocal);
    for round in 0..40 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            for _ in 0..3 {
                publisher.publish(&round).expect("published");
            }
            board.add(0, 1);
            if round % 2 == 0 {
                drop(publisher);
                board.add(0, 1);
            }
            std::thread::sleep(PATIENCE);
        });
        board.reach(0, 1 + u64::from(round % 2 == 0));
        let wanted = if round % 2 == 0 { vec![] } else { vec![round; 3] };
        assert_eq!(late(&topic), (wanted.clone(), wanted.last().copied()), "round {round}");
        child.kill();
        assert_eq!(late(&topic), (vec![], None), "round {round}");
    }
}

/// A wait set is woken by the first message of a session, and goes on to be ready until the message
/// itself is taken; a future ends with what is told, and the next one with the message.
fn a_start_is_told_in_wait_sets_and_futures(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::TransientLocal);
    let told = || topic.subscriber_with(Subscriber::options().sessions(true)).expect("a slot");
    let (mut subscriber, mut awaiting) = (told(), told());
    let mut set = WaitSet::new(&domain);
    let key = set.add(&subscriber).expect("added");
    for (round, session) in [(7, 1), (8, 2)] {
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&round).expect("published");
        let wanted = RecvError::NewSession { session };
        for outcome in [Err(wanted), Ok(round)] {
            let ready = set.wait_timeout(PATIENCE).expect("ours");
            assert_eq!(ready.collect::<Vec<_>>(), [(key, Readiness::Readable)]);
            let got = subscriber.try_recv().map(|sample| *sample.expect("there"));
            assert_eq!(got, outcome);
            let got = block_on(awaiting.recv_async());
            assert_eq!(got.map(|sample| *sample), outcome);
        }
    }
}

/// A forked child that drops its copy of a publisher leaves the parent's session as it is, and so
/// does a loan that outlives its publisher: that one's session is over.
fn a_forked_child_ends_no_session(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::TransientLocal);
    let mut publisher = Some(topic.publisher().expect("a ring"));
    publisher.as_ref().expect("there").publish(&1).expect("published");
    let board = Board::new();
    let _child = Child::start(|| {
        drop(publisher.take());
        board.add(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    assert_eq!(late(&topic), (vec![1], Some(1)));
    let loan = publisher.as_ref().expect("there").loan_new().expect("room");
    drop(publisher);
    assert_eq!(late(&topic), (vec![], None), "its publisher has left, though its loan is held");
    drop(loan);
}

fn what_is_too_old_is_passed_over(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::TransientLocal);
    let publisher = topic.publisher().expect("a ring");
    let fresh = || Subscriber::options().max_age(PATIENCE);
    let mut subscriber = topic.subscriber_with(fresh()).expect("a slot");
    let of_1970 = Header { stamp: 1, ..Header::default() };
    publisher.publish(Outgoing::new(&1).header(of_1970)).expect("published");
    assert!(subscriber.latest().expect("ours").is_none());
    assert!(subscriber.latest().expect("ours").is_none());
    assert_eq!(subscriber.expired(), 1, "once");
    publisher.publish(Outgoing::new(&2).header(of_1970)).expect("published");
    publisher.publish(&3).expect("published");
    assert_eq!(*subscriber.recv().expect("comes"), 3);
    assert_eq!((subscriber.expired(), subscriber.lost()), (2, 0));
    let unstamped = Topic::<u64>::options().stamps(false).create_new(&domain, "unstamped");
    let refused = unstamped.expect("made").subscriber_with(fresh()).map(drop);
    assert!(
        matches!(refused, Err(Error::OtherOptions { what: "option stamps", .. })),
        "{refused:?}"
    );
}

fn all_that_differs_is_told_at_once(world: &World) {
    let domain = world.domain();
    let topic = made(&domain, Durability::Volatile);
    let other = Topic::<u64>::options().depth(8).reliable(true).stamps(true).max_bytes(1 << 20);
    let told = other.clone().open(&domain, "volatile").map(drop).expect_err("three differ");
    let Error::OtherOptions { what: "options", found, wanted, .. } = &told else {
        panic!("{told}");
    };
    let bytes = topic.config().max_bytes;
    assert_eq!(**found, format!("depth 4, max_bytes {bytes}, reliable false"));
    assert_eq!(&**wanted, "depth 8, max_bytes 1048576, reliable true");
    let same = other.as_is().open(&domain, "volatile").expect("as it is");
    assert_eq!(same.config(), topic.config());
    let other = Topic::<u32>::options().depth(8).reliable(true);
    let told =
        other.clone().open(&domain, "volatile").map(drop).expect_err("the type differs, too");
    let Error::OtherType { found, wanted, .. } = &told else { panic!("{told}") };
    assert_eq!(found, "'u64' (8 bytes, alignment 8) with depth 4, reliable false");
    assert_eq!(wanted, "'u32' (4 bytes, alignment 4) with depth 8, reliable true");
    let told = other.as_is().open(&domain, "volatile").map(drop).expect_err("the type alone");
    let Error::OtherType { found, .. } = &told else { panic!("{told}") };
    assert_eq!(found, "'u64' (8 bytes, alignment 8)");
}
