//! Objects that several processes hold: their holders, the one that frees them, and what is left of
//! them when a process is killed.

use std::time::Duration;

use outlive::Domain;
use outlive::pool::{Object, Offset, Pool, PoolError, PoolOptions, SharedObject, SizeUsage};

use crate::board::Board;
use crate::child::{Child, wait_until};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    the_last_holder_frees_it,
    one_alone_may_write_again,
    sixty_processes_hold_one: 60,
    no_more_than_have_room,
    a_killed_holder_is_not_counted,
    the_last_holder_is_killed,
    who_needs_memory_collects_what_the_dead_shared,
    who_shares_needs_memory_too,
    an_execed_holder_is_not_counted,
    a_dead_token_is_no_ended_process,
    a_forked_child_holds_nothing_of_its_parents,
    wrong_offsets_join_nothing,
    rows_of_the_holder_table_are_used_again,
    a_stopped_joiner_delays_nobody: 60,
    damaged_rows_are_errors_or_nothing: 60,
    values_keep_their_type,
);

pub const SMALL: PoolOptions = Pool::options().max_bytes(64 << 20).cache_bytes(1 << 20);

pub fn open(domain: &Domain, options: PoolOptions) -> Pool {
    options.open_or_create(domain, "pool").expect("opens")
}

pub fn sum(pool: &Pool) -> SizeUsage {
    let usage = pool.usage().expect("can be looked at");
    for one in usage.sizes.iter().chain([&usage.sum]) {
        assert_eq!(
            one.used + one.cached + one.free + one.offered + one.shared + one.moving,
            one.total,
            "{one:?}"
        );
    }
    usage.sum
}

pub fn all_is_free(pool: &Pool) {
    let sum = sum(pool);
    assert_eq!(sum.free, sum.total, "{sum:?}");
}

pub fn fill(object: &mut Object<'_>, mark: u64) {
    object.chunks_mut(8).for_each(|chunk| {
        let len = chunk.len();
        chunk.copy_from_slice(&mark.to_le_bytes()[..len]);
    });
}

pub fn shared<'p>(pool: &'p Pool, len: usize, mark: u64) -> SharedObject<'p> {
    let mut object = pool.alloc(len).expect("room");
    fill(&mut object, mark);
    object.share().expect("ours")
}

pub fn check(bytes: &[u8], mark: u64) {
    assert!(
        bytes.chunks(8).all(|chunk| *chunk == mark.to_le_bytes()[..chunk.len()]),
        "somebody wrote into it"
    );
}

/// A child that joins, checks, says so on the board, and holds it until it is killed.
fn holder(pool: &Pool, board: Board, offset: Offset, mark: u64) -> Child {
    Child::start(|| {
        let held = pool.join(offset).expect("shared");
        check(&held, mark);
        board.add(0, 1);
        std::thread::sleep(Duration::from_secs(60));
        drop(held);
    })
}

fn the_last_holder_frees_it(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    for len in [0, 10, 64, 5000, 1 << 20, 3 << 20, 20 << 20] {
        let first = shared(&pool, len, 3);
        let offset = first.offset();
        assert!(offset.is_shared() && first.len() == len);
        assert_eq!((sum(&pool).shared, sum(&pool).used), (1, 0));
        let clone = first.clone();
        assert_eq!(first.holders().len(), 1, "clones are this process's own affair");
        Child::start(|| {
            let joined = pool.join(Offset::from(offset.as_u64())).expect("its sender holds it");
            assert_eq!(joined.len(), len);
            check(&joined, 3);
            let pids: Vec<u32> = joined.holders().iter().map(|holder| holder.pid).collect();
            assert_eq!(pids.len(), 2);
            assert!(
                pids.contains(&std::process::id())
                    && joined.holders().iter().all(|holder| holder.alive)
            );
        })
        .finish();
        drop(first);
        assert_eq!(sum(&pool).shared, 1);
        check(&clone, 3);
        drop(clone);
        assert_eq!((sum(&pool).shared, sum(&pool).used), (0, 0), "{len}: free at once");
        assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale));
    }
    pool.flush();
    all_is_free(&pool);
    let swept = domain.sweep(false).expect("sweeps");
    assert_eq!((swept.objects, swept.claims), (0, 0), "nothing was left to a sweep");
}

fn one_alone_may_write_again(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let first = shared(&pool, 500, 1);
    let offset = first.offset();
    let clone = first.clone();
    let first = first.try_into_object().expect_err("there is a clone");
    drop(clone);
    let mut other = holder(&pool, board, offset, 1);
    board.reach(0, 1);
    let first = first.try_into_object().expect_err("another process holds it");
    other.kill();
    let mut object = first.try_into_object().expect("the other one has ended");
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale));
    assert_eq!((sum(&pool).shared, sum(&pool).used), (0, 1));
    fill(&mut object, 2);
    let again = object.share().expect("ours");
    assert_ne!(again.offset(), offset);
    check(&pool.join(again.offset()).expect("shared"), 2);
    drop(again);
    pool.flush();
    all_is_free(&pool);
}

fn sixty_processes_hold_one(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let first = shared(&pool, 5000, 9);
    let offset = first.offset();
    let mut holders: Vec<Child> = (0..60)
        .map(|number| {
            let (pool, board) = (&pool, &board);
            Child::start(move || {
                let held = pool.join(offset).expect("shared");
                board.add(0, 1);
                board.reach(1, number / 3 + 1);
                check(&held, 9);
                drop(held);
                board.add(2, 1);
                std::thread::sleep(Duration::from_secs(60));
            })
        })
        .collect();
    board.reach(0, 60);
    let named = first.holders();
    assert_eq!(named.len(), 61);
    assert!(
        holders.iter().all(|child| named.iter().any(|holder| holder.pid == child.pid() as u32))
    );
    let usage = pool.usage().expect("looks");
    assert_eq!((usage.sum.shared, usage.sum.used), (1, 0));
    let who = usage.holders.iter().filter(|holder| holder.objects == 1 && holder.bytes >= 5000);
    assert_eq!(who.count(), 60, "with each of its holders; we have more, in our cache");
    drop(first);
    // Of each three one is killed, and two leave by themselves, and die later. The last leaves.
    for third in 0..19 {
        holders[third * 3].kill();
        board.set(1, third as u64 + 1);
        board.reach(2, third as u64 * 2 + 2);
        assert_eq!(sum(&pool).shared, 1);
    }
    board.set(1, 20);
    board.reach(2, 19 * 2 + 3);
    assert_eq!(sum(&pool).shared, 0, "the last one frees it, without a collection");
    drop(holders);
    domain.sweep(false).expect("sweeps");
    pool.flush();
    all_is_free(&pool);
}

fn no_more_than_have_room(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let first = shared(&pool, 100, 4);
    let offset = first.offset();
    let mut all: Vec<_> = (1..62).map(|_| pool.join(offset).expect("has room")).collect();
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::TooManyHolders { max: 62 }));
    drop(all.swap_remove(30));
    all.push(pool.join(offset).expect("one has left"));
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::TooManyHolders { max: 62 }));
    drop(first);
    // A holder that has died leaves room, too.
    let mut other = {
        all.pop();
        let board = Board::new();
        let other = holder(&pool, board, offset, 4);
        board.reach(0, 1);
        let freed = all.pop();
        all.push(pool.join(offset).expect("has room"));
        drop(freed);
        all.push(pool.join(offset).expect("has room"));
        other
    };
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::TooManyHolders { max: 62 }));
    other.kill();
    all.push(pool.join(offset).expect("one has died"));
    assert_eq!(all[0].holders().len(), 62);
    assert_eq!(sum(&pool).shared, 1);
    drop(all);
    pool.flush();
    all_is_free(&pool);
}

fn a_killed_holder_is_not_counted(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let mine = shared(&pool, 300, 6);
    let mut other = holder(&pool, board, mine.offset(), 6);
    board.reach(0, 1);
    other.kill();
    assert_eq!(mine.holders().iter().filter(|holder| !holder.alive).count(), 1);
    assert_eq!(domain.entry("pool").expect("there").dead_claims, 1);
    let offset = mine.offset();
    drop(mine);
    assert_eq!(sum(&pool).shared, 0, "who leaves sees that the other one is dead");
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale));
    // The other way round: the dead one's name goes with a sweep, the living one holds on.
    let mine = shared(&pool, 300, 7);
    let mut other = holder(&pool, board, mine.offset(), 7);
    board.reach(0, 2);
    other.kill();
    let swept = domain.sweep(false).expect("sweeps");
    assert_eq!((swept.objects, mine.holders().len()), (0, 1), "{swept:?}");
    assert!(domain.sweep(false).expect("sweeps").is_clean(), "once is enough");
    check(&mine, 7);
    drop(mine);
    pool.flush();
    all_is_free(&pool);
}

fn the_last_holder_is_killed(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    for by_gc in [false, true] {
        let mut first = Child::start(|| {
            let first = shared(&pool, 700, 8);
            board.set(1, first.offset().as_u64());
            board.reach(2, 1);
            drop(first);
            board.set(2, 2);
            std::thread::sleep(Duration::from_secs(60));
        });
        let offset = Offset::from(board.reach(1, 1));
        board.set(0, 0);
        let mut last = holder(&pool, board, offset, 8);
        board.reach(0, 1);
        assert_eq!(domain.sweep(false).expect("sweeps").objects, 0, "two live");
        board.set(2, 1);
        board.reach(2, 2);
        assert_eq!(sum(&pool).shared, 1, "one lives");
        last.kill();
        assert_eq!(sum(&pool).shared, 1, "nobody has come by");
        if by_gc {
            assert!(pool.gc().expect("trims").objects >= 1);
        } else {
            assert_eq!(domain.sweep(true).expect("looks").objects, 1);
            assert_eq!(domain.sweep(false).expect("sweeps").objects, 1);
        }
        assert_eq!(sum(&pool).shared, 0);
        assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale));
        first.kill();
        domain.sweep(false).expect("sweeps");
        (0..3).for_each(|word| board.set(word, 0));
    }
    pool.gc().expect("trims");
    all_is_free(&pool);
}

fn who_needs_memory_collects_what_the_dead_shared(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Pool::options().max_bytes(8 << 20).cache_bytes(0));
    let board = Board::new();
    let mut hoarder = Child::start(|| {
        let mut kept = Vec::new();
        while let Ok(object) = pool.alloc(100_000) {
            match object.share() {
                Ok(shared) => kept.push(shared),
                Err(error) => assert!(matches!(error, PoolError::NoSpace { .. }), "{error:?}"),
            }
        }
        board.set(0, kept.len() as u64);
        std::thread::sleep(Duration::from_secs(60));
    });
    let count = board.reach(0, 50);
    assert_eq!(sum(&pool).shared, count);
    let error = pool.alloc(100_000).expect_err("full");
    match error {
        PoolError::NoSpace { most: Some(most), .. } => assert_eq!(most.pid, hoarder.pid() as u32),
        other => panic!("{other:?}"),
    }
    hoarder.kill();
    drop(pool.alloc(100_000).expect("the dead hold nothing"));
    assert_eq!(sum(&pool).shared, 0);
}

/// For the holders' names: where there is no room for them, the object is lost, and everything else
/// stays; and room is what the dead had.
fn who_shares_needs_memory_too(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Pool::options().max_bytes(8 << 20).cache_bytes(1 << 20));
    let board = Board::new();
    let (first, second) = (pool.alloc(64).expect("room"), pool.alloc(64).expect("room"));
    pool.flush();
    let mut hoarder = Child::start(|| {
        let mut kept = Vec::new();
        while let Ok(object) = pool.alloc(64) {
            match object.share() {
                Ok(shared) => kept.push(shared),
                Err(error) => {
                    assert!(matches!(error, PoolError::NoSpace { .. }), "{error:?}");
                    break;
                }
            }
        }
        board.set(0, kept.len() as u64);
        std::thread::sleep(Duration::from_secs(60));
    });
    let count = board.reach(0, 4000);
    match first.share().expect_err("no room for names") {
        PoolError::NoSpace { most: Some(most), .. } => assert_eq!(most.pid, hoarder.pid() as u32),
        other => panic!("{other:?}"),
    }
    assert_eq!((sum(&pool).shared, sum(&pool).used), (count, 1), "freed, and nothing else harmed");
    hoarder.kill();
    let second = second.share().expect("the dead hold nothing");
    assert_eq!((sum(&pool).shared, second.holders().len()), (1, 1));
    drop(second);
    assert_eq!(sum(&pool).shared, 0);
}

fn an_execed_holder_is_not_counted(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let mine = shared(&pool, 5000, 1);
    let offset = mine.offset();
    let mut other = Child::start(|| {
        std::mem::forget(pool.join(offset).expect("shared"));
        let arguments = [c"sleep".as_ptr(), c"60".as_ptr(), core::ptr::null()];
        // SAFETY: a list of strings that ends with null.
        unsafe { libc::execvp(c"sleep".as_ptr(), arguments.as_ptr()) };
    });
    let comm =
        || std::fs::read_to_string(format!("/proc/{}/comm", other.pid())).unwrap_or_default();
    wait_until("it is another program", || comm().trim() == "sleep");
    drop(mine);
    wait_until("it is free", || {
        domain.sweep(false).expect("sweeps");
        sum(&pool).shared == 0
    });
    other.kill();
}

/// The thread that has the process's token is gone, and another reads on.
fn a_dead_token_is_no_ended_process(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let mine = shared(&pool, 5000, 1);
    let offset = mine.offset();
    let mut other = Child::start(|| {
        let held = pool.join(offset).expect("shared");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                loop {
                    check(&held, 1);
                    board.add(0, 1);
                }
            });
            // SAFETY: ends this thread and nothing else, without destructors.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    });
    wait_until("its token reads dead", || mine.holders().iter().any(|holder| !holder.alive));
    drop(mine);
    assert_eq!(sum(&pool).shared, 1, "it is still read");
    for _ in 0..3 {
        board.reach(0, board.get(0) + 2);
        pool.gc().expect("trims");
        let mut others: Vec<_> = (0..20).map(|_| pool.alloc(5000).expect("room")).collect();
        others.iter_mut().for_each(|object| fill(object, 2));
    }
    assert_eq!(sum(&pool).shared, 1);
    // Its slot is kept, so that sweeps and the processes that come can ask after it; for longer
    // than the library waits where it cannot ask.
    for _ in 0..2 {
        domain.sweep(false).expect("sweeps");
        Child::start(|| drop(pool.alloc(5000).expect("room"))).finish();
        pool.gc().expect("trims");
        std::thread::sleep(std::time::Duration::from_millis(600));
    }
    pool.gc().expect("trims");
    assert_eq!(sum(&pool).shared, 1, "its slot was given to somebody");
    other.kill();
    pool.gc().expect("trims");
    assert_eq!(sum(&pool).shared, 0);
}

fn a_forked_child_holds_nothing_of_its_parents(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let mine = shared(&pool, 300, 5);
    let offset = mine.offset();
    let mut copy = Some(mine.clone());
    Child::start(|| {
        drop(copy.take());
        let mine = unsafe_copy(&mine).try_into_object().expect_err("it is the parent's");
        check(&mine, 5);
        drop(mine);
        let own = pool.join(offset).expect("shared");
        assert_eq!(own.holders().len(), 2);
        // Left by name, as the child ends without destructors.
        std::mem::forget(own);
    })
    .finish();
    drop(copy);
    check(&mine, 5);
    assert_eq!(sum(&pool).shared, 1);
    drop(mine);
    assert_eq!(sum(&pool).shared, 0);
    domain.sweep(false).expect("sweeps");
    pool.flush();
    all_is_free(&pool);
}

/// The same handle once more, as a child has it whose parent goes on with its own.
fn unsafe_copy<'p>(of: &SharedObject<'p>) -> SharedObject<'p> {
    // SAFETY: of a child that ends without destructors; its count is off by one, towards too few,
    // and no other process's is.
    unsafe { core::ptr::read(of) }
}

fn wrong_offsets_join_nothing(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let first = shared(&pool, 64, 1);
    let (offset, place) = (first.offset(), first.as_ptr());
    assert_eq!(pool.claim(offset).map(drop), Err(PoolError::Stale), "shared, and not handed over");
    assert_eq!(pool.claim_value::<[u8; 64]>(offset).map(drop), Err(PoolError::Stale));
    drop(first);
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale), "free");
    let again = pool.alloc(64).expect("room");
    assert_eq!(again.as_ptr(), place, "the hottest");
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale), "somebody's");
    let again = again.into_offset().expect("ours");
    assert!(!again.is_shared());
    assert_eq!(pool.join(again).map(drop), Err(PoolError::Stale), "handed over, and not shared");
    assert_eq!(pool.join(Offset::from(again.as_u64() | 1 << 58)).map(drop), Err(PoolError::Stale));
    let again = pool.claim(again).expect("offered").share().expect("ours");
    assert_eq!(again.as_ptr(), place);
    assert_eq!(pool.join(offset).map(drop), Err(PoolError::Stale), "an earlier sharing");
    let right = again.offset().as_u64();
    for wrong in
        [0, u64::MAX, 1 << 58, right ^ 1, right ^ 1 << 29, right | 1 << 59, right & !(1 << 58)]
    {
        assert_eq!(pool.join(Offset::from(wrong)).map(drop), Err(PoolError::Stale), "{wrong:#x}");
    }
    let joined = pool.join(Offset::from(right)).expect("shared");
    assert_eq!(joined.holders().len(), 2);
    drop((again, joined));
    pool.flush();
    all_is_free(&pool);
}

fn rows_of_the_holder_table_are_used_again(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let mut bytes = 0;
    for round in 0..4 {
        let all: Vec<_> = (0..3000).map(|mark| shared(&pool, 64, mark)).collect();
        for (mark, one) in all.iter().enumerate() {
            check(&pool.join(one.offset()).expect("shared"), mark as u64);
        }
        assert_eq!(sum(&pool).shared, 3000);
        drop(all);
        assert_eq!(sum(&pool).shared, 0);
        let now = pool.usage().expect("looks").bytes;
        assert!(round == 0 || now == bytes, "{now} after {bytes}");
        bytes = now;
    }
    // One after another: always the same one.
    for mark in 0..1000 {
        drop(shared(&pool, 64, mark));
    }
    assert_eq!(pool.usage().expect("looks").bytes, bytes);
    pool.flush();
    all_is_free(&pool);
}

/// Stopped anywhere in sharing, joining and leaving: others share, join, leave, and get their
/// objects back.
fn a_stopped_joiner_delays_nobody(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    let busy = Child::start(|| {
        loop {
            let offset = Offset::from(board.get(1));
            if let Ok(joined) = pool.join(offset) {
                check(&joined, board.get(2));
            }
            drop(shared(&pool, 200, 77));
            board.add(0, 1);
        }
    });
    let mut random = Random::new();
    for mark in 1..150 {
        let kept = shared(&pool, 100, 5);
        board.set(2, 5);
        board.set(1, kept.offset().as_u64());
        board.reach(0, board.get(0) + 1);
        random.pause(100);
        busy.stop();
        for _ in 0..20 {
            let one = shared(&pool, 100, mark);
            let joined: Vec<_> = (0..5).map(|_| pool.join(one.offset()).expect("shared")).collect();
            let place = one.as_ptr();
            joined.iter().for_each(|one| check(one, mark));
            drop((one, joined));
            assert_eq!(
                pool.alloc(100).expect("room").as_ptr(),
                place,
                "free at once, and the hottest"
            );
        }
        check(&kept, 5);
        busy.go_on();
        drop(kept);
    }
}

/// Whatever rows, records and counts contain: errors, or fewer objects; no fault, no endless loop.
fn damaged_rows_are_errors_or_nothing(world: &World) {
    use std::os::unix::fs::FileExt;
    let domain = world.domain();
    let mut random = Random::new();
    for round in 0..150 {
        let name = format!("pool{round}");
        let pool = SMALL.open_or_create(&domain, &name).expect("opens");
        let mut kept: Vec<_> = (0..20).map(|at| shared(&pool, 64 << (at % 10), 1)).collect();
        let joined: Vec<_> =
            kept[..5].iter().filter_map(|one| pool.join(one.offset()).ok()).collect();
        kept.extend(joined);
        drop((0..5).map(|_| shared(&pool, 64, 1)).collect::<Vec<_>>());
        let file = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(domain.path().join(&name))
            .expect("opens");
        let word = |at: u64| {
            let mut word = [0; 8];
            file.read_exact_at(&mut word, at).expect("reads");
            u64::from_le_bytes(word)
        };
        let (tags_at, rows_at) = (word(12_288), word(12_288 + 24));
        for _ in 0..30 {
            let at = match random.below(4) {
                // How many rows there are, and hints.
                0 => 12_288 + 192 + random.below(16),
                1 => tags_at + random.below(1024),
                _ => rows_at + random.below(30 * 512),
            };
            let value = match random.below(4) {
                0 => random.next(),
                1 => random.below(1 << 16),
                2 => word(at / 8 * 8).wrapping_add(1 << random.below(64)),
                _ => word(rows_at + random.below(30 * 64) * 8),
            };
            file.write_all_at(&value.to_le_bytes(), at / 8 * 8).expect("writes");
        }
        let offsets: Vec<Offset> = kept.iter().map(SharedObject::offset).collect();
        let _ = domain.sweep(true);
        let _ = pool.usage();
        for offset in offsets {
            let _ = pool.join(offset).map(drop);
            let _ = pool.join(Offset::from(random.next() & ((1 << 58) - 1) | 1 << 58)).map(drop);
        }
        kept.iter().for_each(|one| drop(one.holders()));
        while let Some(one) = kept.pop() {
            let _ = one.try_into_object().map(drop);
        }
        for at in 0..40 {
            if let Ok(mut object) = pool.alloc(64 << (at % 13)) {
                object.fill(1);
                let _ = object.share().map(|one| pool.join(one.offset()).map(drop));
            }
        }
        let _ = domain.sweep(false);
        let _ = pool.gc();
        let _ = domain.entry(&name);
        domain.remove(&name).expect("goes");
    }
}

fn values_keep_their_type(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let offset = pool.alloc_value([7_u64; 100]).expect("room").into_offset().expect("ours");
    Child::start(|| {
        assert_eq!(pool.claim(offset).map(drop), Err(PoolError::OtherType), "not as bytes");
        assert_eq!(pool.claim_value::<[i64; 100]>(offset).map(drop), Err(PoolError::OtherType));
        assert_eq!(pool.claim_value::<[u64; 99]>(offset).map(drop), Err(PoolError::OtherType));
        let mut value = pool.claim_value::<[u64; 100]>(offset).expect("offered");
        assert_eq!(*value, [7; 100]);
        value[99] = 8;
        value.free().expect("ours");
    })
    .finish();
    assert_eq!(pool.claim_value::<[u64; 100]>(offset).map(drop), Err(PoolError::Stale));
    let bytes = pool.alloc(8).expect("room").into_offset().expect("ours");
    assert_eq!(
        pool.claim_value::<u64>(bytes).map(drop),
        Err(PoolError::OtherType),
        "plain bytes are no value"
    );
    drop(pool.claim(bytes).expect("offered still"));
    let nothing = pool.alloc_value(()).expect("room").into_offset().expect("ours");
    pool.claim_value::<()>(nothing).expect("offered").free().expect("ours");
    // A value may be shared as bytes.
    let value = pool
        .alloc_value(0x0102_0304_u32.to_le())
        .expect("room")
        .into_object()
        .share()
        .expect("ours");
    assert_eq!(pool.join(value.offset()).expect("shared")[..], [4, 3, 2, 1]);
    drop(value);
    let mut owner = Child::start(|| {
        let _value = pool.alloc_value(1_u64).expect("room");
        std::thread::sleep(Duration::from_secs(60));
    });
    wait_until("it has it", || sum(&pool).used == 1);
    owner.kill();
    domain.sweep(false).expect("sweeps");
    pool.flush();
    all_is_free(&pool);
}
