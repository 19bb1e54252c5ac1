//! What all handles of one opened queue share, and which process receives.

use std::sync::OnceLock;

use super::ring::Ring;
use super::spare::Spare;
use crate::claim::{Role, RoleState, Standing};
use crate::liveness::Registry;
use crate::segment::Segment;
use crate::wake::SpinWait;
use crate::{Deadline, SendError};

/// Returns how many bytes of another layer's words exist that begin there.
pub(crate) type AnnexBytes = fn(&Segment, u64) -> u64;

/// See the file's head.
pub(crate) struct Inner {
    pub(super) ring: Ring,
    pub(super) registry: &'static Registry,
    pub(super) spin_wait: SpinWait,
    pub(super) need_receiver: bool,
    /// While the receiver is dead, messages are kept for the next one.
    pub(super) keeps: bool,
    /// How much of the annex exists, if another layer has words there.
    pub(super) annex_bytes: OnceLock<AnnexBytes>,
    /// Memory of long messages, for the next one.
    pub(super) spare: Spare,
}

impl Inner {
    /// Waits a moment without sleeping, if there is time to wait; returns whether `done` did.
    #[cold]
    pub(super) fn spin(&self, deadline: Option<Deadline>, done: impl FnMut() -> bool) -> bool {
        deadline.is_some_and(|deadline| self.spin_wait.spin_until(deadline, done))
    }

    /// Wakes the receiver and the sets that wait for messages.
    #[inline]
    pub(super) fn notify_receiver(&self) {
        self.ring.head().messages.notify_all(|| self.registry);
    }

    /// The receiver's role (claim/role.rs).
    #[inline]
    pub(super) fn role(&self) -> Role<'_> {
        let head = self.ring.head();
        let (holder, inside, relay) = (&head.receiver, &head.inside, &head.relay);
        Role { holder, inside, relay, registry: self.registry }
    }

    /// Checks that there is a receiver, or that messages may wait for one.
    ///
    /// A dead receiver's last thread may still be receiving; the senders are told at once all the
    /// same.
    #[inline]
    pub(super) fn check_receiver(&self) -> Result<(), SendError> {
        if self.role().standing_of_process().is_living() {
            return Ok(());
        }
        self.receiver().map(drop)
    }

    /// Returns who receives at the moment, as [`Inner::check_receiver`] judges it. In a queue that
    /// keeps messages for the next receiver, the last thread of a dead one counts as living: it may
    /// still give a slot back, and a sender that waits for room watches its end.
    #[cold]
    pub(super) fn receiver(&self) -> Result<Standing, SendError> {
        let standing = self.role().standing_of_process();
        match standing.state {
            RoleState::Nobody if self.need_receiver => Err(SendError::NoReceiver),
            RoleState::Dead if standing.is_damaged() => {
                Err(SendError::Damaged(self.ring.segment.damaged("the receiver's word")))
            }
            RoleState::Dead if self.keeps => Ok(self.role().standing()),
            RoleState::Dead => Err(SendError::ReceiverDied),
            RoleState::Nobody | RoleState::Living(_) => Ok(standing),
        }
    }
}
