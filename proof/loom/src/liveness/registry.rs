//! The registry where loom can see it: slots that the test makes, no clock, no recheck.

use std::path::Path;
use std::time::Duration;

use super::Me;
use super::id::TokenId;
use super::slot::Slot;
use crate::Error;
use crate::shim::AtomicU32;

loom::thread_local! {
    /// Which thread the calling thread is, as the test says: (thread's token, process's token,
    /// robust list).
    static ME: std::cell::Cell<Option<(TokenId, TokenId, *mut crate::sys::robust::ListHead)>> = std::cell::Cell::new(None);
}

/// From now on the calling thread is that one.
pub(crate) fn become_thread(
    thread: TokenId,
    process: TokenId,
    list: *mut crate::sys::robust::ListHead,
) {
    ME.with(|me| me.set(Some((thread, process, list))));
}

pub(crate) struct Registry {
    pub(crate) slots: Vec<Slot>,
    relay: AtomicU32,
}

impl Registry {
    pub(crate) fn new(slots: Vec<Slot>) -> Registry {
        Registry { slots, relay: AtomicU32::new(0) }
    }

    pub(crate) fn relay(&self) -> &AtomicU32 {
        &self.relay
    }

    pub(crate) fn wake_behind_shared_relay(&self) {
        self.slots.iter().for_each(Slot::wake_behind_shared_relay);
    }

    pub(crate) fn slot(&self, id: TokenId) -> Option<&Slot> {
        self.slots.get(id.slot() as usize)
    }

    pub(crate) fn is_alive(&self, id: TokenId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_alive(id))
    }

    pub(crate) fn me(&self) -> Result<Me<'_>, Error> {
        let (id, _, list) = ME.with(std::cell::Cell::get).expect("the test says who is who");
        Ok(Me { registry: self, id, list })
    }

    pub(crate) fn process_token(&self) -> Result<TokenId, Error> {
        Ok(ME.with(std::cell::Cell::get).expect("the test says who is who").1)
    }

    pub(crate) fn process_token_if_any(&self) -> Option<TokenId> {
        self.process_token().ok()
    }

    pub(crate) fn path(&self) -> &Path {
        Path::new("loom")
    }

    pub(crate) fn recheck(&self) -> Option<Duration> {
        None
    }

    /// No set has one here.
    pub(crate) fn doorbells(&self) -> &[super::doorbell::Doorbell] {
        &[]
    }

    pub(crate) fn count_rescue(&self) {}

    pub(crate) fn count_owner_death(&self) {}

    pub(crate) fn retire_if_gone(&self, _owner: TokenId) {}
}
