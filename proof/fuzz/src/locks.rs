//! The locks beside the mutex: as they may be found, and everything that can be done with them.

use std::hint::black_box;
use std::time::Duration;

use outlive::sync::{
    Barrier, Condvar, Event, Latch, LockError, Mutex, OnceLock, Reset, RwLock, Seat, Semaphore,
    WhenOneDies, WriteGuard,
};
use outlive::{Deadline, Domain};

use crate::operations::{soon, use_guard};
use crate::random::Random;
use crate::world::World;

/// Their names.
pub const NAMES: [&str; 12] = [
    "rw-held",
    "rw-dead",
    "condvar",
    "event",
    "event-auto",
    "latch",
    "once-busy",
    "once-dead",
    "permits",
    "many",
    "breaks",
    "counts-out",
];

/// All of them, open.
pub struct Locks {
    held: RwLock<u64>,
    dead: RwLock<u64>,
    condvar: Condvar,
    event: Event,
    automatic: Event,
    latch: Latch,
    busy: OnceLock<u64>,
    abandoned: OnceLock<u64>,
    permits: Semaphore,
    many: Semaphore,
    breaks: Barrier,
    counts_out: Barrier,
}

/// Opens them, made when they are not there.
pub fn make(domain: &Domain) -> Locks {
    open(domain).expect("opens")
}

fn open(domain: &Domain) -> Result<Locks, outlive::Error> {
    Ok(Locks {
        held: RwLock::options(1).open_or_create(domain, NAMES[0])?,
        dead: RwLock::options(1).open_or_create(domain, NAMES[1])?,
        condvar: Condvar::open_or_create(domain, NAMES[2])?,
        event: Event::options().reset(Reset::Manual).open_or_create(domain, NAMES[3])?,
        automatic: Event::options().reset(Reset::Automatic).open_or_create(domain, NAMES[4])?,
        latch: Latch::options(3).open_or_create(domain, NAMES[5])?,
        busy: OnceLock::open_or_create(domain, NAMES[6])?,
        abandoned: OnceLock::open_or_create(domain, NAMES[7])?,
        permits: Semaphore::options(3).open_or_create(domain, NAMES[8])?,
        many: Semaphore::options(2).max_permits(200).open_or_create(domain, NAMES[9])?,
        breaks: Barrier::options(3)
            .when_one_dies(WhenOneDies::Break)
            .open_or_create(domain, NAMES[10])?,
        counts_out: Barrier::options(40)
            .when_one_dies(WhenOneDies::CountOut)
            .open_or_create(domain, NAMES[11])?,
    })
}

/// Makes the value for as long as the process lives, on a thread of its own; comes back when it has
/// begun.
fn begin_to_make(once: OnceLock<u64>) {
    let (begun, wait) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = once.get_or_init(|_| {
            begun.send(()).expect("waited for");
            loop {
                std::thread::park();
            }
        });
    });
    wait.recv().expect("begins");
}

/// Claims what a process that is then killed leaves.
pub fn claim_as_the_dying(domain: &Domain) {
    let locks: &'static Locks = Box::leak(Box::new(make(domain)));
    std::mem::forget(locks.held.read());
    std::mem::forget(locks.dead.write());
    std::mem::forget((locks.permits.acquire(), locks.many.acquire()));
    for barrier in [&locks.breaks, &locks.counts_out] {
        std::mem::forget(barrier.join());
    }
    locks.event.set(5);
    locks.latch.arrive(1);
    begin_to_make(make(domain).abandoned);
}

/// Claims what a thread holds that lives as long as the calling process.
pub fn claim_as_the_living(domain: &Domain) {
    let locks: &'static Locks = Box::leak(Box::new(make(domain)));
    std::mem::forget(locks.held.read());
    std::mem::forget(locks.permits.acquire());
    std::mem::forget(locks.counts_out.join());
    begin_to_make(make(domain).busy);
    std::thread::spawn(|| {
        let _ = locks.held.write();
    });
    std::thread::spawn(|| {
        let _ = locks.automatic.wait_all(6);
    });
    std::thread::spawn(|| {
        let _ = locks.latch.wait();
    });
}

fn use_write_guard(
    result: Result<Option<WriteGuard<'_, u64>>, LockError<WriteGuard<'_, u64>>>,
    repair: bool,
) {
    match result {
        Ok(None) => {}
        Ok(Some(guard)) => {
            if repair && let Ok(reading) = guard.downgrade() {
                black_box(*reading);
            }
        }
        Err(LockError::OwnerDied(mut guard)) => {
            if repair {
                guard.mark_consistent();
            }
        }
        Err(error) => drop(black_box(error.to_string())),
    }
}

pub fn read(world: &World, random: &mut Random) {
    for lock in [&world.locks.held, &world.locks.dead] {
        for deadline in [Deadline::after(Duration::ZERO), soon()] {
            match lock.read_until(deadline) {
                Ok(guard) => drop(black_box(guard.map(|guard| *guard))),
                Err(LockError::OwnerDied(mut guard)) if random.below(2) == 0 => {
                    guard.mark_consistent()
                }
                Err(error) => drop(black_box(error.to_string())),
            }
        }
        black_box(lock.holders());
    }
}

pub fn write(world: &World, random: &mut Random) {
    for lock in [&world.locks.held, &world.locks.dead] {
        use_write_guard(lock.try_write(), random.below(2) == 0);
        use_write_guard(lock.write_until(soon()), random.below(2) == 0);
        if random.below(3) == 0
            && let Ok(Some(mut guard)) = black_box(lock.write_to_reset_until(soon()))
        {
            *guard = random.next();
            guard.mark_consistent();
        }
    }
}

pub fn wait_and_notify(world: &World, random: &mut Random) {
    let Locks { condvar, .. } = &world.locks;
    let mutex: &Mutex<u64> = random.pick(&world.mutexes);
    if let Ok(Some(guard)) = mutex.lock_until(soon()) {
        if random.below(2) == 0 {
            condvar.notify_one();
        }
        match condvar.wait_until(guard, soon()) {
            Ok((guard, ended)) => drop(black_box((guard, ended))),
            Err(error @ LockError::OwnerDied(_)) => use_guard(Err(error), true),
            Err(error) => drop(black_box(error.to_string())),
        }
    }
    condvar.notify_all();
}

pub fn events(world: &World, random: &mut Random) {
    let Locks { event, automatic, latch, .. } = &world.locks;
    for event in [event, automatic] {
        black_box((event.set(1 << random.below(4)), event.bits()));
        let _ = black_box((event.try_wait_any(6), event.try_wait_all(3)));
        let _ = black_box(event.wait_any_until(1 << random.below(32), soon()));
        let _ = black_box(event.wait_all_until(7, soon()));
        event.clear(random.next() as u32);
    }
    black_box((latch.arrive(random.below(2) as u32), latch.missing(), latch.is_open()));
    let _ = black_box(latch.wait_until(soon()));
}

pub fn make_once(world: &World, _: &mut Random) {
    for once in [&world.locks.busy, &world.locks.abandoned] {
        black_box((once.get().copied(), once.initializer()));
        let _ = black_box(once.try_get_or_init(|state| u64::from(state.previous_died())));
        let _ = black_box(once.get_or_init_until(soon(), |_| 7));
    }
}

pub fn permits(world: &World, random: &mut Random) {
    for semaphore in [&world.locks.permits, &world.locks.many] {
        if let Ok(Some(permit)) = semaphore.try_acquire() {
            match random.below(3) {
                0 => permit.consume(),
                1 => match &world.domain.tokens()[..] {
                    [] => drop(permit),
                    tokens => permit.hand_to(random.pick(tokens).id),
                },
                _ => drop(permit),
            }
        }
        let _ = black_box(semaphore.acquire_until(soon()).map(drop));
        let _ = black_box(semaphore.take_up_until(soon()).map(drop));
        let _ = black_box(semaphore.add_permit());
        black_box((semaphore.holders(), semaphore.available_permits(), semaphore.max_permits()));
    }
}

pub fn meet(world: &World, _: &mut Random) {
    for barrier in [&world.locks.breaks, &world.locks.counts_out] {
        let seats: Vec<Seat<'_>> = (0..2).filter_map(|_| barrier.join().ok()).collect();
        for mut seat in seats {
            let _ = black_box(seat.try_wait());
            let _ = black_box(seat.wait_until(soon()));
        }
        black_box((barrier.is_broken(), barrier.participants()));
        let _ = black_box(barrier.repair_until(soon()));
    }
}

/// Opens them by name, in a copy, and uses them a little.
pub fn open_and_use(domain: &Domain) {
    if let Ok(locks) = open(domain) {
        use_write_guard(locks.dead.try_write(), true);
        black_box((locks.event.set(1), locks.latch.missing(), locks.permits.try_acquire().is_ok()));
        black_box(locks.breaks.join().is_ok());
    }
}
