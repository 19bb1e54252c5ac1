//! The mutex when its owner dies: which process is told, which one gets in, and what becomes of a
//! lock that no process repairs.

use std::time::Duration;

use outlive::Domain;
use outlive::sync::{AcquireError, LockError, Mutex};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_fresh_locker_is_told,
    try_lock_is_told,
    a_sleeper_is_told,
    of_eight_sleepers_one_is_told,
    of_eight_sleepers_one_is_told_without_futex_waitv,
    with_and_without_futex_waitv_together,
    all_waiters_get_on_after_many_deaths: 60,
    nobody_sees_half_a_reset: 60,
    woken_sleepers_are_killed: 60,
    a_stopped_sleeper_delays_nobody,
    told_and_killed_before_repair,
    who_has_no_answer_leaves_the_lock_to_others,
    not_recoverable_is_refused_to_all,
    marked_not_recoverable_unasked_for_and_in_a_forked_child,
    reset_starts_anew,
    several_locks_at_once,
    a_thread_that_ends_is_a_death_too,
);

fn pause() -> ! {
    loop {
        std::thread::park();
    }
}

/// A child that holds the mutex until it is killed.
fn hold(mutex: &Mutex<u64>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let mut guard = match mutex.lock() {
            Ok(guard) => guard,
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                guard
            }
            Err(error) => panic!("{error}"),
        };
        *guard += 1;
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child
}

fn opened(domain: &Domain) -> Mutex<u64> {
    Mutex::options(0).open_or_create(domain, "m").expect("opens")
}

fn a_fresh_locker_is_told(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 1, "as the dead one left it");
            *guard = 5;
            guard.mark_consistent();
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(*mutex.lock().expect("whole again"), 5);
    assert_eq!(domain.stats().owner_deaths, 1);
}

fn try_lock_is_told(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    assert!(matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))));
}

/// Sleepers that repair when they are told, and count on the board: word 0 told, word 1 not told.
fn sleepers<'a>(mutex: &'a Mutex<u64>, board: Board, prepare: &'a [fn()]) -> Vec<Child> {
    let children: Vec<Child> = prepare
        .iter()
        .map(|prepare| {
            Child::start(|| {
                prepare();
                match mutex.lock() {
                    Ok(_guard) => board.add(1, 1),
                    Err(LockError::OwnerDied(mut guard)) => {
                        guard.mark_consistent();
                        board.add(0, 1)
                    }
                    Err(error) => panic!("{error}"),
                };
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    children
}

fn tell_sleepers(world: &World, rounds: u32, prepare: &[fn()]) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for _ in 0..rounds {
        let mut owner = hold(&mutex);
        let board = Board::new();
        let children = sleepers(&mutex, board, prepare);
        owner.kill();
        children.into_iter().for_each(Child::finish);
        assert_eq!(board.get(0), 1, "exactly one is told");
        assert_eq!(board.get(1), prepare.len() as u64 - 1);
    }
}

const NOTHING: fn() = || {};
const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

fn a_sleeper_is_told(world: &World) {
    tell_sleepers(world, 20, &[NOTHING]);
}

fn of_eight_sleepers_one_is_told(world: &World) {
    tell_sleepers(world, 20, &[NOTHING; 8]);
}

fn of_eight_sleepers_one_is_told_without_futex_waitv(world: &World) {
    tell_sleepers(world, 5, &[NO_WAITV; 8]);
}

fn with_and_without_futex_waitv_together(world: &World) {
    tell_sleepers(world, 10, &[NOTHING, NO_WAITV, NOTHING, NO_WAITV, NOTHING, NO_WAITV]);
}

/// glibc's bug 4512: with its robust mutexes, waiters could sleep on after an owner's death.
fn all_waiters_get_on_after_many_deaths(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for _ in 0..30 {
        let board = Board::new();
        let mut owner = hold(&mutex);
        // Each gets in, and every other dies inside.
        let mut children: Vec<Child> = (0..8)
            .map(|n| {
                let mutex = &mutex;
                Child::start(move || {
                    let _guard = match mutex.lock() {
                        Ok(guard) => guard,
                        Err(LockError::OwnerDied(mut guard)) => {
                            guard.mark_consistent();
                            guard
                        }
                        Err(error) => panic!("{error}"),
                    };
                    board.add(0, 1);
                    if n % 2 == 0 {
                        // SAFETY: no pointers are passed.
                        unsafe { libc::raise(libc::SIGKILL) };
                    }
                })
            })
            .collect();
        for child in &children {
            wait_asleep(child.pid());
        }
        owner.kill();
        for child in &mut children {
            child.wait();
        }
        assert_eq!(board.get(0), 8, "all got in");
    }
}

/// F1 of the protocol's history: a woken sleeper may be killed before it runs.
fn woken_sleepers_are_killed(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for round in 0..60 {
        let board = Board::new();
        let owner = if round % 2 == 0 { Some(hold(&mutex)) } else { None };
        let guard = owner.is_none().then(|| match mutex.lock() {
            Ok(guard) => guard,
            Err(LockError::OwnerDied(mut guard)) => {
                guard.mark_consistent();
                guard
            }
            Err(error) => panic!("{error}"),
        });
        let mut children = sleepers(&mutex, board, &[NOTHING; 6]);
        // A death or an unlock wakes them; four of the sleepers that it may have woken are killed.
        if let Some(owner) = &owner {
            owner.signal(libc::SIGKILL);
        }
        drop(guard);
        for child in &children[..4] {
            child.signal(libc::SIGKILL);
        }
        for child in children.drain(4..) {
            child.finish();
        }
    }
}

fn a_stopped_sleeper_delays_nobody(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    for stopped in 0..3 {
        let board = Board::new();
        let mut owner = hold(&mutex);
        let mut children = sleepers(&mutex, board, &[NOTHING; 3]);
        children[stopped].stop();
        owner.kill();
        let late = children.remove(stopped);
        children.into_iter().for_each(Child::finish);
        assert_eq!(board.get(0) + board.get(1), 2);
        late.go_on();
        late.finish();
    }
}

fn told_and_killed_before_repair(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex).kill();
    for _ in 0..3 {
        let board = Board::new();
        let mut child = Child::start(|| {
            let guard = mutex.lock();
            assert!(matches!(guard, Err(LockError::OwnerDied(_))));
            board.set(0, 1);
            pause();
        });
        board.reach(0, 1);
        child.kill();
    }
    match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        other => panic!("{other:?}"),
    }
    drop(mutex.lock().expect("whole"));
}

fn mark_not_recoverable(mutex: &Mutex<u64>) {
    hold(mutex).kill();
    match mutex.lock() {
        Err(LockError::OwnerDied(guard)) => guard.mark_not_recoverable(),
        other => panic!("{other:?}"),
    }
}

/// Told of a death, it has no answer and goes on; others are told in its place, until one repairs.
fn who_has_no_answer_leaves_the_lock_to_others(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let mut owner = hold(&mutex);
    let board = Board::new();
    let children: Vec<Child> = (0..8)
        .map(|_| {
            Child::start(|| match mutex.lock() {
                Ok(_) => panic!("nobody has repaired it"),
                Err(LockError::OwnerDied(_guard)) => drop(board.add(0, 1)),
                Err(error) => panic!("{error}"),
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    owner.kill();
    children.into_iter().for_each(Child::finish);
    assert_eq!(board.get(0), 8);
    for _ in 0..2 {
        if let Ok(_guard) = mutex.lock() {
            panic!("nobody has repaired it");
        }
        assert!(matches!(mutex.try_lock(), Err(LockError::OwnerDied(_))));
    }
    assert_eq!(mutex.holder(), None);
    match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
        other => panic!("{other:?}"),
    }
    drop(mutex.lock().expect("whole"));
}

fn not_recoverable_is_refused_to_all(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let mut owner = hold(&mutex);
    let board = Board::new();
    // All are told to go, one of them by being told of the death and marking the lock.
    let children: Vec<Child> = (0..8)
        .map(|_| {
            Child::start(|| {
                match mutex.lock() {
                    Err(LockError::OwnerDied(guard)) => {
                        board.add(0, 1);
                        guard.mark_not_recoverable();
                    }
                    Err(LockError::Failed(AcquireError::NotRecoverable)) => drop(board.add(1, 1)),
                    other => panic!("{other:?}"),
                };
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    owner.kill();
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (1, 7));
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert!(matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    let text = mutex.lock().expect_err("not recoverable").to_string();
    assert!(text.contains("reset"), "{text}");
}

fn marked_not_recoverable_unasked_for_and_in_a_forked_child(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    // No process died: the owner itself found the value beyond repair.
    let guard = mutex.lock().expect("free");
    let inherited = std::cell::Cell::new(Some(guard));
    Child::start(|| inherited.take().expect("the parent's").mark_not_recoverable()).finish();
    assert!(mutex.holder().is_some(), "a child marks nothing of its parent's");
    inherited.take().expect("ours").mark_not_recoverable();
    assert_eq!(mutex.holder(), None);
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    mutex.reset(3).expect("reset");
    assert_eq!(*mutex.lock().expect("whole"), 3);
}

fn reset_starts_anew(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    mark_not_recoverable(&mutex);
    mutex.reset(70).expect("reset");
    assert_eq!(*mutex.lock().expect("whole"), 70);
    // A lock that is whole may be reset too, also from a dead owner.
    hold(&mutex).kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    mutex.reset(71).expect("reset after a sweep");
    assert_eq!(*mutex.lock().expect("whole"), 71);
    hold(&mutex).kill();
    mutex.reset(80).expect("reset");
    assert_eq!(*mutex.lock().expect("whole"), 80);
    // Several processes reset at once: all succeed, the lock is whole.
    mark_not_recoverable(&mutex);
    let children: Vec<Child> = (0..4)
        .map(|n| {
            let mutex = &mutex;
            Child::start(move || mutex.reset(n).expect("reset"))
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert!(*mutex.lock().expect("whole") < 4);
}

fn several_locks_at_once(world: &World) {
    let domain = world.domain();
    let names: Vec<String> = (0..50).map(|n| format!("m{n}")).collect();
    let mutexes: Vec<Mutex<u64>> = names
        .iter()
        .map(|name| Mutex::options(0).open_or_create(&domain, name).expect("opens"))
        .collect();
    let board = Board::new();
    let mut child = Child::start(|| {
        let _guards: Vec<_> = mutexes.iter().map(|mutex| mutex.lock().expect("free")).collect();
        board.set(0, 1);
        pause();
    });
    board.reach(0, 1);
    child.kill();
    for mutex in &mutexes {
        assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
    }
}

fn a_thread_that_ends_is_a_death_too(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(mutex.lock().expect("free")));
    });
    wait_until("the thread's death is told", || {
        matches!(mutex.try_lock(), Err(LockError::OwnerDied(_)))
    });
}

/// Processes that are killed at any moment give locks up with half a value inside, and reset them;
/// a process that gets in without a warning finds a whole one.
fn nobody_sees_half_a_reset(world: &World) {
    type Value = [u64; 500];
    let domain = world.domain();
    let mutex = Mutex::<Value>::options([0; 500]).open_or_create(&domain, "m").expect("opens");
    let soon = || Duration::from_secs(60);
    let (board, seen) = (Board::new(), Board::new());
    let looks = Child::start(|| {
        while board.get(1) == 0 {
            match mutex.lock_timeout(soon()) {
                Ok(value) => {
                    let value = value.expect("nobody holds it for long");
                    assert!(
                        value.iter().all(|&number| number == value[0]),
                        "half a value, and nobody said so"
                    );
                    seen.add(0, 1);
                }
                Err(LockError::OwnerDied(mut value)) => {
                    value.fill(1);
                    value.mark_consistent();
                }
                Err(LockError::Failed(AcquireError::NotRecoverable)) => {
                    seen.add(1, 1);
                }
                Err(other) => panic!("{other}"),
            }
        }
    });
    let mut random = Random::new();
    for round in 1..=150_u64 {
        let mut resets = Child::start(|| {
            for number in 2.. {
                // A thread that dies in the middle of it.
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        if let Ok(Some(mut value)) | Err(LockError::OwnerDied(mut value)) =
                            mutex.lock_timeout(soon())
                        {
                            value[..250].fill(number);
                            std::mem::forget(value);
                        }
                    });
                });
                // Not recoverable, unless the other one has repaired it.
                drop(mutex.lock_timeout(soon()));
                let reset = mutex.lock_to_reset_timeout(soon()).expect("reset");
                let mut value = reset.expect("nobody holds it for long");
                *value = [number; 500];
                value.mark_consistent();
                drop(value);
                board.set(0, round);
            }
        });
        board.reach(0, round);
        std::thread::sleep(Duration::from_micros(random.below(2000)));
        resets.kill();
    }
    board.set(1, 1);
    looks.finish();
    assert!(seen.get(0) > 0, "nothing was seen");
    mutex.reset([7; 500]).expect("free");
    assert_eq!(*mutex.lock().expect("whole"), [7; 500]);
}
