//! Topics whose publishers and subscribers are stopped and killed: which process waits for which,
//! which ones are counted, what stays.

use std::time::Duration;

use outlive::topic::{Subscriber, SubscriberOptions, Topic};
use outlive::{Domain, Error, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;
use crate::topics::{drain, held, open, options, reliable, usage};

crate::checks!(
    a_death_releases_the_publisher,
    a_leaving_subscriber_releases_the_publisher,
    a_death_releases_only_its_own,
    a_stopped_subscriber_is_waited_for,
    a_killed_subscriber_counts_no_more,
    a_killed_publisher_counts_no_more,
    who_sweeps_is_no_publisher,
    nothing_is_lost_from_the_joining_on: 60,
    as_many_as_there_are_places,
    the_last_ring_is_had_from_the_dead_and_from_who_looks_after_it: 60,
    the_last_line_is_had_from_the_dead: 60,
    what_is_left_of_who_has_not_ended_is_said,
    comings_goings_and_deaths_are_told,
    a_dead_holders_samples_stay_until_it_has_ended,
    a_stopped_publisher_stops_nobody,
    memory_that_runs_out,
    memory_that_others_hold,
);

const FAR: Duration = Duration::from_secs(600);

/// A child that subscribes, takes `count` messages, and sleeps.
fn subscriber(domain: &Domain, board: Board, options: SubscriberOptions, count: u64) -> Child {
    let child = Child::start(|| {
        let topic = open(domain, 4);
        let mut subscriber = topic.subscriber_with(options).expect("a line");
        board.add(0, 1);
        let samples: Vec<_> = (0..count)
            .map(|_| subscriber.recv_timeout(PATIENCE).expect("no error").expect("published"))
            .collect();
        board.add(1, 1);
        std::thread::sleep(FAR);
        drop(samples);
    });
    board.reach(0, 1);
    child
}

/// The recheck is off in these domains, so it cannot have rescued any waiter.
fn nobody_was_rescued(domain: &Domain) {
    assert_eq!(domain.stats().rescues, 0);
}

/// A child that publishes so many, waiting for as long as it takes, and sleeps in one of them.
fn blocked_publisher(
    domain: &Domain,
    board: Board,
    count: u64,
    blocks_at: u64,
    len: usize,
) -> Child {
    let child = Child::start(|| {
        let topic = open(domain, 4);
        let publisher = topic.publisher().expect("a ring");
        for number in 0..count {
            board.add(2, 1);
            publisher.publish_timeout(&message(1, number, len), FAR).expect("released");
        }
    });
    board.reach(2, blocks_at);
    wait_asleep(child.pid());
    child
}

fn a_death_releases_the_publisher(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    for (taken, len) in [(0, 40), (0, 5000), (3, 5000)] {
        let board = Board::new();
        let mut slow = subscriber(&domain, board, reliable(), taken);
        let publisher = blocked_publisher(&domain, board, 5 + taken, 5 + taken, len);
        board.reach(1, 1);
        slow.kill();
        publisher.finish();
        nobody_was_rescued(&domain);
        let mut late = topic.subscriber().expect("a line");
        assert_eq!(read_message(&late.latest().expect("ours").expect("there")), (1, 4 + taken));
    }
}

fn a_leaving_subscriber_releases_the_publisher(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let slow = topic.subscriber_with(reliable()).expect("a line");
    let publisher = blocked_publisher(&domain, Board::new(), 5, 5, 40);
    drop(slow);
    publisher.finish();
}

/// Two are in the way: the one that is waited for dies, the other one is waited for then.
fn a_death_releases_only_its_own(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut living = topic.subscriber_with(reliable()).expect("a line");
    let mut slow = subscriber(&domain, board, reliable(), 0);
    let mut publisher = blocked_publisher(&domain, board, 20, 5, 3000);
    slow.kill();
    wait_asleep(publisher.pid());
    assert!(!publisher.has_ended());
    assert_eq!(board.get(2), 5, "the living one is waited for");
    for number in 0..20 {
        let sample = living.recv_timeout(PATIENCE).expect("no error").expect("published");
        assert_eq!(read_message(&sample), (1, number));
    }
    publisher.finish();
    assert_eq!(living.lost(), 0);
    nobody_was_rescued(&domain);
}

fn a_stopped_subscriber_is_waited_for(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let slow = Child::start(|| {
        let topic = open(&domain, 4);
        let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
        board.set(0, 1);
        for number in 0..6 {
            let sample = subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
            assert_eq!(read_message(&sample), (1, number), "stopped is not dead");
        }
        assert_eq!(subscriber.lost(), 0);
    });
    board.reach(0, 1);
    slow.stop();
    let publisher = topic.publisher().expect("a ring");
    for number in 0..4 {
        publisher.publish(&message(1, number, 900)).expect("room");
    }
    let text = message(1, 4, 900);
    let stopped = slow.pid() as u32;
    match publisher.publish_timeout(&text, Duration::from_millis(50)).map(drop) {
        Err(SendError::TimedOut { slowest }) => {
            assert!(slowest.is_some_and(|slowest| slowest.pid == stopped && slowest.alive))
        }
        other => panic!("{other:?}"),
    }
    match publisher.try_publish(&text).map(drop) {
        Err(SendError::Full { slowest }) => assert_eq!(slowest.map(|one| one.pid), Some(stopped)),
        other => panic!("{other:?}"),
    }
    let mut loan = publisher.loan(900).expect("room");
    loan.copy_from_slice(&text);
    let timed_out = publisher.publish_timeout(loan, Duration::from_millis(5)).map(drop);
    assert!(matches!(timed_out, Err(SendError::TimedOut { .. })), "{timed_out:?}");
    assert_eq!(publisher.subscriber_count(), 1);
    slow.go_on();
    publisher.publish_timeout(&text, PATIENCE).expect("it takes them now");
    publisher.publish_timeout(&message(1, 5, 900), PATIENCE).expect("it takes them now");
    slow.finish();
}

fn a_killed_subscriber_counts_no_more(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let publisher = topic.publisher().expect("a ring");
    assert!(!publisher.has_subscribers());
    for _ in 0..20 {
        let (first, second) = (Board::new(), Board::new());
        let mut children = [
            subscriber(&domain, first, reliable(), 0),
            subscriber(&domain, second, Subscriber::options(), 0),
        ];
        let published = publisher.publish(b"x").expect("room");
        assert_eq!((published.subscribers(), publisher.subscriber_count()), (2, 2));
        assert_eq!(topic.subscribers().len(), 2);
        for left in [1, 0] {
            children[left as usize].kill();
            assert_eq!(
                (publisher.subscriber_count(), publisher.has_subscribers()),
                (left, left > 0)
            );
            assert_eq!(topic.subscribers().len(), left as usize);
        }
    }
}

fn a_killed_publisher_counts_no_more(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let mut subscriber = topic.subscriber().expect("a line");
    let board = Board::new();
    for round in 1..20 {
        let mut children = [(); 2].map(|()| {
            Child::start(|| {
                let publisher = topic.publisher().expect("a ring");
                board.add(0, 1);
                loop {
                    publisher.publish(&[7; 3000]).expect("room");
                }
            })
        });
        board.reach(0, 2 * round);
        assert_eq!((subscriber.publisher_count(), topic.publishers().len()), (2, 2));
        for left in [1, 0] {
            children[left as usize].kill();
            assert_eq!(
                (subscriber.publisher_count(), topic.publishers().len()),
                (left, left as usize)
            );
        }
        while subscriber.try_recv().expect("ours").is_some() {}
        assert!(usage(&domain).rings.len() <= 2, "rings of the dead are taken again");
    }
}

fn who_sweeps_is_no_publisher(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    {
        let publishers = [(); 3].map(|()| topic.publisher().expect("a ring"));
        for publisher in &publishers {
            publisher.publish(&[7; 5000]).expect("room");
        }
    }
    let mut sweeper = Child::start(|| {
        loop {
            domain.sweep(false).expect("sweeps");
            board.add(0, 1);
        }
    });
    let subscriber = topic.subscriber().expect("a line");
    while board.get(0) < 300 {
        assert_eq!((subscriber.publisher_count(), topic.publishers()), (0, Vec::new()));
    }
    sweeper.kill();
    assert!(usage(&domain).rings.iter().all(|ring| ring.publisher.is_none()));
}

fn nothing_is_lost_from_the_joining_on(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 1);
    let board = Board::new();
    let mut busy = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0_u64.. {
            publisher.publish_timeout(&number.to_le_bytes(), PATIENCE * 3).expect("they take it");
            board.set(0, number + 1);
        }
    });
    board.reach(0, 1);
    for _ in 0..2_000 {
        let before = board.get(0);
        let mut subscriber = topic.subscriber_with(reliable()).expect("a line");
        let joined = board.get(0);
        let first =
            subscriber.recv_timeout(PATIENCE).expect("no error").expect("published").sequence();
        assert!(
            (before..=joined + 1).contains(&first),
            "{first} came first, {before}..{joined} were there"
        );
        // Of what was published just before.
        let lost = subscriber.lost();
        for next in 1..4 {
            assert_eq!(
                subscriber.recv_timeout(PATIENCE).expect("no error").expect("published").sequence(),
                first + next
            );
        }
        assert_eq!(subscriber.lost(), lost);
    }
    busy.kill();
}

fn as_many_as_there_are_places(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let board = Board::new();
    let first = topic.publisher().expect("a ring");
    let one = topic.subscriber().expect("a line");
    for round in 1..4 {
        let mut publishes = Child::start(|| {
            let topic = open(&domain, 2);
            let all: Vec<_> = (1..62).map(|_| topic.publisher().expect("a ring")).collect();
            for (number, publisher) in all.iter().enumerate() {
                publisher.publish(&message(number as u64, round, 20 + number * 50)).expect("room");
            }
            board.add(0, 1);
            std::thread::sleep(FAR);
        });
        board.reach(0, round);
        let mut subscribes = Child::start(|| {
            let topic = open(&domain, 2);
            let with = Subscriber::options().history(1);
            let mut all: Vec<_> =
                (1..64).map(|_| topic.subscriber_with(with.clone()).expect("a line")).collect();
            for subscriber in &mut all {
                let mut seen = [false; 62];
                while let Some(sample) = subscriber.try_recv().expect("ours") {
                    let (who, of) = read_message(&sample);
                    assert!(of == round && !std::mem::replace(&mut seen[who as usize], true));
                }
                assert_eq!(seen.iter().filter(|seen| **seen).count(), 61, "one message of each");
            }
            board.add(1, 1);
            std::thread::sleep(FAR);
        });
        board.reach(1, round);
        match topic.publisher().map(drop) {
            Err(Error::TooMany { what: "publishers", max: 62, .. }) => {}
            other => panic!("{other:?}"),
        }
        match topic.subscriber().map(drop) {
            Err(Error::TooMany { what: "subscribers", max: 64, .. }) => {}
            other => panic!("{other:?}"),
        }
        assert_eq!((first.subscriber_count(), one.publisher_count()), (64, 62));
        publishes.kill();
        subscribes.kill();
        assert_eq!((first.subscriber_count(), one.publisher_count()), (1, 1));
        drop(topic.publisher().expect("a dead one's"));
        drop(topic.subscriber().expect("a dead one's"));
    }
}

/// All rings but one are in use; the last one's publishers are killed, others sweep after them and
/// are killed, too: a publisher that wants the ring gets it.
fn the_last_ring_is_had_from_the_dead_and_from_who_looks_after_it(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let _all: Vec<_> = (1..62).map(|_| topic.publisher().expect("a ring")).collect();
    let mut random = Random::new();
    for round in 0..120 {
        let board = Board::new();
        let mut last = Child::start(|| {
            let publisher = open(&domain, 2).publisher().expect("the last ring");
            for number in 0.. {
                publisher.publish(&message(number, 1, 2000)).expect("room");
                board.set(0, 1);
            }
        });
        board.reach(0, 1);
        let sweeps = || {
            Child::start(|| {
                loop {
                    // It tells what a killed one has left half done.
                    let _ = domain.sweep(false);
                }
            })
        };
        let mut sweepers = [sweeps(), sweeps()];
        random.pause(1000);
        last.signal(libc::SIGKILL);
        if round % 2 == 0 {
            random.pause(2000);
            sweepers[0].kill();
        }
        // Dead, and perhaps not at its end yet.
        crate::child::wait_until("it is dead", || topic.publishers().len() == 61);
        drop(topic.publisher().expect("the dead one's"));
        last.wait();
        sweepers.iter_mut().for_each(|sweeper| {
            if !sweeper.has_ended() {
                sweeper.kill();
            }
        });
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// All subscriber slots but one are in use; the last one's subscriber is killed: a process that
/// wants the slot gets it, also before the dead subscriber has ended.
fn the_last_line_is_had_from_the_dead(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let _all: Vec<_> = (1..64).map(|_| topic.subscriber().expect("a line")).collect();
    for _ in 0..60 {
        let board = Board::new();
        let mut last = Child::start(|| {
            let _subscriber = open(&domain, 2).subscriber().expect("the last line");
            // Much to be given back at its end, before which it is not over.
            let memory = vec![1_u8; 8 << 20];
            board.set(0, 1);
            std::thread::sleep(FAR);
            drop(memory);
        });
        board.reach(0, 1);
        last.signal(libc::SIGKILL);
        crate::child::wait_until("it is dead", || topic.subscribers().len() == 63);
        drop(topic.subscriber().expect("the dead one's"));
        last.wait();
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// The thread that has the process's token is gone, and another goes on: a sweep leaves what it
/// has, and says so.
fn what_is_left_of_who_has_not_ended_is_said(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let mut child = Child::start(|| {
        let publisher = open(&domain, 2).publisher().expect("a ring");
        std::thread::scope(|scope| {
            scope.spawn(|| std::thread::sleep(FAR));
            std::mem::forget(publisher);
            // SAFETY: ends this thread and nothing else, without destructors.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    });
    crate::child::wait_until("its token reads dead", || {
        usage(&domain)
            .rings
            .first()
            .and_then(|ring| ring.publisher.as_ref())
            .is_some_and(|who| !who.alive)
    });
    domain.sweep(false).expect("sweeps");
    let report = domain.sweep(false).expect("sweeps");
    assert_eq!((report.claims, report.ending), (0, 1));
    assert!(!report.is_clean());
    child.kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    drop(topic);
}

/// What a watcher was told last, on the board: publishers, subscribers.
fn told(board: Board, publishers: u64, subscribers: u64) {
    crate::child::wait_until(
        &format!("{publishers} publishers and {subscribers} subscribers are told"),
        || board.get(10) == 1 + (publishers << 8 | subscribers),
    );
}

fn comings_goings_and_deaths_are_told(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let watcher = Child::start(|| {
        let topic = open(&domain, 4);
        let mut presence = topic.watch();
        loop {
            let present = presence.changed_timeout(PATIENCE).expect("no error").expect("a change");
            let (publishers, subscribers) =
                (present.publishers.len() as u64, present.subscribers.len() as u64);
            board.set(10, 1 + (publishers << 8 | subscribers));
        }
    });
    told(board, 0, 0);
    let asleep = || wait_asleep(watcher.pid());
    for _ in 0..5 {
        asleep();
        let publisher = topic.publisher().expect("a ring");
        told(board, 1, 0);
        asleep();
        let come = Board::new();
        let mut child = subscriber(&domain, come, reliable(), 0);
        told(board, 1, 1);
        asleep();
        let own = topic.subscriber().expect("a line");
        told(board, 1, 2);
        asleep();
        child.kill();
        told(board, 1, 1);
        asleep();
        drop(publisher);
        told(board, 0, 1);
        asleep();
        let mut child = Child::start(|| {
            let _publisher = open(&domain, 4).publisher().expect("a ring");
            std::thread::sleep(FAR);
        });
        told(board, 1, 1);
        asleep();
        child.kill();
        told(board, 0, 1);
        asleep();
        drop(own);
        told(board, 0, 0);
    }
    let mut presence = topic.watch();
    presence.changed_timeout(PATIENCE).expect("no error").expect("the first call tells");
    assert_eq!(presence.changed_timeout(Duration::from_millis(5)), Ok(None));
    nobody_was_rescued(&domain);
}

fn a_dead_holders_samples_stay_until_it_has_ended(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 2);
    let publisher = topic.publisher().expect("a ring");
    let board = Board::new();
    let mut holder = Child::start(|| {
        let topic = open(&domain, 2);
        let mut subscriber = topic.subscriber().expect("a line");
        board.set(0, 1);
        let samples: Vec<_> = (0..2)
            .map(|_| subscriber.recv_timeout(PATIENCE).expect("no error").expect("published"))
            .collect();
        board.set(0, 2);
        board.reach(0, 3);
        assert!(
            samples.iter().zip(0..).all(|(sample, number)| read_message(sample) == (1, number))
        );
        board.set(0, 4);
        std::thread::sleep(FAR);
    });
    board.reach(0, 1);
    for number in 0..300 {
        if number == 2 {
            board.reach(0, 2);
        }
        publisher.publish(&message(1, number, 9000)).expect("room");
    }
    board.set(0, 3);
    board.reach(0, 4);
    assert_eq!(held(&domain), 2);
    holder.kill();
    let before = usage(&domain);
    assert_eq!((before.subscribers.len(), before.subscribers[0].who.alive), (1, false));
    assert_eq!(domain.sweep(true).expect("looks").claims, 1);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert_eq!(usage(&domain).subscribers, []);
    drop(publisher);
    let ring = &usage(&domain).rings[0];
    assert_eq!(
        (ring.objects, ring.kept),
        (2, 2),
        "what nobody holds is free but for what is in place"
    );
}

fn a_stopped_publisher_stops_nobody(world: &World) {
    let domain = world.domain();
    let topic = open(&domain, 4);
    let board = Board::new();
    let mut subscriber = topic.subscriber().expect("a line");
    let busy = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0_u64.. {
            publisher
                .publish(&message(9, number, 16 + (number * 777 % 5000) as usize))
                .expect("room");
            board.add(0, 1);
        }
    });
    let publisher = topic.publisher().expect("another ring");
    let mut random = crate::random::Random::new();
    for round in 0..150 {
        board.reach(0, board.get(0) + 1);
        random.pause(100);
        busy.stop();
        while let Some(sample) = subscriber.try_recv().expect("ours") {
            read_message(&sample);
        }
        publisher.publish(&message(1, round, 700)).expect("room");
        let sample = subscriber.recv_timeout(PATIENCE).expect("no error").expect("published");
        assert_eq!(read_message(&sample), (1, round));
        let mut late = topic.subscriber_with(reliable().history(4)).expect("a line");
        while let Some(sample) = late.try_recv().expect("ours") {
            read_message(&sample);
        }
        busy.go_on();
    }
}

fn memory_that_runs_out(world: &World) {
    let domain = world.domain();
    let topic: Topic<[u8]> =
        options(64).max_bytes(2 << 20).open_or_create(&domain, "topic").expect("opens");
    let mut other = topic.subscriber().expect("a line");
    let neighbour = topic.publisher().expect("a ring");
    neighbour.publish(&message(2, 0, 3000)).expect("room");
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0..100 {
            publisher.publish(&message(1, number, 200_000)).expect("its oldest are given up");
        }
        publisher.publish(&message(1, 100, 30)).expect("room");
        let too_large = publisher.loan(20 << 20).map(drop);
        // However much is given up, and whatever the reader has in its hand.
        let Err(SendError::TooLarge { len, max: most }) = too_large else {
            panic!("{too_large:?}")
        };
        assert!(len == 20 << 20 && (1 << 20..2 << 20).contains(&most), "{len} {most}");
        std::thread::sleep(FAR);
    });
    let mut seen = Vec::new();
    loop {
        let sample = other.recv_timeout(PATIENCE).expect("no error").expect("published");
        match read_message(&sample) {
            (2, number) => assert_eq!(number, 0),
            (_, number) => seen.push(number),
        }
        if seen.last() == Some(&100) {
            break;
        }
    }
    assert!(seen.is_sorted() && seen.len() as u64 + other.lost() == 101, "{seen:?}");
    let now = usage(&domain);
    assert!(now.bytes <= now.max_bytes, "{now:?}");
    let mut late = topic.subscriber_with(reliable().history(64)).expect("a line");
    let first =
        late.recv_timeout(PATIENCE).expect("no error").expect("the neighbour's is still there");
    assert_eq!(read_message(&first), (2, 0));
    assert_eq!(read_message(&late.latest().expect("ours").expect("the last one stays")), (1, 100));
    child.kill();
    // What the dead one had serves others.
    for number in 1..30 {
        neighbour.publish_timeout(&message(2, number, 200_000), PATIENCE).expect("room again");
        assert_eq!(
            read_message(&late.recv_timeout(PATIENCE).expect("no error").expect("published")),
            (2, number)
        );
    }
}

fn memory_that_others_hold(world: &World) {
    let domain = world.domain();
    let topic: Topic<[u8]> =
        options(16).max_bytes(3 << 20).open_or_create(&domain, "topic").expect("opens");
    let mut subscriber = topic.subscriber().expect("a line");
    let publisher = topic.publisher().expect("a ring");
    let mut samples = Vec::new();
    let no_space = loop {
        let number = samples.len() as u64;
        match publisher.publish(&message(1, number, 250_000)).map(drop) {
            Ok(()) => samples.push(subscriber.recv().expect("published")),
            Err(error) => break error,
        }
    };
    let count = samples.len();
    assert!((5..16).contains(&count), "{count}");
    assert!(
        matches!(no_space, SendError::NoSpace { held, .. } if held == count as u32),
        "{no_space:?}"
    );
    assert!(samples.iter().zip(0..).all(|(sample, number)| read_message(sample) == (1, number)));
    assert_eq!(
        read_message(&subscriber.latest().expect("ours").expect("it stays")),
        (1, count as u64 - 1)
    );
    publisher.publish(b"small ones go").expect("in the slot");
    assert_eq!(*subscriber.recv().expect("published"), *b"small ones go");
    drop(samples.remove(0));
    publisher.publish(&message(1, 77, 250_000)).expect("one was dropped");
    drop(samples);
    drop(subscriber);
    // What a reliable one has still to take is not given up.
    let mut waits = topic.subscriber_with(reliable()).expect("a line");
    let mut number = 100;
    let no_space = loop {
        match publisher.publish(&message(1, number, 250_000)).map(drop) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(no_space, SendError::NoSpace { held: 0, .. }), "{no_space:?}");
    assert_eq!(drain(&mut waits, 1), (100..number).collect::<Vec<_>>());
    assert_eq!(waits.lost(), 0);
    publisher.publish(&message(1, number, 250_000)).expect("taken");
}
