//! Somebody else's token where loom runs the protocols.

use super::id::TokenId;
use super::registry::Registry;
use super::wait::sleep;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

pub(crate) struct TokenInfo {
    pub(crate) pid: u32,
}

pub(crate) enum WaitError {
    TimedOut,
    System(Error),
}

pub(crate) struct Peer<'r> {
    registry: &'r Registry,
    id: TokenId,
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

    pub(crate) fn wait_dead(&self, deadline: Deadline) -> Result<(), WaitError> {
        let me = self.registry.me().map_err(WaitError::System)?;
        let pass = WakeRelay::begin(me.list());
        while self.is_alive() {
            sleep(self.registry, &pass, &[], Some(self.id), deadline).map_err(|_| WaitError::TimedOut)?;
        }
        Ok(())
    }
}
