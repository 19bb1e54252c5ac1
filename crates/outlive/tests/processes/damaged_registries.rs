//! A registry whose words were written over, or that a process cannot map whole, and a thread that libc
//! does not know: no living owner is called dead, and the process is told where it cannot take part.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

use outlive::sync::Mutex;
use outlive::{Domain, Error};

use crate::board::Board;
use crate::child::Child;
use crate::forge::{BODY, Bytes, Registry};
use crate::limits::set_limit;
use crate::living::{expect_held, mutex, open, start_owner};
use crate::runner::World;
use crate::slots::{short_lived, slot_of};

crate::checks!(
    a_word_written_over_kills_nobody,
    a_registry_that_cannot_be_mapped_whole_is_refused,
    little_address_space_kills_nobody: 120,
    damaged_free_slots_are_passed_over,
    a_thread_of_no_library_is_refused,
);

/// The registry's own words say nothing about which processes live.
fn a_word_written_over_kills_nobody(world: &World) {
    let board = Board::new();
    let owner = start_owner(world.folder(), board, || {});
    board.reach(0, 1);
    for written in [0, 1, 1 << 20, u32::MAX] {
        Bytes::of(&open(world.folder()), ".tokens").set_word(BODY, written);
        Child::start(|| {
            let domain = open(world.folder());
            expect_held(&mutex(&domain));
            short_lived(&domain);
        })
        .finish();
    }
    board.set(1, 1);
    owner.finish();
}

/// From now on, this process may map so much more.
fn leave_address_space(room: u64) {
    let pages = fs::read_to_string("/proc/self/statm").expect("readable");
    let used: u64 = pages.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
    set_limit(libc::RLIMIT_AS, used * 4096 + room);
}

/// It will grow, and owners may lie where this process has mapped nothing.
fn a_registry_that_cannot_be_mapped_whole_is_refused(world: &World) {
    Child::start(|| drop(open(world.folder()))).finish();
    Child::start(|| {
        leave_address_space(2 << 20);
        let refused = Domain::open_or_create_at(world.folder().join("domain")).err();
        assert!(matches!(refused, Some(Error::NoAddressSpace { .. })), "{refused:?}");
    })
    .finish();
}

/// Of a registry that cannot be mapped whole, the owners behind the mapping could not be seen.
fn little_address_space_kills_nobody(world: &World) {
    // This process opens no domain: its children would have its mapping of the registry, which is
    // whole.
    let board = Board::new();
    let owner = Child::start(|| {
        let domain = open(world.folder());
        domain.token().expect("a token");
        Registry::of(&domain).grow_to_most();
        // The first thread whose token is far behind holds the mutex.
        let claim = || {
            let slot = slot_of(domain.token().expect("a token"));
            let mutex = mutex(&domain);
            if slot > 2_000
                && let Ok(Some(guard)) = mutex.try_lock()
            {
                board.set(0, 1);
                board.reach(1, 1);
                drop(guard);
            }
        };
        // Many threads at once: on a busy machine each of them waits long for a processor.
        while board.get(0) == 0 {
            std::thread::scope(|scope| (0..50).for_each(|_| _ = scope.spawn(claim)));
        }
    });
    board.reach(0, 1);
    // Where the registry does not fit, an eighth of the room is mapped: from 2 MiB down less than
    // up to the slot.
    for room in [1u64 << 19, 1 << 20, 2 << 20, 4 << 20, 16 << 20, 64 << 20] {
        Child::start(|| {
            leave_address_space(room);
            let Ok(domain) =
                Domain::options().recheck(None).open_or_create_at(world.folder().join("domain"))
            else {
                return;
            };
            let Ok(mutex) = Mutex::<u64>::options(0).open_or_create(&domain, "m") else { return };
            let got = mutex.try_lock();
            assert!(matches!(got, Ok(None)), "with room for {room}: {got:?}");
        })
        .finish();
    }
    board.set(1, 1);
    owner.finish();
}

fn damaged_free_slots_are_passed_over(world: &World) {
    let domain = open(world.folder());
    let mine = slot_of(domain.token().expect("a token"));
    let registry = Registry::of(&domain);
    // Every second slot; what glibc calls not recoverable, and other nonsense.
    for slot in (0..224).filter(|slot| slot % 2 == 0 && *slot != mine) {
        registry.damage(slot);
    }
    for _ in 0..500 {
        let id = short_lived(&domain);
        assert!(!domain.peer(id).is_alive());
    }
}

/// Runs `body` in a thread that libc knows nothing of, and waits for it without touching libc.
fn in_a_raw_thread(
    body: extern "C" fn(*mut libc::c_void) -> libc::c_int,
    argument: *mut libc::c_void,
) {
    const STACK: usize = 1 << 20;
    static ENDED: AtomicU32 = AtomicU32::new(1);
    ENDED.store(1, Ordering::SeqCst);
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_CHILD_CLEARTID;
    // SAFETY: a stack of its own, never freed. The two share what is the thread's own, so this one
    // waits until it has ended.
    unsafe {
        let stack = libc::mmap(
            core::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(stack, libc::MAP_FAILED);
        let none = core::ptr::null_mut::<libc::c_void>();
        let started =
            libc::clone(body, stack.byte_add(STACK), flags, argument, none, none, ENDED.as_ptr());
        assert!(started > 0, "clone: {}", std::io::Error::last_os_error());
    }
    while ENDED.load(Ordering::SeqCst) != 0 {
        core::hint::spin_loop();
    }
}

fn a_thread_of_no_library_is_refused(world: &World) {
    struct Asked {
        domain: Domain,
        got: Option<Result<outlive::TokenId, Error>>,
    }
    extern "C" fn ask(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the starter lends it until this has ended.
        let asked = unsafe { &mut *argument.cast::<Asked>() };
        asked.got = Some(asked.domain.token());
        0
    }
    let domain = open(world.folder());
    let mut asked = Asked { domain: domain.clone(), got: None };
    in_a_raw_thread(ask, (&raw mut asked).cast());
    let error = asked.got.expect("it has ended").expect_err("nobody would learn of its end");
    assert_eq!(error, Error::ForeignThread { path: domain.path().to_owned() });
    assert!(error.to_string().contains("pthread_create"), "{error}");
    // Whose thread-local things it borrowed has lost nothing.
    let id = domain.token().expect("a token");
    assert!(domain.peer(id).is_alive());
    assert_eq!(domain.tokens().len(), 1);
    drop(mutex(&domain).lock().expect("free"));
}
