//! Who lives: slots that the test makes, and the library's own look at them.

mod exit;
#[path = "../../../crates/outlive/src/liveness/id.rs"]
mod id;
#[cfg(test)]
mod litmus;
mod peer;
#[path = "../../../crates/outlive/src/liveness/recheck.rs"]
mod recheck;
mod registry;
#[path = "../../../crates/outlive/src/liveness/role.rs"]
mod role;
#[path = "../../../crates/outlive/src/liveness/slot.rs"]
mod slot;
mod slot_words;
mod strategy;
#[path = "../../../crates/outlive/src/liveness/wait.rs"]
mod wait;
mod wait_record;
mod words;

pub(crate) use exit::{End, Ends};
pub use id::TokenId;
pub(crate) use id::WAITERS;
pub(crate) use peer::{Peer, WaitError};
pub(crate) use recheck::Recheck;
pub(crate) use registry::{Registry, become_thread};
pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
pub(crate) use slot::Slot;
pub(crate) use strategy::SpinWait;
pub use strategy::WaitStrategy;
pub(crate) use wait::{Asleep, MOST_OWNERS, sleep, sleep_among, sleep_on, sleep_on_several, sleep_until_it_comes};
pub(crate) use words::WaitWords;

/// The thread inside a protocol: its token and where its robust list begins.
#[derive(Clone, Copy)]
pub(crate) struct Me<'r> {
    pub(crate) registry: &'r Registry,
    pub(crate) id: TokenId,
    pub(crate) list: *mut crate::sys::robust::ListHead,
}

impl Me<'_> {
    pub(crate) fn is_alive(self, id: TokenId) -> bool {
        id == self.id || self.registry.is_alive(id)
    }

    pub(crate) fn list(self) -> *mut crate::sys::robust::ListHead {
        self.list
    }
}
