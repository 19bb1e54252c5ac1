//! Wait sets of more than 128 words: their deadlines, and children that are forked beside a ring.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use outlive::sync::{AwaitError, Event, Reset};
use outlive::wait::{Key, Readiness, WaitSet};
use outlive::{Deadline, Domain, WaitStrategy};

use crate::asleep::{wait_asleep, wait_thread_asleep};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::denied::skip_without_rings;
use crate::runner::World;
use crate::wait_sets::{AS_IT_IS, Crowd, NO_URING, NO_WAITV, add_all, crowd, helpers_of};

crate::checks!(
    deadlines_pass_in_large_sets_as_in_small_ones: 60,
    what_is_ready_is_told_beside_a_deadline_of_any_clock: 60,
    a_child_has_nothing_of_its_parents_ring,
    a_child_beside_a_thread_in_its_ring_takes_no_wake_up,
);

/// So many events have more words than one call of `futex_waitv` watches, and no deadline but the caller's.
const EVENTS: usize = 200;
/// So many owners, too.
const OWNERS: usize = 50;

fn events(domain: &Domain, many: usize) -> Vec<Event> {
    (0..many).map(|n| Event::open(domain, &format!("event-{n}"), Reset::Automatic).expect("opens")).collect()
}

fn set_of(domain: &Domain, events: &[Event]) -> (WaitSet, Vec<Key>) {
    let mut set = WaitSet::new(domain);
    set.set_wait(WaitStrategy::Block);
    let keys = events.iter().map(|event| set.add(&event.any_of(1)).expect("added")).collect();
    (set, keys)
}

/// Of each clock, so far ahead. A ring knows no time of day: it sleeps a second at most, and looks at the clock.
fn ahead(span: Duration) -> [Deadline; 3] {
    [Deadline::after(span), Deadline::from(Instant::now() + span), Deadline::from(SystemTime::now() + span)]
}

fn past() -> [Deadline; 4] {
    let now = [Deadline::after(Duration::ZERO), Deadline::from(Instant::now()), Deadline::from(SystemTime::now())];
    [now[0], now[1], now[2], Deadline::from(SystemTime::UNIX_EPOCH)]
}

fn deadlines_pass_in_large_sets_as_in_small_ones(world: &World) {
    let domain = world.domain();
    let events = events(&domain, EVENTS);
    let mut waiters = Vec::new();
    for prepare in [AS_IT_IS, NO_URING, NO_WAITV] {
        for (many, which) in [(1, 0), (EVENTS, 0), (1, 2), (EVENTS, 2)] {
            waiters.push(Child::start(|| {
                prepare();
                let (mut set, _) = set_of(&domain, &events[..many]);
                for past in past() {
                    assert_eq!(set.wait(past).err(), Some(AwaitError::TimedOut));
                }
                let deadline = ahead(Duration::from_millis(1500))[which];
                assert_eq!(set.wait(deadline).err(), Some(AwaitError::TimedOut));
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
    for prepare in [AS_IT_IS, NO_URING] {
        for deadline in ahead(Duration::from_secs(3600)) {
            let waiter = Child::start(|| {
                prepare();
                let (mut set, keys) = set_of(&domain, &events);
                assert_eq!(set.wait(deadline).expect("set").collect::<Vec<_>>(), [(keys[last], Readiness::Set)]);
                for past in past() {
                    assert_eq!(set.wait(past).expect("set").collect::<Vec<_>>(), [(keys[last], Readiness::Set)]);
                }
            });
            wait_asleep(waiter.pid());
            events[last].set(1);
            waiter.finish();
            events[last].clear(1);
        }
    }
}

/// How many mappings and descriptors of rings that process has.
fn rings_of(pid: i32) -> (usize, usize) {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it lives");
    let files = fs::read_dir(format!("/proc/{pid}/fd")).expect("it lives").flatten();
    let files = files.filter_map(|file| fs::read_link(file.path()).ok());
    let is_ring = |name: &str| name.ends_with("[io_uring]");
    (maps.lines().filter(|line| is_ring(line)).count(), files.filter(|file| file.to_str().is_some_and(is_ring)).count())
}

/// Parent and child sleep in the same set, each in a ring of its own, and both are told of the same end.
fn a_child_has_nothing_of_its_parents_ring(world: &World) {
    skip_without_rings(world);
    let domain = world.domain();
    let Crowd { mut children, peers, .. } = crowd(&domain, 0, OWNERS);
    let board = Board::new();
    let parent = Child::start(|| {
        let mut set = WaitSet::new(&domain);
        set.set_wait(WaitStrategy::Block);
        let ends = add_all(&mut set, &peers);
        let tell = |set: &mut WaitSet| {
            assert_eq!(set.wait(Deadline::NEVER).expect("ended").collect::<Vec<_>>(), [(ends[30], Readiness::Ended)]);
            assert_eq!(helpers_of(std::process::id() as i32), 0, "by a ring");
        };
        // On a busy machine a short time may have passed before it sleeps.
        let sleep_by_a_ring = |set: &mut WaitSet| {
            wait_until("it sleeps by a ring without a descriptor", || {
                assert_eq!(set.wait(Duration::from_millis(5)).err(), Some(AwaitError::TimedOut));
                rings_of(std::process::id() as i32) == (2, 0)
            });
        };
        sleep_by_a_ring(&mut set);
        let child = Child::start(|| {
            assert_eq!(rings_of(std::process::id() as i32), (0, 0), "the parent's");
            sleep_by_a_ring(&mut set);
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

/// The child of a thread beside the one that sleeps: it does nothing, lives longer than its parent, and has neither a part of
/// the ring nor a place in the queue of an owner's end.
fn a_child_beside_a_thread_in_its_ring_takes_no_wake_up(world: &World) {
    skip_without_rings(world);
    let domain = world.domain();
    let Crowd { mut children, peers, .. } = crowd(&domain, 0, OWNERS);
    let event = Event::open(&domain, "event", Reset::Automatic).expect("opens");
    let board = Board::new();
    let (shared, event, watched) = (&domain, &event, &peers);
    let mut parent = Child::start(move || {
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(|| {
                let mut set = WaitSet::new(shared);
                set.set_wait(WaitStrategy::Block);
                let told = set.add(&event.any_of(1)).expect("added");
                add_all(&mut set, watched);
                board.set(0, crate::asleep::thread_id() as u64);
                assert_eq!(set.wait(Deadline::NEVER).expect("set").collect::<Vec<_>>(), [(told, Readiness::Set)]);
                assert_eq!(event.try_wait_any(1), Some(1));
                board.set(1, 1);
                let _ = set.wait(Deadline::NEVER);
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
    assert_eq!((rings_of(parent.pid()), rings_of(child)), ((2, 0), (0, 0)));
    // The parent's thread is woken as if there were no child.
    event.set(1);
    board.reach(1, 1);
    wait_thread_asleep(parent.pid(), board.get(0) as i32);
    // Behind the parent's thread.
    let second = Child::start(|| peers[30].wait_dead(Deadline::NEVER).expect("told"));
    wait_asleep(second.pid());
    parent.kill();
    children[30].kill();
    second.finish();
    // SAFETY: no pointers are passed; the child is of this check's group, whose runner has not reaped it.
    unsafe { libc::kill(child, libc::SIGKILL) };
}
