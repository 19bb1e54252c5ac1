//! The pool's debug modes: each fault is really committed, mostly by a child, and really reported.

use std::sync::Mutex;

use outlive::Domain;
use outlive::pool::{Fault, Modes, Object, Offset, Pool, PoolError, PoolOptions, on_fault};

use crate::board::Board;
use crate::child::{Child, End, redirect_output};
use crate::runner::World;

crate::checks!(
    fail_fails_as_often_as_it_says,
    callers_are_known_to_other_processes,
    cold_first_gives_what_has_lain_longest,
    the_environment_sets_modes,
);

pub const OPTIONS: PoolOptions = Pool::options().max_bytes(64 << 20).cache_bytes(1 << 20);
pub const LENS: [usize; 12] =
    [0, 1, 63, 64, 100, 1000, 4096, 5000, 65_536, 1 << 20, 3 << 20, 5_000_000];

pub fn open(domain: &Domain, modes: Modes) -> Pool {
    let pool = OPTIONS.modes(modes).open_or_create(domain, "pool").expect("opens");
    pool.set_modes(modes);
    pool
}

pub fn write(object: &mut Object<'_>, at: usize, byte: u8) {
    // SAFETY: of an object with a redzone, what lies behind its bytes is its own, too.
    unsafe { object.as_mut_ptr().add(at).write_volatile(byte) };
}

pub fn read(address: usize) -> u8 {
    // SAFETY: mapped; whether it may be touched is what is asked.
    unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

pub fn poke(address: usize, byte: u8) {
    // SAFETY: the address is mapped; the check asks whether the process may touch it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(byte) };
}

/// Faults that were reported in this process.
static TOLD: Mutex<Vec<Fault>> = Mutex::new(Vec::new());

pub fn listen() {
    on_fault(|fault| TOLD.lock().expect("no panic").push(fault.clone()));
}

pub fn told() -> Vec<Fault> {
    std::mem::take(&mut *TOLD.lock().expect("no panic"))
}

/// How a child ends that does this, and what it says on standard error.
pub fn what_becomes_of(world: &World, body: impl FnOnce()) -> (End, String) {
    let path = world.folder().join("said");
    let file = std::fs::File::create(&path).expect("is made");
    let mut child = Child::start(|| {
        redirect_output(std::os::fd::AsRawFd::as_raw_fd(&file));
        body();
    });
    let end = child.wait();
    (end, std::fs::read_to_string(path).expect("is text"))
}

pub fn fault_of(result: Result<(), PoolError>) -> Fault {
    match result {
        Err(PoolError::Fault(fault)) => *fault,
        other => panic!("{other:?} is no fault"),
    }
}

fn fail_fails_as_often_as_it_says(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    let fails = |modes| -> Vec<bool> {
        // So that it is a change each time.
        pool.set_modes(Modes::NONE);
        pool.set_modes(modes);
        let one = |_| match pool.alloc(100) {
            Ok(_) => false,
            Err(PoolError::NoSpace { wanted: 100, injected: true, .. }) => true,
            Err(other) => panic!("{other:?}"),
        };
        (0..1000).map(one).collect()
    };
    let count = |fails: &[bool]| fails.iter().filter(|&&failed| failed).count();
    assert_eq!(count(&fails(Modes::fail(0))), 0);
    assert_eq!(count(&fails(Modes::fail(100))), 1000);
    let error = pool.alloc(100).map(drop).expect_err("as all");
    assert!(error.to_string().contains("'fail'"), "{error}");
    for modes in [Modes::fail(30), Modes::fail_seeded(30, 7)] {
        assert!((200..400).contains(&count(&fails(modes))), "about three of ten");
    }
    assert_eq!(fails(Modes::fail_seeded(30, 7)), fails(Modes::fail_seeded(30, 7)));
    assert_ne!(fails(Modes::fail_seeded(30, 7)), fails(Modes::fail_seeded(30, 8)));
    let failed = pool.usage().expect("looks").sum.failed;
    assert!(failed > 1000, "counted as failures are: {failed}");
    // In a child that does not bear it.
    let (end, said) = what_becomes_of(world, || {
        drop((0..100).map(|_| pool.alloc(9).expect("no room")).collect::<Vec<_>>())
    });
    assert_eq!(end, End::Code(101), "{said}");
    assert!(said.contains("injected: true"), "{said}");
}

fn callers_are_known_to_other_processes(world: &World) {
    let domain = world.domain();
    for modes in [Modes::CALLER, Modes::CALLER | Modes::UAF] {
        let pool = open(&domain, modes);
        // This process may not touch what the child gets to hold.
        let before: Vec<_> = (0..50).map(|_| pool.alloc(3000).expect("room")).collect();
        drop(before);
        let board = Board::new();
        let mut child = Child::start(|| {
            let small = pool.alloc(3000).expect("room");
            let line = line!() - 1;
            let large = pool.alloc_aligned(3 << 20, 64).expect("room");
            let given = pool.alloc(77).expect("room").into_offset().expect("ours");
            board.set(1, u64::from(line));
            board.set(2, given.as_u64());
            board.set(0, 1);
            board.reach(0, 2);
            drop((small, large));
        });
        board.reach(0, 1);
        let line = board.get(1) as u32;
        let mut held = pool.held().expect("looks");
        held.sort_by_key(|one| one.caller.as_ref().map(|caller| caller.line));
        assert_eq!(held.len(), 3, "{held:#?}");
        for (one, (line, len)) in
            held.iter().zip([(line, 3000), (line + 2, 3 << 20), (line + 3, 77)])
        {
            let caller = one.caller.as_ref().expect("noted");
            assert_eq!(
                (caller.pid, caller.tid, caller.line, caller.len),
                (child.pid() as u32, child.pid() as u32, line, len)
            );
            assert!(caller.file.ends_with("processes/pool_modes.rs") && one.bytes >= len as u64);
            assert_eq!(one.is_offered, len == 77);
            assert_eq!(
                one.who.as_ref().map(|who| who.pid),
                (len != 77).then_some(child.pid() as u32)
            );
        }
        // Whichever process has it now, the child took it.
        let mine = pool.claim(Offset::from(board.get(2))).expect("offered");
        child.kill();
        let held = pool.held().expect("looks");
        let mine_listed = held
            .iter()
            .find(|one| one.bytes < 1 << 20 && one.who.as_ref().is_some_and(|who| who.alive));
        let caller = mine_listed.and_then(|one| one.caller.clone()).expect("noted");
        assert_eq!((caller.pid, caller.len), (child.pid() as u32, 77));
        assert_eq!(
            held.iter().filter(|one| one.who.as_ref().is_some_and(|who| !who.alive)).count(),
            2,
            "the dead one's"
        );
        drop(mine);
        pool.gc().expect("collects");
        assert_eq!(pool.held(), Ok(Vec::new()));
        // Without the mode no process knows, and the pool takes nothing old for it.
        pool.set_modes(Modes::NONE);
        let kept: Vec<_> = (0..50).map(|_| pool.alloc(3000).expect("room")).collect();
        assert!(pool.held().expect("looks").iter().all(|one| one.caller.is_none()));
        drop(kept);
    }
}

fn cold_first_gives_what_has_lain_longest(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    let all: Vec<_> = (0..40).map(|_| pool.alloc(1000).expect("room")).collect();
    let order: Vec<usize> = all.iter().map(|object| object.as_ptr() as usize).collect();
    pool.flush();
    let again = |pool: &Pool| -> Vec<usize> {
        let all: Vec<_> = (0..40).map(|_| pool.alloc(1000).expect("room")).collect();
        let order = all.iter().map(|object| object.as_ptr() as usize).collect();
        // In that order.
        all.into_iter().for_each(drop);
        order
    };
    all.into_iter().for_each(drop);
    pool.set_modes(Modes::COLD_FIRST);
    assert_eq!(again(&pool), order, "the first one freed first");
    assert_eq!(again(&pool), order);
    pool.set_modes(Modes::NONE);
    let reversed: Vec<usize> = order.into_iter().rev().collect();
    assert_eq!(again(&pool), reversed, "the last one freed first");
}

fn the_environment_sets_modes(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::NONE);
    let with = |text: &str| {
        let (end, said) = what_becomes_of(world, || {
            // SAFETY: a process of one thread.
            unsafe { std::env::set_var("OUTLIVE_POOL", text) };
            drop(OPTIONS.open_or_create(&domain, "pool").expect("opens"));
        });
        assert_eq!(end, End::Code(0));
        (pool.modes(), said)
    };
    assert_eq!(with("tag,poison"), (Modes::TAG | Modes::POISON, String::new()));
    assert_eq!(with("other:uaf"), (Modes::TAG | Modes::POISON, String::new()));
    assert_eq!(with("other:uaf;pool:fail=5%"), (Modes::fail(5), String::new()));
    assert_eq!(with("none").0, Modes::NONE);
    let (modes, said) = with("tga");
    assert!(
        modes.is_none() && said.contains("'tga' is no mode") && said.contains("cold-first"),
        "{said}"
    );
}
