//! What a condition variable asks of the mutex under which a thread waits: to give it up, and to
//! take it again.

use super::mutex::RawMutex;
use super::{Acquired, Refused};
use crate::Deadline;
use crate::liveness::Me;
use crate::wake::SpinWait;

/// A mutex that the calling thread holds at the beginning of a wait, and at its end.
pub trait Relock {
    /// Whether libc takes `list_op_pending` for itself at each lock and unlock. Then the field
    /// cannot lead to the condition variable's relay word meanwhile.
    const TAKES_LIST: bool = false;

    /// Whether a waiter spins before it sleeps.
    const SPINS: bool = true;

    /// Returns whether what the mutex guards is whole. The caller holds it.
    fn is_consistent(&self) -> bool;

    /// Unlocks, whatever the mutex's state.
    fn release(&self, me: Me);

    /// Takes the mutex if no living thread has it. For a mutex with `TAKES_LIST` nothing calls it.
    fn try_lock(&self, me: Me) -> Result<Acquired, Refused>;

    /// Takes the mutex, and waits until the deadline.
    fn lock(&self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<Acquired, Refused>;

    /// Returns whether no thread has the mutex just now.
    fn is_free(&self) -> bool;

    /// Returns whether the mutex's owner died, and no thread has taken it since.
    fn is_left_by_dead(&self) -> bool {
        false
    }
}

impl Relock for &RawMutex {
    fn is_consistent(&self) -> bool {
        RawMutex::is_consistent(self)
    }

    fn release(&self, me: Me) {
        RawMutex::release(self, me.id);
    }

    fn try_lock(&self, me: Me) -> Result<Acquired, Refused> {
        RawMutex::try_lock(self, me)
    }

    fn lock(&self, me: Me, spin_wait: &SpinWait, deadline: Deadline) -> Result<Acquired, Refused> {
        RawMutex::lock(self, me, spin_wait, deadline)
    }

    fn is_free(&self) -> bool {
        self.owner().is_none()
    }
}
