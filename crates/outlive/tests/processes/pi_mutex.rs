//! The mutex with priority inheritance while no process dies: which thread gets it, which one is
//! refused, and what the mutex says about itself.

use std::time::{Duration, Instant, SystemTime};

use outlive::sync::{AcquireError, EmbeddedPiMutex, LockError, PiMutex, Record};
use outlive::{Deadline, Detail, Domain, Error, Kind};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::namespaces::{skip_if_not_permitted, start_namespace};
use crate::runner::World;

crate::checks!(
    processes_count_together,
    a_holder_is_waited_for,
    every_kind_of_deadline_ends_a_wait,
    one_that_holds_it_is_told,
    a_holder_is_described,
    embedded_ones_in_all_processes,
    another_namespace_is_refused,
    another_libc_is_refused,
    a_guard_does_nothing_in_a_forked_child,
    a_guard_that_was_forgotten_stays_mapped,
    opened_often_it_is_mapped_once,
    a_circle_ends_when_one_of_it_dies,
);

outlive::record! {
    /// Locks of one plant.
    struct Plant {
        pub valve: EmbeddedPiMutex<[u64; 2]>,
        pub pumps: [EmbeddedPiMutex<u64>; 2],
    }
}

pub fn opened(domain: &Domain) -> PiMutex<u64> {
    PiMutex::options(0).open_or_create(domain, "m").expect("opens")
}

/// A child that holds the mutex until word 1 of the board is set.
fn hold(mutex: &PiMutex<u64>, board: Board) -> Child {
    let child = Child::start(|| {
        let guard = mutex.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
        drop(guard);
    });
    board.reach(0, 1);
    child
}

fn processes_count_together(world: &World) {
    const EACH: u64 = 20_000;
    let domain = world.domain();
    let mutex = PiMutex::<[u64; 2]>::options([0; 2]).open_or_create(&domain, "m").expect("opens");
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

fn a_holder_is_waited_for(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let board = Board::new();
    let child = hold(&mutex, board);
    assert!(matches!(mutex.try_lock(), Ok(None)));
    let sleeper = Child::start(|| *mutex.lock().expect("given back") += 1);
    wait_asleep(sleeper.pid());
    board.set(1, 1);
    sleeper.finish();
    child.finish();
    assert_eq!(*mutex.try_lock().expect("free").expect("not held"), 1);
}

fn every_kind_of_deadline_ends_a_wait(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    drop(mutex.lock_timeout(Duration::ZERO).expect("free").expect("in time"));
    let board = Board::new();
    let child = hold(&mutex, board);
    let soon = Duration::from_millis(20);
    let begun = Instant::now();
    assert!(matches!(mutex.lock_timeout(soon), Ok(None)));
    assert!(matches!(mutex.lock_until(Deadline::at(Instant::now() + soon)), Ok(None)));
    assert!(matches!(
        mutex.lock_until(Deadline::at_time_of_day(SystemTime::now() + soon)),
        Ok(None)
    ));
    assert!(begun.elapsed() >= soon * 3, "none gave up early: {:?}", begun.elapsed());
    assert!(matches!(mutex.lock_timeout(Duration::ZERO), Ok(None)));
    // Longer than one sleep in libc.
    assert!(matches!(mutex.lock_timeout(Duration::from_millis(1_100)), Ok(None)));
    board.set(1, 1);
    child.finish();
    drop(mutex.lock_timeout(soon).expect("free").expect("in time"));
}

fn one_that_holds_it_is_told(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let _guard = mutex.lock().expect("free");
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::Deadlock))));
    assert!(matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))));
    assert!(matches!(mutex.reset(1), Err(AcquireError::Deadlock)));
}

fn a_holder_is_described(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    assert_eq!(mutex.holder(), None);
    let board = Board::new();
    let mut child = hold(&mutex, board);
    let holder = mutex.holder().expect("held");
    assert_eq!(
        (holder.pid as i32, holder.tid as i32, holder.alive),
        (child.pid(), child.pid(), true)
    );
    let look = || {
        let entry = domain
            .entries()
            .expect("readable")
            .into_iter()
            .find(|entry| entry.name == "m")
            .expect("there");
        assert_eq!(entry.kind, Ok(Kind::PiMutex));
        match entry.detail {
            Detail::Lock(detail) => detail,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(look().holders, [holder]);
    child.kill();
    let detail = look();
    assert_eq!((detail.holders.len(), detail.holders[0].alive), (1, false));
    assert!(detail.state.is_some_and(|state| state.contains("died")));
    let report = domain.sweep(false).expect("sweeps");
    assert!(domain.sweep(false).expect("sweeps").is_clean(), "{report:?}, and nothing after it");
    assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))), "a sweep does not hide a death");
    assert!(!look().not_recoverable, "dropped without repair, it stays recoverable");
    let Err(LockError::OwnerDied(guard)) = mutex.lock() else { panic!("told again") };
    guard.mark_not_recoverable();
    assert!(look().not_recoverable);
}

fn embedded_ones_in_all_processes(world: &World) {
    const EACH: u64 = 5_000;
    let domain = world.domain();
    let open = || {
        Record::<Plant>::options()
            .init(|plant| *plant.valve.get_mut() = [7, 7])
            .open_or_create(&domain, "plant")
            .expect("opens")
    };
    let children: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                let plant = open();
                let valve = plant.handle(|plant| &plant.valve);
                let pump = plant.handle(|plant| &plant.pumps[1]);
                for _ in 0..EACH {
                    valve.lock().expect("nobody dies")[0] += 1;
                    *pump.lock().expect("nobody dies") += 1;
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    let plant = open();
    assert_eq!(*plant.handle(|plant| &plant.valve).lock().expect("free"), [7 + 3 * EACH, 7]);
    assert_eq!(*plant.handle(|plant| &plant.pumps[0]).lock().expect("free"), 0);
    assert_eq!(*plant.handle(|plant| &plant.pumps[1]).lock().expect("free"), 3 * EACH);
}

fn another_namespace_is_refused(world: &World) {
    skip_if_not_permitted(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    let plant = Record::<Plant>::open_or_create(&domain, "plant").expect("opens");
    let valve = plant.handle(|plant| &plant.valve);
    drop(valve.lock().expect("free"));
    start_namespace(|| {
        let error =
            PiMutex::<u64>::options(0).open_or_create(&world.domain(), "m").err().expect("refused");
        assert!(matches!(error, Error::OtherEnvironment { what: "pid namespace", .. }), "{error}");
        assert!(error.to_string().contains("plain mutex"), "{error}");
        // Also through what was opened before.
        let refused = |error| {
            matches!(
                error,
                LockError::Failed(AcquireError::System(Error::OtherEnvironment {
                    what: "pid namespace",
                    ..
                }))
            )
        };
        assert!(mutex.lock().err().is_some_and(refused));
        assert!(valve.try_lock().err().is_some_and(|error| matches!(
            error,
            LockError::Failed(AcquireError::System(Error::OtherEnvironment {
                what: "pid namespace",
                ..
            }))
        )));
        assert!(matches!(
            mutex.reset(1),
            Err(AcquireError::System(Error::OtherEnvironment { what: "pid namespace", .. }))
        ));
        // One of its own it may have.
        drop(
            PiMutex::<u64>::options(0)
                .open_or_create(&world.domain(), "own")
                .expect("opens")
                .lock()
                .expect("free"),
        );
    })
    .finish();
    drop(mutex.lock().expect("untouched"));
}

fn another_libc_is_refused(world: &World) {
    use std::os::unix::fs::FileExt;
    let domain = world.domain();
    drop(opened(&domain));
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(domain.path().join("m"))
        .expect("there");
    let mut home = [0; 8];
    file.read_exact_at(&mut home, 12_288).expect("read");
    // Another offset of the lock word, as musl has it.
    home[0] ^= 4;
    file.write_all_at(&home, 12_288).expect("written");
    let error = PiMutex::<u64>::options(0).open_or_create(&domain, "m").err().expect("refused");
    assert!(matches!(error, Error::OtherEnvironment { what: "C library", .. }), "{error}");
}

fn a_guard_does_nothing_in_a_forked_child(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    let mut guard = Some(mutex.lock().expect("free"));
    Child::start(|| {
        drop(guard.take());
        assert!(matches!(mutex.try_lock(), Ok(None)), "it is the parent's");
    })
    .finish();
    Child::start(|| assert!(matches!(mutex.try_lock(), Ok(None)), "still")).finish();
    drop(guard);
    drop(mutex.try_lock().expect("given back").expect("not held"));
}

/// libc's list of this thread's locks would lead into memory that is not there any more.
fn a_guard_that_was_forgotten_stays_mapped(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    std::mem::forget(mutex.lock().expect("free"));
    drop(mutex);
    let plant = Record::<Plant>::open_or_create(&domain, "plant").expect("opens");
    let valve = plant.handle(|plant| &plant.valve);
    std::mem::forget(valve.lock().expect("free"));
    drop(valve);
    drop(plant);
    // Each of these writes to its neighbours in the list.
    for name in ["a", "b", "c"] {
        drop(
            PiMutex::<u64>::options(0)
                .open_or_create(&domain, name)
                .expect("opens")
                .lock()
                .expect("free"),
        );
    }
    assert!(
        matches!(opened(&domain).try_lock(), Err(LockError::Failed(AcquireError::Deadlock))),
        "held still, by this thread"
    );
}

fn opened_often_it_is_mapped_once(world: &World) {
    let domain = world.domain();
    let count = |name: &str| {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
        maps.lines().filter(|line| line.ends_with(&format!("/{name}"))).count()
    };
    // Made by another: the maker's own mapping has no name.
    Child::start(|| {
        drop(opened(&domain));
        drop(Record::<Plant>::open_or_create(&domain, "plant").expect("opens"));
    })
    .finish();
    for _ in 0..50 {
        drop(opened(&domain).lock().expect("free"));
        let plant = Record::<Plant>::open_or_create(&domain, "plant").expect("opens");
        drop(plant.handle(|plant| &plant.valve).lock().expect("free"));
    }
    // A mapping may be shown in several lines, as parts of it have pages.
    assert!((1..5).contains(&count("m")), "{}", count("m"));
    assert!((1..5).contains(&count("plant")), "{}", count("plant"));
}

/// Each holds what the other wants. libc sleeps on that until its deadline, which therefore is
/// never far.
fn a_circle_ends_when_one_of_it_dies(world: &World) {
    let domain = world.domain();
    let [one, two] = ["one", "two"]
        .map(|name| PiMutex::<u64>::options(0).open_or_create(&domain, name).expect("opens"));
    let board = Board::new();
    let start = |mine: &PiMutex<u64>, wanted: &PiMutex<u64>, word: usize| {
        Child::start(|| {
            let _mine = mine.lock().expect("free");
            board.add(0, 1);
            board.reach(0, 2);
            match wanted.lock() {
                Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
                other => panic!("{other:?}"),
            }
            board.set(word, 1);
        })
    };
    let mut first = start(&one, &two, 1);
    let second = start(&two, &one, 2);
    wait_asleep(first.pid());
    wait_asleep(second.pid());
    assert!(matches!(one.lock_timeout(Duration::from_millis(50)), Ok(None)));
    assert_eq!((board.get(1), board.get(2)), (0, 0));
    first.kill();
    second.finish();
    assert_eq!(board.get(2), 1);
}
