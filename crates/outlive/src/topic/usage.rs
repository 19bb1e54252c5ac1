//! A topic seen from outside: its publishers and subscribers, how far they are, and what the dead
//! have left.

use std::time::Duration;

use super::claim::{Claim, State};
use super::kept::{self, KeptUsage};
use super::mapping::Inner;
use super::{ring, ring_owner, subscriber_slot};
use crate::Error;
use crate::claim::Holder;
use crate::durability::Durability;
use crate::liveness::{Me, Registry, TokenId};
use crate::pool::{Message as Still, RingTag};
use crate::segment::{Folder, Segment};
use crate::shim::Ordering;

/// What is in a topic: each figure is true of some moment, and all of one moment when no process
/// uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicUsage {
    /// The rings, in use and not.
    pub rings: Vec<RingUsage>,
    /// The subscribers, including dead ones that have not been cleared away.
    pub subscribers: Vec<SubscriberUsage>,
    /// The subscribers with names, whose places the topic keeps when their processes die.
    pub kept: Vec<KeptUsage>,
    /// How many messages of each publisher are kept.
    pub depth: u32,
    /// The most publishers at a time.
    pub max_publishers: u32,
    /// The most subscribers at a time.
    pub max_subscribers: u32,
    /// The most samples in objects that a subscriber holds.
    pub max_samples: u32,
    /// What the topic offers to subscribers that come later.
    pub durability: Durability,
    /// The mode of its own file: which users may publish, and which may subscribe.
    pub mode: u32,
    /// Whether it offers reliable delivery.
    pub reliable: bool,
    /// Whether publishers stamp headers that have no stamp.
    pub stamps: bool,
    /// Bytes that the topic takes now.
    pub bytes: u64,
    /// The most bytes that it may take.
    pub max_bytes: u64,
}

/// One publisher, or what a former one has left.
///
/// A publisher's period and how many of these it has missed are known to its process alone:
/// [`Publisher::missed`](super::Publisher::missed).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingUsage {
    /// The publisher, dead or alive; `None`: the ring has none any more.
    pub publisher: Option<Holder>,
    /// How many messages it has published.
    pub published: u64,
    /// How many of those are still there.
    pub kept: u32,
    /// Objects of the ring, in its messages or not.
    pub objects: u32,
    /// Bytes of those objects.
    pub bytes: u64,
    /// How often its publishers have stopped waiting for a reliable subscriber.
    pub stopped_waiting: u64,
    /// The number of the publisher's session: which start of a publisher it is, counted for the
    /// topic. `None`: it has none, or is about to begin it.
    pub session: Option<u32>,
    /// The number of that session's first message; `None` as above.
    pub session_from: Option<u64>,
    /// How long the publisher's messages count; `None`: for ever.
    pub lifespan: Option<Duration>,
    /// For how long the publisher waits for a reliable subscriber at most; `None`: for ever.
    pub max_blocking: Option<Duration>,
    /// How often the ring's publishers have
    /// [asserted their liveliness](super::Publisher::assert_liveliness).
    pub assertions: u32,
}

/// One subscriber.
///
/// What its process alone knows is not here: periods without a message
/// ([`Subscriber::missed`](super::Subscriber::missed)), publishers' lapsed leases
/// ([`Subscriber::lapses`](super::Subscriber::lapses)), and messages that had expired
/// ([`Subscriber::expired`](super::Subscriber::expired)).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubscriberUsage {
    /// The subscriber, dead or alive.
    pub who: Holder,
    /// Whether it asked that publishers wait for it.
    pub reliable: bool,
    /// Whether publishers would wait for it, and one has stopped waiting: until it takes a message.
    pub lagging: bool,
    /// How often it was told that publishers had not waited.
    pub lagged: u32,
    /// Whether it has left, and samples of it are still held.
    pub leaving: bool,
    /// How many messages are waiting for it.
    pub lag: u64,
    /// Messages that were overwritten before it took them.
    pub lost: u64,
    /// Samples in objects that it holds.
    pub held: u32,
}

/// What a sweep found in a topic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Swept {
    pub(crate) claims: u32,
    pub(crate) objects: u32,
    /// Whether names of processes remain that are dead and have not ended.
    pub(crate) names_left: bool,
}

pub(crate) fn usage(
    segment: Segment,
    folder: &Folder,
    registry: &'static Registry,
) -> Result<TopicUsage, Error> {
    let inner = Inner::open(segment, folder, registry)?;
    let depth = u64::from(inner.plan.depth);
    let mut usage = TopicUsage {
        depth: inner.plan.depth,
        max_publishers: inner.plan.capacity.publishers,
        max_subscribers: inner.plan.capacity.subscribers,
        max_samples: inner.plan.capacity.samples,
        durability: inner.durability(),
        mode: inner.mode,
        reliable: inner.offers_reliable(),
        stamps: inner.has_stamps(),
        bytes: inner.bytes()?,
        max_bytes: inner.segment.header().max_bytes(),
        kept: kept::list(&inner),
        ..TopicUsage::default()
    };
    let holder = |id| Holder::of(registry, id);
    for index in 0..inner.rings() {
        let words = inner.ring(index);
        let published = words.published.load(Ordering::Acquire);
        let slots = inner.slots(index)?;
        let kept = slots
            .iter()
            .filter(|slot| slot.position().is_some_and(|position| position < published))
            .count();
        let (mut objects, mut bytes) = (0, 0);
        inner.heap.queued_in(&inner.segment, RingTag::of(index), |block| {
            objects += 1;
            bytes += block.capacity;
        })?;
        let stopped_waiting = words.marked.load(Ordering::Relaxed);
        let publisher = ring_owner::publisher(words.owner.load(Ordering::Acquire));
        let session = publisher.and_then(|id| words.session_of(id));
        let (lifespan, max_blocking) = publisher.map_or((None, None), |_| words.terms());
        usage.rings.push(RingUsage {
            publisher: publisher.map(holder),
            published,
            kept: kept as u32,
            objects,
            bytes,
            stopped_waiting,
            session,
            // Relaxed: a figure of some moment. Of a ring that changes hands it is a later one.
            session_from: session.map(|_| words.session_from.load(Ordering::Relaxed)),
            lifespan,
            max_blocking,
            assertions: words.asserted.load(Ordering::Relaxed),
        });
    }
    for words in inner.subscriber_slots() {
        let Some(claim) = Claim::of(words.claim.load(Ordering::Acquire)) else { continue };
        let behind = |(ring, words): (&RingUsage, &crate::shim::AtomicU64)| {
            ring.published.saturating_sub(words.load(Ordering::Relaxed)).min(depth)
        };
        usage.subscribers.push(SubscriberUsage {
            who: holder(claim.process),
            reliable: matches!(claim.state, State::Reliable | State::Lagging),
            lagging: claim.state == State::Lagging,
            lagged: words.lagged.load(Ordering::Relaxed),
            leaving: claim.state == State::Leaving,
            lag: usage.rings.iter().zip(words.cursors).map(behind).sum(),
            lost: words.lost.load(Ordering::Relaxed),
            held: words.hazard_pointers().count(),
        });
    }
    Ok(usage)
}

/// Frees what dead processes left, and objects that no subscriber holds of rings without an owner.
pub(crate) fn sweep(
    segment: Segment,
    folder: &Folder,
    me: Me,
    dry_run: bool,
) -> Result<Swept, Error> {
    let inner = Inner::open(segment, folder, me.registry)?.writable()?;
    let process = me.registry.process_token()?;
    let ends = inner.ends();
    // Subscribers' slots first: what only dead processes held is free then.
    let (slots, names_left) = subscriber_slot::sweep(&inner, me, &ends, dry_run);
    let (rings, objects) = ring::sweep(&inner, process, &ends, dry_run)?;
    let found = inner.heap.collect(&inner.segment, me, dry_run, &|_| Still::There)?;
    if !dry_run {
        inner.heap.reclaim(&inner.segment, me, &inner)?;
    }
    let ending = (0..inner.rings()).map(|ring| inner.ring(ring)).any(|words| {
        let owner = TokenId::from_word(words.owner.load(Ordering::Acquire));
        owner.is_some_and(|id| !me.is_alive(id) && !ring_owner::has_ended(words, id, &ends))
    });
    inner.heap.expect_whole(&inner.segment)?;
    Ok(Swept {
        claims: slots + rings,
        objects: objects + found.count(),
        names_left: names_left || ending,
    })
}
