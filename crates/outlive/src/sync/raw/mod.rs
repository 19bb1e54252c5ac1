//! The state machines of the locks alone: their words in shared memory, which thread changes each
//! and how, and what a death leaves.
//!
//! Handles, guards and files are outside this folder, in `sync`. Loom compiles the folder as it is
//! (proof/loom/src/sync.rs), except for what only the kernel or libc can do: a thread's priority,
//! and libc's mutex.

pub(super) mod barrier;
#[cfg(not(loom))]
pub(super) mod ceiling;
pub(super) mod condvar;
pub(super) mod event;
mod event_word;
pub(super) mod mutex;
pub(super) mod notifications;
pub(super) mod once;
#[cfg(not(loom))]
pub(super) mod pi;
pub(super) mod reentrant;
pub(super) mod relock;
pub(super) mod rw_lock;
mod rw_lock_slow;
pub(super) mod semaphore;

use crate::claim::Unclaimed;
use crate::sys::Errno;

/// How a thread took the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    Clean,
    /// From an owner that died or panicked: what the lock guards may be half-written.
    OwnerDied,
}

/// Why a thread did not take the lock, or got no permit or no turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    NotRecoverable,
    Deadlock,
    WouldBlock,
    TimedOut,
    Damaged,
    /// The owner has taken it as often as can be counted.
    Full,
    /// The thread's own priority is higher than the lock's ceiling.
    AboveCeiling,
    /// The thread may not run at that priority.
    NoRealTime(u32),
    System(Errno),
}

impl From<Unclaimed> for Refused {
    fn from(unclaimed: Unclaimed) -> Refused {
        match unclaimed {
            Unclaimed::Deadlock => Refused::Deadlock,
            Unclaimed::WouldBlock | Unclaimed::Marked => Refused::WouldBlock,
            Unclaimed::TimedOut => Refused::TimedOut,
            Unclaimed::Other(_) => Refused::Damaged,
            Unclaimed::System(errno) => Refused::System(errno),
        }
    }
}
