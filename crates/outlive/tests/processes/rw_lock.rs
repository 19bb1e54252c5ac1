//! The named reader-writer lock among living processes: which of them may be inside together,
//! deadlines, up and down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::sync::{
    AcquireError, EmbeddedRwLock, LockError, ReadGuard, Record, RwLock, UpgradeError,
};
use outlive::{Deadline, Detail, Domain, Error, Kind};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes};
use crate::runner::World;

crate::checks!(
    readers_beside_readers,
    a_writer_alone,
    sixty_four_readers_have_a_line_each,
    seventy_readers_share,
    more_readers_than_words_take_turns,
    a_thread_reads_twice,
    deadlock_is_told,
    sleepers_get_in,
    a_stream_of_readers_starves_no_writer: 60,
    a_stream_of_writers_starves_no_reader: 60,
    deadlines_of_readers_and_writers,
    a_writer_that_gives_up_lets_readers_in,
    tries_do_not_wait,
    downgrade_lets_readers_in_and_no_writer_between,
    upgrade_waits_for_the_others,
    of_two_who_upgrade_one_is_refused,
    a_forked_child_has_no_part_in_it,
    words_of_nonsense_are_told,
    embedded_in_a_record,
    readers_change_atomics,
    holders_are_described,
    another_kind_or_type_is_refused,
    processes_read_and_write_together: 60,
);

type Pair = [u64; 2];

pub fn open(domain: &Domain) -> RwLock<Pair> {
    RwLock::options([0; 2]).open_or_create(domain, "rw").expect("opens")
}

/// A child that holds the lock to read until the board's word 1 says so.
fn reader(lock: &RwLock<Pair>, board: Board) -> Child {
    let before = board.get(0);
    let child = Child::start(|| {
        let guard = lock.read();
        assert!(guard.is_ok(), "{guard:?}");
        board.add(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, before + 1);
    child
}

/// A child that holds the lock to write until the board's word 1 says so.
fn writer(lock: &RwLock<Pair>, board: Board) -> Child {
    let before = board.get(0);
    let child = Child::start(|| {
        let guard = lock.write();
        assert!(guard.is_ok(), "{guard:?}");
        board.add(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, before + 1);
    child
}

fn figure(domain: &Domain, name: &str) -> u64 {
    let Detail::Lock(lock) = domain.entry("rw").expect("there").detail else { panic!("no lock") };
    lock.figures.iter().find(|(known, _)| *known == name).expect("a figure").1
}

fn readers_beside_readers(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let children: Vec<Child> = (0..8).map(|_| reader(&lock, board)).collect();
    assert_eq!(*lock.read().expect("beside them"), [0; 2]);
    assert_eq!(*lock.try_read().expect("beside them").expect("not held"), [0; 2]);
    assert!(matches!(lock.try_write(), Ok(None)));
    board.set(1, 1);
    children.into_iter().for_each(Child::finish);
    drop(lock.try_write().expect("all have left").expect("not held"));
}

fn a_writer_alone(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let child = writer(&lock, board);
    assert!(matches!(lock.try_read(), Ok(None)));
    assert!(matches!(lock.try_write(), Ok(None)));
    board.set(1, 1);
    child.finish();
    lock.write().expect("free")[0] = 3;
    assert_eq!(*lock.read().expect("free"), [3, 0]);
}

fn many_readers(world: &World, count: usize) -> u64 {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let children: Vec<Child> = (0..count).map(|_| reader(&lock, board)).collect();
    assert_eq!(figure(&domain, "readers"), count as u64);
    let depth = figure(&domain, "depth");
    let late = Child::start(|| lock.write().expect("all leave")[0] = 9);
    wait_asleep(late.pid());
    assert!(matches!(lock.try_read(), Ok(None)), "a writer waits");
    board.set(1, 1);
    children.into_iter().for_each(Child::finish);
    late.finish();
    assert_eq!(lock.read().expect("free")[0], 9);
    assert_eq!(figure(&domain, "depth"), depth, "who only tried left no trace");
    depth
}

fn sixty_four_readers_have_a_line_each(world: &World) {
    assert_eq!(many_readers(world, 64), 1);
}

fn seventy_readers_share(world: &World) {
    assert_eq!(many_readers(world, 70), 2);
}

fn more_readers_than_words_take_turns(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let mut guards: Vec<ReadGuard<'_, Pair>> =
        (0..1024).map(|_| lock.read().expect("a word each")).collect();
    assert_eq!((figure(&domain, "readers"), figure(&domain, "depth")), (1024, 16));
    Child::start(|| {
        let last = lock.read().expect("as a writer, without waiting for readers");
        assert_eq!(*last, [0; 2]);
        assert!(
            matches!(lock.try_read(), Err(LockError::Failed(AcquireError::Deadlock))),
            "it holds what writers hold"
        );
        let refused = last.try_upgrade().expect_err("others read");
        assert!(matches!(refused, UpgradeError::InUse(_)));
        drop(refused.into_guard());
        // One after the other, and by the same way.
        drop(lock.read().expect("again"));
    })
    .finish();
    let board = Board::new();
    let last = reader(&lock, board);
    let sleeper = Child::start(|| drop(lock.read().expect("its turn comes")));
    wait_asleep(sleeper.pid());
    board.set(1, 1);
    last.finish();
    sleeper.finish();
    guards.pop();
    drop(lock.read().expect("a word is free"));
    drop(guards);
    drop(lock.try_write().expect("all have left").expect("not held"));
    // The last of all, alone, goes up by the writers' word.
    let guards: Vec<ReadGuard<'_, Pair>> =
        (0..1025).map(|_| lock.read().expect("the last as a writer")).collect();
    assert_eq!(guards.len(), 1025);
    assert!(matches!(lock.try_read(), Err(LockError::Failed(AcquireError::Deadlock))));
    drop(guards);
    drop(lock.try_write().expect("all have left").expect("not held"));
}

fn a_thread_reads_twice(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let first = lock.read().expect("free");
    let second = lock.read().expect("beside itself");
    drop(first);
    assert!(matches!(lock.try_write(), Err(LockError::Failed(AcquireError::Deadlock))));
    drop(second);
    drop(lock.try_write().expect("free").expect("not held"));
}

fn deadlock_is_told(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let again = open(&domain);
    let writing = lock.write().expect("free");
    for handle in [&lock, &again] {
        assert!(matches!(handle.read(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.try_read(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.write(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.try_write(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.reset([1; 2]), Err(AcquireError::Deadlock)));
    }
    drop(writing);
    let reading = lock.read().expect("free");
    for handle in [&lock, &again] {
        assert!(matches!(handle.write(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.try_write(), Err(LockError::Failed(AcquireError::Deadlock))));
        assert!(matches!(handle.reset([1; 2]), Err(AcquireError::Deadlock)));
    }
    // A writer that waits for us: we must not wait for it.
    let late = Child::start(|| drop(lock.write().expect("we leave")));
    wait_asleep(late.pid());
    assert!(matches!(lock.read(), Err(LockError::Failed(AcquireError::Deadlock))));
    assert!(matches!(lock.write(), Err(LockError::Failed(AcquireError::Deadlock))));
    let refused = reading.upgrade_until(Deadline::NEVER).expect_err("a writer waits");
    assert!(matches!(refused, UpgradeError::InUse(_)));
    drop(refused.into_guard());
    late.finish();
    // Nor go up with a second guard in hand.
    let (one, two) = (lock.read().expect("free"), lock.read().expect("free"));
    let refused = one.upgrade_until(Deadline::NEVER).expect_err("we read twice");
    assert!(matches!(refused, UpgradeError::Failed(_, AcquireError::Deadlock)));
    drop(two);
    drop(refused.into_guard().upgrade_until(Deadline::NEVER).expect("alone"));
    drop(again.try_read().expect("free").expect("not held"));
}

fn sleepers_get_in(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 0..50u64 {
        let held = lock.write().expect("free");
        let sleepers: Vec<Child> = (0..6)
            .map(|n| {
                let lock = &lock;
                Child::start(move || {
                    if n % 2 == 0 {
                        lock.write().expect("given back")[0] += 1;
                    } else {
                        drop(lock.read().expect("given back"));
                    }
                })
            })
            .collect();
        for sleeper in &sleepers {
            wait_asleep(sleeper.pid());
        }
        drop(held);
        sleepers.into_iter().for_each(Child::finish);
        let held = lock.read().expect("free");
        assert_eq!(held[0], 4 * round + 3);
        let late = Child::start(|| lock.write().expect("given back")[0] += 1);
        wait_asleep(late.pid());
        drop(held);
        late.finish();
    }
}

fn a_stream_of_readers_starves_no_writer(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let mut readers: Vec<Child> = (0..4)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                loop {
                    // Each goes on holding it until it has been counted: there is nearly always a
                    // reader inside.
                    let guard = lock.read().expect("nobody dies inside");
                    assert_eq!(guard[0], guard[1]);
                    board.add(n, 1);
                }
            })
        })
        .collect();
    for n in 0..4 {
        board.reach(n, 100);
    }
    for _ in 0..2_000 {
        let mut guard =
            lock.write_timeout(Duration::from_secs(60)).expect("in time").expect("in time");
        guard[0] += 1;
        guard[1] += 1;
    }
    for n in 0..4 {
        let before = board.get(n);
        board.reach(n, before + 10);
    }
    readers.iter_mut().for_each(Child::kill);
    assert_eq!(*lock.read().expect("readers leave nothing"), [2_000; 2]);
}

fn a_stream_of_writers_starves_no_reader(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let children: Vec<Child> = (0..3)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                while board.get(9) == 0 {
                    let mut guard = lock.write().expect("nobody dies");
                    guard[0] += 1;
                    guard[1] += 1;
                    drop(guard);
                    board.add(n, 1);
                }
            })
        })
        .collect();
    for n in 0..3 {
        board.reach(n, 10);
    }
    for _ in 0..500 {
        let guard = lock.read_timeout(Duration::from_secs(60)).expect("in time").expect("in time");
        assert_eq!(guard[0], guard[1]);
    }
    board.set(9, 1);
    children.into_iter().for_each(Child::finish);
}

fn deadlines_of_readers_and_writers(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for span in [Duration::ZERO, Duration::from_millis(10)] {
        let board = Board::new();
        let child = writer(&lock, board);
        assert!(matches!(lock.read_timeout(span), Ok(None)));
        assert!(matches!(lock.write_timeout(span), Ok(None)));
        assert!(matches!(
            lock.write_until(Deadline::at_time_of_day(std::time::SystemTime::now() + span)),
            Ok(None)
        ));
        assert!(matches!(lock.write_to_reset_timeout(span), Ok(None)));
        board.set(1, 1);
        child.finish();
        let board = Board::new();
        let child = reader(&lock, board);
        assert!(matches!(lock.write_timeout(span), Ok(None)));
        assert!(matches!(lock.write_to_reset_timeout(span), Ok(None)));
        let own = lock.read_timeout(span).expect("beside it").expect("in time");
        let refused = own.upgrade_timeout(span).expect_err("beside it");
        assert!(matches!(refused, UpgradeError::TimedOut(_)));
        assert_eq!(*refused.into_guard(), [0; 2]);
        board.set(1, 1);
        child.finish();
        drop(lock.write_timeout(span).expect("free").expect("in time"));
        drop(lock.read_timeout(span).expect("free").expect("in time"));
    }
}

fn a_writer_that_gives_up_lets_readers_in(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let first = reader(&lock, board);
    let impatient = Child::start(|| {
        let soon = Duration::from_millis(300);
        assert!(matches!(lock.write_timeout(soon), Ok(None)));
    });
    wait_asleep(impatient.pid());
    let late: Vec<Child> =
        (0..3).map(|_| Child::start(|| drop(lock.read().expect("it gives up")))).collect();
    late.into_iter().for_each(Child::finish);
    impatient.finish();
    board.set(1, 1);
    first.finish();
    drop(lock.try_write().expect("nothing is left of it").expect("not held"));
}

fn tries_do_not_wait(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let inside = reader(&lock, board);
    let waiting = Child::start(|| drop(lock.write().expect("they leave")));
    wait_asleep(waiting.pid());
    assert!(matches!(lock.try_read(), Ok(None)));
    assert!(matches!(lock.try_write(), Ok(None)));
    board.set(1, 1);
    inside.finish();
    waiting.finish();
    drop(lock.try_read().expect("free").expect("not held"));
    drop(lock.try_write().expect("free").expect("not held"));
}

fn downgrade_lets_readers_in_and_no_writer_between(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 1..50 {
        let mut writing = lock.write().expect("free");
        writing[0] += 1;
        let written = writing[0];
        let late = Child::start(|| lock.write().expect("we leave")[0] += 1);
        let beside = Child::start(|| drop(lock.read().expect("we read only")));
        wait_asleep(late.pid());
        wait_asleep(beside.pid());
        let reading = writing.downgrade().expect("nobody died");
        assert_eq!(reading[0], written, "round {round}");
        if round % 2 == 0 {
            drop(reading);
            beside.finish();
        } else {
            assert_eq!(reading[0], written, "round {round}");
            drop(reading);
            beside.finish();
        }
        late.finish();
    }
    // Other readers come in while we read on.
    let reading = lock.write().expect("free").downgrade().expect("nobody died");
    Child::start(|| drop(lock.try_read().expect("beside it").expect("not held"))).finish();
    drop(reading);
}

fn upgrade_waits_for_the_others(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let beside = reader(&lock, board);
    let upgrading = Child::start(|| {
        let reading = lock.read().expect("beside");
        let refused = reading.try_upgrade().expect_err("one is beside it");
        assert!(matches!(refused, UpgradeError::InUse(_)));
        let mut writing = refused.into_guard().upgrade_until(Deadline::NEVER).expect("it leaves");
        writing[0] += 1;
    });
    wait_asleep(upgrading.pid());
    assert!(matches!(lock.try_read(), Ok(None)), "it keeps new readers out");
    board.set(1, 1);
    beside.finish();
    upgrading.finish();
    assert_eq!(lock.read().expect("free")[0], 1);
    drop(lock.read().expect("free").try_upgrade().expect("alone"));
    assert_eq!(figure(&domain, "readers"), 0);
}

fn of_two_who_upgrade_one_is_refused(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let reading = lock.read().expect("free");
    let upgrading = Child::start(|| {
        let reading = lock.read().expect("beside");
        reading.upgrade_until(Deadline::NEVER).expect("the other leaves")[0] += 1;
    });
    wait_asleep(upgrading.pid());
    let refused = reading.upgrade_until(Deadline::NEVER).expect_err("the other was first");
    assert!(matches!(refused, UpgradeError::InUse(_)));
    assert!(refused.to_string().contains("waits to write"), "{refused}");
    assert_eq!(refused.into_guard()[0], 0, "it reads on");
    upgrading.finish();
    assert_eq!(lock.read().expect("free")[0], 1);
}

fn a_forked_child_has_no_part_in_it(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let reading = lock.read().expect("free");
    Child::start(|| {
        // SAFETY: the child's copy of the guard; nothing of the parent's is touched.
        let copy: ReadGuard<'_, Pair> = unsafe { core::ptr::read(&raw const reading) };
        drop(copy);
        assert!(matches!(lock.try_write(), Ok(None)), "the parent reads on");
        // SAFETY: the child's copy of the guard; nothing of the parent's is touched.
        let copy: ReadGuard<'_, Pair> = unsafe { core::ptr::read(&raw const reading) };
        drop(copy.try_upgrade().expect_err("it is the parent's"));
        drop(lock.try_read().expect("the child has a word of its own").expect("not held"));
    })
    .finish();
    assert_eq!(figure(&domain, "readers"), 1);
    drop(reading);
    let writing = lock.write().expect("the child has left nothing");
    Child::start(|| {
        // SAFETY: the child's copy of the guard; nothing of the parent's is touched.
        let copy = unsafe { core::ptr::read(&raw const writing) };
        drop(copy);
        // SAFETY: the child's copy of the guard; nothing of the parent's is touched.
        let copy = unsafe { core::ptr::read(&raw const writing) };
        drop(copy.downgrade().expect_err("it is the parent's"));
        assert!(matches!(lock.try_read(), Ok(None)), "the parent writes");
    })
    .finish();
    drop(writing);
    drop(lock.try_write().expect("free").expect("not held"));
}

/// Where the words lie: see doc/memory-layout.md.
const STATE: u64 = BODY + 4;
const READING_LINES: u64 = BODY + 8;
const DEPTH: u64 = BODY + 16;
const SLOTS: u64 = BODY + 64;

fn words_of_nonsense_are_told(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    drop(lock.read().expect("free"));
    let bytes = Bytes::of(&domain, "rw");
    let soon = Duration::from_millis(20);
    // The writers' word.
    for nonsense in [1, 0x8000_0000, 0x4000_0001, u32::MAX] {
        bytes.set_word(BODY, nonsense);
        assert!(
            matches!(lock.read_timeout(soon), Err(LockError::Failed(AcquireError::Damaged))),
            "{nonsense:#x}"
        );
        assert!(
            matches!(lock.try_read(), Err(LockError::Failed(AcquireError::Damaged))),
            "{nonsense:#x}"
        );
        assert!(
            matches!(lock.write_timeout(soon), Err(LockError::Failed(AcquireError::Damaged))),
            "{nonsense:#x}"
        );
        assert!(
            matches!(lock.try_write(), Err(LockError::Failed(AcquireError::Damaged))),
            "{nonsense:#x}"
        );
        assert!(
            matches!(lock.write_to_reset_timeout(soon), Err(AcquireError::Damaged)),
            "{nonsense:#x}"
        );
        bytes.set_word(BODY, 0);
    }
    bytes.set_word(STATE, 77);
    assert!(matches!(lock.read_timeout(soon), Err(LockError::Failed(AcquireError::Damaged))));
    assert!(matches!(lock.write_timeout(soon), Err(LockError::Failed(AcquireError::Damaged))));
    lock.reset([5; 2]).expect("a state can be set right");
    assert_eq!(*lock.read().expect("free"), [5; 2]);
    // Readers' words, all of them: their lines belong to no reader, but are said to be in use, and
    // deeper than there is.
    bytes.set(READING_LINES, &[0xff; 8]);
    bytes.set_word(DEPTH, u32::MAX);
    assert_eq!(*lock.write().expect("they are empty"), [5; 2]);
    bytes.set(SLOTS, &[1; 4096]);
    assert!(matches!(lock.write_timeout(soon), Err(LockError::Failed(AcquireError::Damaged))));
    assert!(matches!(lock.try_write(), Err(LockError::Failed(AcquireError::Damaged))));
    assert_eq!(*lock.read().expect("as one for whom there is no word"), [5; 2]);
    bytes.set(SLOTS, &[0; 4096]);
    // An id of a token that does not exist is a dead one's.
    bytes.set_word(SLOTS, 0x2000_ffff);
    bytes.set_word(SLOTS + 64, 0xa000_ffff);
    drop(lock.try_write().expect("the dead are passed over").expect("not held"));
    assert_eq!((bytes.word(SLOTS), bytes.word(SLOTS + 64)), (0, 0));
    domain.entry("rw").expect("can be looked at");
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
}

outlive::record! {
    struct Line {
        ticks: AtomicU64,
        table: EmbeddedRwLock<Pair>,
        others: [EmbeddedRwLock<u64>; 2],
    }
}

fn embedded_in_a_record(world: &World) {
    let domain = world.domain();
    let line = Record::options()
        .init(|line: &mut Line| *line.table.get_mut() = [4, 4])
        .open_or_create(&domain, "line")
        .expect("opens");
    let table = line.handle(|line| &line.table);
    let other = line.handle(|line| &line.others[1]);
    drop(line);
    let reading = table.read().expect("free");
    assert_eq!(*reading, [4, 4]);
    let board = Board::new();
    let mut child = Child::start(|| {
        let _beside = table.read().expect("beside");
        *other.write().expect("free") = 7;
        let _inside = other.write().expect("free");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    let Detail::Record { locks, holders, .. } = domain.entry("line").expect("there").detail else {
        panic!("a record")
    };
    assert_eq!((locks, holders.len()), (3, 3));
    child.kill();
    assert_eq!(domain.entry("line").expect("there").dead_claims, 2);
    drop(reading.try_upgrade().expect("the dead one is no reader"));
    match other.read() {
        Err(LockError::OwnerDied(mut guard)) => {
            assert_eq!(*guard, 7);
            guard.mark_consistent();
        }
        got => panic!("{got:?}"),
    }
    assert_eq!(*other.read().expect("whole"), 7);
}

fn readers_change_atomics(world: &World) {
    let domain = world.domain();
    let seen = RwLock::<[AtomicU64; 2]>::options([const { AtomicU64::new(0) }; 2])
        .open_or_create(&domain, "seen")
        .expect("opens");
    let children: Vec<Child> = (0..4)
        .map(|_| {
            Child::start(|| {
                for _ in 0..1_000 {
                    seen.read().expect("free")[1].fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(*seen.write().expect("free")[1].get_mut(), 4_000);
}

fn holders_are_described(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    assert_eq!(lock.holders(), []);
    let state = || {
        let Detail::Lock(lock) = domain.entry("rw").expect("there").detail else {
            panic!("no lock")
        };
        lock.state
    };
    let board = Board::new();
    let mut readers = [reader(&lock, board), reader(&lock, board)];
    let mut pids: Vec<i32> = lock.holders().iter().map(|holder| holder.pid as i32).collect();
    pids.sort_unstable();
    let mut expected: Vec<i32> = readers.iter().map(Child::pid).collect();
    expected.sort_unstable();
    assert_eq!(pids, expected);
    assert_eq!(state().as_deref(), Some("held by 2 readers"));
    let waiting = Child::start(|| drop(lock.write().expect("they go")));
    wait_asleep(waiting.pid());
    assert_eq!(state().as_deref(), Some("held by 2 readers, a writer waits"));
    assert_eq!(lock.holders()[0].pid as i32, waiting.pid());
    readers.iter_mut().for_each(Child::kill);
    waiting.finish();
    assert_eq!((lock.holders(), state()), (vec![], None));
    let mut child = writer(&lock, Board::new());
    let holders = lock.holders();
    assert_eq!((holders.len(), holders[0].pid as i32, holders[0].alive), (1, child.pid(), true));
    child.kill();
    assert_eq!(domain.entry("rw").expect("there").dead_claims, 1);
}

fn another_kind_or_type_is_refused(world: &World) {
    let domain = world.domain();
    open(&domain);
    let error = outlive::sync::Mutex::<Pair>::options([0; 2])
        .open_or_create(&domain, "rw")
        .err()
        .expect("another kind");
    assert!(matches!(error, Error::OtherKind { .. }), "{error}");
    assert!(error.to_string().contains("rwlock"), "{error}");
    let error = RwLock::<[u32; 4]>::options([0; 4])
        .open_or_create(&domain, "rw")
        .err()
        .expect("another type");
    assert!(matches!(error, Error::OtherType { .. }), "{error}");
    assert_eq!(domain.entry("rw").expect("there").kind, Ok(Kind::RwLock));
}

fn processes_read_and_write_together(world: &World) {
    const EACH: u64 = 20_000;
    let domain = world.domain();
    let lock = open(&domain);
    let children: Vec<Child> = (0..4)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                for round in 0..EACH {
                    if (round + n) % 4 == 0 {
                        let mut value = lock.write().expect("nobody dies");
                        assert_eq!(value[0], value[1], "somebody else is inside");
                        value[0] += 1;
                        value[1] += 1;
                        if round % 8 == 0 {
                            let now = value[0];
                            assert_eq!(value.downgrade().expect("nobody died")[0], now);
                        }
                    } else {
                        let value = lock.read().expect("nobody dies");
                        assert_eq!(value[0], value[1], "a writer is inside");
                    }
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(*lock.read().expect("free"), [EACH; 2]);
}
