//! What the two ends of a call tell the wait sets and tasks of their own process, beside the shared words:
//! what a try goes by, which no shared word may say. After a stray write to `parts` or `ready` a set that
//! counted by those would be ready for ever, while each try fails, or never.
//!
//! A count grows *before* the other side is told of the part or the reply. So a thread that sees that the
//! other side has taken one (Acquire) finds it counted here, if it asks in that order; the counts' own
//! accesses are Relaxed. These words are the process's own: a death leaves nothing of them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use super::begin_readiness::Lack;

/// What a client that sends parts tells those that wait for room.
pub(super) struct ToldParts {
    sent: AtomicU32,
    is_finished: AtomicBool,
    /// What the last try has found of the memory that it needs.
    lack: Mutex<Option<Lack>>,
}

impl ToldParts {
    pub(super) fn of(sent: u32) -> ToldParts {
        let is_finished = AtomicBool::new(false);
        ToldParts { sent: AtomicU32::new(sent), is_finished, lack: Mutex::new(None) }
    }

    /// Tells how many parts are sent: before the server is told.
    pub(super) fn set_sent(&self, sent: u32) {
        self.sent.store(sent, Ordering::Relaxed);
    }

    /// Returns how many parts are sent; to be asked behind how many are taken.
    pub(super) fn sent(&self) -> u32 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn finish(&self) {
        self.is_finished.store(true, Ordering::Release);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.is_finished.load(Ordering::Acquire)
    }

    pub(super) fn note(&self, lack: Option<Lack>) {
        *self.lack.lock().unwrap_or_else(PoisonError::into_inner) = lack;
    }

    pub(super) fn lack(&self) -> Option<Lack> {
        *self.lack.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a server tells those that wait for something of a request.
pub(super) struct ToldReplies {
    answered: AtomicBool,
    /// Of a stream, once room for a reply was asked for.
    written: AtomicU32,
}

impl ToldReplies {
    pub(super) fn of(answered: bool) -> ToldReplies {
        ToldReplies { answered: AtomicBool::new(answered), written: AtomicU32::new(0) }
    }

    pub(super) fn answer(&self) {
        self.answered.store(true, Ordering::Release);
    }

    pub(super) fn is_answered(&self) -> bool {
        self.answered.load(Ordering::Acquire)
    }

    /// Tells how many replies are written: before the client is told.
    pub(super) fn set_written(&self, written: u32) {
        self.written.store(written, Ordering::Relaxed);
    }

    /// Returns how many replies are written; to be asked behind how many are taken.
    pub(super) fn written(&self) -> u32 {
        self.written.load(Ordering::Relaxed)
    }
}
