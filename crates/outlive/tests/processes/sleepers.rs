//! What each process waits for: seen from outside, while the wait lasts and no longer.

use std::time::Duration;

use outlive::sync::{CeilingMutex, EmbeddedMutex, EmbeddedPiMutex, Mutex, PiMutex, Record};
use outlive::{Domain, Waiter};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::runner::World;

crate::checks!(
    a_sleeper_is_named_with_what_it_waits_for,
    a_killed_sleeper_is_off_the_list,
    the_next_owner_of_a_slot_does_not_seem_to_wait,
    a_wait_goes_on_over_re_checks,
    sleepers_in_a_record_are_told_apart,
    sleepers_on_inheriting_mutexes_are_told_apart,
    two_processes_that_lend_each_other_their_priority,
    a_sleeper_at_a_ceiling_is_named,
    a_sleeping_receiver_is_listed,
    two_processes_that_wait_for_each_other,
    a_cycle_of_three,
    a_queue_for_one_lock_is_no_deadlock,
);

fn waiters(domain: &Domain, name: &str) -> Vec<Waiter> {
    domain.entry(name).expect("there").waiters
}

/// The list once it has that many; a thread is listed just before it sleeps.
fn reach(domain: &Domain, name: &str, count: usize) -> Vec<Waiter> {
    wait_until(&format!("{count} wait for {name}"), || waiters(domain, name).len() == count);
    waiters(domain, name)
}

fn pids(waiters: &[Waiter]) -> Vec<i32> {
    waiters.iter().map(|waiter| waiter.who.pid as i32).collect()
}

fn a_sleeper_is_named_with_what_it_waits_for(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    Mutex::<u64>::options(0).open_or_create(&domain, "other").expect("opens");
    let guard = mutex.lock().expect("free");
    assert!(waiters(&domain, "m").is_empty());
    let first = Child::start(|| drop(mutex.lock().expect("given back")));
    wait_asleep(first.pid());
    let list = reach(&domain, "m", 1);
    // A second handle, mapped elsewhere.
    let second = Child::start(|| {
        drop(
            Mutex::<u64>::options(0)
                .open_or_create(&domain, "m")
                .expect("opens")
                .lock()
                .expect("given back"),
        )
    });
    wait_asleep(second.pid());
    let later = reach(&domain, "m", 2);
    assert_eq!(pids(&later), [first.pid(), second.pid()], "who has waited longest comes first");
    for waiter in list.iter().chain(&later) {
        assert_eq!(waiter.who.pid, waiter.who.tid);
        assert!(waiter.who.alive && !waiter.who.program.is_empty());
        let holder = waiter.holder.as_ref().expect("held");
        assert_eq!(holder.pid, std::process::id());
        assert!(waiter.held.expect("not long ago") <= waiter.waited);
    }
    assert!(waiters(&domain, "other").is_empty());
    assert!(domain.deadlocks().expect("looks").is_empty());
    drop(guard);
    first.finish();
    second.finish();
    assert!(waiters(&domain, "m").is_empty());
}

fn a_killed_sleeper_is_off_the_list(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let guard = mutex.lock().expect("free");
    let mut killed = Child::start(|| drop(mutex.lock()));
    let stays = Child::start(|| drop(mutex.lock()));
    wait_asleep(killed.pid());
    wait_asleep(stays.pid());
    reach(&domain, "m", 2);
    killed.kill();
    assert_eq!(pids(&waiters(&domain, "m")), [stays.pid()]);
    drop(guard);
    stays.finish();
}

fn the_next_owner_of_a_slot_does_not_seem_to_wait(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let guard = mutex.lock().expect("free");
    let mut killed = Child::start(|| drop(mutex.lock()));
    wait_asleep(killed.pid());
    let slot = reach(&domain, "m", 1)[0].who.token.as_u32() & 0xffff;
    killed.kill();
    // Until another thread has that slot, with that very handle mapped at that address.
    for _ in 0..2000 {
        let board = Board::new();
        let next = Child::start(|| {
            let token = domain.token().expect("a slot");
            board.set(0, u64::from(token.as_u32() & 0xffff) + 1);
            board.reach(1, 1);
        });
        let same = board.reach(0, 1) == u64::from(slot) + 1;
        let seen = if same { Some(waiters(&domain, "m")) } else { None };
        board.set(1, 1);
        next.finish();
        if let Some(seen) = seen {
            assert!(seen.is_empty(), "{seen:?}");
            drop(guard);
            return;
        }
    }
    panic!("the slot was not used again");
}

fn a_wait_goes_on_over_re_checks(world: &World) {
    let domain = world.domain();
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let guard = mutex.lock().expect("free");
    let sleeper = Child::start(|| {
        // Sleeps of 5 ms each.
        Domain::options()
            .recheck(Some(Duration::from_millis(5)))
            .open_or_create_at(domain.path())
            .expect("opens");
        drop(mutex.lock().expect("given back"));
    });
    let long = Duration::from_millis(200);
    wait_until("it has waited for many sleeps", || {
        waiters(&domain, "m").iter().any(|one| one.waited >= long)
    });
    let list = waiters(&domain, "m");
    assert!(
        list.iter().all(|one| one.held.is_some_and(|held| held >= Duration::from_millis(50))),
        "{list:?}"
    );
    drop(guard);
    sleeper.finish();
}

outlive::record! {
    pub struct Line {
        pub first: EmbeddedMutex<u64>,
        pub second: EmbeddedMutex<u64>,
    }
}

fn sleepers_in_a_record_are_told_apart(world: &World) {
    let domain = world.domain();
    let line = Record::<Line>::open_or_create(&domain, "line").expect("opens");
    let first = line.lock(|line| &line.first).expect("free");
    let second = line.lock(|line| &line.second).expect("free");
    let on_second = Child::start(|| drop(line.lock(|line| &line.second)));
    wait_asleep(on_second.pid());
    let on_first = Child::start(|| drop(line.lock(|line| &line.first)));
    wait_asleep(on_first.pid());
    let list = reach(&domain, "line", 2);
    assert_eq!(pids(&list), [on_second.pid(), on_first.pid()]);
    assert_eq!((list[0].offset, list[1].offset), (16, 0));
    assert!(
        list.iter()
            .all(|one| one.holder.as_ref().is_some_and(|holder| holder.pid == std::process::id()))
    );
    drop((first, second));
    on_first.finish();
    on_second.finish();
}

outlive::record! {
    pub struct Valves {
        pub first: EmbeddedPiMutex<u64>,
        pub second: EmbeddedPiMutex<u64>,
    }
}

fn sleepers_on_inheriting_mutexes_are_told_apart(world: &World) {
    let domain = world.domain();
    let mutex = PiMutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let valves = Record::<Valves>::open_or_create(&domain, "valves").expect("opens");
    let (first, second) =
        (valves.handle(|valves| &valves.first), valves.handle(|valves| &valves.second));
    let board = Board::new();
    let holder = Child::start(|| {
        let _second = second.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    let held = (mutex.lock().expect("free"), first.lock().expect("free"));
    let sleepers = [&mutex, &first, &second]
        .map(|mutex| Child::start(|| drop(mutex.lock().expect("given back"))));
    sleepers.iter().for_each(|sleeper| wait_asleep(sleeper.pid()));
    // Longer than one sleep in libc lasts.
    let long = Duration::from_millis(1300);
    wait_until("it goes on", || waiters(&domain, "m").iter().any(|one| one.waited >= long));
    let list = reach(&domain, "m", 1);
    assert_eq!(pids(&list), [sleepers[0].pid()]);
    assert_eq!(list[0].holder.as_ref().expect("held").pid, std::process::id());
    assert!(list[0].held.is_some_and(|held| held >= Duration::from_secs(1)), "{list:?}");
    let mut list = reach(&domain, "valves", 2);
    list.sort_by_key(|waiter| waiter.offset);
    assert_eq!(pids(&list), [sleepers[1].pid(), sleepers[2].pid()]);
    let holders: Vec<i32> =
        list.iter().map(|one| one.holder.as_ref().expect("held").pid as i32).collect();
    assert_eq!(holders, [std::process::id() as i32, holder.pid()]);
    board.set(1, 1);
    drop(held);
    holder.finish();
    sleepers.into_iter().for_each(Child::finish);
    assert!(waiters(&domain, "m").is_empty() && waiters(&domain, "valves").is_empty());
}

fn two_processes_that_lend_each_other_their_priority(world: &World) {
    let domain = world.domain();
    let (a, b) = (
        PiMutex::<u64>::options(0).open_or_create(&domain, "a"),
        PiMutex::<u64>::options(0).open_or_create(&domain, "b"),
    );
    let (a, b) = (a.expect("opens"), b.expect("opens"));
    let board = Board::new();
    let start = |first: &PiMutex<u64>, then: &PiMutex<u64>| {
        Child::start(|| {
            let _guard = first.lock().expect("free");
            board.add(0, 1);
            board.reach(0, 2);
            drop(then.lock());
        })
    };
    let (mut one, other) = (start(&a, &b), start(&b, &a));
    wait_until("it is seen", || domain.deadlocks().expect("looks").len() == 1);
    one.kill();
    other.finish();
    assert!(domain.deadlocks().expect("looks").is_empty());
}

fn a_sleeper_at_a_ceiling_is_named(world: &World) {
    crate::realtime::skip_without_right(world);
    let domain = world.domain();
    let mutex = CeilingMutex::<u64>::options(10, 0).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    let holder = Child::start(|| {
        let _guard = mutex.lock().expect("free");
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    let sleeper = Child::start(|| drop(mutex.lock().expect("given back")));
    wait_asleep(sleeper.pid());
    let list = reach(&domain, "m", 1);
    assert_eq!(pids(&list), [sleeper.pid()]);
    assert_eq!(list[0].holder.as_ref().map(|one| one.pid as i32), Some(holder.pid()));
    board.set(1, 1);
    holder.finish();
    sleeper.finish();
    assert!(waiters(&domain, "m").is_empty());
}

fn a_sleeping_receiver_is_listed(world: &World) {
    let domain = world.domain();
    let queue = outlive::queue::Queue::<[u8]>::open_or_create(&domain, "q").expect("made");
    let receiver = Child::start(|| {
        let mut receiver = queue.receiver().expect("nobody else");
        receiver.recv().expect("a message");
    });
    let list = reach(&domain, "q", 1);
    assert_eq!(pids(&list), [receiver.pid()]);
    assert_eq!(list[0].holder, None);
    queue.sender().expect("a place").send(b"x").expect("sent");
    receiver.finish();
}

/// Children that take the locks `(first, then)` and meet in between; they come to a deadlock.
fn lockers(domain: &Domain, orders: &[(&'static str, &'static str)]) -> Vec<Child> {
    let board = Board::new();
    let count = orders.len() as u64;
    let start = |&(first, then): &(&'static str, &'static str)| {
        Child::start(move || {
            let open = |name| Mutex::<u64>::options(0).open_or_create(domain, name).expect("opens");
            let (first, then) = (open(first), open(then));
            let guard = first.lock();
            board.add(0, 1);
            board.reach(0, count);
            drop(then.lock());
            drop(guard);
        })
    };
    let children: Vec<Child> = orders.iter().map(start).collect();
    children.iter().for_each(|child| wait_asleep(child.pid()));
    children
}

fn two_processes_that_wait_for_each_other(world: &World) {
    let domain = world.domain();
    let mut children = lockers(&domain, &[("a", "b"), ("b", "a")]);
    wait_until("the cycle is seen", || !domain.deadlocks().expect("looks").is_empty());
    let found = domain.deadlocks().expect("looks");
    assert_eq!(found.len(), 1, "{found:?}");
    let cycle = &found[0].cycle;
    assert_eq!(cycle.len(), 2);
    for one in cycle {
        let (me, other) = if one.name == "b" { (0, 1) } else { (1, 0) };
        assert_eq!(one.waiter.who.pid as i32, children[me].pid());
        assert_eq!(one.waiter.holder.as_ref().expect("held").pid as i32, children[other].pid());
    }
    // A death ends it.
    children[0].kill();
    children.remove(1).finish();
    assert!(domain.deadlocks().expect("looks").is_empty());
}

fn a_cycle_of_three(world: &World) {
    let domain = world.domain();
    let mut children = lockers(&domain, &[("a", "b"), ("b", "c"), ("c", "a")]);
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "a").expect("opens");
    // One more process waits for them, and is no part of it.
    let waits = Child::start(|| drop(mutex.lock()));
    wait_asleep(waits.pid());
    wait_until("the cycle is seen", || !domain.deadlocks().expect("looks").is_empty());
    let found = domain.deadlocks().expect("looks");
    assert_eq!(found.len(), 1, "{found:?}");
    let mut pids: Vec<i32> = found[0].cycle.iter().map(|one| one.waiter.who.pid as i32).collect();
    pids.sort_unstable();
    let mut expected: Vec<i32> = children.iter().map(Child::pid).collect();
    expected.sort_unstable();
    assert_eq!(pids, expected);
    children.remove(1).kill();
    children.into_iter().for_each(Child::finish);
    waits.finish();
}

fn a_queue_for_one_lock_is_no_deadlock(world: &World) {
    let domain = world.domain();
    let open = |name| Mutex::<u64>::options(0).open_or_create(&domain, name).expect("opens");
    let (a, b) = (open("a"), open("b"));
    let guard = a.lock().expect("free");
    let middle = Child::start(|| {
        let _b = b.lock();
        drop(a.lock());
    });
    wait_asleep(middle.pid());
    let last = Child::start(|| drop(b.lock()));
    wait_asleep(last.pid());
    reach(&domain, "a", 1);
    assert_eq!(pids(&reach(&domain, "b", 1)), [last.pid()]);
    assert!(domain.deadlocks().expect("looks").is_empty());
    drop(guard);
    middle.finish();
    last.finish();
}
