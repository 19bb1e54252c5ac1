//! Pools in debug modes that change at random while their users are killed at random: no mode may
//! report a fault.

use std::time::{Duration, Instant};

use outlive::pool::{Modes, Object, Offset, Pool, PoolError};

use crate::board::Board;
use crate::child::Child;
use crate::pool_modes::open;
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    a_change_of_modes_is_no_fault: 90,
    random_kills_in_modes_lose_nothing: 90,
);

fn some_modes(random: &mut Random) -> Modes {
    // All but `fail`, and `uaf` less often: it is slow.
    let choice = [
        Modes::TAG,
        Modes::INTEGRITY,
        Modes::POISON,
        Modes::CALLER,
        Modes::COLD_FIRST,
        Modes::INTEGRITY,
    ];
    let some =
        choice.into_iter().filter(|_| random.below(2) == 0).fold(Modes::NONE, |all, one| all | one);
    match random.below(8) {
        0 => some | Modes::UAF,
        1..4 => Modes::NONE,
        _ => some,
    }
}

/// Takes, writes, frees and hands over objects without a mistake. If a mode reports a fault all the
/// same, the process ends by SIGABRT or SIGSEGV.
fn work(pool: &Pool, offers: &Board, until: impl Fn() -> bool) {
    let mut random = Random::new();
    let mut kept: Vec<Object<'_>> = Vec::new();
    while !until() {
        match random.below(8) {
            0..4 if kept.len() < 30 => {
                let len = match random.below(50) {
                    0 => (1 << 20) + random.below(3 << 20) as usize,
                    1..8 => random.below(100_000) as usize,
                    _ => 900 + random.below(200) as usize,
                };
                if let Ok(mut object) = pool.alloc(len) {
                    object.fill(random.next() as u8);
                    kept.push(object);
                }
            }
            4 if !kept.is_empty() => {
                let at = random.below(kept.len() as u64) as usize;
                let offset = kept.swap_remove(at).into_offset().expect("in order");
                offers.set(random.below(8) as usize, offset.as_u64());
            }
            5 => {
                let offset = Offset::from(offers.get(random.below(8) as usize));
                match pool.claim(offset) {
                    Ok(object) => kept.push(object),
                    Err(PoolError::Stale) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            6 if random.below(100) == 0 => pool.flush(),
            6 if random.below(200) == 0 => drop(pool.gc().expect("trims")),
            _ if !kept.is_empty() => {
                let at = random.below(kept.len() as u64) as usize;
                let object = kept.swap_remove(at);
                assert!(object.windows(2).all(|pair| pair[0] == pair[1]), "somebody wrote into it");
                object.free().expect("in order");
            }
            _ => {}
        }
    }
}

/// Processes and threads see a change of modes at different moments. That must not count as a
/// fault.
fn a_change_of_modes_is_no_fault(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    let (stop, offers) = (Board::new(), Board::new());
    let children: Vec<Child> = (0..3)
        .map(|_| {
            Child::start(|| {
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| work(&pool, &offers, || stop.get(0) == 1));
                    }
                });
            })
        })
        .collect();
    let (mut random, begun, mut changes) = (Random::new(), Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(5) || changes <= 100 {
        pool.set_modes(some_modes(&mut random));
        changes += 1;
        std::thread::sleep(Duration::from_micros(random.below(3000)));
    }
    stop.set(0, 1);
    children.into_iter().for_each(Child::finish);
    settle(&pool);
}

/// Checks that nothing is lost: all memory can be given back.
fn settle(pool: &Pool) {
    pool.set_modes(Modes::INTEGRITY | Modes::TAG);
    for offer in pool.offers().expect("looks") {
        drop(pool.claim(offer.offset).expect("offered"));
    }
    pool.gc().expect("collects");
    // Whatever is there is taken and looked at.
    drop((0..2000).map_while(|_| pool.alloc(1000).ok()).collect::<Vec<_>>());
    pool.gc().expect("trims");
    let sum = pool.usage().expect("looks").sum;
    assert_eq!((sum.used, sum.offered, sum.moving), (0, 0, 0), "{sum:?}");
    assert_eq!(sum.total, 0, "all is given back: {sum:?}");
}

fn random_kills_in_modes_lose_nothing(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    let (stop, offers) = (Board::new(), Board::new());
    let (mut random, begun) = (Random::new(), Instant::now());
    let mut children: Vec<Child> = Vec::new();
    let mut kills = 0;
    while begun.elapsed() < Duration::from_secs(5) || kills <= 50 {
        while children.len() < 3 {
            children.push(Child::start(|| work(&pool, &offers, || stop.get(0) == 1)));
        }
        pool.set_modes(some_modes(&mut random));
        std::thread::sleep(Duration::from_micros(random.below(20_000)));
        let at = random.below(3) as usize;
        children.swap_remove(at).kill();
        kills += 1;
    }
    stop.set(0, 1);
    children.into_iter().for_each(Child::finish);
    settle(&pool);
}
