//! Waiting for a process's end: one waiter or many, with a deadline, and while waiters die
//! themselves.

use std::time::Duration;

use outlive::{Domain, Peer, TokenId, WaitError};

use crate::asleep::{thread_id, wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, PATIENCE};
use crate::runner::World;

crate::checks!(
    deadline_passes_while_the_owner_lives,
    eight_processes_wait_for_one,
    eight_threads_wait_for_one,
    eight_wait_without_futex_waitv,
    half_of_the_waiters_are_killed_first,
    waiters_and_owner_are_killed_together: 60,
    each_waits_for_the_other,
    a_chain_of_waiters,
    the_dead_need_no_waiting,
);

/// A child that tells its token by the board and lives until it is killed.
pub fn owner(domain: &Domain, board: Board) -> (Child, Peer) {
    let child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    let peer = domain.peer(token_on(domain, board, 0));
    (child, peer)
}

/// The token that a child wrote on the board.
pub fn token_on(domain: &Domain, board: Board, word: usize) -> TokenId {
    let bits = board.reach(word, 1);
    let tokens = domain.tokens();
    let found = tokens.iter().find(|token| u64::from(token.id.as_u32()) == bits);
    found.expect("a token on the board is in the registry").id
}

fn deadline_passes_while_the_owner_lives(world: &World) {
    let domain = world.domain();
    let (_child, peer) = owner(&domain, Board::new());
    assert_eq!(peer.wait_dead_timeout(Duration::from_millis(20)), Err(WaitError::TimedOut));
    assert!(peer.is_alive());
}

fn eight(domain: &Domain, prepare: fn()) {
    let (mut child, peer) = owner(domain, Board::new());
    let waiters: Vec<Child> = (0..8)
        .map(|_| {
            Child::start(|| {
                prepare();
                peer.wait_dead().expect("told");
            })
        })
        .collect();
    for waiter in &waiters {
        wait_asleep(waiter.pid());
    }
    child.kill();
    waiters.into_iter().for_each(Child::finish);
}

fn eight_processes_wait_for_one(world: &World) {
    let domain = world.domain();
    for _ in 0..10 {
        eight(&domain, || {});
    }
}

fn eight_wait_without_futex_waitv(world: &World) {
    let domain = world.domain();
    for _ in 0..3 {
        eight(&domain, outlive::abilities::pretend_no_futex_waitv);
    }
}

fn eight_threads_wait_for_one(world: &World) {
    let domain = world.domain();
    let (mut child, peer) = owner(&domain, Board::new());
    let board = Board::new();
    let waiters: Vec<_> = (0..8)
        .map(|n| {
            std::thread::spawn(move || {
                board.set(n, thread_id() as u64);
                peer.wait_dead()
            })
        })
        .collect();
    for n in 0..8 {
        wait_thread_asleep(std::process::id() as i32, board.reach(n, 1) as i32);
    }
    child.kill();
    for waiter in waiters {
        waiter.join().expect("no panic").expect("told");
    }
}

fn sleepers(peer: Peer, count: usize) -> Vec<Child> {
    let waiters: Vec<Child> =
        (0..count).map(|_| Child::start(|| peer.wait_dead().expect("told"))).collect();
    for waiter in &waiters {
        wait_asleep(waiter.pid());
    }
    waiters
}

fn half_of_the_waiters_are_killed_first(world: &World) {
    let domain = world.domain();
    let (mut child, peer) = owner(&domain, Board::new());
    let mut waiters = sleepers(peer, 8);
    for waiter in &mut waiters[..4] {
        waiter.kill();
    }
    child.kill();
    for waiter in waiters.drain(4..) {
        waiter.finish();
    }
}

/// The kernel wakes one waiter; that one may be among the killed.
fn waiters_and_owner_are_killed_together(world: &World) {
    let domain = world.domain();
    for _ in 0..60 {
        let (child, peer) = owner(&domain, Board::new());
        let mut waiters = sleepers(peer, 6);
        child.signal(libc::SIGKILL);
        for waiter in &waiters[..4] {
            // May have been told already.
            waiter.signal(libc::SIGKILL);
        }
        for waiter in waiters.drain(4..) {
            waiter.finish();
        }
    }
}

fn each_waits_for_the_other(world: &World) {
    let domain = world.domain();
    for first in [0, 1] {
        let board = Board::new();
        let mut pair = [0, 1].map(|n| {
            let domain = domain.clone();
            Some(Child::start(move || {
                board.set(n, u64::from(domain.token().expect("a token").as_u32()));
                let other = domain.peer(token_on(&domain, board, 1 - n));
                other.wait_dead().expect("told");
            }))
        });
        for child in pair.iter().flatten() {
            wait_asleep(child.pid());
        }
        pair[first].take().expect("there").kill();
        pair[1 - first].take().expect("there").finish();
    }
}

fn a_chain_of_waiters(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut chain: Vec<Child> = (0..8usize)
        .map(|n| {
            let domain = domain.clone();
            Child::start(move || {
                board.set(n, u64::from(domain.token().expect("a token").as_u32()));
                if n == 0 {
                    loop {
                        std::thread::park();
                    }
                }
                let before = domain.peer(token_on(&domain, board, n - 1));
                before.wait_dead().expect("told");
            })
        })
        .collect();
    for child in &chain[1..] {
        wait_asleep(child.pid());
    }
    chain[0].kill();
    for child in chain.drain(1..) {
        child.finish();
    }
}

fn the_dead_need_no_waiting(world: &World) {
    let domain = world.domain();
    let (mut child, peer) = owner(&domain, Board::new());
    child.kill();
    assert_eq!(peer.wait_dead_timeout(PATIENCE), Ok(()));
    assert_eq!(peer.wait_dead_timeout(Duration::ZERO), Ok(()));
    assert!(!peer.is_alive());
}
