//! What a set asks of each thing that it waits for.
//!
//! To add a kind of source: a type that implements [`Waited`] by shared words alone, and [`Source`] for what the user has in
//! hand. doc/protocols/wait_set.md says what its words must do.

use std::sync::Arc;

use crate::liveness::{Registry, TokenId};
use crate::wake::WaitWords;
use crate::wake::{EventCount, Ticket};
use crate::{Deadline, Error};

/// Something that a [`WaitSet`](super::WaitSet) can wait for.
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
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Ready(Readiness),
    /// Nothing. Whoever makes it ready wakes one of its words.
    Nothing,
    /// Nothing. That owner's end would be worth another look as well.
    Owner(TokenId),
    /// Nothing. The end of any of those whom [`Waited::owners`] names would be worth another look as well.
    Several,
    /// Nothing before that moment.
    At(Deadline),
}

/// How a set has announced itself to a source.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Announced {
    /// Whether it has at all to its eventcount.
    made: bool,
    /// Of that.
    pub(crate) ticket: Ticket,
    /// What was asked of whoever takes a role.
    pub(crate) asked: Option<u32>,
}

impl Announced {
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
    fn look(&self) -> Look;

    /// Whose ends would make it worth another look, after a look that says so.
    fn owners(&self, _into: &mut Vec<TokenId>) {}

    /// What whoever makes it ready notifies: the set prepares a wait there, and looks again behind a fence.
    fn event_count(&self) -> Option<&EventCount> {
        None
    }

    /// Adds the words to sleep on.
    fn add_words<'a>(&'a self, _announced: &mut Announced, _words: &mut WaitWords<'a>) {}

    /// Whether the set looks by itself now and then (wake/recheck.rs), after the words: whoever makes it ready may be stopped before it
    /// notifies, and nobody watches its end.
    fn needs_recheck(&self, _announced: &Announced) -> bool {
        false
    }

    /// After a sleep on them: what one who woke owes the others.
    fn woken(&self, _announced: &Announced) {}
}
