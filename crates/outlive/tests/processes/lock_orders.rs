//! The order in which locks are taken: a process is told of what can deadlock before it does, also
//! when processes are killed while they record.

use std::path::Path;
use std::time::Duration;

use outlive::sync::{
    AcquireError, CeilingMutex, EmbeddedMutex, LockError, LockOrder, Mutex, MutexGuard, PiMutex,
    Record, RwLock,
};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::forge::{BODY, Bytes};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    two_orders_at_different_times_are_told,
    one_order_everywhere_is_not_told,
    a_ring_of_three_processes_is_told,
    it_is_told_before_the_deadlock,
    who_does_not_watch_records_nothing,
    what_was_only_tried_makes_no_order,
    a_lock_given_back_is_not_held,
    readers_and_writers_have_an_order,
    inheriting_mutexes_have_an_order,
    ceiling_mutexes_have_an_order,
    who_upgrades_waits_as_well,
    a_lock_taken_before_the_watch_is_given_back,
    locks_in_a_record_are_watched_too,
    watched_locks_are_locks,
    a_forked_child_holds_nothing,
    forgotten_orders_are_recorded_anew,
    killed_while_recording: 60,
    a_cell_lost_a_full_table_and_garbage,
);

const FILE: &str = ".lock-order";

/// The domain, watched from now on in this process.
fn watched(path: &Path) -> Domain {
    Domain::options().recheck(None).lock_order(true).open_or_create_at(path).expect("opens")
}

fn mutex(domain: &Domain, name: &str) -> Mutex<u64> {
    Mutex::options(0).open_or_create(domain, name).expect("opens")
}

/// A watching process that takes those locks one inside the other, and gives them back. How often
/// it was told.
fn takes(world: &World, names: &[&str]) -> u64 {
    let board = Board::new();
    let folder = world.domain();
    Child::start(|| {
        let domain = watched(folder.path());
        domain.on_lock_order(move |_| {
            board.add(0, 1);
        });
        let locks: Vec<Mutex<u64>> = names.iter().map(|name| mutex(&domain, name)).collect();
        let guards: Vec<_> = locks.iter().map(|lock| lock.lock().expect("free")).collect();
        drop(guards);
    })
    .finish();
    board.get(0)
}

fn orders(world: &World) -> Vec<LockOrder> {
    world.domain().lock_orders().expect("readable")
}

/// Of one ring: (held, wanted) of each pair, sorted.
fn pairs(order: &LockOrder) -> Vec<(String, String)> {
    let mut pairs: Vec<_> =
        order.pairs.iter().map(|pair| (pair.held.clone(), pair.wanted.clone())).collect();
    pairs.sort();
    pairs
}

fn pair(held: &str, wanted: &str) -> (String, String) {
    (held.to_owned(), wanted.to_owned())
}

fn two_orders_at_different_times_are_told(world: &World) {
    assert_eq!(takes(world, &["a", "b"]), 0);
    assert!(orders(world).is_empty());
    assert_eq!(takes(world, &["b", "a"]), 1);
    let found = orders(world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(pairs(&found[0]), [pair("a", "b"), pair("b", "a")]);
    let [first, second] = &found[0].pairs[..] else { panic!("two") };
    assert_ne!(first.pid, second.pid);
    assert!(first.pid == first.tid && !first.program.is_empty());
    let text = found[0].to_string();
    assert!(
        text.contains("'b' while holding 'a'") && text.contains("'a' while holding 'b'"),
        "{text}"
    );
    // A process that comes to it later is told as well, though the order is known.
    assert_eq!(takes(world, &["b", "a"]), 1);
    assert_eq!(orders(world).len(), 1);
}

fn one_order_everywhere_is_not_told(world: &World) {
    for names in [
        &["a", "b", "c", "d"][..],
        &["a", "c"],
        &["b", "d"],
        &["c", "d"],
        &["a", "d"],
        &["b"],
        &["d"],
    ] {
        assert_eq!(takes(world, names), 0);
    }
    assert!(orders(world).is_empty());
}

fn a_ring_of_three_processes_is_told(world: &World) {
    assert_eq!(takes(world, &["a", "b"]), 0);
    assert_eq!(takes(world, &["b", "c"]), 0);
    assert_eq!(takes(world, &["c", "a"]), 1);
    let found = orders(world);
    assert_eq!(found.len(), 1);
    assert_eq!(pairs(&found[0]), [pair("a", "b"), pair("b", "c"), pair("c", "a")]);
}

fn it_is_told_before_the_deadlock(world: &World) {
    let folder = world.domain();
    let (board, told) = (Board::new(), Board::new());
    let start = |first: &'static str, then: &'static str| {
        let path = folder.path();
        Child::start(move || {
            let domain = watched(path);
            domain.on_lock_order(move |_| {
                told.add(0, 1);
            });
            let (first, then) = (mutex(&domain, first), mutex(&domain, then));
            let _guard = first.lock().expect("free");
            board.add(0, 1);
            board.reach(0, 2);
            drop(then.lock());
        })
    };
    let (one, other) = (start("a", "b"), start("b", "a"));
    wait_asleep(one.pid());
    wait_asleep(other.pid());
    told.reach(0, 1);
    wait_until("it is a deadlock, too", || !folder.deadlocks().expect("looks").is_empty());
}

fn who_does_not_watch_records_nothing(world: &World) {
    let domain = world.domain();
    let (a, b) = (mutex(&domain, "a"), mutex(&domain, "b"));
    for (first, then) in [(&a, &b), (&b, &a)] {
        let guard = first.lock().expect("free");
        drop(then.lock().expect("free"));
        drop(guard);
    }
    assert!(!domain.path().join(FILE).exists());
    assert!(orders(world).is_empty());
    assert!(domain.entries().expect("listed").iter().all(|entry| entry.kind.is_ok()));
}

fn what_was_only_tried_makes_no_order(world: &World) {
    let folder = world.domain();
    takes(world, &["a", "b"]);
    Child::start(|| {
        let domain = watched(folder.path());
        let (a, b, c) = (mutex(&domain, "a"), mutex(&domain, "b"), mutex(&domain, "c"));
        let held = b.lock().expect("free");
        // Never waits, so it cannot deadlock; but what comes inside it can.
        let tried = a.try_lock().expect("free").expect("not held");
        drop(c.lock().expect("free"));
        drop((tried, held));
    })
    .finish();
    assert!(orders(world).is_empty());
    assert_eq!(takes(world, &["c", "a"]), 1);
    let expected = [pair("a", "c"), pair("c", "a")];
    assert!(orders(world).iter().any(|order| pairs(order) == expected), "{:?}", orders(world));
}

fn a_lock_given_back_is_not_held(world: &World) {
    let folder = world.domain();
    takes(world, &["a", "b"]);
    Child::start(|| {
        let domain = watched(folder.path());
        let (a, b) = (mutex(&domain, "a"), mutex(&domain, "b"));
        drop(b.lock().expect("free"));
        drop(a.lock().expect("free"));
        drop(b.try_lock().expect("free").expect("not held"));
        drop(a.lock_timeout(Duration::from_secs(1)).expect("free").expect("in time"));
        // Not got, so not held.
        let guard = b.lock().expect("free");
        assert!(matches!(b.lock(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(b.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))));
        drop(guard);
        drop(a.lock().expect("free"));
    })
    .finish();
    assert!(orders(world).is_empty());
}

/// A way to take a lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Plain,
    Read,
    Write,
    Inheriting,
    Ceiling,
}

/// Takes the lock of that name; a guard of whatever sort.
fn take(domain: &Domain, how: How, name: &str) -> Box<dyn std::any::Any> {
    fn kept<T>(opened: Result<T, outlive::Error>) -> &'static T {
        Box::leak(Box::new(opened.expect("opens")))
    }
    match how {
        How::Plain => Box::new(
            kept(Mutex::<u64>::options(0).open_or_create(domain, name)).lock().expect("free"),
        ),
        How::Read => Box::new(
            kept(RwLock::<u64>::options(0).open_or_create(domain, name)).read().expect("free"),
        ),
        How::Write => Box::new(
            kept(RwLock::<u64>::options(0).open_or_create(domain, name)).write().expect("free"),
        ),
        How::Inheriting => Box::new(
            kept(PiMutex::<u64>::options(0).open_or_create(domain, name)).lock().expect("free"),
        ),
        How::Ceiling => Box::new(
            kept(CeilingMutex::<u64>::options(10, 0).open_or_create(domain, name))
                .lock()
                .expect("free"),
        ),
    }
}

/// Those two ways in both orders, by processes of their own: told the second time, and only if one
/// was in the other.
fn both_ways_round(world: &World, a: How, b: How) {
    let folder = world.domain();
    let told = Board::new();
    let process = |body: &dyn Fn(&Domain)| {
        Child::start(|| {
            let domain = watched(folder.path());
            domain.on_lock_order(move |_| {
                told.add(0, 1);
            });
            body(&domain);
        })
        .finish();
    };
    // One after the other, twice: each is given back, so there is no order.
    process(&|domain| {
        for (how, name) in [(a, "a"), (b, "b"), (a, "a"), (b, "b")] {
            drop(take(domain, how, name));
        }
    });
    process(&|domain| {
        let held = take(domain, a, "a");
        drop(take(domain, b, "b"));
        drop(held);
    });
    assert_eq!((told.get(0), orders(world).len()), (0, 0));
    process(&|domain| {
        let held = take(domain, b, "b");
        // A thread that looks at an order still takes the lock, and a fork of its process has none
        // of it.
        drop(take(domain, a, "a"));
        Child::start(|| drop(take(domain, a, "a"))).finish();
        drop(held);
        drop(take(domain, b, "b"));
    });
    assert_eq!(told.get(0), 1);
    let found = orders(world);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(pairs(&found[0]), [pair("a", "b"), pair("b", "a")]);
    folder.forget_lock_orders().expect("forgotten");
    for name in ["a", "b"] {
        folder.remove(name).expect("removed");
    }
}

fn readers_and_writers_have_an_order(world: &World) {
    // Two readers meet as well: a writer that waits for the one keeps the other out.
    for (a, b) in [
        (How::Read, How::Plain),
        (How::Write, How::Plain),
        (How::Read, How::Read),
        (How::Read, How::Write),
    ] {
        both_ways_round(world, a, b);
    }
}

fn inheriting_mutexes_have_an_order(world: &World) {
    for other in [How::Inheriting, How::Plain, How::Read] {
        both_ways_round(world, How::Inheriting, other);
    }
}

fn ceiling_mutexes_have_an_order(world: &World) {
    crate::realtime::skip_without_right(world);
    for other in [How::Ceiling, How::Plain, How::Inheriting] {
        both_ways_round(world, How::Ceiling, other);
    }
}

fn who_upgrades_waits_as_well(world: &World) {
    let folder = world.domain();
    let upgrades = |waits: bool| {
        Child::start(|| {
            let domain = watched(folder.path());
            domain.on_lock_order(|_| ());
            let table = RwLock::<u64>::options(0).open_or_create(&domain, "table").expect("opens");
            let reading = table.read().expect("free");
            let inside = take(&domain, How::Plain, "m");
            let result = if waits {
                reading.upgrade_timeout(Duration::from_secs(5))
            } else {
                reading.try_upgrade()
            };
            // Down again: it is still the same one, and held.
            let Ok(reading) = result.expect("nobody else reads").downgrade() else {
                panic!("whole")
            };
            drop(inside);
            drop(reading);
            assert!(matches!(table.try_write(), Ok(Some(_))));
        })
        .finish();
    };
    upgrades(false);
    assert!(orders(world).is_empty());
    upgrades(true);
    // Another reader that wants m could wait for us while we wait for it.
    assert_eq!(pairs(&orders(world)[0]), [pair("m", "table"), pair("table", "m")]);
}

fn a_lock_taken_before_the_watch_is_given_back(world: &World) {
    let folder = world.domain();
    Child::start(|| {
        let table = RwLock::<u64>::options(0).open_or_create(&folder, "table").expect("opens");
        let other = RwLock::<u64>::options(0).open_or_create(&folder, "other").expect("opens");
        let valve = PiMutex::<u64>::options(0).open_or_create(&folder, "valve").expect("opens");
        let guards = (
            table.read().expect("free"),
            other.write().expect("free"),
            valve.lock().expect("free"),
        );
        watched(folder.path());
        // A child has the guards and none of the locks.
        let inherited = &guards;
        Child::start(|| {
            // SAFETY: the copy in this process alone is dropped, and the process ends without
            // dropping it again.
            drop(unsafe { std::ptr::read(inherited) });
        })
        .finish();
        assert!(matches!(table.try_write(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(other.try_read(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(valve.try_lock(), Err(LockError::Failed(AcquireError::Deadlock))));
        drop(guards);
        drop(table.try_write().expect("free").expect("not held"));
        drop(other.try_read().expect("free").expect("not held"));
        drop(valve.try_lock().expect("free").expect("not held"));
    })
    .finish();
}

outlive::record! {
    pub struct Line {
        pub locks: [EmbeddedMutex<u64>; 46],
    }
}

fn locks_in_a_record_are_watched_too(world: &World) {
    let folder = world.domain();
    for (first, then) in [(3, 4), (4, 3)] {
        Child::start(|| {
            let domain = watched(folder.path());
            let line = Record::<Line>::open_or_create(&domain, "line").expect("opens");
            let guard = line.lock(|line| &line.locks[first]).expect("free");
            drop(line.handle(|line| &line.locks[then]).lock().expect("free"));
            drop(guard);
        })
        .finish();
    }
    let found = orders(world);
    assert_eq!(
        pairs(&found[0]),
        [pair("line at byte 48", "line at byte 64"), pair("line at byte 64", "line at byte 48")]
    );
}

fn watched_locks_are_locks(world: &World) {
    const EACH: u64 = 2_000;
    let domain = world.domain();
    let m = mutex(&domain, "m");
    // Half of them watch; one is killed inside.
    let count = |watches: bool| {
        Child::start(|| {
            if watches {
                watched(domain.path());
            }
            for _ in 0..EACH {
                match m.lock() {
                    Ok(mut value) => *value += 1,
                    Err(LockError::OwnerDied(mut value)) => {
                        *value += 1;
                        value.mark_consistent();
                    }
                    Err(other) => panic!("{other}"),
                }
            }
        })
    };
    let board = Board::new();
    let mut dies = Child::start(|| {
        let _domain = watched(domain.path());
        let _guard = m.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    let counters = [count(true), count(false), count(true), count(false)];
    for counter in &counters {
        wait_asleep(counter.pid());
    }
    assert!(matches!(m.try_lock(), Ok(None)));
    dies.kill();
    counters.into_iter().for_each(Child::finish);
    assert_eq!(*m.lock().expect("free"), 4 * EACH);
    // Switched on while a lock is held.
    Child::start(|| {
        let guard = m.lock().expect("free");
        watched(domain.path());
        drop(guard);
        drop(m.lock().expect("given back"));
    })
    .finish();
    assert_eq!(
        *m.lock_until(Deadline::after(Duration::from_secs(5))).expect("free").expect("in time"),
        4 * EACH
    );
}

fn a_forked_child_holds_nothing(world: &World) {
    let folder = world.domain();
    takes(world, &["a", "b"]);
    Child::start(|| {
        let domain = watched(folder.path());
        let (a, b) = (mutex(&domain, "a"), mutex(&domain, "b"));
        let guard = b.lock().expect("free");
        Child::start(|| drop(a.lock().expect("free"))).finish();
        assert!(
            matches!(
                mutex(&domain, "b").try_lock(),
                Err(LockError::Failed(AcquireError::Deadlock))
            ),
            "still ours"
        );
        drop(guard);
    })
    .finish();
    assert!(orders(world).is_empty());
}

fn forgotten_orders_are_recorded_anew(world: &World) {
    let folder = world.domain();
    let board = Board::new();
    let child = Child::start(|| {
        let domain = watched(folder.path());
        domain.on_lock_order(|_| ());
        let (a, b) = (mutex(&domain, "a"), mutex(&domain, "b"));
        for round in 1..=2 {
            for (first, then) in [(&a, &b), (&b, &a)] {
                let guard = first.lock().expect("free");
                drop(then.lock().expect("free"));
                drop(guard);
            }
            board.set(0, round);
            board.reach(1, round);
        }
    });
    board.reach(0, 1);
    assert_eq!(orders(world).len(), 1);
    folder.forget_lock_orders().expect("forgotten");
    assert!(orders(world).is_empty());
    folder.forget_lock_orders().expect("there is nothing");
    board.set(1, 1);
    board.reach(0, 2);
    assert_eq!(orders(world).len(), 1);
    board.set(1, 2);
    child.finish();
}

/// A process that died in it left a number, which is whole.
fn whole<'a>(
    result: Result<MutexGuard<'a, u64>, LockError<MutexGuard<'a, u64>>>,
) -> MutexGuard<'a, u64> {
    match result {
        Ok(guard) => guard,
        Err(LockError::OwnerDied(mut guard)) => {
            guard.mark_consistent();
            guard
        }
        Err(other) => panic!("{other}"),
    }
}

fn killed_while_recording(world: &World) {
    let folder = world.domain();
    let line = Record::<Line>::open_or_create(&folder, "line").expect("opens");
    let board = Board::new();
    let mut random = Random::new();
    for round in 0..150_u64 {
        let seed = random.next();
        let child = Child::start(|| {
            watched(folder.path());
            let mut random = Random::from_seed(seed);
            board.set(0, round + 1);
            loop {
                // Always upwards: no ring. A process records what no other has before it.
                let first = random.below(45) as usize;
                let then = first + 1 + random.below(45 - first as u64) as usize;
                let held = whole(line.lock(|line| &line.locks[first]));
                drop(whole(line.lock(|line| &line.locks[then])));
                drop(held);
            }
        });
        board.reach(0, round + 1);
        std::thread::sleep(Duration::from_micros(random.below(1500)));
        let mut child = child;
        child.kill();
    }
    assert!(orders(world).is_empty(), "{:?}", orders(world));
    // The record is whole, and of use: a process that contradicts it is told, whatever the dead
    // have left.
    let told = Board::new();
    Child::start(|| {
        let domain = watched(folder.path());
        domain.on_lock_order(move |_| {
            told.add(0, 1);
        });
        for (first, then) in [(0, 45), (45, 0)] {
            let held = whole(line.lock(|line| &line.locks[first]));
            drop(whole(line.lock(|line| &line.locks[then])));
            drop(held);
        }
    })
    .finish();
    assert_eq!(told.get(0), 1);
    assert!(!orders(world).is_empty());
}

fn a_cell_lost_a_full_table_and_garbage(world: &World) {
    let used_of = |bytes: &Bytes| bytes.word(BODY);
    takes(world, &["a", "b"]);
    let folder = world.domain();
    let bytes = Bytes::of(&folder, FILE);
    assert_eq!(used_of(&bytes), 1);
    // Killed between claiming a cell and finishing it.
    bytes.set_word(BODY, 2);
    assert_eq!(takes(world, &["b", "a"]), 1);
    assert_eq!(used_of(&bytes), 3);
    assert_eq!(orders(world).len(), 1);
    // Full: nothing new is recorded, everything goes on.
    bytes.set_word(BODY, 2048);
    assert_eq!(takes(world, &["c", "d"]), 0);
    assert_eq!(takes(world, &["d", "c"]), 0);
    assert_eq!(used_of(&bytes), 2048);
    let mut random = Random::new();
    for _ in 0..20 {
        for at in (BODY..BODY + 256 + 64 * 256).step_by(4) {
            bytes.set_word(at, random.next() as u32);
        }
        // READY cells of garbage.
        (0..64).for_each(|cell| bytes.set_word(BODY + 256 + cell * 256, 1));
        takes(world, &["a", "b"]);
        orders(world);
    }
    bytes.set_len(BODY + 100);
    takes(world, &["e", "f"]);
    assert!(folder.lock_orders().is_err());
    folder.forget_lock_orders().expect("it may go");
    assert_eq!(takes(world, &["b", "a"]), 0);
    assert!(orders(world).is_empty());
}
