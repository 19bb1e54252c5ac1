//! Receivers killed at random while senders go on: each acknowledged message comes, and comes again
//! only if said so.

use std::collections::HashMap;

use outlive::SendError;
use outlive::queue::Queue;

use crate::board::{Board, WORDS};
use crate::child::{Child, wait_until};
use crate::order::{message, read_message};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    two_hundred_kills_with_peek_and_commit: 120,
    two_hundred_kills_with_recv: 120,
    senders_and_receivers_are_killed: 120,
);

const SENDERS: u64 = 3;
/// Words of the board: acknowledged by sender, then the log of what receivers did.
const LOG_LEN: usize = 10;
const LOG: usize = 16;
const ROOM: usize = WORDS - LOG;
/// Messages of each sender.
const MOST: u64 = 30_000;

/// A log entry says that a message was handed out, and whether it was marked as redelivered.
const HANDED: u64 = 1;
const HANDED_AGAIN: u64 = 2;

/// Writes a word to the log: first the word, then the length, so that a death in between loses
/// nothing but itself.
fn log(board: Board, what: u64, sender: u64, number: u64) {
    let at = board.get(LOG_LEN) as usize;
    assert!(at < ROOM, "the log is full");
    board.set(LOG + at, what << 60 | sender << 52 | number);
    board.set(LOG_LEN, at as u64 + 1);
}

fn send_all(queue: &Queue, board: Board, who: u64) {
    let sender = queue.sender().expect("a sender");
    let mut number = board.get(who as usize);
    while number < MOST {
        let len = if number.is_multiple_of(7) { 2_000 } else { 50 };
        match sender.send(&message(who, number, len)) {
            Ok(()) => {
                number += 1;
                board.set(who as usize, number);
            }
            // The next receiver comes soon.
            Err(SendError::ReceiverDied) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
}

fn kill_receivers(world: &World, kills: u64, peek: bool, senders_too: bool) {
    let domain = world.domain();
    let queue = Queue::<[u8]>::options()
        .max_bytes(1 << 20)
        .slots(4)
        .open_or_create(&domain, "q")
        .expect("made");
    let board = Board::new();
    let mut random = Random::new();
    let start_sender = |who| {
        let queue = &queue;
        Child::start(move || send_all(queue, board, who))
    };
    let start_receiver = || {
        Child::start(|| {
            let mut receiver = queue.receiver().expect("none lives");
            loop {
                if peek {
                    let peeked = receiver.peek().expect("sent");
                    let (sender, number) = read_message(&peeked);
                    let what = if peeked.redelivered() { HANDED_AGAIN } else { HANDED };
                    log(board, what, sender, number);
                    peeked.commit();
                } else {
                    let (sender, number) = read_message(&receiver.recv().expect("sent"));
                    log(board, HANDED, sender, number);
                }
            }
        })
    };
    let mut senders: Vec<Child> = (0..SENDERS).map(start_sender).collect();
    let mut sender_kills = 0;
    let mut receiver = start_receiver();
    for kill in 0..kills {
        random.pause(1_000);
        receiver.kill();
        if senders_too && kill % 3 == 0 {
            let who = random.below(SENDERS) as usize;
            if !senders[who].has_ended() {
                senders[who].signal(libc::SIGKILL);
                senders[who].wait();
                senders[who] = start_sender(who as u64);
                sender_kills += 1;
            }
        }
        receiver = start_receiver();
    }
    senders.into_iter().for_each(Child::finish);
    wait_until("all is received", || queue.counters().expect("counts").pending == 0);
    receiver.kill();
    let counters = queue.counters().expect("counts");
    check_log(board, kills + 1, sender_kills, peek);
    eprintln!("{kills} receivers and {sender_kills} senders killed: {counters:?}");
    let first = domain.sweep(false).expect("sweeps");
    assert!(first.failed.is_empty());
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

fn check_log(board: Board, lives: u64, sender_kills: u64, peek: bool) {
    let mut handed: HashMap<(u64, u64), u64> = HashMap::new();
    let mut newest = [None; SENDERS as usize];
    let mut again = 0;
    for at in 0..board.get(LOG_LEN) as usize {
        let word = board.get(LOG + at);
        let (what, sender, number) = (word >> 60, word >> 52 & 0xff, word & ((1 << 52) - 1));
        let times = handed.entry((sender, number)).or_default();
        *times += 1;
        if what == HANDED_AGAIN {
            again += 1;
        } else if sender_kills == 0 {
            // A sender that was killed just after READY does not know, and its successor sends that
            // number again.
            assert_eq!(*times, 1, "message {number} of sender {sender} came again, unmarked");
        }
        let newest = &mut newest[sender as usize];
        assert!(*newest <= Some(number), "sender {sender}: {number} after {newest:?}");
        *newest = Some(number);
    }
    let lost = (0..SENDERS).flat_map(|who| (0..MOST).map(move |number| (who, number)));
    let lost = lost.filter(|message| !handed.contains_key(message)).count() as u64;
    eprintln!("{} handed out, {again} again, {lost} lost", handed.len());
    if peek {
        assert_eq!(lost, 0, "every acknowledged message comes");
    } else {
        assert!(lost <= lives, "each receiver takes at most one with it: {lost}");
        assert_eq!(again, 0);
    }
}

fn two_hundred_kills_with_peek_and_commit(world: &World) {
    kill_receivers(world, 200, true, false);
}

fn two_hundred_kills_with_recv(world: &World) {
    kill_receivers(world, 200, false, false);
}

fn senders_and_receivers_are_killed(world: &World) {
    kill_receivers(world, 200, true, true);
}
