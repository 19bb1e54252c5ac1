//! Several permits of a semaphore at once: all or none, in turn, and all back when a process dies.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use outlive::sync::{AcquireError, Semaphore};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    all_or_none,
    more_than_there_may_be_is_refused,
    none_at_all_waits_for_no_turn,
    two_that_want_more_than_half_do_not_wait_for_each_other: 60,
    a_stream_of_single_permits_starves_no_process_that_wants_all: 60,
    killed_with_a_part_it_leaves_nothing_behind,
    killed_with_all_of_them_it_leaves_nothing_behind,
    a_deadline_midway_gives_all_back,
    a_stopped_process_in_its_turn_holds_up_others_that_want_several,
    a_forked_child_gives_nothing_back,
    in_parts_it_keeps_what_it_has,
    killed_between_two_parts_it_leaves_nothing_behind,
    they_keep_their_handle,
    a_sweep_knows_the_turn,
    killed_at_random: 120,
);

const SOON: Duration = Duration::from_millis(20);

fn open(domain: &Domain, permits: u32) -> Semaphore {
    Semaphore::options(permits).open_or_create(domain, "permits").expect("opens")
}

/// A child that has so many permits, until it is killed or the board's word 1 says otherwise.
fn holder(semaphore: &Semaphore, board: Board, count: usize) -> Child {
    let before = board.get(0);
    let child = Child::start(|| {
        let _permits = semaphore.acquire_many(count).expect("free");
        board.add(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, before + 1);
    child
}

/// A child that wants so many, and is asleep.
fn sleeper(semaphore: &Semaphore, count: usize) -> Child {
    let child = Child::start(|| drop(semaphore.acquire_many(count).expect("free at last")));
    wait_asleep(child.pid());
    child
}

/// What a binding does that looks for signals in between.
fn in_parts_it_keeps_what_it_has(world: &World) {
    let domain = world.domain();
    let semaphore = Arc::new(open(&domain, 3));
    let board = Board::new();
    let child = holder(&semaphore, board, 1);
    assert!(matches!(semaphore.begin_acquire_many(4), Err(AcquireError::Full)));
    let mut begun = semaphore.begin_acquire_many(3).expect("there may be so many");
    assert_eq!(semaphore.available_permits(), 2, "it has not waited yet");
    for _ in 0..2 {
        assert!(begun.continue_acquire(Deadline::after(SOON)).expect("waits").is_none());
        assert_eq!(semaphore.available_permits(), 0);
        Child::start(|| {
            assert!(semaphore.try_acquire().expect("looks").is_none());
            // It waits for the turn.
            assert!(semaphore.acquire_many_timeout(2, SOON).expect("waits").is_none());
            // The fork goes on with the wait, and what its parent has is its parent's.
            assert!(begun.continue_acquire(Deadline::after(SOON)).expect("waits").is_none());
        })
        .finish();
    }
    drop(begun);
    assert_eq!(semaphore.available_permits(), 2);
    let mut begun = semaphore.begin_acquire_many(3).expect("there may be so many");
    assert!(begun.continue_acquire(Deadline::after(SOON)).expect("waits").is_none());
    board.set(1, 1);
    child.finish();
    let got = begun.continue_acquire(Deadline::NEVER).expect("waits").expect("all are free");
    drop(begun);
    // The turn is free, though the permits are held.
    assert_eq!((got.len(), semaphore.available_permits()), (3, 0));
    drop(got);
    Child::start(|| drop(semaphore.try_acquire_many(3).expect("looks").expect("free"))).finish();
}

fn killed_between_two_parts_it_leaves_nothing_behind(world: &World) {
    let domain = world.domain();
    let semaphore = Arc::new(open(&domain, 3));
    let one = semaphore.acquire().expect("free");
    let board = Board::new();
    let mut child = Child::start(|| {
        let mut begun = semaphore.begin_acquire_many(3).expect("there may be so many");
        assert!(begun.continue_acquire(Deadline::after(SOON)).expect("waits").is_none());
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    assert_eq!(semaphore.available_permits(), 0);
    let next = sleeper(&semaphore, 2);
    child.kill();
    next.finish();
    drop(one);
    assert_eq!(semaphore.acquire_many(3).expect("free").len(), 3);
}

fn all_or_none(world: &World) {
    let domain = world.domain();
    for permits in [5, 100] {
        let name = format!("of {permits}");
        let semaphore = Semaphore::options(permits).open_or_create(&domain, &name).expect("opens");
        let all = permits as usize;
        let board = Board::new();
        let child = holder(&semaphore, board, all - 2);
        assert!(semaphore.try_acquire_many(3).expect("looks").is_none());
        assert!(semaphore.acquire_many_timeout(3, SOON).expect("waits").is_none());
        assert_eq!(semaphore.available_permits(), 2);
        let two = semaphore.acquire_many(2).expect("free");
        assert_eq!((two.len(), two.is_empty(), semaphore.available_permits()), (2, false, 0));
        let mut indexes: Vec<usize> = two.into_iter().map(|permit| permit.index()).collect();
        indexes.dedup();
        assert_eq!((indexes.len(), semaphore.available_permits()), (2, 2));
        assert!(semaphore.try_acquire_many(0).expect("none").expect("at once").is_empty());
        let waiting = sleeper(&semaphore, all);
        board.set(1, 1);
        child.finish();
        waiting.finish();
        assert_eq!(semaphore.available_permits(), all);
    }
}

fn more_than_there_may_be_is_refused(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    assert_eq!(semaphore.acquire_many(4).expect_err("never"), AcquireError::Full);
    assert_eq!(semaphore.try_acquire_many(4).expect_err("never"), AcquireError::Full);
    let one = semaphore.acquire().expect("free");
    assert_eq!(semaphore.acquire_many(3).expect_err("we have one"), AcquireError::Deadlock);
    assert!(semaphore.try_acquire_many(3).expect("looks").is_none());
    drop((semaphore.acquire_many(2).expect("free"), one));
    // Some that are not there yet may come.
    let parts = Semaphore::options(0).max_permits(3).open_or_create(&domain, "parts");
    let parts = parts.expect("opens");
    let waiting = Child::start(|| parts.acquire_many(2).expect("made").consume());
    wait_asleep(waiting.pid());
    for _ in 0..3 {
        parts.add_permit().expect("room");
    }
    waiting.finish();
    assert_eq!(parts.available_permits(), 1);
}

fn none_at_all_waits_for_no_turn(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 2);
    let ours = semaphore.acquire_many(1).expect("free");
    // It has the turn, and waits for our permit.
    let waiting = sleeper(&semaphore, 2);
    assert!(semaphore.acquire_many(0).expect("none").is_empty());
    assert!(semaphore.try_acquire_many(0).expect("none").expect("at once").is_empty());
    drop(ours);
    waiting.finish();
}

fn two_that_want_more_than_half_do_not_wait_for_each_other(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 5);
    let board = Board::new();
    let children: Vec<Child> = (0..5)
        .map(|n| {
            let (semaphore, wanted) = (&semaphore, [3, 3, 2, 1, 5][n]);
            Child::start(move || {
                for _ in 0..1_500 {
                    let _permits = semaphore.acquire_many(wanted).expect("sooner or later");
                    let inside = board.add(0, wanted as u64);
                    assert!(inside <= 5, "{inside} permits");
                    board.word(0).fetch_sub(wanted as u64, Ordering::SeqCst);
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(semaphore.available_permits(), 5);
    assert_eq!(domain.stats().rescues, 0);
}

fn a_stream_of_single_permits_starves_no_process_that_wants_all(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let board = Board::new();
    let mut singles: Vec<Child> = (0..6)
        .map(|_| {
            let semaphore = &semaphore;
            Child::start(move || {
                let mut random = Random::new();
                loop {
                    let _permit = semaphore.acquire().expect("sooner or later");
                    random.pause(200);
                    board.add(0, 1);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let all = semaphore.acquire_many(3).expect("sooner or later");
        let before = board.get(0);
        std::thread::sleep(Duration::from_millis(1));
        assert!(board.get(0) <= before + 6, "they had given theirs back, and count that");
        drop(all);
        board.reach(0, before + 12);
    }
    singles.iter_mut().for_each(Child::kill);
    drop(semaphore.acquire_many(3).expect("free"));
}

fn killed_with_a_part_it_leaves_nothing_behind(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let one = semaphore.acquire().expect("free");
    let mut first = sleeper(&semaphore, 3);
    wait_until("it has taken the rest", || semaphore.available_permits() == 0);
    let second = sleeper(&semaphore, 2);
    let single = sleeper(&semaphore, 1);
    first.kill();
    second.finish();
    single.finish();
    assert_eq!(semaphore.try_acquire_many(2).expect("looks").expect("free").len(), 2);
    drop(one);
    assert_eq!(semaphore.available_permits(), 3);
}

fn killed_with_all_of_them_it_leaves_nothing_behind(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let board = Board::new();
    let mut child = holder(&semaphore, board, 3);
    let sleepers = [sleeper(&semaphore, 3), sleeper(&semaphore, 2), sleeper(&semaphore, 1)];
    child.kill();
    sleepers.into_iter().for_each(Child::finish);
    holder(&semaphore, board, 3).kill();
    drop(semaphore.try_acquire_many(3).expect("looks").expect("dead holders'"));
}

fn a_deadline_midway_gives_all_back(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let one = semaphore.acquire().expect("free");
    let gives_up = Child::start(|| {
        let span = Duration::from_secs(3);
        assert!(semaphore.acquire_many_timeout(3, span).expect("waits").is_none());
    });
    wait_until("it has taken the rest", || semaphore.available_permits() == 0);
    let waiting = sleeper(&semaphore, 1);
    gives_up.finish();
    waiting.finish();
    assert_eq!(semaphore.available_permits(), 2);
    drop(semaphore.try_acquire_many(2).expect("looks").expect("the turn, too"));
    drop(one);
}

fn a_stopped_process_in_its_turn_holds_up_others_that_want_several(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 4);
    let one = semaphore.acquire().expect("free");
    let stopped = sleeper(&semaphore, 4);
    wait_until("it has taken the rest", || semaphore.available_permits() == 0);
    stopped.stop();
    drop(one);
    drop(semaphore.acquire().expect("one is free"));
    assert!(semaphore.acquire_many_timeout(1, SOON).expect("waits").is_none());
    stopped.go_on();
    drop(semaphore.acquire_many(4).expect("its turn comes"));
    stopped.finish();
}

fn a_forked_child_gives_nothing_back(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let mut inherited = Some(semaphore.acquire_many(2).expect("free"));
    Child::start(|| drop(inherited.take())).finish();
    assert_eq!(semaphore.available_permits(), 1);
    drop(inherited);
    assert_eq!(semaphore.available_permits(), 3);
}

fn they_keep_their_handle(world: &World) {
    let semaphore = Arc::new(open(&world.domain(), 3));
    let two = semaphore.acquire_many_owned(2).expect("free");
    assert_eq!(Arc::strong_count(&semaphore), 3);
    assert!(semaphore.try_acquire_many_owned(2).expect("looks").is_none());
    let mut two = two.into_iter();
    two.next().expect("the first").consume();
    drop(two);
    assert_eq!((semaphore.available_permits(), Arc::strong_count(&semaphore)), (2, 1));
}

fn a_sweep_knows_the_turn(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 2);
    let one = semaphore.acquire().expect("free");
    let mut first = sleeper(&semaphore, 2);
    wait_until("it has taken the rest", || semaphore.available_permits() == 0);
    first.kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 2, "its permit and its turn");
    assert_eq!(semaphore.available_permits(), 1);
    drop(one);
    drop(semaphore.try_acquire_many(2).expect("looks").expect("free"));
}

fn killed_at_random(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 4);
    let board = Board::new();
    let mut random = Random::new();
    let start = |n: usize| {
        let semaphore = &semaphore;
        Child::start(move || {
            let mut random = Random::new();
            loop {
                let wanted = 1 + random.below(4) as usize;
                match random.below(3) {
                    0 => drop(semaphore.acquire().expect("sooner or later")),
                    1 => {
                        let span = Duration::from_micros(200);
                        drop(semaphore.acquire_many_timeout(wanted, span).expect("waits"));
                    }
                    _ => drop(semaphore.acquire_many(wanted).expect("sooner or later")),
                }
                board.add(n, 1);
            }
        })
    };
    let mut children: Vec<Child> = (0..5).map(start).collect();
    for kill in 0..500 {
        random.pause(4_000);
        let n = random.below(5) as usize;
        children[n].kill();
        children[n] = start(n);
        if kill % 20 == 0 {
            for n in 0..5 {
                board.reach(n, board.get(n) + 10);
            }
        }
    }
    children.iter_mut().for_each(Child::kill);
    assert_eq!(semaphore.try_acquire_many(4).expect("looks").expect("all are back").len(), 4);
}
