//! The state machines of the locks alone: their words in shared memory, who changes each, how, and
//! what a death leaves.
//!
//! Here are no handles, no guards and no files: those stand around this folder, in `sync`. Loom
//! compiles the folder as it is (proof/loom/src/sync.rs), but for what only the kernel or libc can
//! do: a thread's priority, and libc's mutex.

pub(super) mod barrier;
#[cfg(not(loom))]
pub(super) mod ceiling;
pub(super) mod condvar;
pub(super) mod event;
pub(super) mod mutex;
pub(super) mod once;
#[cfg(not(loom))]
pub(super) mod pi;
pub(super) mod rw_lock;
mod rw_lock_slow;
pub(super) mod semaphore;

use crate::sys::Errno;

/// How the lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    Clean,
    /// From an owner that died or panicked: what it guards may be half-written.
    OwnerDied,
}

/// Why it was not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    NotRecoverable,
    Deadlock,
    WouldBlock,
    TimedOut,
    Damaged,
    System(Errno),
}
