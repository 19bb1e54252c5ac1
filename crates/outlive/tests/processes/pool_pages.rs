//! A pool's pages: huge ones, and those that `gc` gives back to the system.

use crate::board::Board;
use crate::child::wait_until;
use crate::pools::{SMALL, all_is_free, check, fill, open, sum};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    huge_pages_when_asked,
    gc_gives_pages_back,
    gc_and_flush_beside_use: 60,
);

/// Returns whether the kernel makes huge pages now, tried with as much shared memory of our own:
/// free memory may be in small pieces.
fn has_huge_pages(bytes: usize) -> bool {
    const HUGE: usize = 2 << 20;
    // SAFETY: a new mapping, which no other code knows, is written to within its bounds and
    // unmapped.
    unsafe {
        let (access, shared) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let mapped = libc::mmap(std::ptr::null_mut(), bytes + HUGE, access, shared, -1, 0);
        assert_ne!(mapped, libc::MAP_FAILED);
        let aligned = mapped.byte_add(mapped.align_offset(HUGE));
        aligned.cast::<u8>().write_bytes(1, bytes);
        let made = libc::madvise(aligned, bytes, libc::MADV_COLLAPSE) == 0;
        libc::munmap(mapped, bytes + HUGE);
        made
    }
}

fn huge_pages_when_asked(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    drop(pool.alloc(8 << 20).expect("room"));
    assert_eq!(pool.huge_bytes().expect("known"), 0, "nobody has asked");
    let enabled = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled")
        .unwrap_or_default();
    let pool = open(&domain, SMALL.huge_pages(true));
    let mut large = pool.alloc(12 << 20).expect("room");
    fill(&mut large, 1);
    let small: Vec<_> =
        (0..2 * (2 << 20) / 65_536).map(|_| pool.alloc(65_536).expect("room")).collect();
    // With or without huge pages: the bytes are unchanged, and pages are given back as ever.
    check(&large, 1);
    let huge = pool.huge_bytes().expect("known");
    if !outlive::abilities::can_make_huge_pages()
        || enabled.is_empty()
        || enabled.contains("[deny]")
    {
        world.skip("no huge pages here: Linux before 6.1, or shmem_enabled says deny");
    }
    if huge < 12 << 20 && !has_huge_pages(12 << 20) {
        world.skip("the kernel has no free memory in pieces of 2 MiB now");
    }
    assert!(huge >= 12 << 20, "{huge} bytes huge; {enabled}");
    drop((large, small));
    pool.flush();
    assert!(pool.gc().expect("trims").bytes >= 16 << 20);
    assert_eq!(pool.huge_bytes().expect("known"), 0);
}

/// Several threads take, write and free, while flush and gc come again and again.
fn gc_and_flush_beside_use(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let board = Board::new();
    std::thread::scope(|scope| {
        for number in 0..3 {
            let (pool, board) = (&pool, &board);
            scope.spawn(move || {
                let mut random = Random::from_seed(number + 1);
                let mut held = Vec::new();
                while board.get(0) == 0 {
                    let mark = random.below(1 << 40);
                    let len = 1 << (6 + random.below(17));
                    if let Ok(mut object) = pool.alloc(len) {
                        fill(&mut object, mark);
                        held.push((object, mark));
                    }
                    while held.len() > random.below(12) as usize {
                        let (object, mark) =
                            held.swap_remove(random.below(held.len() as u64) as usize);
                        check(&object, mark);
                        object.free().expect("ours");
                    }
                    board.add(1 + number as usize, 1);
                }
                held.iter().for_each(|(object, mark)| check(object, *mark));
            });
        }
        let (mut trimmed, mut round) = (0, 0);
        wait_until("pages are given back meanwhile", || {
            if round % 3 == 0 {
                pool.flush();
            }
            round += 1;
            trimmed += pool.gc().expect("trims").bytes;
            trimmed > 0 && round >= 200
        });
        (1..4).for_each(|at| {
            board.reach(at, 50);
        });
        board.set(0, 1);
    });
    pool.flush();
    wait_until("the threads' caches are empty", || sum(&pool).cached == 0);
    all_is_free(&pool);
}

fn gc_gives_pages_back(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, SMALL);
    let bytes = || domain.entry("pool").expect("there").bytes;
    for len in [64, 4096, 48 << 10, 1 << 20, 4 << 20] {
        let objects: Vec<_> =
            (0..(24 << 20) / len).map(|_| pool.alloc(len).expect("room")).collect();
        let kept = pool.alloc(len).expect("room");
        let full = bytes();
        assert!(full >= 24 << 20);
        drop(objects);
        let given_back = pool.gc().expect("trims").bytes;
        assert!(given_back >= 16 << 20, "{len}: {given_back}");
        assert!(bytes() <= full - (16 << 20), "{len}: {} of {full}", bytes());
        // Addresses stay: an object that is taken now lies in the same mapping, in pages that exist
        // again.
        let mut object = pool.alloc(len).expect("room");
        fill(&mut object, 7);
        check(&object, 7);
        drop(kept);
    }
    pool.gc().expect("trims");
    assert_eq!(sum(&pool).total, 0, "no span without an object in use is kept");
    all_is_free(&pool);
}
