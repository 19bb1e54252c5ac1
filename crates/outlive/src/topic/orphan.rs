//! What is left of a subscriber that was dropped before its samples.

use std::sync::{Arc, Mutex, PoisonError};

use super::control::OwnSlot;
use super::mapping::Inner;
use super::sample_cache::SampleCache;
use super::subscriber_slot;
use crate::sys::identity;

/// What a subscriber has left that was dropped while samples of it are held.
///
/// A sample's drop costs two stores and does not know whether its subscriber is still there: it can
/// neither release the slot nor unmap the file nor free the records. To do so, each drop would have
/// to count. The process's next subscriber does it, when it is made or dropped.
pub(super) struct Orphan {
    /// The slot, whose hazard pointers hold objects, and its mapping.
    pub(super) holding: Option<(Arc<Inner>, Arc<OwnSlot>)>,
    pub(super) owner: u64,
    pub(super) sample_cache: SampleCache,
}

static ORPHANS: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

impl Orphan {
    /// Releases what no sample needs any more; returns whether that is all.
    fn is_released(&mut self) -> bool {
        // In a forked child it is the parent's, and copies of those samples may still be read.
        if identity::this_process() != Ok(self.owner) {
            return false;
        }
        if let Some((inner, slot)) = &self.holding
            && subscriber_slot::let_go_if_unused(inner.own_words(slot))
        {
            self.holding = None;
        }
        self.holding.is_none() && self.sample_cache.is_unused()
    }
}

/// Releases those whose samples have been dropped.
pub(super) fn look_after_all() {
    // As with malloc: a child forked while a thread is in here must not come here before exec.
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|orphan| !orphan.is_released());
}

/// Releases what no sample needs of a subscriber that is dropped, and keeps the rest for later.
pub(super) fn leave(mut orphan: Orphan) {
    if !orphan.is_released() {
        ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(orphan);
    }
    look_after_all();
}
