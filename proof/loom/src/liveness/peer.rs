//! Another thread's token where loom runs the protocols.

use super::id::TokenId;
use super::registry::Registry;

pub(crate) struct TokenInfo {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) program: String,
}

pub(crate) struct Peer<'r> {
    pub(crate) registry: &'r Registry,
    pub(crate) id: TokenId,
}

impl<'r> Peer<'r> {
    pub(crate) fn new(registry: &'r Registry, id: TokenId) -> Peer<'r> {
        Peer { registry, id }
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.registry.is_alive(self.id)
    }

    pub(crate) fn info(&self) -> Option<TokenInfo> {
        None
    }
}
