//! The futex system calls, one function for each operation; `outlive::futex` exports them.
//!
//! Words are `&AtomicU32`, and every function is safe: the kernel reads and changes such a word by
//! atomic instructions only, as any other thread that has the reference might, and when a call has
//! returned it keeps no pointer to it.

mod error;
mod pi;
mod requeue;
mod several;
mod wait;
mod wake_op;

pub use error::FutexError;
pub use pi::{
    OWNER_DIED, TID_MASK, WAITERS, cmp_requeue_pi, lock_pi, thread_id, trylock_pi, unlock_pi,
    wait_requeue_pi,
};
pub use requeue::{cmp_requeue, requeue};
pub(crate) use several::wait_for_any;
pub use several::{MOST_WATCHES, Watch, waitv};
pub use wait::{ALL, wait, wait_bitset, wait_for, wake, wake_bitset};
pub use wake_op::{Change, Comparison, WakeOp, wake_op};

use rustix::thread::futex::{ClockId, Flags};

use crate::Deadline;

/// Returns the flag of the clock on which an absolute timeout counts. Never `FUTEX_PRIVATE_FLAG`:
/// the words may be shared.
fn clock_flag(deadline: Deadline) -> Flags {
    if deadline.clock() == ClockId::Realtime { Flags::CLOCK_REALTIME } else { Flags::empty() }
}

/// Returns a number of threads as the kernel takes it: it refuses a number that is negative as an
/// `int`.
fn at_most(count: u32) -> u32 {
    count.min(ALL)
}
