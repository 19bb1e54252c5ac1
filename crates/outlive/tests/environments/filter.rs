//! Seccomp filters, made from lists of system calls that they deny.

use std::io::Error;

/// A call that a filter denies: its number, and the errno it fails with.
pub type Denied = (u32, u32);

/// Reads a list: on each line a number, a name, and perhaps the errno, which is EPERM otherwise.
pub fn read(list: &str) -> Vec<Denied> {
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
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

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Installs a filter that lets everything through but these calls, those of a number from `younger.0`
/// on, and what makes a process with a namespace of its own.
pub fn install(denied: &[Denied], younger: Denied) {
    let (load, equal, at_least) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K,
    );
    let (bits, back) = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    let refuse = |errno: u32| statement(back, libc::SECCOMP_RET_ERRNO | errno);
    // In what a filter is given, the number of the call is at offset 0, its first argument at 16.
    let mut filter = vec![statement(load, 0)];
    for &(number, errno) in denied {
        filter.extend([jump(equal, number, 0, 1), refuse(errno)]);
    }
    filter.extend([jump(at_least, younger.0, 0, 1), refuse(younger.1)]);
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
    assert!(done, "a filter can be installed: {}", Error::last_os_error());
}
