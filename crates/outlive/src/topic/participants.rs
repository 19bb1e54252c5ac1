//! Participants: which processes join, leave and die.
//!
//! | event | a watcher |
//! | --- | --- |
//! | a participant joins, or leaves in order | `changes` + 1, wake all |
//! | a participant dies | sleeps on the ends of all participants that it was told of |
//! | a participant joins, and dies before `changes` + 1 | has seen it, and watches its end; or has not, and then nothing has changed |
//!
//! The watcher reads `changes` first, then which participants there are: one that joins after that
//! look raises `changes`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::mapping::Inner;
use super::publisher::Publisher;
use super::subscriber::Subscriber;
use super::{ring, subscriber_slot};
use crate::Payload;
use crate::liveness::Registry;
use crate::shim::Ordering;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{
    Asleep, PreparedWait, Readiness, Sleep, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error, TokenId};

/// The publishers and subscribers of a topic at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participants {
    /// The processes that publish, one for each publisher.
    pub publishers: Vec<TokenId>,
    /// The processes that subscribe, one for each subscriber.
    pub subscribers: Vec<TokenId>,
    /// Whether there has been a first look.
    known: bool,
}

/// Which side of the topic a watcher follows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Both,
    Publishers,
    Subscribers,
}

impl Side {
    fn present(self, inner: &Inner) -> Participants {
        let publishers =
            if self == Side::Subscribers { Vec::new() } else { ring::living(inner).collect() };
        let subscribers = if self == Side::Publishers {
            Vec::new()
        } else {
            subscriber_slot::living(inner).collect()
        };
        Participants { publishers, subscribers, known: true }
    }
}

impl Participants {
    fn owners(&self) -> Vec<TokenId> {
        self.publishers.iter().chain(&self.subscribers).copied().collect()
    }
}

/// Waits until the participants differ from those that were seen. False: the deadline has passed.
fn wait_change(
    inner: &Inner,
    side: Side,
    seen: &mut Participants,
    deadline: Deadline,
) -> Result<bool, Error> {
    let me = inner.registry.me()?;
    let changes = &inner.shared().changes;
    let relay = WakeRelay::begin(me.list());
    let mut start = 0;
    loop {
        // Acquire: the look sees each participant that has joined.
        let count = changes.load(Ordering::Acquire);
        let now = side.present(inner);
        if now != *seen {
            *seen = now;
            return Ok(true);
        }
        if deadline.has_passed() {
            return Ok(false);
        }
        let mut owners = now.owners();
        owners.sort_unstable_by_key(|id| id.as_u32());
        owners.dedup();
        let words = [Watch { word: changes, expected: count }];
        let slept = Sleep::on(inner.registry, &words)
            .behind(&relay, &owners)
            .beginning_at(start)
            .until(deadline);
        start = start.wrapping_add(1);
        let (Asleep::LookAgain | Asleep::TimedOut) =
            slept.map_err(|errno| Error::from_errno("watch", inner.segment.path(), errno))?;
    }
}

/// Follows which processes publish to a topic and which subscribe, and reports each change that it
/// sees, deaths at once. It is made by [`Topic::watch`](super::Topic::watch),
/// [`Publisher::watch_subscribers`] and [`Subscriber::watch_publishers`].
///
/// It keeps the topic open, and counts as neither publisher nor subscriber.
///
/// # If a process dies
/// A death is one of the changes that it reports.
pub struct Presence(Followed);

/// What a [`Presence`] follows, as it and its wait sets see it. It keeps the topic mapped.
#[derive(Clone)]
pub(crate) struct Followed {
    inner: Arc<Inner>,
    side: Side,
    told: Arc<Mutex<Participants>>,
}

impl Followed {
    fn told(&self) -> MutexGuard<'_, Participants> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }
}

impl Presence {
    pub(super) fn new(inner: Arc<Inner>, side: Side) -> Presence {
        Presence(Followed { inner, side, told: Arc::default() })
    }

    /// Waits until the participants differ from the last report, and returns them. The first call
    /// returns at once.
    ///
    /// # Errors
    /// [`Error::NoToken`] and errors of the system.
    ///
    /// # If a process dies
    /// The death of a participant is a change: the call returns at once.
    pub fn changed(&mut self) -> Result<Participants, Error> {
        Deadline::never(|deadline| self.changed_until(deadline))
    }

    /// Returns the present participants if they have changed since the last report. Never waits.
    ///
    /// # Errors
    /// The errors of [`Presence::changed`].
    ///
    /// # If a process dies
    /// The death of a participant is a change.
    pub fn try_changed(&mut self) -> Result<Option<Participants>, Error> {
        let now = self.0.side.present(&self.0.inner);
        let mut told = self.0.told();
        if now == *told {
            return Ok(None);
        }
        told.clone_from(&now);
        Ok(Some(now))
    }

    /// Waits until the participants differ from the last report, as long as `span` at most; `None`
    /// when that has passed.
    ///
    /// # Errors
    /// The errors of [`Presence::changed`].
    ///
    /// # If a process dies
    /// The same as with [`Presence::changed`].
    pub fn changed_timeout(&mut self, span: Duration) -> Result<Option<Participants>, Error> {
        self.changed_until(Deadline::after(span))
    }

    /// Waits until the participants differ from the last report, until the deadline at most; `None`
    /// when that has passed.
    ///
    /// # Errors
    /// The errors of [`Presence::changed`].
    ///
    /// # If a process dies
    /// The same as with [`Presence::changed`].
    pub fn changed_until(&mut self, deadline: Deadline) -> Result<Option<Participants>, Error> {
        let mut seen = self.0.told().clone();
        if !wait_change(&self.0.inner, self.0.side, &mut seen, deadline)? {
            return Ok(None);
        }
        self.0.told().clone_from(&seen);
        Ok(Some(seen))
    }

    pub(crate) fn readiness(&self) -> Followed {
        self.0.clone()
    }
}

impl Waited for Followed {
    fn look(&self) -> SourceState {
        let now = self.side.present(&self.inner);
        match now != *self.told() {
            true => SourceState::Ready(Readiness::Changed),
            // The participants that this look has found alive. The sleep finds one that has died since.
            false => SourceState::BehindOwners(now.owners(), Deadline::NEVER),
        }
    }

    /// A process that joins or leaves may be stopped between the two steps of that, and no waiter
    /// watches it.
    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }

    fn add_words<'a>(&'a self, _: &mut PreparedWait, words: &mut WaitWords<'a>) {
        // A process that joins or leaves raises it, and wakes whether any thread is asleep or not.
        // Acquire: the look sees a process that has joined.
        let changes = &self.inner.shared().changes;
        words.add(&[Watch { word: changes, expected: changes.load(Ordering::Acquire) }]);
    }
}

/// Ready when the participants differ from the last report, until [`Presence::try_changed`] has
/// returned them.
impl Source for Presence {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.readiness(), self.0.registry()))
    }
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Follows which processes subscribe: see [`Topic::watch`](super::Topic::watch).
    #[must_use]
    pub fn watch_subscribers(&self) -> Presence {
        Presence::new(Arc::clone(&self.inner), Side::Subscribers)
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Follows which processes publish: see [`Topic::watch`](super::Topic::watch).
    #[must_use]
    pub fn watch_publishers(&self) -> Presence {
        Presence::new(Arc::clone(&self.inner), Side::Publishers)
    }
}
