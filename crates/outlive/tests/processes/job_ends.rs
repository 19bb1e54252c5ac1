//! How jobs end that no worker is done with: a worker's death at the last attempt, set-aside jobs
//! that are damaged, and what those that wait beside them learn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use outlive::jobs::JobQueue;
use outlive::wait::WaitSet;
use outlive::{Deadline, RecvError, WaitStrategy};

use crate::asleep::wait_asleep;
use crate::child::Child;
use crate::forge::{BODY, Bytes};
use crate::jobs::{holder, open};
use crate::runner::World;

crate::checks!(
    a_set_sleeps_behind_a_death_at_the_last_attempt,
    a_dead_workers_last_attempt_is_set_aside_for_all,
    join_sees_a_retry_beside_a_job_that_is_done: 60,
    join_learns_of_a_death_at_the_last_attempt,
    sets_that_take_no_job_leave_it_to_a_worker,
    a_damaged_job_hides_no_other,
    set_aside_jobs_one_by_one,
    deadlines_of_long_looks: 60,
);

/// Returns the processor time of this thread.
fn computed() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is a place of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn a_set_sleeps_behind_a_death_at_the_last_attempt(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(1).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    queue.put(&1).expect("room");
    queue.put(&2).expect("room");
    let mut first = holder(&queue);
    let _second = holder(&queue);
    let mut set = WaitSet::new(&domain);
    set.add(&queue).expect("added");
    first.kill();
    let before = computed();
    let ready = set.wait_timeout(Duration::from_secs(1)).expect("waits").count();
    assert_eq!(ready, 0);
    let computed = computed() - before;
    assert!(computed < Duration::from_millis(300), "computed for {computed:?} of one second");
}

fn a_dead_workers_last_attempt_is_set_aside_for_all(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(1).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    let deaths = || domain.stats().owner_deaths;
    let poison = queue.put(&666).expect("room");
    holder(&queue).kill();
    queue.join().expect("set aside");
    assert_eq!(queue.counts().set_aside, 1);
    let aside = queue.set_aside().expect("looks");
    assert_eq!((aside.len(), aside[0].id, aside[0].attempts, aside[0].data), (1, poison, 1, 666));
    assert_eq!(deaths(), 0, "looking deals with no death");
    assert!(queue.retry(poison));
    assert_eq!((queue.len(), deaths()), (1, 1));
    holder(&queue).kill();
    assert_eq!((queue.retry_all(), deaths()), (1, 2));
    holder(&queue).kill();
    assert!(queue.discard(poison) && !queue.discard(poison));
    assert_eq!(deaths(), 3);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 0);
    // A living worker's last attempt is the worker's.
    queue.put(&1).expect("room");
    let job = queue.take().expect("a job");
    let job_id = job.id();
    assert!(!queue.discard(job_id) && queue.retry_all() == 0);
    assert!(queue.set_aside().expect("looks").is_empty());
    job.set_aside().expect("ours");
    // No worker has died with this one.
    assert!(queue.discard(job_id));
    assert_eq!(deaths(), 3);
}

/// The set-aside job lies in the first slot that a look reads, the taken one in the last.
fn join_sees_a_retry_beside_a_job_that_is_done(world: &World) {
    const SLOTS: u64 = 2_000;
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_jobs(SLOTS as u32).max_attempts(0);
    let queue = queue.open_or_create(&domain, "jobs").expect("made");
    for number in 0..SLOTS {
        queue.put(&number).expect("room");
    }
    for _ in 1..SLOTS {
        queue.take().expect("a job").set_aside().expect("ours");
    }
    let mut last = queue.take().expect("the last");
    for round in 0..100 {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let joiner = scope.spawn(|| {
                let mut joined = false;
                while !is_over.load(Ordering::Relaxed) {
                    joined |= queue.try_join().is_ok();
                }
                joined
            });
            std::thread::sleep(Duration::from_micros(100));
            assert!(queue.retry(0));
            last.done().expect("ours");
            is_over.store(true, Ordering::Relaxed);
            let joined = joiner.join().expect("ends");
            assert!(!joined, "joined in round {round}, while one job was taken or one waited");
        });
        queue.put(&1).expect("the last slot");
        queue.take().expect("the first").set_aside().expect("ours");
        last = queue.take().expect("the last");
    }
    last.done().expect("ours");
}

fn join_learns_of_a_death_at_the_last_attempt(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(1).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    for _ in 0..10 {
        queue.put(&1).expect("room");
        // No deadline, at which it would look again, and no recheck: only a wake-up ends its sleep.
        let joiner = Child::start(|| queue.join().expect("the last job's worker dies"));
        wait_asleep(joiner.pid());
        // No worker had the job when `join` looked: not even at its last look before its sleep.
        std::thread::sleep(Duration::from_millis(50));
        holder(&queue).kill();
        joiner.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// A job wakes two sleepers: here they are sets, whose threads do something else then. There is no
/// recheck at which the worker would find the job.
fn sets_that_take_no_job_leave_it_to_a_worker(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::open_or_create(&domain, "jobs").expect("made");
    let sets = [(); 3].map(|()| {
        let set = Child::start(|| {
            let mut set = WaitSet::new(&domain);
            set.add(&queue).expect("added");
            assert_eq!(set.wait().expect("waits").count(), 1);
        });
        wait_asleep(set.pid());
        set
    });
    let worker = Child::start(|| queue.take().expect("a job").done().expect("ours"));
    wait_asleep(worker.pid());
    queue.put(&1).expect("room");
    worker.finish();
    assert!(queue.is_empty());
    // A set that was not woken for that one learns of the next.
    queue.put(&2).expect("room");
    sets.into_iter().for_each(Child::finish);
}

fn a_damaged_job_hides_no_other(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<[u8]>::options().job_bytes(100).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    queue.put(b"one").expect("room");
    queue.put(b"two").expect("room");
    let bytes = Bytes::of(&domain, "jobs");
    let first_slot = (BODY + 512 + 1024 * 16).next_multiple_of(4096);
    bytes.set(first_slot, &u64::to_ne_bytes(101));
    assert!(matches!(queue.take(), Err(RecvError::Damaged(_))));
    queue.take().expect("the other").set_aside().expect("ours");
    let aside = queue.set_aside().expect("looks");
    assert_eq!(aside.len(), 2);
    assert!(aside[0].is_damaged && aside[0].data.starts_with(b"one"));
    assert_eq!((aside[0].id, aside[0].data.len()), (0, 100));
    assert_eq!((aside[1].id, aside[1].is_damaged, &*aside[1].data), (1, false, &b"two"[..]));
    assert!(queue.discard(aside[0].id));
    assert_eq!(queue.set_aside().expect("looks").len(), 1);

    // A value's length is known; a slice's is a multiple.
    let value = JobQueue::<u64>::open_or_create(&domain, "value").expect("made");
    value.put(&7).expect("room");
    Bytes::of(&domain, "value").set(first_slot, &u64::to_ne_bytes(3));
    assert!(matches!(value.take(), Err(RecvError::Damaged(_))));
    let aside = value.set_aside().expect("looks");
    assert_eq!((aside[0].is_damaged, aside[0].data), (true, 7));
    let slice = JobQueue::<[u32]>::open_or_create(&domain, "slice").expect("made");
    slice.put(&[1, 2, 3]).expect("room");
    Bytes::of(&domain, "slice").set(first_slot, &u64::to_ne_bytes(7));
    assert!(matches!(slice.take(), Err(RecvError::Damaged(_))));
    let aside = slice.set_aside().expect("looks");
    assert_eq!((aside[0].is_damaged, &aside[0].data[..]), (true, &[1][..]));
}

fn set_aside_jobs_one_by_one(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    for number in 0..3 {
        queue.put(&number).expect("room");
    }
    for _ in 0..3 {
        queue.take().expect("a job").set_aside().expect("ours");
    }
    assert!(queue.discard(1));
    let from = |id| queue.next_set_aside(id).expect("looks").map(|job| (job.id, job.data));
    assert_eq!(
        (from(0), from(1), from(2), from(3)),
        (Some((0, 0)), Some((2, 2)), Some((2, 2)), None)
    );
    // A stray write may hit the number; the job is still found, and is the last.
    Bytes::of(&domain, "jobs").set(BODY + 512 + 1024 * 8, &u64::to_ne_bytes(u64::MAX));
    assert_eq!((from(0), from(3)), (Some((2, 2)), Some((u64::MAX, 0))));
    assert!(queue.discard(u64::MAX));
}

/// A look at so many slots takes some ten microseconds, and a spin would make 200,000.
fn deadlines_of_long_looks(world: &World) {
    const SLOTS: u32 = 10_000;
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_jobs(SLOTS).max_attempts(0);
    let queue = queue.open_or_create(&domain, "jobs").expect("made");
    for number in 0..u64::from(SLOTS) {
        queue.put(&number).expect("room");
    }
    let _jobs: Vec<_> = (0..100).map(|_| queue.take().expect("a job")).collect();
    queue.set_wait_strategy(WaitStrategy::Spin);
    let before = computed();
    for _ in 0..5 {
        let soon = Deadline::after(Duration::from_millis(1));
        queue.put_until(&1, soon).expect_err("full");
        let soon = Deadline::after(Duration::from_millis(1));
        queue.join_until(soon).expect_err("jobs wait");
    }
    let computed = computed() - before;
    assert!(computed < Duration::from_millis(500), "computed for {computed:?} in ten waits");
}
