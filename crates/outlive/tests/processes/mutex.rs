//! The named mutex among living processes: exclusion, deadlines, its holder.

use std::time::Duration;

use outlive::sync::{AcquireError, LockError, Mutex, RwLock};
use outlive::{Deadline, Error};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes};
use crate::runner::World;

crate::checks!(
    held_by_another_process,
    deadlock_is_told,
    a_sleeper_gets_in_when_it_is_given_back,
    eight_sleepers_get_in_one_after_another,
    a_deadline_in_the_past_gets_one_try,
    a_holder_is_described,
    values_of_any_plain_type,
    another_type_is_refused,
    a_reset_undoes_any_state,
    processes_count_together: 60,
);

/// A child that holds the mutex until the board's word 1 says so.
fn hold<T: outlive::Plain>(mutex: &Mutex<T>, board: Board) -> Child {
    let child = Child::start(|| {
        let guard = mutex.lock();
        assert!(guard.is_ok());
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    child
}

fn held_by_another_process(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(7).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    let child = hold(&mutex, board);
    assert!(matches!(mutex.try_lock(), Ok(None)));
    let soon = Deadline::after(Duration::from_millis(10));
    assert!(matches!(mutex.lock_until(soon), Ok(None)));
    board.set(1, 1);
    assert_eq!(*mutex.lock().expect("given back"), 7);
    child.finish();
}

fn deadlock_is_told(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let again = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let guard = mutex.lock().expect("free");
    for handle in [&mutex, &again] {
        assert!(matches!(handle.lock(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.reset(1), Err(AcquireError::Deadlock)));
    }
    drop(guard);
    assert_eq!(*again.lock().expect("free"), 0);
}

fn a_sleeper_gets_in_when_it_is_given_back(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..200 {
        let guard = mutex.lock().expect("free");
        let sleeper = Child::start(|| *mutex.lock().expect("given back") += 1);
        wait_asleep(sleeper.pid());
        drop(guard);
        sleeper.finish();
    }
    assert_eq!(*mutex.lock().expect("free"), 200);
}

fn eight_sleepers_get_in_one_after_another(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for round in 0..20 {
        let guard = mutex.lock().expect("free");
        let sleepers: Vec<Child> =
            (0..8).map(|_| Child::start(|| *mutex.lock().expect("given back") += 1)).collect();
        for sleeper in &sleepers {
            wait_asleep(sleeper.pid());
        }
        drop(guard);
        sleepers.into_iter().for_each(Child::finish);
        assert_eq!(*mutex.lock().expect("free"), 8 * (round + 1));
    }
}

fn a_deadline_in_the_past_gets_one_try(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    drop(mutex.lock_timeout(Duration::ZERO).expect("free").expect("in time"));
    let board = Board::new();
    let child = hold(&mutex, board);
    assert!(matches!(mutex.lock_timeout(Duration::ZERO), Ok(None)));
    board.set(1, 1);
    child.finish();
    drop(mutex.lock_timeout(Duration::ZERO).expect("free").expect("in time"));
}

fn a_holder_is_described(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    assert_eq!(mutex.holder(), None);
    let board = Board::new();
    let mut child = hold(&mutex, board);
    let holder = mutex.holder().expect("held");
    assert_eq!((holder.pid as i32, holder.tid as i32), (child.pid(), child.pid()));
    assert!(holder.alive);
    assert!(domain.peer(holder.token).is_alive());
    child.kill();
    let holder = mutex.holder().expect("still in its name");
    assert_eq!(holder.pid as i32, child.pid());
    assert!(!holder.alive);
}

fn values_of_any_plain_type(world: &World) {
    let domain = world.domain();
    let large =
        Mutex::<[u64; 2_000]>::options([3; 2_000]).open_or_create(&domain, "large").expect("opens");
    Child::start(|| large.lock().expect("free")[1_999] = 4).finish();
    assert_eq!(large.lock().expect("free")[1_998..], [3, 4]);
    let none = Mutex::<[u8; 0]>::options([]).open_or_create(&domain, "none").expect("opens");
    drop(none.lock().expect("free"));
}

fn another_type_is_refused(world: &World) {
    let domain = world.domain();
    Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let error = Mutex::<u32>::options(0).open_or_create(&domain, "m").err().expect("another type");
    assert!(matches!(error, Error::OtherType { .. }));
    let text = error.to_string();
    assert!(text.contains("u64") && text.contains("u32") && text.contains("8 bytes"), "{text}");
    let error = Mutex::<[u16; 4]>::options([0; 4])
        .open_or_create(&domain, "m")
        .err()
        .expect("another type of that size");
    assert!(error.to_string().contains("[u16; 4]"), "{error}");
    // Languages without Rust's types have bytes, which are every type of that size.
    *Mutex::<[u8; 8]>::options([0; 8])
        .open_or_create(&domain, "m")
        .expect("as bytes")
        .lock()
        .expect("free") = 7u64.to_ne_bytes();
    assert_eq!(
        *Mutex::<u64>::options(0)
            .open_or_create(&domain, "m")
            .expect("the same")
            .lock()
            .expect("free"),
        7
    );
    assert!(matches!(
        Mutex::<[u8; 4]>::options([0; 4]).open_or_create(&domain, "m"),
        Err(Error::OtherType { .. })
    ));
}

/// Also one that only a reentrant mutex has, and that a stray write has left here.
fn a_reset_undoes_any_state(world: &World) {
    // Where the states lie: see doc/memory-layout.md.
    const STATE: u64 = BODY + 4;
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let lock = RwLock::<u64>::options(0).open_or_create(&domain, "rw").expect("opens");
    for state in 1..5 {
        ["m", "rw"].iter().for_each(|name| Bytes::of(&domain, name).set_word(STATE, state));
        mutex.reset(state.into()).expect("free");
        assert_eq!(*mutex.lock().expect("reset"), state.into());
        lock.reset(state.into()).expect("free");
        assert_eq!(*lock.read().expect("reset"), state.into());
    }
}

fn processes_count_together(world: &World) {
    const EACH: u64 = 100_000;
    let domain = world.domain();
    let mutex = Mutex::<[u64; 2]>::options([0; 2]).open_or_create(&domain, "m").expect("opens");
    let children: Vec<Child> = (0..4)
        .map(|_| {
            Child::start(|| {
                for _ in 0..EACH {
                    let mut value = mutex.lock().expect("nobody dies");
                    assert_eq!(value[0], value[1], "somebody else is inside");
                    value[0] += 1;
                    value[1] += 1;
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(*mutex.lock().expect("free"), [4 * EACH; 2]);
}
