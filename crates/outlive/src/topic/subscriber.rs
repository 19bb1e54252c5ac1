//! The subscriber: joining, waiting, leaving. How it takes a message: recv.rs.
//!
//! A subscriber sleeps on the topic's eventcount with a relay (wake/event_count.rs) until a message
//! comes:
//!
//! | a publisher dies, or is stopped | what becomes of it |
//! | --- | --- |
//! | before `ready` | died: one sleeper wakes for nothing |
//! | between that and its notification | died: the kernel wakes one sleeper, which finds the message and that no notification was sent: it notifies all. Stopped: the next publisher notifies, or the first sleeper that polls |
//!
//! A sleeper watches the slots themselves, too: a publisher that published after the look and died
//! would have found no sleeper.

use core::cell::{Cell, OnceCell, RefCell};
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64 as StdAtomicU64, Ordering as StdOrdering};
use std::time::Duration;

use super::claim::{Claim, State};
use super::control::OwnSlot;
use super::due::Expected;
use super::joining::Joining;
use super::kept;
use super::liveliness::Lives;
use super::mapping::Inner;
use super::orphan::{self, Orphan};
use super::ring;
use super::sample::Sample;
use super::sample_cache::{Owner, SampleCache};
use super::slot::Slot;
use super::subscriber_options::SubscriberOptions;
use super::subscriber_slot;
use super::subscriber_words::{SubscriberAddress, SubscriberWords};
use super::wake_words::{BRIEF_LOOK, MOST_WATCHED, WakeWords};
use super::watched::{Watched, in_memory};
use crate::Payload;
use crate::liveness::Me;
use crate::shim::{Ordering, fence};
use crate::sys::identity;
use crate::sys::probe::{self, probe};
use crate::sys::robust::WakeRelay;
use crate::wake::{Sleep, WaitList};
use crate::{Deadline, Error, RecvError, TokenId};

/// Receives the messages of a topic: each subscriber gets all of them. A topic has up to 64
/// subscribers at a time, or as many as its maker
/// [has asked for](super::TopicOptions::max_subscribers); each may move between threads.
///
/// It takes the oldest message that is there; messages that were overwritten before it took them
/// are [counted](Subscriber::lost).
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("outlive-doc-subscriber-{}", std::process::id()));
/// # let domain = outlive::Domain::open_or_create_at(&folder)?;
/// use outlive::topic::{Subscriber, Topic};
/// let topic = Topic::<[f32]>::options().depth(4).open_or_create(&domain, "ranges")?;
/// let publisher = topic.publisher()?;
/// for at in 0..10 {
///     publisher.publish(&[at as f32; 3])?;
/// }
/// // A late subscriber may ask for earlier messages that are still there.
/// let mut subscriber = topic.subscriber_with(Subscriber::options().history(4))?;
/// for wanted in [6.0, 7.0, 8.0] {
///     assert_eq!(subscriber.recv()?[0], wanted);
/// }
/// assert_eq!(subscriber.try_recv()?.unwrap()[0], 9.0);
/// assert!(subscriber.try_recv()?.is_none());
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # If a process dies
/// If a publisher dies, its published messages can be received as before. If the subscriber's
/// process dies, publishers stop waiting for it at once; the memory of the samples that it held can
/// be used again once its last thread has ended.
pub struct Subscriber<M: Payload + ?Sized = [u8]> {
    pub(super) inner: Arc<Inner>,
    pub(super) subscriber_slot: u32,
    /// The slot, as this subscriber alone may write it.
    own: Arc<OwnSlot>,
    /// Where it lies there.
    address: SubscriberAddress,
    /// Where the search for a free hazard pointer goes on.
    pub(super) next_pointer: Cell<usize>,
    pub(super) process: TokenId,
    /// Its claim while publishers wait for it.
    pub(super) waited_for: u64,
    /// The process's number.
    pub(super) owner: u64,
    /// The thread that was last seen to belong to this process.
    inside: Cell<u32>,
    /// By ring, the next message; of as many rings as the subscriber knows.
    pub(super) cursors: Vec<u64>,
    /// The same for wait sets, if it acknowledges: then the slot's cursors say what is done.
    pub(super) received: Option<Arc<[StdAtomicU64]>>,
    pub(super) watched: Watched,
    /// What its samples point to. Left to an [`Orphan`], if need be.
    pub(super) sample_cache: ManuallyDrop<SampleCache>,
    /// Its keys are sorted.
    pub(super) options: SubscriberOptions,
    pub(super) lost: u64,
    /// How many messages were older than it takes.
    pub(super) expired: u64,
    /// By ring: how many messages it had when this subscriber had joined. Rings that came later: 0.
    pub(super) joined_at: Vec<u64>,
    /// By ring: the session of which this subscriber was told last, or got a message.
    pub(super) sessions: Vec<u32>,
    /// Whether it asks for something that makes it look closer at each message.
    pub(super) asks: bool,
    /// Whether it looks closer at each message: it asks for something, or publishers have a lifespan.
    pub(super) is_selective: bool,
    /// By when the next message is expected, if it has a period.
    pub(super) expected: Option<Arc<Expected>>,
    /// Which publishers are lively, if it asks for that.
    pub(super) lives: Option<Lives>,
    /// Whether there may be something to tell where no message is.
    pub(super) is_timed: bool,
    /// Tells wait sets that it has left.
    pub(super) told_left: OnceCell<Arc<AtomicBool>>,
    /// The threads that watch the ends of many publishers, if it asks for their liveliness.
    pub(super) many: RefCell<WaitList>,
    /// Its drop leaves its place to a successor.
    pub(super) is_abandoned: bool,
    _message: PhantomData<*const M>,
}

// SAFETY: its words in the file are its own, whichever thread has it.
unsafe impl<M: Payload + ?Sized> Send for Subscriber<M> {}

/// How long a receive waits.
struct Pause {
    deadline: Deadline,
    /// When a message is overdue.
    due: Option<Deadline>,
    has_waited: bool,
}

impl Subscriber {
    /// Returns options, of which none is set, for [`Topic::subscriber_with`].
    ///
    /// [`Topic::subscriber_with`]: super::Topic::subscriber_with
    pub fn options() -> SubscriberOptions {
        SubscriberOptions::default()
    }
}

impl<M: Payload + ?Sized> Subscriber<M> {
    pub(super) fn new(
        inner: Arc<Inner>,
        options: SubscriberOptions,
    ) -> Result<Subscriber<M>, Error> {
        orphan::look_after_all();
        let joining = Joining::begin(&inner, &options)?;
        Subscriber::join(inner, options, joining)
    }

    /// Joins, once the cursors are written.
    fn join(
        inner: Arc<Inner>,
        mut options: SubscriberOptions,
        joining: Joining,
    ) -> Result<Subscriber<M>, Error> {
        let Joining { me, owner, process, slot, cursors, is_successor } = joining;
        let words = inner.own_words(&slot);
        let address = words.address();
        if is_successor {
            options.reliable = Claim::of(words.claim.load(Ordering::Relaxed))
                .is_some_and(|claim| claim.state != State::Subscribed);
        } else {
            subscriber_slot::join(&inner, &words, process, options.reliable);
        }
        // Relaxed: this process has written all of it but the state.
        let turn = Claim::of(words.claim.load(Ordering::Relaxed)).and_then(|claim| claim.turn);
        let waited_for = Claim { process, state: State::Reliable, turn }.word();
        let lost = words.lost.load(Ordering::Relaxed);
        // Joins first, then looks at what is published: pairs with the fence in
        // `back_pressure::slowest`. A publisher that has not seen this subscriber has published all
        // that it may overwrite without waiting for it; this subscriber receives what comes after.
        fence(Ordering::SeqCst);
        // Also of a ring that has come since the cursors were written; and one message more where its
        // publisher stands before it counts it: others may have received that one.
        // A successor has been promised all that it has not got.
        let joined_at = match is_successor {
            true => cursors.clone(),
            false => (0..inner.rings()).map(|ring| inner.all_published(ring)).collect(),
        };
        let received = options.acknowledges.then(|| {
            let received = words.cursors.iter().map(|cursor| cursor.load(Ordering::Relaxed));
            received.map(StdAtomicU64::new).collect()
        });
        options.keys.sort_unstable();
        let expected = options.period.map(|period| Arc::new(Expected::new(period)));
        let lives = options.liveliness.map(Lives::new);
        if let Some(lives) = &lives {
            // Their leases begin now; what is to be told comes later.
            let _ = lives.has_news(&inner);
        }
        let is_timed = expected.is_some() || lives.is_some();
        let asks = !options.keys.is_empty()
            || options.sessions
            || options.max_age.is_some()
            || lives.is_some();
        let publishers = inner.plan.capacity.publishers;
        let mut sessions = in_memory(publishers, 0);
        sessions.resize(publishers as usize, 0);
        Ok(Subscriber {
            subscriber_slot: slot.index,
            own: slot,
            address,
            next_pointer: Cell::new(0),
            process,
            waited_for,
            owner,
            inside: Cell::new(me.id.as_u32()),
            cursors,
            received,
            watched: Watched::with_room_for(publishers),
            sample_cache: ManuallyDrop::new(SampleCache::new(Owner {
                process: owner,
                registry: Some(inner.registry),
            })),
            options,
            lost,
            expired: 0,
            joined_at,
            sessions,
            asks,
            is_selective: asks,
            expected,
            lives,
            is_timed,
            told_left: OnceCell::new(),
            many: RefCell::default(),
            is_abandoned: false,
            inner,
            _message: PhantomData,
        })
    }

    /// Checks that the calling thread belongs to the subscriber's process.
    #[inline]
    pub(super) fn enter(&self) -> Result<Me, RecvError> {
        let me = self.inner.registry.me()?;
        if me.id.as_u32() != self.inside.get() {
            self.enter_slow(me)?;
        }
        Ok(me)
    }

    #[cold]
    fn enter_slow(&self, me: Me) -> Result<(), RecvError> {
        if self.inner.registry.process_token_if_any() != Some(self.process) {
            return Err(RecvError::NotOwner);
        }
        self.inside.set(me.id.as_u32());
        Ok(())
    }

    #[inline]
    pub(super) fn words(&self) -> SubscriberWords<'_> {
        // SAFETY: `own` keeps the slot mapped.
        unsafe { self.address.get() }
    }

    /// Returns the slot of a message.
    #[inline]
    pub(super) fn slot(&self, ring: usize, position: u64) -> &Slot {
        let depth = u64::from(self.inner.plan.depth);
        let at = self.inner.plan.slots_at(ring as u32)
            + (position & (depth - 1)) * size_of::<Slot>() as u64;
        // SAFETY: `meet_rings` has found that this ring's slots exist; mappings do not shrink.
        unsafe { &*self.inner.segment.address(at).cast() }
    }

    /// Returns the next message, or `None` at once if there is none.
    ///
    /// # Errors
    /// [`RecvError::TooManyHeld`], [`RecvError::Lagged`], [`RecvError::NotOwner`],
    /// [`RecvError::Damaged`], [`RecvError::System`]; if the subscriber asked for them,
    /// [`RecvError::Missed`], [`RecvError::NewSession`], [`RecvError::NotLively`],
    /// [`RecvError::Lively`], [`RecvError::PublisherDied`].
    ///
    /// # If a process dies
    /// If this process dies during the call, the message counts as taken, or not; other subscribers
    /// get it in any case.
    #[inline]
    pub fn try_recv(&mut self) -> Result<Option<Sample<M>>, RecvError> {
        self.enter()?;
        self.take_next()
    }

    /// Returns the next message, waiting for one.
    ///
    /// # Errors
    /// The errors of [`Subscriber::try_recv`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::try_recv`].
    #[inline]
    pub fn recv(&mut self) -> Result<Sample<M>, RecvError> {
        Deadline::never(|deadline| self.recv_before(|| deadline))
    }

    /// Returns the next message, waiting for one as long as `span` at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`Subscriber::try_recv`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::try_recv`].
    #[inline]
    pub fn recv_timeout(&mut self, span: Duration) -> Result<Option<Sample<M>>, RecvError> {
        self.recv_before(|| Deadline::after(span))
    }

    /// Returns the next message, waiting for one until the deadline at most; `None` when that has
    /// passed.
    ///
    /// # Errors
    /// The errors of [`Subscriber::try_recv`].
    ///
    /// # If a process dies
    /// The same as with [`Subscriber::try_recv`].
    #[inline]
    pub fn recv_until(&mut self, deadline: Deadline) -> Result<Option<Sample<M>>, RecvError> {
        self.recv_before(|| deadline)
    }

    #[inline]
    fn recv_before(
        &mut self,
        deadline: impl Fn() -> Deadline,
    ) -> Result<Option<Sample<M>>, RecvError> {
        self.enter()?;
        let mut pause = None;
        loop {
            if let Some(sample) = self.take_next()? {
                return Ok(Some(sample));
            }
            // Only from here on: a message that is there costs no look at the clock.
            let pause = pause.get_or_insert_with(|| self.pause(deadline()));
            if !self.wait(pause)? {
                return Ok(None);
            }
        }
    }

    /// No message is there: decides how long to wait.
    #[cold]
    fn pause(&self, deadline: Deadline) -> Pause {
        let due = self.expected.as_ref().map(|expected| expected.moment());
        Pause { deadline, due, has_waited: false }
    }

    /// Waits until there may be a message, once; false: the deadline has passed before one came.
    #[cold]
    #[inline(never)]
    fn wait(&mut self, pause: &mut Pause) -> Result<bool, RecvError> {
        if pause.has_waited {
            // No message came, or none for this subscriber.
            if pause.deadline.has_passed() {
                return Ok(false);
            }
        }
        pause.has_waited = true;
        let me = self.enter()?;
        let deadline = pause.due.map_or(pause.deadline, |due| pause.deadline.earlier(due));
        probe!(topic_wait, self.inner.segment.path(), probe::FOR_MESSAGES);
        let waited = match self.lives {
            None => wait_for_message(self, me, deadline),
            Some(_) => self.wait_behind_publishers(me, deadline),
        };
        probe!(topic_waited, self.inner.segment.path(), probe::FOR_MESSAGES);
        waited.map(|()| true)
    }

    /// Returns how many messages were overwritten or skipped before this subscriber took them. What
    /// [`RecvError::Lagged`] tells is among them.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns how many messages were passed over because they were older than this subscriber's
    /// [`max_age`](SubscriberOptions::max_age), or than their publisher's
    /// [`lifespan`](super::PublisherOptions::lifespan).
    #[must_use]
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Returns how many [periods](super::SubscriberOptions::period) have passed without a message.
    /// [`RecvError::Missed`](crate::RecvError::Missed) stands for one or more of them: for all that
    /// passed before the subscriber asked.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.expected.as_ref().map_or(0, |expected| expected.missed())
    }

    /// Returns how often a publisher was alive and did nothing for the
    /// [lease](super::SubscriberOptions::liveliness): each
    /// [`RecvError::NotLively`](crate::RecvError::NotLively) is one, also one that is still to be
    /// told.
    #[must_use]
    pub fn lapses(&self) -> u64 {
        self.lives.as_ref().map_or(0, Lives::lapses)
    }

    /// Returns how many messages are waiting for this subscriber, as far as they are still there.
    #[must_use]
    pub fn lag(&self) -> u64 {
        let behind = |ring: u32| {
            // A ring that has come since the last receive: all of it is to be taken.
            let cursor = self.cursors.get(ring as usize).copied().unwrap_or(0);
            let published = self.inner.published(ring);
            published.saturating_sub(cursor).min(u64::from(self.inner.plan.depth))
        };
        (0..self.inner.rings()).map(behind).sum()
    }

    /// Returns how many living publishers there are: correct at once after any of them was killed.
    #[must_use]
    pub fn publisher_count(&self) -> u32 {
        ring::living(&self.inner).count() as u32
    }

    pub(super) fn cursor(&self, ring: usize) -> u64 {
        self.cursors[ring]
    }
}

/// Waits for each message, as [`Subscriber::recv`] does. It does not end by itself: a topic is never
/// closed.
impl<M: Payload + ?Sized> Iterator for Subscriber<M> {
    type Item = Result<Sample<M>, RecvError>;

    fn next(&mut self) -> Option<Result<Sample<M>, RecvError>> {
        Some(self.recv())
    }
}

impl<M: Payload + ?Sized> Drop for Subscriber<M> {
    fn drop(&mut self) {
        // In a forked child the slot is its parent's, and copies of its samples may still be read.
        if identity::this_process() != Ok(self.owner) {
            core::mem::forget((Arc::clone(&self.inner), Arc::clone(&self.own)));
            return;
        }
        if let Some(told) = self.told_left.get() {
            told.store(true, StdOrdering::Relaxed);
        }
        let has_left = match self.is_abandoned {
            false => subscriber_slot::leave(&self.inner, self.words(), self.process),
            true if self.words().hazard_pointers().any() => {
                // For as long as the process lives: its samples' drops write there.
                core::mem::forget((Arc::clone(&self.inner), Arc::clone(&self.own)));
                true
            }
            true => {
                kept::abandon(&self.inner, self.words(), self.process);
                true
            }
        };
        orphan::leave(Orphan {
            holding: (!has_left).then(|| (Arc::clone(&self.inner), Arc::clone(&self.own))),
            owner: self.owner,
            // SAFETY: the subscriber is dropped once, and uses the cache no more.
            sample_cache: unsafe { ManuallyDrop::take(&mut self.sample_cache) },
        });
    }
}

/// Waits until there is a message at a cursor, or the deadline has passed.
fn wait_for_message<M: Payload + ?Sized>(
    subscriber: &Subscriber<M>,
    me: Me,
    deadline: Deadline,
) -> Result<(), RecvError> {
    let inner = &*subscriber.inner;
    if subscriber.is_ready()
        || deadline.has_passed()
        || inner.spin_wait.spin(|| subscriber.is_ready())
    {
        return Ok(());
    }
    let notifications = &inner.shared().notifications;
    let relay = WakeRelay::begin(me.list());
    relay.to(notifications.relay());
    loop {
        let ticket = notifications.count().prepare_wait();
        let watched = &subscriber.watched;
        let rings = watched.rings.iter().map(|&ring| ring as usize);
        let slots = rings.map(|ring| subscriber.slot(ring, subscriber.cursor(ring)));
        let seen = WakeWords::now(inner, ticket, watched.seen(), slots);
        if subscriber.is_ready() || deadline.has_passed() {
            return Ok(());
        }
        let until = match watched.rings.len() > MOST_WATCHED {
            true => deadline.earlier(Deadline::after(BRIEF_LOOK)),
            false => deadline,
        };
        Sleep::on(inner.registry, seen.watches()).among_others_until(ticket.until(until)).map_err(
            |errno| RecvError::System(Error::from_errno("wait for", inner.segment.path(), errno)),
        )?;
        notifications.woken(ticket, || subscriber.is_ready());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::durability::Durability;
    use crate::topic::Topic;

    /// Its cursors name no message of it, and what was overwritten before it joined is not lost.
    #[test]
    fn a_ring_that_comes_while_it_joins_has_promised_nothing_before() {
        let folder = std::env::temp_dir().join(format!("outlive-joining-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let topic = Topic::<u64>::options().depth(2).reliable(true);
        let topic = topic.open_or_create(&domain, "topic").expect("made");
        let options = Subscriber::options().reliable(true);
        let joining = Joining::begin(&topic.inner, &options).expect("a slot");
        let publisher = topic.publisher().expect("a ring");
        for number in 0..5 {
            publisher.publish(&number).expect("none is in the way");
        }
        let mut subscriber: Subscriber<u64> =
            Subscriber::join(Arc::clone(&topic.inner), options, joining).expect("joins");
        std::fs::remove_dir_all(&folder).expect("removed");
        for wanted in 3..5 {
            assert_eq!(*subscriber.try_recv().expect("nothing is lost").expect("there"), wanted);
        }
        assert!(subscriber.try_recv().expect("readable").is_none());
    }

    /// Its publisher died after the message was there, and before it counted it.
    #[test]
    fn a_message_that_a_dead_publisher_did_not_count_is_not_new_to_a_later_subscriber() {
        let folder = std::env::temp_dir().join(format!("outlive-uncounted-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        for durability in [Durability::Volatile, Durability::TransientLocal, Durability::Persistent]
        {
            let topic = Topic::<u64>::options().depth(2).durability(durability);
            let topic = topic.open_or_create(&domain, &durability.to_string()).expect("made");
            let publisher = topic.publisher().expect("a ring");
            publisher.publish(&1).expect("room");
            drop(publisher);
            let counted = &topic.inner.publishing().expect("mapped").ring(0).published;
            counted.store(counted.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            let mut later = topic.subscriber().expect("a slot");
            assert!(later.try_recv().expect("readable").is_none(), "{durability}");
            // The next publisher counts it.
            topic.publisher().expect("a ring").publish(&2).expect("room");
            assert_eq!(*later.try_recv().expect("readable").expect("there"), 2, "{durability}");
        }
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    /// Each message has a span of its own, and the table of spans more than a page. The subscriber's
    /// mapping is for reading alone.
    #[test]
    fn messages_of_more_spans_than_a_page_of_the_table_has_are_read() {
        let folder = std::env::temp_dir().join(format!("outlive-spans-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let topic = Topic::<[u8]>::options().depth(256).max_bytes(1 << 30);
        let topic = topic.open_or_create(&domain, "topic").expect("made");
        let (mut subscriber, publisher) =
            (topic.subscriber().expect("a slot"), topic.publisher().expect("a ring"));
        let kept: Vec<_> = (0..200)
            .map(|number| {
                let mut loan = publisher.loan((3 << 20) / 2).expect("room");
                if let Some(first) = loan.first_mut() {
                    *first = number;
                }
                publisher.publish(loan).expect("none is in the way");
                subscriber.try_recv().expect("readable").expect("there")
            })
            .collect();
        std::fs::remove_dir_all(&folder).expect("removed");
        let first = |sample: &crate::topic::Sample<[u8]>| sample.first().copied();
        assert!(kept.iter().map(first).eq((0..200).map(Some)));
    }
}
