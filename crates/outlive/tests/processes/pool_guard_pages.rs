//! A pool's guard pages: a process that touches what it has freed is stopped, and no other is.

use outlive::pool::{Modes, Object, PoolError};

use crate::board::Board;
use crate::child::{Child, End};
use crate::pool_modes::{LENS, OPTIONS, listen, open, poke, read, told, what_becomes_of};
use crate::random::Random;
use crate::runner::World;

crate::checks!(
    uaf_stops_the_instruction_that_touches,
    uaf_leaves_other_processes_their_mappings,
    uaf_gives_back_what_is_taken_again: 60,
    what_cannot_be_brought_into_reach_is_as_it_was: 60,
);

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
