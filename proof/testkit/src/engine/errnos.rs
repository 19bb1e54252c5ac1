//! Which system call may fail how: what its page in section 2 of the manual says can happen to a
//! correct call, by limits (EMFILE, ENFILE, ENOMEM, ENOSPC, EAGAIN), by signals (EINTR), and by
//! what containers do: their seccomp filters answer EPERM or ENOSYS (Docker's default profile:
//! EPERM, for calls that it does not know ENOSYS), their security modules EACCES or EPERM.
//!
//! A call of `futex` is several calls in one: by its operation. Errors that only a wrong call gets
//! (EINVAL, EFAULT, EBADF) are not here, nor calls without errors (`gettid`), nor those after which
//! no process goes on (`exit_group`). `close` closes also where it fails, which a call that is not
//! carried out cannot show.

use libc::{
    EACCES, EAGAIN, EFBIG, EINTR, EMFILE, ENFILE, ENOENT, ENOLCK, ENOMEM, ENOSPC, ENOSYS,
    EOPNOTSUPP, EPERM, ESRCH, c_int, c_long,
};

/// The operation in the second argument of `futex`, without its flags.
const FUTEX_COMMAND: u64 = 0x7f;

/// By which errors a call may fail; none: it is not made to.
#[must_use]
pub fn of(call: c_long, arguments: [u64; 2]) -> &'static [c_int] {
    match call {
        // open(2): process's and system's limits, a security module, a signal on a slow file
        // system, a full one.
        libc::SYS_openat => &[EMFILE, ENFILE, ENOMEM, EACCES, EPERM, EINTR, ENOSPC],
        // mmap(2): address space and number of mappings (ENOMEM), sealed or without execution
        // (EPERM), locked (EAGAIN).
        libc::SYS_mmap => &[ENOMEM, EAGAIN, EPERM, ENFILE],
        // mprotect(2): a mapping is split, and there are too many then. (munmap(2) likewise, but
        // never of a whole mapping.)
        libc::SYS_mprotect => &[ENOMEM],
        // madvise(2): a kernel without it (ENOSYS by seccomp), out of resources (EAGAIN), no
        // memory.
        libc::SYS_madvise => &[EAGAIN, ENOMEM, ENOSYS, EPERM],
        // fallocate(2): a full file system, a file system that cannot, a signal, a limit of file
        // sizes.
        libc::SYS_fallocate => &[ENOSPC, EINTR, EOPNOTSUPP, ENOSYS, EFBIG, EPERM],
        // truncate(2).
        libc::SYS_ftruncate => &[EINTR, EFBIG, EPERM],
        // stat(2), statx(2): old filters answer statx with EPERM.
        libc::SYS_fstat => &[ENOMEM],
        libc::SYS_newfstatat => &[ENOMEM, EACCES],
        libc::SYS_statx => &[ENOSYS, EPERM, ENOMEM, EACCES],
        libc::SYS_statfs | libc::SYS_fstatfs => &[EINTR, ENOMEM, ENOSYS],
        // link(2): without /proc ENOENT; protected_hardlinks EPERM.
        libc::SYS_linkat => &[ENOENT, EPERM, EACCES, ENOSPC, ENOMEM],
        libc::SYS_unlinkat => &[EACCES, EPERM, ENOMEM],
        libc::SYS_renameat | libc::SYS_renameat2 => &[EACCES, EPERM, ENOSPC, ENOMEM, ENOSYS],
        libc::SYS_mkdirat => &[EACCES, EPERM, ENOSPC, ENOMEM],
        libc::SYS_readlinkat => &[EACCES, ENOMEM, ENOENT],
        libc::SYS_faccessat | libc::SYS_faccessat2 => &[EACCES, ENOSYS, ENOMEM],
        libc::SYS_fchmod | libc::SYS_fchmodat | libc::SYS_fchown | libc::SYS_fchownat => {
            &[EPERM, EACCES]
        }
        libc::SYS_getdents64 => &[ENOMEM, EACCES],
        // read(2) of /proc/PID/stat: the process is gone (ESRCH), or may not be looked at.
        libc::SYS_read | libc::SYS_pread64 => &[EINTR, ESRCH, EACCES, ENOMEM],
        libc::SYS_write | libc::SYS_pwrite64 => &[EINTR, ENOSPC, EAGAIN],
        libc::SYS_lseek => &[],
        libc::SYS_flock => &[EINTR, ENOLCK],
        libc::SYS_fcntl => &[EMFILE, ENOLCK, EAGAIN],
        // futex(2). Waiting: a signal, another value. With priority inheritance: an exiting owner;
        // without kernel memory (ENOMEM) glibc ends the process by abort(3), which no caller can
        // cope with. Waking has no errors for a correct call; a filter that knows the older
        // operations alone denies the one that changes a word and wakes.
        libc::SYS_futex => match (arguments[1] & FUTEX_COMMAND) as c_int {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => &[EINTR, EAGAIN],
            libc::FUTEX_WAKE_OP => &[EPERM, ENOSYS],
            libc::FUTEX_LOCK_PI | libc::FUTEX_TRYLOCK_PI | FUTEX_LOCK_PI2 => &[EAGAIN, EINTR],
            _ => &[],
        },
        // futex_waitv, since Linux 5.16: before, ENOSYS; old filters EPERM.
        libc::SYS_futex_waitv => &[ENOSYS, EPERM, EINTR, EAGAIN, ENOMEM],
        // membarrier(2).
        libc::SYS_membarrier => &[ENOSYS, EPERM, ENOMEM],
        // clone(2): number of processes, of pids in the control group; clone3 is ENOSYS in many
        // filters.
        libc::SYS_clone3 => &[ENOSYS, EAGAIN, ENOMEM, EPERM],
        libc::SYS_clone => &[EAGAIN, ENOMEM, EPERM],
        libc::SYS_getrandom => &[ENOSYS, EINTR, EAGAIN],
        libc::SYS_sched_setscheduler | libc::SYS_sched_setparam | libc::SYS_sched_setattr => {
            &[EPERM, ENOSYS]
        }
        libc::SYS_sched_getaffinity | libc::SYS_sched_getattr => &[EPERM, ENOSYS],
        libc::SYS_prctl => &[EPERM, ENOSYS],
        libc::SYS_clock_nanosleep | libc::SYS_nanosleep => &[EINTR],
        libc::SYS_get_robust_list | libc::SYS_set_robust_list => &[ENOSYS, EPERM],
        libc::SYS_pidfd_open => &[EMFILE, ENFILE, ENOMEM, ENOSYS, EPERM],
        libc::SYS_kill | libc::SYS_tgkill => &[EPERM],
        // socket(2), bind(2), connect(2): limits, a security module; a file in a full file system;
        // a full backlog (EAGAIN). To listen has no error for a correct call.
        libc::SYS_socket => &[EMFILE, ENFILE, ENOMEM, EACCES, EPERM],
        libc::SYS_bind => &[EACCES, EPERM, ENOSPC, ENOMEM],
        libc::SYS_connect => &[EAGAIN, EINTR, EACCES, EPERM, ENOMEM],
        // send(2), recv(2): also where poll(2) has said that it can be done.
        libc::SYS_sendto | libc::SYS_sendmsg => &[EINTR, EAGAIN, ENOMEM, EPERM],
        libc::SYS_recvfrom | libc::SYS_recvmsg => &[EINTR, EAGAIN, ENOMEM],
        libc::SYS_ppoll => &[EINTR, ENOMEM],
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => &[EINTR, ENOMEM],
        // The C library's own, where the architecture has them beside those with `at`.
        #[cfg(target_arch = "x86_64")]
        libc::SYS_chmod | libc::SYS_chown => &[EPERM, EACCES],
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink => &[EACCES, EPERM, ENOMEM],
        libc::SYS_eventfd2 => &[EMFILE, ENFILE, ENOMEM],
        libc::SYS_brk => &[],
        _ => &[],
    }
}

const FUTEX_LOCK_PI2: c_int = 13;

/// Returns whether an error says that a system call failed so: by the number itself
/// (`Error::System`), or by the meaning that the documentation of `outlive::Error` gives to it. All
/// else blames what was not at fault: a message of damage, or of a death.
#[must_use]
pub fn tells_of(errno: c_int, error: &str) -> bool {
    // As printed, and as a sweep lists what it could not look at.
    let by_number = [format!("(os error {errno})"), format!("errno: {errno} }}")];
    let by_meaning: &[&str] = match errno {
        EPERM => &["no permission to ", "Permission {", "no right to run at real-time priority"],
        EACCES => &["no permission to ", "Permission {"],
        // glibc's pthread_create says EAGAIN where the kernel has said ENOMEM.
        ENOMEM => &[
            "no address space for ",
            "NoAddressSpace {",
            "start a thread: Resource temporarily unavailable",
            // Memory for a file's pages, or its name: the file system is memory.
            "no room for ",
            "NoSpace {",
        ],
        ENOSPC | EFBIG => &["no room for ", "NoSpace {"],
        _ => &[],
    };
    // A call that a GPU's driver makes: the driver says in its own words that it could not do what
    // it was asked.
    let by_driver = error.contains("(CUDA_ERROR_");
    by_driver
        || by_number.iter().any(|number| error.contains(number))
        || by_meaning.iter().any(|meaning| error.contains(meaning))
}

/// The name of an error, for reports.
#[must_use]
pub fn name(errno: c_int) -> &'static str {
    match errno {
        EACCES => "EACCES",
        EAGAIN => "EAGAIN",
        EFBIG => "EFBIG",
        EINTR => "EINTR",
        EMFILE => "EMFILE",
        ENFILE => "ENFILE",
        ENOENT => "ENOENT",
        ENOLCK => "ENOLCK",
        ENOMEM => "ENOMEM",
        ENOSPC => "ENOSPC",
        ENOSYS => "ENOSYS",
        EOPNOTSUPP => "EOPNOTSUPP",
        EPERM => "EPERM",
        ESRCH => "ESRCH",
        _ => "another error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_blames_something_else_is_noticed() {
        assert!(tells_of(EMFILE, "could not open /x: Too many open files (os error 24)"));
        assert!(tells_of(
            EMFILE,
            r#"[("thing", System { doing: "open", path: "/x", errno: 24 })]"#
        ));
        assert!(tells_of(ENOSPC, "no room for 4096 more bytes in /x; free some"));
        for (errno, error) in [
            (EMFILE, "/x is damaged (a slot); a process wrote over it"),
            (EMFILE, "could not open /x: Cannot allocate memory (os error 12)"),
            (ENOSYS, "the owner died"),
            (EACCES, "no room for 4096 more bytes in /x; free some"),
        ] {
            assert!(!tells_of(errno, error), "{errno}: {error}");
        }
    }
}
