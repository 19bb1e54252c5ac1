//! Making a thing with a name: once the name is there, nothing of the making can fail. Another
//! process may have the thing open by then, so the name could not be taken back, and a maker that
//! is told of an error would leave it behind.

use std::mem::forget;

use outlive::Domain;
use outlive::pool::Pool;
use outlive::queue::Queue;
use outlive::rpc::Service;
use outlive::state::State;
use outlive::sync::{CeilingMutex, Mutex, OnceLock, PiMutex, RwLock, Semaphore};
use outlive::topic::Topic;

use crate::board::Board;
use crate::runner::World;
use crate::steps::{Stepped, in_rounds};

crate::checks!(nothing_can_fail_once_a_thing_has_its_name: 120);

type Made = Result<(), outlive::Error>;

const MAKERS: &[fn(&Domain) -> Made] = &[
    |domain| Topic::<[u8]>::options().create_new(domain, "topic").map(forget),
    |domain| Queue::<[u8]>::options().create_new(domain, "queue").map(forget),
    |domain| State::<[u8]>::options().create_new(domain, "state").map(forget),
    |domain| Pool::options().create_new(domain, "pool").map(forget),
    |domain| Service::<[u8], [u8]>::options().create_new(domain, "service").map(forget),
    |domain| Mutex::options(0u64).create_new(domain, "mutex").map(forget),
    |domain| RwLock::options(0u64).create_new(domain, "rw_lock").map(forget),
    |domain| CeilingMutex::options(1, 0u64).create_new(domain, "ceiling_mutex").map(forget),
    |domain| Semaphore::options(1).create_new(domain, "semaphore").map(forget),
    |domain| OnceLock::<u64>::options().create_new(domain, "once_lock").map(forget),
    // The last one, whose mapping is kept.
    |domain| PiMutex::options(0u64).create_new(domain, "pi_mutex").map(forget),
];

/// What the allocator may call: none of these makes the making fail. No handle is dropped.
const HARMLESS: [libc::c_long; 6] = [
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_futex,
];

fn nothing_can_fail_once_a_thing_has_its_name(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let mut stepped = Stepped::start(world, board, || {
        // What a process does once, it does before.
        Mutex::options(0u64).create_new(&domain, "first").expect("made");
        domain.token().expect("a token");
        in_rounds(
            board,
            |round| {
                if let Some(make) = MAKERS.get(round as usize) {
                    make(&domain).expect("made");
                }
            },
            |_| {},
        );
    });
    for (at, _) in MAKERS.iter().enumerate() {
        let calls: Vec<_> = std::iter::from_fn(|| stepped.next_call()).collect();
        let named = calls.iter().rposition(|call| *call == libc::SYS_linkat);
        let after = &calls[named.expect("it gets a name") + 1..];
        let is_kept = at + 1 == MAKERS.len();
        // A look at the file whose failure costs one more mapping.
        let is_harmless = |call: &libc::c_long| {
            HARMLESS.contains(call)
                || is_kept
                    && [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx].contains(call)
        };
        assert!(after.iter().all(is_harmless), "of maker {at}: the calls {after:?}");
        stepped.go_on();
    }
}
