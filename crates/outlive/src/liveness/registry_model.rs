//! The registry where loom can see it: slots that the test makes, no clock, no re-check.

use super::id::TokenId;
use super::slot::Slot;
use std::time::Duration;

pub(crate) struct Registry {
    pub(crate) slots: Vec<Slot>,
}

impl Registry {
    pub(crate) fn slot(&self, id: TokenId) -> Option<&Slot> {
        self.slots.get(id.slot() as usize)
    }

    pub(crate) fn is_alive(&self, id: TokenId) -> bool {
        self.slot(id).is_some_and(|slot| slot.is_alive(id))
    }

    pub(crate) fn recheck(&self) -> Option<Duration> {
        None
    }

    pub(crate) fn count_rescue(&self) {}

    pub(crate) fn count_owner_death(&self) {}

    pub(crate) fn confirm(&self, _owner: TokenId) {}
}
