//! Docker's default seccomp profile, as a container without added capabilities has it, and kernels and
//! filters that know less.

use crate::filter::{Denied, install, read};
use crate::operations::{Environment, plain, run_if_permitted};
use crate::runner::World;

crate::checks!(
    dockers_default_seccomp_profile: 60,
    an_older_docker_without_futex_waitv: 60,
    an_older_docker_without_futex_waitv_and_membarrier: 60,
    a_filter_without_what_an_old_kernel_has_not: 60,
    an_old_kernels_answers: 60,
);

/// The data: names and numbers, and where they are from.
const DENIED: &str = include_str!("docker_seccomp.txt");

/// Numbers from here on are of calls that are younger than the profile.
const YOUNGER: Denied = (451, libc::EPERM as u32);

pub fn under(world: &World, denied: &[Denied], younger: Denied) {
    if !cfg!(target_arch = "x86_64") {
        world.skip("the list has the numbers of x86-64");
    }
    let environment = Environment {
        open: &|| plain(world),
        enter: &|| install(denied, younger),
        forks: false,
        use_up: &|| {},
    };
    run_if_permitted(world, "a seccomp filter", &environment);
}

fn denying(calls: &[libc::c_long], errno: libc::c_int) -> Vec<Denied> {
    calls.iter().map(|&call| (call as u32, errno as u32)).collect()
}

fn under_docker(world: &World, more: &[libc::c_long]) {
    let mut denied = read(DENIED);
    denied.extend(denying(more, libc::EPERM));
    under(world, &denied, YOUNGER);
}

fn dockers_default_seccomp_profile(world: &World) {
    under_docker(world, &[]);
}

fn an_older_docker_without_futex_waitv(world: &World) {
    under_docker(world, &[libc::SYS_futex_waitv]);
}

fn an_older_docker_without_futex_waitv_and_membarrier(world: &World) {
    under_docker(world, &[libc::SYS_futex_waitv, libc::SYS_membarrier]);
}

/// All that the library uses and Linux 5.10 or an older filter may not have.
const YOUNG: [libc::c_long; 7] = [
    libc::SYS_futex_waitv,
    libc::SYS_membarrier,
    libc::SYS_pidfd_open,
    libc::SYS_io_uring_setup,
    libc::SYS_statx,
    libc::SYS_faccessat2,
    libc::SYS_clone3,
];

fn a_filter_without_what_an_old_kernel_has_not(world: &World) {
    // The C library makes threads by clone alone where clone3 is ENOSYS, and not where it is EPERM.
    // Rust's standard library does without statx where it is ENOSYS; EPERM is its error.
    let mut denied = denying(&YOUNG[..4], libc::EPERM);
    denied.extend(denying(&YOUNG[4..], libc::ENOSYS));
    under(world, &denied, YOUNGER);
}

fn an_old_kernels_answers(world: &World) {
    under(world, &denying(&YOUNG, libc::ENOSYS), (YOUNGER.0, libc::ENOSYS as u32));
}
