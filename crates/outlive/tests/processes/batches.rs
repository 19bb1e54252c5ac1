//! Batches arrive whole or not at all; values of a type arrive as values.

use std::time::Duration;

use outlive::queue::Queue;
use outlive::{Error, SendError};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::board::Board;
use crate::child::Child;
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    batches_of_every_size,
    a_killed_senders_batch_is_whole_or_nothing: 60,
    a_receiver_dies_in_a_batch,
    counters_count_messages,
    values_of_a_type,
    slices_of_a_type,
    another_type_is_refused,
    too_large_together,
);

fn batches_of_every_size(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(64 << 20).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the only one");
    for count in [0, 1, 2, 3, 10, 100, 10_000] {
        for len in [0, 1, 30, 300] {
            let batch: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; len]).collect();
            assert_eq!(sender.send_batch(&batch), Ok(()));
            for expected in &batch {
                assert_eq!(&receiver.recv().expect("sent"), expected);
            }
            assert_eq!(receiver.try_recv(), Ok(None));
        }
    }
    // Single messages between batches.
    sender.send(b"before").expect("room");
    sender.send_batch(&[*b"one", *b"two"]).expect("room");
    sender.send(b"after").expect("room");
    let all: Vec<Vec<u8>> = (0..4).map(|_| receiver.recv().expect("sent")).collect();
    assert_eq!(all, [b"before".as_slice(), b"one", b"two", b"after"]);
}

/// The messages of batch `number`: as many as its number says, up to 40.
fn batch(who: u64, number: u64) -> Vec<Vec<u8>> {
    (0..2 + number % 39).map(|_| message(who, number, 16 + (number % 200) as usize)).collect()
}

fn a_killed_senders_batch_is_whole_or_nothing(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(16 << 20).open_or_create(&domain, "q").expect("made");
    let mut receiver = queue.receiver().expect("the only one");
    let mut random = Random::new();
    for who in 0..200 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            for number in 0.. {
                sender.send_batch(&batch(who, number)).expect("the receiver lives");
                board.set(0, number + 1);
            }
        });
        random.pause(2_000);
        child.kill();
        let acknowledged = board.get(0);
        let mut whole = 0;
        while let Ok(Some(first)) = receiver.try_recv() {
            let expected = batch(who, whole);
            assert_eq!(first, expected[0]);
            for (at, expected) in expected.iter().enumerate().skip(1) {
                let received = receiver.try_recv().expect("readable");
                assert_eq!(received.as_ref(), Some(expected), "{at} of batch {whole}");
            }
            whole += 1;
        }
        assert!(whole == acknowledged || whole == acknowledged + 1, "{whole} of {acknowledged}");
    }
}

fn a_receiver_dies_in_a_batch(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let batch: Vec<Vec<u8>> = (0..10).map(|n| message(0, n, 40)).collect();
    sender.send_batch(&batch).expect("room");
    // Each receiver takes one for good, peeks at the next, and dies.
    for number in 0..9 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let mut receiver = queue.receiver().expect("none lives");
            let peeked = receiver.try_peek().expect("readable").expect("sent");
            assert_eq!(read_message(&peeked), (0, number));
            assert_eq!(peeked.redelivered(), number > 0);
            peeked.commit();
            let peeked = receiver.try_peek().expect("readable").expect("sent");
            assert_eq!(read_message(&peeked), (0, number + 1));
            assert!(!peeked.redelivered());
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        child.kill();
        let counters = queue.counters().expect("counts");
        assert_eq!((counters.received, counters.pending), (number + 1, 9 - number));
    }
    let mut receiver = queue.receiver().expect("none lives");
    let peeked = receiver.try_peek().expect("readable").expect("sent");
    assert!(peeked.redelivered());
    peeked.commit();
    assert_eq!(receiver.try_recv(), Ok(None));
    let counters = queue.counters().expect("counts");
    assert_eq!((counters.received, counters.pending, counters.redelivered), (10, 0, 9));
}

fn counters_count_messages(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the only one");
    sender.send_batch(&[[1u8; 8]; 5]).expect("room");
    sender.send(b"x").expect("room");
    sender.send_batch(&[[1u8; 800]; 7]).expect("room");
    for received in 0..=13 {
        let counters = queue.counters().expect("counts");
        assert_eq!(
            (counters.sent, counters.received, counters.pending),
            (13, received, 13 - received)
        );
        assert_eq!(receiver.try_recv().expect("readable").is_some(), received < 13);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Pose {
    x: f64,
    y: f64,
    number: u64,
}

fn values_of_a_type(world: &World) {
    let domain = world.domain();
    let queue = Queue::<Pose>::open_or_create(&domain, "q").expect("made");
    let pose = |number| Pose { x: 1.5, y: -2.0, number };
    let child = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        for number in 0..1_000 {
            sender.send(&pose(number)).expect("room");
        }
        // In a batch each value lies behind 4 bytes of length, where its type is not aligned.
        sender.send_batch(&[1_000, 1_001, 1_002].map(pose)).expect("room");
    });
    let mut receiver = queue.receiver().expect("the only one");
    for number in 0..1_000 {
        let peeked = receiver.peek().expect("sent");
        assert_eq!(*peeked, pose(number));
        peeked.commit();
    }
    child.finish();
    assert_eq!(*receiver.peek().expect("sent"), pose(1_000));
    assert_eq!(receiver.recv(), Ok(pose(1_000)));
    let peeked = receiver.try_peek().expect("readable").expect("sent");
    assert_eq!(*peeked, pose(1_001));
    peeked.commit();
    assert_eq!(receiver.try_recv(), Ok(Some(pose(1_002))));
    assert_eq!(receiver.recv_timeout(Duration::ZERO), Ok(None));
}

fn slices_of_a_type(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u32]>::open_or_create(&domain, "q").expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("the only one"));
    for len in [0, 1, 30, 10_000] {
        let values: Vec<u32> = (0..len).collect();
        sender.send(&values).expect("room");
        sender.send_batch(&[&values[..], &values]).expect("room");
        for _ in 0..3 {
            assert_eq!(receiver.peek().expect("sent")[..], values[..]);
            assert_eq!(receiver.recv(), Ok(values.clone()));
        }
    }
}

fn another_type_is_refused(world: &World) {
    let domain = world.domain();
    Queue::<Pose>::open_or_create(&domain, "values").expect("made");
    Queue::<[u8]>::open_or_create(&domain, "bytes").expect("made");
    let other = |error: Option<Error>| assert!(matches!(error, Some(Error::OtherType { .. })));
    other(Queue::<[u8]>::open(&domain, "values").err());
    other(Queue::<[Pose]>::open_or_create(&domain, "values").err());
    other(Queue::<u64>::open(&domain, "bytes").err());
    Queue::<Pose>::open(&domain, "values").expect("the same");
    Queue::<[u8]>::open(&domain, "bytes").expect("the same");
}

fn too_large_together(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(1 << 20).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let error = sender.send_batch(&vec![[0u8; 1_000]; 2_000]).expect_err("2 MB in 1 MiB");
    assert!(matches!(error, SendError::TooLarge { len: 2_008_000, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("2008000") && text.contains("917504"), "{text}");
    assert_eq!(queue.counters().expect("counts").sent, 0);
    sender.send(b"x").expect("nothing was harmed");
}
