//! A semaphore with undo: as many inside as there are permits, and those of the dead come back.

use std::time::{Duration, SystemTime};

use outlive::sync::{AcquireError, EmbeddedSemaphore, Record, Semaphore};
use outlive::{Deadline, Detail, Domain, Error, Kind};

use crate::asleep::{sleeps_of, wait_asleep, wait_looks};
use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::forge::{BODY, Bytes};
use crate::runner::World;

crate::checks!(
    no_more_inside_than_permits: 60,
    a_dead_holders_permit_is_free,
    a_death_wakes_one_who_waits,
    each_of_many_deaths_wakes,
    a_thread_that_ends_gives_back,
    holders_and_waiters_are_killed_at_random: 60,
    deadlines_of_all_three_forms,
    one_who_has_them_all_is_told,
    a_permit_goes_to_another_process_and_is_freed_by_its_death,
    a_thread_that_took_up_its_processes_permit_is_watched,
    permits_made_here_are_used_up_there,
    a_forked_child_gives_nothing_back,
    embedded_in_a_record,
    a_look_and_a_sweep,
    bad_sizes_are_refused,
    waits_without_futex_waitv,
    a_waiter_that_a_release_passes_over_is_no_rescue,
    a_permit_given_back_wakes_two_of_twenty,
);

fn open(domain: &Domain, permits: u32) -> Semaphore {
    Semaphore::options(permits).open_or_create(domain, "permits").expect("opens")
}

/// A child that has so many permits, until it is killed.
fn holder(semaphore: &Semaphore, count: usize) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _permits: Vec<_> = (0..count).map(|_| semaphore.acquire().expect("free")).collect();
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// A child that wants a permit and is asleep.
fn sleeper(semaphore: &Semaphore) -> Child {
    let child = Child::start(|| drop(semaphore.acquire().expect("a permit")));
    wait_asleep(child.pid());
    child
}

fn no_more_inside_than_permits(world: &World) {
    let domain = world.domain();
    for permits in [1, 3] {
        let semaphore = Semaphore::options(permits)
            .open_or_create(&domain, &format!("of {permits}"))
            .expect("opens");
        let board = Board::new();
        let children: Vec<Child> = (0..5)
            .map(|_| {
                Child::start(|| {
                    for _ in 0..4_000 {
                        let _permit = semaphore.acquire().expect("sooner or later");
                        let inside = board.add(0, 1);
                        assert!(inside <= u64::from(permits), "{inside} inside");
                        board.word(0).fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    }
                })
            })
            .collect();
        children.into_iter().for_each(Child::finish);
        assert_eq!(semaphore.available_permits(), permits as usize);
    }
}

fn a_dead_holders_permit_is_free(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 2);
    let mut child = holder(&semaphore, 2);
    assert!(semaphore.try_acquire().expect("looks").is_none(), "none is free");
    assert_eq!(
        semaphore.holders().iter().filter(|holder| holder.pid == child.pid() as u32).count(),
        2
    );
    child.kill();
    let first = semaphore.try_acquire().expect("looks").expect("the dead one's");
    let second = semaphore.acquire().expect("the dead one's");
    assert_eq!(semaphore.available_permits(), 0);
    drop((first, second));
    assert_eq!(semaphore.available_permits(), 2);
}

fn a_death_wakes_one_who_waits(world: &World) {
    let domain = world.domain();
    for permits in [1, 3, 64] {
        let semaphore = Semaphore::options(permits)
            .open_or_create(&domain, &format!("of {permits}"))
            .expect("opens");
        let mut first = holder(&semaphore, permits as usize - 1);
        let mut last = holder(&semaphore, 1);
        let sleepers: Vec<Child> = (0..3).map(|_| sleeper(&semaphore)).collect();
        last.kill();
        sleepers.into_iter().for_each(Child::finish);
        first.kill();
    }
}

/// More holders than the kernel watches at once.
fn each_of_many_deaths_wakes(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 70);
    let mut holders: Vec<Child> = (0..70).map(|_| holder(&semaphore, 1)).collect();
    for victim in [0, 29, 30, 69] {
        let waiting = sleeper(&semaphore);
        holders[victim].kill();
        waiting.finish();
        holders.push(holder(&semaphore, 1));
    }
}

fn a_thread_that_ends_gives_back(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    std::thread::scope(|scope| {
        scope.spawn(|| std::mem::forget(semaphore.acquire().expect("free")));
    });
    let permit = semaphore.acquire_timeout(Duration::from_secs(60)).expect("waits");
    drop(permit.expect("its thread has ended"));
}

fn holders_and_waiters_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let mut random = crate::random::Random::new();
    for _ in 0..40 {
        let mut children: Vec<Child> = (0..6)
            .map(|_| {
                Child::start(|| {
                    loop {
                        let permit = semaphore.acquire().expect("sooner or later");
                        std::hint::black_box(&permit);
                    }
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(200 + random.below(2_000)));
        children.iter_mut().for_each(Child::kill);
        let permits: Vec<_> = (0..3)
            .map(|_| semaphore.acquire_timeout(Duration::from_secs(60)).expect("waits"))
            .map(|permit| permit.expect("all have died"))
            .collect();
        assert!(semaphore.try_acquire().expect("looks").is_none(), "there are three");
        drop(permits);
    }
}

fn deadlines_of_all_three_forms(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    let _child = holder(&semaphore, 1);
    let short = Duration::from_millis(20);
    let timed_out =
        |deadline: Deadline| semaphore.acquire_until(deadline).expect("waits").is_none();
    assert!(timed_out(Deadline::after(short)));
    assert!(timed_out(Deadline::at(std::time::Instant::now() + short)));
    assert!(timed_out(Deadline::at_time_of_day(SystemTime::now() + short)));
}

fn one_who_has_them_all_is_told(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 2);
    let _both = (semaphore.acquire().expect("free"), semaphore.acquire().expect("free"));
    assert_eq!(
        semaphore.acquire().expect_err("nobody else could give one back"),
        AcquireError::Deadlock
    );
}

fn a_permit_goes_to_another_process_and_is_freed_by_its_death(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    let board = Board::new();
    let (shared, of) = (&semaphore, &domain);
    let mut child = Child::start(move || {
        board.set(0, u64::from(of.process_token().expect("a token").as_u32()));
        let permit = shared.take_up_timeout(Duration::from_secs(60)).expect("waits");
        let permit = permit.expect("handed over");
        board.set(1, 1);
        std::mem::forget(permit);
        loop {
            std::thread::park();
        }
    });
    let to = crate::waiting::token_on(&domain, board, 0);
    assert!(semaphore.try_take_up().expect("looks").is_none());
    semaphore.acquire().expect("free").hand_to(to);
    board.reach(1, 1);
    assert!(semaphore.try_acquire().expect("looks").is_none(), "the child has it");
    child.kill();
    // Dead before it could take one up: free as well.
    semaphore.acquire().expect("free again").hand_to(to);
    drop(semaphore.acquire().expect("the dead cannot take it up"));
}

fn a_thread_that_took_up_its_processes_permit_is_watched(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    let board = Board::new();
    let (shared, of) = (&semaphore, &domain);
    let mut child = Child::start(move || {
        board.set(0, u64::from(of.process_token().expect("a token").as_u32()));
        board.reach(1, 1);
        // It ends with the permit; its process lives on.
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::mem::forget(shared.try_take_up().expect("looks").expect("handed over"))
            });
        });
        loop {
            std::thread::park();
        }
    });
    let to = crate::waiting::token_on(&domain, board, 0);
    semaphore.acquire().expect("free").hand_to(to);
    let sleeper = sleeper(&semaphore);
    board.set(1, 1);
    sleeper.finish();
    child.kill();
}

fn permits_made_here_are_used_up_there(world: &World) {
    let domain = world.domain();
    let made = Semaphore::options(0).max_permits(4).open_or_create(&domain, "made").expect("opens");
    let shared = &made;
    let maker = Child::start(move || {
        for _ in 0..2_000 {
            while shared.add_permit() == Err(AcquireError::Full) {
                std::thread::yield_now();
            }
        }
    });
    for _ in 0..2_000 {
        let permit = made.acquire_timeout(Duration::from_secs(60)).expect("waits");
        permit.expect("one is made").consume();
    }
    maker.finish();
    assert_eq!((made.available_permits(), made.holders().len()), (0, 0));
    assert!(made.add_permit().is_ok() && made.available_permits() == 1);
}

fn a_forked_child_gives_nothing_back(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    let permit = semaphore.acquire().expect("free");
    let mut permit = Some(permit);
    Child::start(|| drop(permit.take())).finish();
    assert_eq!(semaphore.available_permits(), 0);
    drop(permit);
    assert_eq!(semaphore.available_permits(), 1);
}

outlive::record! {
    struct Station { slots: EmbeddedSemaphore<3>, parts: EmbeddedSemaphore<8> }
}

fn embedded_in_a_record(world: &World) {
    let domain = world.domain();
    let record = Record::<Station>::options()
        .init(|station| station.parts.set_permits(0))
        .open_or_create(&domain, "station")
        .expect("opens");
    let (slots, parts) =
        (record.handle(|station| &station.slots), record.handle(|station| &station.parts));
    assert_eq!((slots.available_permits(), parts.available_permits()), (3, 0));
    parts.add_permit().expect("room");
    let mut child = holder(&slots, 3);
    let waiting = sleeper(&slots);
    child.kill();
    waiting.finish();
    let mut child = holder(&parts, 1);
    child.kill();
    assert_eq!(domain.entry("station").expect("there").dead_claims, 3, "two slots, one part");
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 3);
    assert_eq!((slots.available_permits(), parts.available_permits()), (3, 1));
}

fn a_look_and_a_sweep(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 3);
    let mut child = holder(&semaphore, 2);
    let entry = domain.entry("permits").expect("there");
    assert_eq!(entry.kind, Ok(Kind::Semaphore));
    let Detail::Lock(lock) = entry.detail else { panic!("{:?}", entry.detail) };
    assert_eq!(lock.holders.len(), 2);
    assert!(lock.holders.iter().all(|holder| holder.pid == child.pid() as u32 && holder.alive));
    assert_eq!(lock.state.as_deref(), Some("1 of 3 permits free"));
    child.kill();
    assert_eq!(domain.sweep(true).expect("looks").claims, 2);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 2);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(semaphore.available_permits(), 3);
}

fn bad_sizes_are_refused(world: &World) {
    let domain = world.domain();
    for permits in [0, 65_537] {
        let error =
            Semaphore::options(permits).open_or_create(&domain, "bad").err().expect("refused");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains("1 to 65,536"), "{error}");
    }
    let few = Semaphore::options(3).max_permits(2).create_new(&domain, "bad").err();
    assert!(matches!(few, Some(Error::InvalidOption { .. })));
    let large = Semaphore::options(65_536).open_or_create(&domain, "large").expect("opens");
    assert_eq!(large.available_permits(), 65_536);
    // One that is there keeps its number.
    assert_eq!(Semaphore::open(&domain, "large").expect("opens").available_permits(), 65_536);
    let permit = large.acquire().expect("free");
    for other in [
        Semaphore::options(65_535),
        Semaphore::options(65_536).max_permits(65_536).max_permits(70_000),
    ] {
        assert!(other.open_or_create(&domain, "large").is_err());
    }
    let error = Semaphore::options(1).open_or_create(&domain, "large").err().expect("another");
    assert!(matches!(error, Error::OtherOptions { .. }), "{error}");
    Semaphore::options(65_536).open(&domain, "large").expect("began with as many");
    drop(permit);
    let parts = Semaphore::options(0).max_permits(4).create_new(&domain, "parts").expect("new");
    parts.add_permit().expect("room");
    assert_eq!(
        Semaphore::options(0)
            .max_permits(4)
            .open_or_create(&domain, "parts")
            .expect("the same")
            .available_permits(),
        1
    );
    let error = Semaphore::options(0)
        .max_permits(5)
        .open_or_create(&domain, "parts")
        .err()
        .expect("another most");
    assert!(matches!(error, Error::OtherOptions { .. }), "{error}");
    let again = Semaphore::options(0).max_permits(4).create_new(&domain, "parts").err();
    assert!(matches!(again, Some(Error::AlreadyExists { .. })));
    assert!(matches!(Semaphore::open(&domain, "none").err(), Some(Error::NotFound { .. })));
}

fn waits_without_futex_waitv(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 2);
    let mut children = [holder(&semaphore, 1), holder(&semaphore, 1)];
    let shared = &semaphore;
    let waiting = Child::start(move || {
        outlive::abilities::pretend_no_futex_waitv();
        drop(shared.acquire().expect("a permit"));
    });
    wait_asleep(waiting.pid());
    children[1].kill();
    waiting.finish();
}

/// A release wakes two waiters. The others find a changed sequence at their own look, which is no
/// rescue.
fn a_waiter_that_a_release_passes_over_is_no_rescue(world: &World) {
    let domain = Domain::options()
        .recheck(Some(Duration::from_millis(50)))
        .open_or_create_at(world.domain().path())
        .expect("opens");
    let semaphore = open(&domain, 1);
    let file = Bytes::of(&domain, "permits");
    let (sequence, permit) = (BODY, BODY + 64);
    std::mem::forget(semaphore.try_acquire().expect("looks").expect("free"));
    let waiting = sleeper(&semaphore);
    file.set_word(sequence, file.word(sequence) + 1);
    wait_looks(waiting.pid(), 3);
    assert_eq!(domain.stats().rescues, 0);
    // This permit becomes free without a notification. A waiter that happens to look at that very
    // moment finds it without a rescue: hence the repetition.
    let mut waiting = Some(waiting);
    wait_until("a permit found by the waiter's own look is counted", || {
        let waiter = waiting.take().unwrap_or_else(|| sleeper(&semaphore));
        file.set_word(permit, 0);
        waiter.finish();
        std::mem::forget(semaphore.try_acquire().expect("looks").expect("given back"));
        domain.stats().rescues == 1
    });
}

/// Of the waiters one gets in, and one more has looked; the others have slept on.
fn a_permit_given_back_wakes_two_of_twenty(world: &World) {
    let domain = world.domain();
    let semaphore = open(&domain, 1);
    let permit = semaphore.acquire().expect("free");
    let board = Board::new();
    let waiters: Vec<Child> = (0..20)
        .map(|_| {
            let child = Child::start(|| {
                let _permit = semaphore.acquire().expect("given back");
                board.add(0, 1);
                board.reach(1, 1);
            });
            wait_asleep(child.pid());
            child
        })
        .collect();
    let sleeps = || waiters.iter().map(|waiter| sleeps_of(waiter.pid())).collect::<Vec<_>>();
    // Asleep in the kernel, and not on the way there.
    let mut before = sleeps();
    wait_until("all sleep", || {
        std::thread::sleep(Duration::from_millis(20));
        let now = sleeps();
        let is_same = now == before;
        before = now;
        is_same
    });
    drop(permit);
    board.reach(0, 1);
    // The second one may not have looked yet, the nineteen others, were they woken, neither; nor has
    // the first gone to sleep again, on a busy machine.
    std::thread::sleep(Duration::from_millis(300));
    let woken = sleeps().iter().zip(&before).filter(|(now, before)| now > before).count();
    assert!(woken <= 2, "{woken} of twenty were woken for one permit");
    board.set(1, 1);
    waiters.into_iter().for_each(Child::finish);
}
