//! A queue's one receiver: taken, dead, taken over; and what senders are told.

use std::time::{Duration, Instant};

use outlive::queue::{Queue, QueueOptions};
use outlive::{Error, RecvError, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes};
use crate::order::{message, read_message};
use crate::runner::World;

crate::checks!(
    a_second_receiver_is_refused,
    a_dead_receivers_place_is_free,
    what_was_peeked_comes_again,
    a_running_sender_is_told_at_once,
    waiting_senders_are_told_at_once,
    waiting_senders_are_told_without_futex_waitv,
    senders_that_wait_for_memory_are_told,
    a_sweep_does_not_hide_the_death,
    refused_without_a_receiver,
    a_forked_childs_receiver_is_none,
    a_dropped_receiver_leaves_in_order,
    many_come_at_once_and_one_gets_it,
    one_that_does_not_end_keeps_nobody_for_ever,
);

/// A child that is the receiver until it is killed; takes `count` messages first.
fn receiver(queue: &Queue, count: u64) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let mut receiver = queue.receiver().expect("none lives");
        for _ in 0..count {
            receiver.recv().expect("sent");
        }
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// A queue that is soon full.
fn small() -> QueueOptions {
    Queue::<[u8]>::options().max_bytes(1 << 20)
}

fn a_second_receiver_is_refused(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let mut child = receiver(&queue, 0);
    let error = queue.receiver().err().expect("taken");
    let path = domain.path().join("q");
    assert_eq!(error, Error::Taken { role: "receiver", path, pid: Some(child.pid() as u32) });
    assert!(error.to_string().contains(&child.pid().to_string()), "{error}");
    child.kill();
    let own = queue.receiver().expect("free");
    let error = queue.receiver().err().expect("taken by ourselves");
    assert!(
        matches!(error, Error::Taken { role: "receiver", pid, .. } if pid == Some(std::process::id()))
    );
    drop(own);
    drop(queue.receiver().expect("free"));
}

fn a_dead_receivers_place_is_free(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    for number in 0..100 {
        sender.send(&message(0, number, 200)).expect("room");
    }
    for taken in 1..=9 {
        receiver(&queue, 10).kill();
        assert_eq!(sender.try_send(b"x"), Err(SendError::ReceiverDied));
        let counters = queue.counters().expect("counts");
        assert_eq!((counters.received, counters.pending), (10 * taken, 100 - 10 * taken));
    }
    let mut last = queue.receiver().expect("none lives");
    for number in 90..100 {
        assert_eq!(read_message(&last.recv().expect("sent")), (0, number));
    }
    sender.send(b"again").expect("there is a receiver");
    assert_eq!(last.recv().expect("sent"), b"again");
    assert!(queue.current_receiver().is_some_and(|reader| reader.pid == std::process::id()));
}

fn what_was_peeked_comes_again(world: &World) {
    let domain = world.domain();
    for len in [50, 5_000, 3 << 20] {
        let queue = Queue::<[u8]>::options()
            .max_bytes(64 << 20)
            .open_or_create(&domain, &format!("q{len}"))
            .expect("made");
        let sender = queue.sender().expect("a sender");
        for number in 0..3 {
            sender.send(&message(0, number, len)).expect("room");
        }
        for round in 0..3 {
            let board = Board::new();
            let mut child = Child::start(|| {
                let mut receiver = queue.receiver().expect("none lives");
                if round == 0 {
                    let first = receiver.try_peek().expect("readable").expect("sent");
                    assert!(!first.redelivered());
                    first.commit();
                }
                let second = receiver.try_peek().expect("readable").expect("sent");
                assert_eq!(read_message(&second), (0, 1));
                assert_eq!(second.redelivered(), round > 0);
                board.set(0, 1);
                loop {
                    std::thread::park();
                }
            });
            board.reach(0, 1);
            child.kill();
        }
        let mut receiver = queue.receiver().expect("none lives");
        // A living receiver drops it without a commit: the message is handed out again, but no
        // process died over it.
        let _ = receiver.try_peek().expect("readable").expect("sent");
        let second = receiver.try_peek().expect("readable").expect("sent");
        assert_eq!(read_message(&second), (0, 1));
        second.commit();
        let third = receiver.try_peek().expect("readable").expect("sent");
        assert_eq!(read_message(&third), (0, 2));
        assert!(!third.redelivered());
        third.commit();
        let counters = queue.counters().expect("counts");
        assert_eq!((counters.received, counters.pending, counters.redelivered), (3, 0, 3));
    }
    assert_eq!(domain.sweep(false).expect("sweeps").objects, 0);
}

fn a_running_sender_is_told_at_once(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut child = receiver(&queue, 0);
    sender.send(b"x").expect("it lives");
    child.kill();
    for bytes in [&b"x"[..], &[1; 1_000], &vec![2; 3 << 20]] {
        assert_eq!(sender.send(bytes), Err(SendError::ReceiverDied));
        assert_eq!(sender.try_send(bytes), Err(SendError::ReceiverDied));
        assert_eq!(sender.send_timeout(bytes, Duration::ZERO), Err(SendError::ReceiverDied));
        assert_eq!(sender.send_batch(&[bytes, bytes]), Err(SendError::ReceiverDied));
    }
    let text = SendError::ReceiverDied.to_string();
    assert!(text.contains("start another"), "{text}");
    assert_eq!(queue.counters().expect("counts").pending, 1, "what was sent is kept");
}

fn tell_waiting(world: &World, len: usize, prepare: fn()) {
    let domain = world.domain();
    for round in 0..5 {
        let queue = small().open_or_create(&domain, &format!("q{round}")).expect("made");
        let mut child = receiver(&queue, 0);
        let sender = queue.sender().expect("a sender");
        let bytes = vec![1; len];
        while sender.try_send(&bytes).is_ok() {}
        let senders: Vec<Child> = (0..8)
            .map(|_| {
                Child::start(|| {
                    prepare();
                    let sender = queue.sender().expect("a sender");
                    assert_eq!(sender.send(&bytes), Err(SendError::ReceiverDied));
                })
            })
            .collect();
        for sender in &senders {
            wait_asleep(sender.pid());
        }
        child.kill();
        senders.into_iter().for_each(Child::finish);
    }
}

fn waiting_senders_are_told_at_once(world: &World) {
    tell_waiting(world, 64, || {});
}

fn waiting_senders_are_told_without_futex_waitv(world: &World) {
    tell_waiting(world, 64, outlive::abilities::pretend_no_futex_waitv);
}

fn senders_that_wait_for_memory_are_told(world: &World) {
    tell_waiting(world, 10_000, || {});
}

fn a_sweep_does_not_hide_the_death(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    receiver(&queue, 0).kill();
    assert!(queue.current_receiver().is_some_and(|reader| !reader.alive));
    assert!(domain.sweep(false).expect("sweeps").claims > 0);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(sender.try_send(b"x"), Err(SendError::ReceiverDied));
    let mut next = queue.receiver().expect("none lives");
    sender.send(b"x").expect("it lives");
    assert_eq!(next.recv().expect("sent"), b"x");
}

fn refused_without_a_receiver(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().need_receiver(true).open_or_create(&domain, "q").expect("made");
    let sender = Queue::<[u8]>::open(&domain, "q").expect("there").sender().expect("a sender");
    assert_eq!(sender.send(b"x"), Err(SendError::NoReceiver));
    let text = SendError::NoReceiver.to_string();
    assert!(text.contains("start one"), "{text}");
    let receiver = queue.receiver().expect("the first");
    sender.send(b"x").expect("there is one");
    drop(receiver);
    assert_eq!(sender.send(&[0; 10_000]), Err(SendError::NoReceiver));
    assert_eq!(sender.send_batch(&[*b"a", *b"b"]), Err(SendError::NoReceiver));
}

fn a_forked_childs_receiver_is_none(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    receiver.end_when_senders_gone(true);
    sender.send(b"for the parent").expect("room");
    for claims_first in [false, true] {
        Child::start(|| {
            // SAFETY: the original is forgotten with the child.
            let mut copy = unsafe { core::ptr::read(&raw const receiver) };
            // SAFETY: the original is forgotten with the child.
            let its_sender = unsafe { core::ptr::read(&raw const sender) };
            if claims_first {
                domain.process_token().expect("a token");
            }
            assert_eq!(copy.try_recv(), Err(RecvError::NotOwner));
            assert_eq!(copy.recv(), Err(RecvError::NotOwner));
            assert!(matches!(copy.try_peek(), Err(RecvError::NotOwner)));
            assert!(matches!(queue.receiver(), Err(Error::Taken { .. })));
            drop(copy);
            // A sender's copy sends; dropped, it is not the parent that leaves.
            its_sender.send(b"from the child").expect("the receiver lives");
            drop(its_sender);
        })
        .finish();
        let text = RecvError::NotOwner.to_string();
        assert!(text.contains("forked child"), "{text}");
    }
    assert_eq!(receiver.recv().expect("sent"), b"for the parent");
    for _ in 0..2 {
        assert_eq!(receiver.recv().expect("sent"), b"from the child");
    }
    assert_eq!(receiver.recv_timeout(Duration::from_millis(5)), Ok(None), "our sender is there");
}

fn a_dropped_receiver_leaves_in_order(world: &World) {
    let domain = world.domain();
    let queue = small().open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    drop(queue.receiver().expect("the first"));
    sender.send(b"waits for the next").expect("nobody died");
    assert!(queue.current_receiver().is_none());
    let mut next = queue.receiver().expect("free");
    assert_eq!(next.recv().expect("sent"), b"waits for the next");
}

fn many_come_at_once_and_one_gets_it(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    for round in 0..30 {
        if round % 2 == 1 {
            receiver(&queue, 0).kill();
        }
        let board = Board::new();
        let children: Vec<Child> = (0..6)
            .map(|_| {
                Child::start(|| {
                    let got = queue.receiver();
                    board.add(u8::from(got.is_ok()).into(), 1);
                    board.reach(2, 1);
                })
            })
            .collect();
        board.reach(0, 5);
        board.reach(1, 1);
        board.set(2, 1);
        children.into_iter().for_each(Child::finish);
    }
}

/// `inside` names a thread of the dead receiver, or so it says: here one that lives on.
fn one_that_does_not_end_keeps_nobody_for_ever(world: &World) {
    const INSIDE: u64 = BODY + 68;
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    sender.send(b"before").expect("room");
    let board = Board::new();
    let mut longer_lived = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    let mut child = receiver(&queue, 0);
    let bytes = Bytes::of(&domain, "q");
    assert_ne!(bytes.word(INSIDE), 0, "the layout has changed");
    child.kill();
    bytes.set_word(INSIDE, board.reach(0, 1) as u32);
    let error = queue.receiver().err().expect("a thread is inside");
    let path = domain.path().join("q");
    assert_eq!(
        error,
        Error::Ending { role: "receiver", path, pid: Some(longer_lived.pid() as u32) }
    );
    // Senders do not take a process that did not get in for a receiver.
    assert!(matches!(sender.send(b"nobody"), Err(SendError::ReceiverDied)));
    // Nor one that stands by until that thread has exited.
    let next = Child::start(|| {
        board.set(1, 1);
        let mut next = queue.wait_to_receive().expect("it has ended");
        assert_eq!(next.recv().expect("sent"), b"before");
    });
    board.reach(1, 1);
    let end = Instant::now() + Duration::from_millis(50);
    while Instant::now() < end {
        assert!(matches!(sender.send(b"nobody"), Err(SendError::ReceiverDied)));
        std::thread::sleep(Duration::from_micros(200));
    }
    longer_lived.kill();
    next.finish();
}
