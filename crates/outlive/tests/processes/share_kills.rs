//! Objects whose holders are killed at random.

use outlive::pool::{Offset, PoolError, SharedObject};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;
use crate::shares::{SMALL, all_is_free, check, fill, open, shared, sum};

crate::checks!(
    random_kills_of_holders_lose_nothing: 120,
);

/// Processes share objects, join what others share, check, leave, and make objects their own again;
/// they are killed one after another. What a living process holds does not change. At the end no
/// process holds anything, and all objects are free.
fn random_kills_of_holders_lose_nothing(world: &World) {
    const PLACES: u64 = 8;
    let domain = world.domain();
    let mut random = Random::new();
    let mark_of = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight"));
    for options in [SMALL, SMALL.cache_bytes(0)] {
        let pool = open(&domain, options);
        let board = Board::new();
        let start = |life: u64| {
            let (pool, board) = (&pool, &board);
            Child::start(move || {
                let mut random = Random::from_seed(life);
                let mut kept: Vec<(SharedObject<'_>, u64)> = Vec::new();
                for number in 1_u64.. {
                    let mark = life << 32 | number;
                    let place = random.below(PLACES) as usize;
                    match random.below(if kept.len() > 20 { 3 } else { 8 }) {
                        0 | 1 if !kept.is_empty() => {
                            let (one, mark) =
                                kept.swap_remove(random.below(kept.len() as u64) as usize);
                            check(&one, mark);
                        }
                        2 if !kept.is_empty() => {
                            let (one, old) = kept.swap_remove(0);
                            check(&one, old);
                            match one.try_into_object() {
                                Ok(mut object) => {
                                    fill(&mut object, mark);
                                    let one = object.share().expect("ours");
                                    board.set(place, one.offset().as_u64());
                                    kept.push((one, mark));
                                }
                                Err(one) => kept.push((one, old)),
                            }
                        }
                        3..=5 => match pool.join(Offset::from(board.get(place))) {
                            Ok(one) => {
                                let mark = mark_of(&one);
                                check(&one, mark);
                                kept.push((one, mark));
                            }
                            Err(PoolError::Stale) => {}
                            Err(error) => panic!("{error:?}"),
                        },
                        _ => {
                            let power = random.below(16);
                            let len = 8 + random.below(1 << power);
                            let one = shared(pool, len as usize, mark);
                            board.set(place, one.offset().as_u64());
                            kept.push((one, mark));
                        }
                    }
                    board.add(PLACES as usize + (life % 64) as usize, 1);
                }
            })
        };
        let mut lives = 4;
        let mut children: Vec<Child> = (0..lives).map(start).collect();
        for round in 0..150 {
            random.pause(4_000);
            let at = random.below(4) as usize;
            children[at].kill();
            match round % 10 {
                3 => drop(domain.sweep(false).expect("sweeps")),
                6 => drop(pool.gc().expect("trims")),
                _ => {}
            }
            if let Ok(one) = pool.join(Offset::from(board.get(random.below(PLACES) as usize))) {
                check(&one, mark_of(&one));
            }
            sum(&pool);
            children[at] = start(lives);
            lives += 1;
        }
        let at = |life: u64| PLACES as usize + (life % 64) as usize;
        for life in lives - 1..lives {
            board.reach(at(life), board.get(at(life)) + 20);
        }
        children.iter_mut().for_each(Child::kill);
        pool.flush();
        // Where the slot of a dead process's token has a new owner already, the process cannot be
        // asked for any more: what it held is free a second later.
        wait_until("nobody has anything", || {
            domain.sweep(false).expect("sweeps");
            let now = sum(&pool);
            now.free == now.total
        });
        wait_until("nobody is named", || domain.sweep(false).expect("sweeps").is_clean());
        for place in 0..PLACES as usize {
            assert_eq!(pool.join(Offset::from(board.get(place))).map(drop), Err(PoolError::Stale));
        }
        pool.gc().expect("trims");
        all_is_free(&pool);
    }
}
