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
use std::sync::atomic::{AtomicBool, Ordering as StdOrdering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::control::OwnSlot;
use super::due::Expected;
use super::durability::vouched_from;
use super::layout::{SubscriberAddress, SubscriberWords};
use super::liveliness::Lives;
use super::mapping::Inner;
use super::ring;
use super::sample::Sample;
use super::sample_cache::{Owner, SampleCache};
use super::slot::Slot;
use super::subscriber_options::SubscriberOptions;
use super::subscriber_slot;
use super::watched::{Watched, in_memory};
use crate::Payload;
use crate::durability::Durability;
use crate::liveness::Me;
use crate::shim::{Ordering, fence};
use crate::sys::futex::Watch;
use crate::sys::identity;
use crate::sys::robust::WakeRelay;
use crate::wake::{Sleep, Ticket, WaitList};
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
    /// The process's number.
    pub(super) owner: u64,
    /// The thread that was last seen to belong to this process.
    inside: Cell<u32>,
    /// By ring, the next message; of as many rings as the subscriber knows.
    pub(super) cursors: Vec<u64>,
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
    _message: PhantomData<*const M>,
}

// SAFETY: its words in the file are its own, whichever thread has it.
unsafe impl<M: Payload + ?Sized> Send for Subscriber<M> {}

/// What a subscriber has left that was dropped while samples of it are held.
///
/// A sample's drop costs two stores and does not know whether its subscriber is still there: it can
/// neither release the slot nor unmap the file nor free the records. To do so, each drop would have
/// to count. The process's next subscriber does it, when it is made or dropped.
struct Orphan {
    /// The slot, whose hazard pointers hold objects, and its mapping.
    holding: Option<(Arc<Inner>, Arc<OwnSlot>)>,
    owner: u64,
    sample_cache: SampleCache,
}

/// The most rings in whose next slot a sleeper sees a message that came after its look, and whose
/// publisher died before it notified. With more rings it sleeps for [`BRIEF_LOOK`] at most.
const MOST_WATCHED: usize = 62;
const BRIEF_LOOK: Duration = Duration::from_secs(1);

static ORPHANS: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

impl Orphan {
    /// Releases what no sample needs any more; returns whether that is all.
    fn is_released(&mut self) -> bool {
        // In a forked child it is the parent's, and copies of those samples may still be read.
        if identity::this_process() != Ok(self.owner) {
            return false;
        }
        if let Some((inner, slot)) = &self.holding
            && subscriber_slot::let_go_if_unused(inner.own_words(slot))
        {
            self.holding = None;
        }
        self.holding.is_none() && self.sample_cache.is_unused()
    }
}

/// Releases those whose samples have been dropped.
fn look_after_orphans() {
    // As with malloc: a child forked while a thread is in here must not come here before exec.
    let mut orphans = ORPHANS.lock().unwrap_or_else(PoisonError::into_inner);
    orphans.retain_mut(|orphan| !orphan.is_released());
}

/// A subscriber that has a slot and does not count yet.
struct Joining {
    me: Me,
    process: TokenId,
    owner: u64,
    slot: Arc<OwnSlot>,
    cursors: Vec<u64>,
}

impl Joining {
    /// Takes a slot, and writes the cursors of all rings that there are.
    fn begin(
        inner: &Inner,
        options: &SubscriberOptions,
        durability: Durability,
    ) -> Result<Joining, Error> {
        let me = inner.registry.me()?;
        let process = inner.registry.process_token()?;
        let owner = identity::this_process()
            .map_err(|errno| Error::from_errno("subscribe to", inner.segment.path(), errno))?;
        let slot = subscriber_slot::take(inner, me, process, options.reliable)?;
        let words = inner.own_words(&slot);
        let depth = u64::from(inner.plan.depth);
        let history = u64::from(options.history).min(depth);
        let mut cursors = in_memory(words.cursors.len() as u32, 0);
        for ring in 0..inner.rings() {
            if let Err(error) = inner.slots(ring) {
                // The slot is this process's, which may live long.
                subscriber_slot::let_go_if_unused(words);
                return Err(error);
            }
            // One that its publisher did not count, as it died, is old as well.
            let published = inner.all_published(ring);
            let oldest = match durability {
                _ if options.unvouched => 0,
                Durability::Persistent => 0,
                Durability::TransientLocal => vouched_from(inner, ring).unwrap_or(published),
                Durability::Volatile => published,
            };
            cursors.push(published.saturating_sub(history).max(oldest).min(published));
        }
        for (ring, cursor) in words.cursors.iter().enumerate() {
            cursor.store(cursors.get(ring).copied().unwrap_or(0), Ordering::Relaxed);
        }
        Ok(Joining { me, process, owner, slot, cursors })
    }
}

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
        look_after_orphans();
        if options.reliable && !inner.offers_reliable() {
            return Err(Error::OtherOptions {
                path: inner.segment.path().into(),
                what: "reliability",
                found: "best effort (its makers did not offer reliable delivery)".into(),
                wanted: "reliable".into(),
            });
        }
        let offered = inner.durability();
        let wanted = options.wanted_durability();
        if wanted > offered && !options.unvouched {
            return Err(Error::OtherOptions {
                path: inner.segment.path().into(),
                what: "durability",
                found: offered.to_string().into(),
                wanted: match options.history {
                    0 => wanted.to_string().into(),
                    history => format!("{wanted}, for a history of {history}").into(),
                },
            });
        }
        if options.history > 0 && options.durability == Some(Durability::Volatile) {
            return Err(Error::InvalidOption {
                what: "a subscriber's history",
                wanted: options.history.to_string().into(),
                why: "0, or another durability than volatile",
            });
        }
        if options.keep_last == Some(0) {
            return Err(Error::InvalidOption {
                what: "a subscriber's keep_last",
                wanted: "0".into(),
                why: "1 message or more",
            });
        }
        if options.max_age.is_some() && !inner.has_stamps() {
            return Err(Error::OtherOptions {
                path: inner.segment.path().into(),
                what: "option stamps",
                found: "false".into(),
                wanted: "true (without stamps no message has an age)".into(),
            });
        }
        let durability = options.durability.unwrap_or(offered);
        let joining = Joining::begin(&inner, &options, durability)?;
        Subscriber::join(inner, options, joining)
    }

    /// Joins, once the cursors are written.
    fn join(
        inner: Arc<Inner>,
        mut options: SubscriberOptions,
        joining: Joining,
    ) -> Result<Subscriber<M>, Error> {
        let Joining { me, owner, process, slot, cursors } = joining;
        let words = inner.own_words(&slot);
        let address = words.address();
        subscriber_slot::join(&inner, &words, process, options.reliable);
        // Joins first, then looks at what is published: pairs with the fence in
        // `back_pressure::slowest`. A publisher that has not seen this subscriber has published all
        // that it may overwrite without waiting for it; this subscriber receives what comes after.
        fence(Ordering::SeqCst);
        // Also of a ring that has come since the cursors were written; and one message more where its
        // publisher stands before it counts it: others may have received that one.
        let joined_at = (0..inner.rings()).map(|ring| inner.all_published(ring)).collect();
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
            owner,
            inside: Cell::new(me.id.as_u32()),
            cursors,
            watched: Watched::with_room_for(publishers),
            sample_cache: ManuallyDrop::new(SampleCache::new(Owner {
                process: owner,
                registry: Some(inner.registry),
            })),
            options,
            lost: 0,
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
        match self.lives {
            None => wait_for_message(self, me, deadline)?,
            Some(_) => self.wait_behind_publishers(me, deadline)?,
        }
        Ok(true)
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
        let is_free = subscriber_slot::leave(&self.inner, self.words(), self.process);
        let mut orphan = Orphan {
            holding: (!is_free).then(|| (Arc::clone(&self.inner), Arc::clone(&self.own))),
            owner: self.owner,
            // SAFETY: the subscriber is dropped once, and uses the cache no more.
            sample_cache: unsafe { ManuallyDrop::take(&mut self.sample_cache) },
        };
        if !orphan.is_released() {
            ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(orphan);
        }
        look_after_orphans();
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

/// The words on which a subscriber sleeps until a message comes, with the values that were read.
pub(super) struct WakeWords<'s> {
    watches: [Watch<'s>; MOST_WATCHED + 3],
    len: usize,
}

impl<'s> WakeWords<'s> {
    /// Reads the words, for a subscriber that has chosen its rings by that count, in each at that
    /// slot.
    pub(super) fn now(
        inner: &'s Inner,
        ticket: Ticket,
        chosen_by: u32,
        slots: impl Iterator<Item = &'s Slot>,
    ) -> WakeWords<'s> {
        let [relay, sequence] = inner.shared().notifications.watches(ticket);
        let changes = Watch { word: &inner.head().publisher_changes, expected: chosen_by };
        let mut seen = WakeWords { watches: [changes; MOST_WATCHED + 3], len: 3 };
        // The eventcount's words come first.
        (seen.watches[0], seen.watches[1]) = (relay, sequence);
        for slot in slots.take(MOST_WATCHED) {
            seen.watches[seen.len] = slot.watch();
            seen.len += 1;
        }
        seen
    }

    pub(super) fn watches(&self) -> &[Watch<'s>] {
        &self.watches[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Domain;
    use crate::topic::Topic;

    /// Its cursors name no message of it, and what was overwritten before it joined is not lost.
    #[test]
    fn a_ring_that_comes_while_it_joins_has_promised_nothing_before() {
        let folder = std::env::temp_dir().join(format!("outlive-joining-{}", std::process::id()));
        let domain = Domain::open_or_create_at(&folder).expect("opens");
        let topic = Topic::<u64>::options().depth(2).reliable(true);
        let topic = topic.open_or_create(&domain, "topic").expect("made");
        let options = Subscriber::options().reliable(true);
        let joining = Joining::begin(&topic.inner, &options, Durability::Volatile).expect("a slot");
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
