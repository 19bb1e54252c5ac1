//! The public pool: objects of all sizes, their holders, and where they are when a process is
//! killed.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use outlive::pool::{Modes, Object, Offset, Pool, PoolError, PoolOptions, SizeUsage};
use outlive::{Domain, Error};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    objects_of_all_sizes_are_apart_and_aligned,
    what_is_freed_is_used_again,
    a_cache_is_bounded_and_emptied,
    a_full_pool_says_who_has_most,
    memory_of_one_size_serves_another,
    a_killed_owners_objects_come_back,
    who_needs_memory_collects_the_dead,
    an_execed_owners_objects_come_back,
    a_forked_child_has_nothing_of_its_parents,
    offers_are_claimed_once,
    an_old_offset_claims_nothing,
    offers_outlive_the_offerer_and_not_the_receiver,
    a_killed_claimers_object_comes_back,
    a_stopped_process_delays_nobody: 60,
    damaged_words_are_errors_or_nothing,
    one_pool_for_all_openings,
    options_of_the_file_must_agree,
);

pub const SMALL: PoolOptions = Pool::options().max_bytes(64 << 20).cache_bytes(1 << 20);
/// Without caches: every object comes from the shared lists and goes there.
pub const BARE: PoolOptions = Pool::options().max_bytes(64 << 20).cache_bytes(0);

pub fn open(domain: &Domain, options: PoolOptions) -> Pool {
    options.open_or_create(domain, "pool").expect("opens")
}

/// Checks that each object is in one place; returns the sum over all sizes.
pub fn sum(pool: &Pool) -> SizeUsage {
    let usage = pool.usage().expect("can be looked at");
    for one in usage.sizes.iter().chain([&usage.sum]) {
        assert_eq!(
            one.used + one.cached + one.free + one.offered + one.moving,
            one.total,
            "{one:?}"
        );
    }
    usage.sum
}

/// Asserts that everything is free; processes have held all of it.
pub fn all_is_free(pool: &Pool) {
    let sum = sum(pool);
    assert_eq!((sum.used, sum.cached, sum.offered, sum.moving), (0, 0, 0, 0), "{sum:?}");
    assert_eq!(sum.free, sum.total);
}

pub fn fill(object: &mut Object<'_>, mark: u64) {
    object.chunks_mut(8).for_each(|chunk| {
        let len = chunk.len();
        chunk.copy_from_slice(&mark.to_le_bytes()[..len]);
    });
}

pub fn check(object: &Object<'_>, mark: u64) {
    assert!(
        object.chunks(8).all(|chunk| *chunk == mark.to_le_bytes()[..chunk.len()]),
        "somebody wrote into it"
    );
}

fn objects_of_all_sizes_are_apart_and_aligned(world: &World) {
    let domain = world.domain();
    let pool = Pool::open_or_create(&domain, "pool").expect("opens");
    let lens =
        [0, 1, 63, 64, 65, 100, 4096, 5000, 65_536, 1 << 20, (1 << 20) + 1, 3 << 20, 5_000_000];
    let mut objects = Vec::new();
    for round in 0..3 {
        for len in lens {
            let align = 1 << ((len + round) % 13);
            let object = if round == 0 { pool.alloc(len) } else { pool.alloc_aligned(len, align) };
            let mut object = object.expect("room");
            assert_eq!(object.len(), len);
            assert!(
                object.capacity() >= len
                    && (len < 64
                        || (object.capacity() - len) * 4 <= object.capacity()
                        || round > 0)
            );
            assert_eq!(
                object.as_ptr() as usize % if round == 0 { 16 } else { align },
                0,
                "{len} at {align}"
            );
            fill(&mut object, objects.len() as u64);
            objects.push(object);
        }
    }
    for (mark, object) in objects.iter().enumerate() {
        check(object, mark as u64);
    }
    assert_eq!(sum(&pool).used, objects.len() as u64);
    assert!(matches!(pool.alloc((1 << 30) + 1), Err(PoolError::TooLarge { .. })));
    assert!(matches!(pool.alloc_aligned(1, 8192), Err(PoolError::Alignment { align: 8192 })));
    assert!(matches!(pool.alloc_aligned(1, 3), Err(PoolError::Alignment { align: 3 })));
    objects.drain(..).for_each(|object| object.free().expect("ours"));
    pool.flush();
    all_is_free(&pool);
}

fn what_is_freed_is_used_again(world: &World) {
    let domain = world.domain();
    for options in [SMALL, BARE] {
        let pool = open(&domain, options);
        for len in [64, 5000, 1 << 20, 2 << 20] {
            let first = pool.alloc(len).expect("room").as_ptr() as usize;
            for _ in 0..100 {
                let again = pool.alloc(len).expect("room");
                assert!(
                    pool.config().cache_bytes < 2 * len as u64 || again.as_ptr() as usize == first,
                    "{len}: the hottest first"
                );
            }
            let total = sum(&pool).total;
            let all: Vec<_> = (0..20).map(|_| pool.alloc(len).expect("room")).collect();
            drop(all);
            let grown = sum(&pool).total;
            drop((0..20).map(|_| pool.alloc(len).expect("room")).collect::<Vec<_>>());
            assert!(grown >= total);
            assert_eq!(sum(&pool).total, grown, "{len}: nothing new for as many");
        }
    }
}

fn a_cache_is_bounded_and_emptied(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let objects: Vec<_> = (0..3000).map(|_| pool.alloc(4096).expect("room")).collect();
    drop(objects);
    let cached = sum(&pool).cached;
    assert!((1..=256).contains(&cached), "{cached} of 4 KiB in a MiB");
    pool.flush();
    all_is_free(&pool);
    // A thread that ends leaves nothing in its cache; one that is asked empties it when it next
    // finds nothing there.
    std::thread::scope(|scope| {
        scope.spawn(|| drop(pool.alloc(100).expect("room"))).join().expect("no panic");
    });
    let begun = Instant::now();
    while sum(&pool).cached > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "a thread's end empties its cache");
    }
    let board = Board::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(pool.alloc(100).expect("room"));
            board.set(0, 1);
            board.reach(1, 1);
            drop(pool.alloc(9000).expect("room"));
            board.set(0, 2);
            board.reach(1, 2);
        });
        board.reach(0, 1);
        assert!(sum(&pool).cached > 0);
        pool.flush();
        board.set(1, 1);
        board.reach(0, 2);
        let usage = pool.usage().expect("looks");
        let of = |size| usage.sizes.iter().find(|one| one.size == size).map_or(0, |one| one.cached);
        assert_eq!(of(112), 0, "asked to flush, at its next slow step");
        board.set(1, 2);
    });
}

fn a_full_pool_says_who_has_most(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL.max_bytes(8 << 20));
    let mut objects = Vec::new();
    let error = loop {
        match pool.alloc(100_000) {
            Ok(mut object) => {
                fill(&mut object, objects.len() as u64);
                objects.push(object);
            }
            Err(error) => break error,
        }
    };
    assert!(objects.len() >= 60, "{} of 100 kB in 8 MiB", objects.len());
    match error {
        PoolError::NoSpace { wanted: 100_000, most: Some(most), .. } => {
            assert_eq!(most.pid, std::process::id());
            assert!(most.bytes >= 60 * 100_000, "{most:?}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(pool.alloc(6 << 20), Err(PoolError::NoSpace { .. })));
    let usage = pool.usage().expect("looks");
    assert!(usage.sum.failed >= 2 && usage.bytes <= usage.max_bytes, "{usage:?}");
    for (mark, object) in objects.iter().enumerate() {
        check(object, mark as u64);
    }
    objects.pop();
    assert!(pool.alloc(100_000).is_ok(), "one was freed");
}

fn memory_of_one_size_serves_another(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL.max_bytes(16 << 20).cache_bytes(2 << 20));
    for len in [64, 4096, 300_000, 5 << 20, 1000, 2 << 20] {
        let mut objects = Vec::new();
        while let Ok(object) = pool.alloc(len) {
            objects.push(object);
        }
        let bytes: usize = objects.iter().map(Object::capacity).sum();
        assert!(bytes >= 8 << 20, "{len}: {bytes} bytes of 16 MiB");
    }
}

fn a_killed_owners_objects_come_back(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let mut owner = Child::start(|| {
        let mut kept: Vec<_> =
            [64, 700, 9000, 1 << 20, 3 << 20].map(|len| pool.alloc(len).expect("room")).into();
        kept.iter_mut().for_each(|object| fill(object, 1));
        // And some in its cache.
        drop((0..20).map(|_| pool.alloc(200).expect("room")).collect::<Vec<_>>());
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(60));
        drop(kept);
    });
    board.reach(0, 1);
    let mine = pool.alloc(64).expect("room");
    assert_eq!(domain.sweep(false).expect("sweeps").objects, 0, "it lives");
    assert_eq!(sum(&pool).used, 6);
    owner.kill();
    let usage = pool.usage().expect("looks");
    let dead = usage.holders.iter().find(|holder| !holder.who.alive).expect("still named");
    assert_eq!(dead.who.pid, owner.pid() as u32);
    assert!(dead.objects >= 25, "in use and cached: {dead:?}");
    assert_eq!(domain.entry("pool").expect("there").dead_claims, 1);
    let objects = u64::from(domain.sweep(false).expect("sweeps").objects);
    assert_eq!(objects, dead.objects);
    assert!(domain.sweep(false).expect("sweeps").is_clean(), "once is enough");
    let now = sum(&pool);
    assert_eq!(now.used, 1, "mine only: {now:?}");
    drop(mine);
    pool.flush();
    all_is_free(&pool);
}

fn who_needs_memory_collects_the_dead(world: &World) {
    let domain = world.domain();
    for len in [64, 5000, 900_000, 3 << 20] {
        let pool = SMALL.max_bytes(12 << 20).open_or_create(&domain, &format!("pool{len}"));
        let pool = pool.expect("opens");
        let board = Board::new();
        let mut owner = Child::start(|| {
            let mut kept = Vec::new();
            while let Ok(object) = pool.alloc(len) {
                kept.push(object);
            }
            board.set(0, kept.len() as u64);
            std::thread::sleep(Duration::from_secs(60));
            drop(kept);
        });
        let most = board.reach(0, 1);
        assert!(
            matches!(pool.alloc(len), Err(PoolError::NoSpace { .. })),
            "{len}: it lives and has all"
        );
        owner.kill();
        let objects: Vec<_> =
            (0..most).map(|_| pool.alloc(len).expect("the dead have none")).collect();
        drop(objects);
    }
}

fn an_execed_owners_objects_come_back(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let mut owner = Child::start(|| {
        std::mem::forget(pool.alloc(5000).expect("room"));
        let arguments = [c"sleep".as_ptr(), c"60".as_ptr(), core::ptr::null()];
        // SAFETY: a list of strings that ends with null.
        unsafe { libc::execvp(c"sleep".as_ptr(), arguments.as_ptr()) };
    });
    let comm =
        || std::fs::read_to_string(format!("/proc/{}/comm", owner.pid())).unwrap_or_default();
    wait_until("it is another program", || comm().trim() == "sleep");
    // The file is not mapped there any more, though the process lives.
    wait_until("its object is free", || {
        domain.sweep(false).expect("sweeps").objects > 0 || sum(&pool).used == 0
    });
    assert_eq!(sum(&pool).used, 0);
    owner.kill();
}

fn a_forked_child_has_nothing_of_its_parents(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let mut object = pool.alloc(300).expect("room");
    fill(&mut object, 7);
    let mut kept = Some(pool.alloc(300).expect("room"));
    drop(pool.alloc(300).expect("room"));
    let before = sum(&pool);
    let cached: HashSet<usize> =
        (0..before.cached).map(|_| pool.alloc(300).expect("room").as_ptr() as usize).collect();
    Child::start(|| {
        assert_eq!(kept.take().expect("there").free(), Err(PoolError::NotOurs));
        drop(pool.alloc(300).expect("room"));
        let mut own: Vec<_> = (0..50).map(|_| pool.alloc(300).expect("room")).collect();
        assert!(
            own.iter().all(|own| !cached.contains(&(own.as_ptr() as usize))),
            "its parent's cache is not its own"
        );
        own.iter_mut().for_each(|object| fill(object, 8));
        // The parent's, dropped here as the child ends by itself, and those of its own.
        drop(own);
    })
    .finish();
    check(&object, 7);
    object.free().expect("still ours");
    kept.take().expect("there").free().expect("still ours");
    domain.sweep(false).expect("sweeps");
    pool.flush();
    all_is_free(&pool);
}

fn offers_are_claimed_once(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    for len in [0, 10, 64, 5000, 3 << 20] {
        let mut object = pool.alloc(len).expect("room");
        fill(&mut object, len as u64);
        let offset = object.into_offset().expect("ours");
        assert_eq!((sum(&pool).offered, sum(&pool).used), (1, 0));
        assert_eq!(
            pool.offers().expect("looks").iter().map(|offer| offer.offset).collect::<Vec<_>>(),
            [offset]
        );
        let board = Board::new();
        let claimers: Vec<Child> = (0..3)
            .map(|_| {
                Child::start(|| match pool.claim(Offset::from(offset.as_u64())) {
                    Ok(object) => {
                        assert_eq!(object.len(), len);
                        check(&object, len as u64);
                        board.add(0, 1);
                    }
                    Err(error) => assert_eq!(error, PoolError::Stale),
                })
            })
            .collect();
        claimers.into_iter().for_each(Child::finish);
        assert_eq!(board.get(0), 1);
        domain.sweep(false).expect("sweeps");
        assert_eq!((sum(&pool).offered, sum(&pool).used), (0, 0));
    }
}

fn an_old_offset_claims_nothing(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let first = pool.alloc(64).expect("room").into_offset().expect("ours");
    let again = pool.claim(first).expect("offered");
    let (place, second) = (again.as_ptr() as usize, again.into_offset().expect("ours"));
    assert_ne!(first, second, "the same object, another offer");
    assert_eq!(pool.claim(first).map(drop), Err(PoolError::Stale));
    for wrong in [0, u64::MAX, 1 << 63, second.as_u64() + 1, second.as_u64() ^ 1 << 40] {
        assert_eq!(pool.claim(Offset::from(wrong)).map(drop), Err(PoolError::Stale), "{wrong:#x}");
    }
    assert_eq!(pool.claim(second).expect("offered").as_ptr() as usize, place);
    // This one is for another process.
    let board = Board::new();
    let receiver = Child::start(|| {
        board.set(0, u64::from(domain.process_token().expect("a token").as_u32()));
        let offset = Offset::from(board.reach(1, 1));
        check(&pool.claim(offset).expect("for us"), 5);
    });
    board.reach(0, 1);
    let token = domain
        .tokens()
        .into_iter()
        .find(|token| u64::from(token.id.as_u32()) == board.get(0))
        .expect("its token");
    let mut object = pool.alloc(64).expect("room");
    fill(&mut object, 5);
    let offset = object.into_offset_for(&domain.peer(token.id)).expect("ours");
    assert_eq!(pool.claim(offset).map(drop), Err(PoolError::NotForUs { to: token.id }));
    board.set(1, offset.as_u64());
    receiver.finish();
}

fn offers_outlive_the_offerer_and_not_the_receiver(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let mut receiver = Child::start(|| {
        board.set(0, u64::from(domain.process_token().expect("a token").as_u32()));
        std::thread::sleep(Duration::from_secs(60));
    });
    board.reach(0, 1);
    let token = domain
        .tokens()
        .into_iter()
        .find(|token| u64::from(token.id.as_u32()) == board.get(0))
        .expect("its token");
    let mut offerer = Child::start(|| {
        let mut object = pool.alloc(9000).expect("room");
        fill(&mut object, 3);
        board.set(1, object.into_offset().expect("ours").as_u64());
        let object = pool.alloc(9000).expect("room");
        board.set(2, object.into_offset_for(&domain.peer(token.id)).expect("ours").as_u64());
        std::thread::sleep(Duration::from_secs(60));
    });
    board.reach(2, 1);
    offerer.kill();
    domain.sweep(false).expect("sweeps");
    assert_eq!(sum(&pool).offered, 2, "the offerer's death changes nothing");
    check(&pool.claim(Offset::from(board.get(1))).expect("offered"), 3);
    receiver.kill();
    assert_eq!(sum(&pool).offered, 1);
    domain.sweep(false).expect("sweeps");
    assert_eq!(sum(&pool).offered, 0, "the receiver's does");
    assert_eq!(pool.claim(Offset::from(board.get(2))).map(drop), Err(PoolError::Stale));
    pool.flush();
    all_is_free(&pool);
}

fn a_killed_claimers_object_comes_back(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let offset = pool.alloc(100).expect("room").into_offset().expect("ours");
    let mut claimer = Child::start(|| {
        let object = pool.claim(offset).expect("offered");
        board.set(0, 1);
        std::thread::sleep(Duration::from_secs(60));
        drop(object);
    });
    board.reach(0, 1);
    assert_eq!(sum(&pool).used, 1);
    claimer.kill();
    assert_eq!(domain.sweep(false).expect("sweeps").objects, 1);
    pool.flush();
    all_is_free(&pool);
}

/// Stopped anywhere, also with a list locked: others allocate and free.
fn a_stopped_process_delays_nobody(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, BARE);
    let board = Board::new();
    let busy = Child::start(|| {
        let mut random = Random::from_seed(5);
        loop {
            let objects: Vec<_> =
                (0..1 + random.below(9)).map(|_| pool.alloc(100).expect("room")).collect();
            drop(objects);
            board.add(0, 1);
        }
    });
    let mut random = Random::new();
    for round in 0..200 {
        board.reach(0, board.get(0) + 1);
        random.pause(100);
        busy.stop();
        for _ in 0..50 {
            let mut objects: Vec<_> = (0..9).map(|_| pool.alloc(100).expect("room")).collect();
            objects.iter_mut().for_each(|object| fill(object, round));
            objects.iter().for_each(|object| check(object, round));
        }
        sum(&pool);
        busy.go_on();
    }
}

/// Whatever the pool's words contain: errors, or fewer objects; no fault, no endless loop.
fn damaged_words_are_errors_or_nothing(world: &World) {
    use std::os::unix::fs::FileExt;
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..150 {
        let name = format!("pool{round}");
        let pool = SMALL.open_or_create(&domain, &name).expect("opens");
        let kept: Vec<_> = (0..30).map(|at| pool.alloc(64 << (at % 12)).expect("room")).collect();
        pool.flush();
        drop(kept);
        pool.flush();
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(domain.path().join(&name))
            .expect("opens");
        // The pool's own words, lists and control table; and the first span's records.
        let tags_at = {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, 12_288).expect("reads");
            u64::from_le_bytes(word)
        };
        for _ in 0..40 {
            let at = match random.below(3) {
                0 => 12_288 + 64 + random.below(20_000),
                1 => 32_768 + random.below(2048),
                _ => tags_at + random.below(4096),
            };
            let value = match random.below(3) {
                0 => random.next(),
                1 => random.below(1 << 16),
                _ => 1 << random.below(64),
            };
            file.write_all_at(&value.to_le_bytes(), at / 8 * 8).expect("writes");
        }
        let _ = domain.sweep(false);
        let _ = pool.usage();
        let _ = pool.offers();
        for at in 0..60 {
            if let Ok(mut object) = pool.alloc(64 << (at % 13)) {
                object.fill(1);
            }
            let _ = pool.claim(Offset::from(random.next() >> random.below(40))).map(drop);
        }
        let _ = pool.gc();
        let _ = domain.entry(&name);
        domain.remove(&name).expect("goes");
    }
}

fn one_pool_for_all_openings(world: &World) {
    let domain = world.domain();
    let (first, second) = (open(&domain, SMALL), open(&domain, SMALL));
    drop(first.alloc(100).expect("room"));
    let cached = sum(&second).cached;
    assert!(cached > 0);
    drop(second.alloc(100).expect("from the one cache"));
    assert_eq!(sum(&first).cached, cached);
    drop(first.clone());
    drop(first);
    assert_eq!(sum(&second).cached, cached);
    drop(second);
    let third = open(&domain, SMALL);
    assert_eq!(sum(&third).cached, 0, "the last handle takes the cache with it");
    assert!(matches!(
        outlive::queue::Queue::<[u8]>::open_or_create(&domain, "pool"),
        Err(outlive::Error::OtherKind { .. })
    ));
}

fn options_of_the_file_must_agree(world: &World) {
    let domain = world.domain();
    assert!(matches!(Pool::open(&domain, "pool"), Err(Error::NotFound { .. })));
    for wrong in [0, (64 << 10) - 1, (8 << 30) + 1, u64::MAX] {
        let made = Pool::options().max_bytes(wrong).open_or_create(&domain, "pool");
        let error = made.expect_err("no pool has that many");
        assert!(matches!(&error, Error::InvalidOption { what: "max_bytes", .. }), "{error}");
        assert!(error.to_string().contains(&wrong.to_string()), "{error}");
    }
    assert!(matches!(Pool::open(&domain, "pool"), Err(Error::NotFound { .. })), "nothing was made");

    let pool = SMALL.modes(Modes::TAG).create_new(&domain, "pool").expect("made");
    let config = pool.config();
    assert_eq!((config.max_bytes, config.cache_bytes), (64 << 20, 1 << 20));
    assert_eq!((config.modes, config.huge_pages), (Modes::TAG, false));
    let error = SMALL.create_new(&domain, "pool").expect_err("it is there");
    assert!(matches!(error, Error::AlreadyExists { .. }), "{error}");
    let other = SMALL.max_bytes(32 << 20);
    for error in [other.open(&domain, "pool"), other.open_or_create(&domain, "pool")] {
        let error = error.expect_err("another limit");
        assert!(matches!(&error, Error::OtherOptions { what: "max_bytes", .. }), "{error}");
        let told = error.to_string();
        assert!(told.contains(&(64 << 20).to_string()) && told.contains(&(32 << 20).to_string()));
    }

    // What is not set is taken as it is; modes are only what a new pool begins with.
    let again = Pool::options().modes(Modes::UAF).open(&domain, "pool").expect("opens");
    assert_eq!(again.config(), config);
    // What is of this process alone goes for all its handles.
    let asking = Pool::options().cache_bytes(0).huge_pages(true).open(&domain, "pool");
    let asked = asking.expect("opens").config();
    assert_eq!((asked.cache_bytes, asked.huge_pages), (0, true));
    assert_eq!(pool.config(), asked);
    Child::start(|| {
        let handle = Pool::open(&domain, "pool").expect("opens");
        assert_eq!(handle.config().max_bytes, 64 << 20);
    })
    .finish();
}
