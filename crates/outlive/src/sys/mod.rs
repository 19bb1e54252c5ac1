//! The system calls.
//!
//! Every unexpected errno is an error, in release builds too. No layer above calls `libc` or
//! `rustix`.

pub(crate) mod barrier;
pub(crate) mod clock;
pub(crate) mod file;
pub(crate) mod folder_usage;
pub(crate) mod futex;
pub(crate) mod futex_call;
pub(crate) mod identity;
pub(crate) mod keeper;
pub(crate) mod libc_mutex;
pub(crate) mod map;
pub(crate) mod probe;
pub(crate) mod process;
pub(crate) mod procfs;
pub(crate) mod resident;
pub(crate) mod robust;
pub(crate) mod schedule;
pub(crate) mod start_thread;
pub(crate) mod wait_threads;

pub(crate) mod thread_end;
#[cfg(all(
    feature = "shared-library",
    target_arch = "x86_64",
    not(target_feature = "avx512f"),
    not(miri)
))]
pub(crate) mod thread_word;

pub(crate) use rustix::io::Errno;

/// Checks the result of a pthread call, which does not set errno.
fn check_pthread(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(result)) }
}
