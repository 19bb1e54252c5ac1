//! A state as a wait set sees it: has one who follows it something to be told? By shared words, from any thread.

use std::sync::Arc;

use super::Shared;
use super::bytes::BytesWatch;
use super::state::StateWatch;
use super::wait::{Look, Told};
use crate::liveness::{Registry, TokenId};
use crate::sys::futex::Watch;
use crate::wake::EventCount;
use crate::wake::WaitWords;

/// See the file's head. It keeps the state mapped.
#[derive(Clone)]
pub(crate) struct Outlook {
    shared: Arc<Shared>,
    told: Arc<Told>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum News {
    Value,
    WriterDied,
    /// Nothing. That thread's or process's end would make it worth another look.
    Nothing(Option<TokenId>),
}

impl BytesWatch {
    /// For a wait set.
    pub(crate) fn outlook(&self) -> Outlook {
        Outlook { shared: Arc::clone(&self.shared), told: Arc::clone(&self.told) }
    }
}

impl StateWatch {
    /// For a wait set.
    pub(crate) fn outlook(&self) -> Outlook {
        self.bytes.outlook()
    }
}

impl Outlook {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.shared.registry
    }

    /// What the writer notifies.
    pub(crate) fn changes(&self) -> &EventCount {
        &self.shared.buffers.head().changes
    }

    pub(crate) fn look(&self) -> News {
        match self.shared.look(&self.told) {
            Look::Value(_) => News::Value,
            Look::Died(..) => News::WriterDied,
            Look::Nothing(standing) => News::Nothing(standing.watched()),
        }
    }

    /// Adds the words to sleep on, `changes` among them. What was asked of who comes.
    pub(crate) fn add_to<'a>(&'a self, changes: Watch<'a>, words: &mut WaitWords<'a>) -> Option<u32> {
        self.shared.role().add_to(changes, words)
    }

    /// After a sleep on them.
    pub(crate) fn woken(&self, asked: u32) {
        self.shared.role().woken(asked);
    }
}
