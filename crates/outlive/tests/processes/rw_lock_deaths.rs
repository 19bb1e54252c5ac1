//! The reader-writer lock when readers and writers die: which process is told, which one gets in,
//! and what is left of the dead.

use outlive::sync::{AcquireError, LockError, RwLock, WriteGuard};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_dead_reader_keeps_no_writer_out,
    sleeping_writers_get_in_when_the_reader_dies,
    sleeping_writers_get_in_when_the_reader_dies_without_futex_waitv,
    a_dead_readers_word_is_used_again: 120,
    a_dead_writer_is_told_to_the_next_reader,
    a_dead_writer_is_told_to_the_next_writer,
    of_sleeping_readers_and_writers_one_is_told: 60,
    of_sleeping_readers_and_writers_one_is_told_without_futex_waitv: 60,
    a_writer_dies_while_it_waits_for_readers,
    a_reader_who_reads_again_after_that,
    who_upgrades_after_that_is_not_told,
    told_and_killed_before_repair,
    a_reader_that_has_no_answer_leaves_the_lock_to_others,
    not_recoverable_is_refused_to_all,
    reset_starts_anew,
    not_downgraded_before_it_is_repaired,
    a_sweep_takes_the_names_of_the_dead,
    the_last_reader_of_all_dies,
    a_stopped_reader_is_waited_for,
    a_thread_that_ends_reading_is_a_death_too,
    random_kills: 120,
    random_kills_without_futex_waitv: 60,
);

type Pair = [u64; 2];

fn open(domain: &Domain) -> RwLock<Pair> {
    RwLock::options([0; 2]).open_or_create(domain, "rw").expect("opens")
}

fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

/// A child that reads until it is killed.
fn reader(lock: &RwLock<Pair>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _guard = lock.read().expect("no writer dies");
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child
}

/// A child that writes until it is killed, in the middle of a change.
fn writer(lock: &RwLock<Pair>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let mut guard = match lock.write() {
            Ok(guard) => guard,
            Err(LockError::OwnerDied(mut guard)) => {
                guard[1] = guard[0];
                guard.mark_consistent();
                guard
            }
            Err(error) => panic!("{error}"),
        };
        guard[0] += 1;
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child
}

fn orphan(lock: &RwLock<Pair>) {
    writer(lock).kill();
}

fn a_dead_reader_keeps_no_writer_out(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    reader(&lock).kill();
    drop(lock.try_write().expect("nobody living reads").expect("not held"));
    reader(&lock).kill();
    drop(lock.write().expect("nobody living reads"));
    reader(&lock).kill();
    drop(lock.read().expect("free").try_upgrade().expect("nobody living reads"));
    assert_eq!(domain.stats().owner_deaths, 0, "nobody is told of readers");
}

const NOTHING: fn() = || {};
const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

fn wait_behind_readers(world: &World, prepare: fn()) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 0..10 {
        let mut readers: Vec<Child> = (0..3).map(|_| reader(&lock)).collect();
        let sleepers: Vec<Child> = (0..4)
            .map(|n| {
                let lock = &lock;
                Child::start(move || {
                    prepare();
                    if n == 3 {
                        drop(lock.read().expect("no writer dies"));
                    } else {
                        lock.write().expect("no writer dies")[0] += 1;
                    }
                })
            })
            .collect();
        // The last reads; it has to find a writer in its way.
        for sleeper in &sleepers[..3] {
            wait_asleep(sleeper.pid());
        }
        readers.iter_mut().for_each(Child::kill);
        sleepers.into_iter().for_each(Child::finish);
        assert_eq!(lock.read().expect("free")[0], 3 * (round + 1));
    }
}

fn sleeping_writers_get_in_when_the_reader_dies(world: &World) {
    wait_behind_readers(world, NOTHING);
}

fn sleeping_writers_get_in_when_the_reader_dies_without_futex_waitv(world: &World) {
    wait_behind_readers(world, NO_WAITV);
}

fn a_dead_readers_word_is_used_again(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    // Many more than there are words. Many die together: on a busy machine each child waits long
    // for a processor.
    let board = Board::new();
    for died in 0..26 {
        let read = || {
            let _guard = lock.read().expect("no writer dies");
            board.add(0, 1);
            pause();
        };
        let mut child = Child::start(|| {
            std::thread::scope(|scope| (0..50).for_each(|_| _ = scope.spawn(read)))
        });
        board.reach(0, 50 * (died + 1));
        child.kill();
    }
    assert!(lock.holders().len() <= 1_024);
    let beside = [lock.read().expect("free"), lock.read().expect("free")];
    drop(beside);
    drop(lock.try_write().expect("nobody living reads").expect("not held"));
    assert_eq!(lock.holders(), []);
}

fn a_dead_writer_is_told_to_the_next_reader(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for tries in [false, true] {
        let read = || if tries { lock.try_read() } else { lock.read().map(Some) };
        orphan(&lock);
        match read() {
            Err(LockError::OwnerDied(mut guard)) => {
                assert_eq!(guard[0], guard[1] + 1, "as the dead one left it");
                Child::start(|| assert!(matches!(lock.try_read(), Ok(None)))).finish();
                guard[1] = guard[0];
                guard.mark_consistent();
            }
            got => panic!("{got:?}"),
        }
        drop(read().expect("whole again").expect("not held"));
    }
    assert_eq!(domain.stats().owner_deaths, 2);
}

fn a_dead_writer_is_told_to_the_next_writer(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for tries in [false, true] {
        let write = || if tries { lock.try_write() } else { lock.write().map(Some) };
        orphan(&lock);
        match write() {
            Err(LockError::OwnerDied(mut guard)) => {
                guard[1] = guard[0];
                guard.mark_consistent();
            }
            got => panic!("{got:?}"),
        }
        drop(write().expect("whole again").expect("not held"));
    }
}

/// Uses the lock, and counts on the board: word 0 told, word 1 not told.
fn use_once(lock: &RwLock<Pair>, board: Board, reads: bool) {
    let guard = if reads {
        lock.read().map(|guard| (Some(guard), None))
    } else {
        lock.write().map(|g| (None, Some(g)))
    };
    match guard {
        Ok((Some(guard), _)) => {
            assert_eq!(guard[0], guard[1]);
            board.add(1, 1);
        }
        Ok((_, Some(mut guard))) => {
            assert_eq!(guard[0], guard[1]);
            guard[0] += 1;
            guard[1] += 1;
            board.add(1, 1);
        }
        Ok(_) => unreachable!("one or the other"),
        Err(LockError::OwnerDied(mut guard)) => {
            guard[1] = guard[0];
            guard.mark_consistent();
            board.add(0, 1);
        }
        Err(error) => panic!("{error}"),
    }
}

fn tell_one(world: &World, rounds: usize, prepare: fn()) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 0..rounds {
        let mut owner = writer(&lock);
        let board = Board::new();
        let sleepers: Vec<Child> = (0..8)
            .map(|n| {
                let lock = &lock;
                Child::start(move || {
                    prepare();
                    // All read, all write, or both.
                    let reads = [true, false, n % 2 == 0][round % 3];
                    use_once(lock, board, reads);
                })
            })
            .collect();
        for sleeper in &sleepers {
            wait_asleep(sleeper.pid());
        }
        owner.kill();
        sleepers.into_iter().for_each(Child::finish);
        assert_eq!((board.get(0), board.get(1)), (1, 7), "exactly one is told");
    }
}

fn of_sleeping_readers_and_writers_one_is_told(world: &World) {
    tell_one(world, 30, NOTHING);
}

fn of_sleeping_readers_and_writers_one_is_told_without_futex_waitv(world: &World) {
    tell_one(world, 6, NO_WAITV);
}

/// A writer killed while it waits for readers to leave.
fn die_waiting(lock: &RwLock<Pair>) {
    let mut child = Child::start(|| drop(lock.write()));
    wait_asleep(child.pid());
    child.kill();
}

/// It was not inside yet, so nothing is half-written, and no process is told.
fn a_writer_dies_while_it_waits_for_readers(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let mut reading = reader(&lock);
    die_waiting(&lock);
    drop(lock.try_read().expect("nobody living is in the way").expect("not held"));
    die_waiting(&lock);
    drop(lock.read().expect("nobody living is in the way"));
    die_waiting(&lock);
    assert!(matches!(lock.try_write(), Ok(None)));
    let next = Child::start(|| drop(lock.write().expect("nobody died writing")));
    wait_asleep(next.pid());
    reading.kill();
    next.finish();
    // The lock is swept before any process meets it.
    let mut reading = reader(&lock);
    die_waiting(&lock);
    reading.kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 2);
    drop(lock.read().expect("nobody died writing"));
    drop(lock.try_write().expect("nobody died writing").expect("not held"));
}

fn a_reader_who_reads_again_after_that(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let first = lock.read().expect("free");
    die_waiting(&lock);
    // It has been inside all the time: no writer was.
    let second = lock.read().expect("as before");
    die_waiting(&lock);
    let third = lock.try_read().expect("as before").expect("not held");
    for _ in 0..2 {
        die_waiting(&lock);
        assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
        drop(lock.try_read().expect("as before, and after a sweep").expect("not held"));
        die_waiting(&lock);
        assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
        drop(lock.read().expect("as before, and after a sweep"));
    }
    drop((first, second, third));
    drop(lock.try_write().expect("nothing is left of them").expect("not held"));
}

fn who_upgrades_after_that_is_not_told(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let reading = lock.read().expect("free");
    die_waiting(&lock);
    let mut writing = reading.try_upgrade().expect("no writer was inside");
    writing[0] += 1;
    let reading = WriteGuard::downgrade(writing).expect("whole");
    die_waiting(&lock);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    drop(reading.try_upgrade().expect("the same after a sweep"));
    assert_eq!(lock.read().expect("whole")[0], 1);
    assert_eq!(lock.holders(), []);
}

/// Told, and killed before it has repaired, by way of reading and of writing: the next is told
/// again.
fn told_and_killed_before_repair(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    orphan(&lock);
    for reads in [true, false, true] {
        let board = Board::new();
        let mut child = Child::start(|| {
            let told = if reads { lock.read().err() } else { lock.write().err() };
            assert!(matches!(told, Some(LockError::OwnerDied(_))));
            board.set(0, 1);
            pause();
        });
        board.reach(0, 1);
        child.kill();
        assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    }
    match lock.try_read() {
        Err(LockError::OwnerDied(guard)) => repair(guard),
        got => panic!("{got:?}"),
    }
    drop(lock.read().expect("whole"));
}

/// Told of a death, a reader or a writer has no answer and goes on; others are told in its place,
/// until one repairs.
fn a_reader_that_has_no_answer_leaves_the_lock_to_others(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    orphan(&lock);
    for _ in 0..2 {
        if let Ok(_reading) = lock.read() {
            panic!("nobody has repaired it");
        }
        if let Ok(_writing) = lock.write() {
            panic!("nobody has repaired it");
        }
        assert!(matches!(lock.try_read(), Err(LockError::OwnerDied(_))));
        assert!(matches!(lock.try_write(), Err(LockError::OwnerDied(_))));
    }
    // Also after a sweep, and after one that dies before it has an answer.
    assert!(domain.sweep(false).is_ok());
    Child::start(|| std::mem::forget(lock.read())).finish();
    let Err(LockError::OwnerDied(mut guard)) = lock.read() else {
        panic!("nobody has repaired it")
    };
    guard[1] = guard[0];
    guard.mark_consistent();
    drop(guard);
    drop(lock.read().expect("whole"));
}

fn not_recoverable_is_refused_to_all(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let mut owner = writer(&lock);
    let board = Board::new();
    let sleepers: Vec<Child> = (0..6)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                let error = if n % 2 == 0 { lock.read().err() } else { lock.write().err() };
                match error.expect("an owner died") {
                    LockError::OwnerDied(guard) => {
                        board.add(0, 1);
                        guard.mark_not_recoverable();
                    }
                    LockError::Failed(AcquireError::NotRecoverable) => drop(board.add(1, 1)),
                    error => panic!("{error}"),
                };
            })
        })
        .collect();
    for sleeper in &sleepers {
        wait_asleep(sleeper.pid());
    }
    owner.kill();
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (1, 5));
    assert!(matches!(lock.read(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert!(matches!(lock.try_read(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert!(matches!(lock.write(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert!(matches!(lock.try_write(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert_eq!(lock.holders(), [], "who is refused leaves nothing");
}

fn reset_starts_anew(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    orphan(&lock);
    let Err(LockError::OwnerDied(guard)) = lock.read() else { panic!("a writer died") };
    guard.mark_not_recoverable();
    assert!(matches!(lock.read(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    // Several processes write at once, and readers beside them must never see the old value as a
    // whole one.
    let children: Vec<Child> = (0..8)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                if n % 2 == 0 {
                    lock.reset([n; 2]).expect("reset");
                }
                loop {
                    match lock.read() {
                        Ok(guard) => break assert_eq!(guard[0], guard[1]),
                        Err(LockError::Failed(AcquireError::NotRecoverable)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    // A lock that is whole may be reset too, also from a dead owner, also one with dead readers.
    reader(&lock).kill();
    orphan(&lock);
    lock.reset([80; 2]).expect("reset");
    assert_eq!(*lock.read().expect("whole"), [80; 2]);
}

fn not_downgraded_before_it_is_repaired(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    orphan(&lock);
    let Err(LockError::OwnerDied(guard)) = lock.read() else { panic!("a writer died") };
    let mut guard = guard.downgrade().expect_err("readers must not see this");
    guard[1] = guard[0];
    guard.mark_consistent();
    let reading = guard.downgrade().expect("repaired");
    assert_eq!(reading[0], reading[1]);
    drop(lock.try_read().expect("beside it").expect("not held"));
}

fn a_sweep_takes_the_names_of_the_dead(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let mut children = [reader(&lock), reader(&lock)];
    children.iter_mut().for_each(Child::kill);
    let living = reader(&lock);
    assert_eq!(domain.sweep(true).expect("looks").claims, 2);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 2);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(lock.holders().len(), 1, "the living one's claim stays");
    drop(living);
    orphan(&lock);
    // The reader killed by dropping it, and the writer.
    let swept = domain.sweep(false).expect("sweeps").claims;
    assert!((1..=2).contains(&swept), "{swept}");
    assert_eq!(lock.holders(), []);
    match lock.read() {
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        got => panic!("told after a sweep too: {got:?}"),
    }
    drop(lock.read().expect("whole"));
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

/// The reader for which there was no word left holds what writers hold, but it only read.
fn the_last_reader_of_all_dies(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let guards: Vec<_> = (0..1_024).map(|_| lock.read().expect("a word each")).collect();
    reader(&lock).kill();
    // We have been inside all the time.
    drop(lock.read().expect("as before"));
    reader(&lock).kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    drop(lock.read().expect("as before, and after a sweep"));
    reader(&lock).kill();
    drop(guards);
    drop(lock.write().expect("nobody died writing"));
}

fn a_stopped_reader_is_waited_for(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let child = Child::start(|| {
        let _guard = lock.read().expect("free");
        board.set(0, 1);
        board.reach(0, 2);
    });
    board.reach(0, 1);
    child.stop();
    let soon = std::time::Duration::from_millis(20);
    assert!(matches!(lock.write_timeout(soon), Ok(None)));
    board.set(0, 2);
    child.go_on();
    drop(lock.write().expect("it leaves"));
    child.finish();
}

fn a_thread_that_ends_reading_is_a_death_too(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(lock.read().expect("free")));
    });
    wait_until("the thread is dead", || matches!(lock.try_write(), Ok(Some(_))));
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(lock.write().expect("free")));
    });
    wait_until("the thread's death is told", || {
        matches!(lock.try_read(), Err(LockError::OwnerDied(_)))
    });
}

/// Words of the board: finished changes by process, then rounds by process.
const PROCESSES: usize = 5;

fn change(mut guard: WriteGuard<'_, Pair>) -> WriteGuard<'_, Pair> {
    assert_eq!(guard[0], guard[1], "entered torn data unawares");
    guard[0] += 1;
    guard[1] += 1;
    guard
}

fn repair(mut guard: WriteGuard<'_, Pair>) {
    guard[1] = guard[0];
    guard.mark_consistent();
}

fn work(lock: &RwLock<Pair>, board: Board, n: usize) {
    let mut random = Random::new();
    loop {
        match random.below(8) {
            0 | 1 => match lock.write() {
                Ok(guard) => {
                    drop(change(guard));
                    board.add(n, 1);
                }
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Err(error) => panic!("{error}"),
            },
            2 => match lock.write() {
                Ok(guard) => {
                    let guard = change(guard).downgrade().expect("consistent");
                    assert_eq!(guard[0], guard[1]);
                    drop(guard);
                    board.add(n, 1);
                }
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Err(error) => panic!("{error}"),
            },
            3 => match lock.read() {
                Ok(guard) => {
                    assert_eq!(guard[0], guard[1]);
                    let read = guard[0];
                    match guard.upgrade_until(Deadline::NEVER) {
                        Ok(guard) => {
                            assert_eq!(guard[0], read, "somebody wrote in between");
                            drop(change(guard));
                            board.add(n, 1);
                        }
                        Err(refused) => drop(refused),
                    }
                }
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Err(error) => panic!("{error}"),
            },
            4 => match lock.write_timeout(std::time::Duration::from_micros(100)) {
                Ok(Some(guard)) => {
                    drop(change(guard));
                    board.add(n, 1);
                }
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Ok(None) => {}
                Err(error) => panic!("{error}"),
            },
            _ => match lock.read() {
                Ok(guard) => {
                    assert_eq!(guard[0], guard[1], "read torn data unawares");
                    // A second time, unless a process waits to write.
                    match lock.read() {
                        Ok(again) => assert_eq!(*again, *guard),
                        Err(LockError::Failed(AcquireError::Deadlock)) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
                Err(LockError::OwnerDied(guard)) => repair(guard),
                Err(error) => panic!("{error}"),
            },
        }
        board.add(PROCESSES + n, 1);
    }
}

fn kill_at_random(world: &World, kills: u64, prepare: fn()) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let mut random = Random::new();
    let start = |n| {
        let lock = &lock;
        Child::start(move || {
            prepare();
            work(lock, board, n);
        })
    };
    let all_go_on = || {
        for n in PROCESSES..2 * PROCESSES {
            board.reach(n, board.get(n) + 10);
        }
    };
    let mut children: Vec<Child> = (0..PROCESSES).map(start).collect();
    for kill in 0..kills {
        random.pause(4_000);
        let n = random.below(PROCESSES as u64) as usize;
        children[n].kill();
        children[n] = start(n);
        if kill % 20 == 0 {
            all_go_on();
        }
    }
    all_go_on();
    children.iter_mut().for_each(Child::kill);
    let value = match lock.write() {
        Ok(guard) => guard[0],
        Err(LockError::OwnerDied(guard)) => guard[0],
        Err(error) => panic!("{error}"),
    };
    let finished: u64 = (0..PROCESSES).map(|n| board.get(n)).sum();
    assert!(value >= finished, "finished work was lost: {value} < {finished}");
    assert!(value <= finished + kills + PROCESSES as u64, "{value} > {finished} and a death each");
    assert_eq!(domain.stats().rescues, 0);
}

fn random_kills(world: &World) {
    kill_at_random(world, 1_000, NOTHING);
}

fn random_kills_without_futex_waitv(world: &World) {
    kill_at_random(world, 100, NO_WAITV);
}
