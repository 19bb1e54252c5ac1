//! Whether a publisher has room for its next message: asked, waited for, and as a source for wait
//! sets. The protocol is in back_pressure.rs.

use core::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::back_pressure::{self, InTheWay, Limits, Owner, Slow, look, look_and_note};
use super::mapping::Inner;
use super::publisher::Publisher;
use crate::claim::Holder;
use crate::liveness::{Me, Registry};
use crate::shim::Ordering;
use crate::wake::{
    EventCount, PreparedWait, Readiness, Source, SourceState, WaitWords, Waited, Watched,
};
use crate::{Deadline, Error, Payload, SendError, TokenId};

impl<M: Payload + ?Sized> Publisher<M> {
    /// Waits until no reliable subscriber is in the way of the next message: this publisher's next
    /// publish does not wait.
    ///
    /// This is for callers that keep their message when they give up waiting: a `publish` that
    /// fails gives a loan back.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-wait-writable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::SendError;
    /// use outlive::topic::{Subscriber, Topic};
    /// use std::time::Duration;
    /// let topic = Topic::<[u8]>::options().depth(1).reliable(true).open_or_create(&domain, "camera")?;
    /// let mut slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish(b"first")?;
    /// let mut loan = publisher.loan(6)?;
    /// loan.copy_from_slice(b"second");
    /// let waited = publisher.wait_writable_timeout(Duration::from_millis(1));
    /// assert!(matches!(waited, Err(SendError::TimedOut { slowest: Some(_) })));
    /// drop(slow.recv()?);
    /// publisher.wait_writable()?;
    /// publisher.publish(loan)?;
    /// assert_eq!(*slow.recv()?, *b"second");
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError::NotOwner`], [`SendError::Damaged`], [`SendError::System`].
    ///
    /// # If a process dies
    /// If the subscriber that it waits for dies, the call goes on at once.
    pub fn wait_writable(&self) -> Result<(), SendError> {
        self.wait_writable_until(Deadline::NEVER)
    }

    /// Returns `Full` if a reliable subscriber is in the way of the next message. Never waits.
    ///
    /// # Errors
    /// The errors of [`Publisher::wait_writable`], and [`SendError::Full`].
    ///
    /// # If a process dies
    /// If the subscriber dies, it is no longer in the way, at once.
    pub fn try_wait_writable(&self) -> Result<(), SendError> {
        self.enter()?;
        self.try_room()
    }

    /// Waits as [`Publisher::wait_writable`] does, as long as `span` at most.
    ///
    /// # Errors
    /// The errors of [`Publisher::wait_writable`], and [`SendError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::wait_writable`].
    pub fn wait_writable_timeout(&self, span: Duration) -> Result<(), SendError> {
        self.wait_writable_until(Deadline::after(span))
    }

    /// Waits as [`Publisher::wait_writable`] does, until the deadline at most.
    ///
    /// # Errors
    /// The errors of [`Publisher::wait_writable`], and [`SendError::TimedOut`].
    ///
    /// # If a process dies
    /// The same as with [`Publisher::wait_writable`].
    pub fn wait_writable_until(&self, deadline: Deadline) -> Result<(), SendError> {
        let me = self.enter()?;
        self.wait_for_room(me, || deadline)
    }

    /// Returns how many messages can be published from now on without waiting for a reliable
    /// subscriber: at most the topic's depth.
    ///
    /// Subscribers that join later do not lower that number. It is for callers that commit
    /// themselves to several messages and must not wait then.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-room-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Subscriber, Topic};
    /// let topic = Topic::<u64>::options().depth(4).reliable(true).open_or_create(&domain, "steps")?;
    /// let mut slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish(&1)?;
    /// assert_eq!(publisher.room(), 3);
    /// drop(slow.recv()?);
    /// assert_eq!(publisher.room(), 4);
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// If a subscriber dies, it is no longer in the way, at once.
    #[must_use]
    pub fn room(&self) -> u64 {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        let until = look(&self.inner, index, position).unwrap_or(position);
        self.room_until.set(until);
        until.saturating_sub(position)
    }

    /// Returns whether one more message can be published without waiting after `due` others, which
    /// the caller has committed itself to. Subscribers that have been in the way of that message for
    /// longer than [`max_blocking`](super::PublisherOptions::max_blocking) are marked first. Once
    /// true, it stays true for these messages.
    #[doc(hidden)]
    #[must_use]
    pub fn has_room_after(&self, due: u64) -> bool {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        let end = position + u64::from(self.inner.plan.depth);
        let Some(wanted) = position.checked_add(due).filter(|&wanted| wanted < end) else {
            // Its own messages are in the way.
            return false;
        };
        if wanted < self.room_until.get() {
            return true;
        }
        // A look of its own: what is noted of the slowest holds for a look at the next message.
        let found = self.look_and_mark(index, wanted, &Cell::default());
        // A subscriber that joins later, or is reliable again later, may be owed all that is
        // published from now on.
        found.map(|until| self.found_room(until.min(end))).is_ok()
    }

    /// Returns how often this publisher has stopped waiting for a reliable subscriber, because it
    /// was in the way for longer than
    /// [`max_blocking`](super::PublisherOptions::max_blocking).
    #[must_use]
    pub fn stopped_waiting(&self) -> u64 {
        // Relaxed: a count that this publisher alone writes.
        let marked = self.inner.ring(self.ring(|ring| ring.index)).marked.load(Ordering::Relaxed);
        marked.wrapping_sub(self.marked_before)
    }

    /// Returns the reliable subscriber that is furthest behind this publisher, of several the first;
    /// `None` without a living one. It looks at all subscribers, and waits for none.
    ///
    /// One that is marked as lagging, after
    /// [`max_blocking`](super::PublisherOptions::max_blocking), is left out: no publisher waits for it.
    /// [`Writable::slowest`] is the same for another thread.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-slowest-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Subscriber, Topic};
    /// let topic = Topic::<u64>::options().depth(2).reliable(true).open_or_create(&domain, "steps")?;
    /// let publisher = topic.publisher()?;
    /// assert_eq!(publisher.slowest(), None);
    /// let _slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
    /// publisher.publish(&1)?;
    /// let slowest = publisher.slowest().expect("it is reliable");
    /// assert_eq!((slowest.who.pid, slowest.lag), (std::process::id(), 1));
    /// assert!(!slowest.is_in_the_way);
    /// publisher.publish(&2)?;
    /// assert!(publisher.slowest().is_some_and(|slowest| slowest.is_in_the_way));
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// A dead subscriber is left out, at once.
    #[must_use]
    pub fn slowest(&self) -> Option<Laggard> {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        Laggard::of(&self.inner, index, position)
    }

    /// Waits until no reliable subscriber is in the way of the next message.
    #[inline]
    pub(super) fn wait_for_room(
        &self,
        me: Me,
        deadline: impl FnOnce() -> Deadline,
    ) -> Result<(), SendError> {
        if self.ring(|ring| ring.published) < self.room_until.get() {
            Ok(())
        } else {
            self.wait_for_room_slow(me, deadline())
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_for_room_slow(&self, me: Me, deadline: Deadline) -> Result<(), SendError> {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        let until = match self.look_and_mark(index, position, &self.slow) {
            Ok(until) => until,
            Err(_) => {
                let (has_sets, mark_at) = (self.has_sets.get(), self.mark_at(position));
                let limits = Limits { slow: &self.slow, has_sets, deadline, mark_at };
                back_pressure::wait(&self.inner, me, index, position, limits)?
            }
        };
        self.found_room(until);
        Ok(())
    }

    /// Notes up to which message there is room. A subscriber that is in the way of this message
    /// later has not been in its way all the time.
    fn found_room(&self, until: u64) {
        self.room_until.set(until);
        self.blocked.set(None);
    }

    /// Returns whether a subscriber that is in the way of the message at that position is to be marked as
    /// lagging by now.
    #[cold]
    pub(super) fn is_to_be_marked(&self, position: u64, slowest: InTheWay) -> bool {
        let mark_at = slowest.mark_at(&self.inner, self.mark_at(position));
        mark_at.is_some_and(Deadline::has_passed)
    }

    /// Returns when living subscribers that are in the way of the message at that position are marked as
    /// lagging, counted from the first call that found one in its way.
    #[cold]
    fn mark_at(&self, position: u64) -> Option<Deadline> {
        let span = self.options.max_blocking?;
        let since = match self.blocked.get() {
            Some((blocked, since)) if blocked == position => since,
            _ => Instant::now(),
        };
        self.blocked.set(Some((position, since)));
        // A moment that no clock reaches: it waits for ever.
        since.checked_add(span).map(Deadline::at)
    }

    /// Returns when a call that finds a subscriber in the way marks it, if one is.
    pub(crate) fn next_mark(&self) -> Option<Deadline> {
        self.mark_at(self.ring(|ring| ring.published))
    }

    /// Looks whether there is room, and marks those that are in the way if it is time.
    #[cold]
    fn look_and_mark(&self, index: u32, position: u64, slow: &Cell<Slow>) -> Result<u64, InTheWay> {
        loop {
            let slowest = match look_and_note(&self.inner, index, position, slow) {
                Err(slowest) => slowest,
                found => return found,
            };
            if !self.is_to_be_marked(position, slowest) {
                return Err(slowest);
            }
            back_pressure::mark(&self.inner, index, slowest);
        }
    }

    /// Returns `Full` if a reliable subscriber is in the way of the next message.
    pub(super) fn try_room(&self) -> Result<(), SendError> {
        let (index, position) = self.ring(|ring| (ring.index, ring.published));
        if position < self.room_until.get() {
            return Ok(());
        }
        let until = self
            .look_and_mark(index, position, &self.slow)
            .map_err(|slowest| SendError::Full { slowest: slowest.holder(&self.inner) })?;
        self.found_room(until);
        Ok(())
    }
}

/// The reliable subscriber that is furthest behind a publisher: [`Publisher::slowest`],
/// [`Writable::slowest`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Laggard {
    /// Its process.
    pub who: Holder,
    /// How many messages of that publisher it has still to take.
    pub lag: u64,
    /// Whether the publisher's next message waits for it.
    pub is_in_the_way: bool,
}

impl Laggard {
    /// Returns the slowest reliable subscriber of the ring whose next message is `position`.
    fn of(inner: &Inner, index: u32, position: u64) -> Option<Laggard> {
        let (slowest, process) = back_pressure::slowest_living(inner, index)?;
        let lag = position.saturating_sub(slowest.cursor);
        Some(Laggard {
            who: Holder::of(inner.registry, process),
            lag,
            is_in_the_way: lag >= u64::from(inner.plan.depth),
        })
    }
}

/// Tells whether a publisher has room for its next message; made by [`Publisher::writable`].
///
/// There is no room while a living reliable subscriber has yet to receive the message that the next
/// one would overwrite; [`Writable::slowest`] names it.
#[derive(Clone)]
pub struct Writable {
    inner: Arc<Inner>,
    ring: u32,
    process: TokenId,
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Returns a source for a [`WaitSet`](crate::wait::WaitSet): ready when
    /// [`Publisher::try_publish`] is worth a try.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-writable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::SendError;
    /// use outlive::topic::{Subscriber, Topic};
    /// use outlive::wait::{WaitSet, Readiness};
    /// let topic = Topic::<u64>::options().depth(1).reliable(true).open_or_create(&domain, "steps")?;
    /// let mut slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish(&1)?;
    /// assert!(matches!(publisher.try_publish(&2), Err(SendError::Full { .. })));
    ///
    /// let mut set = WaitSet::new(&domain);
    /// let room = set.add(&publisher.writable())?;
    /// assert_eq!(set.try_wait()?.count(), 0);
    /// assert_eq!(*slow.recv()?, 1);                          // in another process, as a rule; or it dies
    /// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(room, Readiness::Writable)]);
    /// publisher.try_publish(&2)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn writable(&self) -> Writable {
        let (ring, process) = self.ring(|ring| (ring.index, ring.process));
        self.has_sets.set(true);
        self.inner.ring(ring).await_any();
        Writable { inner: Arc::clone(&self.inner), ring, process }
    }
}

impl Writable {
    /// Returns the reliable subscriber that is furthest behind the publisher, as
    /// [`Publisher::slowest`] does, in any thread; `None` also when the publisher has ended. A wait
    /// set that waits for the publisher in vain asks so for which process it waits.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-laggard-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_or_create_at(&folder)?;
    /// use outlive::topic::{Subscriber, Topic};
    /// use outlive::wait::WaitSet;
    /// use std::time::Duration;
    /// let topic = Topic::<u64>::options().depth(1).reliable(true).open_or_create(&domain, "steps")?;
    /// let _slow = topic.subscriber_with(Subscriber::options().reliable(true))?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish(&1)?;
    /// let room = publisher.writable();
    /// let mut set = WaitSet::new(&domain);
    /// set.add(&room)?;
    /// if set.wait_timeout(Duration::from_millis(1))?.count() == 0 {
    ///     let slowest = room.slowest().expect("it is in the way");
    ///     assert_eq!((slowest.who.pid, slowest.lag), (std::process::id(), 1));
    /// }
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # If a process dies
    /// A dead subscriber is left out, at once.
    #[must_use]
    pub fn slowest(&self) -> Option<Laggard> {
        let position = self.is_owned().then(|| self.inner.published(self.ring))?;
        Laggard::of(&self.inner, self.ring, position)
    }

    /// Returns whether its publisher has the ring yet.
    fn is_owned(&self) -> bool {
        // Acquire: how far its publisher has come.
        self.inner.ring(self.ring).owner.load(Ordering::Acquire) == self.process.as_u32()
    }

    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// Returns the eventcount that subscribers notify.
    pub(crate) fn space(&self) -> &EventCount {
        self.inner.space(self.ring)
    }
}

impl Waited for Writable {
    fn look(&self) -> SourceState {
        // If another process has the ring now, or none, no message will come.
        if !self.is_owned() {
            return SourceState::Waiting;
        }
        match look(&self.inner, self.ring, self.inner.published(self.ring)) {
            Ok(_) => SourceState::Ready(Readiness::Writable),
            Err(InTheWay { owner: Owner::Living(process), .. }) => {
                SourceState::BehindOwner(process)
            }
            // When its patience has passed, the next try marks it.
            Err(slowest) => match slowest.mark_at(&self.inner, None) {
                Some(moment) if moment.has_passed() => SourceState::Ready(Readiness::Writable),
                moment => SourceState::NotBefore(moment.unwrap_or(Deadline::NEVER)),
            },
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.space())
    }

    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        words.add(&[self.space().watch(prepared.ticket)]);
    }
}

/// Ready when a publish is worth a try: no living reliable subscriber is in the way.
impl Source for Writable {
    fn watched(&self) -> Result<Watched, Error> {
        Ok(Watched::of(self.clone(), self.registry()))
    }
}
