//! Looks at a queue while a process comes, sends or receives: what they say was true at some moment.
//!
//! A queue's first sender, at each instruction of its coming: the receiver, which is told when all
//! senders have gone, is not told so of one that is about to come. `join`, which waits until no
//! message is left, beside a receiver that stands still and beside messages that come meanwhile.

use std::mem::forget;

use outlive::WaitError;
use outlive::queue::{OnReceiverDeath, Queue, Receiver, Sender, Tasks};

use crate::board::Board;
use crate::runner::World;
use crate::steps::{FREE, Stepped, in_rounds};

crate::checks!(
    the_first_sender_has_not_gone_before_it_has_come: 120,
    what_is_behind_a_receiver_that_stands_still_is_unread: 120,
    what_comes_while_a_waiter_looks_is_left: 240,
);

const LATE: Result<(), WaitError> = Err(WaitError::TimedOut);

fn the_first_sender_has_not_gone_before_it_has_come(world: &World) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::open_or_create(&domain, "queue").expect("made");
    let mut receiver = queue.receiver().expect("none yet");
    receiver.end_when_senders_gone(true);
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        // What a process does once, it does before.
        domain.process_token().expect("a token");
        in_rounds(board, |_| forget(queue.sender().expect("a sender")), |_| {});
    });
    loop {
        let is_over = stepped.step(1);
        assert!(receiver.try_recv().expect("none has gone").is_none());
        if is_over {
            break;
        }
    }
    stepped.child.kill();
    assert!(receiver.recv_timeout(crate::child::PATIENCE).is_err(), "it has come and gone");
}

/// The receiver has given its slot back and has not moved the head. It stays so, or is killed.
fn what_is_behind_a_receiver_that_stands_still_is_unread(world: &World) {
    let domain = world.domain();
    for (bound, is_killed) in [(1, false), (1, true), (3, false), (3, true)] {
        let name = format!("q{bound}{is_killed}");
        let options = Queue::<[u8]>::options().max_messages(bound);
        let options = options.on_receiver_death(OnReceiverDeath::Keep);
        let queue = options.open_or_create(&domain, &name).expect("made");
        let sender = queue.sender().expect("a sender");
        (0..bound).for_each(|_| sender.try_send(b"first").expect("room"));
        let board = Board::new();
        let mut stepped = Stepped::start(world, board, || {
            let mut receiver = queue.receiver().expect("none yet");
            (1..bound).for_each(|_| assert!(receiver.try_recv().expect("readable").is_some()));
            (1..bound).for_each(|_| queue.sender().expect("one").try_send(b"next").expect("room"));
            in_rounds(board, |_| forget(receiver.try_recv()), |_| {});
        });
        // Up to just before it moves the head.
        while queue.is_full().expect("whole") {
            assert!(!stepped.step(1), "it gives the slot back first");
        }
        assert_eq!(queue.counters().expect("counts").pending, u64::from(bound - 1));
        sender.try_send(b"last").expect("the slot was given back");
        if is_killed {
            stepped.child.kill();
        }
        assert!(queue.is_full().expect("whole"));
        assert_eq!(queue.try_join(), LATE);
        let counters = queue.counters().expect("counts");
        assert_eq!(counters.pending, u64::from(bound), "{bound}, {is_killed}");
        if !is_killed {
            while !stepped.step(100) {}
            let later = queue.counters().expect("counts");
            assert_eq!((later.pending, later.sent), (counters.pending, counters.sent));
            stepped.child.kill();
        }
        let mut receiver = queue.receiver().expect("the child has ended");
        (1..bound).for_each(|_| assert_eq!(receiver.recv().expect("sent"), b"next"));
        assert_eq!(receiver.try_recv().expect("readable").as_deref(), Some(&b"last"[..]));
        queue.try_join().expect("none is left");
    }
}

/// What another process does while the waiter looks. Some message is unread or being done all the
/// time.
struct Worker {
    sender: Sender,
    receiver: Receiver,
    tasks: Tasks,
}

impl Worker {
    fn send(&self) {
        self.sender.try_send(b"task").expect("room");
    }

    fn take(&mut self) {
        assert!(self.tasks.try_recv(&mut self.receiver).expect("readable").is_some());
    }

    fn done(&self) {
        assert!(self.tasks.done());
    }

    /// One is being done: it sends another.
    fn hand_on(&self) {
        self.send();
        self.done();
    }

    /// One is unread: as many more come as there are slots, and the queue is never empty.
    fn go_round(&mut self) {
        for _ in 0..2 {
            self.send();
            self.take();
            self.done();
        }
    }
}

fn what_comes_while_a_waiter_looks_is_left(world: &World) {
    let domain = world.domain();
    for name in ["hand on", "go round"] {
        let queue =
            Queue::<[u8]>::options().max_messages(2).open_or_create(&domain, name).expect("made");
        let mut worker = Worker {
            sender: queue.sender().expect("one"),
            receiver: queue.receiver().expect("one"),
            tasks: queue.tasks().expect("room"),
        };
        let board = Board::new();
        let mut stepped = Stepped::start(world, board, || {
            domain.process_token().expect("a token");
            in_rounds(board, |_| board.set(FREE, u64::from(queue.try_join() == LATE)), |_| {});
        });
        worker.send();
        if name == "hand on" {
            worker.take();
        }
        for at in (1..).step_by(29) {
            let is_over = stepped.step(at);
            match name {
                "hand on" => worker.hand_on(),
                _ => worker.go_round(),
            }
            while !stepped.step(1_000) {}
            assert_eq!(board.get(FREE), 1, "{name}, after {at} instructions");
            if is_over {
                break;
            }
            if name == "hand on" {
                worker.take();
            }
            stepped.go_on();
        }
        stepped.child.kill();
    }
}
