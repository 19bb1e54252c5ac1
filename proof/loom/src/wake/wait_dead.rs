//! Waiting for the end of another thread where loom runs the protocols.

use super::sleep::Sleep;
use crate::liveness::Peer;
use crate::sys::robust::WakeRelay;
use crate::{Deadline, Error};

pub(crate) enum WaitError {
    TimedOut,
    System(Error),
}

impl Peer<'_> {
    pub(crate) fn wait_dead_until(&self, deadline: Deadline) -> Result<(), WaitError> {
        let me = self.registry.me().map_err(WaitError::System)?;
        let relay = WakeRelay::begin(me.list());
        while self.is_alive() {
            let slept = Sleep::on(self.registry, &[]).behind(&relay, &[self.id]).until(deadline);
            slept.map_err(|_| WaitError::TimedOut)?;
        }
        Ok(())
    }
}
