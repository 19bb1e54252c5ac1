//! A job queue: the jobs of killed workers go to others, and none is lost.

use std::time::Duration;

use outlive::jobs::JobQueue;
use outlive::{Deadline, Detail, Domain, Error, Kind, RecvError, SendError, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::forge::{BODY, Bytes};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    jobs_are_taken_in_order_by_one_worker: 60,
    a_dead_workers_job_is_taken_again,
    a_death_wakes_a_sleeping_worker,
    a_stopped_worker_keeps_its_job,
    a_stopped_producer_holds_nobody_up,
    workers_are_killed_at_random: 120,
    producers_and_workers_are_killed_at_random: 120,
    a_full_queue_waits_for_a_worker,
    a_dead_producers_slot_is_used_again,
    what_kills_every_worker_is_set_aside,
    join_waits_for_the_jobs_of_the_dead,
    join_sees_what_workers_put,
    deadlines_of_all_forms,
    a_forked_child_has_none_of_the_parents_jobs,
    a_job_goes_from_thread_to_thread,
    a_look_and_a_sweep_of_jobs,
    jobs_of_damaged_files,
    options_of_a_job_queue,
    many_workers_with_more_holders_than_the_kernel_watches: 60,
);

pub(crate) fn open(domain: &Domain) -> JobQueue<u64> {
    JobQueue::<u64>::options().max_attempts(0).open_or_create(domain, "jobs").expect("opens")
}

/// A child that takes a job and has it until it is killed.
pub(crate) fn holder(queue: &JobQueue<u64>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _job = queue.take().expect("a job");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// A child that waits for a job, is asleep, and does it.
fn sleeper(queue: &JobQueue<u64>) -> Child {
    let child = Child::start(|| queue.take().expect("a job").done().expect("lives"));
    wait_asleep(child.pid());
    child
}

fn jobs_are_taken_in_order_by_one_worker(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<[u64; 2]>::options().max_jobs(7).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    let producers: Vec<Child> = (0..3)
        .map(|who| {
            let queue = &queue;
            Child::start(move || {
                for number in 0..5_000 {
                    queue.put(&[who, number]).expect("sooner or later");
                }
            })
        })
        .collect();
    let mut next = [0; 3];
    for _ in 0..15_000 {
        let job = queue.take().expect("a job");
        let [who, number] = *job;
        assert_eq!((number, job.attempts()), (next[who as usize], 1), "of producer {who}");
        next[who as usize] += 1;
        job.done().expect("lives");
    }
    producers.into_iter().for_each(Child::finish);
    assert_eq!(queue.counts().put, 15_000);
    queue.try_join().expect("all are done");
}

fn a_dead_workers_job_is_taken_again(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    for number in 0..3 {
        queue.put(&number).expect("room");
    }
    let mut child = holder(&queue);
    assert_eq!(queue.taken()[0].worker.pid, child.pid() as u32);
    child.kill();
    // The oldest first, though others wait.
    for (number, attempts) in [(0, 2), (1, 1), (2, 1)] {
        let job = queue.try_take().expect("looks").expect("a job");
        assert_eq!((*job, job.attempts()), (number, attempts));
        job.done().expect("lives");
    }
    assert!(queue.try_take().expect("looks").is_none());
}

fn a_death_wakes_a_sleeping_worker(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    for _ in 0..20 {
        queue.put(&1).expect("room");
        let mut first = holder(&queue);
        let second = sleeper(&queue);
        first.kill();
        second.finish();
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn a_stopped_worker_keeps_its_job(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    queue.put(&1).expect("room");
    queue.put(&2).expect("room");
    let mut child = holder(&queue);
    child.stop();
    let job = queue.take().expect("the other");
    assert_eq!(*job, 2);
    job.done().expect("lives");
    assert!(queue.take_timeout(Duration::from_millis(20)).expect("waits").is_none());
    assert_eq!(queue.join_timeout(Duration::from_millis(20)), Err(WaitError::TimedOut));
    child.kill();
    assert_eq!(*queue.take().expect("the dead one's"), 1);
}

/// Its slot says WRITING in the name of a thread that is stopped.
fn a_stopped_producer_holds_nobody_up(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    let board = Board::new();
    let mut child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    wait_until("the child has a token", || board.get(0) != 0);
    child.stop();
    let bytes = Bytes::of(&domain, "jobs");
    let first_word = BODY + 512;
    bytes.set(first_word, &u64::to_ne_bytes(1 << 32 | 0x8000_0000 | board.get(0)));
    for number in 0..200 {
        queue.put(&number).expect("the other slots");
        let job = queue.take().expect("a job");
        assert_eq!(*job, number);
        job.done().expect("lives");
    }
    assert_eq!(queue.counts().being_put, 1);
    assert_eq!(queue.try_join(), Err(WaitError::TimedOut), "a job is being put");
    child.kill();
    queue.join().expect("nothing is left");
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
}

/// Workers count each job that they have done in the board: once at least, and twice only if a
/// worker was killed in between.
fn kill_at_random(world: &World, kills: u64, producers_too: bool) {
    const PRODUCERS: u64 = 3;
    const EACH: u64 = 4_000;
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_jobs(50).max_attempts(0);
    let queue = queue.open_or_create(&domain, "jobs").expect("made");
    let board = Board::new();
    let mut random = Random::new();
    let produce = |who: u64| {
        let queue = &queue;
        Child::start(move || {
            let mut number = board.get(who as usize);
            while number < EACH {
                queue.put(&(who * EACH + number)).expect("sooner or later");
                number += 1;
                board.set(who as usize, number);
            }
        })
    };
    let work = || {
        let queue = &queue;
        Child::start(move || {
            loop {
                let job = queue.take().expect("a job");
                board.add(16 + *job as usize, 1);
                job.done().expect("lives");
            }
        })
    };
    let mut producers: Vec<Child> = (0..PRODUCERS).map(produce).collect();
    let mut workers: Vec<Child> = (0..4).map(|_| work()).collect();
    let mut killed = 0;
    for kill in 0..kills {
        random.pause(1_500);
        let who = random.below(4) as usize;
        workers[who].kill();
        workers[who] = work();
        let producer = random.below(PRODUCERS) as usize;
        if producers_too && kill % 2 == 0 && !producers[producer].has_ended() {
            producers[producer].signal(libc::SIGKILL);
            producers[producer].wait();
            producers[producer] = produce(producer as u64);
            killed += 1;
        }
    }
    producers.into_iter().for_each(Child::finish);
    queue.join().expect("all are done");
    drop(workers);
    let times: Vec<u64> = (0..PRODUCERS * EACH).map(|job| board.get(16 + job as usize)).collect();
    assert!(times.iter().all(|&times| times > 0), "each job that was put is done");
    let again: u64 = times.iter().map(|times| times - 1).sum();
    assert!(again <= kills + killed, "{again} again of {kills} kills and {killed} of producers");
    eprintln!("{kills} workers and {killed} producers killed: {again} jobs done again");
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
    assert!(domain.sweep(false).expect("sweeps").is_clean());
}

fn workers_are_killed_at_random(world: &World) {
    kill_at_random(world, 200, false);
}

fn producers_and_workers_are_killed_at_random(world: &World) {
    kill_at_random(world, 200, true);
}

fn a_full_queue_waits_for_a_worker(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_jobs(2).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    queue.put(&1).expect("room");
    queue.put(&2).expect("room");
    assert_eq!(queue.try_put(&3), Err(SendError::Full { slowest: None }));
    let soon = Duration::from_millis(5);
    assert_eq!(queue.put_timeout(&3, soon), Err(SendError::TimedOut { slowest: None }));
    let job = queue.take().expect("a job");
    assert_eq!(queue.try_put(&3), Err(SendError::Full { slowest: None }), "taken is not done");
    let producer = Child::start(|| {
        queue.put(&3).expect("room");
    });
    wait_asleep(producer.pid());
    job.done().expect("lives");
    producer.finish();
    assert_eq!(queue.len(), 2);
}

fn a_dead_producers_slot_is_used_again(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_jobs(1).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    let board = Board::new();
    let mut child = Child::start(|| {
        board.set(0, u64::from(domain.token().expect("a token").as_u32()));
        loop {
            std::thread::park();
        }
    });
    wait_until("the child has a token", || board.get(0) != 0);
    let bytes = Bytes::of(&domain, "jobs");
    bytes.set(BODY + 512, &u64::to_ne_bytes(1 << 32 | 0x8000_0000 | board.get(0)));
    assert_eq!(queue.try_put(&1), Err(SendError::Full { slowest: None }));
    let producer = Child::start(|| {
        queue.put(&1).expect("room");
    });
    wait_asleep(producer.pid());
    child.kill();
    producer.finish();
    assert_eq!(*queue.take().expect("a job"), 1);
    assert_eq!(domain.stats().rescues, 0);
}

fn what_kills_every_worker_is_set_aside(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(3).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    let poison = queue.put(&666).expect("room");
    queue.put(&1).expect("room");
    for _ in 0..3 {
        holder(&queue).kill();
    }
    let job = queue.take().expect("the other");
    assert_eq!((*job, job.attempts()), (1, 1));
    job.done().expect("lives");
    queue.try_join().expect("what is set aside does not hold it up");
    let aside = queue.set_aside().expect("looks");
    assert_eq!((aside[0].id, aside[0].attempts, aside[0].data), (poison, 3, 666));
    assert_eq!(aside.len(), 1);
    assert!(queue.try_take().expect("looks").is_none());
    assert!(!queue.retry(poison + 1) && queue.retry(poison));
    let job = queue.try_take().expect("looks").expect("the job");
    assert_eq!((*job, job.attempts()), (666, 1), "as if it had never been taken");
    job.set_aside().expect("lives");
    assert_eq!(queue.retry_all(), 1);
    queue.take().expect("the job").set_aside().expect("lives");
    assert!(queue.discard(poison) && !queue.discard(poison));
    assert!(queue.set_aside().expect("looks").is_empty());
    assert!(domain.sweep(false).expect("sweeps").failed.is_empty());
}

fn join_waits_for_the_jobs_of_the_dead(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    queue.put(&1).expect("room");
    let mut child = holder(&queue);
    let joiner = Child::start(|| queue.join().expect("waits"));
    wait_asleep(joiner.pid());
    child.kill();
    assert_eq!(queue.try_join(), Err(WaitError::TimedOut), "its job is not done");
    queue.take().expect("the dead one's").done().expect("lives");
    joiner.finish();
}

/// Each worker puts two smaller jobs before it is done with its own.
fn join_sees_what_workers_put(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    let board = Board::new();
    let workers: Vec<Child> = (0..3)
        .map(|_| {
            let queue = &queue;
            Child::start(move || {
                loop {
                    let job = queue.take().expect("a job");
                    if *job > 0 {
                        queue.put(&(*job - 1)).expect("room");
                        queue.put(&(*job - 1)).expect("room");
                    }
                    board.add(0, 1);
                    job.done().expect("lives");
                }
            })
        })
        .collect();
    for round in 1..=200 {
        queue.put(&5).expect("room");
        queue.join().expect("waits");
        assert_eq!(board.get(0), round * 63, "in round {round}");
    }
    drop(workers);
}

fn deadlines_of_all_forms(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    let soon = Duration::from_millis(3);
    assert!(queue.try_take().expect("looks").is_none());
    assert!(queue.take_timeout(soon).expect("waits").is_none());
    assert!(queue.take_until(Deadline::after(soon)).expect("waits").is_none());
    queue.join().expect("nothing to do");
    queue.put_until(&1, Deadline::after(soon)).expect("room");
    assert_eq!(queue.try_join(), Err(WaitError::TimedOut));
    assert_eq!(queue.join_timeout(soon), Err(WaitError::TimedOut));
    assert_eq!(queue.join_until(Deadline::after(soon)), Err(WaitError::TimedOut));
    assert!(queue.take_timeout(soon).expect("waits").is_some());
}

fn a_forked_child_has_none_of_the_parents_jobs(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    queue.put(&1).expect("room");
    queue.put(&2).expect("room");
    let (first, second) = (queue.take().expect("a job"), queue.take().expect("a job"));
    let mut held = Some((first, second));
    Child::start(|| {
        let (first, second) = held.take().expect("a copy");
        assert_eq!(first.done(), Err(RecvError::NotOwner));
        drop(second);
    })
    .finish();
    assert_eq!(queue.counts().taken, 2);
    let (first, second) = held.take().expect("ours");
    first.done().expect("ours");
    second.release().expect("ours");
    assert_eq!((queue.counts().waiting, queue.counts().taken), (1, 0));
}

fn a_job_goes_from_thread_to_thread(world: &World) {
    let domain = world.domain();
    let queue = open(&domain);
    queue.put(&7).expect("room");
    let worker = queue.clone();
    let job = std::thread::spawn(move || worker.take().expect("a job")).join().expect("ends");
    // The thread that took it has ended; its process has the job.
    assert!(queue.try_take().expect("looks").is_none());
    std::thread::spawn(move || job.done().expect("ours")).join().expect("ends");
    queue.try_join().expect("done");
    queue.put(&8).expect("room");
    let worker = queue.clone();
    let panicked = std::thread::spawn(move || {
        let _job = worker.take().expect("a job");
        std::panic::resume_unwind(Box::new("a worker's panic"));
    });
    panicked.join().expect_err("panics");
    assert_eq!(queue.try_take().expect("looks").expect("came back").attempts(), 2);
}

fn a_look_and_a_sweep_of_jobs(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(1).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    for number in 0..4 {
        queue.put(&number).expect("room");
    }
    let mut child = holder(&queue);
    let _job = queue.take().expect("the second");
    let entry = domain.entry("jobs").expect("there");
    assert_eq!((entry.kind, entry.dead_claims), (Ok(Kind::JobQueue), 0));
    let Detail::Jobs(usage) = entry.detail else { panic!("no job queue") };
    assert_eq!((usage.counts.waiting, usage.counts.taken, usage.counts.put), (2, 2, 4));
    assert_eq!((usage.max_jobs, usage.job_bytes, usage.max_attempts), (1024, 8, 1));
    assert_eq!(usage.taken[0].worker.pid, child.pid() as u32);
    child.kill();
    assert_eq!(domain.entry("jobs").expect("there").dead_claims, 1);
    assert_eq!(domain.sweep(true).expect("looks").claims, 1);
    assert_eq!(queue.counts().set_aside, 1, "by whichever process looks next");
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(queue.set_aside().expect("looks")[0].data, 0);
}

fn jobs_of_damaged_files(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<[u8]>::options().job_bytes(100).open_or_create(&domain, "jobs");
    let queue = queue.expect("made");
    queue.put(b"one").expect("room");
    queue.put(b"two").expect("room");
    let bytes = Bytes::of(&domain, "jobs");
    let first_slot = (BODY + 512 + 1024 * 16).next_multiple_of(4096);
    bytes.set(first_slot, &u64::to_ne_bytes(101));
    assert!(matches!(queue.take(), Err(RecvError::Damaged(_))));
    assert_eq!(queue.counts().set_aside, 1);
    assert!(queue.set_aside().expect("looks")[0].is_damaged);
    // A ticket that no job has yet, and a word that names no process.
    bytes.set(BODY + 512 + 1024 * 8 + 8, &u64::to_ne_bytes(u64::MAX));
    bytes.set(BODY + 512 + 8, &u64::to_ne_bytes(3));
    let job = queue.take().expect("the second");
    assert_eq!(&*job, b"two");
    job.done().expect("lives");
    // More slots than there may be, and pages than there are.
    bytes.set_word(BODY + 72, u32::MAX);
    let numbers: Vec<_> = (0..2000).map(|_| queue.try_put(b"three")).collect();
    assert!(numbers.iter().any(|put| matches!(put, Err(SendError::Damaged(_)))));
    bytes.set_word(BODY + 8, 0);
    assert!(matches!(JobQueue::<[u8]>::open(&domain, "jobs"), Err(Error::Damaged { .. })));
}

fn options_of_a_job_queue(world: &World) {
    let domain = world.domain();
    let options = JobQueue::<[u32]>::options;
    let made = options().max_jobs(3).job_bytes(8).create_new(&domain, "three").expect("made");
    assert_eq!(made.put(&[1, 2, 3]), Err(SendError::TooLarge { len: 12, max: 8 }));
    let bytes = JobQueue::open_as_bytes(&domain, "three").expect("opens");
    assert_eq!(bytes.put(b"123"), Err(SendError::OtherLength { len: 3, wanted: 4 }));
    made.put(&[]).expect("nothing is a slice");
    assert!(made.take().expect("a job").is_empty());
    for refused in [
        options().max_jobs(4).open(&domain, "three"),
        options().job_bytes(12).open(&domain, "three"),
        options().max_attempts(4).open(&domain, "three"),
    ] {
        assert!(matches!(refused, Err(Error::OtherOptions { .. })));
    }
    for invalid in [
        options().max_jobs(0).open(&domain, "three"),
        options().max_jobs(65_537).open(&domain, "three"),
        options().job_bytes(0).open(&domain, "three"),
        options().max_attempts(1_001).open(&domain, "three"),
        options().max_jobs(65_536).job_bytes(16 << 20).open_or_create(&domain, "huge"),
    ] {
        assert!(matches!(invalid, Err(Error::InvalidOption { .. })));
    }
    assert!(matches!(JobQueue::<u64>::open(&domain, "three"), Err(Error::OtherType { .. })));
    assert!(matches!(JobQueue::<u64>::open(&domain, "none"), Err(Error::NotFound { .. })));
}

/// More holders than one sleep watches whole; more jobs than a new queue has slots.
fn many_workers_with_more_holders_than_the_kernel_watches(world: &World) {
    let domain = world.domain();
    let queue = JobQueue::<u64>::options().max_attempts(0).max_jobs(2000);
    let queue = queue.open_or_create(&domain, "jobs").expect("made");
    for number in 0..2000 {
        queue.put(&number).expect("room");
    }
    assert_eq!(queue.try_put(&0), Err(SendError::Full { slowest: None }));
    for number in 0..1960 {
        let job = queue.take().expect("a job");
        assert_eq!(*job, number);
        job.done().expect("lives");
    }
    let mut holders: Vec<Child> = (0..40).map(|_| holder(&queue)).collect();
    let sleepers: Vec<Child> = (0..2).map(|_| sleeper(&queue)).collect();
    holders[0].kill();
    holders[39].kill();
    sleepers.into_iter().for_each(Child::finish);
    assert_eq!(queue.counts().taken, 38);
}
