//! Floor 1: the system calls, and nothing else.
//!
//! Every unexpected errno is an error, in release builds too. Nothing above this floor calls `libc` or `rustix`.

#[cfg(not(loom))]
pub(crate) mod barrier;
#[cfg(loom)]
#[path = "barrier_model.rs"]
pub(crate) mod barrier;
pub(crate) mod clock;
#[cfg(not(loom))]
pub(crate) mod file;
#[cfg(not(loom))]
pub(crate) mod futex;
#[cfg(loom)]
#[path = "futex_model.rs"]
pub(crate) mod futex;
#[cfg(not(loom))]
pub(crate) mod futex_call;
#[cfg(not(loom))]
pub(crate) mod identity;
#[cfg(loom)]
#[path = "identity_model.rs"]
pub(crate) mod identity;
#[cfg(not(loom))]
pub(crate) mod keeper;
#[cfg(not(loom))]
pub(crate) mod libc_mutex;
#[cfg(not(loom))]
pub(crate) mod map;
#[cfg(not(loom))]
pub(crate) mod process;
#[cfg(not(loom))]
pub(crate) mod procfs;
#[cfg(not(loom))]
pub(crate) mod robust;
#[cfg(loom)]
#[path = "robust_model.rs"]
pub(crate) mod robust;
#[cfg(not(loom))]
pub(crate) mod schedule;
pub(crate) mod wait_threads;

#[cfg(not(loom))]
pub(crate) mod thread_end;
#[cfg(all(feature = "shared-library", target_arch = "x86_64", not(target_feature = "avx512f"), not(loom), not(miri)))]
pub(crate) mod thread_word;
#[cfg(not(loom))]
pub(crate) mod uring;

pub(crate) use rustix::io::Errno;

/// What a pthread call returns, which does not set errno.
#[cfg(not(loom))]
fn check_pthread(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(Errno::from_raw_os_error(result)) }
}
