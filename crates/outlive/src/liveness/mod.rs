//! Floor 3: who lives, at the price of a load.
//!
//! A *token* stands for a thread (or a process): a slot of the domain's registry whose libc robust mutex the thread
//! holds until it ends. When it ends for whatever reason, the kernel marks the mutex's word. Every claim in shared
//! memory is a [`TokenId`], so whoever finds a claim can ask whether its owner lives. doc/protocols/token.md has the
//! whole argument.

#[cfg(not(loom))]
mod claim;
mod id;
#[cfg(all(test, loom))]
mod litmus;
#[cfg(not(loom))]
mod many;
mod net;
#[cfg(not(loom))]
mod note;
mod patience;
#[cfg(not(loom))]
mod peer;
#[cfg(loom)]
#[path = "peer_model.rs"]
mod peer;
#[cfg(not(loom))]
mod process_token;
#[cfg(not(loom))]
mod registry;
#[cfg(loom)]
#[path = "registry_model.rs"]
mod registry;
mod role;
mod slot;
#[cfg(not(loom))]
mod thread;
mod wait;

pub use id::TokenId;
pub(crate) use id::WAITERS;
#[cfg(not(loom))]
pub(crate) use many::{Many, Words};
pub(crate) use net::Net;
#[cfg(not(loom))]
pub(crate) use note::{Note, Noted};
pub(crate) use patience::Patience;
pub use patience::Wait;
#[cfg(not(loom))]
pub use peer::{Peer, TokenInfo, TokenKind, WaitError};
#[cfg(loom)]
pub(crate) use peer::{Peer, WaitError};
pub(crate) use registry::Registry;
#[cfg(loom)]
pub(crate) use registry::become_thread;
pub(crate) use role::{NoRole, ROLE_DIED, Role, RoleWords, Standing, sweep_role};
#[cfg(loom)]
pub(crate) use slot::Slot;
#[cfg(not(loom))]
pub(crate) use thread::Me;
pub(crate) use wait::{Asleep, MOST_OWNERS, sleep, sleep_among, sleep_on, sleep_on_several, sleep_until_it_comes};

/// The thread inside a protocol: its token and where its robust list begins.
#[cfg(loom)]
#[derive(Clone, Copy)]
pub(crate) struct Me<'r> {
    pub(crate) registry: &'r Registry,
    pub(crate) id: TokenId,
    pub(crate) list: *mut crate::sys::robust::ListHead,
}

#[cfg(loom)]
impl Me<'_> {
    pub(crate) fn is_alive(self, id: TokenId) -> bool {
        id == self.id || self.registry.is_alive(id)
    }

    pub(crate) fn list(self) -> *mut crate::sys::robust::ListHead {
        self.list
    }
}
