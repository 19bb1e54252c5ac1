//! Values that are made once: which process makes them, and what happens when it dies.

use std::time::Duration;

use outlive::Domain;
use outlive::sync::{AcquireError, EmbeddedOnceLock, OnceLock, Record};

use crate::asleep::wait_asleep;
use crate::board::Board;
use crate::child::Child;
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    made_by_one_and_read_by_all,
    a_sleeper_takes_over_from_a_dead_maker,
    a_panic_leaves_it_to_the_next,
    within_itself_is_a_deadlock,
    a_maker_is_waited_for_until_the_deadline,
    a_sweep_takes_the_turn_from_the_dead_and_the_next_is_told,
    embedded_in_a_record,
    makers_are_killed_at_random: 60,
);

fn open(domain: &Domain) -> OnceLock<[u64; 8]> {
    OnceLock::open_or_create(domain, "once").expect("opens")
}

/// A child that is in the middle of making it.
fn maker(once: &OnceLock<[u64; 8]>) -> Child {
    let board = Board::new();
    let child = Child::start(|| {
        let _ = once.get_or_init(|_| {
            board.set(0, 1);
            loop {
                std::thread::park();
            }
        });
    });
    board.reach(0, 1);
    child
}

fn made_by_one_and_read_by_all(world: &World) {
    let once = open(&world.domain());
    assert_eq!(once.get(), None);
    let board = Board::new();
    let children: Vec<Child> = (0..6)
        .map(|_| {
            Child::start(|| {
                let made = once.get_or_init(|state| {
                    assert!(!state.previous_died());
                    [board.add(0, 1); 8]
                });
                assert_eq!(made.expect("made"), &[1; 8]);
            })
        })
        .collect();
    children.into_iter().for_each(Child::finish);
    assert_eq!((board.get(0), once.get()), (1, Some(&[1; 8])));
    assert_eq!(once.initializer(), None);
}

fn a_sleeper_takes_over_from_a_dead_maker(world: &World) {
    let domain = world.domain();
    for round in 0..20 {
        let once =
            OnceLock::<[u64; 8]>::open_or_create(&domain, &format!("once{round}")).expect("opens");
        let mut dying = maker(&once);
        let board = Board::new();
        let sleepers: Vec<Child> = (0..4)
            .map(|_| {
                Child::start(|| {
                    let made = once.get_or_init(|state| {
                        assert!(state.previous_died());
                        [board.add(0, 1); 8]
                    });
                    assert_eq!(made.expect("made"), &[1; 8]);
                })
            })
            .collect();
        for sleeper in &sleepers {
            wait_asleep(sleeper.pid());
        }
        assert_eq!(once.initializer().expect("being made").pid as i32, dying.pid());
        dying.kill();
        sleepers.into_iter().for_each(Child::finish);
        assert_eq!(board.get(0), 1);
    }
    assert_eq!(domain.stats().rescues, 0);
}

fn a_panic_leaves_it_to_the_next(world: &World) {
    let once = open(&world.domain());
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = once.get_or_init(|_| panic!("as planned"));
    }));
    assert!(panicked.is_err());
    assert_eq!(once.initializer(), None);
    let made = once.get_or_init(|state| [u64::from(state.previous_died()); 8]);
    assert_eq!(made.expect("made"), &[1; 8]);
}

fn within_itself_is_a_deadlock(world: &World) {
    let once = open(&world.domain());
    let made = once.get_or_init(|_| {
        assert!(matches!(once.get_or_init(|_| [0; 8]), Err(AcquireError::Deadlock)));
        assert_eq!(once.get(), None);
        [5; 8]
    });
    assert_eq!(made.expect("made"), &[5; 8]);
}

fn a_maker_is_waited_for_until_the_deadline(world: &World) {
    let once = open(&world.domain());
    let mut maker = maker(&once);
    assert!(matches!(once.try_get_or_init(|_| [1; 8]), Ok(None)));
    assert!(matches!(once.get_or_init_timeout(Duration::from_millis(5), |_| [1; 8]), Ok(None)));
    maker.kill();
    assert_eq!(once.try_get_or_init(|_| [1; 8]).expect("taken over"), Some(&[1; 8]));
}

fn a_sweep_takes_the_turn_from_the_dead_and_the_next_is_told(world: &World) {
    let domain = world.domain();
    let once = open(&domain);
    maker(&once).kill();
    assert_eq!(domain.entry("once").expect("there").dead_claims, 1);
    assert_eq!(domain.sweep(false).expect("sweeps").claims, 1);
    assert_eq!(domain.entry("once").expect("there").dead_claims, 0);
    let made = once.get_or_init(|state| [u64::from(state.previous_died()); 8]);
    assert_eq!(made.expect("made"), &[1; 8]);
}

fn embedded_in_a_record(world: &World) {
    outlive::record! { struct Cell { first: EmbeddedOnceLock<u64>, second: EmbeddedOnceLock<[u8; 3]> } }
    let domain = world.domain();
    let cell = Record::<Cell>::open_or_create(&domain, "cell").expect("opens");
    let second = cell.handle(|cell| &cell.second);
    Child::start(|| assert_eq!(second.get_or_init(|_| [1, 2, 3]).expect("made"), &[1, 2, 3]))
        .finish();
    assert_eq!(second.get(), Some(&[1, 2, 3]));
    assert_eq!(cell.handle(|cell| &cell.first).get(), None);
}

/// Makers and waiters are killed at every moment: in the end there is one whole value, and every
/// process left has it.
fn makers_are_killed_at_random(world: &World) {
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..300 {
        let once =
            OnceLock::<[u64; 8]>::open_or_create(&domain, &format!("once{round}")).expect("opens");
        let children: Vec<Child> = (0..4)
            .map(|n| {
                let once = &once;
                Child::start(move || {
                    let made = once.get_or_init(|_| {
                        std::thread::sleep(Duration::from_micros(50));
                        [n; 8]
                    });
                    let made = made.expect("made");
                    assert_eq!(made, &[made[0]; 8]);
                })
            })
            .collect();
        let mut left = Vec::new();
        for (n, child) in children.into_iter().enumerate() {
            random.pause(120);
            if n % 2 == 0 {
                child.signal(libc::SIGKILL);
                drop(child);
            } else {
                left.push(child);
            }
        }
        left.into_iter().for_each(Child::finish);
        let made = once.get().expect("somebody lived");
        assert_eq!(made, &[made[0]; 8]);
    }
    assert_eq!(domain.stats().rescues, 0);
}
