//! Peers as sources: the end of a thread or a process.

use std::sync::Arc;

use super::source::{Look, Readiness, Source, Waited, Watched};
use crate::{Error, Peer};

/// Ready when its owner has ended.
impl Source for Peer {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched { waited: Arc::new(*self), registry: Some(self.registry()) })
    }
}

impl Waited for Peer {
    fn look(&self) -> Look {
        // By the slot, as the sleep does: were the two to differ, which takes a stray write, this would never end.
        if self.registry().is_alive(self.id()) { Look::Owner(self.id()) } else { Look::Ready(Readiness::Ended) }
    }
}
