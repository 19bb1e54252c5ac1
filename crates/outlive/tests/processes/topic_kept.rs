//! Named subscribers, whose places are kept over their deaths: a successor goes on there and loses nothing, and a name has
//! one owner.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::time::Duration;

use outlive::topic::{Publisher, Subscriber, SubscriberOptions, Topic};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;
use crate::topics::{drain, open, reliable};

crate::checks!(
    a_successor_goes_on_where_the_dead_one_ended,
    a_sweep_keeps_the_place,
    a_name_has_one_living_owner,
    a_place_is_forgotten_when_told,
    one_that_leaves_gives_up_its_place,
    one_that_lives_leaves_its_place_to_a_successor,
    of_many_that_come_at_once_one_has_the_name: 60,
    what_dead_and_gone_publishers_left_is_the_successors,
    one_that_acknowledges_is_not_ready_for_what_it_has,
    one_that_is_not_reliable_keeps_its_count,
    what_a_dead_one_held_is_free_again,
    names_that_are_none,
    nothing_is_missing_through_many_kills: 120,
);

pub const LONG: Duration = Duration::from_secs(3600);

pub fn kept(patience: Duration) -> SubscriberOptions {
    reliable().kept("recorder", patience).acknowledging(true)
}

/// A child that subscribes by that name, takes so many and acknowledges them, takes what more there is,
/// and sleeps.
pub fn owner(domain: &Domain, board: Board, options: SubscriberOptions, count: u64) -> Child {
    let child = Child::start(|| {
        let topic = open(domain, 4);
        let mut subscriber: Subscriber = topic.subscriber_with(options).expect("a slot");
        board.add(0, 1);
        for _ in 0..count {
            drop(subscriber.recv_timeout(PATIENCE).expect("ours").expect("published"));
        }
        subscriber.acknowledge().expect("ours");
        while subscriber.try_recv().expect("ours").is_some() {}
        board.add(1, 1);
        std::thread::sleep(LONG);
    });
    board.reach(0, 1);
    child
}

pub fn publish(publisher: &Publisher, numbers: std::ops::Range<u64>) {
    for number in numbers {
        publisher.try_publish(&message(1, number, 60)).map(drop).expect("room");
    }
}

pub fn is_full(publisher: &Publisher, number: u64) -> bool {
    matches!(publisher.try_publish(&message(1, number, 60)), Err(SendError::Full { .. }))
}

/// It has acknowledged two of four, and taken all; its successor gets the other two, and all that come.
fn a_successor_goes_on_where_the_dead_one_ended(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 2);
    publish(&publisher, 0..2);
    board.reach(1, 1);
    publish(&publisher, 2..4);
    dead.kill();
    publish(&publisher, 4..6);
    assert!(is_full(&publisher, 6), "it is waited for, as one that is stopped");
    let places = topic.kept();
    assert_eq!((places.len(), places[0].lag), (1, 4));
    assert!(!places[0].owner.as_ref().expect("not swept").alive);
    // What its successor asks for besides does not count.
    let options = Subscriber::options().kept("recorder", LONG).acknowledging(true).history(4);
    let mut successor = topic.subscriber_with(options).expect("the place");
    assert_eq!(drain(&mut successor, 1), [2, 3, 4, 5]);
    assert!(is_full(&publisher, 6), "it has not acknowledged");
    successor.acknowledge().expect("ours");
    publish(&publisher, 6..10);
    assert_eq!(drain(&mut successor, 1), [6, 7, 8, 9]);
    assert_eq!((successor.lost(), topic.kept().len()), (0, 1));
}

/// The dead one's token is needed no more, and the place stays.
fn a_sweep_keeps_the_place(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 0);
    board.reach(1, 1);
    publish(&publisher, 0..4);
    dead.kill();
    wait_until("the sweep finds all ended", || {
        domain.sweep(false).expect("sweeps");
        domain.sweep(true).expect("looks").is_clean()
    });
    assert!(is_full(&publisher, 4));
    assert_eq!(topic.kept()[0].owner, None);
    // Others take other places.
    let others: Vec<_> = (0..8).map(|_| topic.subscriber().expect("a slot")).collect();
    assert_eq!((topic.kept().len(), topic.subscribers().len()), (1, others.len()));
    let mut successor = topic.subscriber_with(kept(LONG)).expect("the place");
    assert_eq!(drain(&mut successor, 1), [0, 1, 2, 3]);
    assert_eq!(topic.kept()[0].owner.as_ref().map(|owner| owner.pid), Some(std::process::id()));
}

fn a_name_has_one_living_owner(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut first = owner(&domain, board, kept(LONG), 0);
    let taken = topic.subscriber_with(kept(LONG)).map(drop);
    let pid = first.pid() as u32;
    assert!(
        matches!(taken, Err(Error::Taken { pid: Some(owner), .. }) if owner == pid),
        "{taken:?}"
    );
    let forgotten = topic.forget("recorder");
    assert!(matches!(forgotten, Err(Error::Taken { .. })), "{forgotten:?}");
    first.stop();
    assert!(topic.subscriber_with(kept(LONG)).is_err(), "stopped is not dead");
    let other = reliable().kept("another", LONG);
    let other = topic.subscriber_with(other).expect("another name");
    assert_eq!(topic.kept().len(), 2);
    first.kill();
    let own = topic.subscriber_with(kept(LONG)).expect("the place");
    let twice = topic.subscriber_with(kept(LONG)).map(drop);
    assert!(matches!(twice, Err(Error::Taken { .. })), "in the same process: {twice:?}");
    drop((own, other));
    assert_eq!(topic.kept(), []);
}

fn a_place_is_forgotten_when_told(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    assert_eq!(topic.forget("recorder"), Ok(false));
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut dead = owner(&domain, board, kept(LONG), 0);
    board.reach(1, 1);
    publish(&publisher, 0..4);
    dead.kill();
    let waiting = Child::start(|| {
        publisher.publish(&message(1, 4, 60)).map(drop).expect_err("a child's is not the parent's");
        let publisher = topic.publisher().expect("a ring");
        for number in 0..5 {
            publisher.publish(&message(2, number, 60)).expect("forgotten");
        }
    });
    wait_asleep(waiting.pid());
    assert_eq!(topic.forget("recorder"), Ok(true));
    waiting.finish();
    assert_eq!((topic.forget("recorder"), topic.kept().len()), (Ok(false), 0));
    publish(&publisher, 4..8);
}

fn one_that_leaves_gives_up_its_place(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let subscriber = topic.subscriber_with(kept(LONG)).expect("a slot");
    publish(&publisher, 0..4);
    assert!(is_full(&publisher, 4));
    drop(subscriber);
    publish(&publisher, 4..8);
    let mut next = topic.subscriber_with(kept(LONG)).expect("a slot");
    assert_eq!(drain(&mut next, 1), [0; 0], "no successor");
}

/// As if it had died. Publishers that sleep behind it are woken, and wait for the patience.
fn one_that_lives_leaves_its_place_to_a_successor(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let mut first = topic.subscriber_with(kept(LONG)).expect("a slot");
    publish(&publisher, 0..4);
    drop(first.try_recv().expect("ours").expect("published"));
    first.abandon();
    assert_eq!(topic.kept()[0].owner, None);
    assert!(is_full(&publisher, 4));
    let mut second = topic.subscriber_with(kept(Duration::from_millis(50))).expect("the place");
    assert_eq!(drain(&mut second, 1), [0, 1, 2, 3], "nothing was acknowledged");
    let waiting = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..5 {
            publisher.publish(&message(2, number, 60)).expect("the patience has passed");
        }
    });
    wait_asleep(waiting.pid());
    second.abandon();
    waiting.finish();
    // A sample's drop writes to the slot, so that one stays this process's.
    let topic = Topic::<[u8]>::options().depth(4).reliable(true);
    let topic = topic.open_or_create(&domain, "other").expect("made");
    let mut subscriber = topic.subscriber_with(kept(LONG)).expect("a slot");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&message(1, 7, 5000)).map(drop).expect("room");
    let held = subscriber.try_recv().expect("ours").expect("there");
    subscriber.abandon();
    let refused = topic.subscriber_with(kept(LONG)).map(drop);
    assert!(matches!(refused, Err(Error::Taken { .. })), "{refused:?}");
    assert_eq!(read_message(&held), (1, 7));
    drop(held);
    let refused = topic.subscriber_with(kept(LONG)).map(drop);
    assert!(matches!(refused, Err(Error::Taken { .. })), "{refused:?}");
}

/// First with no place of that name, then with that of the one that is killed.
fn of_many_that_come_at_once_one_has_the_name(world: &World) {
    const CAME: usize = 0;
    const HAS: usize = 1;
    const FAILED: usize = 2;
    let domain = world.domain();
    let topic = open(&domain, 4);
    for round in 0..40 {
        let board = Board::new();
        let mut children: Vec<Child> = (0..4)
            .map(|_| {
                Child::start(|| {
                    board.add(CAME, 1);
                    board.reach(CAME, 4);
                    match topic.subscriber_with(kept(LONG)) {
                        Ok(subscriber) => {
                            board.add(HAS, 1);
                            std::thread::sleep(LONG);
                            drop(subscriber);
                        }
                        Err(Error::Taken { .. }) => {
                            board.add(FAILED, 1);
                            std::thread::sleep(LONG);
                        }
                        Err(other) => panic!("{other}"),
                    }
                })
            })
            .collect();
        wait_until("all have come", || board.get(HAS) + board.get(FAILED) == 4);
        // Of two that come at once, both may see the other one's name, and one of them alone goes on.
        assert_eq!(board.get(HAS), 1, "round {round}");
        assert_eq!(topic.kept().len(), 1);
        // In every second round the next ones succeed a dead one.
        children.iter_mut().for_each(Child::kill);
        if round % 2 == 0 {
            assert_eq!(topic.forget("recorder"), Ok(true));
        }
    }
}

/// A volatile topic: nothing of theirs is history.
fn what_dead_and_gone_publishers_left_is_the_successors(world: &World) {
    let domain = world.domain();
    let options = Topic::<[u8]>::options().depth(4).reliable(true);
    let topic = options.open_or_create(&domain, "topic").expect("made");
    let board = Board::new();
    let child = Child::start(|| {
        let _subscriber = topic.subscriber_with(kept(LONG)).expect("a slot");
        board.add(0, 1);
        std::thread::sleep(LONG);
    });
    let mut dead = child;
    board.reach(0, 1);
    dead.kill();
    for who in 0..3 {
        let mut publisher = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            for number in 0..4 {
                publisher.publish(&message(who, number, 60)).expect("a ring of its own has room");
            }
            board.add(1, 1);
            if who == 1 {
                std::thread::sleep(LONG);
            }
        });
        board.reach(1, who + 1);
        if who == 1 { publisher.kill() } else { publisher.finish() }
    }
    let mut successor = topic.subscriber_with(kept(LONG)).expect("the place");
    let mut found = Vec::new();
    while let Some(sample) = successor.try_recv().expect("nothing is lost") {
        found.push(read_message(&sample));
    }
    found.sort_unstable();
    let all: Vec<_> = (0..3).flat_map(|who| (0..4).map(move |number| (who, number))).collect();
    assert_eq!(found, all);
}

fn one_that_acknowledges_is_not_ready_for_what_it_has(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    let mut subscriber = topic.subscriber_with(kept(LONG)).expect("a slot");
    let mut set = WaitSet::new(&domain);
    let key = set.add(&subscriber).expect("added");
    publish(&publisher, 0..2);
    assert_eq!(set.wait().expect("waits").collect::<Vec<_>>(), [(key, Readiness::Readable)]);
    assert_eq!(drain(&mut subscriber, 1), [0, 1]);
    assert_eq!(set.try_wait().expect("looks").count(), 0);
    publish(&publisher, 2..3);
    assert_eq!(set.wait().expect("waits").count(), 1);
    assert_eq!(subscriber.acknowledged(0), 0);
    subscriber.acknowledge().expect("ours");
    assert_eq!(subscriber.acknowledged(0), 2);
}

fn one_that_is_not_reliable_keeps_its_count(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let options = || Subscriber::options().kept("recorder", LONG).acknowledging(true);
    let board = Board::new();
    let mut dead = owner(&domain, board, options(), 1);
    let publisher = topic.publisher().expect("a ring");
    publish(&publisher, 0..1);
    board.reach(1, 1);
    dead.kill();
    publish(&publisher, 1..9);
    let place = &topic.kept()[0];
    assert_eq!((place.reliable, place.lag), (false, 4));
    // Asking for more than the first one does not make it more.
    let mut successor = topic.subscriber_with(kept(LONG)).expect("the place");
    assert_eq!(drain(&mut successor, 1), [5, 6, 7, 8]);
    assert_eq!(successor.lost(), 4);
    publish(&publisher, 9..20);
}

/// It has acknowledged them: no publisher needs to wait for anything.
fn what_a_dead_one_held_is_free_again(world: &World) {
    let domain = world.domain();
    let options = Topic::<[u8]>::options().depth(64).max_bytes(1 << 20).reliable(true);
    let topic = options.open_or_create(&domain, "small").expect("made");
    let board = Board::new();
    let mut dead = Child::start(|| {
        let mut subscriber = topic.subscriber_with(kept(LONG)).expect("a slot");
        board.add(0, 1);
        let recv = || subscriber.recv_timeout(PATIENCE).expect("ours").expect("published");
        let held: Vec<_> = std::iter::repeat_with(recv).take(6).collect();
        subscriber.acknowledge().expect("ours");
        board.add(1, 1);
        std::thread::sleep(LONG);
        drop(held);
    });
    board.reach(0, 1);
    let publisher = topic.publisher().expect("a ring");
    let publish = |number| publisher.publish(&message(1, number, 100_000)).map(drop);
    (0..6).for_each(|number| publish(number).expect("room"));
    board.reach(1, 1);
    let is_there = |number| match publish(number) {
        Ok(()) => true,
        Err(SendError::NoSpace { .. }) => false,
        Err(other) => panic!("{other}"),
    };
    let count = (6..64).take_while(|&number| is_there(number)).count();
    assert!((1..6).contains(&count), "{count} have room beside the ones that it holds");
    dead.kill();
    // What comes now is kept for a successor, in the memory of those.
    for number in 0..5 {
        wait_until("the dead one's memory is free", || is_there(100 + number));
    }
    assert_eq!(publisher.stopped_waiting(), 0);
}

fn names_that_are_none(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    for name in ["", "a\0b", &"x".repeat(65)] {
        let refused = topic.subscriber_with(reliable().kept(name, LONG)).map(drop);
        assert!(matches!(refused, Err(Error::InvalidOption { .. })), "{name:?}: {refused:?}");
    }
    let name = "ü".repeat(32);
    drop(topic.subscriber_with(reliable().kept(&name, LONG)).expect("64 bytes"));
    let other = topic.subscriber_with(reliable().kept(&name[..62], LONG)).expect("62 bytes");
    assert_eq!(topic.kept()[0].name, name[..62]);
    drop(other);
}

/// A recorder with a file, killed at random: it writes each number, then acknowledges; its successor reads
/// how far the file is. Publishers are killed, too.
fn nothing_is_missing_through_many_kills(world: &World) {
    const KILLS: u64 = 100;
    const LAST: u64 = u64::MAX;
    let domain = world.domain();
    let topic = open(&domain, 8);
    let path = world.folder().join("file");
    File::create(&path).expect("made");
    drop(topic.publisher().expect("its ring is there"));
    let recorder = || {
        Child::start(|| {
            let options = kept(LONG);
            let mut subscriber: Subscriber = topic.subscriber_with(options).expect("the place");
            let mut file = OpenOptions::new().append(true).read(true).open(&path).expect("there");
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("read");
            // What it has not written whole was not acknowledged.
            file.set_len(bytes.len() as u64 / 8 * 8).expect("cut");
            let mut next = bytes.len() as u64 / 8;
            loop {
                let mut buffer = Vec::new();
                let mut sample = subscriber.recv_timeout(PATIENCE).expect("nothing is lost");
                let mut is_last = false;
                while let Some(got) = sample {
                    let (_, number) = read_message(&got);
                    is_last |= number == LAST;
                    if number != LAST && number >= next {
                        assert_eq!(number, next, "a gap");
                        buffer.extend_from_slice(&number.to_le_bytes());
                        next += 1;
                    }
                    sample = subscriber.try_recv().expect("nothing is lost");
                }
                file.write_all(&buffer).expect("written");
                subscriber.acknowledge().expect("ours");
                if is_last {
                    return;
                }
            }
        })
    };
    let mut recording = recorder();
    wait_until("it has joined", || !topic.kept().is_empty());
    let board = Board::new();
    let publisher = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        let mut number = 0;
        while board.get(0) == 0 {
            publisher.publish(&message(1, number, 60)).expect("published");
            number += 1;
            board.set(1, number);
        }
        publisher.publish(&message(1, LAST, 60)).expect("published");
    });
    let mut random = Random::new();
    for _ in 0..KILLS {
        random.pause(3000);
        recording.kill();
        recording = recorder();
    }
    board.set(0, 1);
    publisher.finish();
    recording.finish();
    let bytes = std::fs::read(&path).expect("read");
    let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    assert!(words.eq(0..board.get(1)), "{} of {}", bytes.len() / 8, board.get(1));
}
