//! Pools at their limit: by `max_bytes`, by the process's limit on file sizes, by the file system.
//! An object that does not fit is an error that names the process with most memory, and nothing
//! that was there is harmed.

use std::fs;
use std::os::unix::fs::MetadataExt;

use outlive::Domain;
use outlive::pool::{HasMost, Modes, Object, Pool, PoolError};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::limits::set_limit;
use crate::random::Random;
use crate::runner::World;
use crate::small_disk::{fill_up, small_disk};

crate::checks!(
    who_has_most_is_named: 60,
    several_processes_at_the_limit: 120,
    the_file_keeps_to_max_bytes,
    memory_at_the_limit_serves_again_and_again,
    a_free_span_that_has_tags_is_found,
    a_run_begins_where_a_tag_has_its_page,
    who_asks_again_gets_what_was_freed,
    what_has_no_hint_is_found_at_once,
    what_was_freed_out_of_reach_is_found_at_once,
    what_is_handed_over_is_told,
    a_file_size_limit_is_no_room,
    a_full_file_system_is_no_room,
    killed_while_the_file_system_is_full: 60,
);

fn open(domain: &Domain, max_bytes: u64, cache_bytes: u64) -> Pool {
    let options = Pool::options().max_bytes(max_bytes).cache_bytes(cache_bytes);
    options.open_or_create(domain, "pool").expect("opens")
}

fn fill(object: &mut Object<'_>, mark: u8) {
    object.iter_mut().step_by(64).for_each(|byte| *byte = mark);
}

fn check(object: &Object<'_>, mark: u8) {
    let wrong = object.iter().step_by(64).position(|&byte| byte != mark);
    assert_eq!(
        wrong.map(|at| (at * 64, object[at * 64], object.len())),
        None,
        "somebody wrote into it"
    );
}

/// Takes objects until there is no room.
fn take_all<'p>(pool: &'p Pool, len: usize, mark: u8) -> (Vec<Object<'p>>, PoolError) {
    let mut objects = Vec::new();
    loop {
        match pool.alloc(len) {
            Ok(mut object) => {
                fill(&mut object, mark);
                objects.push(object);
            }
            Err(error) => return (objects, error),
        }
    }
}

#[track_caller]
fn most(error: PoolError) -> HasMost {
    match error {
        PoolError::NoSpace { most: Some(most), .. } => most,
        other => panic!("{other:?}"),
    }
}

fn who_has_most_is_named(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 16 << 20, 1 << 20);
    let board = Board::new();
    let mut large = Child::start(|| {
        let mut held = pool.alloc(9 << 20).expect("room");
        fill(&mut held, 9);
        board.set(0, 1);
        board.reach(1, 1);
        check(&held, 9);
    });
    board.reach(0, 1);
    let (mine, error) = take_all(&pool, 4096, 1);
    let named = most(error.clone());
    assert_eq!((named.pid, named.alive), (large.pid() as u32, true), "{named:?}");
    assert!(
        named.bytes >= 9 << 20 && error.to_string().contains(&format!("process {} (", named.pid)),
        "{error}"
    );
    // Again and again, of every size: the same answer, and it is counted.
    let failed = pool.usage().expect("looks").sum.failed;
    for len in [4096, 64, 100_000, 3 << 20].into_iter().cycle().take(400) {
        if let Err(error) = pool.alloc(len) {
            assert_eq!(most(error).pid, named.pid);
        }
    }
    assert!(pool.usage().expect("looks").sum.failed >= failed + 200);
    mine.iter().for_each(|object| check(object, 1));
    // It dies: at the very next try there is room.
    large.kill();
    let mut object = pool.alloc(9 << 20).expect("a dead one's is free");
    fill(&mut object, 2);
    mine.iter().for_each(|object| check(object, 1));
    let (.., error) = take_all(&pool, 4096, 3);
    assert_eq!(most(error).pid, std::process::id());
}

/// More objects are freed than there are hints for: the next tries find all of them, also right
/// after a refusal, in a pool of which one scan reads a part only.
fn what_has_no_hint_is_found_at_once(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 32 << 20, 1 << 20);
    let (mut objects, _) = take_all(&pool, 1024, 1);
    let middle = objects.len() / 2;
    for _ in 0..3 {
        assert!(pool.alloc(1024).is_err(), "full");
        drop(objects.drain(middle..middle + 100));
        pool.flush();
        let got = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let taken: Vec<_> = (0..100).filter_map(|_| pool.alloc(1024).ok()).collect();
                taken.len()
            });
            other.join().expect("no panic")
        });
        assert_eq!(got, 100);
        objects.extend(take_all(&pool, 1024, 1).0);
    }
}

/// The mode that keeps freed objects out of reach leaves no hints: the next try finds them all the
/// same.
fn what_was_freed_out_of_reach_is_found_at_once(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 16 << 20, 0);
    pool.set_modes(Modes::UAF);
    let (mut objects, _) = take_all(&pool, 4096, 1);
    let middle = objects.len() / 2;
    for _ in 0..10 {
        assert!(pool.alloc(4096).is_err(), "full");
        drop(objects.remove(middle));
        objects.push(pool.alloc(4096).expect("free"));
    }
}

/// Checks that the pool's file takes no more of the file system than the pool says, and than it
/// may.
#[track_caller]
fn check_blocks(domain: &Domain, pool: &Pool, max_bytes: u64, after: usize) {
    /// What a file system may need besides for a file of many pieces.
    const MORE: u64 = 16 << 10;
    let taken = fs::metadata(domain.path().join("pool")).expect("there").blocks() * 512;
    let says = pool.usage().expect("looks").bytes;
    assert!(taken <= says + MORE, "{after}: the file takes {taken} bytes, the pool says {says}");
    assert!(
        taken <= max_bytes + MORE,
        "{after}: the file takes {taken} bytes, the limit is {max_bytes}"
    );
}

/// Small objects have the most bytes of tags. The tags stay, and count, when the spans are taken
/// apart for larger objects.
fn the_file_keeps_to_max_bytes(world: &World) {
    const MOST: u64 = 16 << 20;
    let domain = world.domain();
    let pool = open(&domain, MOST, 0);
    for len in [16, 1 << 20, 64, 100, 5 << 20, 4096, 300, 300_000, 2 << 20, 64, 1 << 20, 9 << 20] {
        let (objects, _) = take_all(&pool, len, 1);
        assert!(!objects.is_empty(), "{len}: none");
        check_blocks(&domain, &pool, MOST, len);
        drop(objects);
        check_blocks(&domain, &pool, MOST, len);
        pool.gc().expect("trims");
        check_blocks(&domain, &pool, MOST, len);
    }
    // One object of each length, then as many small ones as there is room for.
    let mut some: Vec<_> = (6..23).filter_map(|log| pool.alloc(1 << log).ok()).collect();
    some.extend(take_all(&pool, 64, 2).0);
    check_blocks(&domain, &pool, MOST, 0);
}

/// When all is free, as many objects of the same sizes fit as before: the tags that stay are used
/// again, and the page of a run's tag does not keep a run from where one has been.
fn memory_at_the_limit_serves_again_and_again(world: &World) {
    let domain = world.domain();
    // Room for four spans of the smallest objects with their tags, and for all tags of a fifth span
    // with a few objects.
    let pool = open(&domain, (10 << 20) + (640 << 10), 0);
    let most = |len| {
        let (objects, _) = take_all(&pool, len, 1);
        objects.len()
    };
    let lens = [64, 4096, 1 << 20];
    lens.iter().for_each(|&len| {
        most(len);
    });
    let at_first = lens.map(most);
    assert!(at_first.iter().zip(lens).all(|(&count, len)| count * len >= 6 << 20), "{at_first:?}");
    for _ in 0..3 {
        assert_eq!(lens.map(most), at_first);
    }
    // The longest object that there is room for.
    let longest = (0..12 << 8)
        .rev()
        .map(|pages| pages << 12)
        .find(|&len| pool.alloc(len).is_ok())
        .expect("one");
    assert!(longest >= 7 << 20, "{longest}");
    for _ in 0..3 {
        pool.alloc(longest).expect("as before").free().expect("ours");
        pool.gc().expect("trims");
    }
}

/// There is room for a few more objects, but not for the tags that the first free span would need.
/// Another free span has its tags.
fn a_free_span_that_has_tags_is_found(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 12 << 20, 0);
    let pair = [1, 2].map(|_| pool.alloc(1 << 20).expect("room"));
    let begin = pair[0].as_ptr() as usize;
    let (mut small, _) = take_all(&pool, 64, 1);
    let before = small.len();
    small.retain(|object| (object.as_ptr() as usize - begin) >> 21 != 2);
    assert_eq!(before - small.len(), 1 << 15, "all of a span");
    drop(pair);
    // It is longer than a span, so it lies behind all spans that are used.
    let longest = (513..1024)
        .rev()
        .map(|pages| pages << 12)
        .find(|&len| pool.alloc(len).is_ok())
        .expect("room");
    // The free run is taken apart for an object that does not fit either, and made again with fewer
    // pages.
    assert!(pool.alloc(9 << 20).is_err());
    let run = pool.alloc(longest - (64 << 10)).expect("room");
    assert_eq!(run.capacity(), longest - (64 << 10));
    assert!(run.as_ptr() as usize - begin > 4 << 21);
    let more: Vec<_> = (0..100).map(|_| pool.alloc(64).expect("room")).collect();
    assert!(
        more.iter().any(|object| (object.as_ptr() as usize - begin) >> 21 == 2),
        "where the tags are"
    );
    check_blocks(&domain, &pool, 12 << 20, 64);
}

/// There is room for a run's pages, but not for its tag's. The first row of free spans has no such
/// page, the next has.
fn a_run_begins_where_a_tag_has_its_page(world: &World) {
    const MOST: u64 = 12 << 20;
    let domain = world.domain();
    let pool = open(&domain, MOST, 0);
    // The second span is never a run's first.
    let runs = [3 << 20, 3 << 19].map(|len| pool.alloc(len).expect("room"));
    let begin = runs[0].as_ptr() as usize;
    drop(runs);
    assert!(
        pool.alloc((MOST - (8 << 10)) as usize).is_err(),
        "more than the pool has besides its tables"
    );
    let first = pool.alloc(1 << 20).expect("room");
    assert_eq!(first.as_ptr() as usize - begin, 0);
    let rest = MOST - pool.usage().expect("looks").bytes;
    let run = pool.alloc((rest & !4095) as usize).expect("exactly that");
    assert_eq!((run.as_ptr() as usize - begin) >> 21, 2, "where the tag's page is");
    check_blocks(&domain, &pool, MOST, 0);
}

/// Each process takes what it can, and frees some of it: a process that fails does so with an
/// error, none touches another's object, and when one is killed the others get what it had.
fn several_processes_at_the_limit(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let life = |mark: u64| {
        let pool = open(&domain, 12 << 20, 1 << 20);
        let mut random = Random::from_seed(mark);
        let mut held: Vec<Object<'_>> = Vec::new();
        loop {
            let len = [64, 1000, 40_000, 700_000, 3 << 20][random.below(5) as usize];
            match pool.alloc(len) {
                Ok(mut object) => {
                    fill(&mut object, mark as u8);
                    held.push(object);
                }
                Err(PoolError::NoSpace { .. }) => {
                    board.add(10, 1);
                    let let_go = random.below(held.len() as u64 + 1) as usize;
                    held.drain(..let_go).for_each(|object| {
                        check(&object, mark as u8);
                        object.free().expect("ours");
                    });
                }
                Err(other) => panic!("{other}"),
            }
            held.iter().for_each(|object| check(object, mark as u8));
            board.add(mark as usize % 4, 1);
        }
    };
    let mut children: Vec<Child> = (0..4).map(|mark| Child::start(|| life(4 + mark))).collect();
    for round in 0..12 {
        let at = round % 4;
        let goal: Vec<u64> = (0..4).map(|place| board.get(place) + 30).collect();
        (0..4).zip(&goal).for_each(|(place, &goal)| {
            board.reach(place, goal);
        });
        children[at].kill();
        children[at] = Child::start(|| life(8 + round as u64));
    }
    assert!(board.get(10) > 0, "it was full");
    children.iter_mut().for_each(Child::kill);
    let pool = open(&domain, 12 << 20, 1 << 20);
    wait_until("nobody has anything", || {
        domain.sweep(false).expect("sweeps");
        let now = pool.usage().expect("looks").sum;
        assert_eq!(now.used + now.cached + now.free + now.offered + now.moving, now.total);
        now.free == now.total
    });
    drop(pool.alloc(8 << 20).expect("all of it is free"));
}

/// What was remembered of a full pool is never believed against what was freed since, by this
/// thread, by another one, by another process; listed or not, of the same size or another.
fn who_asks_again_gets_what_was_freed(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 16 << 20, 0);
    let board = Board::new();
    for len in [64, 5000, 300_000, 2 << 20] {
        for freed in [64, 5000, 300_000, 2 << 20] {
            let (mut held, _) = take_all(&pool, freed, 1);
            let (more, error) = take_all(&pool, len, 2);
            assert!(matches!(error, PoolError::NoSpace { .. }));
            for _ in 0..20 {
                assert!(pool.alloc(len).is_err());
            }
            // All of them, so that whole spans are free.
            std::thread::scope(|scope| {
                scope.spawn(|| held.clear());
            });
            assert!(pool.alloc(len).is_ok(), "{freed} were freed for {len}");
            drop(more);
        }
    }
    pool.gc().expect("trims");
    for len in [64, 5000, 300_000, 3 << 20] {
        let mut child = Child::start(|| {
            let pool = open(&domain, 16 << 20, 0);
            let (held, _) = take_all(&pool, len, 5);
            board.set(0, 1);
            board.reach(1, 1);
            drop(held);
            board.set(0, 2);
        });
        board.reach(0, 1);
        while pool.alloc(len).is_ok_and(|object| {
            std::mem::forget(object);
            true
        }) {}
        for _ in 0..20 {
            assert!(pool.alloc(len).is_err(), "{len}");
        }
        board.set(1, 1);
        board.reach(0, 2);
        assert!(pool.alloc(len).is_ok(), "{len} was freed by another process");
        child.wait();
        board.set(0, 0);
        board.set(1, 0);
    }
}

fn what_is_handed_over_is_told(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 8 << 20, 1 << 20);
    let offset = pool.alloc(5 << 20).expect("room").into_offset().expect("ours");
    let error = pool.alloc(5 << 20).expect_err("there is one only");
    let named = most(error.clone());
    assert_eq!((named.bytes, named.unclaimed), (0, 5 << 20), "{named:?}");
    assert!(error.to_string().contains("5242880 bytes are handed over and not claimed"), "{error}");
    drop(pool.claim(offset).expect("offered"));
    assert!(pool.alloc(5 << 20).is_ok());
}

fn a_file_size_limit_is_no_room(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, 64 << 20, 1 << 20);
    let (mut held, _) =
        (vec![pool.alloc(1 << 20).expect("room")], fill(&mut pool.alloc(64).expect("room"), 0));
    fill(&mut held[0], 7);
    // Of the file that there is: no span more than there are.
    let len = fs::metadata(domain.path().join("pool")).expect("there").len();
    set_limit(libc::RLIMIT_FSIZE, len);
    for size in [64, 5000, 300_000, 1 << 20, 5 << 20] {
        let (taken, error) = take_all(&pool, size, 8);
        assert_eq!(most(error).pid, std::process::id(), "{size}");
        for _ in 0..50 {
            assert!(pool.alloc(size).is_err());
        }
        taken.iter().for_each(|object| check(object, 8));
        check(&held[0], 7);
    }
    drop(held);
    assert!(pool.alloc(1 << 20).is_ok(), "what is there can be used again");
}

fn a_full_file_system_is_no_room(world: &World) {
    let domain = small_disk(world);
    let pool = open(&domain, 1 << 30, 1 << 20);
    for size in [64, 5000, 300_000, 1 << 20, 5 << 20] {
        let (taken, error) = take_all(&pool, size, 8);
        assert_eq!(most(error).pid, std::process::id(), "{size}");
        for _ in 0..50 {
            assert!(pool.alloc(size).is_err());
        }
        assert!(taken.iter().map(Object::capacity).sum::<usize>() >= 4 << 20, "{size}");
        taken.iter().for_each(|object| check(object, 8));
    }
    // Another process has filled it, and removes its file; the pool is not told.
    pool.flush();
    pool.gc().expect("trims");
    let (small, _) = take_all(&pool, 1 << 20, 1);
    drop(small.into_iter().skip(2).collect::<Vec<_>>());
    pool.flush();
    wait_until("it is given back", || {
        pool.gc().expect("trims");
        pool.usage().expect("looks").bytes < 8 << 20
    });
    let ballast = fill_up(world);
    let _large = wait_for(|| pool.alloc(1 << 20));
    fs::remove_file(ballast).expect("removed");
    wait_until("there is room again", || pool.alloc(6 << 20).is_ok());
}

/// As many as there are.
fn wait_for<'p>(take: impl Fn() -> Result<Object<'p>, PoolError>) -> Vec<Object<'p>> {
    std::iter::from_fn(|| take().ok()).collect()
}

fn killed_while_the_file_system_is_full(world: &World) {
    let domain = small_disk(world);
    let pool = open(&domain, 1 << 30, 1 << 20);
    let mut random = Random::new();
    let mut mine = pool.alloc(2 << 20).expect("room");
    fill(&mut mine, 1);
    for round in 0..30 {
        let mut child = Child::start(|| {
            let pool = open(&domain, 1 << 30, 1 << 20);
            let mut random = Random::from_seed(round);
            let mut held = Vec::new();
            loop {
                match pool.alloc(1 << (6 + random.below(17))) {
                    Ok(mut object) => {
                        fill(&mut object, 2);
                        held.push(object);
                    }
                    Err(_) => held.truncate(random.below(held.len() as u64 + 1) as usize),
                }
            }
        });
        random.pause(8_000);
        child.kill();
        check(&mine, 1);
    }
    wait_until("all is free but ours", || {
        domain.sweep(false).expect("sweeps");
        let now = pool.usage().expect("looks").sum;
        now.used == 1 && now.cached + now.moving == 0
    });
    // But for the pages of tags, which stay (pool.md): half a MiB for each span that ever had small
    // objects, and the killed children have made many of them.
    drop(pool.alloc(4 << 20).expect("the memory can be used again"));
    check(&mine, 1);
}
