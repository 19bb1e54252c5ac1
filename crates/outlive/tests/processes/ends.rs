//! What a queue's processes wait for when the senders are gone, or while there is no receiver yet,
//! and what wakes them.

use std::time::Duration;

use outlive::queue::{Queue, QueueOptions};
use outlive::{RecvError, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, End};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    senders_gone_by_dropping,
    senders_gone_by_death,
    a_sleeping_receiver_learns_that_all_are_gone,
    never_seen_is_not_gone,
    more_senders_than_the_table_has_room_for: 60,
    senders_wait_for_a_receiver_to_come,
    receivers_that_come_are_killed: 60,
    killed_while_asleep_the_receiver_leaves_no_mark,
    a_receiver_waits_for_a_writer_that_dies: 60,
);

fn senders_gone_by_dropping(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    let senders = [queue.sender(), queue.sender()].map(|sender| sender.expect("a sender"));
    assert_eq!(queue.senders().len(), 2);
    receiver.end_when_senders_gone(true);
    senders[0].send(b"last words").expect("room");
    assert_eq!(receiver.recv().expect("sent"), b"last words");
    assert_eq!(receiver.try_recv(), Ok(None));
    let [first, second] = senders;
    drop(first);
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Ok(None));
    second.send(b"really").expect("room");
    drop(second);
    assert_eq!(receiver.recv().expect("sent"), b"really");
    assert_eq!(receiver.recv(), Err(RecvError::Closed));
    assert_eq!(receiver.try_recv(), Err(RecvError::Closed));
    assert!(matches!(receiver.peek(), Err(RecvError::Closed)));
    assert!(queue.senders().is_empty());
    // Others may come.
    queue.sender().expect("a sender").send(b"late").expect("room");
    assert_eq!(receiver.recv().expect("sent"), b"late");
    receiver.end_when_senders_gone(false);
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Ok(None));
}

fn senders_gone_by_death(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    receiver.end_when_senders_gone(true);
    let board = Board::new();
    let mut children: Vec<Child> = (0..3)
        .map(|who| {
            let queue = &queue;
            Child::start(move || {
                let sender = queue.sender().expect("a sender");
                sender.send(&message(who, 0, 30)).expect("room");
                board.add(0, 1);
                loop {
                    std::thread::park();
                }
            })
        })
        .collect();
    board.reach(0, 3);
    for _ in 0..3 {
        receiver.recv().expect("sent");
    }
    for child in &mut children {
        assert_eq!(receiver.try_recv(), Ok(None));
        child.kill();
    }
    assert_eq!(receiver.recv(), Err(RecvError::Closed));
    assert!(queue.senders().iter().all(|sender| !sender.alive));
}

fn a_sleeping_receiver_learns_that_all_are_gone(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..60 {
        let queue = Queue::<[u8]>::open_or_create(&domain, &format!("q{round}")).expect("made");
        let board = Board::new();
        let mut senders: Vec<Child> = (0..4)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    sender.send(&message(who, 0, 30)).expect("room");
                    board.add(0, 1);
                    // By death or by dropping.
                    board.reach(1, 1);
                    drop(sender);
                })
            })
            .collect();
        board.reach(0, 4);
        let receiving = Child::start(|| {
            let mut receiver = queue.receiver().expect("the only one");
            receiver.end_when_senders_gone(true);
            assert_eq!(receiver.iter().count(), 4);
            assert_eq!(receiver.recv(), Err(RecvError::Closed));
        });
        if round % 2 == 0 {
            wait_asleep(receiving.pid());
        }
        for sender in &mut senders[..2] {
            sender.kill();
            random.pause(100);
        }
        board.set(1, 1);
        senders.drain(2..).for_each(Child::finish);
        receiving.finish();
    }
}

fn never_seen_is_not_gone(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    receiver.end_when_senders_gone(true);
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Ok(None));
    assert_eq!(receiver.try_recv(), Ok(None));
}

fn more_senders_than_the_table_has_room_for(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    let senders: Vec<_> = (0..1_030).map(|_| queue.sender().expect("a sender")).collect();
    assert_eq!(queue.senders().len(), 1_024);
    for (number, sender) in senders.iter().enumerate() {
        sender.send(&message(number as u64, 7, 20)).expect("room");
        assert_eq!(read_message(&receiver.recv().expect("sent")), (number as u64, 7));
    }
    drop(senders);
    receiver.end_when_senders_gone(true);
    // There are senders, or there were, of which the receiver cannot tell whether they live.
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Ok(None));
}

/// A queue that is soon full.
fn small() -> QueueOptions {
    Queue::<[u8]>::options().max_bytes(256 << 10)
}

fn fill(queue: &Queue) {
    let sender = queue.sender().expect("a sender");
    while sender.try_send(&[1; 64]).is_ok() {}
    assert_eq!(sender.try_send(&[1; 64]), Err(SendError::Full { slowest: None }));
}

fn senders_wait_for_a_receiver_to_come(world: &World) {
    let domain = world.domain();
    for round in 0..10 {
        let queue = small().open_or_create(&domain, &format!("q{round}")).expect("made");
        fill(&queue);
        let senders: Vec<Child> = (0..4)
            .map(|_| {
                Child::start(|| {
                    queue.sender().expect("a sender").send(b"waits").expect("there comes one")
                })
            })
            .collect();
        for sender in &senders {
            wait_asleep(sender.pid());
        }
        let full = queue.counters().expect("counts").pending;
        let mut receiver = queue.receiver().expect("the first");
        for _ in 0..full {
            assert_eq!(receiver.recv().expect("sent"), [1; 64]);
        }
        for _ in 0..4 {
            assert_eq!(receiver.recv().expect("sent"), b"waits");
        }
        senders.into_iter().for_each(Child::finish);
    }
}

/// A receiver that comes wakes the processes that wait for one; if it is killed before it could,
/// the kernel wakes them.
fn receivers_that_come_are_killed(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..60 {
        let queue = small().open_or_create(&domain, &format!("q{round}")).expect("made");
        fill(&queue);
        let senders: Vec<Child> = (0..4)
            .map(|_| {
                Child::start(|| {
                    let sender = queue.sender().expect("a sender");
                    assert_eq!(sender.send(b"waits"), Err(SendError::ReceiverDied));
                })
            })
            .collect();
        for sender in &senders {
            wait_asleep(sender.pid());
        }
        let mut coming = Child::start(|| {
            let _receiver = queue.receiver();
            loop {
                std::thread::park();
            }
        });
        random.pause(600);
        coming.kill();
        // If it is killed before it came, no process has died as a receiver; then one comes and
        // dies for certain.
        let board = Board::new();
        let mut certain = Child::start(|| {
            let _receiver = queue.receiver().expect("none lives");
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        certain.kill();
        senders.into_iter().for_each(Child::finish);
        domain.remove(&format!("q{round}")).expect("removed");
    }
}

/// The flag that says "asleep" outlives the receiver that slept; senders tell its successor's sleep
/// from it.
fn killed_while_asleep_the_receiver_leaves_no_mark(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    for number in 0..100 {
        let mut first = Child::start(|| drop(queue.receiver().expect("none lives").recv()));
        wait_asleep(first.pid());
        first.kill();
        let second = Child::start(|| {
            let mut receiver = queue.receiver().expect("none lives");
            assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
        });
        wait_asleep(second.pid());
        sender.send(&message(0, number, 30)).expect("it lives");
        second.finish();
    }
}

/// Asleep before a slot that is being written: its writer's end wakes, and the slot is skipped.
fn a_receiver_waits_for_a_writer_that_dies(world: &World) {
    let domain = world.domain();
    // Slots of 4 KiB: the copy takes a moment, so a random kill sometimes falls into it.
    let queue = Queue::<[u8]>::options()
        .slot_bytes(4_096)
        .max_bytes(32 << 20)
        .open_or_create(&domain, "q")
        .expect("made");
    let board = Board::new();
    let mut receiving = Child::start(|| {
        let mut receiver = queue.receiver().expect("the only one");
        loop {
            let (who, number) = read_message(&receiver.recv().expect("sent"));
            board.set(who as usize + 1, number + 1);
        }
    });
    let mut random = Random::new();
    for who in 0..600 {
        let own = Board::new();
        let mut child = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            for number in 0.. {
                sender.send(&message(who, number, 4_000)).expect("the receiver lives");
                own.set(0, number + 1);
            }
        });
        random.pause(1_500);
        child.kill();
        // Every acknowledged message arrives, although no other process sends.
        let acknowledged = own.get(0);
        if acknowledged > 0 {
            let received = board.reach(who as usize + 1, acknowledged);
            assert!(received <= acknowledged + 1);
        }
    }
    receiving.signal(libc::SIGKILL);
    assert_eq!(receiving.wait(), End::Signal(libc::SIGKILL));
    eprintln!("abandoned: {}", queue.counters().expect("counts").abandoned);
}
