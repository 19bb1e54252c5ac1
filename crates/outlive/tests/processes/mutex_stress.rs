//! The mutex under random kills: no two processes are ever inside at once, and no finished work is
//! lost.

use outlive::Domain;
use outlive::sync::{LockError, Mutex};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    four_processes_and_random_kills: 90,
    four_processes_and_random_kills_without_futex_waitv: 60,
    threads_and_kills: 60,
    stopped_and_continued: 60,
);

const PROCESSES: usize = 4;

/// What the lock guards: the process that is inside, two numbers that are always equal outside, and
/// repairs.
type Guarded = [u64; 4];
const INSIDE: usize = 0;
const A: usize = 1;
const B: usize = 2;
const REPAIRS: usize = 3;

/// Counts under the lock for ever; word `n` of the board counts what was finished.
fn work(mutex: &Mutex<Guarded>, board: Board, n: usize) {
    let me = n as u64 + 1;
    loop {
        let mut value = match mutex.lock() {
            Ok(value) => value,
            Err(LockError::OwnerDied(mut value)) => {
                value[INSIDE] = 0;
                value[B] = value[A];
                value[REPAIRS] += 1;
                value.mark_consistent();
                value
            }
            Err(error) => panic!("{error}"),
        };
        assert_eq!(value[INSIDE], 0, "two are inside");
        value[INSIDE] = me;
        assert_eq!(value[A], value[B]);
        value[A] += 1;
        value[B] += 1;
        assert_eq!(value[INSIDE], me, "somebody came in");
        value[INSIDE] = 0;
        drop(value);
        board.add(n, 1);
    }
}

fn open(domain: &Domain) -> Mutex<Guarded> {
    Mutex::options([0; 4]).open_or_create(domain, "m").expect("opens")
}

/// Waits until all have gone on by a little: no process is stuck.
fn see_all_go_on(board: Board, who: impl Iterator<Item = usize>) {
    for n in who {
        let now = board.get(n);
        board.reach(n, now + 10);
    }
}

fn check_the_sum(mutex: &Mutex<Guarded>, board: Board, deaths: u64) {
    let value = match mutex.lock() {
        Ok(value) => *value,
        Err(LockError::OwnerDied(mut value)) => {
            value[B] = value[A];
            value.mark_consistent();
            *value
        }
        Err(error) => panic!("{error}"),
    };
    let finished: u64 = (0..PROCESSES).map(|n| board.get(n)).sum();
    assert_eq!(value[A], value[B]);
    assert!(value[A] >= finished, "finished work was lost: {} < {finished}", value[A]);
    assert!(value[A] <= finished + deaths, "{} > {finished} + {deaths}", value[A]);
    assert!(value[REPAIRS] <= deaths);
    eprintln!("{finished} finished, {deaths} deaths, {} of them inside", value[REPAIRS]);
}

fn kill_at_random(world: &World, kills: u64, prepare: fn()) {
    let domain = world.domain();
    let mutex = open(&domain);
    let board = Board::new();
    let mut random = Random::new();
    let start = |n| {
        let mutex = &mutex;
        Child::start(move || {
            prepare();
            work(mutex, board, n);
        })
    };
    let mut children: Vec<Child> = (0..PROCESSES).map(start).collect();
    for kill in 0..kills {
        random.pause(4_000);
        let n = random.below(PROCESSES as u64) as usize;
        children[n].kill();
        children[n] = start(n);
        if kill % 20 == 0 {
            see_all_go_on(board, 0..PROCESSES);
        }
    }
    see_all_go_on(board, 0..PROCESSES);
    for child in &mut children {
        child.kill();
    }
    check_the_sum(&mutex, board, kills + PROCESSES as u64);
}

fn four_processes_and_random_kills(world: &World) {
    kill_at_random(world, 1_000, || {});
}

fn four_processes_and_random_kills_without_futex_waitv(world: &World) {
    kill_at_random(world, 100, outlive::abilities::pretend_no_futex_waitv);
}

/// Each process has four threads; all four end with a kill.
fn threads_and_kills(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let board = Board::new();
    let mut random = Random::new();
    let start = |n: usize| {
        let mutex = &mutex;
        Child::start(move || {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(move || work(mutex, board, n));
                }
            });
        })
    };
    let mut children: Vec<Child> = (0..2).map(start).collect();
    for _ in 0..150 {
        random.pause(6_000);
        let n = random.below(2) as usize;
        children[n].kill();
        children[n] = start(n);
    }
    see_all_go_on(board, 0..2);
    for child in &mut children {
        child.kill();
    }
    check_the_sum(&mutex, board, 4 * 152);
}

/// A stopped holder is alive: others wait for it, and go on when it does. A stopped sleeper delays
/// no other process.
fn stopped_and_continued(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let board = Board::new();
    let mut random = Random::new();
    let mut children: Vec<Child> = (0..PROCESSES)
        .map(|n| {
            let mutex = &mutex;
            Child::start(move || work(mutex, board, n))
        })
        .collect();
    for _ in 0..150 {
        random.pause(3_000);
        let n = random.below(PROCESSES as u64) as usize;
        children[n].stop();
        let holder = mutex.holder().map(|holder| holder.pid as i32);
        if holder != Some(children[n].pid()) {
            // It may have got the lock before it stopped; if not, the others go on without it.
            let others = || (0..PROCESSES).filter(|&other| other != n);
            let before: Vec<u64> = others().map(|other| board.get(other)).collect();
            wait_until("the others go on, or the stopped one holds the lock", || {
                let holds =
                    mutex.holder().map(|holder| holder.pid as i32) == Some(children[n].pid());
                holds || others().zip(&before).any(|(other, &before)| board.get(other) > before)
            });
        }
        children[n].go_on();
    }
    see_all_go_on(board, 0..PROCESSES);
    for child in &mut children {
        child.kill();
    }
    check_the_sum(&mutex, board, PROCESSES as u64);
}
