//! Docker's default seccomp profile, as a container without added capabilities has it.

use crate::operations::{Environment, plain, run_if_permitted};
use crate::runner::World;

crate::checks!(
    dockers_default_seccomp_profile: 60,
    an_older_docker_without_futex_waitv: 60,
    an_older_docker_without_futex_waitv_and_membarrier: 60,
);

/// The data: names and numbers, and where they are from.
const DENIED: &str = include_str!("docker_seccomp.txt");

/// A call of the list: its number, and the errno it fails with.
fn denied() -> Vec<(u32, u32)> {
    let lines = DENIED.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let number = words.next().and_then(|word| word.parse().ok()).expect("a number first");
            let errno = match words.nth(1) {
                Some("ENOSYS") => libc::ENOSYS,
                _ => libc::EPERM,
            };
            (number, errno as u32)
        })
        .collect()
}

/// Numbers from here on are of calls that are younger than the profile.
const YOUNGER: u32 = 451;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Installs a filter that lets everything through but the calls of the list, and these.
fn install(more: &[u32]) {
    let (load, equal, at_least) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
    );
    let (bits, back) = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    let refuse = |errno: u32| statement(back, libc::SECCOMP_RET_ERRNO | errno);
    // In what a filter is given, the number of the call is at offset 0, its first argument at 16.
    let mut filter = vec![statement(load, 0)];
    let all = denied().into_iter().chain(more.iter().map(|number| (*number, libc::EPERM as u32)));
    for (number, errno) in all {
        filter.extend([jump(equal, number, 0, 1), refuse(errno)]);
    }
    filter.extend([jump(at_least, YOUNGER, 0, 1), refuse(libc::EPERM as u32)]);
    // A process that is made may get no namespace of its own.
    const NAMESPACES: u32 = 0x7e02_0000;
    filter.extend([
        jump(equal, libc::SYS_clone as u32, 0, 3),
        statement(load, 16),
        jump(bits, NAMESPACES, 0, 1),
    ]);
    filter.extend([refuse(libc::EPERM as u32), statement(back, libc::SECCOMP_RET_ALLOW)]);
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program lies where it says, and is copied before the call returns.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(done, "a filter can be installed: {}", std::io::Error::last_os_error());
}

fn under(world: &World, more: &[u32]) {
    if !cfg!(target_arch = "x86_64") {
        world.skip("the list has the numbers of x86-64");
    }
    let environment = Environment {
        open: &|| plain(world),
        enter: &|| install(more),
        forks: false,
        use_up: &|| {},
    };
    run_if_permitted(world, "a seccomp filter", &environment);
}

fn dockers_default_seccomp_profile(world: &World) {
    under(world, &[]);
}

fn an_older_docker_without_futex_waitv(world: &World) {
    under(world, &[libc::SYS_futex_waitv as u32]);
}

fn an_older_docker_without_futex_waitv_and_membarrier(world: &World) {
    under(world, &[libc::SYS_futex_waitv as u32, libc::SYS_membarrier as u32]);
}
