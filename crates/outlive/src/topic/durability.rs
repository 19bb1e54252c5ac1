//! How long messages stay for subscribers that come later, and the session that a message is of.
//!
//! A publisher's start begins a *session*: a number, counted for the topic. The ring's words say
//! which session its owner publishes in, and from which message on:
//!
//! | step | a process that looks | died just after |
//! | --- | --- | --- |
//! | a process has taken the ring: `session` = 0 | no process vouches for what is there | the same |
//! | `session_from` = `published`, `session` = {number, its token} | it vouches for what it publishes from now on | its token is dead: no process vouches |
//! | it leaves: `session` = 0, then `owner` = 0 | no process vouches | the same |

use std::time::Duration;

use super::layout::{NO_STAMPS, RingWords};
use super::mapping::Inner;
use super::publisher_options::PublisherOptions;
use super::slot::SESSION_BITS;
use crate::TokenId;
use crate::durability::Durability;
use crate::shim::Ordering;

/// Where the durability lies in a topic's option bits: two bits.
const AT: u32 = 2;

impl Durability {
    pub(super) fn to_bits(self) -> u32 {
        let level = match self {
            Durability::TransientLocal => 0,
            Durability::Volatile => 1,
            Durability::Persistent => 2,
        };
        level << AT
    }

    pub(super) fn of_bits(options: u32) -> Durability {
        match options >> AT & 3 {
            1 => Durability::Volatile,
            2 => Durability::Persistent,
            _ => Durability::TransientLocal,
        }
    }
}

/// What a publisher's session tells other processes of its options, as the ring's words have it.
#[derive(Clone, Copy)]
pub(super) struct Terms {
    /// How long its messages count, in nanoseconds; 0: for ever.
    pub(super) lifespan: u64,
    /// For how long it waits for a reliable subscriber: nanoseconds + 1; 0: for ever.
    pub(super) max_blocking: u64,
    /// Whether it publishes in the name of one elsewhere.
    pub(super) is_foreign: bool,
}

impl Terms {
    pub(super) fn of(options: &PublisherOptions) -> Terms {
        let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Terms {
            lifespan: options.lifespan.map_or(0, |span| nanos(span).max(1)),
            max_blocking: options.max_blocking.map_or(0, |span| nanos(span).saturating_add(1)),
            is_foreign: options.is_foreign,
        }
    }
}

impl RingWords {
    /// Returns the number of the session in which that process publishes.
    pub(super) fn session_of(&self, publisher: TokenId) -> Option<u32> {
        // Relaxed: a figure for people; no other word is read by it.
        let session = self.session.load(Ordering::Relaxed);
        (TokenId::from_word(session as u32) == Some(publisher)).then_some((session >> 32) as u32)
    }

    /// Returns for how long the owner's messages count, and for how long it waits for a reliable
    /// subscriber; `None`: for ever.
    pub(super) fn terms(&self) -> (Option<Duration>, Option<Duration>) {
        // Relaxed: figures for people, of whichever owner wrote them.
        let (lifespan, blocking) =
            (self.lifespan.load(Ordering::Relaxed), self.max_blocking.load(Ordering::Relaxed));
        let lifespan = Some(lifespan).filter(|span| *span != 0);
        (lifespan.map(Duration::from_nanos), blocking.checked_sub(1).map(Duration::from_nanos))
    }
}

/// Begins a session of the ring's owner, whose next message is `from`: returns its number, from 1
/// on, and the word that says so. After 2^28 sessions the numbers begin again.
pub(super) fn begin(
    inner: &Inner,
    words: &RingWords,
    process: TokenId,
    from: u64,
    terms: Terms,
) -> (u32, u64) {
    // Relaxed: a number that no other session has. If this process died just after, none has it.
    let number = || inner.head().sessions.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let number = core::iter::repeat_with(number).map(|number| number & ((1 << SESSION_BITS) - 1));
    let number = number.into_iter().find(|number| *number != 0).unwrap_or(1);
    // What is there keeps its lifespan. If this process died after any of these stores, the next
    // owner does the same again, and the ring has no message from `from` on.
    let before =
        [words.lifespan.load(Ordering::Relaxed), words.lifespan_before.load(Ordering::Relaxed)];
    let before = before.into_iter().filter(|span| *span != 0).min().unwrap_or(0);
    words.lifespan_before.store(before, Ordering::Relaxed);
    // Release pairs with `lifespan_of`: a subscriber that sees it sees the word before.
    words.session_from.store(from, Ordering::Release);
    // Release: a subscriber that sees it sees `session_from`.
    words.lifespan.store(terms.lifespan, Ordering::Release);
    // Relaxed: no process decides by it. If this process died just before, the word is the last
    // owner's; just after, the ring has an owner that is dead.
    words.max_blocking.store(terms.max_blocking, Ordering::Relaxed);
    let word = u64::from(number) << 32 | u64::from(process.as_u32());
    // Release pairs with `vouched_from`: where it begins. If this process died just before, no
    // process vouches for the ring; just after, its token is dead.
    words.session.store(word, Ordering::Release);
    (number, word)
}

/// Ends a session, unless another process has the ring by now.
pub(super) fn end(words: &RingWords, session: u64) {
    if words.session.load(Ordering::Relaxed) != session {
        return;
    }
    // Before `session`, whose Release makes it visible: a process that watches this publisher
    // (liveliness.rs) finds that it has not died. If this process died just before or just after,
    // its token is dead while `session` names it: it has died.
    let number = (session >> 32) as u32;
    if words.disowned.load(Ordering::Relaxed) != session {
        words.left.store(number, Ordering::Relaxed);
    }
    // The exchange expects this session's own word, so an owner that was taken for dead changes
    // nothing. Release: before the ring has no owner. If this process died just before, its token is
    // dead: no process vouches either way.
    let _ = words.session.compare_exchange(session, 0, Ordering::Release, Ordering::Relaxed);
}

/// Returns from which message on a living publisher vouches for a ring; `None`: none does.
pub(super) fn vouched_from(inner: &Inner, index: u32) -> Option<u64> {
    let words = inner.ring(index);
    // Acquire pairs with `begin`. A ring that changes hands just now has a later `session_from`:
    // fewer messages.
    let publisher = TokenId::from_word(words.session.load(Ordering::Acquire) as u32)?;
    // A process that has taken the ring and is stopped before it takes the last owner's name out of
    // `session` hides that name from sweeps, so the name is asked for only beside its `owner`.
    let is_owner = words.owner.load(Ordering::Relaxed) == publisher.as_u32();
    (is_owner && inner.registry.is_alive(publisher))
        .then(|| words.session_from.load(Ordering::Relaxed))
}

/// Returns how long a message with a lifespan counts, in nanoseconds.
pub(super) fn lifespan_of(words: &RingWords, position: u64) -> u64 {
    // Acquire, and in this order: a lifespan that is not of the publisher that has this message
    // comes with a later `session_from`. See `begin`.
    let lifespan = words.lifespan.load(Ordering::Acquire);
    if position >= words.session_from.load(Ordering::Acquire) {
        lifespan
    } else {
        words.lifespan_before.load(Ordering::Relaxed)
    }
}

impl Inner {
    /// Returns whether a publisher with a lifespan has messages in one of so many rings, or has had.
    pub(super) fn has_lifespans(&self, rings: u32) -> bool {
        // Relaxed: written before the publisher was counted (watched.rs).
        (0..rings).map(|ring| self.ring(ring)).any(|words| {
            words.lifespan.load(Ordering::Relaxed) | words.lifespan_before.load(Ordering::Relaxed)
                != 0
        })
    }

    /// Returns whether publishers stamp messages.
    pub(super) fn has_stamps(&self) -> bool {
        // Relaxed: written when the file was made.
        self.head().options.load(Ordering::Relaxed) & NO_STAMPS == 0
    }

    /// Returns what the topic offers to subscribers that come later.
    pub(super) fn durability(&self) -> Durability {
        // Relaxed: written when the file was made.
        Durability::of_bits(self.head().options.load(Ordering::Relaxed))
    }
}
