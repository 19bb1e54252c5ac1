//! The upgradable reader of a reader-writer lock: which processes may be inside beside it, how it
//! becomes the writer and comes back, and what its death or stop leaves.

use std::time::Duration;

use outlive::sync::{
    AcquireError, LockError, OwnedUpgradableReadGuard, ReadGuard, RwLock, UpgradableReadGuard,
    UpgradeError,
};
use outlive::{Deadline, Detail, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    readers_enter_beside_one_upgradable_reader,
    an_upgrade_waits_for_readers_and_keeps_new_ones_out,
    no_writer_comes_before_an_upgrade,
    of_all_readers_only_the_upgradable_one_is_not_refused,
    an_upgrade_that_gives_up_lets_readers_in,
    in_parts_it_keeps_new_readers_out,
    killed_between_two_parts_it_was_no_writer,
    back_to_upgradable_it_lets_sleeping_readers_in,
    down_to_reading_it_lets_the_next_one_in,
    a_thread_does_not_wait_for_itself,
    a_dead_upgradable_reader_keeps_nobody_out,
    killed_while_it_waits_for_readers_it_was_no_writer,
    killed_as_the_writer_the_next_is_told,
    a_readers_death_ends_an_upgrades_wait,
    a_stopped_upgradable_reader_holds_up_writers_alone,
    after_a_writers_death_it_is_told_as_any_locker,
    without_a_free_word_it_reads_as_writers_do,
    a_forked_child_has_no_part_in_it,
    it_keeps_its_handle,
    holders_and_a_sweep_know_it,
    upgradable_readers_lose_no_change: 60,
    upgradable_readers_are_killed_at_random: 120,
);

type Pair = [u64; 2];

const SOON: Duration = Duration::from_millis(20);

fn open(domain: &Domain) -> RwLock<Pair> {
    RwLock::options([0; 2]).open_or_create(domain, "rw").expect("opens")
}

fn upgradable(lock: &RwLock<Pair>) -> UpgradableReadGuard<'_, Pair> {
    lock.upgradable_read().expect("free of others, and whole")
}

/// A child that does this with the lock, then says so and holds on until the board's word 1 says
/// otherwise.
fn holder<'a, G: 'a>(
    lock: &'a RwLock<Pair>,
    board: Board,
    take: impl FnOnce(&'a RwLock<Pair>) -> G,
) -> Child {
    let before = board.get(0);
    let child = Child::start(|| {
        let _guard = take(lock);
        board.add(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, before + 1);
    child
}

/// A child that wants this of the lock, and is asleep.
fn sleeper(body: impl FnOnce()) -> Child {
    let child = Child::start(body);
    wait_asleep(child.pid());
    child
}

fn readers_enter_beside_one_upgradable_reader(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let child = holder(&lock, board, upgradable);
    let reading = [lock.read().expect("beside it"), lock.try_read().expect("well").expect("too")];
    assert!(matches!(lock.try_upgradable_read(), Ok(None)));
    assert!(matches!(lock.try_write(), Err(LockError::Failed(AcquireError::Deadlock))));
    drop(reading);
    assert!(matches!(lock.upgradable_read_timeout(SOON), Ok(None)));
    assert!(matches!(lock.write_timeout(SOON), Ok(None)));
    let next = sleeper(|| drop(upgradable(&lock)));
    let writer = sleeper(|| lock.write().expect("its turn comes")[0] = 3);
    drop(lock.read().expect("also while others wait for it"));
    board.set(1, 1);
    [child, next, writer].into_iter().for_each(Child::finish);
    assert_eq!(upgradable(&lock)[0], 3);
    drop(lock.try_write().expect("free").expect("not held"));
}

fn an_upgrade_waits_for_readers_and_keeps_new_ones_out(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let reader = holder(&lock, board, |lock| lock.read().expect("free"));
    let refused = upgradable(&lock).try_upgrade().expect_err("another process reads");
    assert!(matches!(refused, UpgradeError::InUse(_)));
    drop(lock.try_read().expect("well").expect("a try has kept no reader out"));
    drop(refused);
    let upgrade = sleeper(|| {
        let mut writing = upgradable(&lock).upgrade().expect("the reader leaves");
        writing[0] += 1;
        board.add(2, 1);
    });
    assert!(matches!(lock.try_read(), Ok(None)), "a writer to be waits");
    let late = sleeper(|| assert_eq!(lock.read().expect("it leaves")[0], 1));
    assert_eq!(board.get(2), 0);
    board.set(1, 1);
    [reader, upgrade, late].into_iter().for_each(Child::finish);
}

/// What a binding does that looks for signals in between, with either kind of reader.
macro_rules! in_parts {
    ($lock:ident, $board:ident, $read:expr) => {
        let reader = holder(&$lock, $board, |lock| lock.read().expect("free"));
        let mut begun = $read.begin_upgrade().expect("nobody else wants to write");
        for _ in 0..2 {
            let Err(UpgradeError::TimedOut(again)) = begun.upgrade_until(Deadline::after(SOON))
            else {
                panic!("another process reads")
            };
            begun = again;
            assert_eq!(begun.guard()[0], 5);
            let no_reader = || assert!(matches!($lock.try_read(), Ok(None)));
            Child::start(no_reader).finish();
        }
        // It gives up, and reads on.
        let reading = begun.end();
        assert_eq!(reading[0], 5);
        Child::start(|| drop($lock.try_read().expect("well").expect("it reads again"))).finish();
        let begun = reading.begin_upgrade().expect("nobody else wants to write");
        let Err(refused) = begun.upgrade_until(Deadline::after(SOON)) else {
            panic!("another process reads")
        };
        $board.set(1, 1);
        reader.finish();
        let mut writing = refused.into_guard().upgrade_until(Deadline::NEVER).ok().expect("free");
        writing[1] += 1;
        drop(writing);
        // One that is dropped gives everything back.
        drop($read.begin_upgrade().expect("nobody else wants to write"));
        drop($lock.try_write().expect("well").expect("free"));
    };
}

fn in_parts_it_keeps_new_readers_out(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    lock.write().expect("free")[0] = 5;
    let board = Board::new();
    in_parts!(lock, board, upgradable(&lock));
    let board = Board::new();
    in_parts!(lock, board, lock.read().expect("free"));
    assert_eq!(lock.read().expect("free")[1], 2);
}

fn killed_between_two_parts_it_was_no_writer(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for ordinary in [false, true] {
        let reading = lock.read().expect("free");
        let board = Board::new();
        let mut child = Child::start(|| {
            let (mut one, mut other) = (None, None);
            let soon = Deadline::after(SOON);
            if ordinary {
                let begun = lock.read().expect("free").begin_upgrade().expect("free");
                one = begun.upgrade_until(soon).err();
            } else {
                let begun = upgradable(&lock).begin_upgrade().expect("free");
                other = begun.upgrade_until(soon).err();
            }
            assert!(one.is_some() || other.is_some());
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        let late = sleeper(|| drop(lock.read().expect("no writer has died")));
        child.kill();
        late.finish();
        drop(reading);
        drop(lock.write().expect("no writer has died"));
    }
}

fn no_writer_comes_before_an_upgrade(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 0..50 {
        let reading = upgradable(&lock);
        let writers: Vec<Child> =
            (0..3).map(|_| sleeper(|| lock.write().expect("its turn comes")[1] += 1)).collect();
        assert_eq!(reading[1], 3 * round);
        let mut writing = reading.upgrade().expect("nobody reads");
        assert_eq!(writing[1], 3 * round, "what was read still holds");
        writing[0] += 1;
        drop(writing);
        writers.into_iter().for_each(Child::finish);
    }
    assert_eq!(*lock.read().expect("free"), [50, 150]);
}

fn of_all_readers_only_the_upgradable_one_is_not_refused(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let child = holder(&lock, board, upgradable);
    let reading = lock.read().expect("beside it");
    let refused = reading.upgrade().expect_err("it comes first");
    assert!(matches!(refused, UpgradeError::InUse(_)));
    drop(refused);
    board.set(1, 1);
    child.finish();
    // And beside one that waits to upgrade.
    let reading = lock.read().expect("free");
    let upgrade = sleeper(|| drop(upgradable(&lock).upgrade().expect("the other leaves")));
    let refused = reading.upgrade_timeout(SOON).expect_err("it comes first");
    assert!(matches!(refused, UpgradeError::InUse(_)));
    assert!(matches!(lock.read(), Err(LockError::Failed(AcquireError::Deadlock))));
    drop(refused);
    upgrade.finish();
}

fn an_upgrade_that_gives_up_lets_readers_in(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let reader = holder(&lock, board, |lock| lock.read().expect("free"));
    let reading = upgradable(&lock);
    let refused = reading.upgrade_timeout(SOON).expect_err("the reader stays");
    assert!(matches!(refused, UpgradeError::TimedOut(_)));
    Child::start(|| drop(lock.read().expect("as before"))).finish();
    // One that sleeps when it gives up.
    let late = Child::start(|| {
        board.reach(3, 1);
        while board.get(4) == 0 {
            drop(lock.read().expect("sooner or later"));
            board.add(5, 1);
        }
    });
    board.set(3, 1);
    let mut reading = refused.into_guard();
    for _ in 0..20 {
        reading =
            reading.upgrade_timeout(Duration::from_millis(5)).expect_err("stays").into_guard();
        let before = board.get(5);
        board.reach(5, before + 2);
    }
    board.set(4, 1);
    late.finish();
    board.set(1, 1);
    reader.finish();
    reading.upgrade().expect("alone")[0] = 1;
    assert_eq!(domain.stats().rescues, 0);
}

fn back_to_upgradable_it_lets_sleeping_readers_in(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 1..50 {
        let mut writing = lock.write().expect("free");
        let readers: Vec<Child> = (0..3)
            .map(|_| sleeper(|| assert_eq!(lock.read().expect("it reads, too")[0], round)))
            .collect();
        let writer = sleeper(|| lock.write().expect("its turn comes")[1] += 1);
        writing[0] = round;
        let reading = writing.downgrade_to_upgradable().expect("whole");
        readers.into_iter().for_each(Child::finish);
        assert_eq!(*reading, [round, round - 1], "no writer has come in between");
        drop(reading);
        writer.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn down_to_reading_it_lets_the_next_one_in(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let reading = upgradable(&lock);
    let next = sleeper(|| drop(upgradable(&lock)));
    let reading = reading.downgrade().expect("ours");
    next.finish();
    let writer = sleeper(|| lock.write().expect("its turn comes")[0] = 1);
    assert_eq!(reading[0], 0);
    drop(reading);
    writer.finish();
}

fn a_thread_does_not_wait_for_itself(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let deadlock = AcquireError::Deadlock;
    let reading = upgradable(&lock);
    assert!(matches!(lock.upgradable_read(), Err(LockError::Failed(error)) if error == deadlock));
    assert!(matches!(lock.write(), Err(LockError::Failed(error)) if error == deadlock));
    let beside = lock.read().expect("as any reader");
    let refused = reading.upgrade().expect_err("this thread reads a second time");
    assert!(matches!(&refused, UpgradeError::Failed(_, error) if *error == deadlock));
    drop(lock.read().expect("and readers enter as before"));
    drop(beside);
    drop(refused.into_guard().upgrade().expect("alone"));
    // It may come second, as long as it need not wait.
    let first = lock.read().expect("free");
    let second = upgradable(&lock);
    drop(first);
    drop(second.upgrade().expect("alone"));
    let board = Board::new();
    let child = holder(&lock, board, upgradable);
    let reading = lock.read().expect("beside it");
    assert!(matches!(lock.upgradable_read(), Err(LockError::Failed(error)) if error == deadlock));
    assert!(matches!(lock.try_upgradable_read(), Ok(None)));
    drop(reading);
    board.set(1, 1);
    child.finish();
    // Refused at once, also beside a reader that does not leave before.
    let board = Board::new();
    let reader = holder(&lock, board, |lock| lock.read().expect("free"));
    let beside = lock.read().expect("beside it");
    let refused = upgradable(&lock).upgrade().expect_err("this thread reads a second time");
    assert!(matches!(&refused, UpgradeError::Failed(_, error) if *error == deadlock));
    drop(refused);
    let second = lock.read().expect("a second time");
    let refused = second.upgrade().expect_err("this thread reads a second time");
    assert!(matches!(&refused, UpgradeError::Failed(_, error) if *error == deadlock));
    drop((refused, beside));
    board.set(1, 1);
    reader.finish();
}

fn a_dead_upgradable_reader_keeps_nobody_out(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let die = || holder(&lock, board, upgradable).kill();
    die();
    drop(lock.read().expect("as beside a living one"));
    drop(upgradable(&lock));
    die();
    drop(lock.try_upgradable_read().expect("no writer died").expect("not held"));
    die();
    let reading = lock.read().expect("beside the dead one");
    Child::start(|| assert!(matches!(lock.write_timeout(SOON), Ok(None)), "we read")).finish();
    drop(reading);
    drop(lock.try_write().expect("no writer died").expect("not held"));
    // Those that sleep behind it.
    let mut child = holder(&lock, board, upgradable);
    let sleepers = [
        sleeper(|| lock.write().expect("no writer died")[0] += 1),
        sleeper(|| upgradable(&lock).upgrade().expect("others leave")[0] += 1),
    ];
    child.kill();
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!(lock.read().expect("whole")[0], 2);
}

fn killed_while_it_waits_for_readers_it_was_no_writer(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let reading = lock.read().expect("free");
    let mut upgrade = sleeper(|| drop(upgradable(&lock).upgrade().expect("we leave")));
    let late = sleeper(|| drop(lock.read().expect("no writer died")));
    upgrade.kill();
    late.finish();
    drop(reading);
    drop(upgradable(&lock).upgrade().expect("alone"));
}

fn killed_as_the_writer_the_next_is_told(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let write = |lock| {
        let mut writing = upgradable(lock).upgrade().expect("alone");
        writing[0] += 1;
        writing
    };
    holder(&lock, board, write).kill();
    let Err(LockError::OwnerDied(mut guard)) = lock.upgradable_read() else {
        panic!("not told");
    };
    guard[1] = guard[0];
    let guard = guard.downgrade_to_upgradable().expect_err("not repaired");
    drop(guard);
    let Err(LockError::OwnerDied(mut guard)) = lock.read() else { panic!("not told again") };
    guard.mark_consistent();
    let reading = guard.downgrade_to_upgradable().expect("repaired");
    Child::start(|| assert_eq!(*lock.read().expect("whole"), [1, 1])).finish();
    drop(reading);
    // Back as the upgradable reader, its death is a reader's again.
    let back = |lock| write(lock).downgrade_to_upgradable().expect("whole");
    holder(&lock, board, back).kill();
    assert_eq!(upgradable(&lock)[0], 2);
}

fn a_readers_death_ends_an_upgrades_wait(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    for round in 1..20 {
        let mut readers: Vec<Child> = (0..3)
            .map(|_| holder(&lock, Board::new(), |lock| lock.read().expect("whole")))
            .collect();
        let upgrade = sleeper(|| upgradable(&lock).upgrade().expect("they die")[0] += 1);
        readers.iter_mut().for_each(Child::kill);
        upgrade.finish();
        assert_eq!(lock.read().expect("whole")[0], round);
    }
}

fn a_stopped_upgradable_reader_holds_up_writers_alone(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let child = holder(&lock, board, upgradable);
    child.stop();
    drop(lock.read().expect("beside it"));
    assert!(matches!(lock.write_timeout(SOON), Ok(None)));
    assert!(matches!(lock.upgradable_read_timeout(SOON), Ok(None)));
    board.set(1, 1);
    child.go_on();
    drop(lock.write().expect("it leaves"));
    child.finish();
    // Stopped while it waits for a reader, it holds up all, as a writer does.
    let reading = lock.read().expect("free");
    let upgrade = sleeper(|| drop(upgradable(&lock).upgrade().expect("we leave")));
    upgrade.stop();
    drop(reading);
    assert!(matches!(lock.read_timeout(SOON), Ok(None)));
    upgrade.go_on();
    drop(lock.read().expect("it leaves"));
    upgrade.finish();
}

fn after_a_writers_death_it_is_told_as_any_locker(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let write = |lock: &'static RwLock<Pair>| {
        let mut guard = lock.write().expect("whole");
        guard[0] += 1;
        guard
    };
    let lock: &'static RwLock<Pair> = Box::leak(Box::new(lock));
    let mut writer = holder(lock, board, write);
    let told = sleeper(|| {
        let Err(LockError::OwnerDied(mut guard)) = lock.upgradable_read() else {
            panic!("not told");
        };
        guard[1] = guard[0];
        // And leaves without a word: the word is free, its state inconsistent.
    });
    writer.kill();
    told.finish();
    assert!(matches!(lock.try_upgradable_read(), Err(LockError::OwnerDied(_))));
    let Err(LockError::OwnerDied(mut guard)) = lock.upgradable_read() else {
        panic!("not told again");
    };
    guard.mark_consistent();
    drop(guard);
    assert_eq!(*upgradable(lock), [1, 1]);
    lock.write().expect("whole").mark_not_recoverable();
    let refused = AcquireError::NotRecoverable;
    assert!(matches!(lock.upgradable_read(), Err(LockError::Failed(error)) if error == refused));
    lock.reset([5; 2]).expect("made whole");
    assert_eq!(*upgradable(lock), [5; 2]);
}

fn without_a_free_word_it_reads_as_writers_do(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let guards: Vec<ReadGuard<'_, Pair>> =
        (0..1024).map(|_| lock.read().expect("a word each")).collect();
    let board = Board::new();
    let down = |lock| upgradable(lock).downgrade().expect("ours");
    let child = holder(&lock, board, down);
    let sleeper = sleeper(|| drop(lock.read().expect("its turn comes")));
    assert!(matches!(lock.try_upgradable_read(), Ok(None)));
    board.set(1, 1);
    child.finish();
    sleeper.finish();
    drop(guards);
    drop(upgradable(&lock).upgrade().expect("alone"));
}

fn a_forked_child_has_no_part_in_it(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let mut inherited = Some(upgradable(&lock));
    Child::start(|| {
        let refused = inherited.take().expect("inherited").upgrade().expect_err("the parent's");
        assert!(matches!(&refused, UpgradeError::Failed(_, AcquireError::NotHeld)));
        let guard = refused.into_guard().downgrade().expect_err("the parent's");
        drop(guard);
        assert!(matches!(lock.try_upgradable_read(), Ok(None)));
    })
    .finish();
    drop(inherited.expect("ours still").upgrade().expect("alone"));
}

fn it_keeps_its_handle(world: &World) {
    let lock = std::sync::Arc::new(open(&world.domain()));
    let reading = lock.upgradable_read_owned().expect("free");
    assert!(matches!(lock.upgradable_read_owned(), Err(LockError::Failed(AcquireError::Deadlock))));
    let mut writing = reading.upgrade().expect("alone");
    writing[1] = 5;
    let reading = writing.downgrade_to_upgradable().expect("whole");
    assert_eq!(OwnedUpgradableReadGuard::lock(&reading).holders().len(), 1);
    assert_eq!((reading[1], std::sync::Arc::strong_count(&lock)), (5, 2));
    drop(reading.downgrade().expect("ours"));
    assert_eq!((lock.holders().len(), std::sync::Arc::strong_count(&lock)), (0, 1));
    drop(lock.try_upgradable_read_owned().expect("well").expect("free"));
}

fn holders_and_a_sweep_know_it(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let state = || {
        let Detail::Lock(lock) = domain.entry("rw").expect("there").detail else {
            panic!("no lock")
        };
        lock.state
    };
    let reading = upgradable(&lock);
    assert_eq!(lock.holders().len(), 1);
    assert_eq!(state().as_deref(), Some("held by 1 reader, one of them upgradable"));
    let beside = lock.read().expect("beside it");
    assert_eq!(state().as_deref(), Some("held by 2 readers, one of them upgradable"));
    drop((reading, beside));
    assert_eq!(state(), None);
    let board = Board::new();
    holder(&lock, board, upgradable).kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    drop(lock.read().expect("no writer died"));
    holder(&lock, board, upgradable).kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    drop(upgradable(&lock).upgrade().expect("alone"));
}

/// Raises both numbers by the upgradable way; the first alone by the writers'. Returns whether it
/// was told of a death instead.
fn change(lock: &RwLock<Pair>, random: &mut Random) -> bool {
    let reading = match lock.upgradable_read() {
        Ok(reading) => reading,
        Err(LockError::OwnerDied(mut guard)) => {
            guard[1] = guard[0];
            guard.mark_consistent();
            return true;
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(reading[0], reading[1], "torn");
    let read = reading[0];
    let mut writing = if random.below(4) == 0 {
        match reading.upgrade_timeout(Duration::from_micros(50)) {
            Ok(writing) => writing,
            Err(UpgradeError::TimedOut(reading)) => reading.upgrade().expect("never refused"),
            Err(error) => panic!("{error}"),
        }
    } else {
        reading.upgrade().expect("never refused")
    };
    assert_eq!(writing[0], read, "somebody wrote in between");
    writing[0] += 1;
    writing[1] += 1;
    if random.below(2) == 0 {
        let reading = writing.downgrade_to_upgradable().expect("whole");
        assert_eq!(*reading, [read + 1; 2]);
        if random.below(2) == 0 {
            assert_eq!(*reading.downgrade().expect("ours"), [read + 1; 2]);
        }
    }
    false
}

fn look(lock: &RwLock<Pair>) {
    match lock.read() {
        Ok(guard) => assert_eq!(guard[0], guard[1], "torn"),
        Err(LockError::OwnerDied(mut guard)) => {
            guard[1] = guard[0];
            guard.mark_consistent();
        }
        Err(error) => panic!("{error}"),
    }
}

fn upgradable_readers_lose_no_change(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let children: Vec<Child> = (0..6)
        .map(|n| {
            let lock = &lock;
            Child::start(move || {
                let mut random = Random::new();
                for _ in 0..2_000 {
                    match n {
                        0..3 => assert!(!change(lock, &mut random), "nobody dies"),
                        3 => {
                            let mut writing = lock.write().expect("nobody dies");
                            writing[0] += 1;
                            writing[1] += 1;
                        }
                        _ => look(lock),
                    }
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(*lock.read().expect("whole"), [8_000; 2]);
    assert_eq!(domain.stats().rescues, 0);
}

fn upgradable_readers_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let lock = open(&domain);
    let board = Board::new();
    let mut random = Random::new();
    let start = |n: usize| {
        let lock = &lock;
        Child::start(move || {
            let mut random = Random::new();
            loop {
                if n == 3 {
                    look(lock);
                } else if !change(lock, &mut random) {
                    board.add(n, 1);
                }
                board.add(4 + n, 1);
            }
        })
    };
    let mut children: Vec<Child> = (0..4).map(start).collect();
    for kill in 0..500 {
        random.pause(4_000);
        let n = random.below(4) as usize;
        children[n].kill();
        children[n] = start(n);
        if kill % 20 == 0 {
            for n in 4..8 {
                board.reach(n, board.get(n) + 10);
            }
        }
    }
    children.iter_mut().for_each(Child::kill);
    wait_until("the lock is free", || match lock.try_upgradable_read() {
        Ok(got) => got.is_some(),
        Err(LockError::OwnerDied(mut guard)) => {
            guard[1] = guard[0];
            guard.mark_consistent();
            false
        }
        Err(error) => panic!("{error}"),
    });
    let value = lock.read().expect("whole")[0];
    let finished: u64 = (0..4).map(|n| board.get(n)).sum();
    assert!(value >= finished, "finished work was lost: {value} < {finished}");
    assert!(value <= finished + 504, "{value} > {finished} and a death each");
    assert_eq!(domain.stats().rescues, 0);
}
