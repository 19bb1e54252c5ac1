//! A queue that keeps messages while its receiver is dead: senders go on, wait for the next receiver
//! when it is full, and lose nothing.

use std::time::Duration;

use outlive::queue::{OnReceiverDeath, Queue, QueueOptions};
use outlive::{Error, RecvError, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    messages_are_kept_for_the_next_receiver,
    all_handles_agree,
    waiting_senders_wait_for_the_next_receiver,
    waiting_senders_wait_for_it_without_futex_waitv,
    senders_that_wait_for_memory_wait_for_it,
    a_death_while_they_wait_tells_nobody,
    a_stopped_receiver_that_comes_holds_up_a_full_queue_alone,
    beside_need_receiver,
    hundred_receivers_are_killed_and_senders_never_notice: 120,
);

/// A queue that keeps, and is soon full.
fn small() -> QueueOptions {
    keeping().max_bytes(1 << 20)
}

fn keeping() -> QueueOptions {
    Queue::<[u8]>::options().on_receiver_death(OnReceiverDeath::Keep)
}

/// A child that becomes the receiver and does nothing until it is killed.
fn receiver(queue: &Queue) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _receiver = queue.receiver().expect("none lives");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

fn messages_are_kept_for_the_next_receiver(world: &World) {
    let domain = world.domain();
    let queue = keeping().open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut number = 0;
    for round in 0..3 {
        receiver(&queue).kill();
        if round == 1 {
            assert!(domain.sweep(false).expect("sweeps").claims > 0);
        }
        assert!(round == 1 || queue.current_receiver().is_some_and(|receiver| !receiver.alive));
        for len in [50, 1_000, 300_000] {
            let next = || message(0, number, len);
            sender.send(&next()).expect("kept");
            number += 1;
            let next = || message(0, number, len);
            sender.try_send(&next()).expect("kept");
            number += 1;
            let next = || message(0, number, len);
            sender.send_timeout(&next(), Duration::ZERO).expect("kept");
            number += 1;
            let (one, other) = (message(0, number, len), message(0, number + 1, len));
            sender.send_batch(&[&one[..], &other]).expect("kept");
            number += 2;
        }
    }
    let mut last = queue.receiver().expect("none lives");
    for number in 0..number {
        assert_eq!(read_message(&last.recv().expect("kept")), (0, number));
    }
    assert_eq!(last.try_recv(), Ok(None));
}

fn all_handles_agree(world: &World) {
    let domain = world.domain();
    let made = keeping().create_new(&domain, "keeps").expect("new");
    assert_eq!(made.config().on_receiver_death, OnReceiverDeath::Keep);
    // An option that is not set takes what is there.
    let opened = Queue::<[u8]>::open_or_create(&domain, "keeps").expect("there");
    assert_eq!(opened.config(), made.config());
    receiver(&opened).kill();
    opened.sender().expect("a sender").send(b"kept").expect("kept");
    Queue::<[u8]>::open_or_create(&domain, "fails").expect("made");
    for (name, other, found) in
        [("keeps", OnReceiverDeath::Fail, "keep"), ("fails", OnReceiverDeath::Keep, "fail")]
    {
        let options = || Queue::<[u8]>::options().on_receiver_death(other);
        for error in [options().open(&domain, name), options().open_or_create(&domain, name)] {
            let error = error.err().expect("another option");
            let text = error.to_string();
            assert!(matches!(error, Error::OtherOptions { .. }), "{text}");
            assert!(text.contains("on_receiver_death") && text.contains(found), "{text}");
        }
    }
}

/// Senders that wait for room when the receiver is dead: the next receiver frees them all.
fn wait_for_the_next(world: &World, len: usize, dies_later: bool, prepare: fn()) {
    const SENDERS: u64 = 6;
    let domain = world.domain();
    for round in 0..5 {
        let queue = small().open_or_create(&domain, &format!("q{round}")).expect("made");
        let mut old = receiver(&queue);
        if !dies_later {
            old.kill();
        }
        let sender = queue.sender().expect("a sender");
        let mut filled = 0;
        while sender.try_send(&message(0, filled, len)).is_ok() {
            filled += 1;
        }
        let full = sender.try_send(&message(0, filled, len));
        assert_eq!(full, Err(SendError::Full { slowest: None }));
        let late = sender.send_timeout(&message(0, filled, len), Duration::from_millis(5));
        assert_eq!(late, Err(SendError::TimedOut { slowest: None }));
        let mut senders: Vec<Child> = (1..=SENDERS)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    prepare();
                    let sender = queue.sender().expect("a sender");
                    sender.send(&message(who, 0, len)).expect("the next receiver comes");
                })
            })
            .collect();
        senders.iter().for_each(|sender| wait_asleep(sender.pid()));
        if dies_later {
            old.kill();
            // They have seen the death, and sleep on.
            senders.iter().for_each(|sender| wait_asleep(sender.pid()));
        }
        // Two receivers come and die before they receive: no sender goes on or is told.
        for _ in 0..2 {
            receiver(&queue).kill();
        }
        assert!(senders.iter_mut().all(|sender| !sender.has_ended()), "there is no room yet");
        let mut next = queue.receiver().expect("none lives");
        for number in 0..filled {
            assert_eq!(read_message(&next.recv().expect("kept")), (0, number));
        }
        let mut others: Vec<u64> =
            (0..SENDERS).map(|_| read_message(&next.recv().expect("sent")).0).collect();
        others.sort_unstable();
        assert_eq!(others, (1..=SENDERS).collect::<Vec<_>>());
        senders.into_iter().for_each(Child::finish);
    }
}

fn waiting_senders_wait_for_the_next_receiver(world: &World) {
    wait_for_the_next(world, 64, false, || {});
}

fn waiting_senders_wait_for_it_without_futex_waitv(world: &World) {
    wait_for_the_next(world, 64, true, outlive::abilities::pretend_no_futex_waitv);
}

fn senders_that_wait_for_memory_wait_for_it(world: &World) {
    wait_for_the_next(world, 10_000, false, || {});
}

fn a_death_while_they_wait_tells_nobody(world: &World) {
    wait_for_the_next(world, 64, true, || {});
}

/// It has the role and does not receive: the sender waits for it, as for any stopped receiver, and
/// goes on when the receiver does.
fn a_stopped_receiver_that_comes_holds_up_a_full_queue_alone(world: &World) {
    let domain = world.domain();
    let queue = small().open_or_create(&domain, "q").expect("made");
    receiver(&queue).kill();
    let sender = queue.sender().expect("a sender");
    let mut filled = 0;
    while sender.try_send(&message(0, filled, 64)).is_ok() {
        filled += 1;
    }
    let mut waiting = Child::start(|| {
        queue.sender().expect("a sender").send(&message(1, 0, 64)).expect("there is room");
    });
    wait_asleep(waiting.pid());
    let board = Board::new();
    let mut next = Child::start(|| {
        let mut receiver = queue.receiver().expect("none lives");
        board.set(0, 1);
        board.reach(1, 1);
        for number in 0..filled {
            assert_eq!(read_message(&receiver.recv().expect("kept")), (0, number));
        }
        // There is room when the last of the queue's regions has some.
        assert_eq!(read_message(&receiver.recv().expect("sent")), (1, 0));
        board.set(0, 2);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    next.stop();
    // The sender has heard that it came, and has looked in vain.
    wait_asleep(waiting.pid());
    assert!(!waiting.has_ended());
    next.go_on();
    board.set(1, 1);
    board.reach(0, 2);
    waiting.finish();
    next.kill();
}

/// The one option is about a receiver that died, the other about none at all.
fn beside_need_receiver(world: &World) {
    let domain = world.domain();
    let queue = keeping().need_receiver(true).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    assert_eq!(sender.send(b"nobody yet"), Err(SendError::NoReceiver));
    receiver(&queue).kill();
    sender.send(b"kept").expect("it died, another will come");
    let mut next = queue.receiver().expect("none lives");
    assert_eq!(next.recv(), Ok(b"kept".to_vec()));
    drop(next);
    assert_eq!(sender.send(b"it left"), Err(SendError::NoReceiver));
}

/// Messages of each sender.
const MOST: u64 = 20_000;

fn hundred_receivers_are_killed_and_senders_never_notice(world: &World) {
    const SENDERS: u64 = 3;
    let domain = world.domain();
    let queue = small().slots(4).open_or_create(&domain, "q").expect("made");
    let board = Board::new();
    let senders: Vec<Child> = (0..SENDERS)
        .map(|who| {
            let queue = &queue;
            Child::start(move || {
                let sender = queue.sender().expect("a sender");
                for number in 0..MOST {
                    let len = if number.is_multiple_of(7) { 2_000 } else { 50 };
                    sender.send(&message(who, number, len)).expect("no death is an error here");
                }
            })
        })
        .collect();
    let queue = &queue;
    // By sender: how many came, in order; a message that a dead receiver had in hand comes again.
    let start_receiver = |is_last| {
        Child::start(move || {
            let mut receiver = queue.receiver().expect("none lives");
            receiver.end_when_senders_gone(is_last);
            loop {
                let peeked = match receiver.peek() {
                    Err(RecvError::Closed) => break,
                    peeked => peeked.expect("sent"),
                };
                let (who, number) = read_message(&peeked);
                let seen = board.get(who as usize);
                let again = peeked.redelivered() && number + 1 == seen;
                assert!(again || number == seen, "sender {who}: {number} after {seen}");
                board.set(who as usize, number + 1);
                peeked.commit();
            }
        })
    };
    let mut random = Random::new();
    for _ in 0..100 {
        let mut receiver = start_receiver(false);
        random.pause(1_000);
        receiver.kill();
        // For a while there is none, and the queue is full at the end of it now and then.
        random.pause(1_000);
    }
    let last = start_receiver(true);
    senders.into_iter().for_each(Child::finish);
    wait_until("all is received", || queue.counters().expect("counts").pending == 0);
    last.finish();
    assert!((0..SENDERS).all(|who| board.get(who as usize) == MOST));
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}
