//! A pool's redzones: what is written behind an object's end is reported, and so is an object that
//! is freed twice or elsewhere.

use std::ptr::NonNull;

use outlive::pool::{FaultKind, Modes, PoolError};

use crate::board::Board;
use crate::child::{Child, End};
use crate::pool_modes::{LENS, OPTIONS, fault_of, open, poke, read, what_becomes_of, write};
use crate::runner::World;

crate::checks!(
    tag_finds_every_byte_behind_the_end,
    tag_reports_what_is_dropped,
    tag_looks_when_objects_are_handed_over,
    addresses_are_freed_once_and_where_they_belong,
);

fn tag_finds_every_byte_behind_the_end(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::TAG);
    for len in LENS {
        let mut object = pool.alloc(len).expect("room");
        assert_eq!((object.len(), object.capacity()), (len, len), "none of the rest is the user's");
        object.fill(1);
        object.free().expect("nothing is wrong");
        // The first bytes behind it, and somewhere farther on.
        for over in [0, 1, 7, 8, 50, 103] {
            let mut object = pool.alloc(len).expect("room");
            let was = read(object.as_ptr().expose_provenance() + len + over);
            write(&mut object, len + over, !was);
            let (address, line) = (object.as_ptr() as usize, line!() - 3);
            let fault = fault_of(object.free());
            assert_eq!((fault.kind, fault.len, fault.address), (FaultKind::Overrun, len, address));
            assert!(fault.pool.ends_with("pool") && fault.pid == std::process::id());
            if fault.bytes == 0 {
                assert!(
                    fault.offset <= len + over && len + over < fault.offset + 96,
                    "{len} + {over}: {fault:?}"
                );
                assert!(fault.caller.is_none(), "written over");
            } else {
                assert_eq!(
                    (fault.offset, fault.expected, fault.found, fault.bytes),
                    (len + over, was, !was, 1)
                );
                let caller = fault.caller.expect("known");
                assert_eq!((caller.pid, caller.line, caller.len), (std::process::id(), line, len));
                assert!(caller.file.ends_with("pool_redzones.rs") && !caller.program.is_empty());
            }
        }
    }
    let sum = pool.usage().expect("looks").sum;
    assert_eq!(sum.used, 0, "what was overrun is free all the same");
}

fn tag_reports_what_is_dropped(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::TAG);
    let (end, said) = what_becomes_of(world, || {
        let mut object = pool.alloc(100).expect("room");
        write(&mut object, 100, 0xee);
        drop(object);
    });
    assert_eq!(end, End::Signal(libc::SIGABRT), "{said}");
    for part in [
        "behind the end",
        "of 100 bytes",
        "byte 100 was",
        "is 0xee",
        "/pool,",
        "100 bytes at",
        "pool_redzones.rs:",
    ] {
        assert!(said.contains(part), "`{part}` is not in {said}");
    }
    // Freed behind its handle's back.
    let (end, said) = what_becomes_of(world, || {
        let object = pool.alloc(100).expect("room");
        // SAFETY: none: this is the fault.
        unsafe { pool.free_raw(NonNull::from(&object[0])).expect("ours, until now") };
        drop(object);
    });
    assert_eq!(end, End::Signal(libc::SIGABRT), "{said}");
    assert!(said.contains("freed or handed over before"), "{said}");
    // A child's copy of its parent's object is no fault.
    let object = pool.alloc(100).expect("room");
    Child::start(|| drop(object)).finish();
}

fn tag_looks_when_objects_are_handed_over(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::TAG);
    let mut object = pool.alloc(1000).expect("room");
    write(&mut object, 1001, 1);
    assert_eq!(fault_of(object.into_offset().map(drop)).offset, 1001);
    // Between the two, a process that has given the object away writes on.
    let mut object = pool.alloc(1000).expect("room");
    object.fill(9);
    let address = object.as_mut_ptr().expose_provenance();
    let offset = object.into_offset().expect("in order");
    poke(address + 1000, !read(address + 1000));
    let board = Board::new();
    Child::start(|| {
        assert_eq!(fault_of(pool.claim(offset).map(drop)).offset, 1000);
        board.set(0, 1);
    })
    .finish();
    assert_eq!(board.get(0), 1);
    assert_eq!(pool.claim(offset).map(drop), Err(PoolError::Stale), "it was freed");
    // In order: with its redzone it comes, and with it it is freed, there.
    let mut object = pool.alloc(1000).expect("room");
    object.fill(9);
    let offset = object.into_offset().expect("in order");
    Child::start(|| {
        let mut object = pool.claim(offset).expect("offered");
        assert!(object.len() == 1000 && object.iter().all(|&byte| byte == 9));
        let was = read(object.as_ptr().expose_provenance() + 1000);
        write(&mut object, 1000, !was);
        let fault = fault_of(object.free());
        assert_eq!(
            fault.caller.map(|caller| caller.pid),
            Some(std::os::unix::process::parent_id()),
            "who took it"
        );
    })
    .finish();
}

fn addresses_are_freed_once_and_where_they_belong(world: &World) {
    let domain = world.domain();
    for modes in
        [Modes::NONE, Modes::TAG, Modes::TAG | Modes::INTEGRITY | Modes::POISON, Modes::UAF]
    {
        let pool = open(&domain, modes);
        let other = OPTIONS.open_or_create(&domain, "other").expect("opens");
        for len in LENS {
            let address = pool.alloc(len).expect("room").into_raw();
            // SAFETY: everything is in order until the second one; from there on the faults are
            // what the check asks for. No other process is here.
            unsafe {
                let mut object = pool.from_raw(address).expect("ours");
                assert_eq!(
                    (object.len(), object.as_ptr()),
                    (len, address.as_ptr().cast_const()),
                    "in {modes}"
                );
                object.fill(3);
                let address = object.into_raw();
                assert!(matches!(
                    pool.free_raw(address.add(16)),
                    Err(PoolError::NotAnObject { .. })
                ));
                assert!(
                    matches!(other.free_raw(address), Err(PoolError::OtherPool { pool }) if pool.ends_with("pool"))
                );
                pool.free_raw(address).expect("ours");
                assert_eq!(pool.free_raw(address), Err(PoolError::Freed), "{len} in {modes}");
                pool.flush();
                assert_eq!(pool.free_raw(address), Err(PoolError::Freed), "{len} in {modes}");
            }
        }
        let mut local = 0u64;
        // SAFETY: none: these are the faults. They touch nothing.
        unsafe {
            assert!(matches!(
                pool.free_raw(NonNull::from(&mut local).cast()),
                Err(PoolError::NotAnObject { .. })
            ));
            assert!(matches!(
                pool.free_raw(NonNull::dangling()),
                Err(PoolError::NotAnObject { .. })
            ));
        }
        let theirs = pool.alloc(100).expect("room").into_raw();
        Child::start(|| {
            drop(pool.alloc(100).expect("room"));
            // SAFETY: none: it is the parent's.
            assert_eq!(unsafe { pool.free_raw(theirs) }, Err(PoolError::NotOurs));
        })
        .finish();
        // SAFETY: ours, once.
        unsafe { pool.free_raw(theirs).expect("the parent's") };
        pool.set_modes(Modes::NONE);
    }
}
