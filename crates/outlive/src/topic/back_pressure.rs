//! Waiting for reliable subscribers.
//!
//! The publisher needs every reliable subscriber's cursor beyond the message that it is about to
//! overwrite. It sleeps on its ring's `space` and on the end of the slowest subscriber, whose death
//! wakes it as a taken message would. `awaited` names the slowest subscriber's slot, and the others
//! do not notify the publisher: of many subscribers only one wakes it, until the publisher names
//! the next one in the way.
//!
//! A wait set sleeps on the same words and the same end ([`Writable`]).

use std::sync::Arc;

use super::error::PublishError;
use super::layout::{Awaited, Claim, State};
use super::mapping::Inner;
use super::publisher::Publisher;
use crate::Payload;
use crate::claim::Holder;
use crate::liveness::{Me, Registry};
use crate::shim::{Ordering, fence};
use crate::sys::robust::WakeRelay;
use crate::wake::{
    Asleep, EventCount, PreparedWait, Readiness, Sleep, Source, SourceState, WaitWords, Waited,
    Watched,
};
use crate::{Deadline, Error, TokenId};

/// A reliable subscriber whose next message is in the way of a publisher.
#[derive(Clone, Copy)]
pub(super) struct InTheWay {
    slot: u32,
    pub(super) process: TokenId,
    cursor: u64,
}

/// Returns up to which message ring `index`, whose next message is `position`, has room. `Err`: the
/// slowest of the subscribers that leave none.
pub(super) fn look(inner: &Inner, index: u32, position: u64) -> Result<u64, InTheWay> {
    let depth = u64::from(inner.plan.depth);
    if inner.head().reliable.load(Ordering::Acquire) == 0 {
        // A subscriber that joins from now on begins at this position or later.
        return Ok(position + depth);
    }
    let until = |subscriber: InTheWay| subscriber.cursor.saturating_add(depth);
    match slowest(inner, index) {
        Some(subscriber) if until(subscriber) <= position => Err(subscriber),
        Some(subscriber) => Ok(until(subscriber).min(position + depth)),
        None => Ok(position + depth),
    }
}

/// Returns the living reliable subscriber that is furthest behind in that ring; of several the
/// first.
fn slowest(inner: &Inner, index: u32) -> Option<InTheWay> {
    // Orders what was published before, and then the look at which subscribers have joined: pairs
    // with the fence in `Subscriber::new`.
    fence(Ordering::SeqCst);
    let reliable = inner.subscriber_slots().zip(0..).filter_map(|(words, slot)| {
        // Acquire pairs with `subscriber_slot::join`: its cursors are written.
        let claim = Claim::of(words.claim.load(Ordering::Acquire))?;
        let counts = claim.state == State::Reliable && inner.registry.is_alive(claim.process);
        // Acquire: the subscriber has finished with the slot.
        let cursor = || words.cursors[index as usize].load(Ordering::Acquire);
        counts.then(|| InTheWay { slot, process: claim.process, cursor: cursor() })
    });
    reliable.min_by_key(|subscriber| subscriber.cursor)
}

/// Returns the first message that a reliable subscriber has still to take.
pub(super) fn needed_from(inner: &Inner, index: u32) -> u64 {
    slowest(inner, index).map_or(u64::MAX, |subscriber| subscriber.cursor)
}

/// Waits until there is room; returns up to which message.
pub(super) fn wait(
    inner: &Inner,
    me: Me,
    index: u32,
    position: u64,
    deadline: Deadline,
) -> Result<u64, PublishError> {
    let mut until = 0;
    let mut is_clear = || look(inner, index, position).map(|clear| until = clear).is_ok();
    if is_clear() || !deadline.has_passed() && inner.spin_wait.spin(&mut is_clear) {
        return Ok(until);
    }
    let words = inner.ring(index);
    let relay = WakeRelay::begin(me.list());
    let mut slowest = match look(inner, index, position) {
        Ok(until) => return Ok(until),
        Err(slowest) => slowest,
    };
    loop {
        // Named before the fence, as the number is: a subscriber that takes after that fence finds
        // itself named, and the look below finds the cursor of one that took before. The fence is
        // this thread's own: another thread's came before the name.
        words.wait_for(Awaited::subscriber(slowest.slot));
        let ticket = words.space.prepare_wait_with_fence();
        let named = slowest;
        slowest = match look(inner, index, position) {
            Ok(until) => return Ok(until),
            Err(slowest) => slowest,
        };
        if deadline.has_passed() {
            return Err(PublishError::TimedOut {
                slowest: Holder::of(inner.registry, slowest.process),
            });
        }
        if (slowest.slot, slowest.process) != (named.slot, named.process) {
            // It took a message, or died: no subscriber notifies for the one that is the slowest
            // now.
            continue;
        }
        let end = Some(slowest.process);
        let slept = Sleep::on(inner.registry, &[words.space.watch(ticket)])
            .behind(&relay, end.as_slice())
            .until(ticket.until(deadline));
        // Timed out: looks once more.
        let (Asleep::LookAgain | Asleep::TimedOut) = slept.map_err(|errno| {
            PublishError::System(Error::from_errno("wait in", inner.segment.path(), errno))
        })?;
    }
}

/// Tells whether a publisher has room for its next message; made by [`Publisher::writable`].
///
/// There is no room while a living reliable subscriber has yet to receive the message that the next
/// one would overwrite.
#[derive(Clone)]
pub struct Writable {
    inner: Arc<Inner>,
    ring: u32,
    process: TokenId,
}

impl<M: Payload + ?Sized> Publisher<M> {
    /// Returns a source for a [`WaitSet`](crate::wait::WaitSet): ready when
    /// [`Publisher::try_publish_copy`] is worth a try.
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("outlive-doc-writable-{}", std::process::id()));
    /// # let domain = outlive::Domain::open_at(&folder)?;
    /// use outlive::topic::{PublishError, SubscriberOptions, Topic};
    /// use outlive::wait::{WaitSet, Readiness};
    /// let topic = Topic::<u64>::options().depth(1).open(&domain, "steps")?;
    /// let mut slow = topic.subscriber_with(SubscriberOptions { reliable: true, ..Default::default() })?;
    /// let publisher = topic.publisher()?;
    /// publisher.publish_copy(&1)?;
    /// assert!(matches!(publisher.try_publish_copy(&2), Err(PublishError::Full { .. })));
    ///
    /// let mut set = WaitSet::new(&domain);
    /// let room = set.add(&publisher.writable())?;
    /// assert_eq!(set.try_wait()?.count(), 0);
    /// assert_eq!(*slow.recv()?, 1);                          // in another process, as a rule; or it dies
    /// assert_eq!(set.wait()?.collect::<Vec<_>>(), [(room, Readiness::Writable)]);
    /// publisher.try_publish_copy(&2)?;
    /// # std::fs::remove_dir_all(&folder).ok();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn writable(&self) -> Writable {
        let (ring, process) = self.ring(|ring| (ring.index, ring.process));
        self.inner.ring(ring).wait_for_anybody();
        Writable { inner: Arc::clone(&self.inner), ring, process }
    }
}

impl Writable {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    /// Returns the eventcount that subscribers notify.
    pub(crate) fn space(&self) -> &EventCount {
        &self.inner.ring(self.ring).space
    }
}

impl Waited for Writable {
    fn look(&self) -> SourceState {
        // Acquire: how far its publisher has come. If another process has the ring now, or none, no
        // message will come.
        if self.inner.ring(self.ring).owner.load(Ordering::Acquire) != self.process.as_u32() {
            return SourceState::Waiting;
        }
        match look(&self.inner, self.ring, self.inner.published(self.ring)) {
            Ok(_) => SourceState::Ready(Readiness::Writable),
            Err(slowest) => SourceState::BehindOwner(slowest.process),
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
