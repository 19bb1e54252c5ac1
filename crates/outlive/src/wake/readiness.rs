//! What a wait set asks of each source that it waits for.
//!
//! Each kind has a file `readiness.rs`: a type that implements [`Waited`] by shared words alone,
//! and [`Source`] for the user's handle. doc/protocols/wait_set.md says what the words must do.

use std::sync::Arc;

use super::event_count::{EventCount, Ticket};
use super::rung_count::RungEventCount;
use super::wait_list::WaitWords;
use crate::liveness::{Registry, TokenId};
use crate::{Deadline, Error};

/// Lets a [`WaitSet`](crate::wait::WaitSet) wait for this type.
///
/// A source outlives the handle that it was made from: a set goes on reporting a queue whose
/// receiver has been dropped, until the queue is removed.
pub trait Source {
    /// Returns what the set keeps of the source.
    ///
    /// # Errors
    /// The error that keeps it from being waited for.
    #[doc(hidden)]
    fn watched(&self) -> Result<Watched, Error>;
}

/// Holds what a set keeps of a source.
#[derive(Clone)]
pub struct Watched {
    pub(crate) waited: Arc<dyn Waited>,
    /// The registry of the tokens that it names; `None` for a timer.
    pub(crate) registry: Option<&'static Registry>,
}

/// For bindings, which add what they were given.
impl Source for Watched {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(self.clone())
    }
}

impl Watched {
    pub(crate) fn of(waited: impl Waited + 'static, registry: &'static Registry) -> Watched {
        Watched { waited: Arc::new(waited), registry: Some(registry) }
    }
}

/// Says what is ready about a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readiness {
    /// A receive is worth a try.
    Readable,
    /// The peer, all senders of a queue, or the writer of a state have ended; no client waits for a
    /// reply; no living process has the role that this one stands by for.
    Ended,
    /// The state has another value; the topic has other publishers or subscribers, or one of them is
    /// not lively, is so again, or has died.
    Changed,
    /// A publish is worth a try; so is a part of a request, or a reply of a stream.
    Writable,
    /// The bits are set; the latch is open.
    Set,
    /// The timer's moment has passed.
    Elapsed,
    /// The subscriber has got no message, or the publisher has published none, for its period.
    Missed,
}

/// What a look at a source finds: it is ready, or what a sleep stands on beside its words. Both come of
/// one reading, so an owner that has died in between is in neither of two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceState {
    Ready(Readiness),
    /// Not ready. The process that makes it ready wakes one of its words.
    Waiting,
    /// Not ready; the end of that owner would also call for another look.
    BehindOwner(TokenId),
    /// Not ready before that moment; the end of any of these owners would also call for another look.
    BehindOwners(Vec<TokenId>, Deadline),
    /// Not ready before that moment.
    NotBefore(Deadline),
}

impl SourceState {
    pub(crate) fn behind(owner: Option<TokenId>) -> SourceState {
        owner.map_or(SourceState::Waiting, SourceState::BehindOwner)
    }

    /// Returns the owners whose end calls for another look.
    pub(crate) fn owners(&self) -> &[TokenId] {
        match self {
            SourceState::BehindOwner(owner) => core::slice::from_ref(owner),
            SourceState::BehindOwners(owners, _) => owners,
            SourceState::Ready(_) | SourceState::Waiting | SourceState::NotBefore(_) => &[],
        }
    }

    /// Returns the moment that calls for another look.
    pub(crate) fn until(&self) -> Deadline {
        match self {
            SourceState::NotBefore(moment) | SourceState::BehindOwners(_, moment) => *moment,
            SourceState::Ready(_) | SourceState::Waiting | SourceState::BehindOwner(_) => {
                Deadline::NEVER
            }
        }
    }
}

/// How a set has prepared its wait for a source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PreparedWait {
    /// Whether it has made a fence of its own since it first prepared a wait on the source's
    /// eventcount.
    made: bool,
    /// The ticket of that wait.
    pub(crate) ticket: Ticket,
    /// What it asked of the next process to take a role.
    pub(crate) asked: Option<u32>,
}

impl PreparedWait {
    /// Returns a wait that has been prepared, with its fence.
    pub(crate) fn of(ticket: Ticket) -> PreparedWait {
        PreparedWait { made: true, ticket, asked: None }
    }

    /// Prepares a wait, unless the one before still stands. Returns whether a fence must follow: at
    /// least the first time, for a source that has also told notifiers something else.
    pub(crate) fn prepare(&mut self, count: &EventCount) -> bool {
        if self.made && !count.is_notified(self.ticket) {
            return !self.ticket.is_fenced();
        }
        self.prepare_anew(count)
    }

    /// Prepares a wait, also if the one before seems to stand: a notifier may be about to clear it.
    /// Returns whether a fence must follow.
    pub(crate) fn prepare_anew(&mut self, count: &EventCount) -> bool {
        self.ticket = count.announce();
        // Where the kernel has denied the first fence, another process's does not replace it: that
        // one says that notifiers see the number, not what else the source has told them.
        !self.made || !self.ticket.is_fenced()
    }

    /// Notes that the set has made a heavy fence since it prepared this wait.
    pub(crate) fn note_fence(&mut self, count: &EventCount) {
        self.made = true;
        count.note_fence(&mut self.ticket);
    }
}

/// A source, as its set sees it. Any thread may look at it, by shared words alone.
pub(crate) trait Waited: Send + Sync {
    /// Looks whether it is ready: without a fence, and as a rule without a system call. The owners that
    /// it names are those on whose life the answer stands: one that has died by then is among them, or
    /// what its death means is in the answer.
    fn look(&self) -> SourceState;

    /// Returns whether a look finds it ready, for a spin, which does not ask what that stands on.
    fn is_ready(&self) -> bool {
        matches!(self.look(), SourceState::Ready(_))
    }

    /// Returns the eventcount that the process that makes it ready notifies: the set prepares a
    /// wait there, and looks again behind a fence.
    fn event_count(&self) -> Option<&EventCount> {
        None
    }

    /// Returns the same eventcount, if its notifiers raise the doorbell of a large set; all that
    /// makes the source ready is in its notifications then, and in the ends that a look names.
    fn rung_count(&self) -> Option<&RungEventCount> {
        None
    }

    /// Adds the words to sleep on.
    fn add_words<'a>(&'a self, _prepared: &mut PreparedWait, _words: &mut WaitWords<'a>) {}

    /// Returns whether the set needs a recheck (recheck.rs), asked after the words: the process
    /// that makes it ready may be stopped before it notifies, and the set does not watch its end.
    fn needs_recheck(&self, _prepared: &PreparedWait) -> bool {
        false
    }

    /// Wakes other sleepers where a woken sleeper must, after a sleep on the words.
    fn woken(&self, _prepared: &PreparedWait) {}
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_fence_is_owed_until_it_is_made() {
        let count = EventCount::default();
        let mut prepared = PreparedWait::default();
        // As where the kernel denies it to this process alone, and another one makes its own.
        assert!(prepared.prepare_anew(&count));
        let mut other = count.announce();
        count.note_fence(&mut other);
        assert!(prepared.prepare_anew(&count), "not by this process");
        assert!(prepared.ticket.is_fenced());
        prepared.note_fence(&count);
        assert!(!prepared.prepare_anew(&count));
        assert!(!prepared.prepare(&count));
    }
}
