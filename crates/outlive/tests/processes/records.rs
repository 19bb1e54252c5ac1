//! A user's own struct with locks inside: each tells, and a sweep finds them all without knowing
//! the type.

use std::sync::atomic::{AtomicU64, Ordering};

use outlive::sync::{AcquireError, EmbeddedMutex, LockError, Record};
use outlive::{Detail, Domain, Error, Kind};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    each_lock_tells,
    a_sweep_finds_the_locks_of_the_dead,
    sleepers_on_an_embedded_lock,
    the_initialiser_runs_once,
    another_record_is_refused,
    as_many_locks_as_a_header_has_room_for,
);

outlive::record! {
    /// What the processes of a made-up line share.
    struct Line {
        ticks: AtomicU64,
        position: EmbeddedMutex<[u64; 3]>,
        stations: [EmbeddedMutex<u64>; 4],
    }
}

fn open(domain: &Domain) -> Record<Line> {
    Record::options()
        .init(|line: &mut Line| *line.position.get_mut() = [1, 2, 3])
        .open_or_create(domain, "line")
        .expect("opens")
}

/// A child that holds the position and two stations, and is killed.
fn die_inside(line: &Record<Line>) {
    let board = Board::new();
    let mut child = Child::start(|| {
        let _position = line.lock(|line| &line.position).expect("free");
        let mut station = line.lock(|line| &line.stations[1]).expect("free");
        *station = 9;
        let _station = line.lock(|line| &line.stations[3]).expect("free");
        line.ticks.fetch_add(1, Ordering::Relaxed);
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child.kill();
}

fn each_lock_tells(world: &World) {
    let domain = world.domain();
    let line = open(&domain);
    die_inside(&line);
    drop(line.lock(|line| &line.stations[0]).expect("was not held"));
    match line.lock(|line| &line.stations[1]) {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 9);
            guard.mark_consistent();
        }
        other => panic!("{other:?}"),
    }
    drop(line.lock(|line| &line.stations[1]).expect("whole"));
    assert!(matches!(line.lock(|line| &line.position), Err(LockError::OwnerDied(_))));
    let Err(LockError::OwnerDied(guard)) = line.lock(|line| &line.position) else {
        panic!("nobody has repaired it")
    };
    guard.mark_not_recoverable();
    assert!(matches!(
        line.lock(|line| &line.position),
        Err(LockError::Failed(AcquireError::NotRecoverable))
    ));
    assert_eq!(line.ticks.load(Ordering::Relaxed), 1, "atomics stay as they were left");
}

fn a_sweep_finds_the_locks_of_the_dead(world: &World) {
    let domain = world.domain();
    let line = open(&domain);
    die_inside(&line);
    let entry = domain.entry("line").expect("there");
    assert_eq!(entry.kind, Ok(Kind::Record));
    assert_eq!(entry.dead_claims, 3);
    let Detail::Record { locks, holders, .. } = entry.detail else { panic!("{:?}", entry.detail) };
    assert_eq!((locks, holders.len()), (5, 3));
    assert!(holders.iter().all(|holder| !holder.alive));
    let looked = domain.sweep(true).expect("looks");
    assert_eq!(looked.claims, 3);
    assert_eq!(domain.sweep(true).expect("looks"), looked, "looking changes nothing");
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 3);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(domain.entry("line").expect("there").dead_claims, 0);
    for told in [1, 3] {
        let lock = line.lock(|line| &line.stations[told]);
        assert!(matches!(lock, Err(LockError::OwnerDied(_))), "told after a sweep too");
    }
    drop(line.lock(|line| &line.stations[0]).expect("was not held"));
}

fn sleepers_on_an_embedded_lock(world: &World) {
    let domain = world.domain();
    let line = open(&domain);
    let board = Board::new();
    let mut owner = Child::start(|| {
        let _guard = line.lock(|line| &line.position).expect("free");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    let sleepers: Vec<Child> = (0..4)
        .map(|_| {
            Child::start(|| match line.lock(|line| &line.position) {
                Ok(_) => {}
                Err(LockError::OwnerDied(mut guard)) => {
                    guard.mark_consistent();
                    board.add(1, 1);
                }
                Err(error) => panic!("{error}"),
            })
        })
        .collect();
    for sleeper in &sleepers {
        wait_asleep(sleeper.pid());
    }
    owner.kill();
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!(board.get(1), 1, "exactly one is told");
}

fn the_initialiser_runs_once(world: &World) {
    let domain = world.domain();
    let children: Vec<Child> = (0..8)
        .map(|n| {
            let domain = &domain;
            Child::start(move || {
                let line = Record::options()
                    .init(|line: &mut Line| *line.position.get_mut() = [n; 3])
                    .open_or_create(domain, "line");
                let line = line.expect("opens");
                let position = *line.lock(|line| &line.position).expect("free");
                assert!(position == [position[0]; 3]);
                line.ticks.fetch_add(1, Ordering::Relaxed);
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(open(&domain).ticks.load(Ordering::Relaxed), 8, "all have the same one");
}

outlive::record! {
    struct Other { ticks: AtomicU64 }
}

fn another_record_is_refused(world: &World) {
    let domain = world.domain();
    open(&domain);
    let error = Record::<Other>::open_or_create(&domain, "line").err().expect("another type");
    let text = error.to_string();
    assert!(matches!(error, Error::OtherType { .. }), "{text}");
    assert!(text.contains("Line") && text.contains("Other"), "{text}");
}

outlive::record! {
    struct Fits { locks: [EmbeddedMutex<u8>; 46] }
}
outlive::record! {
    struct TooMany { locks: [EmbeddedMutex<u8>; 47] }
}

fn as_many_locks_as_a_header_has_room_for(world: &World) {
    let domain = world.domain();
    let fits = Record::<Fits>::open_or_create(&domain, "fits").expect("opens");
    let board = Board::new();
    let mut child = Child::start(|| {
        let _guards: Vec<_> = (0..46).map(|n| fits.lock(|fits| &fits.locks[n])).collect();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child.kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 46);
    let error = Record::<TooMany>::open_or_create(&domain, "too many").err().expect("refused");
    assert!(error.to_string().contains("46 locks"), "{error}");
}
