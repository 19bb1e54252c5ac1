//! A queue that is bounded by messages: it holds so many and not one more, whichever process dies,
//! and tells senders and receivers what a queue that is bounded by bytes tells them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use outlive::queue::{OnReceiverDeath, Queue, QueueOptions};
use outlive::{Error, SendError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    it_holds_so_many_and_not_one_more: 60,
    its_options_agree_or_are_refused,
    bytes_bound_it_too,
    fewer_bytes_than_its_slots_would_take,
    a_limit_without_its_seal_is_damage,
    a_batch_counts_once,
    a_waiting_sender_gets_the_next_place,
    the_receivers_death_is_told_or_waited_for,
    never_one_too_many_beside_killed_senders: 60,
    never_one_too_many_beside_killed_receivers: 60,
);

fn bounded(messages: u32) -> QueueOptions {
    Queue::<[u8]>::options().max_messages(messages)
}

/// Where the first region's limit lies in a queue's file.
const LIMIT_AT: u64 = 12_288 + 384;

const FULL: Result<(), SendError> = Err(SendError::Full { slowest: None });

/// Laps of rings of odd sizes, and of one that grows in steps until it has so many slots.
fn it_holds_so_many_and_not_one_more(world: &World) {
    let domain = world.domain();
    for bound in [1, 2, 3, 4, 5, 7, 64, 100, 20_000] {
        let name = format!("q{bound}");
        let queue = bounded(bound).open_or_create(&domain, &name).expect("made");
        let sender = queue.sender().expect("a sender");
        let mut receiver = queue.receiver().expect("the first");
        let bound = u64::from(bound);
        let (mut sent, mut received) = (0, 0);
        for round in 0..5 {
            while sent < received + bound {
                assert!(!queue.is_full().expect("whole"), "{bound}: {}", sent - received);
                sender.try_send(&message(0, sent, 24)).expect("room");
                sent += 1;
            }
            assert!(queue.is_full().expect("whole"), "{bound}");
            assert_eq!(sender.try_send(&message(0, sent, 24)), FULL, "{bound}");
            let soon = Duration::from_millis(1);
            let late = sender.send_timeout(&message(0, sent, 24), soon);
            assert_eq!(late, Err(SendError::TimedOut { slowest: None }), "{bound}");
            let counters = queue.counters().expect("counts");
            assert_eq!((counters.sent, counters.pending), (sent, bound));
            // A message that is looked at and not committed is unread.
            let peeked = receiver.try_peek().expect("readable").expect("sent");
            assert_eq!(read_message(&peeked), (0, received));
            assert_eq!(sender.try_send(&message(0, sent, 24)), FULL, "{bound}");
            peeked.commit();
            received += 1;
            // Some of them, so that a lap ends at another slot each time.
            for _ in 0..(bound * round / 5).min(bound - 1) {
                let next = receiver.try_recv().expect("readable").expect("sent");
                assert_eq!(read_message(&next), (0, received));
                received += 1;
            }
        }
        while let Some(next) = receiver.try_recv().expect("readable") {
            assert_eq!(read_message(&next), (0, received));
            received += 1;
        }
        assert_eq!(received, sent);
        // Long messages are counted as short ones are.
        let long = [5_000, 50_000][usize::from(bound < 10)];
        for number in 0..bound.min(100) {
            sender.try_send(&message(1, number, long)).expect("room");
        }
        if bound <= 100 {
            assert_eq!(sender.try_send(&message(1, bound, long)), FULL);
        }
        let counters = queue.counters().expect("counts");
        assert_eq!(counters.grown, u64::from(bound > 100), "{counters:?}");
        domain.remove(&name).expect("removed");
    }
}

fn its_options_agree_or_are_refused(world: &World) {
    let domain = world.domain();
    let made = bounded(3).create_new(&domain, "q").expect("new");
    assert_eq!((made.config().max_messages, made.config().slots), (Some(3), 3));
    assert_eq!(made.counters().expect("counts").places, Some(3));
    // An option that is not set takes what is there.
    let opened = Queue::<[u8]>::open_or_create(&domain, "q").expect("there");
    assert_eq!(opened.config(), made.config());
    bounded(3).open(&domain, "q").expect("the same");
    let plain = Queue::<[u8]>::open_or_create(&domain, "plain").expect("made");
    assert_eq!(plain.config().max_messages, None);
    assert_eq!(plain.counters().expect("counts").places, None);
    for (name, other, found) in [("q", 4, "3"), ("plain", 4, "0")] {
        for error in
            [bounded(other).open(&domain, name), bounded(other).open_or_create(&domain, name)]
        {
            let error = error.err().expect("another option");
            let text = error.to_string();
            assert!(matches!(error, Error::OtherOptions { .. }), "{text}");
            assert!(text.contains("max_messages") && text.contains(found), "{text}");
        }
    }
    for beyond in [bounded(0), bounded((1 << 20) + 1), bounded(8).slots(8)] {
        let error = beyond.open_or_create(&domain, "beyond").err().expect("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    }
    assert!(matches!(Queue::<[u8]>::open(&domain, "beyond"), Err(Error::NotFound { .. })));
    let most = bounded(1 << 20).slot_bytes(4096).open_or_create(&domain, "most").expect("made");
    assert_eq!(most.config().max_messages, Some(1 << 20));
    assert!(most.counters().expect("counts").bytes < 3 << 20, "it grows as it is used");
}

fn bytes_bound_it_too(world: &World) {
    let domain = world.domain();
    let options = bounded(1 << 20).max_bytes(8 << 20);
    let queue = options.open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    let mut sent = 0;
    while sender.try_send(&message(0, sent, 60)).is_ok() {
        sent += 1;
    }
    assert!((16_384..1 << 20).contains(&sent), "{sent}");
    assert!(queue.is_full().expect("whole"));
    // What there is has become the ring.
    for number in 0..sent {
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
        sender.try_send(&message(0, sent + number, 60)).expect("room");
        assert_eq!(sender.try_send(&message(0, 0, 60)), FULL);
    }
    assert!(queue.counters().expect("counts").bytes <= 8 << 20);
}

fn fewer_bytes_than_its_slots_would_take(world: &World) {
    let domain = world.domain();
    for (number, bytes) in [64 << 10, 256 << 10, 1 << 20, 3 << 20].into_iter().enumerate() {
        let name = format!("q{number}");
        let options = || bounded(20_000).max_bytes(bytes);
        let queue = options().open_or_create(&domain, &name).expect("made");
        assert_eq!(options().open(&domain, &name).expect("the same").config(), queue.config());
        let in_use = || queue.counters().expect("counts").bytes;
        assert!(queue.counters().expect("counts").places <= Some(20_000));
        assert!(in_use() <= bytes / 4 * 3, "{} of {bytes}", in_use());
        let (sender, mut receiver) = (queue.sender().expect("one"), queue.receiver().expect("one"));
        for round in 0..3 {
            let mut sent = 0;
            while sender.try_send(&message(round, sent, 60)).is_ok() {
                sent += 1;
            }
            assert!((100..20_000).contains(&sent), "{sent} in {bytes}");
            assert!(queue.is_full().expect("whole"));
            assert_eq!(queue.counters().expect("counts").places, Some(sent));
            (0..sent).for_each(|number| {
                assert_eq!(read_message(&receiver.recv().expect("sent")), (round, number));
            });
            // A quarter is for messages too large for a slot.
            if bytes >= 256 << 10 {
                sender.try_send(&message(round, 0, 5_000)).expect("room");
                assert_eq!(read_message(&receiver.recv().expect("sent")), (round, 0));
            }
        }
        assert!(in_use() <= bytes, "{} of {bytes}", in_use());
    }
}

/// A process that does not keep to the protocol clears the bit that says that the ring is whole.
fn a_limit_without_its_seal_is_damage(world: &World) {
    let domain = world.domain();
    for bound in [1, 3, 4, 20_000] {
        let name = format!("q{bound}");
        let queue = bounded(bound).open_or_create(&domain, &name).expect("made");
        let sender = queue.sender().expect("a sender");
        (0..bound).for_each(|_| sender.try_send(b"m").expect("room"));
        let file = File::options().read(true).write(true).open(domain.path().join(&name));
        let file = file.expect("there");
        let mut word = [0; 8];
        file.read_exact_at(&mut word, LIMIT_AT).expect("there");
        assert_eq!(u64::from_ne_bytes(word), u64::from(bound) | 1 << 63, "its limit");
        file.write_all_at(&u64::from(bound).to_ne_bytes(), LIMIT_AT).expect("written");
        let late = queue.sender().map(|sender| sender.try_send(b"m"));
        assert!(matches!(late, Err(Error::Damaged { .. })), "{bound}: {late:?}");
        assert!(matches!(queue.is_full(), Err(Error::Damaged { .. })));
        // One that came before has the limit as it was.
        assert_eq!(sender.try_send(b"m"), FULL);
    }
}

fn a_batch_counts_once(world: &World) {
    let domain = world.domain();
    let queue = bounded(2).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    sender.send_batch(&[b"a".as_slice(), b"b", b"c"]).expect("room");
    sender.send(b"d").expect("room");
    assert_eq!(sender.try_send(b"e"), FULL);
    for expected in [b"a", b"b"] {
        assert_eq!(receiver.recv().expect("sent"), expected);
        assert_eq!(sender.try_send(b"e"), FULL, "the batch's slot is not free yet");
    }
    assert_eq!(receiver.recv().expect("sent"), b"c");
    sender.try_send(b"e").expect("room");
}

fn a_waiting_sender_gets_the_next_place(world: &World) {
    let domain = world.domain();
    for wait in [WaitStrategy::Block, WaitStrategy::Adaptive] {
        let name = format!("{wait:?}").to_lowercase();
        let queue = bounded(3).wait_strategy(wait).open_or_create(&domain, &name).expect("made");
        let sender = queue.sender().expect("a sender");
        let mut receiver = queue.receiver().expect("the first");
        for number in 0..3 {
            sender.send(&message(0, number, 40)).expect("room");
        }
        for number in 3..40 {
            let waiting = Child::start(|| {
                let sender = queue.sender().expect("a sender");
                sender.send(&message(0, number, 40)).expect("room in the end");
            });
            wait_asleep(waiting.pid());
            let next = receiver.recv_timeout(PATIENCE).expect("readable").expect("sent");
            assert_eq!(read_message(&next), (0, number - 3));
            waiting.finish();
            assert!(queue.is_full().expect("whole"));
        }
    }
}

fn the_receivers_death_is_told_or_waited_for(world: &World) {
    let domain = world.domain();
    for death in [OnReceiverDeath::Fail, OnReceiverDeath::Keep] {
        let keeps = death == OnReceiverDeath::Keep;
        let name = if keeps { "keep" } else { "fail" };
        let queue =
            bounded(2).on_receiver_death(death).open_or_create(&domain, name).expect("made");
        let board = Board::new();
        let mut receiver = Child::start(|| {
            let _receiver = queue.receiver().expect("none lives");
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        let sender = queue.sender().expect("a sender");
        for number in 0..2 {
            sender.send(&message(0, number, 40)).expect("room");
        }
        let mut waiting = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            let sent = sender.send(&message(0, 2, 40));
            assert_eq!(sent, if keeps { Ok(()) } else { Err(SendError::ReceiverDied) });
        });
        wait_asleep(waiting.pid());
        receiver.kill();
        if keeps {
            wait_asleep(waiting.pid());
            assert!(!waiting.has_ended(), "there is no room yet");
            assert_eq!(sender.try_send(&message(0, 3, 40)), FULL);
        }
        if !keeps {
            wait_until("the waiting sender is told", || waiting.has_ended());
        }
        let mut heir = queue.receiver().expect("none lives");
        for number in 0..if keeps { 3 } else { 2 } {
            let next = heir.recv_timeout(PATIENCE).expect("readable").expect("sent");
            assert_eq!(read_message(&next), (0, number));
        }
        assert_eq!(heir.try_recv(), Ok(None));
        waiting.finish();
    }
}

/// Senders are killed at random, also with a slot claimed: the places that they leave are the
/// bound's again as soon as the receiver has got past them.
fn never_one_too_many_beside_killed_senders(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for (round, bound) in [1_u32, 2, 3, 5, 8].into_iter().cycle().take(60).enumerate() {
        let name = format!("q{round}");
        let queue = bounded(bound).open_or_create(&domain, &name).expect("made");
        let mut receiver = queue.receiver().expect("the first");
        let board = Board::new();
        let mut senders: Vec<Child> = (0..3)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    for number in 0.. {
                        let len = if number % 8 == 0 { 3_000 } else { 40 };
                        sender.send(&message(who, number, len)).expect("room in the end");
                        board.set(who as usize, number + 1);
                    }
                })
            })
            .collect();
        let mut next = [0; 3];
        let mut killed = 0;
        let mut receive = |killed: usize| {
            let pending = queue.counters().expect("counts").pending;
            assert!(pending <= u64::from(bound), "{pending} messages, and {bound} are the most");
            let until = if killed == 3 { Duration::ZERO } else { Duration::from_millis(1) };
            let Some(bytes) = receiver.recv_timeout(until).expect("readable") else { return false };
            let (who, number) = read_message(&bytes);
            assert_eq!(number, next[who as usize], "of sender {who}");
            next[who as usize] += 1;
            true
        };
        while killed < 3 {
            for _ in 0..random.below(40) {
                receive(killed);
            }
            senders[killed].kill();
            killed += 1;
        }
        while receive(killed) {}
        for (who, received) in next.into_iter().enumerate() {
            let acknowledged = board.get(who);
            assert!((acknowledged..=acknowledged + 1).contains(&received), "sender {who}");
        }
        let sender = queue.sender().expect("a sender");
        for number in 0..u64::from(bound) {
            sender.try_send(&message(3, number, 40)).expect("the whole bound is there again");
        }
        assert_eq!(sender.try_send(&message(3, 0, 40)), FULL);
        domain.remove(&name).expect("removed");
    }
}

/// Receivers are killed at random while senders wait for places.
fn never_one_too_many_beside_killed_receivers(world: &World) {
    const COUNT: u64 = 2_000;
    let domain = world.domain();
    let mut random = Random::new();
    for bound in [1, 3, 4] {
        let options = bounded(bound).on_receiver_death(OnReceiverDeath::Keep);
        let name = format!("q{bound}");
        let queue = options.open_or_create(&domain, &name).expect("made");
        let board = Board::new();
        let senders: Vec<Child> = (0..2)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    for number in 0..COUNT {
                        sender.send(&message(who, number, 40)).expect("kept");
                    }
                })
            })
            .collect();
        let receive = || {
            let mut receiver = queue.receiver().expect("none lives");
            loop {
                let peeked = receiver.peek().expect("readable");
                let (who, number) = read_message(&peeked);
                let next = board.get(who as usize);
                // By peek it may come again, and is never skipped.
                assert!(number == next || number + 1 == next, "{number} of {who}, after {next}");
                board.set(who as usize, number + 1);
                peeked.commit();
                let pending = queue.counters().expect("counts").pending;
                assert!(pending <= u64::from(bound), "{pending} messages of {bound}");
            }
        };
        let all = || board.get(0) == COUNT && board.get(1) == COUNT;
        while !all() {
            let mut receiver = Child::start(receive);
            random.pause(3_000);
            assert!(!receiver.has_ended(), "it found what must not be");
            receiver.kill();
        }
        senders.into_iter().for_each(Child::finish);
        let mut last = queue.receiver().expect("none lives");
        wait_until("the rest is empty", || last.try_recv().expect("readable").is_none());
        let sender = queue.sender().expect("a sender");
        for number in 0..u64::from(bound) {
            sender.try_send(&message(3, number, 40)).expect("the whole bound is there again");
        }
        assert_eq!(sender.try_send(&message(3, 0, 40)), FULL);
    }
}
