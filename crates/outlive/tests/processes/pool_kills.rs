//! A pool whose users are killed at random.

use std::collections::HashSet;

use outlive::pool::{Object, Offset, PoolError};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::pools::{BARE, SMALL, all_is_free, check, fill, open, sum};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    random_kills_lose_nothing: 120,
);

/// Processes take, fill, check, free, offer and claim objects, and are killed one after another. At
/// the end each object is where it belongs, and those that were offered are whole.
fn random_kills_lose_nothing(world: &World) {
    const PLACES: u64 = 8;
    let domain = world.domain();
    let mut random = Random::new();
    for options in [SMALL, BARE] {
        let pool = open(&domain, options);
        let board = Board::new();
        let start = |life: u64| {
            let (pool, board) = (&pool, &board);
            Child::start(move || {
                let mut random = Random::from_seed(life);
                let mut kept: Vec<(Object<'_>, u64)> = Vec::new();
                for number in 0_u64.. {
                    let mark = life << 32 | number;
                    match random.below(if kept.len() > 40 { 4 } else { 8 }) {
                        0 | 1 if !kept.is_empty() => {
                            let (object, mark) =
                                kept.swap_remove(random.below(kept.len() as u64) as usize);
                            check(&object, mark);
                            object.free().expect("ours");
                        }
                        2 if !kept.is_empty() => {
                            let (object, _) = kept.swap_remove(0);
                            let offset = object.into_offset().expect("ours").as_u64();
                            let place = board.word(random.below(PLACES) as usize);
                            let before =
                                place.swap(offset | 1 << 63, std::sync::atomic::Ordering::SeqCst);
                            if before != 0 {
                                drop(
                                    pool.claim(Offset::from(before & !(1 << 63)))
                                        .expect("it was on the board"),
                                );
                            }
                        }
                        3 => {
                            let place = board.word(random.below(PLACES) as usize);
                            let offset = place.swap(0, std::sync::atomic::Ordering::SeqCst);
                            if offset != 0 {
                                let mut object = pool
                                    .claim(Offset::from(offset & !(1 << 63)))
                                    .expect("it was on the board");
                                if object.len() >= 8 {
                                    let was =
                                        u64::from_le_bytes(object[..8].try_into().expect("eight"));
                                    check(&object, was);
                                }
                                fill(&mut object, mark);
                                kept.push((object, mark));
                            }
                        }
                        _ => {
                            let power = 3 + random.below(18);
                            let len = random.below(1 << power);
                            match pool.alloc(len as usize) {
                                Ok(mut object) => {
                                    fill(&mut object, mark);
                                    kept.push((object, mark));
                                }
                                Err(PoolError::NoSpace { .. }) => kept.truncate(kept.len() / 2),
                                Err(error) => panic!("{error:?}"),
                            }
                        }
                    }
                    board.add(PLACES as usize + (life % 64) as usize, 1);
                }
            })
        };
        let mut lives = 3;
        let mut children: Vec<Child> = (0..lives).map(start).collect();
        for round in 0..60 {
            random.pause(4_000);
            let at = random.below(3) as usize;
            children[at].kill();
            match round % 10 {
                3 => drop(domain.sweep(false).expect("sweeps")),
                6 => drop(pool.gc().expect("trims")),
                _ => {}
            }
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
            now.used + now.cached + now.moving == 0
        });
        assert!(domain.sweep(false).expect("sweeps").is_clean());
        let now = sum(&pool);
        assert_eq!((now.used, now.cached, now.moving), (0, 0, 0), "{now:?}");
        let offers: HashSet<u64> =
            pool.offers().expect("looks").iter().map(|offer| offer.offset.as_u64()).collect();
        assert_eq!(offers.len() as u64, now.offered);
        let posted =
            (0..PLACES as usize).map(|place| board.get(place)).filter(|&offset| offset != 0);
        assert!(
            posted.map(|offset| offset & !(1 << 63)).all(|offset| offers.contains(&offset)),
            "all that was posted"
        );
        for offset in offers {
            let object = pool.claim(Offset::from(offset)).expect("offered");
            if object.len() >= 8 {
                check(&object, u64::from_le_bytes(object[..8].try_into().expect("eight")));
            }
        }
        pool.gc().expect("trims");
        assert_eq!(sum(&pool).total, 0, "all is given back");
        all_is_free(&pool);
    }
}
