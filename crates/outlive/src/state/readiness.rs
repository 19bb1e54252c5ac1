//! A state as a wait set sees it: has one who follows it something to be told? By shared words, from any thread.

use std::sync::Arc;

use super::Inner;
use super::bytes::BytesWatch;
use super::state::StateWatch;
use super::wait::{Told, Untold};
use crate::liveness::{Registry, TokenId};
use crate::sys::futex::Watch;
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// See the file's head. It keeps the state mapped.
#[derive(Clone)]
pub(crate) struct StateReadiness {
    inner: Arc<Inner>,
    told: Arc<Told>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateNews {
    Value,
    WriterDied,
    /// Nothing. That thread's or process's end would make it worth another look.
    Nothing(Option<TokenId>),
}

impl BytesWatch {
    /// For a wait set.
    pub(crate) fn readiness(&self) -> StateReadiness {
        StateReadiness { inner: Arc::clone(&self.inner), told: Arc::clone(&self.told) }
    }
}

impl StateWatch {
    /// For a wait set.
    pub(crate) fn readiness(&self) -> StateReadiness {
        self.bytes.readiness()
    }
}

impl StateReadiness {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// What the writer notifies.
    pub(crate) fn changes(&self) -> &EventCount {
        &self.inner.buffers.head().changes
    }

    pub(crate) fn look(&self) -> StateNews {
        match self.inner.look(&self.told) {
            Untold::Value(_) => StateNews::Value,
            Untold::Died(..) => StateNews::WriterDied,
            Untold::Nothing(standing) => StateNews::Nothing(standing.watched()),
        }
    }

    /// Adds the words to sleep on, `changes` among them. What was asked of who comes.
    pub(crate) fn add_to<'a>(&'a self, changes: Watch<'a>, words: &mut WaitWords<'a>) -> Option<u32> {
        self.inner.role().add_to(changes, words)
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, asked: u32) {
        self.inner.role().woken(asked);
    }
}
