//! Senders killed at random while others go on: nothing acknowledged is lost, nothing comes twice,
//! nothing is left behind.

use outlive::Domain;
use outlive::queue::{Queue, Receiver};

use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    five_hundred_kills: 120,
    kills_while_the_queue_is_full: 120,
    kills_of_large_senders: 120,
);

/// How many lives a place at the board has room for.
const LIVES: usize = 2_000;

/// What one sender did, by its life's number: the messages acknowledged.
struct Book {
    board: Board,
}

impl Book {
    fn acknowledge(&self, life: u64, number: u64) {
        self.board.set(life as usize, number + 1);
    }

    fn acknowledged(&self, life: u64) -> u64 {
        self.board.get(life as usize)
    }
}

/// Receives what is there, at most so many; each life's messages come in order, without a gap.
fn receive(receiver: &mut Receiver, next: &mut [u64], most: u64) {
    for _ in 0..most {
        let Ok(Some(bytes)) = receiver.try_recv() else { return };
        let (life, number) = read_message(&bytes);
        assert_eq!(number, next[life as usize], "of life {life}");
        next[life as usize] += 1;
    }
}

/// After each kill the receiver takes `taken` messages at most; when those are fewer than are sent,
/// the queue is full for most of the time.
fn kill_senders(world: &World, kills: u64, max_bytes: u64, most_len: u64, taken: u64) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options()
        .max_bytes(max_bytes)
        .slots(16)
        .open_or_create(&domain, "q")
        .expect("made");
    let book = Book { board: Board::new() };
    let mut random = Random::new();
    let start = |life: u64| {
        assert!((life as usize) < LIVES);
        let (queue, book) = (&queue, &book);
        Child::start(move || {
            let sender = queue.sender().expect("a sender");
            let mut random = Random::from_seed(life);
            for number in 0.. {
                let power = random.below(most_len);
                let len = 16 + random.below(1 << power);
                sender.send(&message(life, number, len as usize)).expect("the receiver lives");
                book.acknowledge(life, number);
            }
        })
    };
    let mut lives = 3;
    let mut senders: Vec<(u64, Child)> = (0..lives).map(|life| (life, start(life))).collect();
    let mut receiver = queue.receiver().expect("the only one");
    let mut next = vec![0; LIVES];
    for _ in 0..kills {
        random.pause(2_000);
        receive(&mut receiver, &mut next, random.below(taken));
        let place = random.below(3) as usize;
        senders[place].1.kill();
        senders[place] = (lives, start(lives));
        lives += 1;
    }
    // All three still get on.
    for (life, _) in &senders {
        let before = next[*life as usize];
        let begun = std::time::Instant::now();
        while next[*life as usize] < before + 2 {
            receive(&mut receiver, &mut next, 100);
            assert!(begun.elapsed() < PATIENCE, "life {life} is stuck");
        }
    }
    for (_, sender) in &mut senders {
        sender.kill();
    }
    receive(&mut receiver, &mut next, u64::MAX);
    let mut received = 0;
    for life in 0..lives {
        let (got, acknowledged) = (next[life as usize], book.acknowledged(life));
        assert!(got >= acknowledged, "life {life}: {got} of {acknowledged} came");
        assert!(got <= acknowledged + 1, "life {life}: {got} came, {acknowledged} acknowledged");
        received += got;
    }
    let counters = queue.counters().expect("counts");
    assert_eq!((counters.received, counters.pending), (received, 0));
    assert!(counters.abandoned <= lives, "{counters:?}");
    eprintln!("{lives} lives, {received} received, {} abandoned", counters.abandoned);
    see_nothing_left(&domain, &queue);
}

/// After a sweep there is nothing more to sweep, and the queue's memory is free to the last object.
fn see_nothing_left(domain: &Domain, queue: &Queue) {
    let first = domain.sweep(false).expect("sweeps");
    assert!(first.failed.is_empty(), "{first:?}");
    let second = domain.sweep(false).expect("sweeps");
    assert!(second.is_clean(), "{second:?}");
    // As many large messages as fit into a fresh queue of the same size fit into this one.
    let max_bytes = queue.counters().expect("counts").max_bytes;
    let len = (max_bytes / 2) as usize;
    let sender = queue.sender().expect("a sender");
    sender.send_timeout(&vec![7; len], PATIENCE).expect("half of the queue is free");
}

fn five_hundred_kills(world: &World) {
    kill_senders(world, 500, 64 << 20, 13, 2_000);
}

fn kills_while_the_queue_is_full(world: &World) {
    kill_senders(world, 300, 1 << 20, 12, 200);
}

fn kills_of_large_senders(world: &World) {
    kill_senders(world, 300, 64 << 20, 22, 40);
}
