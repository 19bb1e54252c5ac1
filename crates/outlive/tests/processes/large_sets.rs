//! Wait sets of more than 128 words: their deadlines, and children that are forked beside their
//! helper threads.

use std::time::{Duration, Instant, SystemTime};

use outlive::sync::{Event, Reset};
use outlive::wait::{Key, Readiness, Timer, WaitSet};
use outlive::{Deadline, Domain, WaitStrategy};

use crate::asleep::{wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::runner::World;
use crate::wait_sets::{AS_IT_IS, Many, NO_WAITV, add_all, crowd, helpers_of};

crate::checks!(
    deadlines_pass_in_large_sets_as_in_small_ones: 60,
    what_is_ready_is_told_beside_a_deadline_of_any_clock: 60,
    what_changes_beside_its_threads_is_told,
    a_child_has_helpers_of_its_own,
    a_child_beside_a_sleeping_thread_takes_no_wake_up,
    a_set_goes_to_another_thread_and_into_a_child,
);

/// So many events have more words than one call of `futex_waitv` watches, and no deadline but the
/// caller's.
const EVENTS: usize = 200;
/// So many owners, too.
const OWNERS: usize = 50;

fn events(domain: &Domain, many: usize) -> Vec<Event> {
    (0..many)
        .map(|n| {
            Event::options()
                .reset(Reset::Automatic)
                .open_or_create(domain, &format!("event-{n}"))
                .expect("opens")
        })
        .collect()
}

fn set_of(domain: &Domain, events: &[Event]) -> (WaitSet, Vec<Key>) {
    let mut set = WaitSet::new(domain);
    set.set_wait_strategy(WaitStrategy::Block);
    let keys = events.iter().map(|event| set.add(&event.any_of(1)).expect("added")).collect();
    (set, keys)
}

/// Of each clock, so far ahead.
fn ahead(span: Duration) -> [Deadline; 3] {
    [
        Deadline::after(span),
        Deadline::at(Instant::now() + span),
        Deadline::at_time_of_day(SystemTime::now() + span),
    ]
}

fn past() -> [Deadline; 4] {
    let now = [
        Deadline::after(Duration::ZERO),
        Deadline::at(Instant::now()),
        Deadline::at_time_of_day(SystemTime::now()),
    ];
    [now[0], now[1], now[2], Deadline::at_time_of_day(SystemTime::UNIX_EPOCH)]
}

fn deadlines_pass_in_large_sets_as_in_small_ones(world: &World) {
    let domain = world.domain();
    let events = events(&domain, EVENTS);
    let mut waiters = Vec::new();
    for prepare in [AS_IT_IS, NO_WAITV] {
        for (many, which) in [(1, 0), (EVENTS, 0), (1, 2), (EVENTS, 2)] {
            waiters.push(Child::start(|| {
                prepare();
                let (mut set, _) = set_of(&domain, &events[..many]);
                for past in past() {
                    assert_eq!(set.wait_until(past).expect("waits").len(), 0);
                }
                let deadline = ahead(Duration::from_millis(1500))[which];
                assert_eq!(set.wait_until(deadline).expect("waits").len(), 0);
                assert!(deadline.has_passed());
            }));
        }
    }
    waiters.into_iter().for_each(Child::finish);
}

fn what_is_ready_is_told_beside_a_deadline_of_any_clock(world: &World) {
    let domain = world.domain();
    let events = events(&domain, EVENTS);
    let last = EVENTS - 1;
    for deadline in ahead(Duration::from_secs(3600)) {
        let waiter = Child::start(|| {
            let (mut set, keys) = set_of(&domain, &events);
            assert_eq!(
                set.wait_until(deadline).expect("set").collect::<Vec<_>>(),
                [(keys[last], Readiness::Set)]
            );
            for past in past() {
                assert_eq!(
                    set.wait_until(past).expect("set").collect::<Vec<_>>(),
                    [(keys[last], Readiness::Set)]
                );
            }
        });
        wait_asleep(waiter.pid());
        events[last].set(1);
        waiter.finish();
        events[last].clear(1);
    }
}

/// While the set's threads wait, sources become ready in two sections, leave the set and come back;
/// what is ready is told again by each wait.
fn what_changes_beside_its_threads_is_told(world: &World) {
    let domain = world.domain();
    let events = events(&domain, EVENTS);
    let (mut set, keys) = set_of(&domain, &events);
    let (first, last) = (0, EVENTS - 1);
    let nothing_comes = |set: &mut WaitSet| {
        let comes: Vec<_> = set.wait_timeout(Duration::from_millis(5)).expect("waits").collect();
        assert_eq!(comes, []);
    };
    for _ in 0..3 {
        nothing_comes(&mut set);
        events[first].set(1);
        events[last].set(1);
        for which in [first, last] {
            // Each is told again until it is taken; the other section's, by one of the next waits.
            wait_until("it is told", || {
                set.wait().expect("set").any(|told| told == (keys[which], Readiness::Set))
            });
        }
        assert_eq!(set.try_wait().expect("looks").count(), 2);
        events[first].clear(1);
        events[last].clear(1);
    }
    nothing_comes(&mut set);
    assert!(set.remove(keys[last]));
    events[last].set(1);
    nothing_comes(&mut set);
    let again = set.add(&events[last].any_of(1)).expect("added");
    assert_eq!(set.wait().expect("set").collect::<Vec<_>>(), [(again, Readiness::Set)]);
    events[last].clear(1);
    let timer = set.add(&Timer::after(Duration::from_millis(5))).expect("added");
    assert_eq!(set.wait().expect("passes").collect::<Vec<_>>(), [(timer, Readiness::Elapsed)]);
}

/// Parent and child sleep in the same set, each with helper threads of its own, and both are told
/// of the same end.
fn a_child_has_helpers_of_its_own(world: &World) {
    let domain = world.domain();
    let Many { mut children, peers, .. } = crowd(&domain, 0, OWNERS);
    let board = Board::new();
    let parent = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        set.set_wait_strategy(WaitStrategy::Block);
        let ends = add_all(&mut set, &peers);
        let tell = |set: &mut WaitSet| {
            assert_eq!(
                set.wait().expect("ended").collect::<Vec<_>>(),
                [(ends[30], Readiness::Ended)]
            );
        };
        // On a busy machine a short time may have passed before it sleeps.
        let sleep_by_helpers = |set: &mut WaitSet| {
            wait_until("it sleeps by its helpers", || {
                assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
                helpers_of(std::process::id() as i32) > 0
            });
        };
        sleep_by_helpers(&mut set);
        let child = Child::start(|| {
            assert_eq!(helpers_of(std::process::id() as i32), 0, "the parent's");
            sleep_by_helpers(&mut set);
            board.set(1, 1);
            tell(&mut set);
        });
        board.set(0, child.pid() as u64);
        tell(&mut set);
        child.finish();
    });
    let child = board.reach(0, 1) as i32;
    board.reach(1, 1);
    wait_asleep(child);
    wait_asleep(parent.pid());
    children[30].kill();
    parent.finish();
}

/// The child of a thread beside the one that sleeps: it does nothing, lives longer than its parent,
/// and has neither a helper nor a place in the queue of an owner's end.
fn a_child_beside_a_sleeping_thread_takes_no_wake_up(world: &World) {
    let domain = world.domain();
    let Many { mut children, peers, .. } = crowd(&domain, 0, OWNERS);
    let event =
        Event::options().reset(Reset::Automatic).open_or_create(&domain, "event").expect("opens");
    let board = Board::new();
    let (shared, event, watched) = (&domain, &event, &peers);
    let mut parent = Child::start(move || {
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| {
                let mut set = WaitSet::new(shared);
                set.set_wait_strategy(WaitStrategy::Block);
                let told = set.add(&event.any_of(1)).expect("added");
                add_all(&mut set, watched);
                board.set(0, crate::asleep::thread_id() as u64);
                assert_eq!(set.wait().expect("set").collect::<Vec<_>>(), [(told, Readiness::Set)]);
                assert_eq!(event.try_wait_any(1), Ok(Some(1)));
                board.set(1, 1);
                let _ = set.wait();
            });
            wait_thread_asleep(std::process::id() as i32, board.reach(0, 1) as i32);
            // SAFETY: the child makes nothing but system calls.
            let child = unsafe { libc::fork() };
            if child == 0 {
                loop {
                    // SAFETY: always.
                    unsafe { libc::pause() };
                }
            }
            board.set(2, child as u64);
            let _ = sleeping.join();
        });
    });
    let child = board.reach(2, 1) as i32;
    // A helper names itself when it first runs: on a busy machine after its set has gone to sleep.
    wait_until("it sleeps by its helpers", || helpers_of(parent.pid()) > 0);
    assert_eq!(helpers_of(child), 0);
    // The parent's thread is woken as if there were no child.
    event.set(1);
    board.reach(1, 1);
    wait_thread_asleep(parent.pid(), board.get(0) as i32);
    // Behind the parent's thread.
    let second = Child::start(|| peers[30].wait_dead().expect("told"));
    wait_asleep(second.pid());
    parent.kill();
    children[30].kill();
    second.finish();
    // SAFETY: no pointers are passed; the child is of this check's group, whose runner has not
    // reaped it.
    unsafe { libc::kill(child, libc::SIGKILL) };
}

/// A set that has waited in one thread waits in another one, and in a child, where its helpers are
/// not.
fn a_set_goes_to_another_thread_and_into_a_child(world: &World) {
    let domain = world.domain();
    let Many { children: _children, peers, .. } = crowd(&domain, 0, OWNERS);
    let waits = |set: &mut WaitSet| {
        assert_eq!(set.wait_timeout(Duration::from_millis(5)).expect("waits").len(), 0);
    };
    Child::start(|| {
        let mut set = WaitSet::new(&domain);
        set.set_wait_strategy(WaitStrategy::Block);
        add_all(&mut set, &peers);
        waits(&mut set);
        std::thread::scope(|scope| scope.spawn(|| waits(&mut set)).join().expect("it waits"));
        waits(&mut set);
        Child::start(|| {
            waits(&mut set);
            crate::child::exit_now(0);
        })
        .finish();
        waits(&mut set);
    })
    .finish();
}
