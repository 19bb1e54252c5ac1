//! The mutex that its holder locks again: how often, beside other handles and processes, and what a
//! death at any depth leaves.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use outlive::sync::{
    AcquireError, Condvar, EmbeddedReentrantMutex, LockError, Mutex, Record, ReentrantMutex,
    ReentrantMutexGuard,
};
use outlive::{Deadline, Detail, Domain, Error};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::runner::World;

crate::checks!(
    it_is_unlocked_as_often_as_locked,
    by_two_handles_too,
    a_death_at_depth_three_is_told_once,
    a_sleeper_is_told_of_a_death_at_depth_two,
    told_again_if_it_is_not_repaired,
    a_stopped_holder_keeps_it,
    a_forked_childs_guards_change_nothing,
    a_panic_under_an_inner_guard_is_told,
    not_recoverable_from_an_inner_guard,
    an_outer_guard_does_not_undo_an_inner_ones_mark,
    embedded_in_a_record,
    it_guards_another_type_or_is_another_lock,
    the_order_of_locks_has_no_cycle_where_it_is_locked_again,
    a_wait_with_one_guard,
    a_wait_with_an_outer_guard_is_refused,
    a_wait_of_a_binding_gives_all_levels_up,
    whom_a_wait_leaves_without_the_lock_unlocks_nothing,
    an_inner_guard_that_waits_on_hands_on_what_an_outer_one_has_used,
    swept_after_a_death,
);

type Total = ReentrantMutex<Cell<u64>>;

fn open(domain: &Domain) -> Total {
    ReentrantMutex::options(Cell::new(0)).open_or_create(domain, "total").expect("opens")
}

/// Whether another process could have it now.
fn is_free(total: &Total) -> bool {
    let board = Board::new();
    Child::start(|| {
        let got = total.try_lock().expect("well").is_some();
        board.set(0, u64::from(got));
    })
    .finish();
    board.get(0) == 1
}

fn times<'a>(total: &'a Total, count: usize) -> Vec<ReentrantMutexGuard<'a, Cell<u64>>> {
    (0..count).map(|_| total.lock().expect("its own")).collect()
}

/// A child that holds the mutex so often until it is killed.
fn hold(total: &Total, depth: usize) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _held = times(total, depth);
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

fn told<'a>(total: &'a Total) -> ReentrantMutexGuard<'a, Cell<u64>> {
    match total.lock() {
        Err(LockError::OwnerDied(guard)) => guard,
        other => panic!("{other:?}"),
    }
}

fn it_is_unlocked_as_often_as_locked(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let mut held = times(&total, 3);
    assert!(total.try_lock().expect("its own").is_some());
    assert!(total.lock_timeout(Duration::ZERO).expect("its own").is_some());
    assert_eq!(total.depth(), 3);
    held[1].set(7);
    // In whatever order.
    for (left, at) in [(2, 1), (1, 0), (0, 0)] {
        assert!(!is_free(&total));
        drop(held.remove(at));
        assert_eq!(total.depth(), left);
    }
    assert!(is_free(&total));
    assert_eq!(total.lock().expect("free").get(), 7);
    let detail = domain.entries().expect("read").remove(0);
    assert_eq!(detail.kind, Ok(outlive::Kind::ReentrantMutex));
}

fn by_two_handles_too(world: &World) {
    let domain = world.domain();
    let (one, other) = (open(&domain), open(&domain));
    let outer = one.lock().expect("free");
    let inner = other.lock().expect("its own");
    assert!(one.depth() == 2 && other.depth() == 2);
    drop(outer);
    assert!(!is_free(&one));
    drop(inner);
    assert!(is_free(&one));
}

fn a_death_at_depth_three_is_told_once(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    for depth in [3, 1, 2] {
        hold(&total, depth).kill();
        let mut outer = told(&total);
        assert_eq!(total.depth(), 1);
        // This thread was told.
        let inner = total.lock().expect("its own");
        assert!(inner.owner_died() && total.depth() == 2);
        outer.mark_consistent();
        assert!(!inner.owner_died());
        drop(inner);
        assert!(!is_free(&total));
        drop(outer);
        assert!(is_free(&total));
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn a_sleeper_is_told_of_a_death_at_depth_two(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let mut holder = hold(&total, 2);
    let board = Board::new();
    let sleeper = Child::start(|| {
        let mut guard = told(&total);
        guard.mark_consistent();
        board.set(0, u64::from(total.depth()));
    });
    wait_asleep(sleeper.pid());
    holder.kill();
    sleeper.finish();
    assert_eq!(board.get(0), 1);
    assert!(is_free(&total));
    assert_eq!(domain.stats().rescues, 0);
}

fn told_again_if_it_is_not_repaired(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    hold(&total, 2).kill();
    drop(told(&total));
    drop(told(&total));
    told(&total).mark_consistent();
    drop(total.lock().expect("repaired"));
}

fn a_stopped_holder_keeps_it(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let mut holder = hold(&total, 2);
    holder.stop();
    assert!(total.lock_timeout(Duration::from_millis(30)).expect("well").is_none());
    assert!(total.holder().is_some_and(|holder| holder.alive));
    holder.kill();
    told(&total).mark_consistent();
}

fn a_forked_childs_guards_change_nothing(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let held = times(&total, 2);
    Child::start(|| {
        assert_eq!(total.depth(), 0);
        assert!(total.try_lock().expect("well").is_none());
        // SAFETY: the copy in this process alone is dropped, and the process ends without dropping
        // it again.
        drop(unsafe { std::ptr::read(&raw const held) });
    })
    .finish();
    assert_eq!(total.depth(), 2);
    drop(held);
    assert!(is_free(&total));
}

fn a_panic_under_an_inner_guard_is_told(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let outer = total.lock().expect("free");
    let panics = || {
        let _inner = total.lock().expect("its own");
        resume_unwind(Box::new("as planned"));
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert!(outer.owner_died() && total.depth() == 1);
    drop(outer);
    let mut next = told(&total);
    next.mark_consistent();
    // Out of all levels.
    drop(next);
    let panics = || {
        let _held = times(&total, 3);
        resume_unwind(Box::new("as planned"));
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(total.depth(), 0);
    told(&total).mark_consistent();
}

fn not_recoverable_from_an_inner_guard(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let outer = total.lock().expect("free");
    total.lock().expect("its own").mark_not_recoverable();
    let refused = |got| matches!(got, Err(LockError::Failed(AcquireError::NotRecoverable)));
    assert!(refused(total.try_lock().map(drop)) && total.depth() == 1);
    assert!(matches!(total.lock_to_reset(), Err(AcquireError::Deadlock)));
    drop(outer);
    assert!(refused(total.lock().map(drop)));
    let mut guard = total.lock_to_reset().expect("free");
    assert_eq!(total.depth(), 1);
    guard.set(3);
    guard.mark_consistent();
    drop(guard);
    assert_eq!(total.lock().expect("reset").get(), 3);
}

/// Code that repairs after a death calls a function that decides that there is no repair.
fn an_outer_guard_does_not_undo_an_inner_ones_mark(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let refused = |got| matches!(got, Err(LockError::Failed(AcquireError::NotRecoverable)));
    hold(&total, 1).kill();
    let mut outer = told(&total);
    let mut middle = total.lock().expect("its own");
    total.lock().expect("its own").mark_not_recoverable();
    middle.mark_consistent();
    drop(middle);
    outer.mark_consistent();
    assert!(outer.owner_died() && refused(total.lock().map(drop)));
    let entry = domain.entries().expect("read").remove(0);
    assert!(matches!(entry.detail, Detail::Lock(lock) if lock.not_recoverable));
    drop(outer);
    assert!(refused(total.lock().map(drop)));
    // A reset that is not finished, by a process that is killed or one that gives up, leaves it so.
    let board = Board::new();
    let mut resetting = Child::start(|| {
        let guard = total.lock_to_reset().expect("free");
        guard.abandon();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    resetting.kill();
    assert!(refused(total.lock().map(drop)));
    drop(total.lock_to_reset().expect("free"));
    assert!(refused(total.lock().map(drop)));
    let mut guard = total.lock_to_reset().expect("free");
    guard.mark_consistent();
    let inner = total.lock().expect("its own");
    assert!(!inner.owner_died());
    // And again: that it was reset by this guard does not let the guard undo this.
    inner.mark_not_recoverable();
    guard.mark_consistent();
    drop(guard);
    assert!(refused(total.lock().map(drop)));
    total.lock_to_reset().expect("free").mark_consistent();
    assert!(is_free(&total));
}

outlive::record! {
    pub struct Tree {
        pub first: EmbeddedReentrantMutex<[Cell<u32>; 2]>,
        pub second: EmbeddedReentrantMutex<()>,
    }
}

fn embedded_in_a_record(world: &World) {
    let domain = world.domain();
    let tree = Record::<Tree>::open_or_create(&domain, "tree").expect("opens");
    let (first, second) = (tree.handle(|tree| &tree.first), tree.handle(|tree| &tree.second));
    let held = (first.lock().expect("free"), first.lock().expect("its own"));
    held.0[1].set(4);
    let part = ReentrantMutexGuard::map(held.1, |pair| &pair[1]);
    assert!(part.get() == 4 && second.depth() == 0);
    drop((held.0, part));
    assert_eq!(first.depth(), 0);
}

fn it_guards_another_type_or_is_another_lock(world: &World) {
    let domain = world.domain();
    drop(open(&domain));
    let other = ReentrantMutex::<Cell<u32>>::open(&domain, "total").err();
    assert!(matches!(other, Some(Error::OtherType { .. })));
    assert!(matches!(Mutex::<u64>::open(&domain, "total").err(), Some(Error::OtherKind { .. })));
}

fn the_order_of_locks_has_no_cycle_where_it_is_locked_again(world: &World) {
    Child::start(|| {
        let folder = world.folder().join("domain");
        let domain = Domain::options().lock_order(true).open_or_create_at(folder).expect("opens");
        let (total, other) = (open(&domain), Mutex::options(0u64));
        let other = other.open_or_create(&domain, "other").expect("opens");
        let outer = total.lock().expect("free");
        let held = other.lock().expect("free");
        // It cannot wait.
        drop(total.lock().expect("its own"));
        drop((held, outer));
        assert!(domain.lock_orders().expect("read").is_empty());
    })
    .finish();
}

fn a_wait_with_one_guard(world: &World) {
    let domain = world.domain();
    let (total, changed) = (open(&domain), Condvar::open_or_create(&domain, "changed"));
    let changed = changed.expect("opens");
    let waiter = Child::start(|| {
        let guard = total.lock().expect("free");
        let guard = guard_when(&changed, guard, 1);
        assert_eq!(total.depth(), 1);
        guard.set(2);
    });
    wait_asleep(waiter.pid());
    total.lock().expect("free").set(1);
    changed.notify_one();
    waiter.finish();
    assert_eq!(total.lock().expect("free").get(), 2);
}

fn guard_when<'a>(
    changed: &Condvar,
    mut guard: ReentrantMutexGuard<'a, Cell<u64>>,
    value: u64,
) -> ReentrantMutexGuard<'a, Cell<u64>> {
    while guard.get() != value {
        guard = changed.wait(guard).expect("well");
    }
    guard
}

fn a_wait_with_an_outer_guard_is_refused(world: &World) {
    let domain = world.domain();
    let (total, changed) = (open(&domain), Condvar::open_or_create(&domain, "changed"));
    let changed = changed.expect("opens");
    let outer = total.lock().expect("free");
    let inner = total.lock().expect("its own");
    let refused = changed.wait(inner).map(drop);
    assert!(matches!(refused, Err(LockError::Failed(AcquireError::Deadlock))));
    assert_eq!(total.depth(), 1);
    drop(outer);
    assert!(is_free(&total));
}

fn a_wait_of_a_binding_gives_all_levels_up(world: &World) {
    let domain = world.domain();
    let (total, changed) = (open(&domain), Condvar::open_or_create(&domain, "changed"));
    let changed = changed.expect("opens");
    for dies in [false, true] {
        total.lock().expect("free").set(0);
        let mut waiter = Child::start(|| {
            let outer = times(&total, 2);
            let mut inner = total.lock().expect("its own");
            while inner.get() == 0 {
                // SAFETY: no reference of another guard is in use.
                let waited = unsafe { changed.wait_with_outer_guards(inner, Deadline::NEVER) };
                inner = waited.expect("well").0;
            }
            assert_eq!(total.depth(), 3);
            inner.set(2);
            drop((inner, outer));
            assert_eq!(total.depth(), 0);
        });
        wait_asleep(waiter.pid());
        if dies {
            // Asleep it holds nothing.
            waiter.kill();
        }
        total.lock().expect("free").set(1);
        changed.notify_one();
        if !dies {
            waiter.finish();
            assert_eq!(total.lock().expect("free").get(), 2);
        }
    }
}

/// The mutex becomes not recoverable during the wait: the outer guards are left.
fn whom_a_wait_leaves_without_the_lock_unlocks_nothing(world: &World) {
    let domain = world.domain();
    let (total, changed) = (open(&domain), Condvar::open_or_create(&domain, "changed"));
    let changed = changed.expect("opens");
    let board = Board::new();
    let waiter = Child::start(|| {
        let outer = times(&total, 2);
        let inner = total.lock().expect("its own");
        // SAFETY: no reference of another guard is in use, and those guards are dropped.
        let lost = unsafe { changed.wait_with_outer_guards(inner, Deadline::NEVER) };
        let refused = lost.map(drop);
        assert!(matches!(refused, Err(LockError::Failed(AcquireError::NotRecoverable))));
        board.set(0, 1);
        board.reach(1, 1);
        drop(outer);
        board.set(2, 1);
    });
    wait_asleep(waiter.pid());
    total.lock().expect("free").mark_not_recoverable();
    changed.notify_all();
    board.reach(0, 1);
    let held = total.lock_to_reset().expect("free");
    board.set(1, 1);
    board.reach(2, 1);
    assert_eq!(total.depth(), 1);
    waiter.finish();
    drop(held);
}

/// The wait of the inner guard gives the mutex up for the outer one too, which has a notification.
fn an_inner_guard_that_waits_on_hands_on_what_an_outer_one_has_used(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    let changed = Condvar::open_or_create(&domain, "changed").expect("opens");
    let other = Condvar::open_or_create(&domain, "other").expect("opens");
    let board = Board::new();
    let first = Child::start(|| {
        let outer = changed.wait(total.lock().expect("free")).expect("notified");
        let inner = total.lock().expect("its own");
        board.set(0, 1);
        // SAFETY: no reference of another guard is in use.
        let waited = unsafe { other.wait_with_outer_guards(inner, Deadline::NEVER) };
        drop((waited.expect("notified"), outer));
    });
    wait_asleep(first.pid());
    let second = Child::start(|| drop(changed.wait(total.lock().expect("free")).expect("woken")));
    wait_asleep(second.pid());
    changed.notify_one();
    board.reach(0, 1);
    // Whichever of both the notification woke, the other one gets it, or the next.
    second.finish();
    other.notify_one();
    first.finish();
}

fn swept_after_a_death(world: &World) {
    let domain = world.domain();
    let total = open(&domain);
    hold(&total, 2).kill();
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 0);
    let mut guard = told(&total);
    assert_eq!(total.depth(), 1);
    guard.mark_consistent();
}
