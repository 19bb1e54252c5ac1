//! Liveness: slots that the test makes, and the library's own look at them.

#[path = "../../../crates/outlive/src/liveness/doorbell.rs"]
mod doorbell;
mod exit;
#[path = "../../../crates/outlive/src/liveness/id.rs"]
mod id;
#[cfg(test)]
mod litmus;
mod peer;
mod registry;
#[path = "../../../crates/outlive/src/liveness/slot.rs"]
mod slot;
mod slot_words;

pub(crate) use doorbell::{BITS, ClaimedDoorbell, Registration};
pub(crate) use exit::{End, Ends};
pub use id::TokenId;
pub(crate) use id::WAITERS;
pub(crate) use peer::Peer;
pub(crate) use registry::{Registry, become_thread};
pub(crate) use slot::{OWN_RELAY, SHARED_RELAY, Slot};

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
