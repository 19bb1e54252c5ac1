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

crate::checks!(
    nothing_can_fail_once_a_thing_has_its_name: 120,
    makers_and_removers_stop_or_die_between_two_files: 60,
);

type Made = Result<(), outlive::Error>;

/// Which of the makers makes a topic.
const TOPIC: usize = 0;

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
/// The maker of a topic lets go of what it made both files with. If one of these fails, a descriptor
/// stays open, or the lock of the control file ends with it.
const LETTING_GO: [libc::c_long; 5] = [
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_flock,
    // The standard library, with debug assertions, asks before it closes.
    libc::SYS_fcntl,
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
                || at == TOPIC && LETTING_GO.contains(call)
                || is_kept
                    && [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx].contains(call)
        };
        assert!(after.iter().all(is_harmless), "of maker {at}: the calls {after:?}");
        stepped.go_on();
    }
}

fn names(domain: &Domain) -> Vec<String> {
    let entries = std::fs::read_dir(domain.path()).expect("there").flatten();
    let names = entries.map(|entry| entry.file_name().into_string().expect("plain"));
    names.filter(|name| name != ".tokens").collect()
}

/// A topic is two files. A process that stands still between them keeps no other process from using
/// the name; what one that died there has left, a sweep removes.
fn makers_and_removers_stop_or_die_between_two_files(world: &World) {
    let domain = world.domain();
    let board = Board::new();
    let open = || Topic::<u64>::options().create_new(&domain, "topic");
    let number_of_files = || names(&domain).len();
    let sweep = || drop(domain.sweep(false).expect("swept"));
    let mut stepped = Stepped::start(world, board, || {
        domain.token().expect("a token");
        in_rounds(
            board,
            |round| match round % 2 {
                0 => drop(open()),
                _ => domain.remove("topic").expect("removed"),
            },
            |_| {},
        );
    });
    let moves_on_until = |stepped: &Stepped<'_>, files: usize| {
        while number_of_files() != files {
            stepped.next_call().expect("the operation is not over");
        }
    };
    // A maker that is stopped before its topic has its name: the lock keeps the file.
    moves_on_until(&stepped, 1);
    assert!(domain.entries().expect("readable").is_empty());
    sweep();
    assert_eq!(number_of_files(), 1, "it goes on");
    stepped.go_on();
    assert_eq!(number_of_files(), 2);
    Topic::<u64>::open(&domain, "topic").expect("whole");
    // A remover that is stopped between the two: the name is free.
    moves_on_until(&stepped, 1);
    drop(open().expect("made anew"));
    assert_eq!(number_of_files(), 3);
    sweep();
    assert_eq!(number_of_files(), 2, "what the remover had still to do");
    stepped.go_on();
    assert_eq!(number_of_files(), 2);
    Topic::<u64>::open(&domain, "topic").expect("whole");
    domain.remove("topic").expect("there");
    // A maker that finds the name taken after it has made the one file: it uses the other's topic.
    moves_on_until(&stepped, 1);
    drop(open().expect("made"));
    assert_eq!(number_of_files(), 3);
    stepped.go_on();
    assert_eq!(number_of_files(), 2);
    domain.remove("topic").expect("there");
    // In the next round it would remove what is not there.
    open().expect("made");
    stepped.go_on();
    // A maker that dies there.
    moves_on_until(&stepped, 1);
    stepped.child.kill();
    assert_eq!(number_of_files(), 1);
    drop(open().expect("made"));
    sweep();
    assert_eq!(number_of_files(), 2);
    Topic::<u64>::open(&domain, "topic").expect("whole");
}
