//! A panic that unwinds through a guard: which process is told of it, and which guards it does not
//! concern.

use std::panic::{AssertUnwindSafe, catch_unwind};

use outlive::Domain;
use outlive::sync::{
    AcquireError, CeilingMutex, Condvar, EmbeddedMutex, EmbeddedRwLock, LockError, Mutex, PiMutex,
    Record, RwLock,
};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::random::Random;
use crate::realtime::skip_without_right;
use crate::runner::World;

crate::checks!(
    a_panic_under_a_mutex_is_told,
    a_sleeper_is_told_of_a_panic,
    a_panic_after_a_repair_is_told_too,
    a_panic_under_a_write_guard_is_told_to_readers_and_writers,
    a_panic_under_a_read_guard_concerns_nobody,
    a_panic_after_an_upgrade_or_a_downgrade,
    a_panic_under_priority_inheritance_is_told,
    a_panic_at_the_ceiling_is_told,
    a_panic_in_a_record_is_told,
    what_is_taken_while_unwinding_is_given_back_as_usual,
    a_panic_under_a_guard_that_waited_is_told,
    a_guard_in_its_raw_form_knows_of_no_panic,
    an_inherited_guard_does_nothing_in_a_panic,
    a_reset_that_panics_leaves_the_lock_not_recoverable,
    killed_while_they_panic: 60,
);

fn open(domain: &Domain) -> Mutex<[u64; 2]> {
    Mutex::options([0; 2]).open_or_create(domain, "m").expect("opens")
}

/// Runs it; it panics, and this thread lives on: what others are told afterwards is no death's
/// doing.
fn panics(run: impl FnOnce()) {
    // Without a message: `resume_unwind` calls no hook. It counts as a panic like any other.
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "it was to panic");
    assert!(!std::thread::panicking());
}

fn panic_now() -> ! {
    std::panic::resume_unwind(Box::new("as planned"))
}

fn a_panic_under_a_mutex_is_told(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    panics(|| {
        let mut guard = mutex.lock().expect("free");
        guard[0] += 1;
        panic_now();
    });
    assert_eq!(mutex.holder(), None);
    Child::start(|| match mutex.lock() {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, [1, 0]);
            guard[1] = guard[0];
            guard.mark_consistent();
        }
        other => panic!("{other:?}"),
    })
    .finish();
    assert_eq!(*mutex.lock().expect("repaired"), [1, 1]);
}

fn a_sleeper_is_told_of_a_panic(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let board = Board::new();
    let mut sleepers = Vec::new();
    panics(|| {
        let _guard = mutex.lock().expect("free");
        for _ in 0..4 {
            sleepers.push(Child::start(|| match mutex.lock() {
                Err(LockError::OwnerDied(mut guard)) => {
                    board.add(0, 1);
                    guard.mark_consistent();
                }
                Ok(_) => drop(board.add(1, 1)),
                Err(error) => panic!("{error}"),
            }));
        }
        sleepers.iter().for_each(|sleeper| wait_asleep(sleeper.pid()));
        panic_now();
    });
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (1, 3), "one is told, and repairs");
}

fn a_panic_after_a_repair_is_told_too(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    panics(|| {
        let _guard = mutex.lock();
        panic_now();
    });
    panics(|| {
        let Err(LockError::OwnerDied(mut guard)) = mutex.lock() else {
            panic!("told of the first")
        };
        guard.mark_consistent();
        panic_now();
    });
    // `unwrap` panics with the guard in its hand: told again.
    panics(|| drop(mutex.lock().map_err(|_| panic_now())));
    let Err(LockError::OwnerDied(mut guard)) = mutex.lock() else { panic!("told of the last") };
    guard.mark_consistent();
    drop(guard);
    drop(mutex.lock().expect("whole"));
}

fn a_panic_under_a_write_guard_is_told_to_readers_and_writers(world: &World) {
    let domain = world.domain();
    let lock = RwLock::<[u64; 2]>::options([0; 2]).open_or_create(&domain, "rw").expect("opens");
    panics(|| {
        let mut guard = lock.write().expect("free");
        guard[0] = 7;
        panic_now();
    });
    assert_eq!(lock.holders(), []);
    Child::start(|| assert!(matches!(lock.write(), Err(LockError::OwnerDied(_))))).finish();
    let Err(LockError::OwnerDied(mut guard)) = lock.read() else { panic!("a writer panicked") };
    assert_eq!(*guard, [7, 0]);
    guard.mark_consistent();
    drop(guard);
    drop(lock.read().expect("whole"));
}

fn a_panic_under_a_read_guard_concerns_nobody(world: &World) {
    let domain = world.domain();
    let lock = RwLock::<u64>::options(5).open_or_create(&domain, "rw").expect("opens");
    for _ in 0..2 {
        panics(|| {
            let _reading = lock.read().expect("free");
            panic_now();
        });
        assert_eq!(lock.holders(), []);
    }
    assert_eq!(*lock.write().expect("a reader leaves nothing half-written"), 5);
}

fn a_panic_after_an_upgrade_or_a_downgrade(world: &World) {
    let domain = world.domain();
    let lock = RwLock::<u64>::options(5).open_or_create(&domain, "rw").expect("opens");
    panics(|| {
        let _reading = lock.write().expect("free").downgrade().expect("whole");
        panic_now();
    });
    assert_eq!(*lock.read().expect("it only read"), 5);
    panics(|| {
        let _writing = lock.read().expect("free").try_upgrade().expect("alone");
        panic_now();
    });
    assert!(matches!(lock.read(), Err(LockError::OwnerDied(_))));
}

fn a_panic_under_priority_inheritance_is_told(world: &World) {
    let domain = world.domain();
    let mutex = PiMutex::<u64>::options(0).open_or_create(&domain, "pi").expect("opens");
    panics(|| {
        let _guard = mutex.lock().expect("free");
        panic_now();
    });
    Child::start(|| assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))))).finish();
    let Err(LockError::OwnerDied(mut guard)) = mutex.try_lock() else {
        panic!("nobody has repaired it")
    };
    guard.mark_consistent();
    drop(guard);
    drop(mutex.lock().expect("whole"));
}

fn a_panic_at_the_ceiling_is_told(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex =
        CeilingMutex::<u64>::options(3, 0).open_or_create(&domain, "ceiling").expect("opens");
    panics(|| {
        let _guard = mutex.lock().expect("free");
        panic_now();
    });
    assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
}

outlive::record! {
    struct Line {
        place: EmbeddedMutex<u64>,
        table: EmbeddedRwLock<u64>,
    }
}

fn a_panic_in_a_record_is_told(world: &World) {
    let domain = world.domain();
    let line = Record::<Line>::open_or_create(&domain, "line").expect("opens");
    let table = line.handle(|line| &line.table);
    panics(|| {
        let _place = line.lock(|line| &line.place).expect("free");
        let _table = table.write().expect("free");
        panic_now();
    });
    assert!(matches!(line.lock(|line| &line.place), Err(LockError::OwnerDied(_))));
    assert!(matches!(table.read(), Err(LockError::OwnerDied(_))));
}

/// Uses locks when it is dropped, as a destructor that says goodbye does.
struct Farewell<'a> {
    mutex: &'a Mutex<[u64; 2]>,
    lock: &'a RwLock<u64>,
    valve: &'a PiMutex<u64>,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.mutex.lock().expect("whole")[0] += 1;
        *self.lock.write().expect("whole") += 1;
        *self.lock.read().expect("whole").try_upgrade().expect("alone") += 1;
        drop(self.lock.write().expect("whole").downgrade().expect("ours, and whole"));
        *self.valve.lock().expect("whole") += 1;
        self.mutex.reset([8, 8]).expect("free");
    }
}

fn what_is_taken_while_unwinding_is_given_back_as_usual(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let lock = RwLock::options(0).open_or_create(&domain, "rw").expect("opens");
    let valve = PiMutex::options(0).open_or_create(&domain, "pi").expect("opens");
    panics(|| {
        let _farewell = Farewell { mutex: &mutex, lock: &lock, valve: &valve };
        panic_now();
    });
    assert_eq!(*mutex.lock().expect("whole"), [8, 8]);
    assert_eq!(*lock.read().expect("whole"), 2);
    assert_eq!(*valve.lock().expect("whole"), 1);
}

fn a_panic_under_a_guard_that_waited_is_told(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let changed = Condvar::open_or_create(&domain, "c").expect("opens");
    panics(|| {
        let guard = mutex.lock().expect("free");
        let _guard = changed.wait_timeout(guard, std::time::Duration::ZERO).expect("whole");
        panic_now();
    });
    assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
}

fn a_guard_in_its_raw_form_knows_of_no_panic(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let raw = std::cell::Cell::new(0);
    panics(|| {
        raw.set(mutex.lock().expect("free").into_raw());
        panic_now();
    });
    assert!(
        matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))),
        "held still"
    );
    // SAFETY: of this mutex, and used once.
    drop(unsafe { mutex.guard_from_raw(raw.get()) }.expect("ours"));
    drop(mutex.lock().expect("given back by a call"));
    // A guard again, it knows.
    panics(|| {
        let raw = mutex.lock().expect("free").into_raw();
        // SAFETY: the raw guard is of this mutex, and used once.
        let _guard = unsafe { mutex.guard_from_raw(raw) }.expect("ours");
        panic_now();
    });
    assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
}

fn an_inherited_guard_does_nothing_in_a_panic(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    let inherited = std::cell::Cell::new(mutex.lock().ok());
    Child::start(|| {
        panics(|| {
            let _parents = inherited.take();
            panic_now();
        });
    })
    .finish();
    assert!(mutex.holder().is_some());
    drop(inherited.take());
    drop(mutex.lock().expect("whole"));
}

fn a_reset_that_panics_leaves_the_lock_not_recoverable(world: &World) {
    let domain = world.domain();
    let mutex = open(&domain);
    mutex.lock().expect("free").mark_not_recoverable();
    panics(|| {
        let _guard = mutex.lock_to_reset().expect("free");
        panic_now();
    });
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    mutex.reset([1, 1]).expect("free");
    drop(mutex.lock().expect("whole"));
}

/// A process panics in the middle of changes, one after another, and is killed at any moment of it;
/// no process finds half a change without a warning.
fn killed_while_they_panic(world: &World) {
    let domain = world.domain();
    let (mutex, lock) = (
        open(&domain),
        RwLock::<[u64; 2]>::options([0; 2]).open_or_create(&domain, "rw").expect("opens"),
    );
    let mut random = Random::new();
    let mut told = 0;
    for _ in 0..150 {
        let board = Board::new();
        let mut child = Child::start(|| {
            loop {
                panics(|| {
                    let (Ok(mut a) | Err(LockError::OwnerDied(mut a))) = mutex.lock() else {
                        return;
                    };
                    let (Ok(mut b) | Err(LockError::OwnerDied(mut b))) = lock.write() else {
                        return;
                    };
                    a.fill(1);
                    a.mark_consistent();
                    b.fill(1);
                    b.mark_consistent();
                    a[0] = 2;
                    b[0] = 2;
                    board.add(0, 1);
                    panic_now();
                });
            }
        });
        board.reach(0, 1);
        std::thread::sleep(std::time::Duration::from_micros(random.below(3000)));
        child.kill();
        match mutex.lock() {
            Ok(guard) => assert_eq!(guard[0], guard[1], "half a change, and nobody said so"),
            Err(LockError::OwnerDied(_)) => told += 1,
            Err(error) => panic!("{error}"),
        }
        match lock.read() {
            Ok(guard) => assert_eq!(guard[0], guard[1], "half a change, and nobody said so"),
            Err(LockError::OwnerDied(_)) => told += 1,
            Err(error) => panic!("{error}"),
        }
    }
    // Each was killed inside, or after a panic that no process has repaired.
    assert_eq!(told, 300);
}
