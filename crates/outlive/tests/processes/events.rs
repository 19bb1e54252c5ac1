//! Events and latches: which waiters wake, also when the process that sets dies.

use std::time::Duration;

use outlive::sync::{EmbeddedEvent, EmbeddedLatch, Event, Latch, Record, Reset};
use outlive::{Domain, Error, WaitError};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    any_and_all,
    of_automatic_bits_each_is_had_by_one,
    all_who_wait_are_woken_at_once,
    the_other_reset_is_refused,
    who_waits_for_other_bits_sleeps_on,
    without_futex_waitv,
    all_who_wait_when_a_bit_is_set_go_on_though_it_is_cleared: 60,
    who_clears_is_killed_at_random: 60,
    setters_are_killed_at_random: 60,
    tokens_of_work_among_killed_takers: 60,
    a_latch_opens_for_good,
    arrivals_are_killed_at_random: 60,
    both_embedded_in_a_record,
);

const NOTHING: fn() = || {};
const NO_WAITV: fn() = outlive::abilities::pretend_no_futex_waitv;

fn open(domain: &Domain, reset: Reset) -> Event {
    Event::options().reset(reset).open_or_create(domain, "event").expect("opens")
}

fn sleepers<'a>(count: usize, prepare: fn(), body: impl Fn(usize) + Copy + 'a) -> Vec<Child> {
    let children: Vec<Child> = (0..count)
        .map(|n| {
            Child::start(move || {
                prepare();
                body(n);
            })
        })
        .collect();
    for child in &children {
        wait_asleep(child.pid());
    }
    children
}

fn any_and_all(world: &World) {
    let event = open(&world.domain(), Reset::Manual);
    assert_eq!(event.set(0b0110), 0);
    assert_eq!(event.wait_any(0b0011).expect("set"), 0b0010);
    assert_eq!(event.wait_all(0b0110).expect("set"), 0b0110);
    assert_eq!(event.wait_any_timeout(0b1000, Duration::from_millis(5)), Ok(None));
    assert_eq!(event.wait_all_timeout(0b0111, Duration::ZERO), Ok(None));
    assert_eq!((event.wait_any(0), event.wait_all(0)), (Ok(0), Ok(0)));
    assert_eq!(event.clear(0b0010), 0b0110);
    assert_eq!(
        (event.try_wait_any(0b0011), event.try_wait_all(0b0100)),
        (Ok(None), Ok(Some(0b0100)))
    );
    assert_eq!(event.bits(), 0b0100);
}

fn of_automatic_bits_each_is_had_by_one(world: &World) {
    let event = open(&world.domain(), Reset::Automatic);
    let board = Board::new();
    let children = sleepers(6, NOTHING, |_| {
        board.add(0, u64::from(event.wait_any(0b111).expect("set")));
        board.add(1, 1);
    });
    for n in 1..=6 {
        event.set(0b010);
        board.reach(1, n);
    }
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), event.bits()), (6 * 0b010, 0));
    event.set(0b111);
    assert_eq!(event.try_wait_all(0b1001), Ok(None));
    assert_eq!(event.try_wait_all(0b101), Ok(Some(0b101)));
    assert_eq!(event.bits(), 0b010);
}

fn all_who_wait_are_woken_at_once(world: &World) {
    let domain = world.domain();
    let event = open(&domain, Reset::Manual);
    for _ in 0..20 {
        let children = sleepers(8, NOTHING, |_| drop(event.wait_all(0b11)));
        event.set(0b01);
        event.set(0b10);
        children.into_iter().for_each(Child::finish);
        event.clear(0b11);
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn all_who_wait_when_a_bit_is_set_go_on_though_it_is_cleared(world: &World) {
    let domain = world.domain();
    let event = open(&domain, Reset::Manual);
    for round in 0..6 {
        let prepare = if round % 3 == 2 { NO_WAITV } else { NOTHING };
        let children = sleepers(20, prepare, |n| match n % 2 {
            0 => assert_eq!(event.wait_any(0b101).expect("set"), 0b001),
            _ => assert_eq!(event.wait_all(0b011).expect("set"), 0b011),
        });
        // Another bit ends no wait.
        event.set(0b1000);
        event.clear(0b1000);
        event.set(0b011);
        event.clear(0b011);
        if round % 2 == 0 {
            // More of the same, before they have looked.
            for _ in 0..100 {
                event.set(0b1011);
                event.clear(0b1011);
            }
        }
        children.into_iter().for_each(Child::finish);
        assert_eq!(event.try_wait_any(0b1111), Ok(None));
        assert_eq!(event.wait_any_timeout(0b1111, Duration::from_millis(5)), Ok(None));
    }
    assert_eq!(domain.stats().rescues, 0);
}

/// A process is killed in `clear`: all that waited when the bit was set have gone on, or do so
/// without the help of another process.
fn who_clears_is_killed_at_random(world: &World) {
    let domain = world.domain();
    let event = open(&domain, Reset::Manual);
    let mut random = Random::new();
    for _ in 0..100 {
        let board = Board::new();
        let children = sleepers(4, NOTHING, |_| drop(event.wait_any(1)));
        let mut clearer = Child::start(|| {
            board.set(0, 1);
            while board.get(1) == 0 {
                std::hint::spin_loop();
            }
            event.clear(1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        event.set(1);
        board.set(1, 1);
        (0..random.below(300)).for_each(|_| std::hint::spin_loop());
        clearer.kill();
        children.into_iter().for_each(Child::finish);
        event.clear(1);
    }
}

fn the_other_reset_is_refused(world: &World) {
    let domain = world.domain();
    open(&domain, Reset::Manual);
    let error = Event::options()
        .reset(Reset::Automatic)
        .open_or_create(&domain, "event")
        .err()
        .expect("it is of the other sort");
    assert!(matches!(error, Error::OtherOptions { .. }), "{error}");
    assert!(error.to_string().contains("is manual, this program wants automatic"), "{error}");
    // A reset that is not named is the one that is there.
    let jobs = Event::options().reset(Reset::Automatic).create_new(&domain, "jobs").expect("new");
    for same in [Event::open(&domain, "jobs"), Event::open_or_create(&domain, "jobs")] {
        jobs.set(1);
        assert_eq!(same.expect("opens").try_wait_any(1), Ok(Some(1)));
        assert_eq!(jobs.bits(), 0);
    }
    assert!(matches!(
        Event::options().create_new(&domain, "jobs").err(),
        Some(Error::AlreadyExists { .. })
    ));
    assert!(matches!(Event::open(&domain, "none").err(), Some(Error::NotFound { .. })));
}

fn who_waits_for_other_bits_sleeps_on(world: &World) {
    let event = open(&world.domain(), Reset::Manual);
    let mut children = sleepers(4, NOTHING, |n| drop(event.wait_any(1 << n)));
    for n in 0..4 {
        event.set(1 << n);
        children.remove(0).finish();
        for (at, child) in children.iter_mut().enumerate() {
            wait_asleep(child.pid());
            assert!(!child.has_ended(), "bit {} is not set", n + 1 + at);
        }
    }
}

fn without_futex_waitv(world: &World) {
    let event = open(&world.domain(), Reset::Manual);
    let mut children = sleepers(4, NO_WAITV, |_| drop(event.wait_any(1)));
    children.extend(sleepers(4, NOTHING, |_| drop(event.wait_any(1))));
    event.set(1);
    children.into_iter().for_each(Child::finish);
}

/// Setters are killed in `set`: if the bits are set, all sleepers wake without the help of another
/// process. Some sleepers are killed, too.
fn setters_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let event = open(&domain, Reset::Manual);
    let mut random = Random::new();
    let (mut set, mut unset) = (0, 0);
    for round in 0..400 {
        let board = Board::new();
        let mut children = sleepers(4, NOTHING, |_| drop(event.wait_any(1)));
        let mut setter = Child::start(|| {
            domain.token().expect("a token");
            board.set(0, 1);
            while board.get(1) == 0 {
                std::hint::spin_loop();
            }
            event.set(1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        if round % 20 > 0 {
            board.set(1, 1);
        }
        // Now and then long before, and long after it: on a busy machine, too, both happen.
        match round % 20 {
            0 => {}
            1 => crate::child::wait_until("it is set", || event.bits() == 1),
            _ => (0..random.below(400)).for_each(|_| std::hint::spin_loop()),
        }
        setter.signal(libc::SIGKILL);
        if round % 2 == 0 {
            children.remove(random.below(4) as usize).signal(libc::SIGKILL);
        }
        setter.wait();
        if event.bits() == 1 {
            set += 1;
        } else {
            unset += 1;
            event.set(1);
        }
        children.into_iter().for_each(Child::finish);
        event.clear(1);
    }
    assert!(
        set > 0 && unset > 0,
        "set {set} times, not set {unset} times: killed always on the same side"
    );
}

/// An automatic bit as a token of work: one process takes each; a killed taker has taken it, or
/// another process gets it.
fn tokens_of_work_among_killed_takers(world: &World) {
    let event = open(&world.domain(), Reset::Automatic);
    let mut random = Random::new();
    let start = |event| {
        Child::start(move || {
            loop {
                let _ = Event::wait_any(event, 0b1111);
            }
        })
    };
    let mut children: Vec<Child> = (0..4).map(|_| start(&event)).collect();
    for _ in 0..600 {
        event.set(1 << random.below(4));
        random.pause(60);
        let n = random.below(4) as usize;
        children[n].kill();
        crate::child::wait_until("the bit is taken", || event.bits() == 0);
        children[n] = start(&event);
    }
}

fn a_latch_opens_for_good(world: &World) {
    let domain = world.domain();
    let latch = Latch::options(3).open_or_create(&domain, "latch").expect("opens");
    let again = Latch::open(&domain, "latch").expect("opens");
    let children = sleepers(5, NOTHING, |_| latch.wait().expect("opens"));
    assert_eq!(again.arrive(1), 2);
    // It began with three, however many are missing by now.
    Latch::options(3).open(&domain, "latch").expect("opens");
    let error = Latch::options(2).open_or_create(&domain, "latch").err().expect("another one");
    assert!(matches!(error, Error::OtherOptions { .. }), "{error}");
    let error = Latch::options(1 << 31).create_new(&domain, "too many").err().expect("refused");
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
    assert_eq!(again.try_wait(), Err(WaitError::TimedOut));
    assert_eq!(again.wait_timeout(Duration::from_millis(5)), Err(WaitError::TimedOut));
    assert!(!latch.is_open());
    assert_eq!(again.arrive(5), 0);
    children.into_iter().for_each(Child::finish);
    assert_eq!((latch.arrive(1), latch.missing(), latch.is_open()), (0, 0, true));
    again.wait().expect("open");
}

/// The last process to arrive is killed in it: if it has been counted, all waiters wake.
fn arrivals_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..200 {
        let latch =
            Latch::options(1).open_or_create(&domain, &format!("latch{round}")).expect("opens");
        let board = Board::new();
        let children = sleepers(3, NOTHING, |_| latch.wait().expect("opens"));
        let mut last = Child::start(|| {
            domain.token().expect("a token");
            board.set(0, 1);
            while board.get(1) == 0 {
                std::hint::spin_loop();
            }
            latch.arrive(1);
            loop {
                std::thread::park();
            }
        });
        board.reach(0, 1);
        board.set(1, 1);
        for _ in 0..random.below(400) {
            std::hint::spin_loop();
        }
        last.kill();
        if !latch.is_open() {
            latch.release();
        }
        children.into_iter().for_each(Child::finish);
    }
}

fn both_embedded_in_a_record(world: &World) {
    outlive::record! {
        struct Cell {
            ready: EmbeddedLatch,
            moved: [EmbeddedEvent; 2],
        }
    }
    let domain = world.domain();
    let init = |cell: &mut Cell| {
        cell.ready.expect_arrivals(2);
        cell.moved[1].set_reset(Reset::Automatic);
    };
    let cell = Record::<Cell>::options().init(init).open_or_create(&domain, "cell").expect("opens");
    let (ready, moved) = (cell.handle(|cell| &cell.ready), cell.handle(|cell| &cell.moved[1]));
    let children = sleepers(2, NOTHING, |_| {
        ready.wait().expect("opens");
        moved.set(1);
    });
    ready.arrive(2);
    children.into_iter().for_each(Child::finish);
    assert_eq!((moved.wait_any(3).expect("set"), moved.bits()), (1, 0));
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 0);
}
