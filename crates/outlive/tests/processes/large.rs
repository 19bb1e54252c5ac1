//! Large messages: objects of the pool, up to 1 GiB, never left behind.

use std::fs;

use outlive::SendError;
use outlive::queue::{LARGEST_MESSAGE, Queue};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_gibibyte: 120,
    more_than_the_queue_may_grow,
    memory_is_used_again,
    a_stopped_sender_delays_no_other: 60,
);

/// Bytes that the machine and the memory file system have to spare.
pub fn free_bytes(world: &World) -> u64 {
    let info = fs::read_to_string("/proc/meminfo").expect("readable");
    let line = info.lines().find(|line| line.starts_with("MemAvailable:")).expect("there");
    let kib: u64 =
        line.split_ascii_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number");
    let stat = rustix::fs::statvfs(world.folder()).expect("known");
    (kib << 10).min(stat.f_bavail * stat.f_frsize)
}

fn a_gibibyte(world: &World) {
    if free_bytes(world) < 4 << 30 {
        world.skip("less than 4 GiB of memory is free");
    }
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(3 << 29).open_or_create(&domain, "q").expect("made");
    let len = LARGEST_MESSAGE as usize;
    let word = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let child = Child::start(|| {
        let words: Vec<u64> = (0..len / 8).map(word).collect();
        let sender = queue.sender().expect("a sender");
        // SAFETY: words are bytes.
        let bytes = unsafe { core::slice::from_raw_parts(words.as_ptr().cast::<u8>(), len) };
        sender.send(bytes).expect("fits");
        sender.send(b"and a small one").expect("fits");
    });
    let mut receiver = queue.receiver().expect("the only one");
    // The check's own limit: on a busy machine a gibibyte takes minutes.
    let peeked = receiver.peek().expect("sent");
    assert_eq!(peeked.len(), len);
    let (chunks, rest) = peeked.as_chunks::<8>();
    assert!(rest.is_empty());
    let wrong =
        chunks.iter().enumerate().find(|&(at, chunk)| u64::from_ne_bytes(*chunk) != word(at));
    assert_eq!(wrong, None, "every word as it was sent");
    peeked.commit();
    assert_eq!(
        receiver.recv_timeout(PATIENCE).expect("readable").expect("sent"),
        b"and a small one"
    );
    child.finish();
    // One byte more; never touched, so it costs nothing.
    let over = vec![0u8; len + 1];
    let error = queue.sender().expect("a sender").send(&over).expect_err("too large");
    assert_eq!(error, SendError::TooLarge { len: len as u64 + 1, max: LARGEST_MESSAGE });
}

fn more_than_the_queue_may_grow(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(8 << 20).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the only one");
    for len in [8 << 20, 9 << 20, 100 << 20] {
        let error = sender.send(&vec![1; len]).expect_err("does not fit");
        assert!(matches!(error, SendError::TooLarge { .. }), "{error:?}");
    }
    // What may fit is sent again and again.
    for number in 0..20 {
        let bytes = message(0, number, 6 << 20);
        sender.send_timeout(&bytes, PATIENCE).expect("fits");
        assert_eq!(receiver.recv().expect("sent"), bytes);
    }
    assert!(queue.counters().expect("counts").bytes <= 8 << 20);
}

fn memory_is_used_again(world: &World) {
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(48 << 20).open_or_create(&domain, "q").expect("made");
    let sender = queue.sender().expect("a sender");
    let mut receiver = queue.receiver().expect("the only one");
    let mut random = Random::new();
    let mut most = 0;
    for round in 0..400 {
        let count = random.below(8) + 1;
        for number in 0..count {
            let power = 4 + random.below(18);
            let len = 16 + random.below(1 << power) as usize;
            sender.send_timeout(&message(round, number, len), PATIENCE).expect("room");
        }
        for number in 0..count {
            assert_eq!(read_message(&receiver.recv().expect("sent")), (round, number));
        }
        most = most.max(queue.counters().expect("counts").bytes);
    }
    assert!(most <= 48 << 20, "{most}");
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

/// Stopped wherever it may be in large sends; the others' sends all come back meanwhile.
fn a_stopped_sender_delays_no_other(world: &World) {
    const STOPS: u64 = 150;
    let domain = world.domain();
    let queue =
        Queue::<[u8]>::options().max_bytes(256 << 20).open_or_create(&domain, "q").expect("made");
    let board = Board::new();
    let large = Child::start(|| {
        let sender = queue.sender().expect("a sender");
        let bytes = message(1, 0, 3 << 20);
        loop {
            // No more than eight of them lie there, so that there is always room.
            let sent = board.get(1);
            board.reach(3, sent.saturating_sub(8));
            sender.try_send(&bytes).expect("room");
            board.add(1, 1);
        }
    });
    let receiving = Child::start(|| {
        let mut receiver = queue.receiver().expect("the only one");
        let mut buffer = Vec::new();
        loop {
            receiver.recv_into(&mut buffer).expect("sent");
            board.add(if buffer.len() > 1 << 20 { 3 } else { 2 }, 1);
        }
    });
    board.reach(3, 1);
    let other = queue.sender().expect("a sender");
    let small = message(0, 0, 60);
    let middling = message(0, 0, 3_000);
    let mut random = Random::new();
    for _ in 0..STOPS {
        random.pause(3_000);
        large.stop();
        for _ in 0..20 {
            // Never waits: that there is room is the check.
            other.try_send(&small).expect("a stopped sender holds up nobody");
            other.try_send(&middling).expect("a stopped sender holds up nobody");
        }
        large.go_on();
    }
    let sent = board.get(1);
    board.reach(1, sent + 3);
    drop(large);
    let all = queue.counters().expect("counts");
    assert!(all.sent >= STOPS * 40 + sent);
    board.reach(2, STOPS * 40);
    drop(receiving);
}
