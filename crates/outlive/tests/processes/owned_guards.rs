//! Guards, permits and seats that keep their handle by an `Arc`: they outlive the place where it
//! was opened, their owner's death is told as with any other, and a forked child's have no effect.

use std::sync::Arc;
use std::time::Duration;

use outlive::sync::{
    AcquireError, Barrier, Condvar, LockError, Mutex, OwnedMutexGuard, OwnedReadGuard, PiMutex,
    RwLock, Semaphore, UpgradeError,
};
use outlive::{Deadline, Domain};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::runner::World;

crate::checks!(
    a_killed_owner_is_told,
    it_keeps_its_handle,
    a_forked_child_gives_nothing_back,
    a_reader_becomes_a_writer_and_back,
    an_abandoned_one_ends_with_its_thread,
    a_waiter_outlives_its_condition_variable,
);

fn number(domain: &Domain) -> Arc<Mutex<u64>> {
    Arc::new(Mutex::options(0).open_or_create(domain, "number").expect("opens"))
}

fn pair(domain: &Domain) -> Arc<RwLock<[u64; 2]>> {
    Arc::new(RwLock::options([0; 2]).open_or_create(domain, "pair").expect("opens"))
}

/// Has a child take something, and kills it as it holds that.
fn die_with<T>(take: impl FnOnce() -> T) {
    let board = Board::new();
    let mut child = Child::start(|| {
        let _held = take();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child.kill();
}

fn a_killed_owner_is_told(world: &World) {
    let domain = world.domain();
    let mutex = number(&domain);
    die_with(|| mutex.lock_owned().expect("free"));
    let guard = mutex.lock_owned().or_else(|error| error.repair(|value| *value = 7));
    assert_eq!(*guard.expect("repaired"), 7);

    let pi = Arc::new(PiMutex::options(0u64).open_or_create(&domain, "pi").expect("opens"));
    die_with(|| pi.lock_owned().expect("free"));
    assert!(matches!(pi.try_lock_owned(), Err(LockError::OwnerDied(_))));

    let pair = pair(&domain);
    die_with(|| pair.read_owned().expect("free"));
    drop(pair.try_write_owned().expect("a reader leaves nothing").expect("free"));
    die_with(|| pair.write_owned().expect("free"));
    let Err(LockError::OwnerDied(mut writing)) = pair.read_owned() else {
        panic!("a writer was killed")
    };
    writing[0] = 1;
    writing.mark_consistent();
    drop(writing);
    assert_eq!(*pair.read().expect("whole"), [1, 0]);

    let permits = Semaphore::options(1).open_or_create(&domain, "permits").expect("opens");
    let permits = Arc::new(permits);
    die_with(|| permits.acquire_owned().expect("free"));
    drop(permits.try_acquire_owned().expect("well").expect("free again"));

    let step = Barrier::options(2).open_or_create(&domain, "step").expect("opens");
    let step = Arc::new(step);
    let mut seat = step.join_owned().expect("free");
    die_with(|| step.join_owned().expect("free"));
    assert_eq!(seat.wait(), Err(AcquireError::Broken));
}

fn it_keeps_its_handle(world: &World) {
    let domain = world.domain();
    let opened = |guard: &OwnedMutexGuard<u64>| Arc::strong_count(OwnedMutexGuard::lock(guard));
    let mut guard = number(&domain).lock_owned_timeout(Duration::from_secs(5));
    let guard = guard.as_mut().expect("free").as_mut().expect("in time");
    assert_eq!(opened(guard), 1, "nobody else has that handle");
    **guard += 1;
    let other = number(&domain);
    assert!(other.try_lock_owned().is_err(), "this thread would wait for itself");
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(other.try_lock_owned().expect("well").is_none(), "it is held"));
    });
    drop(other);

    let part = OwnedReadGuard::map(pair(&domain).read_owned().expect("free"), |pair| &pair[1]);
    assert_eq!((*part, pair(&domain).holders().len()), (0, 1));
    drop(part);
    assert!(pair(&domain).holders().is_empty());

    let permits = Semaphore::options(2).open_or_create(&domain, "permits").expect("opens");
    let permits = Arc::new(permits);
    let me = domain.token().expect("has one");
    let permit = permits.acquire_owned_until(Deadline::after(Duration::from_secs(5)));
    permit.expect("well").expect("free").hand_to(me);
    assert_eq!(
        (Arc::strong_count(&permits), permits.available_permits()),
        (1, 1),
        "it was handed over whole"
    );
    permits.take_up_owned().expect("one").consume();
    assert!(permits.try_take_up_owned().expect("well").is_none());
    assert_eq!(
        (Arc::strong_count(&permits), permits.available_permits()),
        (1, 1),
        "it was used up"
    );

    let step = Barrier::options(1).open_or_create(&domain, "step").expect("opens");
    let mut seat = Arc::new(step).join_owned().expect("free");
    assert!(seat.wait().expect("alone").is_leader());
    assert_eq!(seat.barrier().participants().len(), 1);
}

fn a_forked_child_gives_nothing_back(world: &World) {
    let domain = world.domain();
    let mutex = number(&domain);
    let permits = Semaphore::options(1).open_or_create(&domain, "permits").expect("opens");
    let mut inherited = Some((
        mutex.lock_owned().expect("free"),
        pair(&domain).write_owned().expect("free"),
        Arc::new(permits).acquire_owned().expect("free"),
    ));
    Child::start(|| drop(inherited.take())).finish();
    let (number, pair, permit) = inherited.expect("ours still");
    assert!(mutex.holder().is_some_and(|holder| holder.alive));
    assert_eq!(OwnedReadGuard::lock(&pair.downgrade().expect("whole")).holders().len(), 1);
    assert_eq!(permit.semaphore().available_permits(), 0);
    drop(number);
    assert_eq!(mutex.holder(), None);
}

fn a_reader_becomes_a_writer_and_back(world: &World) {
    let lock = pair(&world.domain());
    let reading = lock.read_owned().expect("free");
    let beside = lock.read_owned_timeout(Duration::from_secs(5)).expect("well").expect("free");
    let refused = reading.try_upgrade().expect_err("this thread reads twice");
    assert!(matches!(refused, UpgradeError::Failed(_, AcquireError::Deadlock)));
    drop(beside);
    let mut writing = refused.into_guard().upgrade().expect("alone");
    writing[1] = 5;
    let reading = writing.downgrade().expect("whole");
    assert_eq!((reading[1], Arc::strong_count(&lock)), (5, 2));
    drop(reading);
    assert_eq!((lock.holders().len(), Arc::strong_count(&lock)), (0, 1));
}

fn an_abandoned_one_ends_with_its_thread(world: &World) {
    let domain = world.domain();
    let mutex = number(&domain);
    let permits = Semaphore::options(1).open_or_create(&domain, "permits").expect("opens");
    let step = Barrier::options(2).open_or_create(&domain, "step").expect("opens");
    let (permits, step) = (Arc::new(permits), Arc::new(step));
    let mut seat = step.join().expect("free");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            mutex.lock_owned().expect("free").abandon();
            permits.acquire_owned().expect("free").abandon();
            step.join_owned().expect("free").abandon();
            assert!(mutex.holder().is_some_and(|holder| holder.alive));
            assert_eq!((permits.available_permits(), step.participants().len()), (0, 2));
        });
    });
    assert_eq!(Arc::strong_count(&mutex), 1, "an abandoned guard lets go of the handle");
    assert_eq!((Arc::strong_count(&permits), Arc::strong_count(&step)), (1, 1));
    wait_until("the thread's death is told", || {
        matches!(mutex.try_lock_owned(), Err(LockError::OwnerDied(_)))
    });
    drop(permits.acquire().expect("free again"));
    assert_eq!(seat.wait(), Err(AcquireError::Broken), "it died in its seat");
}

/// A waiter with a notification holds the mutex, and has closed the condition variable. It is
/// killed before it unlocks: the notification goes to the next waiter, which makes no recheck.
fn a_waiter_outlives_its_condition_variable(world: &World) {
    let domain = world.domain();
    let domain = Domain::options().recheck(None).open_at(domain.path()).expect("opens");
    let mutex = number(&domain);
    let board = Board::new();
    let wait = || {
        let changed = Condvar::open_or_create(&domain, "changed").expect("opens");
        let guard = mutex.lock_owned().expect("free");
        changed.wait_while(guard, |value| *value == 0)
    };
    let mut first = Child::start(|| {
        let _guard = wait().expect("notified");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    wait_asleep(first.pid());
    let second = Child::start(|| {
        let guard = wait().or_else(|error| error.repair(|_| ())).expect("passed on");
        assert_eq!(*guard, 1);
    });
    wait_asleep(second.pid());
    *mutex.lock().expect("free") = 1;
    Condvar::open(&domain, "changed").expect("there").notify_one();
    board.reach(0, 1);
    first.kill();
    second.finish();
}
