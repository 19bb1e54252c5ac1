//! The mutex with a ceiling: how its holders run, before, inside and afterwards; and what a death
//! in it leaves.

use std::time::Duration;

use outlive::sync::{
    AcquireError, CeilingMutex, CeilingMutexGuard, EmbeddedCeilingMutex, LockError, Record,
};
use outlive::{Detail, Domain, Error, Kind};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::{Child, End};
use crate::realtime::{become_fifo, become_ordinary, own_schedule, skip_without_right};
use crate::runner::World;

crate::checks!(
    a_holder_runs_at_the_ceiling,
    an_ordinary_thread_gets_its_niceness_back,
    nested_ones_in_any_order,
    a_thread_above_the_ceiling_is_refused,
    a_thread_at_the_ceiling_stays_as_it_is,
    a_change_meanwhile_is_kept,
    a_refusal_lowers_the_thread_again,
    without_the_right_it_says_what_to_do,
    a_forked_child_comes_down,
    processes_count_together,
    another_ceiling_is_refused,
    embedded_and_described,
    a_sleeper_is_told_of_a_death,
    of_many_sleepers_one_is_told,
    not_recoverable_and_reset,
);

const FIFO: i32 = libc::SCHED_FIFO;
const OTHER: i32 = libc::SCHED_OTHER;

outlive::record! {
    struct Plant {
        pub valve: EmbeddedCeilingMutex<[u64; 2], 35>,
    }
}

fn opened(domain: &Domain) -> CeilingMutex<u64> {
    CeilingMutex::options(40, 0).open_or_create(domain, "m").expect("opens")
}

fn with_ceiling(domain: &Domain, ceiling: u32) -> CeilingMutex<u64> {
    CeilingMutex::options(ceiling, 0).open_or_create(domain, &format!("m{ceiling}")).expect("opens")
}

fn got<'a>(
    result: Result<CeilingMutexGuard<'a, u64>, LockError<CeilingMutexGuard<'a, u64>>>,
) -> (CeilingMutexGuard<'a, u64>, bool) {
    match result {
        Ok(guard) => (guard, false),
        Err(LockError::OwnerDied(mut guard)) => {
            guard.mark_consistent();
            (guard, true)
        }
        Err(error) => panic!("{error}"),
    }
}

/// A child that holds the mutex until it is killed, or word 1 of the board is set.
fn hold(mutex: &CeilingMutex<u64>, board: Board) -> Child {
    let child = Child::start(|| {
        let _guard = got(mutex.lock());
        board.set(0, 1);
        board.reach(1, 1);
    });
    board.reach(0, 1);
    child
}

fn a_holder_runs_at_the_ceiling(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    assert_eq!(mutex.ceiling(), 40);
    for (own, become_it) in [((OTHER, 0), become_ordinary as fn()), ((FIFO, 7), || become_fifo(7))]
    {
        become_it();
        assert_eq!(own_schedule(), own);
        for tries in [false, true] {
            let lock = || if tries { mutex.try_lock() } else { mutex.lock().map(Some) };
            let guard = lock().expect("free").expect("not held");
            assert_eq!(own_schedule(), (FIFO, 40));
            drop(guard);
            assert_eq!(own_schedule(), own);
        }
    }
    become_ordinary();
}

fn an_ordinary_thread_gets_its_niceness_back(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    // SAFETY: no pointers are passed.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) };
    drop(mutex.lock().expect("free"));
    assert_eq!(own_schedule(), (OTHER, 0));
    // SAFETY: no pointers are passed.
    assert_eq!(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }, 5);
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameter is plain data.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameter) }, 0);
    drop(mutex.lock().expect("free"));
    assert_eq!(own_schedule(), (libc::SCHED_BATCH, 0));
}

fn nested_ones_in_any_order(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutexes = [10, 30, 20].map(|ceiling| with_ceiling(&domain, ceiling));
    let held = |guards: &[Option<CeilingMutexGuard<'_, u64>>]| {
        let ceilings = guards
            .iter()
            .zip([10, 30, 20])
            .filter_map(|(guard, ceiling)| guard.as_ref().map(|_| ceiling));
        ceilings.max().map_or((OTHER, 0), |ceiling| (FIFO, ceiling))
    };
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for taken in orders {
        for given_back in orders {
            let mut guards = [const { None }; 3];
            for nth in taken {
                guards[nth] = Some(mutexes[nth].lock().expect("free"));
                assert_eq!(own_schedule(), held(&guards), "taken {taken:?} up to {nth}");
            }
            for nth in given_back {
                guards[nth] = None;
                assert_eq!(own_schedule(), held(&guards), "given back {given_back:?} up to {nth}");
            }
        }
    }
    // Two of one ceiling: the second's end is not the first's.
    let twin = CeilingMutex::<u64>::options(30, 0).open_or_create(&domain, "twin").expect("opens");
    let first = mutexes[1].lock().expect("free");
    drop(twin.lock().expect("free"));
    assert_eq!(own_schedule(), (FIFO, 30));
    drop(first);
    assert_eq!(own_schedule(), (OTHER, 0));
}

fn a_thread_above_the_ceiling_is_refused(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    become_fifo(41);
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::AboveCeiling))));
    assert!(matches!(mutex.try_lock(), Err(LockError::Failed(AcquireError::AboveCeiling))));
    assert!(matches!(mutex.reset(1), Err(AcquireError::AboveCeiling)));
    assert_eq!(own_schedule(), (FIFO, 41));
    // Its own priority counts, not what another lock lends it.
    become_fifo(5);
    let higher = with_ceiling(&domain, 50);
    let outer = higher.lock().expect("free");
    drop(mutex.lock().expect("its own priority is 5"));
    assert_eq!(own_schedule(), (FIFO, 50));
    drop(outer);
    assert_eq!(own_schedule(), (FIFO, 5));
}

fn a_thread_at_the_ceiling_stays_as_it_is(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    let parameter = libc::sched_param { sched_priority: 40 };
    // SAFETY: the parameter is plain data.
    assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const parameter) }, 0);
    let guard = mutex.lock().expect("free");
    assert_eq!(own_schedule(), (libc::SCHED_RR, 40));
    drop(guard);
    assert_eq!(own_schedule(), (libc::SCHED_RR, 40));
}

fn a_change_meanwhile_is_kept(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let (low, high) = (with_ceiling(&domain, 20), with_ceiling(&domain, 30));
    // Lowered, raised above, made ordinary, by the thread itself; an administrator's change is the
    // same to us.
    for (change, wanted) in [(15, (FIFO, 15)), (60, (FIFO, 60)), (0, (OTHER, 0))] {
        become_fifo(5);
        let guard = low.lock().expect("free");
        if change == 0 {
            become_ordinary()
        } else {
            become_fifo(change)
        }
        drop(guard);
        assert_eq!(own_schedule(), wanted);
    }
    // Between two: the inner one's ceiling is kept to, and the change comes true at the end.
    become_fifo(5);
    let outer = low.lock().expect("free");
    become_fifo(12);
    let inner = high.lock().expect("free");
    assert_eq!(own_schedule(), (FIFO, 30));
    drop(inner);
    assert_eq!(own_schedule(), (FIFO, 20));
    drop(outer);
    assert_eq!(own_schedule(), (FIFO, 12));
}

fn a_refusal_lowers_the_thread_again(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    let board = Board::new();
    let child = hold(&mutex, board);
    assert!(matches!(mutex.try_lock(), Ok(None)));
    assert_eq!(own_schedule(), (OTHER, 0));
    assert!(matches!(mutex.lock_timeout(Duration::from_millis(20)), Ok(None)));
    assert_eq!(own_schedule(), (OTHER, 0));
    board.set(1, 1);
    child.finish();
    let guard = mutex.lock().expect("free");
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::Deadlock))));
    assert_eq!(own_schedule(), (FIFO, 40), "it is held still");
    drop(guard);
    assert_eq!(own_schedule(), (OTHER, 0));
}

fn without_the_right_it_says_what_to_do(world: &World) {
    let domain = world.domain();
    let mutex = opened(&domain);
    // SAFETY: no pointers but to a limit of ours; the capability goes with the user.
    let dropped = unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_RTPRIO, &raw const none);
        libc::geteuid() != 0 || libc::setresuid(65_534, 65_534, 65_534) == 0
    };
    if !dropped {
        world.skip("rights cannot be given up here");
    }
    match mutex.lock() {
        Err(LockError::Failed(AcquireError::System(
            error @ Error::NoRealTime { priority: 40 },
        ))) => {
            let text = error.to_string();
            assert!(text.contains("CAP_SYS_NICE") && text.contains("RLIMIT_RTPRIO"), "{text}");
        }
        // The file of this very program carries the capability.
        Ok(_) => world.skip("the right cannot be given up here"),
        Err(other) => panic!("{other}"),
    }
    assert_eq!(own_schedule(), (OTHER, 0));
    assert_eq!(mutex.holder(), None, "it was not taken");
}

fn a_forked_child_comes_down(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    let mut guard = Some(mutex.lock().expect("free"));
    Child::start(|| {
        assert_eq!(own_schedule(), (FIFO, 40), "as the kernel forks");
        drop(guard.take());
        assert_eq!(own_schedule(), (OTHER, 0));
        assert!(matches!(mutex.try_lock(), Ok(None)), "it is the parent's");
    })
    .finish();
    assert_eq!(own_schedule(), (FIFO, 40));
    drop(guard);
    assert_eq!(own_schedule(), (OTHER, 0));
}

fn processes_count_together(world: &World) {
    skip_without_right(world);
    const EACH: u64 = 5_000;
    let domain = world.domain();
    let mutex =
        CeilingMutex::<[u64; 2]>::options(15, [0; 2]).open_or_create(&domain, "m").expect("opens");
    let children: Vec<Child> = (0..4)
        .map(|nth| {
            let mutex = &mutex;
            Child::start(move || {
                if nth > 1 {
                    become_fifo(nth);
                }
                for _ in 0..EACH {
                    let mut value = mutex.lock().expect("nobody dies");
                    assert_eq!(value[0], value[1], "somebody else is inside");
                    value[0] += 1;
                    value[1] += 1;
                }
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!(*mutex.lock().expect("free"), [4 * EACH; 2]);
}

fn another_ceiling_is_refused(world: &World) {
    let domain = world.domain();
    drop(opened(&domain));
    let error =
        CeilingMutex::<u64>::options(41, 0).open_or_create(&domain, "m").err().expect("refused");
    assert!(
        matches!(&error, Error::OtherOptions { found, wanted, .. } if &**found == "40" && &**wanted == "41"),
        "{error}"
    );
    for none in [0, 100, u32::MAX] {
        let error = CeilingMutex::<u64>::options(none, 0)
            .open_or_create(&domain, "n")
            .err()
            .expect("refused");
        assert!(error.to_string().contains("from 1 to 99"), "{error}");
    }
}

fn embedded_and_described(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let plant = Record::<Plant>::options()
        .init(|plant| *plant.valve.get_mut() = [3, 4])
        .open_or_create(&domain, "plant")
        .expect("opens");
    let valve = plant.handle(|plant| &plant.valve);
    let guard = valve.lock().expect("free");
    assert_eq!((own_schedule(), *guard), ((FIFO, 35), [3, 4]));
    drop(guard);
    let mutex = opened(&domain);
    let board = Board::new();
    let mut child = hold(&mutex, board);
    assert_eq!(mutex.holder().expect("held").pid as i32, child.pid());
    let entry = domain
        .entries()
        .expect("readable")
        .into_iter()
        .find(|entry| entry.name == "m")
        .expect("there");
    assert_eq!(entry.kind, Ok(Kind::CeilingMutex));
    let Detail::Lock(detail) = entry.detail else { panic!("{:?}", entry.detail) };
    assert_eq!(
        (detail.holders[0].pid as i32, &detail.figures[..]),
        (child.pid(), &[("ceiling", 40)][..])
    );
    child.kill();
    assert!(!domain.sweep(false).expect("sweeps").is_clean());
    assert!(domain.sweep(false).expect("sweeps").is_clean());
    assert!(got(mutex.lock()).1, "told all the same");
}

fn a_sleeper_is_told_of_a_death(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    for _ in 0..20 {
        let mut owner = hold(&mutex, Board::new());
        let sleeper = Child::start(|| {
            assert!(got(mutex.lock()).1, "told");
            assert_eq!(own_schedule(), (OTHER, 0), "after the guard went");
        });
        wait_asleep(sleeper.pid());
        owner.kill();
        sleeper.finish();
        drop(mutex.lock().expect("whole"));
    }
}

fn of_many_sleepers_one_is_told(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    for round in 0..20 {
        let board = Board::new();
        let mut owner = hold(&mutex, Board::new());
        let mut sleepers: Vec<Child> = (0..6)
            .map(|nth| {
                let mutex = &mutex;
                Child::start(move || {
                    if nth % 2 == 0 {
                        become_fifo(10 + nth);
                    }
                    let (_guard, told) = got(mutex.lock());
                    board.add(usize::from(!told), 1);
                })
            })
            .collect();
        for sleeper in &sleepers {
            wait_asleep(sleeper.pid());
        }
        owner.kill();
        if round % 2 == 0 {
            sleepers.into_iter().for_each(Child::finish);
            assert_eq!((board.get(0), board.get(1)), (1, 5));
        } else {
            // Some of the sleepers that may have been woken die as well.
            for sleeper in &mut sleepers[..3] {
                sleeper.signal(libc::SIGKILL);
                assert!(matches!(sleeper.wait(), End::Signal(libc::SIGKILL) | End::Code(0)));
            }
            sleepers.drain(3..).for_each(Child::finish);
        }
        drop(got(mutex.lock()));
    }
}

fn not_recoverable_and_reset(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = opened(&domain);
    hold(&mutex, Board::new()).kill();
    assert!(matches!(mutex.lock(), Err(LockError::OwnerDied(_))));
    let Err(LockError::OwnerDied(guard)) = mutex.lock() else { panic!("nobody has repaired it") };
    guard.mark_not_recoverable();
    assert_eq!(own_schedule(), (OTHER, 0));
    assert!(matches!(mutex.lock(), Err(LockError::Failed(AcquireError::NotRecoverable))));
    assert_eq!(own_schedule(), (OTHER, 0));
    mutex.reset(9).expect("reset");
    assert_eq!(own_schedule(), (OTHER, 0));
    assert_eq!(*mutex.lock().expect("whole"), 9);
}
