//! What is sent is received: whole, in each sender's order, whatever its size.

use outlive::queue::{Queue, Receiver, Sender};
use outlive::{Deadline, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    four_processes_send_in_order: 60,
    threads_send_in_order,
    every_size_arrives_whole,
    a_receiver_moves_between_threads,
    a_sender_moves_between_threads,
    a_sleeping_receiver_is_woken,
    every_way_of_waiting: 60,
    an_iterator_ends_with_the_senders,
);

/// A message names its sender and its number in its first 16 bytes; the rest follows from them.
pub fn message(sender: u64, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    bytes.extend_from_slice(&sender.to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    let mut random = Random::from_seed(sender << 32 | number);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len.max(16));
    bytes
}

/// Returns the sender of the message and its number; fails unless the message is whole.
pub fn read_message(bytes: &[u8]) -> (u64, u64) {
    assert!(bytes.len() >= 16, "{} bytes", bytes.len());
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let (sender, number) = (word(0), word(8));
    let mut random = Random::from_seed(sender << 32 | number);
    for (at, chunk) in bytes[16..].chunks(8).enumerate() {
        let expected = random.next().to_le_bytes();
        assert_eq!(
            chunk,
            &expected[..chunk.len()],
            "message {number} of sender {sender}, byte {}",
            16 + at * 8
        );
    }
    (sender, number)
}

/// Mostly small, now and then large, seldom huge.
fn some_len(random: &mut Random) -> usize {
    let most = match random.below(1_000) {
        0 => 4 << 20,
        1..50 => 20_000,
        50..300 => 400,
        _ => 100,
    };
    16 + random.below(most) as usize
}

fn send_all(sender: &Sender, who: u64, count: u64) {
    let mut random = Random::from_seed(who);
    for number in 0..count {
        sender.send(&message(who, number, some_len(&mut random))).expect("the receiver lives");
    }
}

fn receive_all(receiver: &mut Receiver, senders: u64, count: u64) {
    let mut next = vec![0; senders as usize];
    for _ in 0..senders * count {
        let bytes = receiver.recv_timeout(PATIENCE).expect("readable").expect("more are sent");
        let (who, number) = read_message(&bytes);
        assert_eq!(number, next[who as usize], "of sender {who}");
        next[who as usize] += 1;
    }
    assert_eq!(receiver.try_recv(), Ok(None));
}

fn four_processes_send_in_order(world: &World) {
    const COUNT: u64 = 5_000;
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(64 << 20).open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    let children: Vec<Child> = (0..4)
        .map(|who| {
            let queue = &queue;
            Child::start(move || send_all(&queue.sender().expect("a sender"), who, COUNT))
        })
        .collect();
    receive_all(&mut receiver, 4, COUNT);
    children.into_iter().for_each(Child::finish);
    let counters = queue.counters().expect("counts");
    assert_eq!((counters.sent, counters.received, counters.pending), (4 * COUNT, 4 * COUNT, 0));
    assert_eq!((counters.abandoned, counters.redelivered), (0, 0));
    assert!(domain.sweep(false).expect("sweeps").objects == 0);
}

fn threads_send_in_order(world: &World) {
    const COUNT: u64 = 2_000;
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(32 << 20).open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    std::thread::scope(|scope| {
        for who in 0..4 {
            let sender = queue.sender().expect("a sender");
            scope.spawn(move || send_all(&sender, who, COUNT));
        }
        receive_all(&mut receiver, 4, COUNT);
    });
}

fn every_size_arrives_whole(world: &World) {
    let domain = world.domain();
    for (name, slot_bytes) in [("small slots", 64), ("default", 128), ("large slots", 4_096)] {
        let options = Queue::<[u8]>::options().slot_bytes(slot_bytes).max_bytes(256 << 20);
        let queue = options.open_or_create(&domain, name).expect("made");
        let sender = queue.sender().expect("a sender");
        let mut receiver = queue.receiver().expect("the only one");
        let mut sizes: Vec<usize> = (0..600).collect();
        // Around every power of two, hence around every size class, slot, page and span.
        for power in 9..24 {
            sizes.extend((1 << power) - 20..(1 << power) + 4);
        }
        for len in sizes {
            let bytes = if len < 16 { vec![len as u8; len] } else { message(1, len as u64, len) };
            sender.send(&bytes).expect("room");
            assert_eq!(receiver.recv().expect("sent"), bytes, "{len} bytes");
        }
    }
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

fn a_receiver_moves_between_threads(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the only one");
    for number in 0..50 {
        sender.send(&message(0, number, 100)).expect("room");
        receiver = std::thread::spawn(move || {
            assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
            receiver
        })
        .join()
        .expect("no panic");
    }
    // The threads it was in have ended; it lives.
    sender.send(b"still there").expect("the receiver lives");
    assert_eq!(receiver.recv().expect("sent"), b"still there");
    // Dropped in a thread of its own.
    std::thread::spawn(move || drop(receiver)).join().expect("no panic");
    drop(queue.receiver().expect("free again"));
}

fn a_sender_moves_between_threads(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    let mut sender = queue.sender().expect("a sender");
    for number in 0..50 {
        sender = std::thread::spawn(move || {
            sender.send(&message(0, number, 100)).expect("room");
            sender
        })
        .join()
        .expect("no panic");
    }
    for number in 0..50 {
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
    }
}

fn a_sleeping_receiver_is_woken(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let board = Board::new();
    let receiving = Child::start(|| {
        let mut receiver = queue.receiver().expect("the only one");
        for number in 0..500 {
            assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
            board.set(0, number + 1);
        }
    });
    let sender = queue.sender().expect("a sender");
    for number in 0..500 {
        wait_asleep(receiving.pid());
        // Small and large.
        let len = if number % 2 == 0 { 50 } else { 5_000 };
        sender.send(&message(0, number, len)).expect("the receiver lives");
        board.reach(0, number + 1);
    }
    receiving.finish();
}

/// To and fro, so that both sides sleep or spin for every message.
fn every_way_of_waiting(world: &World) {
    const COUNT: u64 = 5_000;
    let domain = world.domain();
    for (name, wait) in
        [("a", WaitStrategy::Adaptive), ("b", WaitStrategy::Block), ("s", WaitStrategy::Spin)]
    {
        let [there, back] = ["there", "back"].map(|way| {
            let options = Queue::<[u8]>::options().wait_strategy(wait);
            options.open_or_create(&domain, &format!("{name} {way}")).expect("made")
        });
        let echo = Child::start(|| {
            let mut receiver = there.receiver().expect("the only one");
            let sender = back.sender().expect("a sender");
            for _ in 0..COUNT {
                sender.send(&receiver.recv().expect("sent")).expect("room");
            }
        });
        let sender = there.sender().expect("a sender");
        let mut receiver = back.receiver().expect("the only one");
        for number in 0..COUNT {
            sender.send(&message(0, number, 40)).expect("room");
            assert_eq!(
                read_message(
                    &receiver.recv_timeout(PATIENCE).expect("readable").expect("sent back")
                ),
                (0, number)
            );
        }
        echo.finish();
    }
}

fn an_iterator_ends_with_the_senders(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    receiver.end_when_senders_gone(true);
    let child = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        for number in 0..1_000 {
            sender.send_until(&message(0, number, 60), Deadline::NEVER).expect("room");
        }
    });
    assert_eq!(receiver.iter().count(), 1_000);
    child.finish();
}
