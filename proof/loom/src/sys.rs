//! The system calls, as far as the protocols make them.

pub(crate) mod barrier;
#[path = "../../../crates/outlive/src/sys/clock.rs"]
pub(crate) mod clock;
pub(crate) mod futex;
pub(crate) mod identity;
pub(crate) mod map;
#[path = "../../../crates/outlive/src/sys/probe.rs"]
pub(crate) mod probe;
pub(crate) mod robust;
pub(crate) mod start_thread;
#[path = "../../../crates/outlive/src/sys/wait_threads.rs"]
pub(crate) mod wait_threads;

pub(crate) use rustix::io::Errno;
