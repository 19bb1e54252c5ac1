//! A barrier: no participant begins a phase before all have ended the last one; a death breaks the
//! barrier or is counted out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use outlive::sync::{AcquireError, Barrier, EmbeddedBarrier, Record, WhenOneDies};
use outlive::{Detail, Domain, Error, TokenId, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, PATIENCE, wait_until};
use crate::forge::{BODY, Bytes};
use crate::runner::World;
use crate::slots::short_lived;

crate::checks!(
    nobody_is_a_phase_ahead_and_one_is_serial: 60,
    a_death_breaks_it_for_those_asleep_and_those_to_come,
    a_death_is_counted_out,
    who_joins_as_another_falls_asleep_is_missed: 60,
    one_that_dies_after_it_arrived_has_arrived,
    repaired_it_goes_on_with_another,
    one_that_leaves_is_not_waited_for,
    an_arrival_outlives_its_deadline,
    each_participant_has_an_index_of_its_own,
    a_dead_participants_index_goes_to_its_successor,
    an_abort_is_told_to_those_asleep_and_those_to_come,
    a_reset_is_told_to_those_asleep_and_empties_it,
    a_reset_takes_the_seats_of_the_dead,
    a_deadline_that_breaks_breaks_its_own_phase_only,
    an_abort_during_a_reset_stays,
    one_that_joins_during_a_reset_takes_a_dead_participants_seat,
    one_that_resets_is_killed_at_random: 60,
    participants_are_killed_at_random: 60,
    four_thousand_threads: 60,
    as_many_processes_as_the_machine_takes: 60,
    embedded_in_a_record,
    a_look_and_a_sweep,
    a_dead_repairers_name_is_swept,
    a_damaged_repairers_name_is_told,
    bad_numbers_are_refused,
);

fn open(domain: &Domain, parties: u32, when_one_dies: WhenOneDies) -> Barrier {
    Barrier::options(parties)
        .when_one_dies(when_one_dies)
        .open_or_create(domain, "barrier")
        .expect("opens")
}

/// A child that joins, says so, and then sits there until it is killed.
fn seated(barrier: &Barrier) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _seat = barrier.join().expect("a seat");
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    child
}

/// A child that joins, waits once, and must get that answer.
fn waiter(barrier: &Barrier, expected: Result<(), AcquireError>) -> Child {
    let child = Child::start(move || {
        let got = barrier.join().expect("a seat").wait().map(|_| ());
        assert_eq!(got, expected);
    });
    wait_asleep(child.pid());
    child
}

fn phases(barrier: &Barrier, board: Board, parties: u64, count: u64) {
    let mut seat = barrier.join().expect("a seat");
    for phase in 0..count {
        board.add(0, 1);
        let turn = seat.wait().expect("all come");
        let arrived = board.get(0);
        assert!(arrived >= (phase + 1) * parties, "{arrived} had arrived when phase {phase} ended");
        if turn.is_leader() {
            board.add(1, 1);
        }
        // No participant may begin the phase after the next before this one is in the next.
        assert!(board.get(0) <= (phase + 2) * parties);
    }
    // Held until all have seen the last phase's end: a seat that is given up is waited for no more.
    board.add(2, 1);
    wait_until("all are through", || board.get(2) == parties);
}

fn nobody_is_a_phase_ahead_and_one_is_serial(world: &World) {
    let domain = world.domain();
    let (barrier, board) = (open(&domain, 4, WhenOneDies::Break), Board::new());
    let children: Vec<Child> =
        (0..4).map(|_| Child::start(|| phases(&barrier, board, 4, 2_000))).collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (8_000, 2_000));
}

fn a_death_breaks_it_for_those_asleep_and_those_to_come(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 4, WhenOneDies::Break);
    let mut absent = seated(&barrier);
    let waiters =
        [waiter(&barrier, Err(AcquireError::Broken)), waiter(&barrier, Err(AcquireError::Broken))];
    absent.kill();
    waiters.into_iter().for_each(Child::finish);
    assert!(barrier.is_broken());
    assert_eq!(barrier.join().map(drop), Err(AcquireError::Broken));
}

fn a_death_is_counted_out(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 3, WhenOneDies::CountOut);
    let mut absent = seated(&barrier);
    let waiters = [waiter(&barrier, Ok(())), waiter(&barrier, Ok(()))];
    absent.kill();
    waiters.into_iter().for_each(Child::finish);
    // All have gone: the seats are free for others.
    let mut seat = barrier.join().expect("a seat");
    assert!(seat.wait().expect("alone").is_leader());
}

fn who_joins_as_another_falls_asleep_is_missed(world: &World) {
    let domain = world.domain();
    let mut random = crate::random::Random::new();
    for round in 0..1_000 {
        let barrier = Barrier::options(2)
            .when_one_dies(WhenOneDies::Break)
            .open_or_create(&domain, &format!("of {round}"))
            .expect("opens");
        barrier.set_wait_strategy(outlive::WaitStrategy::Block);
        let (board, delay) = (Board::new(), random.below(3_000));
        let waiting = Child::start(|| {
            let mut seat = barrier.join().expect("a seat");
            board.set(0, 1);
            assert_eq!(seat.wait().map(drop), Err(AcquireError::Broken));
        });
        let dying = Child::start(|| {
            domain.token().expect("a token");
            while board.get(0) == 0 {
                std::hint::spin_loop();
            }
            (0..delay).for_each(|_| std::hint::spin_loop());
            std::mem::forget(barrier.join().expect("a seat"));
        });
        [dying, waiting].into_iter().for_each(Child::finish);
    }
}

fn one_that_dies_after_it_arrived_has_arrived(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let board = Board::new();
    let mut arrived = Child::start(|| {
        let mut seat = barrier.join().expect("a seat");
        assert_eq!(seat.try_wait(), Ok(None));
        board.set(0, 1);
        loop {
            std::thread::park();
        }
    });
    board.reach(0, 1);
    arrived.kill();
    let mut seat = barrier.join().expect("a seat");
    assert!(seat.wait().expect("it had arrived").is_leader());
    assert_eq!(seat.wait(), Err(AcquireError::Broken), "of this phase it is absent, and dead");
}

fn repaired_it_goes_on_with_another(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let mut absent = seated(&barrier);
    let mut seat = barrier.join().expect("a seat");
    absent.kill();
    assert_eq!(seat.wait(), Err(AcquireError::Broken));
    assert_eq!(seat.wait(), Err(AcquireError::Broken), "until it is repaired");
    barrier.repair_timeout(Duration::from_secs(60)).expect("repairs");
    assert!(!barrier.is_broken());
    barrier.repair_timeout(Duration::from_secs(60)).expect("nothing to do");
    let other = Child::start(|| {
        let mut seat = barrier.join().expect("the dead one's seat");
        for _ in 0..100 {
            seat.wait().expect("both come");
        }
    });
    for _ in 0..100 {
        seat.wait().expect("both come");
    }
    other.finish();
}

fn one_that_leaves_is_not_waited_for(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let board = Board::new();
    let leaver = Child::start(|| {
        let seat = barrier.join().expect("a seat");
        board.reach(0, 1);
        drop(seat);
    });
    let mut seat = barrier.join().expect("a seat");
    let releaser = Child::start(|| {
        std::thread::sleep(Duration::from_millis(5));
        board.set(0, 1);
    });
    seat.wait().expect("the other has left");
    seat.wait().expect("and stays away");
    [leaver, releaser].into_iter().for_each(Child::finish);
}

fn an_arrival_outlives_its_deadline(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let board = Board::new();
    let other = Child::start(|| {
        let mut seat = barrier.join().expect("a seat");
        board.reach(0, 1);
        seat.wait().expect("the other has arrived");
        board.reach(0, 2);
    });
    let mut seat = barrier.join().expect("a seat");
    assert_eq!(seat.wait_timeout(Duration::from_millis(5)), Ok(None));
    board.set(0, 1);
    seat.wait().expect("both have come");
    board.set(0, 2);
    other.finish();
}

fn each_participant_has_an_index_of_its_own(world: &World) {
    let domain = world.domain();
    let (barrier, board) = (open(&domain, 3, WhenOneDies::Break), Board::new());
    assert_eq!(barrier.parties(), 3);
    let children: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                let mut seat = barrier.join().expect("a seat");
                let mut former = None;
                for phase in 1..=20 {
                    let index = seat.wait().expect("all come").index();
                    assert!(former.is_none_or(|former| former == index), "it keeps its seat");
                    former = Some(index);
                    board.add(index, 1);
                    wait_until("all have counted", || (0..3).all(|n| board.get(n) >= phase));
                }
                board.add(3, 1);
                wait_until("all are through", || board.get(3) == 3);
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!([0, 1, 2].map(|index| board.get(index)), [20; 3]);
}

fn a_dead_participants_index_goes_to_its_successor(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::CountOut);
    let mut absent = seated(&barrier);
    let mut seat = barrier.join().expect("a seat");
    absent.kill();
    assert_eq!(seat.wait().expect("the other is counted out").index(), 1);
    let successor = Child::start(|| {
        let mut seat = barrier.join().expect("the dead one's seat");
        assert_eq!(seat.wait().expect("both come").index(), 0);
    });
    wait_until("it is there", || barrier.participants().len() == 2);
    assert_eq!(seat.wait().expect("both come").index(), 1);
    successor.finish();
}

fn an_abort_is_told_to_those_asleep_and_those_to_come(world: &World) {
    let domain = world.domain();
    for policy in [WhenOneDies::Break, WhenOneDies::CountOut] {
        let name = format!("{policy:?}");
        let options = Barrier::options(4).when_one_dies(policy);
        let barrier = options.open_or_create(&domain, &name).expect("opens");
        let mut seat = barrier.join().expect("a seat");
        let waiters = [0, 1].map(|_| waiter(&barrier, Err(AcquireError::Broken)));
        wait_until("both have arrived", || barrier.arrived() == 2);
        barrier.abort();
        waiters.into_iter().for_each(Child::finish);
        assert_eq!((barrier.is_broken(), barrier.arrived()), (true, 0));
        assert_eq!(seat.wait().map(drop), Err(AcquireError::Broken));
        assert_eq!(barrier.join().map(drop), Err(AcquireError::Broken));
        barrier.abort();
        barrier.repair_timeout(PATIENCE).expect("repairs");
        assert!(!barrier.is_broken());
    }
}

fn a_reset_is_told_to_those_asleep_and_empties_it(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 3, WhenOneDies::Break);
    let told_and_again = || {
        let child = Child::start(|| {
            let mut seat = barrier.join().expect("a seat");
            assert_eq!(seat.wait(), Err(AcquireError::Broken));
            // At once, and perhaps in the middle of the reset: it is not told twice.
            seat.wait().expect("all come again");
        });
        wait_asleep(child.pid());
        child
    };
    let waiters = [told_and_again(), told_and_again()];
    wait_until("both have arrived", || barrier.arrived() == 2);
    let mut seat = barrier.join().expect("a seat");
    barrier.reset_timeout(PATIENCE).expect("resets");
    assert!(!barrier.is_broken());
    seat.wait().expect("all come");
    waiters.into_iter().for_each(Child::finish);
    // An empty one, and a broken one.
    barrier.try_reset().expect("nothing to do");
    barrier.abort();
    barrier.reset().expect("resets");
    assert!(!barrier.is_broken());
}

fn a_reset_takes_the_seats_of_the_dead(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let mut absent = seated(&barrier);
    let mut seat = barrier.join().expect("a seat");
    absent.kill();
    barrier.reset_timeout(PATIENCE).expect("resets");
    assert_eq!(seat.try_wait(), Ok(None), "the dead one is missed no more");
    let successor = Child::start(|| {
        let mut seat = barrier.join().expect("the dead one's seat");
        seat.wait().expect("both come");
    });
    seat.wait().expect("both come");
    successor.finish();
}

fn a_deadline_that_breaks_breaks_its_own_phase_only(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 2, WhenOneDies::Break);
    let mut seat = barrier.join().expect("a seat");
    let go = Board::new();
    let other = Child::start(|| {
        let mut seat = barrier.join().expect("a seat");
        go.reach(2, 1);
        assert_eq!(seat.try_wait().map(|turn| turn.map(|turn| turn.index())), Ok(Some(1)));
        assert_eq!(seat.try_wait(), Ok(None), "the next phase is whole");
        go.set(0, 1);
        go.reach(1, 1);
        assert_eq!(seat.wait(), Err(AcquireError::Broken));
    });
    // The other one arrives after the deadline and before the abort.
    wait_until("both are there", || barrier.participants().len() == 2);
    assert_eq!(seat.try_wait(), Ok(None));
    go.set(2, 1);
    go.reach(0, 1);
    assert_eq!(seat.abort().expect("both had come").index(), 0);
    assert!(!barrier.is_broken());
    assert_eq!(barrier.arrived(), 1);
    go.set(1, 1);
    wait_asleep(other.pid());
    // Without an arrival it is any abort.
    assert_eq!(seat.abort(), Err(AcquireError::Broken));
    other.finish();
    barrier.reset_timeout(PATIENCE).expect("resets");
    // The other one has left, and no participant waits for it; for this one, it does.
    let _absent = barrier.join().expect("a seat");
    assert_eq!(seat.wait_timeout(Duration::from_millis(5)), Ok(None));
    assert_eq!(seat.abort(), Err(AcquireError::Broken));
    assert!(barrier.is_broken());
}

/// A bit of the word `phase`.
const RESETTING: u32 = 1 << 29;
/// The word that names the repairer.
const REPAIR: u64 = BODY + 16;

fn an_abort_during_a_reset_stays(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 1, WhenOneDies::Break);
    let mut seat = barrier.join().expect("a seat");
    let bytes = Bytes::of(&domain, "barrier");
    // As a process leaves it that dies in a reset.
    bytes.set_word(BODY, RESETTING);
    assert_eq!((barrier.is_broken(), barrier.arrived()), (false, 0));
    barrier.abort();
    assert!(barrier.is_broken());
    assert_eq!(seat.wait(), Err(AcquireError::Broken));
    barrier.reset_timeout(PATIENCE).expect("resets");
    assert_eq!(bytes.word(BODY), 3);
    bytes.set_word(BODY, 3 | RESETTING);
    seat.wait().expect("ends the reset, and passes alone");
    assert_eq!(bytes.word(BODY), 7);
    bytes.set_word(BODY, 7 | RESETTING);
    drop(seat);
    let mut seat = barrier.join().expect("a seat");
    assert_eq!(bytes.word(BODY), 10, "a process that joins ends the reset as well");
    seat.wait().expect("alone");
}

/// The process that resets is stopped before it gets to the seats: what it is about to free is
/// free.
fn one_that_joins_during_a_reset_takes_a_dead_participants_seat(world: &World) {
    let domain = world.domain();
    for (policy, arrives) in [
        (WhenOneDies::Break, false),
        (WhenOneDies::Break, true),
        (WhenOneDies::CountOut, false),
        (WhenOneDies::CountOut, true),
    ] {
        let name = format!("{policy:?} {arrives}");
        let options = Barrier::options(3).when_one_dies(policy);
        let barrier = options.open_or_create(&domain, &name).expect("opens");
        let mut living = seated(&barrier);
        let resets = barrier.participants()[0].0.token;
        let board = Board::new();
        let mut dies = Child::start(|| {
            let mut seat = barrier.join().expect("a seat");
            if arrives {
                assert_eq!(seat.try_wait(), Ok(None));
            }
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        let mut seat = barrier.join().expect("a seat");
        dies.kill();
        let bytes = Bytes::of(&domain, &name);
        bytes.set_word(REPAIR, resets.as_u32());
        bytes.set_word(BODY, RESETTING);
        let second = std::thread::scope(|threads| {
            threads.spawn(|| barrier.join().map(drop)).join().expect("returns")
        });
        assert_eq!(second, Ok(()), "{name}");
        assert_eq!(seat.wait_timeout(Duration::from_millis(5)), Ok(None), "{name}: it resets");
        // It goes on, and ends.
        bytes.set_word(REPAIR, 0);
        barrier.reset_timeout(PATIENCE).expect("resets");
        assert!(!barrier.is_broken(), "{name}");
        living.kill();
    }
}

fn one_that_resets_is_killed_at_random(world: &World) {
    let domain = world.domain();
    let mut random = crate::random::Random::new();
    for round in 0..60 {
        let barrier = Barrier::options(3)
            .when_one_dies(WhenOneDies::CountOut)
            .open_or_create(&domain, &format!("of {round}"))
            .expect("opens");
        let board = Board::new();
        let children: Vec<Child> = (0..3)
            .map(|_| {
                Child::start(|| {
                    let mut seat = barrier.join().expect("a seat");
                    board.add(0, 1);
                    while board.get(1) == 0 {
                        match seat.wait() {
                            Ok(_) | Err(AcquireError::Broken) => {}
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        board.reach(0, 3);
        let mut resetting = Child::start(|| {
            loop {
                barrier.reset().expect("resets");
            }
        });
        std::thread::sleep(Duration::from_micros(random.below(2_000)));
        resetting.kill();
        // They go on: none is broken for good, and none sleeps for ever.
        board.set(1, 1);
        children.into_iter().for_each(Child::finish);
        assert!(!barrier.is_broken());
    }
}

fn participants_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let mut random = crate::random::Random::new();
    for round in 0..60 {
        let policy = if round % 2 == 0 { WhenOneDies::Break } else { WhenOneDies::CountOut };
        let barrier = Barrier::options(4)
            .when_one_dies(policy)
            .open_or_create(&domain, &format!("of {round}"))
            .expect("opens");
        let board = Board::new();
        let mut children: Vec<Child> = (0..4)
            .map(|_| {
                Child::start(|| {
                    let mut seat = barrier.join().expect("a seat");
                    board.add(0, 1);
                    while board.get(1) == 0 {
                        match seat.wait() {
                            Ok(_) => {}
                            Err(AcquireError::Broken) if policy == WhenOneDies::Break => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        board.reach(0, 4);
        std::thread::sleep(Duration::from_micros(random.below(800)));
        children[0].kill();
        if policy == WhenOneDies::CountOut {
            std::thread::sleep(Duration::from_micros(random.below(800)));
            children[1].kill();
        }
        board.set(1, 1);
        let survivors = if policy == WhenOneDies::Break { 1 } else { 2 };
        children.drain(survivors..).for_each(Child::finish);
    }
}

/// Threads enough to make a scheduler sweat, each of them a participant.
fn crowd(barrier: &Barrier, parties: u64) {
    let (arrived, serial) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for n in 0..parties {
            let (arrived, serial) = (&arrived, &serial);
            let work = move || {
                let mut seat = barrier.join().expect("a seat");
                for phase in 1..=3 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    if seat.wait().expect("all come").is_leader() {
                        serial.fetch_add(1, Ordering::SeqCst);
                    }
                    assert!(arrived.load(Ordering::SeqCst) >= phase * parties);
                }
            };
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(scope, work)
                .unwrap_or_else(|error| panic!("thread {n}: {error}"));
        }
    });
    assert_eq!((arrived.into_inner(), serial.into_inner()), (3 * parties, 3));
}

fn four_thousand_threads(world: &World) {
    let domain = world.domain();
    crowd(&open(&domain, 4_000, WhenOneDies::Break), 4_000);
}

fn as_many_processes_as_the_machine_takes(world: &World) {
    let domain = world.domain();
    let parties = 400;
    let (barrier, board) = (open(&domain, parties as u32, WhenOneDies::Break), Board::new());
    let children: Vec<Child> =
        (0..parties).map(|_| Child::start(|| phases(&barrier, board, parties, 3))).collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), board.get(1)), (3 * parties, 3));
    // And one of them dies.
    let mut absent = seated(
        &Barrier::options(100)
            .when_one_dies(WhenOneDies::Break)
            .open_or_create(&domain, "again")
            .expect("opens"),
    );
    let again = Barrier::options(100)
        .when_one_dies(WhenOneDies::Break)
        .open_or_create(&domain, "again")
        .expect("opens");
    let others: Vec<Child> = (0..98).map(|_| waiter(&again, Err(AcquireError::Broken))).collect();
    absent.kill();
    others.into_iter().for_each(Child::finish);
}

outlive::record! {
    struct Line { step: EmbeddedBarrier<2> }
}

fn embedded_in_a_record(world: &World) {
    let domain = world.domain();
    let init = |line: &mut Line| line.step.set_policy(WhenOneDies::CountOut);
    let line = Record::<Line>::options().init(init).open_or_create(&domain, "line").expect("opens");
    let barrier = line.handle(|line| &line.step);
    let mut absent = seated(&barrier);
    let waiting = waiter(&barrier, Ok(()));
    absent.kill();
    waiting.finish();
}

fn a_look_and_a_sweep(world: &World) {
    let domain = world.domain();
    let barrier = open(&domain, 3, WhenOneDies::Break);
    let mut absent = seated(&barrier);
    let mut seat = barrier.join().expect("a seat");
    assert_eq!(seat.try_wait(), Ok(None));
    let state = || match domain.entry("barrier").expect("there").detail {
        Detail::Lock(lock) => lock.state.expect("it says"),
        other => panic!("{other:?}"),
    };
    assert_eq!(state(), "1 arrived, 2 of 3 seats taken");
    absent.kill();
    assert_eq!(domain.sweep(true).expect("looks").claims, 1);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert_eq!(state(), "broken");
    assert_eq!(seat.wait(), Err(AcquireError::Broken), "told after a sweep too");
}

fn bad_numbers_are_refused(world: &World) {
    let domain = world.domain();
    for parties in [0, 65_537] {
        let error = Barrier::options(parties)
            .when_one_dies(WhenOneDies::Break)
            .open_or_create(&domain, "bad")
            .err()
            .expect("refused");
        assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
        assert!(error.to_string().contains("1 to 65,536"), "{error}");
    }
    let barrier = open(&domain, 1, WhenOneDies::Break);
    for other in [Barrier::options(2), Barrier::options(1).when_one_dies(WhenOneDies::CountOut)] {
        let error = other.open(&domain, "barrier").err().expect("it is another one");
        assert!(matches!(error, Error::OtherOptions { .. }), "{error}");
    }
    assert!(matches!(
        Barrier::options(1).create_new(&domain, "barrier").err(),
        Some(Error::AlreadyExists { .. })
    ));
    assert!(matches!(Barrier::open(&domain, "none").err(), Some(Error::NotFound { .. })));
    // A rule that is not named is the one that is there.
    let counts_out = Barrier::options(1).when_one_dies(WhenOneDies::CountOut);
    counts_out.create_new(&domain, "counts out").expect("new");
    Barrier::options(1).open(&domain, "counts out").expect("as it is");
    Barrier::open(&domain, "counts out").expect("as it is");
    let seat = barrier.join().expect("a seat");
    assert_eq!(barrier.join().map(drop), Err(AcquireError::Full));
    drop(seat);
    barrier.join().expect("free again").wait().expect("alone");
}

/// Left there, the name would be another thread's when its slot's numbers have come round, and the
/// next repair would wait for that one.
fn a_dead_repairers_name_is_swept(world: &World) {
    let domain = world.domain();
    let barrier = Barrier::options(2)
        .when_one_dies(WhenOneDies::Break)
        .open_or_create(&domain, "b")
        .expect("opens");
    let bytes = Bytes::of(&domain, "b");
    bytes.set_word(REPAIR, short_lived(&domain).as_u32());
    assert_eq!(domain.sweep(true).expect("looks").claims, 1);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert_eq!(TokenId::from_u32(bytes.word(REPAIR)), None);
    assert!(domain.sweep(true).expect("looks").is_clean());
    barrier.repair_timeout(Duration::from_secs(60)).expect("nothing to do");
}

fn a_damaged_repairers_name_is_told(world: &World) {
    let domain = world.domain();
    let barrier = Barrier::options(2).open_or_create(&domain, "b").expect("opens");
    let bytes = Bytes::of(&domain, "b");
    for word in [1, 1 << 30, 0x1fff_ffff, 0x4000_0001, 0x8000_0000] {
        bytes.set_word(REPAIR, word);
        for told in [barrier.repair(), barrier.try_repair(), barrier.repair_timeout(PATIENCE)] {
            let Err(WaitError::System(error)) = told else { panic!("{word:#x}: {told:?}") };
            assert!(matches!(error, Error::Damaged { .. }), "{word:#x}: {error}");
            assert!(error.to_string().contains("repair"), "{error}");
        }
        assert!(barrier.repairer().is_none());
    }
    bytes.set_word(REPAIR, 0);
    barrier.repair().expect("nothing to do");
}
