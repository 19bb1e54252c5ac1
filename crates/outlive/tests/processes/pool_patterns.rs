//! A pool's patterns: what is written into a free object is reported, and what was never written is
//! shown.

use outlive::pool::{FaultKind, Modes, Object};

use crate::child::{Child, End};
use crate::pool_modes::{LENS, listen, open, poke, read, told, what_becomes_of};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    integrity_reports_a_byte_changed_by_another_process,
    integrity_reports_by_default_and_aborts,
    integrity_forgets_what_is_taken_apart_or_grows,
    poison_shows_what_was_never_written,
);

fn integrity_reports_a_byte_changed_by_another_process(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::INTEGRITY | Modes::CALLER);
    listen();
    for is_flushed in [false, true] {
        for len in LENS {
            let mut random = Random::new();
            for at in [0, len / 2, len.saturating_sub(1), random.below(len.max(1) as u64) as usize]
            {
                let object = pool.alloc(len).expect("room");
                let address = object.as_ptr().expose_provenance();
                drop(object);
                if is_flushed {
                    pool.flush();
                }
                assert_eq!(told(), []);
                let was = read(address + at);
                Child::start(|| poke(address + at, was ^ 0x20)).finish();
                // Until that one is taken.
                let mut taken = Vec::new();
                while !taken.iter().any(|object: &Object<'_>| object.as_ptr() as usize == address) {
                    taken.push(pool.alloc(len).expect("it comes"));
                }
                let faults = told();
                assert_eq!(faults.len(), 1, "{len}");
                let fault = &faults[0];
                assert_eq!((fault.kind, fault.address), (FaultKind::ChangedWhileFree, address));
                assert_eq!(
                    (fault.offset, fault.expected, fault.found, fault.bytes),
                    (at, was, was ^ 0x20, 1)
                );
                let last = fault.caller.as_ref().expect("who had it last");
                assert!(last.len == len && last.file.ends_with("pool_patterns.rs"));
                drop(taken);
            }
        }
    }
}

fn integrity_reports_by_default_and_aborts(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::INTEGRITY);
    let (end, said) = what_becomes_of(world, || {
        let object = pool.alloc(500).expect("room");
        let address = object.as_ptr().expose_provenance();
        drop(object);
        (0..5).for_each(|at| poke(address + 100 + at, !read(address + 100 + at)));
        drop(pool.alloc(500));
    });
    assert_eq!(end, End::Signal(libc::SIGABRT), "{said}");
    for part in ["into a free object of 512 bytes", "byte 100 was", "and 4 more"] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
    // What it left is no longer a fault of any process: the pool takes in what no process has
    // written to.
    Child::start(|| drop((0..100).map(|_| pool.alloc(500).expect("room")).collect::<Vec<_>>()))
        .finish();
}

/// Pages that were given back read as zero, and a run gets more of them: that is no process's
/// fault.
fn integrity_forgets_what_is_taken_apart_or_grows(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::INTEGRITY);
    listen();
    for round in 0..3 {
        for len in LENS {
            drop((0..20).map_while(|_| pool.alloc(len).ok()).collect::<Vec<_>>());
            if round == 0 {
                pool.gc().expect("trims");
            }
        }
        let mut run = pool.alloc((5 << 20) + 1).expect("room");
        run.fill(1);
        drop(run);
        pool.flush();
        // Of as many spans, and more pages.
        drop(pool.alloc((6 << 20) - 1).expect("room"));
        pool.flush();
        assert_eq!(told(), [], "round {round}");
    }
}

fn poison_shows_what_was_never_written(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    for (modes, byte) in
        [(Modes::POISON, 0x50), (Modes::poison(0xa7) | Modes::TAG, 0xa7), (Modes::poison(0), 0)]
    {
        pool.set_modes(modes);
        for len in LENS {
            for _ in 0..3 {
                // The program forgets to write half of it, and reads all.
                let mut object = pool.alloc(len).expect("room");
                object[..len / 2].fill(1);
                assert!(object[len / 2..].iter().all(|&found| found == byte), "{len} in {modes}");
                object.fill(2);
            }
        }
    }
}
