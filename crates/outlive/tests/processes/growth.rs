//! The queue grows from a few KiB to its largest, says so, and is full there: without harm and
//! without end.

use std::time::Duration;

use outlive::queue::{OnReceiverDeath, Queue, QueueOptions, Sender};
use outlive::{Error, SendError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::runner::World;

crate::checks!(
    from_a_few_kib_to_the_largest,
    options_are_rounded_and_their_ranges_kept,
    options_that_contradict_are_refused,
    full_and_then_space,
    full_of_large_messages_and_then_space,
    several_grow_it_at_once: 60,
    waiting_senders_all_get_on: 60,
    growing_senders_are_killed: 90,
    a_sweep_gives_back_what_no_message_has,
);

fn from_a_few_kib_to_the_largest(world: &World) {
    const MOST: u64 = 64 << 20;
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(MOST).open_or_create(&domain, "q").expect("made");
    let at_first = queue.counters().expect("counts");
    assert!(at_first.bytes < 64 << 10, "{at_first:?}");
    assert_eq!((at_first.grown, at_first.max_bytes), (0, MOST));
    let sender = queue.sender().expect("a sender");
    let mut sent = 0;
    let mut grown = 0;
    while sender.try_send(&message(0, sent, 100)).is_ok() {
        sent += 1;
        if sent.is_power_of_two() {
            let now = queue.counters().expect("counts");
            assert!(now.grown >= grown && now.bytes <= MOST, "{now:?}");
            grown = now.grown;
        }
    }
    let full = queue.counters().expect("counts");
    assert!(full.bytes > MOST / 2 && full.bytes <= MOST, "{full:?}");
    assert!(full.grown > 10, "{full:?}");
    assert_eq!((full.sent, full.pending), (sent, sent));
    let entry = domain.entry("q").expect("there");
    assert!(entry.bytes <= MOST + (1 << 20), "{} bytes in the file system", entry.bytes);
    let mut receiver = queue.receiver().expect("the first");
    for number in 0..sent {
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
    }
    let after = queue.counters().expect("counts");
    assert_eq!((after.received, after.pending), (sent, 0));
    assert!(after.high_water > sent / 4 && after.high_water <= sent, "{after:?}");
    // Once more round, in the largest region alone.
    for number in 0..sent / 2 {
        sender.try_send(&message(0, number, 100)).expect("room");
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
    }
    assert_eq!(queue.counters().expect("counts").bytes, full.bytes, "no more is needed");
}

fn options_are_rounded_and_their_ranges_kept(world: &World) {
    let domain = world.domain();
    let odd = || Queue::<[u8]>::options().max_bytes(64 << 10).slots(1).slot_bytes(65);
    let queue = odd().open_or_create(&domain, "odd").expect("made");
    let config = queue.config();
    assert_eq!((config.max_bytes, config.slots, config.slot_bytes), (64 << 10, 4, 128));
    // What is rounded to the same agrees.
    odd().slot_bytes(128).slots(3).open(&domain, "odd").expect("the same");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    for _ in 0..3 {
        let mut sent = 0;
        while sender.try_send(&message(0, sent, 100)).is_ok() {
            sent += 1;
        }
        assert!(sent >= 4, "{sent}");
        for number in 0..sent {
            assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
        }
    }
    assert!(queue.counters().expect("counts").bytes <= 64 << 10);
    let most = Queue::<[u8]>::options().max_bytes(6 << 30).slots(65_536).slot_bytes(4096);
    most.open_or_create(&domain, "most").expect("made");
    let new = Queue::<[u8]>::options;
    for beyond in [
        new().max_bytes((64 << 10) - 1),
        new().max_bytes((6 << 30) + 1),
        new().slots(0),
        new().slots(65_537),
        new().slot_bytes(0),
        new().slot_bytes(4097),
    ] {
        let error = beyond.open_or_create(&domain, "beyond").err().expect("out of range");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    }
    assert!(matches!(Queue::<[u8]>::open(&domain, "beyond"), Err(Error::NotFound { .. })));
}

fn options_that_contradict_are_refused(world: &World) {
    let domain = world.domain();
    let made = Queue::<[u8]>::options().max_bytes(1 << 20).create_new(&domain, "q").expect("new");
    assert!(matches!(
        Queue::<[u8]>::options().create_new(&domain, "q"),
        Err(Error::AlreadyExists { .. })
    ));
    let new = Queue::<[u8]>::options;
    for (other, what, found) in [
        (new().max_bytes(2 << 20), "max_bytes", "1048576"),
        (new().slots(128), "slots", "64"),
        (new().slot_bytes(256), "slot_bytes", "128"),
        (new().need_receiver(true), "need_receiver", "false"),
        (new().on_receiver_death(OnReceiverDeath::Keep), "on_receiver_death", "fail"),
    ] {
        let error = other.open_or_create(&domain, "q").err().expect("another option");
        let text = error.to_string();
        assert!(matches!(error, Error::OtherOptions { .. }), "{text}");
        assert!(text.contains(what) && text.contains(found), "{text}");
    }
    // What is not set is as it is; how the handles wait is each process's own.
    let opened =
        new().wait_strategy(outlive::WaitStrategy::Spin).open(&domain, "q").expect("there");
    assert_eq!(opened.config(), made.config());
}

/// A queue that is soon full.
fn small() -> QueueOptions {
    Queue::<[u8]>::options().max_bytes(1 << 20)
}

/// Sends until it is full, from the number `sent` on; the number to go on with.
fn fill(sender: &Sender, mut sent: u64, len: usize) -> u64 {
    while sender.try_send(&message(0, sent, len)).is_ok() {
        sent += 1;
    }
    assert_eq!(sender.try_send(&message(0, sent, len)), Err(SendError::Full { slowest: None }));
    let soon = Duration::from_millis(1);
    assert_eq!(
        sender.send_timeout(&message(0, sent, len), soon),
        Err(SendError::TimedOut { slowest: None })
    );
    sent
}

fn full_then_space(world: &World, len: usize) {
    let domain = world.domain();
    let queue = small().open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the first");
    let (mut next, mut sent) = (0, 0);
    for round in 0..60 {
        sent = fill(&sender, sent, len);
        let number = sent;
        let waiting = Child::start(|| {
            let sender = queue.sender().expect("a sender");
            sender.send(&message(0, number, len)).expect("room in the end");
        });
        wait_asleep(waiting.pid());
        // In small regions that are full and closed, room does not help: it comes when the last one
        // is reached.
        let enough = if round == 0 { sent } else { next + 1 };
        while next < enough {
            assert_eq!(
                read_message(&receiver.recv_timeout(PATIENCE).expect("readable").expect("sent")),
                (0, next)
            );
            next += 1;
        }
        waiting.finish();
        sent += 1;
    }
    for number in next..sent {
        assert_eq!(read_message(&receiver.recv().expect("sent")), (0, number));
    }
    let counters = queue.counters().expect("counts");
    assert_eq!((counters.sent, counters.pending), (sent, 0));
}

fn full_and_then_space(world: &World) {
    full_then_space(world, 60);
}

fn full_of_large_messages_and_then_space(world: &World) {
    full_then_space(world, 9_000);
}

fn several_grow_it_at_once(world: &World) {
    const COUNT: u64 = 40_000;
    let domain = world.domain();
    for round in 0..5 {
        let options = Queue::<[u8]>::options().max_bytes(64 << 20).slots(4);
        let queue = options.open_or_create(&domain, &format!("q{round}")).expect("made");
        let senders: Vec<Child> = (0..4)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    for number in 0..COUNT {
                        sender.try_send(&message(who, number, 40)).expect("room");
                    }
                })
            })
            .collect();
        senders.into_iter().for_each(Child::finish);
        let mut receiver = queue.receiver().expect("the first");
        let mut next = [0; 4];
        for _ in 0..4 * COUNT {
            let (who, number) =
                read_message(&receiver.try_recv().expect("readable").expect("sent"));
            assert_eq!(number, next[who as usize]);
            next[who as usize] += 1;
        }
        assert_eq!(next, [COUNT; 4]);
        domain.remove(&format!("q{round}")).expect("removed");
    }
}

/// A full queue with many senders asleep and a receiver that sleeps whenever it is empty.
fn waiting_senders_all_get_on(world: &World) {
    const COUNT: u64 = 3_000;
    let domain = world.domain();
    for len in [40, 2_000] {
        let options = Queue::<[u8]>::options().max_bytes(256 << 10).slots(4);
        let queue = options.open_or_create(&domain, &format!("q{len}")).expect("made");
        let mut receiver = queue.receiver().expect("the first");
        let senders: Vec<Child> = (0..8)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    for number in 0..COUNT {
                        sender.send(&message(who, number, len)).expect("room in the end");
                    }
                })
            })
            .collect();
        let mut next = [0; 8];
        for _ in 0..8 * COUNT {
            let (who, number) =
                read_message(&receiver.recv_timeout(PATIENCE).expect("readable").expect("sent"));
            assert_eq!(number, next[who as usize]);
            next[who as usize] += 1;
        }
        senders.into_iter().for_each(Child::finish);
        // Each of those that make it grow at the same moment may have found room, for a step of its
        // own. Without a limit it would hold the most of 24,000 messages.
        let bytes = queue.counters().expect("counts").bytes;
        assert!(bytes <= (256 << 10) + 8 * (64 << 10), "{bytes} bytes");
    }
}

fn growing_senders_are_killed(world: &World) {
    let domain = world.domain();
    let mut random = crate::random::Random::new();
    for round in 0..100 {
        let name = format!("q{round}");
        let options = Queue::<[u8]>::options().max_bytes(16 << 20).slots(4);
        let queue = options.open_or_create(&domain, &name).expect("made");
        let board = Board::new();
        let mut senders: Vec<Child> = (0..3)
            .map(|who| {
                let queue = &queue;
                Child::start(move || {
                    let sender = queue.sender().expect("a sender");
                    for number in 0.. {
                        let len = if number % 16 == 0 { 3_000 } else { 40 };
                        if sender.try_send(&message(who, number, len))
                            == Err(SendError::Full { slowest: None })
                        {
                            break;
                        }
                        board.set(who as usize, number + 1);
                    }
                })
            })
            .collect();
        random.pause(8_000);
        for sender in &mut senders {
            sender.signal(libc::SIGKILL);
            random.pause(100);
        }
        for sender in &mut senders {
            sender.wait();
        }
        let mut receiver = queue.receiver().expect("the first");
        let mut next = [0; 3];
        while let Ok(Some(bytes)) = receiver.try_recv() {
            let (who, number) = read_message(&bytes);
            assert_eq!(number, next[who as usize], "of sender {who}");
            next[who as usize] += 1;
        }
        for (who, received) in next.into_iter().enumerate() {
            let acknowledged = board.get(who);
            assert!(received >= acknowledged, "sender {who}: {received} of {acknowledged}");
            assert!(received <= acknowledged + 1);
        }
        // It goes on as if nothing had happened.
        let sender = queue.sender().expect("a sender");
        sender.send(b"after all").expect("room");
        assert_eq!(receiver.recv().expect("sent"), b"after all");
        domain.remove(&name).expect("removed");
    }
}

fn a_sweep_gives_back_what_no_message_has(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(128 << 20).open_or_create(&domain, "q").expect("made");
    let (sender, mut receiver) =
        (queue.sender().expect("a sender"), queue.receiver().expect("none yet"));
    let lens = [1_000, 20_000, 1 << 20, 3 << 20];
    for round in 0..3 {
        for number in 0..40 {
            sender.send(&message(round, number, lens[number as usize % 4])).expect("room");
        }
        for number in 0..39 {
            assert_eq!(
                read_message(&receiver.try_recv().expect("readable").expect("sent")),
                (round, number)
            );
        }
        let before = queue.counters().expect("counts").bytes;
        let swept = domain.sweep(false).expect("sweeps");
        assert!(swept.is_clean() && swept.bytes > 32 << 20, "{swept:?}");
        let after = queue.counters().expect("counts").bytes;
        assert!(before - after > 32 << 20, "{before}, {after}");
        // The one that is still there keeps what it has.
        let last = receiver.try_recv().expect("readable").expect("sent");
        assert_eq!((read_message(&last), last.len()), ((round, 39), 3 << 20));
    }
}
