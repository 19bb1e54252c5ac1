//! A pool as it may be found, and everything that can be done with it.
//! Every object that is given out is written to, all over: whatever the words say, it has pages.

use std::hint::black_box;

use outlive::Domain;
use outlive::pool::{Object, Offset, Pool, PoolError, on_fault};

use crate::random::Random;
use crate::world::World;

/// Its name.
pub const NAME: &str = "objects";

const LENS: [usize; 7] = [0, 64, 200, 5_000, 100_000, 1 << 20, 3 << 20];

/// A scribble may turn a debug mode on, which then finds what the other scribbles did, and by
/// default aborts, as it says it does.
pub fn pass_faults_over() {
    on_fault(|fault| {
        black_box(fault.to_string());
    });
}

/// Opens it, made when it is not there.
pub fn make(domain: &Domain) -> Pool {
    let options = Pool::options().max_bytes(24 << 20).cache_bytes(1 << 20);
    options.open_or_create(domain, NAME).expect("opens")
}

/// Takes objects, in a process that is then killed: in use, in caches, in lists, on offer.
pub fn claim_as_the_dying(domain: &Domain) {
    claim(domain);
}

/// The same, by a thread that lives as long as the calling process.
pub fn claim_as_the_living(domain: &Domain) {
    claim(domain);
}

fn claim(domain: &Domain) {
    let pool: &'static Pool = Box::leak(Box::new(make(domain)));
    for len in LENS {
        let taken: Vec<Object<'_>> = (0..3).map(|_| pool.alloc(len).expect("room")).collect();
        for (number, object) in taken.into_iter().enumerate() {
            match number {
                0 => std::mem::forget(object),
                1 => drop(black_box(object.into_offset())),
                _ => drop(object),
            }
        }
    }
    // Into the lists; and some into the cache again.
    pool.flush();
    drop([200, 5_000].map(|len| pool.alloc(len).expect("room")));
}

fn fill(object: &mut Object<'_>, mark: u8) {
    object.iter_mut().step_by(512).for_each(|byte| *byte = mark);
}

fn told(error: &PoolError) {
    black_box(error.to_string());
}

pub fn take(world: &World, random: &mut Random) {
    let mut held: Vec<Object<'_>> = Vec::new();
    for round in 0..40u8 {
        let len = *random.pick(&LENS);
        let taken = if round % 4 == 0 {
            world.pool.alloc_aligned(len, 1 << random.below(13))
        } else {
            world.pool.alloc(len)
        };
        match taken {
            Ok(mut object) => {
                fill(&mut object, round);
                black_box((object.len(), object.capacity()));
                held.push(object);
            }
            Err(error) => told(&error),
        }
        if random.below(3) == 0 && !held.is_empty() {
            let object = held.swap_remove(random.below(held.len() as u64) as usize);
            match random.below(3) {
                0 => drop(object),
                1 => drop(black_box(object.free())),
                _ => drop(black_box(object.into_offset())),
            }
        }
    }
}

pub fn claim_offers(world: &World, random: &mut Random) {
    let offers = world.pool.offers().unwrap_or_default();
    for offer in offers.iter().take(20) {
        match world.pool.claim(offer.offset) {
            Ok(mut object) => fill(&mut object, 7),
            Err(error) => told(&error),
        }
    }
    for _ in 0..20 {
        let number = match offers.get(random.below(offers.len().max(1) as u64) as usize) {
            Some(offer) => offer.offset.as_u64() ^ 1 << random.below(64),
            None => random.next() >> random.below(64),
        };
        drop(black_box(world.pool.claim(Offset::from(number)).map(drop)));
    }
    if let (Some(tokens), Ok(object)) =
        (Some(world.domain.tokens()).filter(|all| !all.is_empty()), world.pool.alloc(90))
    {
        let peer = world.domain.peer(random.pick(&tokens).id);
        drop(black_box(object.into_offset_for(&peer)));
    }
}

pub fn collect(world: &World, random: &mut Random) {
    world.pool.flush();
    if random.below(2) == 0 {
        drop(black_box(world.pool.gc()));
    }
    drop(black_box(world.pool.usage().map(|usage| format!("{usage:?}"))));
    black_box(world.pool.is_removed());
}

/// Opens it by name, in a copy, and uses it a little.
pub fn open_and_use(domain: &Domain) {
    for cache_bytes in [0, 1 << 20] {
        let Ok(pool) = Pool::options().cache_bytes(cache_bytes).open(domain, NAME) else {
            continue;
        };
        for len in LENS {
            if let Ok(mut object) = pool.alloc(len) {
                fill(&mut object, 1);
            }
        }
        drop(black_box(pool.usage()));
        drop(black_box(pool.gc()));
    }
}
