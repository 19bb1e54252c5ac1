//! Who holds something, for those who look.

use crate::liveness::{Peer, Registry, TokenId};

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The token that the lock names.
    pub token: TokenId,
    /// Its process, in that process's pid namespace; 0 when no longer known.
    pub pid: u32,
    /// Its thread.
    pub tid: u32,
    /// Its program.
    pub program: String,
    /// Whether it lives: a dead holder's lock is taken over by the next to lock.
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
