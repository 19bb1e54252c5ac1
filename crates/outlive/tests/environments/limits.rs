//! Limits of a process that are used up once it has opened what it needs.

use crate::operations::{Environment, plain, run_if_permitted};
use crate::runner::World;
use crate::users::{become_another, prepare, shared};

crate::checks!(
    no_more_open_files: 60,
    no_more_address_space: 60,
    two_gibibytes_of_address_space: 60,
    no_more_processes: 60,
    no_locked_memory: 60,
);

/// Limits the process to that many from now on, and for good.
fn limit(what: libc::__rlimit_resource_t, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a limit that lives until the call returns.
    let done = unsafe { libc::setrlimit(what, &raw const limit) };
    assert_eq!(done, 0, "a limit can be set: {}", std::io::Error::last_os_error());
}

fn used_up(world: &World, use_up: impl Fn()) {
    let environment =
        Environment { open: &|| plain(world), enter: &|| {}, forks: false, use_up: &use_up };
    run_if_permitted(world, "a limit", &environment);
}

fn no_more_open_files(world: &World) {
    used_up(world, || {
        limit(libc::RLIMIT_NOFILE, 64);
        // SAFETY: no pointers are passed. The descriptors stay until the process ends.
        while unsafe { libc::dup(0) } >= 0 {}
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EMFILE));
    });
}

/// Bytes of address space that this process has.
fn address_space() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("read");
    let pages: u64 =
        statm.split(' ').next().and_then(|pages| pages.parse().ok()).expect("a number");
    pages * 4096
}

fn no_more_address_space(world: &World) {
    // A little is left, for what the allocator of this process asks for.
    used_up(world, || limit(libc::RLIMIT_AS, address_space() + (4 << 20)));
}

fn two_gibibytes_of_address_space(world: &World) {
    let enter = || limit(libc::RLIMIT_AS, address_space() + (2 << 30));
    let environment =
        Environment { open: &|| plain(world), enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "a limit", &environment);
}

fn no_more_processes(world: &World) {
    // The limit is none for root.
    prepare(world);
    let use_up = || {
        limit(libc::RLIMIT_NPROC, 1);
        let refused = std::thread::Builder::new().spawn(|| {}).is_err();
        assert!(refused, "no thread can be made");
    };
    let environment = Environment {
        open: &|| shared(world),
        enter: &become_another,
        forks: false,
        use_up: &use_up,
    };
    run_if_permitted(world, "another user", &environment);
}

fn no_locked_memory(world: &World) {
    let enter = || limit(libc::RLIMIT_MEMLOCK, 0);
    let environment =
        Environment { open: &|| plain(world), enter: &enter, forks: false, use_up: &|| {} };
    run_if_permitted(world, "a limit", &environment);
}
