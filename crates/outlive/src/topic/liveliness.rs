//! Liveliness: a publisher that lives and does nothing is told, to a subscriber that asks for it.
//!
//! What a publisher does is seen in words that it alone writes: how many messages it has published,
//! and how often it has asserted that it is there. A subscriber with a lease remembers them, and
//! *its own* moment of the look that first saw these values:
//!
//! | a look finds | it tells |
//! | --- | --- |
//! | the publisher's token dead | `PublisherDied`, once |
//! | other values than before | `Lively`, if it had told `NotLively` |
//! | the same values, and a lease between the two looks | `NotLively`, once |
//! | another session, or none | nothing, if the publisher has left in order; else `PublisherDied`: its token is dead, or it was disowned (forwarding.rs). Of the other session, too, if its publisher is dead by now |
//!
//! So `NotLively` is never said of a publisher that did something within the lease: the values were
//! the same from one look to the other. All the subscriber's words are its process's own: a death or
//! a stop of it leaves nothing to repair. Its sleep watches the publishers' ends, so a death is told
//! at once.
//!
//! | the publisher dies, or is stopped | what the subscriber tells |
//! | --- | --- |
//! | at any instruction | died: at once. Stopped: `NotLively` after the lease, and `Lively` when it goes on |
//! | between a message's slot and `published` | the message is received; it counts as nothing done, until `published` says so |
//! | between `left` and `session` = 0, as it leaves | died, or stopped: the same |

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::layout::RingWords;
use super::mapping::Inner;
use crate::claim::Holder;
use crate::shim::Ordering;
use crate::sys::clock::{self, Deadline};
use crate::{RecvError, TokenId};

/// Below this, in nanoseconds, the lease does not say how often a sleeper looks whether a publisher
/// is lively again.
const SHORTEST: u64 = 1_000_000;

/// Of which publishers a subscriber is told. Shared with its wait sets.
#[derive(Clone)]
pub(super) struct Lives(Arc<Mutex<Looked>>);

struct Looked {
    /// Nanoseconds, not 0.
    lease: u64,
    /// By ring.
    rings: Vec<Seen>,
    /// By ring: the last session that was disowned.
    disowned: Vec<u64>,
    /// What is to be told, oldest first.
    news: VecDeque<News>,
    /// How often a publisher's lease has passed.
    lapses: u64,
    /// Before that moment no look is needed between messages.
    next: u64,
    /// The subscriber has looked as it came.
    has_looked: bool,
}

/// What the last look at a ring has found.
#[derive(Clone, Copy, Default)]
struct Seen {
    /// The session; 0: none is watched.
    session: u64,
    published: u64,
    asserted: u32,
    /// When a look first saw these values.
    since: u64,
    has_lapsed: bool,
    is_over: bool,
}

impl Seen {
    fn publisher(&self) -> Option<TokenId> {
        TokenId::from_word(self.session as u32).filter(|_| !self.is_over)
    }

    fn number(&self) -> u32 {
        (self.session >> 32) as u32
    }
}

/// What is to be told of a ring's publisher.
struct News {
    ring: usize,
    /// Behind the messages before that one.
    behind: u64,
    told: RecvError,
}

impl RingWords {
    /// The session that has ended in order is that one.
    fn has_left(&self, number: u32) -> bool {
        // Relaxed: written before `session`, which the caller has loaded with Acquire.
        self.left.load(Ordering::Relaxed) == number
    }

    /// That session's publisher stood for one that has died (forwarding.rs).
    fn is_disowned(&self, session: u64) -> bool {
        // Relaxed: as above.
        self.disowned.load(Ordering::Relaxed) == session
    }
}

impl Looked {
    /// Looks at all rings.
    fn look(&mut self, inner: &Inner) {
        // Before the words: a lease that has passed by now has passed when they are read.
        let now = clock::monotonic_nanos();
        let rings = inner.rings() as usize;
        if self.rings.len() < rings {
            self.rings.resize(rings, Seen::default());
            self.disowned.resize(rings, 0);
        }
        for ring in 0..rings {
            self.look_at(inner, ring, now);
        }
        self.next = now.saturating_add(self.lease / 4);
        self.has_looked = true;
    }

    fn look_at(&mut self, inner: &Inner, ring: usize, now: u64) {
        let words = inner.ring(ring as u32);
        let registry = inner.registry;
        // Acquire pairs with `durability::begin` and `durability::end`.
        let session = words.session.load(Ordering::Acquire);
        let seen = self.rings[ring];
        self.tell_of_a_disowned_one(inner, ring, session);
        if session != seen.session {
            if let Some(publisher) = seen.publisher()
                && !words.has_left(seen.number())
                && (!registry.is_alive(publisher) || words.is_disowned(seen.session))
            {
                // Another process has taken its ring, or swept it.
                let behind = end_of_sessions(inner, ring as u32, session);
                self.tell_death(inner, ring, behind, seen.number(), publisher);
            }
            self.rings[ring] = begin(inner, words, session);
            self.tell_of_a_short_life(inner, ring, session);
            return;
        }
        let Some(publisher) = seen.publisher() else { return };
        if !registry.is_alive(publisher) {
            let behind = inner.all_published(ring as u32);
            self.tell_death(inner, ring, behind, seen.number(), publisher);
            self.rings[ring].is_over = true;
            return;
        }
        let (published, asserted) = done(inner, words, ring);
        let known = &mut self.rings[ring];
        if (published, asserted) != (seen.published, seen.asserted) {
            // After the words: they are as they were read, or changed, since then.
            let since = clock::monotonic_nanos();
            *known = Seen { published, asserted, since, has_lapsed: false, ..seen };
            if seen.has_lapsed {
                let publisher = Holder::of(registry, publisher);
                let told = RecvError::Lively { session: seen.number(), publisher };
                // Before the message by which it is seen to be lively.
                self.news.push_back(News { ring, behind: seen.published, told });
            }
        } else if !seen.has_lapsed && now.saturating_sub(seen.since) >= self.lease {
            known.has_lapsed = true;
            self.lapses += 1;
            let publisher = Holder::of(registry, publisher);
            let told = RecvError::NotLively { session: seen.number(), publisher };
            self.news.push_back(News { ring, behind: published, told });
        }
    }

    /// A session that has begun since the last look: its publisher may have died by now.
    fn tell_of_a_short_life(&mut self, inner: &Inner, ring: usize, session: u64) {
        let words = inner.ring(ring as u32);
        let number = (session >> 32) as u32;
        // Those that were dead when this subscriber came it is not told of.
        if let Some(publisher) = TokenId::from_word(session as u32).filter(|_| self.has_looked)
            && words.owner.load(Ordering::Relaxed) == publisher.as_u32()
            && !inner.registry.is_alive(publisher)
            && !words.has_left(number)
        {
            let behind = inner.all_published(ring as u32);
            self.tell_death(inner, ring, behind, number, publisher);
            self.rings[ring].is_over = true;
        }
    }

    /// A session that began and was disowned since the last look: no word but this one tells of it.
    fn tell_of_a_disowned_one(&mut self, inner: &Inner, ring: usize, session: u64) {
        // Relaxed: written before `session`, which was loaded with Acquire.
        let disowned = inner.ring(ring as u32).disowned.load(Ordering::Relaxed);
        let before = std::mem::replace(&mut self.disowned[ring], disowned);
        let is_seen = disowned == self.rings[ring].session;
        if let Some(publisher) = TokenId::from_word(disowned as u32)
            && self.has_looked
            && disowned != before
            && disowned != session
            && !is_seen
        {
            let behind = end_of_sessions(inner, ring as u32, session);
            self.tell_death(inner, ring, behind, (disowned >> 32) as u32, publisher);
        }
    }

    fn tell_death(
        &mut self,
        inner: &Inner,
        ring: usize,
        behind: u64,
        session: u32,
        publisher: TokenId,
    ) {
        let publisher = Holder::of(inner.registry, publisher);
        let told = RecvError::PublisherDied { session, publisher };
        self.news.push_back(News { ring, behind, told });
    }

    /// Returns when a lease may have passed next, or a publisher may be lively again.
    fn moment(&self) -> Deadline {
        let living = self.rings.iter().filter(|seen| seen.publisher().is_some());
        let next = |seen: &Seen| match seen.has_lapsed {
            false => seen.since.saturating_add(self.lease),
            // A publisher that asserts that it is there wakes no process.
            true => clock::monotonic_nanos().saturating_add(self.lease.max(SHORTEST) / 2),
        };
        living.map(next).min().map_or(Deadline::NEVER, Deadline::at_nanos)
    }
}

/// Returns what a publisher has done so far.
fn done(inner: &Inner, words: &RingWords, ring: usize) -> (u64, u32) {
    // Relaxed: a count, nothing comes with it.
    (inner.published(ring as u32), words.asserted.load(Ordering::Relaxed))
}

/// Returns before which message of a ring all sessions have ended that it had before this one; 0: it
/// has none.
fn end_of_sessions(inner: &Inner, ring: u32, mut session: u64) -> u64 {
    let words = inner.ring(ring);
    // A few times: a session that begins and ends meanwhile has messages of its own.
    for _ in 0..8 {
        if session != 0 {
            break;
        }
        let published = inner.all_published(ring);
        session = words.session.load(Ordering::Acquire);
        if session == 0 {
            return published;
        }
    }
    // Relaxed: written before `session`, which was loaded with Acquire. Of a later session it is
    // more: the death is told later.
    words.session_from.load(Ordering::Relaxed)
}

/// Begins to watch a session, if its publisher is the ring's owner: see `durability::vouched_from`.
fn begin(inner: &Inner, words: &RingWords, session: u64) -> Seen {
    let is_owner = |publisher: TokenId| {
        words.owner.load(Ordering::Relaxed) == publisher.as_u32()
            && inner.registry.is_alive(publisher)
    };
    if !TokenId::from_word(session as u32).is_some_and(is_owner) {
        return Seen { session, is_over: true, ..Seen::default() };
    }
    let (published, asserted) = (words.published.load(Ordering::Acquire).min(1 << 62), {
        words.asserted.load(Ordering::Relaxed)
    });
    let since = clock::monotonic_nanos();
    Seen { session, published, asserted, since, has_lapsed: false, is_over: false }
}

impl Lives {
    pub(super) fn new(lease: Duration) -> Lives {
        let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX).max(1);
        let (rings, disowned, news) = (Vec::new(), Vec::new(), VecDeque::new());
        Lives(Arc::new(Mutex::new(Looked {
            lease,
            rings,
            disowned,
            news,
            lapses: 0,
            next: 0,
            has_looked: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Looked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the publishers; returns whether there is something to tell.
    #[cold]
    pub(super) fn has_news(&self, inner: &Inner) -> bool {
        let mut looked = self.lock();
        looked.look(inner);
        !looked.news.is_empty()
    }

    /// Returns what is to be told next, behind all messages that are there.
    pub(super) fn next_news(&self) -> Option<RecvError> {
        self.lock().news.pop_front().map(|news| news.told)
    }

    /// Returns what is to be told before the next message of a ring. `cursors` says which messages
    /// have been taken.
    pub(super) fn before(&self, inner: &Inner, ring: usize, cursors: &[u64]) -> Option<RecvError> {
        let mut looked = self.lock();
        let has_lapsed = looked.rings.get(ring).is_some_and(|seen| seen.has_lapsed);
        if has_lapsed || clock::monotonic_nanos() >= looked.next {
            looked.look(inner);
        }
        let is_due = |news: &News| cursors.get(news.ring).is_some_and(|at| *at >= news.behind);
        let at = looked.news.iter().position(is_due)?;
        looked.news.remove(at).map(|news| news.told)
    }

    pub(super) fn lapses(&self) -> u64 {
        self.lock().lapses
    }

    /// Looks at the publishers for a wait set: whether there is something to tell, or else until
    /// when there is nothing while those live that it has found alive.
    pub(super) fn state(&self, inner: &Inner) -> Result<(), (Vec<TokenId>, Deadline)> {
        let mut looked = self.lock();
        looked.look(inner);
        if !looked.news.is_empty() {
            return Ok(());
        }
        Err((looked.rings.iter().filter_map(Seen::publisher).collect(), looked.moment()))
    }
}
