//! The pool's debug modes: each fault is really committed, mostly by a child, and really reported.

use std::ptr::NonNull;
use std::sync::Mutex;

use outlive::Domain;
use outlive::pool::{
    Fault, FaultKind, Modes, Object, Offset, Pool, PoolError, PoolOptions, on_fault,
};

use crate::board::Board;
use crate::child::{Child, End, redirect_output};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    tag_finds_every_byte_behind_the_end,
    tag_reports_what_is_dropped,
    tag_looks_when_objects_are_handed_over,
    addresses_are_freed_once_and_where_they_belong,
    integrity_reports_a_byte_changed_by_another_process,
    integrity_reports_by_default_and_aborts,
    integrity_forgets_what_is_taken_apart_or_grows,
    poison_shows_what_was_never_written,
    uaf_stops_the_instruction_that_touches,
    uaf_leaves_other_processes_their_mappings,
    uaf_gives_back_what_is_taken_again: 60,
    what_cannot_be_brought_into_reach_is_as_it_was: 60,
    fail_fails_as_often_as_it_says,
    callers_are_known_to_other_processes,
    cold_first_gives_what_has_lain_longest,
    the_environment_sets_modes,
);

const OPTIONS: PoolOptions = Pool::options().max_bytes(64 << 20).cache_bytes(1 << 20);
const LENS: [usize; 12] =
    [0, 1, 63, 64, 100, 1000, 4096, 5000, 65_536, 1 << 20, 3 << 20, 5_000_000];

pub fn open(domain: &Domain, modes: Modes) -> Pool {
    let pool = OPTIONS.modes(modes).open_or_create(domain, "pool").expect("opens");
    pool.set_modes(modes);
    pool
}

fn write(object: &mut Object<'_>, at: usize, byte: u8) {
    // SAFETY: of an object with a redzone, what lies behind its bytes is its own, too.
    unsafe { object.as_mut_ptr().add(at).write_volatile(byte) };
}

fn read(address: usize) -> u8 {
    // SAFETY: mapped; whether it may be touched is what is asked.
    unsafe { std::ptr::with_exposed_provenance::<u8>(address).read_volatile() }
}

fn poke(address: usize, byte: u8) {
    // SAFETY: the address is mapped; the check asks whether the process may touch it.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(byte) };
}

/// Faults that were reported in this process.
static TOLD: Mutex<Vec<Fault>> = Mutex::new(Vec::new());

fn listen() {
    on_fault(|fault| TOLD.lock().expect("no panic").push(fault.clone()));
}

fn told() -> Vec<Fault> {
    std::mem::take(&mut *TOLD.lock().expect("no panic"))
}

/// How a child ends that does this, and what it says on standard error.
fn what_becomes_of(world: &World, body: impl FnOnce()) -> (End, String) {
    let path = world.folder().join("said");
    let file = std::fs::File::create(&path).expect("is made");
    let mut child = Child::start(|| {
        redirect_output(std::os::fd::AsRawFd::as_raw_fd(&file));
        body();
    });
    let end = child.wait();
    (end, std::fs::read_to_string(path).expect("is text"))
}

fn fault_of(result: Result<(), PoolError>) -> Fault {
    match result {
        Err(PoolError::Fault(fault)) => *fault,
        other => panic!("{other:?} is no fault"),
    }
}

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
                assert!(caller.file.ends_with("pool_modes.rs") && !caller.program.is_empty());
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
        "pool_modes.rs:",
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
                assert!(last.len == len && last.file.ends_with("pool_modes.rs"));
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

extern "C" fn caught(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel gives both; only plain memory, and what may be called in a handler, is
    // used.
    unsafe {
        let address = (*info).si_addr() as usize;
        let is_at_it = address == EXPECTED[0].load(std::sync::atomic::Ordering::Relaxed) as usize;
        let is_access = (*info).si_code == 2; // SEGV_ACCERR
        #[cfg(target_arch = "x86_64")]
        let is_there = {
            let context = &*context.cast::<libc::ucontext_t>();
            let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as u64;
            at == EXPECTED[1].load(std::sync::atomic::Ordering::Relaxed)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let is_there = !context.is_null();
        libc::_exit(if is_at_it && is_access && is_there { 42 } else { 43 });
    }
}

/// Which address [`touch`] touches, and by which instruction.
static EXPECTED: [std::sync::atomic::AtomicU64; 2] =
    [const { std::sync::atomic::AtomicU64::new(0) }; 2];

/// A child that touches that address: 42 when it got SIGSEGV there, at that very instruction; 0
/// when it did not.
fn touch(address: usize) -> End {
    Child::start(|| {
        // SAFETY: a handler that ends the process.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = caught as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut()), 0);
        }
        EXPECTED[0].store(address as u64, std::sync::atomic::Ordering::Relaxed);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads one byte of the mapping, or is stopped.
        unsafe {
            std::arch::asm!(
                "lea {at}, [rip + 2f]",
                "mov [{expected}], {at}",
                "2: mov {at:l}, byte ptr [{address}]",
                at = out(reg) _,
                expected = in(reg) EXPECTED[1].as_ptr(),
                address = in(reg) address,
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        read(address);
    })
    .wait()
}

const STOPPED: End = End::Code(42);
const NOT_STOPPED: End = End::Code(0);

fn uaf_stops_the_instruction_that_touches(world: &World) {
    let domain = world.domain();
    for modes in [Modes::UAF, Modes::UAF | Modes::TAG | Modes::INTEGRITY | Modes::POISON] {
        let pool = open(&domain, modes);
        for len in LENS {
            // Another process's life: its faults are its own. The toucher is its child, with the
            // same mappings.
            Child::start(|| {
                let mut object = pool.alloc(len).expect("room");
                let neighbour = pool.alloc(len).expect("room");
                object.fill(1);
                let address = object.as_ptr().expose_provenance();
                assert_eq!(address % 4096, 0, "pages of its own");
                let last = len.saturating_sub(1);
                assert_eq!(touch(address + last), NOT_STOPPED, "in use");
                object.free().expect("ours");
                for at in [0, len / 2, last] {
                    assert_eq!(touch(address + at), STOPPED, "byte {at} of {len} in {modes}");
                }
                assert_eq!(touch(neighbour.as_ptr() as usize), NOT_STOPPED, "its neighbour");
                // Handed over it is as out of reach as freed.
                let address = neighbour.as_ptr().expose_provenance();
                let offset = neighbour.into_offset().expect("ours");
                assert_eq!(touch(address + last), STOPPED, "handed over");
                let again = pool.claim(offset).expect("offered");
                assert_eq!(
                    (again.as_ptr() as usize, touch(address + last)),
                    (address, NOT_STOPPED),
                    "taken back"
                );
            })
            .finish();
        }
        pool.set_modes(Modes::NONE);
    }
    // In the process itself, without a handler: it is ended by the signal.
    let pool = open(&domain, Modes::UAF);
    let (end, said) = what_becomes_of(world, || {
        let object = pool.alloc(100).expect("room");
        let address = object.as_ptr().expose_provenance();
        drop(object);
        read(address);
    });
    assert_eq!(end, End::Signal(libc::SIGSEGV), "{said}");
}

/// What others that have the pool mapped get: nothing is stopped, and what they write is found with
/// `integrity`.
fn uaf_leaves_other_processes_their_mappings(world: &World) {
    let domain = world.domain();
    let pool = open(&domain, Modes::UAF | Modes::INTEGRITY);
    let board = Board::new();
    let mut other = Child::start(|| {
        // Its own mapping, at whatever address: before anything was out of reach, at that of its
        // parent.
        board.reach(0, 1);
        let address = board.get(1) as usize;
        let seen = read(address + 10);
        poke(address + 10, !seen);
        board.set(0, 2);
        board.reach(0, 3);
    });
    let object = pool.alloc(5000).expect("room");
    let address = object.as_ptr().expose_provenance();
    board.set(1, address as u64);
    drop(object);
    assert_eq!(touch(address + 10), STOPPED);
    board.set(0, 1);
    board.reach(0, 2);
    listen();
    let mut taken = Vec::new();
    while told_offset() != Some(10) {
        assert!(taken.len() < 1000, "it is found");
        taken.push(pool.alloc(5000).expect("room"));
    }
    assert_eq!(taken.last().expect("taken").as_ptr() as usize, address);
    board.set(0, 3);
    assert_eq!(other.wait(), End::Code(0), "not stopped");
}

fn told_offset() -> Option<usize> {
    told().first().map(|fault| fault.offset)
}

/// Whatever sizes come where others were, and however many are out of reach: what is taken can be
/// used.
fn uaf_gives_back_what_is_taken_again(world: &World) {
    let domain = world.domain();
    let options = OPTIONS.max_bytes(128 << 20).modes(Modes::UAF);
    let pool = options.open_or_create(&domain, "pool").expect("opens");
    // More ranges than are remembered at once.
    let many: Vec<_> = (0..9000).map(|_| pool.alloc(4096).expect("room")).collect();
    let addresses: Vec<usize> =
        many.iter().map(|object| object.as_ptr().expose_provenance()).collect();
    drop(many);
    assert_eq!(touch(addresses[8999]), STOPPED);
    assert_eq!(touch(addresses[0]), NOT_STOPPED, "the oldest is in reach again");
    let mut random = Random::new();
    let mut kept: Vec<Object<'_>> = Vec::new();
    for round in 0..3000 {
        match random.below(20) {
            0 => drop(pool.gc().expect("trims")),
            1 => pool.set_modes(if random.below(2) == 0 { Modes::NONE } else { Modes::UAF }),
            2..9 if !kept.is_empty() => {
                drop(kept.swap_remove(random.below(kept.len() as u64) as usize))
            }
            9 if !kept.is_empty() => {
                let offset = kept.swap_remove(0).into_offset().expect("ours");
                kept.push(pool.claim(offset).expect("offered"));
            }
            _ => {
                let len = 1 << random.below(23);
                if let Ok(mut object) = pool.alloc(len) {
                    object.fill(round as u8);
                    kept.push(object);
                } else {
                    kept.clear();
                }
            }
        }
        for object in &mut kept {
            object[0] = 1;
        }
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

/// A process may have so many mappings, and no more: one piece of what is out of reach cannot be
/// brought back alone then. What was offered stays offered, and what was free is free.
fn what_cannot_be_brought_into_reach_is_as_it_was(world: &World) {
    const MOST: usize = 70_000;
    const LEN: usize = 4096;
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("readable");
    if most.trim().parse::<usize>().is_ok_and(|most| most >= MOST) {
        world.skip("a process may have more mappings");
    }
    let domain = world.domain();
    let pool = open(&domain, Modes::UAF);
    Child::start(|| {
        let objects: Vec<_> = (0..5).map(|_| pool.alloc(LEN).expect("room")).collect();
        let offers: Vec<_> =
            objects.into_iter().map(|object| object.into_offset().expect("ours")).collect();
        let freed: Vec<_> = (0..5).map(|_| pool.alloc(LEN).expect("room")).collect();
        drop(freed);
        pool.flush();
        let mut mapped = Vec::with_capacity(MOST);
        loop {
            let reach = if mapped.len() % 2 == 0 { libc::PROT_READ } else { libc::PROT_NONE };
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a fresh mapping at an address of the kernel's choice.
            let page = unsafe { libc::mmap(core::ptr::null_mut(), LEN, reach, flags, -1, 0) };
            if page == libc::MAP_FAILED {
                break;
            }
            mapped.push(page);
        }
        let claimed = pool.claim(offers[2]).map(drop);
        let taken: Vec<_> =
            (0..20).map(|_| pool.alloc(LEN).map(|object| object.into_offset().is_ok())).collect();
        let held = pool.usage().expect("whole");
        for page in mapped {
            // SAFETY: mapped above.
            assert_eq!(unsafe { libc::munmap(page, LEN) }, 0);
        }
        assert!(matches!(claimed, Err(PoolError::System(_))), "{claimed:?}");
        pool.claim(offers[2]).expect("offered still").free().expect("ours");
        let failed = taken.iter().filter(|taken| taken.is_err()).count();
        let in_hand: u64 = held.holders.iter().map(|holder| holder.bytes).sum();
        assert_eq!(in_hand, 0, "{failed} of 20 failed: {held:?}");
        crate::child::exit_now(0);
    })
    .finish();
}
