//! A subscriber as a wait set sees it: whether a message is there, and what to sleep on. It reads
//! shared words alone, from any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as StdOrdering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::claim::Claim;
use super::due::Expected;
use super::liveliness::Lives;
use super::mapping::Inner;
use super::slot::{MessageState, Slot};
use super::subscriber::Subscriber;
use super::subscriber_words::SubscriberWords;
use super::wake_words::WakeWords;
use super::watched::Watched as WatchedRings;
use crate::liveness::{Me, Registry};
use crate::shim::Ordering;
use crate::sys::clock::Deadline;
use crate::sys::futex::Watch;
use crate::sys::robust::WakeRelay;
use crate::wake::{
    EventCount, PreparedWait, Readiness, RelayedEventCount, Source, SourceState, WaitWords, Waited,
    Watched,
};
use crate::{Error, Payload, RecvError, TokenId};

/// See the head of this file. It keeps the topic mapped.
#[derive(Clone)]
pub(crate) struct SubscriberReadiness {
    inner: Arc<Inner>,
    subscriber_slot: u32,
    /// As long as the slot is this process's and subscribed, it belongs to the subscriber, or to a
    /// later one of the same process.
    process: TokenId,
    /// The subscriber has left.
    left: Arc<AtomicBool>,
    /// By when the next message is expected, if it has a period.
    expected: Option<Arc<Expected>>,
    /// Which publishers are lively, if it asks for that.
    lives: Option<Lives>,
    /// By ring, the next message of one that acknowledges; the slot has it of others.
    received: Option<Arc<[AtomicU64]>>,
    /// The rings that are looked at, chosen as the subscriber chooses its own.
    watched: Arc<Mutex<WatchedRings>>,
}

/// What stands for the order of a message that was overwritten or given up: less than any.
pub(super) const GONE: u64 = 0;

impl Inner {
    /// Returns the order of what is at a cursor, to be taken or skipped. For a ring whose slots
    /// exist.
    #[inline]
    pub(super) fn peek(&self, ring: u32, slot: &Slot, position: u64) -> Option<u64> {
        match slot.look(position) {
            MessageState::There => {
                let order = slot.order();
                // If it was overwritten meanwhile, the order was another message's. A damaged order
                // may be 0, and is not gone.
                Some(if slot.is_still(position) { order.max(GONE + 1) } else { GONE })
            }
            MessageState::Overwritten => Some(GONE),
            // Given up, or being written. A subscriber that takes it looks once more.
            MessageState::NotThere if slot.position().is_none() => {
                (self.published(ring) > position).then_some(GONE)
            }
            MessageState::NotThere => None,
        }
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    pub(crate) fn readiness(&self) -> SubscriberReadiness {
        let (inner, subscriber_slot) = (Arc::clone(&self.inner), self.subscriber_slot);
        let publishers = inner.plan.capacity.publishers;
        SubscriberReadiness {
            inner,
            subscriber_slot,
            process: self.process,
            left: Arc::clone(self.told_left.get_or_init(Arc::default)),
            expected: self.expected.clone(),
            lives: self.lives.clone(),
            received: self.received.clone(),
            watched: Arc::new(Mutex::new(WatchedRings::with_room_for(publishers))),
        }
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    /// Sleeps until there may be a message, or something to tell of a publisher, once, or until the
    /// deadline.
    #[cold]
    pub(super) fn wait_behind_publishers(
        &self,
        me: Me,
        deadline: Deadline,
    ) -> Result<(), RecvError> {
        let inner = &*self.inner;
        if self.is_ready() || deadline.has_passed() || inner.spin_wait.spin(|| self.is_ready()) {
            return Ok(());
        }
        let readiness = self.readiness();
        // It chooses the rings on whose words the sleep below stands.
        if !matches!(readiness.look(), SourceState::BehindOwners(..)) {
            return Ok(());
        }
        let relay = WakeRelay::begin(me.list());
        let ticket = inner.shared().notifications.count().prepare_wait();
        let mut prepared = PreparedWait::of(ticket);
        let mut words = WaitWords::new();
        // The words first: the look behind them decides whether to sleep on them.
        readiness.add_words(&mut prepared, &mut words);
        let SourceState::BehindOwners(mut owners, moment) = readiness.look() else { return Ok(()) };
        owners.sort_unstable_by_key(|owner| owner.as_u32());
        owners.dedup();
        let until = ticket.until(deadline.earlier(moment));
        let slept =
            self.many.borrow_mut().sleep(inner.registry, &relay, words, &owners, true, until);
        slept.map_err(|errno| {
            RecvError::System(Error::from_errno("wait for", inner.segment.path(), errno))
        })?;
        readiness.woken(&prepared);
        Ok(())
    }
}

impl SubscriberReadiness {
    pub(crate) fn registry(&self) -> &'static Registry {
        self.inner.registry
    }

    fn words(&self) -> Option<SubscriberWords<'_>> {
        // Relaxed: the slot may belong to another subscriber of this process only after that was
        // stored, and a wait set that misreads one look sees the next time that it has left.
        if self.left.load(StdOrdering::Relaxed) {
            return None;
        }
        let words = self.inner.subscriber_slot(self.subscriber_slot).ok()?;
        // Acquire: the cursors of the subscriber that has the slot. Another claim: the subscriber
        // is gone, and nothing comes.
        let is_ours = Claim::of(words.claim.load(Ordering::Acquire))
            .is_some_and(|claim| claim.is_subscribed() && claim.process == self.process);
        is_ours.then_some(words)
    }

    fn watched(&self) -> MutexGuard<'_, WatchedRings> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a ring's slot at the cursor.
    fn slot<'i>(&'i self, words: SubscriberWords<'_>, ring: u32) -> Option<(&'i Slot, u64)> {
        let position = match &self.received {
            None => words.cursors.get(ring as usize)?.load(Ordering::Relaxed),
            Some(received) => received.get(ring as usize)?.load(StdOrdering::Relaxed),
        };
        let slots = self.inner.slots(ring).ok()?;
        Some((&slots[(position & (slots.len() as u64 - 1)) as usize], position))
    }

    /// Returns whether a try to receive is worth it.
    fn has_something(&self) -> bool {
        let Some(words) = self.words() else { return false };
        let is_there = |ring: u32| {
            self.slot(words, ring)
                .is_some_and(|(slot, position)| self.inner.peek(ring, slot, position).is_some())
        };
        let mut watched = self.watched();
        // Before the look: what came before it is in a ring that is looked at.
        if watched.has_changed(&self.inner) || watched.is_old() {
            let seen = self.inner.publisher_changes();
            watched.choose(&self.inner, seen, self.inner.rings(), is_there);
        }
        let found = watched.rings.iter().position(|&ring| is_there(ring));
        if watched.rings.len() > 1 {
            watched.note_look(found);
        }
        found.is_some()
    }

    fn notifications(&self) -> &RelayedEventCount {
        &self.inner.shared().notifications
    }
}

impl Waited for SubscriberReadiness {
    fn look(&self) -> SourceState {
        if self.has_something() {
            return SourceState::Ready(Readiness::Readable);
        }
        // A subscriber that has left expects nothing.
        if self.left.load(StdOrdering::Relaxed) {
            return SourceState::Waiting;
        }
        let overdue = self.expected.as_ref().map(|expected| expected.look());
        let Some(lives) = &self.lives else { return overdue.unwrap_or(SourceState::Waiting) };
        match (lives.state(&self.inner), overdue) {
            (Ok(()), _) => SourceState::Ready(Readiness::Changed),
            (_, Some(ready @ SourceState::Ready(_))) => ready,
            (Err((owners, moment)), overdue) => {
                let until = overdue.map_or(Deadline::NEVER, |overdue| overdue.until());
                SourceState::BehindOwners(owners, moment.earlier(until))
            }
        }
    }

    fn event_count(&self) -> Option<&EventCount> {
        Some(self.notifications().count())
    }

    /// The words of `WakeWords`.
    fn add_words<'a>(&'a self, prepared: &mut PreparedWait, words: &mut WaitWords<'a>) {
        let watched = self.watched();
        let slots = self.words().into_iter().flat_map(|words| {
            watched
                .rings
                .iter()
                .filter_map(move |&ring| self.slot(words, ring))
                .map(|(slot, _)| slot)
        });
        words.add(WakeWords::now(&self.inner, prepared.ticket, watched.seen(), slots).watches());
        if self.lives.is_some() {
            // A publisher that comes wakes here, so that its end is watched from then on.
            let word = &self.inner.shared().changes;
            words.add(&[Watch { word, expected: word.load(Ordering::Acquire) }]);
        }
        words.relay_by(self.notifications().relay());
    }

    fn needs_recheck(&self, _: &PreparedWait) -> bool {
        true
    }

    fn woken(&self, prepared: &PreparedWait) {
        self.notifications().woken(prepared.ticket, || self.has_something());
    }
}

/// Ready when a receive is worth a try: the message there may have none of its keys; or when none
/// has come for its [`period`](super::SubscriberOptions::period), or a publisher is not
/// [lively](super::SubscriberOptions::liveliness), is so again, or has died.
impl<M: Payload + ?Sized> Source for Subscriber<M> {
    fn watched(&self) -> Result<Watched, Error> {
        let readiness = self.readiness();
        let registry = readiness.registry();
        Ok(Watched::of(readiness, registry))
    }
}
