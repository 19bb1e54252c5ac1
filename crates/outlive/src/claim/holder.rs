//! The holder of a lock or another claim, for inspection.

use crate::liveness::{Peer, Registry, TokenId};

/// Describes the thread or process that holds something: a lock, a permit, a seat, a role, an end
/// of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The token that the claim names.
    pub token: TokenId,
    /// Its process, as a pid of its own pid namespace; 0 if that is no longer known.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its program.
    pub program: String,
    /// Whether it lives. What a dead one holds, the next user takes over.
    pub alive: bool,
}

impl Holder {
    pub(crate) fn of(registry: &'static Registry, token: TokenId) -> Holder {
        let peer = Peer::new(registry, token);
        let info = peer.info();
        Holder {
            token,
            pid: info.as_ref().map_or(0, |i| i.pid),
            tid: info.as_ref().map_or(0, |i| i.tid),
            program: info.map_or_else(String::new, |i| i.program),
            alive: peer.is_alive(),
        }
    }
}
