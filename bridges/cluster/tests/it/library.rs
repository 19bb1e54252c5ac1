//! The library: guards, deaths, and answers that do not come.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::Deadline;
use outlive_cluster::{Cluster, Error, LockError, Lost, Mutex};
use outlive_testnet::{Relay, eventually};

use crate::world::{Etcd, LONG, Machine, SHORT, SOON};

fn cluster(machine: &Machine, url: &str) -> Cluster {
    Cluster::connect(&machine.domain(), url).expect("it answers")
}

/// Returns the fence of a clean lock.
fn clean(mutex: &Mutex) -> u64 {
    let guard = mutex.lock_timeout(SOON).expect("nobody died").expect("it is free");
    assert!(guard.is_held() && !guard.owner_died());
    let fence = guard.fence();
    guard.unlock().expect("it was held");
    fence
}

/// Asserts that the next holder is told of a death.
fn told(mutex: &Mutex) -> outlive_cluster::MutexGuard<'_> {
    match mutex.lock_timeout(SOON) {
        Err(LockError::OwnerDied(guard)) => guard,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_four_forms_and_what_a_second_machine_sees() {
    let Some(etcd) = Etcd::start("the_four_forms_and_what_a_second_machine_sees") else { return };
    let machines = [Machine::new(), Machine::new()];
    let clusters = machines.each_ref().map(|machine| cluster(machine, &etcd.url(LONG)));
    let [here, there] = clusters.each_ref().map(|cluster| cluster.mutex("a").expect("opens"));
    let first = here.lock().expect("it is free");
    assert!(there.try_lock().expect("answers").is_none());
    assert!(there.lock_timeout(Duration::from_millis(50)).expect("answers").is_none());
    let soon = Deadline::after(Duration::from_millis(50));
    assert!(there.lock_until(soon).expect("answers").is_none());
    assert!(matches!(here.try_lock(), Err(LockError::Failed(Error::Deadlock))));
    assert!(there.holder().expect("answers").is_some());
    assert!(first.lost().is_none() && first.wait_lost_timeout(Duration::ZERO).is_none());
    assert!(
        first.time_left() > Duration::ZERO && first.time_left() <= Duration::from_secs(LONG.into())
    );
    let fence = first.fence();
    drop(first);
    assert!(there.holder().expect("answers").is_none());
    let second = there.try_lock().expect("answers").expect("it is free");
    assert!(fence < second.fence());
    // Another name is another lock.
    assert!(clusters[0].mutex("b").expect("opens").try_lock().expect("answers").is_some());
    assert!(matches!(clusters[0].mutex("a/b"), Err(Error::Local(_))));
}

#[test]
fn a_death_is_told_until_it_is_repaired() {
    let Some(etcd) = Etcd::start("a_death_is_told_until_it_is_repaired") else { return };
    let machines = [Machine::new(), Machine::new()];
    let [here, there] = machines
        .each_ref()
        .map(|machine| cluster(machine, &etcd.url(LONG)).mutex("a").expect("opens"));
    here.lock().expect("it is free").abandon().expect("it was held");
    let guard = told(&there);
    assert!(guard.dead_owner().is_some());
    drop(guard);
    drop(told(&here));
    let repaired = LockError::OwnerDied(told(&there)).repair(|_| ()).expect("it has a guard");
    assert!(!repaired.owner_died());
    drop(repaired);
    clean(&here);

    // A panic is a death; a lock that a destructor takes meanwhile is not.
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _guard = here.lock().expect("it is free");
        panic!("on purpose");
    }));
    panics.expect_err("it panics");
    told(&there).mark_not_recoverable().expect("it was held");
    for mutex in [&here, &there] {
        assert!(matches!(mutex.try_lock(), Err(LockError::Failed(Error::NotRecoverable))));
    }
    here.reset().expect("answers");
    clean(&there);
}

#[test]
fn a_holder_that_hears_nothing_is_told_before_the_lease_ends() {
    let test = "a_holder_that_hears_nothing_is_told_before_the_lease_ends";
    let Some(etcd) = Etcd::start(test) else { return };
    let machines = [Machine::new(), Machine::new()];
    let relay = Relay::to(etcd.address);
    let here = cluster(&machines[0], &format!("etcd://{}?ttl={SHORT}", relay.address()));
    let here = here.mutex("a").expect("opens");
    let there = cluster(&machines[1], &etcd.url(SHORT)).mutex("a").expect("opens");
    let guard = here.lock().expect("it is free");
    let begun = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            begun.wait();
            let next = told(&there);
            // By now, and not only once a slow machine has let its thread run.
            assert!(!guard.is_held(), "the other one had it first");
            next.fence()
        });
        begun.wait();
        relay.silence();
        assert_eq!(guard.wait_lost_timeout(SOON), Some(Lost::OutOfTime));
        let fence = waiter.join().expect("no panic");
        assert!(guard.fence() < fence);
    });
    relay.go_on();
    // Heard again, it stays lost.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!guard.is_held());
    assert!(guard.time_left().is_zero());
    assert!(matches!(guard.unlock(), Err(Error::Lost(Lost::OutOfTime))));
    drop(told(&here));
}

#[test]
fn a_lease_that_the_cluster_ends_is_told() {
    let Some(etcd) = Etcd::start("a_lease_that_the_cluster_ends_is_told") else { return };
    let machine = Machine::new();
    let mutex = cluster(&machine, &etcd.url(LONG)).mutex("a").expect("opens");
    let guard = mutex.lock().expect("it is free");
    let leases = etcd.ctl(&["lease", "list"]);
    let lease = leases.lines().last().expect("one").to_owned();
    etcd.ctl(&["lease", "revoke", &lease]);
    assert_eq!(guard.wait_lost_timeout(SOON), Some(Lost::Ended));
    drop(guard);
    drop(told(&mutex));
}

#[test]
fn answers_that_do_not_come_leave_no_lock_behind() {
    let Some(etcd) = Etcd::start("answers_that_do_not_come_leave_no_lock_behind") else { return };
    let relay = Relay::to(etcd.address);
    let machines = [Machine::new(), Machine::new()];
    let url = format!("etcd://{}?ttl=2", relay.address());
    let inside = AtomicU64::new(0);
    let last = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for machine in [&machines[0], &machines[1], &machines[1]] {
            let mutex = cluster(machine, &url).mutex("a").expect("opens");
            let (inside, last, done) = (&inside, &last, &done);
            scope.spawn(move || {
                for _ in 0..30 {
                    let guard = match mutex.lock() {
                        // Taken, and the answer did not come: a death, to the next.
                        Ok(guard) | Err(LockError::OwnerDied(guard)) => guard,
                        Err(other) => panic!("{other}"),
                    };
                    if guard.is_held() {
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                        assert!(last.swap(guard.fence(), Ordering::SeqCst) < guard.fence());
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                    drop(guard);
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        scope.spawn(|| {
            let mut wait = 1;
            while !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(wait));
                wait = wait % 23 + 5;
                relay.cut();
            }
        });
        let all = eventually(SOON * 3, || done.load(Ordering::SeqCst) == 90);
        over.store(true, Ordering::SeqCst);
        relay.accept();
        assert!(all, "{} of 90", done.load(Ordering::SeqCst));
    });
}

#[test]
fn the_next_of_several_servers_is_asked() {
    let Some(etcd) = Etcd::start("the_next_of_several_servers_is_asked") else { return };
    let machine = Machine::new();
    let relay = Relay::to(etcd.address);
    let url = format!("etcd://127.0.0.1:1,{},{}?ttl=6", relay.address(), etcd.address);
    let mutex = cluster(&machine, &url).mutex("a").expect("opens");
    let first = clean(&mutex);
    relay.silence();
    let second = clean(&mutex);
    relay.go_on();
    relay.cut();
    relay.refuse();
    assert!(first < second && second < clean(&mutex));
}

#[test]
fn a_request_that_arrives_late_takes_nothing() {
    let Some(etcd) = Etcd::start("a_request_that_arrives_late_takes_nothing") else { return };
    let machine = Machine::new();
    let relay = Relay::to(etcd.address);
    let url = format!("etcd://{},{}?ttl=6", relay.address(), etcd.address);
    let mut last = 0;
    for _ in 0..3 {
        let mutex = cluster(&machine, &url).mutex("a").expect("opens");
        // The first server does not answer, the second one does.
        relay.silence();
        let fence = clean(&mutex);
        // Now the first one gets what was sent to it.
        relay.go_on();
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(mutex.holder().expect("answers"), None);
        assert!(last < fence && fence < clean(&mutex));
        last = fence;
    }
}

#[test]
fn permits_are_counted_and_a_death_is_told_with_the_permit() {
    let test = "permits_are_counted_and_a_death_is_told_with_the_permit";
    let Some(etcd) = Etcd::start(test) else { return };
    let machines = [Machine::new(), Machine::new()];
    let [here, there] = machines
        .each_ref()
        .map(|machine| cluster(machine, &etcd.url(LONG)).semaphore("s", 2).expect("opens"));
    assert_eq!(here.max_permits(), 2);
    let first = here.acquire().expect("free");
    let second = there.try_acquire().expect("answers").expect("free");
    assert_ne!(first.index(), second.index());
    assert!(here.try_acquire().expect("answers").is_none());
    assert!(there.acquire_timeout(Duration::from_millis(50)).expect("answers").is_none());
    let index = first.index();
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _first = first;
        panic!("on purpose");
    }));
    panics.expect_err("it panics");
    let third = there.acquire_until(Deadline::after(SOON)).expect("answers").expect("free");
    assert!(third.index() == index && third.owner_died() && third.dead_owner().is_some());
    third.release().expect("it was held");
    assert!(!here.acquire().expect("free").owner_died());
    assert!(second.is_held() && second.lost().is_none());
    assert!(matches!(
        cluster(&machines[0], &etcd.url(LONG)).semaphore("s", 3),
        Err(Error::OtherPermits { permits: 2 })
    ));
    assert!(
        cluster(&machines[0], &etcd.url(LONG))
            .existing_semaphore("none")
            .expect("answers")
            .is_none()
    );
}

/// A child made by `fork` has the guard's bytes, and is no holder: what it drops is its own affair.
#[test]
fn a_forked_child_that_drops_the_guard_does_not_unlock() {
    let Some(etcd) = Etcd::start("a_forked_child_that_drops_the_guard_does_not_unlock") else {
        return;
    };
    let machines = [Machine::new(), Machine::new()];
    let clusters = machines.each_ref().map(|machine| cluster(machine, &etcd.url(LONG)));
    let [here, there] = clusters.each_ref().map(|cluster| cluster.mutex("a").expect("opens"));
    let guard = here.lock().expect("it is free");
    let permits = clusters.each_ref().map(|cluster| cluster.semaphore("s", 1).expect("made"));
    let permit = permits[0].acquire().expect("it is free");
    // SAFETY: the child drops the guard and the permit, and ends without running anything else.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let believes = guard.is_held() || permit.is_held();
        drop((guard, permit));
        // SAFETY: as above.
        unsafe { libc::_exit(i32::from(believes)) };
    }
    let mut status = 0;
    // SAFETY: the child is ours.
    let ended = || unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) == child };
    if !eventually(SOON, ended) {
        // SAFETY: the child is ours, and was not waited for.
        unsafe { libc::kill(child, libc::SIGKILL) };
        panic!("the child hangs");
    }
    assert_eq!(status, 0, "the child does not believe that it holds");
    assert!(guard.is_held() && permit.is_held());
    assert!(permits[1].try_acquire().expect("answers").is_none(), "the permit is its parent's");
    match there.try_lock() {
        Ok(None) => {}
        Ok(Some(other)) => panic!(
            "two hold it: {} (is_held {}) and {} (is_held {})",
            guard.fence(),
            guard.is_held(),
            other.fence(),
            other.is_held()
        ),
        Err(error) => panic!("{error:?} (still held by the parent: {})", guard.is_held()),
    }
}

#[test]
fn without_a_server_a_lock_is_not_waited_for_longer_than_was_said() {
    let test = "without_a_server_a_lock_is_not_waited_for_longer_than_was_said";
    let Some(mut etcd) = Etcd::start(test) else { return };
    let machine = Machine::new();
    let cluster = cluster(&machine, &etcd.url(LONG));
    let (mutex, semaphore) = (cluster.mutex("a").expect("opens"), cluster.semaphore("s", 1));
    let semaphore = semaphore.expect("made");
    etcd.server.kill();
    for span in [Duration::ZERO, Duration::from_millis(200)] {
        let begun = std::time::Instant::now();
        let locked = mutex.lock_timeout(span);
        assert!(matches!(locked, Err(LockError::Failed(Error::Unreachable { .. }))), "{locked:?}");
        let acquired = semaphore.acquire_timeout(span);
        assert!(matches!(acquired, Err(Error::Unreachable { .. })), "{acquired:?}");
        // A call that waited for the server would never return; a busy machine takes seconds.
        assert!(begun.elapsed() < Duration::from_secs(60), "{span:?}: {:?}", begun.elapsed());
    }
}
