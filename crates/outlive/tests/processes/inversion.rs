//! Priority inversion: a thread of high priority waits for a lock whose holder, of low priority, is
//! kept from running by one of middling priority that has nothing to do with the lock.
//!
//! Three processes run on one core, under `SCHED_FIFO`; the process that watches runs on another.
//! The check asserts no time but an order: has the middling process, which computes for a while,
//! come to its end when the high one gets the lock? With a plain mutex it has, and if it has not
//! the check fails, because then it shows nothing. Each process takes `SCHED_FIFO` first, then the
//! core: a process that is pinned before may still be ordinary when the others come.

use std::time::{Duration, Instant};

use outlive::sync::{CeilingMutex, LockError, Mutex, PiMutex};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::realtime::{HIGH, LOW, MIDDLE, become_fifo, pin, skip_without_right, two_cores};
use crate::runner::World;

crate::checks!(
    a_plain_mutex_is_inverted,
    priority_is_lent,
    priority_is_lent_along_a_chain,
    priority_is_lent_no_longer_than_somebody_waits,
    a_holder_who_is_lent_to_dies_at_once,
    a_ceiling_keeps_others_out,
    a_holder_at_the_ceiling_dies_at_once,
);

/// What the low one computes under the lock, and the middling one without: far below what the
/// kernel lets real-time threads take of a second, and the first far shorter than the second.
const UNDER_THE_LOCK: Duration = Duration::from_millis(5);
const ELSEWHERE: Duration = Duration::from_millis(120);

// Words of the board.
const HELD: usize = 0;
const WANTED: usize = 1;
const ELSEWHERE_DONE: usize = 2;
const SEEN_BY_HIGH: usize = 3;
const ROUND_OVER: usize = 4;

/// Computes for so long, by the thread's own clock: the time in which others ran does not count.
fn compute(span: Duration) {
    let own = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is a place of ours.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let end = own() + span;
    // Also bounded by the wall's: a hang must not take the machine along.
    let begun = Instant::now();
    while own() < end && begun.elapsed() < Duration::from_millis(600) {
        std::hint::spin_loop();
    }
}

/// A process of that priority on that core.
fn start(priority: i32, core: usize, body: impl FnOnce()) -> Child {
    Child::start(|| {
        become_fifo(priority);
        pin(core);
        body();
    })
}

/// The middling one: begins when the high one wants the lock.
fn middling(core: usize, board: Board) -> Child {
    start(MIDDLE, core, move || {
        board.reach(WANTED, 1);
        compute(ELSEWHERE);
        board.set(ELSEWHERE_DONE, 1);
    })
}

/// The high one: wants the lock once it is held.
fn high(core: usize, board: Board, lock: impl FnOnce()) -> Child {
    start(HIGH, core, move || {
        board.reach(HELD, 1);
        board.set(WANTED, 1);
        lock();
        // 1: the middling one still computes. 2: it was let come to its end.
        board.set(SEEN_BY_HIGH, 1 + board.get(ELSEWHERE_DONE));
    })
}

/// Returns whether the middling one came to its end before the high one got the lock.
fn is_inverted(world: &World, low: impl Fn(&dyn Fn()), lock: impl Fn()) -> bool {
    let [watched, watching] = two_cores(world);
    pin(watching);
    let board = Board::new();
    let (low, lock) = (&low, &lock);
    let children = [
        high(watched, board, lock),
        middling(watched, board),
        start(LOW, watched, || {
            low(&|| {
                board.set(HELD, 1);
                compute(UNDER_THE_LOCK);
            });
        }),
    ];
    children.into_iter().for_each(Child::finish);
    board.get(SEEN_BY_HIGH) == 2
}

fn expect_inversion(world: &World) {
    let domain = world.domain_named("plain");
    let mutex = Mutex::<u64>::options(0).open_or_create(&domain, "plain").expect("opens");
    let low = |work: &dyn Fn()| {
        let _guard = mutex.lock().expect("free");
        work();
    };
    // On a busy machine the kernel takes a part of each second away from real-time threads, and the
    // low one may be through by then.
    let inverted =
        (0..20).any(|_| is_inverted(world, low, || drop(mutex.lock().expect("given back"))));
    assert!(inverted, "a plain mutex was not inverted: this check is not testing anything");
}

fn a_plain_mutex_is_inverted(world: &World) {
    skip_without_right(world);
    expect_inversion(world);
}

fn priority_is_lent(world: &World) {
    skip_without_right(world);
    expect_inversion(world);
    let domain = world.domain();
    let mutex = PiMutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..5 {
        let low = |work: &dyn Fn()| {
            let _guard = mutex.lock().expect("free");
            work();
        };
        assert!(!is_inverted(world, low, || drop(mutex.lock().expect("given back"))));
    }
}

/// The high one waits for a lock whose holder waits for another, whose holder is the low one.
fn priority_is_lent_along_a_chain(world: &World) {
    skip_without_right(world);
    expect_inversion(world);
    let [watched, watching] = two_cores(world);
    pin(watching);
    let domain = world.domain();
    let [near, far] = ["near", "far"]
        .map(|name| PiMutex::<u64>::options(0).open_or_create(&domain, name).expect("opens"));
    let board = Board::new();
    const FAR_HELD: usize = 10;
    let (near, far) = (&near, &far);
    let low = start(LOW, watched, || {
        let _guard = far.lock().expect("free");
        board.set(FAR_HELD, 1);
        // Until the high one waits, and a while longer.
        while board.get(WANTED) == 0 {
            std::thread::sleep(Duration::from_micros(50));
        }
        compute(UNDER_THE_LOCK);
    });
    board.reach(FAR_HELD, 1);
    let between = start(LOW + 1, watched, || {
        let _near = near.lock().expect("free");
        let _far = far.lock().expect("given back");
    });
    wait_asleep(between.pid());
    board.set(HELD, 1);
    let children =
        [high(watched, board, || drop(near.lock().expect("given back"))), middling(watched, board)];
    children.into_iter().chain([low, between]).for_each(Child::finish);
    assert_eq!(board.get(SEEN_BY_HIGH), 1);
}

/// The high one gives up: from then on the middling one runs before the holder. It waits on the
/// other core: on the same, the holder has its priority and goes on, deadline or not.
fn priority_is_lent_no_longer_than_somebody_waits(world: &World) {
    skip_without_right(world);
    let [watched, watching] = two_cores(world);
    pin(watching);
    let domain = world.domain();
    let mutex = PiMutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    let board = Board::new();
    let high = high(watching, board, || {
        let within = Duration::from_millis(2);
        let got = mutex.lock_timeout(within);
        assert!(matches!(got, Ok(None)), "{got:?}");
    });
    let middling = middling(watched, board);
    let low = start(LOW, watched, || {
        let _guard = mutex.lock().expect("free");
        board.set(HELD, 1);
        // Until the high one has given up, and longer.
        while board.get(SEEN_BY_HIGH) == 0 {
            compute(Duration::from_millis(1));
        }
        compute(Duration::from_millis(10));
        // Not lent to any more, it had to let the middling one go first.
        board.set(ROUND_OVER, 1 + board.get(ELSEWHERE_DONE));
    });
    [high, middling, low].into_iter().for_each(Child::finish);
    assert_eq!(board.get(SEEN_BY_HIGH), 1, "the high one did not wait for the middling one");
    assert_eq!(board.get(ROUND_OVER), 2, "the low one did");
}

/// A process must run in order to die: the kernel lends it the waiter's priority for that, too.
fn a_holder_who_is_lent_to_dies_at_once(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex = PiMutex::<u64>::options(0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..5 {
        let told = || match mutex.lock() {
            Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
            other => panic!("{other:?}"),
        };
        kill_the_low_one(world, || std::mem::forget(mutex.lock().expect("free")), told, true);
    }
}

/// The low one holds the lock and is killed while the high one waits and the middling one would
/// run.
fn kill_the_low_one(world: &World, take: impl Fn(), told: impl Fn(), sees_high_asleep: bool) {
    let [watched, watching] = two_cores(world);
    pin(watching);
    let board = Board::new();
    let high = high(watched, board, &told);
    let middling = middling(watched, board);
    let mut low = start(LOW, watched, || {
        take();
        board.set(HELD, 1);
        compute(Duration::from_millis(500));
    });
    board.reach(HELD, 1);
    if sees_high_asleep {
        wait_asleep(high.pid());
    }
    low.kill();
    high.finish();
    middling.finish();
    assert_eq!(board.get(SEEN_BY_HIGH), 1, "told while the middling one still had to compute");
}

fn a_ceiling_keeps_others_out(world: &World) {
    skip_without_right(world);
    expect_inversion(world);
    let domain = world.domain();
    let mutex =
        CeilingMutex::<u64>::options(HIGH as u32, 0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..5 {
        let low = |work: &dyn Fn()| {
            let _guard = mutex.lock().expect("free");
            work();
        };
        assert!(!is_inverted(world, low, || drop(mutex.lock().expect("given back"))));
    }
}

fn a_holder_at_the_ceiling_dies_at_once(world: &World) {
    skip_without_right(world);
    let domain = world.domain();
    let mutex =
        CeilingMutex::<u64>::options(HIGH as u32, 0).open_or_create(&domain, "m").expect("opens");
    for _ in 0..5 {
        let told = || match mutex.lock() {
            Err(LockError::OwnerDied(mut guard)) => guard.mark_consistent(),
            other => panic!("{other:?}"),
        };
        kill_the_low_one(world, || std::mem::forget(mutex.lock().expect("free")), told, false);
    }
}
