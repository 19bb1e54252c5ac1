//! Messages that do not come in time, and publishers that live and do nothing.

use std::time::{Duration, Instant};

use outlive::topic::{Durability, Header, Outgoing, Publisher, Subscriber, Topic};
use outlive::wait::{Readiness, WaitSet};
use outlive::{Domain, Error, RecvError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;
use crate::wait_bridges::block_on;

crate::checks!(
    a_missed_period_is_told_in_every_form,
    what_is_there_in_time_is_not_missed,
    a_publisher_counts_what_it_misses,
    a_publisher_that_does_nothing_is_told_in_every_form,
    one_that_does_something_in_time_is_lively,
    one_that_leaves_has_not_died,
    a_death_is_told_behind_its_messages_and_before_a_successors,
    a_sleeper_is_told_that_one_is_lively_again,
    a_message_counts_for_its_lifespan,
    a_lifespan_in_a_ring_that_is_taken_again_is_kept,
    a_reader_of_the_newest_is_told,
    a_publisher_that_comes_beside_a_sleeper_is_watched,
    a_subscriber_that_watches_sleeps,
);

fn made(domain: &Domain) -> Topic<u64> {
    Topic::options().depth(64).open_or_create(domain, "alive").expect("made")
}

/// What a set with one source says.
fn ready(set: &mut WaitSet) -> Readiness {
    let ready = set.wait_timeout(PATIENCE).expect("ours").map(|(_, what)| what);
    ready.collect::<Vec<_>>()[..].first().copied().expect("in time")
}

/// A publisher is stopped, then killed: its subscriber is told by every call, by wait sets and by
/// futures, and counts each period.
fn a_missed_period_is_told_in_every_form(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let period = Duration::from_millis(3);
    let options = Subscriber::options().period(period);
    let mut subscriber = topic.subscriber_with(options).expect("a slot");
    let mut set = WaitSet::new(&domain);
    set.add(&subscriber).expect("added");
    let board = Board::new();
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0.. {
            publisher.publish(&number).expect("published");
            board.add(0, 1);
            std::thread::sleep(Duration::from_micros(300));
        }
    });
    let mut reports = 0;
    for stopped in [true, false] {
        board.reach(0, board.get(0) + 2);
        if stopped {
            child.stop()
        } else {
            child.kill()
        }
        while let Ok(Some(sample)) = subscriber.try_recv() {
            drop(sample);
        }
        let before = subscriber.missed();
        assert_eq!(ready(&mut set), Readiness::Missed);
        // Until it is told.
        assert_eq!(ready(&mut set), Readiness::Missed);
        assert_eq!(subscriber.try_recv().map(drop), Err(RecvError::Missed));
        assert_eq!(block_on(subscriber.recv_async()).map(drop), Err(RecvError::Missed));
        assert_eq!(subscriber.recv().map(drop), Err(RecvError::Missed));
        let told = subscriber.recv_timeout(PATIENCE).map(drop);
        assert_eq!(told, Err(RecvError::Missed));
        let told = subscriber.recv_until(outlive::Deadline::after(PATIENCE)).map(drop);
        assert_eq!(told, Err(RecvError::Missed));
        reports += 5;
        assert!(subscriber.missed() >= before + 5, "each report is one or more");
        if stopped {
            child.go_on();
        }
    }
    assert!(subscriber.missed() >= reports);
}

/// However late it is taken. And a subscriber without a period misses nothing.
fn what_is_there_in_time_is_not_missed(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let period = Duration::from_millis(2);
    let mut subscriber =
        topic.subscriber_with(Subscriber::options().period(period)).expect("a slot");
    let mut patient = topic.subscriber().expect("a slot");
    let mut set = WaitSet::new(&domain);
    set.add(&subscriber).expect("added");
    let publisher = topic.publisher().expect("a ring");
    publisher.publish(&1).expect("published");
    std::thread::sleep(3 * period);
    assert_eq!(ready(&mut set), Readiness::Readable);
    assert_eq!(*subscriber.try_recv().expect("not missed").expect("there"), 1);
    assert_eq!(subscriber.missed(), 0);
    assert_eq!((*patient.recv().expect("there"), patient.missed()), (1, 0));
    drop(subscriber);
    // The set still has its source, which expects nothing any more.
    assert_eq!(set.wait_timeout(3 * period).expect("ours").count(), 0);
}

/// A publisher that is stopped finds what it has missed; one that is never late misses nothing; a
/// thread beside it is told meanwhile.
fn a_publisher_counts_what_it_misses(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let board = Board::new();
    let child = Child::start(|| {
        let period = Duration::from_millis(20);
        let publisher = topic.publisher_with(Publisher::options().period(period)).expect("a ring");
        // Another one of the process, which has none.
        let free = topic.publisher().expect("a ring");
        assert_eq!((free.missed(), free.due().take()), (0, 0));
        let (mut last, mut longest, mut number) = (Instant::now(), Duration::ZERO, 0);
        while board.get(1) == 0 {
            publisher.publish(&number).expect("published");
            free.publish(&number).expect("published");
            let now = Instant::now();
            // From before the last one to after this one.
            longest = longest.max(now - last);
            last = now;
            number += 1;
            if publisher.missed() == 0 {
                board.add(0, 1);
            } else {
                assert!(longest >= period, "{longest:?}");
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        // It may have been stopped in its sleep, and then sees that it is over.
        publisher.publish(&number).expect("published");
        board.set(2, publisher.missed());
        let before = publisher.missed();
        let due = publisher.due();
        let mut set = WaitSet::new(&domain);
        set.add(&due).expect("added");
        let told = std::thread::scope(|scope| {
            let watching = scope.spawn(|| (ready(&mut set), due.take()));
            watching.join().expect("no panic")
        });
        assert_eq!(told.0, Readiness::Missed);
        assert!(told.1 >= 1 && publisher.missed() >= before + told.1);
        assert_eq!(free.missed(), 0);
    });
    board.reach(0, 5);
    child.stop();
    std::thread::sleep(Duration::from_millis(45));
    child.go_on();
    board.set(1, 1);
    child.finish();
    assert!(board.get(2) >= 1, "it was stopped for two periods");
}

/// One receive of a form: a message's number, or what is told; `None`: nothing in time.
type Form = fn(&mut Subscriber<u64>, &mut WaitSet) -> Result<Option<u64>, RecvError>;

fn all_forms() -> [Form; 5] {
    [
        |subscriber, _| subscriber.recv().map(|sample| Some(*sample)),
        |subscriber, _| Ok(subscriber.recv_timeout(PATIENCE)?.map(|sample| *sample)),
        |subscriber, _| {
            loop {
                if let Some(sample) = subscriber.try_recv()? {
                    return Ok(Some(*sample));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
        },
        |subscriber, set| {
            loop {
                if let Some(sample) = subscriber.try_recv()? {
                    return Ok(Some(*sample));
                }
                ready(set);
            }
        },
        |subscriber, _| block_on(subscriber.recv_async()).map(|sample| Some(*sample)),
    ]
}

/// A publisher that publishes the numbers from 0 on, all half milliseconds, until it is killed.
fn publishes(topic: &Topic<u64>, board: Board) -> Child {
    Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for number in 0.. {
            publisher.publish(&number).expect("published");
            board.add(0, 1);
            std::thread::sleep(Duration::from_micros(500));
        }
    })
}

/// A publisher is stopped, goes on, and is killed. A busy machine may stop it at other times, too.
fn a_publisher_that_does_nothing_is_told_in_every_form(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let lease = Duration::from_millis(4);
    for form in all_forms() {
        let options = Subscriber::options().liveliness(lease);
        let mut subscriber = topic.subscriber_with(options).expect("a slot");
        let mut set = WaitSet::new(&domain);
        set.add(&subscriber).expect("added");
        let board = Board::new();
        let mut child = publishes(&topic, board);
        let (pid, mut lapses, mut lively, mut next) = (child.pid() as u32, 0, true, 0);
        let (mut is_stopped, mut was_stopped) = (false, false);
        loop {
            match form(&mut subscriber, &mut set) {
                Ok(Some(number)) => {
                    // Behind the messages that are there, and before the next one.
                    assert!(lively && number >= next, "{number} after {next}");
                    next = number + 1;
                    if number >= 3 && !was_stopped {
                        child.stop();
                        (is_stopped, was_stopped) = (true, true);
                    }
                }
                Ok(None) => panic!("nothing is told"),
                Err(RecvError::NotLively { publisher, .. }) => {
                    assert!(lively && publisher.pid == pid && publisher.alive);
                    (lively, lapses) = (false, lapses + 1);
                    assert_eq!(subscriber.lapses(), lapses);
                    if is_stopped {
                        // Once.
                        let more = subscriber.recv_timeout(2 * lease);
                        assert!(matches!(more, Ok(None)), "{:?}", more.map(drop));
                        child.go_on();
                        is_stopped = false;
                    }
                }
                Err(RecvError::Lively { publisher, .. }) => {
                    assert!(!lively && publisher.pid == pid);
                    lively = true;
                    if was_stopped && !child.has_ended() {
                        child.kill();
                    }
                }
                Err(RecvError::PublisherDied { publisher, .. }) => {
                    assert!(publisher.pid == pid && !publisher.alive && was_stopped);
                    break;
                }
                Err(other) => panic!("{other}"),
            }
        }
        // All that it had published came before.
        assert!(next >= board.get(0));
        let more = subscriber.recv_timeout(2 * lease);
        assert!(matches!(more, Ok(None)), "{:?}", more.map(drop));
    }
}

/// It publishes or asserts twice in each lease, and measures: only where it was slower may it be
/// told. The watcher is stopped meanwhile, which makes no difference.
fn one_that_does_something_in_time_is_lively(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let lease = Duration::from_millis(12);
    let board = Board::new();
    let watcher = Child::start(|| {
        let options = Subscriber::options().liveliness(lease);
        let mut subscriber = topic.subscriber_with(options).expect("a slot");
        board.set(1, 1);
        while board.get(2) == 0 {
            match subscriber.recv_timeout(lease / 3) {
                Ok(_) => {}
                Err(RecvError::NotLively { .. } | RecvError::Lively { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        board.set(3, subscriber.lapses());
    });
    board.reach(1, 1);
    let publisher = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        let (mut before, mut longest) = (Instant::now(), Duration::ZERO);
        for at in 0..30 {
            let now = Instant::now();
            match at % 2 {
                0 => drop(publisher.publish(&at).expect("published")),
                _ => publisher.assert_liveliness(),
            }
            longest = longest.max(before.elapsed());
            before = now;
            std::thread::sleep(lease / 2);
        }
        board.set(4, longest.max(before.elapsed()).as_nanos() as u64);
    });
    std::thread::sleep(3 * lease);
    watcher.stop();
    std::thread::sleep(3 * lease);
    watcher.go_on();
    // It leaves in order, and ends: that is no death.
    publisher.finish();
    board.set(2, 1);
    watcher.finish();
    let longest = Duration::from_nanos(board.get(4));
    assert!(board.get(3) == 0 || longest >= lease, "{} lapses, {longest:?}", board.get(3));
}

/// Both while the subscriber does not look: it is told of the death alone.
fn one_that_leaves_has_not_died(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let options = Subscriber::options().liveliness(PATIENCE);
    let mut subscriber = topic.subscriber_with(options).expect("a slot");
    let board = Board::new();
    for dies in [false, true, false] {
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("a ring");
            publisher.publish(&1).expect("published");
            board.add(0, 1);
            board.reach(1, 1);
            drop(publisher);
        });
        board.reach(0, board.get(2) + 1);
        board.add(2, 1);
        assert_eq!(*subscriber.recv().expect("there"), 1);
        // Looks, and so knows of it.
        assert!(subscriber.try_recv().expect("nothing is told").is_none());
        if dies {
            child.kill();
        } else {
            board.set(1, 1);
            child.finish();
            board.set(1, 0);
        }
        // Its ring has another publisher before the subscriber looks again.
        let next = topic.publisher().expect("a ring");
        next.publish(&2).expect("published");
        let mut died = 0;
        let mut got = Vec::new();
        loop {
            match subscriber.try_recv() {
                Ok(Some(sample)) => got.push(*sample),
                Ok(None) => break,
                Err(RecvError::PublisherDied { .. }) => died += 1,
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!((got, died), (vec![2], i32::from(dies)));
    }
}

/// The topic has one ring: a publisher that comes after a dead one is in it before the subscriber has
/// looked.
fn a_death_is_told_behind_its_messages_and_before_a_successors(world: &World) {
    let domain = world.domain();
    let options = Topic::options().depth(64).max_publishers(1);
    let topic: Topic<u64> = options.open_or_create(&domain, "alone").expect("made");
    let lease = Duration::from_millis(1);
    let mut subscriber =
        topic.subscriber_with(Subscriber::options().liveliness(lease)).expect("a slot");
    let board = Board::new();
    for has_begun in [true, false] {
        let mut child = Child::start(|| {
            let publisher = topic.publisher().expect("the ring");
            publisher.publish(&0).expect("published");
            board.set(0, 1);
            board.reach(1, 1);
            for number in 1..4 {
                publisher.publish(&number).expect("published");
            }
            board.set(0, 2);
            board.reach(1, 2);
        });
        board.reach(0, 1);
        while subscriber.try_recv().ok().flatten().is_none_or(|sample| *sample != 0) {}
        board.set(1, 1);
        board.reach(0, 2);
        child.kill();
        let next = if has_begun {
            let next = topic.publisher().expect("the dead one's ring");
            next.publish(&4).expect("published");
            Some(next)
        } else {
            domain.sweep(false).expect("swept");
            None
        };
        std::thread::sleep(2 * lease);
        let mut got = Vec::new();
        loop {
            match subscriber.try_recv() {
                Ok(Some(sample)) => got.push(sample.to_string()),
                Ok(None) => break,
                Err(RecvError::PublisherDied { .. }) => got.push("died".to_owned()),
                Err(RecvError::NotLively { .. } | RecvError::Lively { .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
        let wanted = ["1", "2", "3", "died", "4"];
        assert_eq!(got, wanted[..if has_begun { 5 } else { 4 }]);
        drop(next);
        board.set(0, 0);
        board.set(1, 0);
    }
}

/// In each form, although a publisher that asserts that it is there wakes no process, and this domain
/// has no recheck.
fn a_sleeper_is_told_that_one_is_lively_again(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let board = Board::new();
    let child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        for turn in 1.. {
            board.reach(0, turn);
            // The subscriber has gone to sleep by then, more often than not.
            std::thread::sleep(Duration::from_millis(20));
            publisher.assert_liveliness();
        }
    });
    for (turn, form) in (1..).zip(all_forms()) {
        let options = Subscriber::options().liveliness(Duration::from_millis(4));
        let mut subscriber = topic.subscriber_with(options).expect("a slot");
        let mut set = WaitSet::new(&domain);
        set.add(&subscriber).expect("added");
        let told = form(&mut subscriber, &mut set);
        assert!(matches!(told, Err(RecvError::NotLively { .. })), "{told:?}");
        board.set(0, turn);
        let told = form(&mut subscriber, &mut set);
        assert!(matches!(told, Err(RecvError::Lively { .. })), "{told:?}");
    }
    drop(child);
}

/// Whether its publisher lives, has died, or has a successor without one; also for a subscriber that
/// was there before any publisher had a lifespan.
fn a_message_counts_for_its_lifespan(world: &World) {
    let domain = world.domain();
    let options = Topic::options().depth(4).durability(Durability::Persistent);
    let topic: Topic<u64> = options.open_or_create(&domain, "lasting").expect("made");
    let mut there = topic.subscriber().expect("a slot");
    topic.publisher().expect("a ring").publish(&0).expect("published");
    assert_eq!(*there.recv().expect("there"), 0);
    let old = |number: &u64, publisher: &Publisher<u64>| {
        let of_1970 = Header { stamp: 1, ..Header::default() };
        publisher.publish(Outgoing::new(number).header(of_1970)).expect("published");
    };
    let lasting = || Publisher::options().lifespan(Duration::from_secs(1000));
    let board = Board::new();
    let mut child = Child::start(|| {
        let publisher = topic.publisher_with(lasting()).expect("a ring");
        old(&1, &publisher);
        publisher.publish(&2).expect("published");
        board.add(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    let all = |subscriber: &mut Subscriber<u64>| {
        let mut got = Vec::new();
        while let Some(sample) = subscriber.try_recv().expect("ours") {
            got.push(*sample);
        }
        (got, subscriber.expired())
    };
    let late = || topic.subscriber_with(Subscriber::options().history(3)).expect("a slot");
    assert_eq!(all(&mut there), (vec![2], 1));
    assert_eq!(all(&mut late()), (vec![0, 2], 1));
    child.kill();
    assert_eq!(all(&mut late()), (vec![0, 2], 1));
    assert_eq!(late().latest().expect("ours").map(|sample| *sample), Some(2));
    let next = topic.publisher().expect("the same ring");
    old(&3, &next);
    // Its messages count for ever, and those before as long as they did.
    assert_eq!(all(&mut there), (vec![3], 1));
    assert_eq!(all(&mut late()), (vec![2, 3], 1));
    drop(next);
    let brief = topic
        .publisher_with(Publisher::options().lifespan(Duration::from_millis(1)))
        .expect("the same ring");
    brief.publish(&4).expect("published");
    std::thread::sleep(Duration::from_millis(3));
    assert_eq!(all(&mut there), (vec![], 2));
    // The brief one's lifespan is not that of what was before it.
    assert_eq!(all(&mut late()), (vec![2, 3], 1));
    let without: Topic<u64> =
        Topic::options().stamps(false).create_new(&domain, "w").expect("made");
    let refused = without.publisher_with(lasting()).map(drop);
    assert!(matches!(refused, Err(Error::OtherOptions { .. })), "{refused:?}");
}

/// The subscriber has decided anew at which rings it looks, after empty looks, before it takes the
/// first message.
fn a_lifespan_in_a_ring_that_is_taken_again_is_kept(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    drop(topic.publisher().expect("a ring"));
    for looks in 0..20 {
        let mut subscriber = topic.subscriber().expect("a slot");
        for _ in 0..looks {
            assert_eq!(subscriber.try_recv().expect("ours").map(drop), None);
        }
        let brief = Publisher::options().lifespan(Duration::from_millis(1));
        let brief = topic.publisher_with(brief).expect("the same ring");
        let of_1970 = Header { stamp: 1, ..Header::default() };
        brief.publish(Outgoing::new(&1).header(of_1970)).expect("published");
        assert_eq!(subscriber.try_recv().expect("ours").map(drop), None, "after {looks} looks");
        assert_eq!(subscriber.expired(), 1);
    }
}

/// By `latest`, as by every form of receiving: else a wait set beside it would not sleep again.
fn a_reader_of_the_newest_is_told(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let options = Subscriber::options().period(Duration::from_secs(1)).liveliness(PATIENCE);
    let mut subscriber = topic.subscriber_with(options).expect("a slot");
    let mut set = WaitSet::new(&domain);
    set.add(&subscriber).expect("added");
    let board = Board::new();
    let mut child = Child::start(|| {
        let publisher = topic.publisher().expect("a ring");
        publisher.publish(&7).expect("published");
        board.add(0, 1);
        std::thread::sleep(PATIENCE);
    });
    board.reach(0, 1);
    assert_eq!(subscriber.latest().expect("ours").map(|sample| *sample), Some(7));
    child.kill();
    let told = std::iter::repeat_with(|| {
        set.wait_timeout(PATIENCE).expect("ours").for_each(drop);
        subscriber.latest().map(drop)
    });
    let told = told.take(20).find(|told| matches!(told, Err(RecvError::PublisherDied { .. })));
    assert!(told.is_some(), "its death");
    assert_eq!(ready(&mut set), Readiness::Missed);
    assert_eq!(subscriber.latest().map(drop), Err(RecvError::Missed));
    let (missed, left) = (subscriber.missed(), set.try_wait().expect("ours").count());
    assert!(missed >= 1 && left <= 1, "{missed} {left}");
}

/// Without a recheck: the sleeper learns of the publisher that has come, and so of its death.
fn a_publisher_that_comes_beside_a_sleeper_is_watched(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    drop(topic.publisher().expect("a ring"));
    for in_a_set in [false, true] {
        let waiter = Child::start(|| {
            let options = Subscriber::options().liveliness(Duration::from_secs(3600));
            let mut subscriber = topic.subscriber_with(options).expect("a slot");
            let mut set = WaitSet::new(&domain);
            if in_a_set {
                set.add(&subscriber).expect("added");
                set.wait().expect("ours").for_each(drop);
            }
            let told = subscriber.recv().map(drop);
            assert!(matches!(told, Err(RecvError::PublisherDied { .. })), "{told:?}");
        });
        wait_asleep(waiter.pid());
        let board = Board::new();
        let mut publisher = Child::start(|| {
            let _publisher = topic.publisher().expect("a ring");
            board.add(0, 1);
            std::thread::sleep(PATIENCE);
        });
        board.reach(0, 1);
        wait_asleep(waiter.pid());
        publisher.kill();
        waiter.finish();
    }
}

/// One that looks in a loop would compute all the while.
fn a_subscriber_that_watches_sleeps(world: &World) {
    let domain = world.domain();
    let topic = made(&domain);
    let _publisher = topic.publisher().expect("a ring");
    let options = Subscriber::options().liveliness(Duration::from_secs(3600));
    let mut subscriber = topic.subscriber_with(options).expect("a slot");
    topic.set_wait_strategy(WaitStrategy::Block);
    let computed = || {
        // SAFETY: room for the answer, of which zero is a valid value.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage), 0);
            (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1_000_000
                + usage.ru_utime.tv_usec
                + usage.ru_stime.tv_usec
        }
    };
    let before = computed();
    let got = subscriber.recv_timeout(Duration::from_millis(300)).map(|got| got.is_some());
    assert_eq!(got, Ok(false));
    let took = computed() - before;
    assert!(took < 150_000, "{took} of 300,000 microseconds");
}
