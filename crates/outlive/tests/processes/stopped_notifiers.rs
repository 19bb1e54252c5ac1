//! A process that is stopped between its change and its notification: the next process that
//! notifies wakes the waiter, or the waiter makes the recheck.
//!
//! The check forges such a stop: while the change is made, the eventcount's `epoch` says that no
//! process waits, so none is notified. Others see the same of a process that has not come to its
//! notification yet. An event's bits have no such moment: there a setter is stopped at random.

use std::time::Duration;

use outlive::Domain;
use outlive::queue::Queue;
use outlive::sync::{Condvar, Event, Mutex, Reset, Semaphore};
use outlive::topic::Topic;

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::denied;
use crate::forge::Bytes;
use crate::runner::World;
use crate::topics::control_of;
use crate::wait_sets::queue;

crate::checks!(
    a_stopped_senders_message_is_told_with_the_next,
    a_stopped_senders_message_is_found,
    a_stopped_publishers_message_is_told_with_the_next,
    a_stopped_publishers_message_is_found,
    a_stopped_publisher_that_has_come_is_found,
    a_stopped_holders_permit_is_found,
    a_wait_on_a_condition_ends_beside_a_stopped_notifier,
    bits_of_a_stopped_setter_are_told_to_all: 120,
);

/// Offsets of `epoch` in the file: a queue's `messages`, a topic's `notifications` (in its control
/// file), a semaphore's, a condition variable's first.
const MESSAGES: u64 = 12_288 + 128 + 4;
const NOTIFICATIONS: u64 = 12_288 + 4096 + 4;
const FREE: u64 = 12_288 + 4;
const PLAIN: u64 = 12_288 + 4;
/// Where a topic's `changes` lies in its control file: it counts participants that came or left.
const CHANGES: u64 = 12_288 + 4096 + 64;

const SOMEBODY: u32 = 1;

/// Makes the change as one that is stopped before it notifies.
fn stopped_before_it_notifies(domain: &Domain, name: &str, epoch: u64, change: impl FnOnce()) {
    let bytes = Bytes::of(domain, name);
    let seen = bytes.word(epoch);
    assert_eq!(seen & SOMEBODY, SOMEBODY, "somebody waits");
    bytes.set_word(epoch, seen & !SOMEBODY);
    change();
    bytes.set_word(epoch, seen);
}

/// Other domains have no recheck; in this one a waiter makes it soon.
fn looking(world: &World) -> Domain {
    Domain::options()
        .recheck(Some(Duration::from_millis(100)))
        .open_or_create_at(world.domain().path())
        .expect("opens")
}

fn receiving(queue: &Queue, board: Board) -> Child {
    let child = Child::start(|| {
        let mut receiver = queue.receiver().expect("free");
        assert_eq!(receiver.recv().expect("told"), [1]);
        board.set(0, 1);
    });
    wait_asleep(child.pid());
    child
}

fn a_stopped_senders_message_is_told_with_the_next(world: &World) {
    let domain = world.domain();
    let queue = queue(&domain, "queue");
    let sender = queue.sender().expect("there is room");
    let child = receiving(&queue, Board::new());
    stopped_before_it_notifies(&domain, "queue", MESSAGES, || sender.send(&[1]).expect("sent"));
    sender.send(&[2]).expect("sent");
    child.finish();
}

fn a_stopped_senders_message_is_found(world: &World) {
    let domain = looking(world);
    let (queue, board) = (queue(&domain, "queue"), Board::new());
    let sender = queue.sender().expect("there is room");
    let child = receiving(&queue, board);
    stopped_before_it_notifies(&domain, "queue", MESSAGES, || sender.send(&[1]).expect("sent"));
    child.finish();
    assert_eq!(board.get(0), 1);
}

fn subscribing(topic: &Topic<u64>) -> Child {
    let child = Child::start(|| {
        let mut subscriber = topic.subscriber().expect("free");
        assert_eq!(*subscriber.recv().expect("told"), 1);
    });
    wait_asleep(child.pid());
    child
}

fn a_stopped_publishers_message_is_told_with_the_next(world: &World) {
    let domain = world.domain();
    let topic = Topic::<u64>::open_or_create(&domain, "topic").expect("opens");
    let publisher = topic.publisher().expect("free");
    let children = [subscribing(&topic), subscribing(&topic)];
    stopped_before_it_notifies(&domain, &control_of(&domain), NOTIFICATIONS, || {
        assert!(publisher.publish(&1).is_ok())
    });
    publisher.publish(&2).expect("published");
    children.into_iter().for_each(Child::finish);
}

/// One of the two looks, and tells the other.
fn a_stopped_publishers_message_is_found(world: &World) {
    let domain = looking(world);
    let topic = Topic::<u64>::open_or_create(&domain, "topic").expect("opens");
    let publisher = topic.publisher().expect("free");
    let children = [subscribing(&topic), subscribing(&topic)];
    stopped_before_it_notifies(&domain, &control_of(&domain), NOTIFICATIONS, || {
        assert!(publisher.publish(&1).is_ok())
    });
    children.into_iter().for_each(Child::finish);
}

/// There is no participant whose end the watcher could watch, and the publisher is stopped before
/// it notifies the watcher.
fn a_stopped_publisher_that_has_come_is_found(world: &World) {
    let domain = looking(world);
    let topic = Topic::<u64>::open_or_create(&domain, "topic").expect("opens");
    let board = Board::new();
    let watching = Child::start(|| {
        let mut presence = topic.watch();
        assert!(presence.changed().expect("at once").publishers.is_empty());
        assert_eq!(presence.changed().expect("found").publishers.len(), 1);
    });
    wait_asleep(watching.pid());
    let changes = Bytes::of(&domain, &control_of(&domain));
    let before = changes.word(CHANGES);
    let _publishing = Child::start(|| {
        denied::answer(libc::SYS_futex, None, 0);
        let _publisher = topic.publisher().expect("free");
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(600));
    });
    board.reach(0, 1);
    assert_eq!(changes.word(CHANGES), before + 1, "the publisher has counted itself");
    changes.set_word(CHANGES, before);
    watching.finish();
}

fn a_stopped_holders_permit_is_found(world: &World) {
    let domain = looking(world);
    let semaphore = Semaphore::options(1).open_or_create(&domain, "semaphore").expect("opens");
    let permit = semaphore.acquire().expect("free");
    let child = Child::start(|| drop(semaphore.acquire().expect("given back")));
    wait_asleep(child.pid());
    stopped_before_it_notifies(&domain, "semaphore", FREE, || drop(permit));
    child.finish();
}

fn a_wait_on_a_condition_ends_beside_a_stopped_notifier(world: &World) {
    let domain = looking(world);
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "mutex").expect("opens");
    let condvar = Condvar::open_or_create(&domain, "condvar").expect("opens");
    let child = Child::start(|| {
        let guard = mutex.lock().expect("free");
        drop(condvar.wait_while(guard, |items| *items == 0).expect("told"));
    });
    wait_asleep(child.pid());
    *mutex.lock().expect("free") = 1;
    stopped_before_it_notifies(&domain, "condvar", PLAIN, || condvar.notify_one());
    child.finish();
}

/// Wherever a setter is stopped: if its bits are visible, all processes that wait for them have
/// been woken. No waiter makes a recheck here.
fn bits_of_a_stopped_setter_are_told_to_all(world: &World) {
    let event = Event::options()
        .reset(Reset::Manual)
        .open_or_create(&world.domain(), "event")
        .expect("opens");
    let board = Board::new();
    const ROUND: usize = 0;
    const BACK: usize = 1;
    const ABOUT_TO: usize = 2;
    const WAITERS: u64 = 3;
    for (bits, rounds) in [(1, 60), (1 << 20, 60), (1 | 1 << 20 | 1 << 30, 60)] {
        board.set(ROUND, 0);
        board.set(BACK, 0);
        board.set(ABOUT_TO, 0);
        let mut waiters: Vec<Child> = (0..WAITERS)
            .map(|_| {
                Child::start(|| {
                    for round in 1.. {
                        event.wait_any(bits).expect("set");
                        board.add(BACK, 1);
                        wait_until("the next round", || board.get(ROUND) >= round);
                    }
                })
            })
            .collect();
        for round in 1..=rounds {
            waiters.iter().for_each(|waiter| wait_asleep(waiter.pid()));
            let mut setter = Child::start(|| {
                // It is stopped anywhere in this, or behind it.
                board.set(ABOUT_TO, round);
                event.set(bits);
                std::thread::sleep(Duration::from_secs(600));
            });
            while board.get(ABOUT_TO) < round {
                std::hint::spin_loop();
            }
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            setter.stop();
            if event.bits() == 0 {
                setter.go_on();
                wait_until("it has set them", || event.bits() != 0);
            }
            assert_eq!(event.bits(), bits, "all of them, or none");
            wait_until("all who wait have come back", || board.get(BACK) == round * WAITERS);
            setter.kill();
            assert_eq!(event.clear(u32::MAX), bits);
            board.set(ROUND, round);
        }
        waiters.iter_mut().for_each(Child::kill);
    }
}
