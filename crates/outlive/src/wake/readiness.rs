//! What a wait set asks of each thing that it waits for.
//!
//! Each kind has a file `readiness.rs`: a type that implements [`Waited`] by shared words alone, and [`Source`] for what the
//! user has in hand. doc/protocols/wait_set.md says what its words must do.

use std::sync::Arc;

use super::event_count::{EventCount, Ticket};
use super::wait_list::WaitWords;
use crate::liveness::{Registry, TokenId};
use crate::{Deadline, Error};

/// Something that a [`WaitSet`](crate::wait::WaitSet) can wait for.
///
/// A source outlives what it was made from: a set goes on telling of a queue whose receiver has been dropped, until it is
/// removed.
pub trait Source {
    /// What the set keeps of it.
    ///
    /// # Errors
    /// What keeps it from being waited for.
    #[doc(hidden)]
    fn watched(&self) -> Result<Watched, Error>;
}

/// What a set keeps of a source.
#[derive(Clone)]
pub struct Watched {
    pub(crate) waited: Arc<dyn Waited>,
    /// Whose tokens it names; none of a timer.
    pub(crate) registry: Option<&'static Registry>,
}

impl Watched {
    pub(crate) fn of(waited: impl Waited + 'static, registry: &'static Registry) -> Watched {
        Watched { waited: Arc::new(waited), registry: Some(registry) }
    }
}

/// What is ready about a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// A receive is worth a try.
    Readable,
    /// The peer, all senders of a queue, or the writer of a state, have ended.
    Ended,
    /// There is another value; others publish or subscribe.
    Changed,
    /// A publish is worth a try.
    Writable,
    /// The bits are set; the latch is open.
    Set,
    /// The timer's moment has passed.
    Elapsed,
}

/// What a look at a source finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    Ready(Readiness),
    /// Not ready. The process that makes it ready wakes one of its words.
    Waiting,
    /// The same; that owner's end would make it worth another look as well.
    BehindOwner(TokenId),
    /// The same; the end of any of those that [`Waited::owners`] names would.
    BehindOwners,
    /// Not before that moment.
    NotBefore(Deadline),
}

impl SourceState {
    pub(crate) fn behind(owner: Option<TokenId>) -> SourceState {
        owner.map_or(SourceState::Waiting, SourceState::BehindOwner)
    }
}

/// How a set has prepared its wait for a source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PreparedWait {
    /// Whether it has on the source's eventcount.
    made: bool,
    /// Of that.
    pub(crate) ticket: Ticket,
    /// What was asked of the process that takes a role.
    pub(crate) asked: Option<u32>,
}

impl PreparedWait {
    /// Prepares a wait, unless the one before still stands. Whether a fence must follow: the first time at any rate, for a source that
    /// has told notifiers something besides.
    pub(crate) fn prepare(&mut self, count: &EventCount) -> bool {
        if self.made && !count.is_notified(self.ticket) {
            return !self.ticket.is_fenced();
        }
        self.ticket = count.announce();
        !core::mem::replace(&mut self.made, true) || !self.ticket.is_fenced()
    }
}

/// A source, to its set. Looked at from any thread, and by shared words alone.
pub(crate) trait Waited: Send + Sync {
    /// Is it ready? Without a system call, as a rule, and without a fence.
    fn look(&self) -> SourceState;

    /// Whose ends would make it worth another look, after a look that says so.
    fn owners(&self, _into: &mut Vec<TokenId>) {}

    /// What the process that makes it ready notifies: the set prepares a wait there, and looks again behind a fence.
    fn event_count(&self) -> Option<&EventCount> {
        None
    }

    /// Adds the words to sleep on.
    fn add_words<'a>(&'a self, _prepared: &mut PreparedWait, _words: &mut WaitWords<'a>) {}

    /// Whether the set looks by itself now and then (recheck.rs), asked after the words: the process that makes it ready may
    /// be stopped before it notifies, and nobody watches its end.
    fn needs_recheck(&self, _prepared: &PreparedWait) -> bool {
        false
    }

    /// After a sleep on them: what a woken sleeper owes the others.
    fn woken(&self, _prepared: &PreparedWait) {}
}
