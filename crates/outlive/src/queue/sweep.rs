//! What a sweep does in a queue: it removes the names of dead threads from claims, and frees the
//! objects of the dead.
//!
//! A sweep never receives and never moves the head; what it marks, the receiver skips.

use std::cell::RefCell;

use super::Inner;
use super::layout::{CLOSED, SEALED, SlotWord, State, published};
use super::ring::{Ring, Slot};
use super::task_table::sweep_tasks;
use crate::Error;
use crate::liveness::{End, Ends, Me, TokenId};
use crate::pool::{Collected, Message, Tag};
use crate::shim::{AtomicU64, Ordering, fence};

/// Frees what dead processes left in the pool.
pub(super) fn collect_objects(ring: &Ring, me: Me, dry_run: bool) -> Result<Collected, Error> {
    collect_and_keep(ring, me, dry_run, !dry_run, &mut Vec::new())
}

/// Does the same, with what living processes keep for their next messages only if `with_kept`. The names of dead processes that own objects, and of which a thread may still run,
/// stay, and go into `kept`.
fn collect_and_keep(
    ring: &Ring,
    me: Me,
    dry_run: bool,
    with_kept: bool,
    kept: &mut Vec<TokenId>,
) -> Result<Collected, Error> {
    let ends = Ends::new(me.registry, ring.segment.facts()?.identity());
    let kept = RefCell::new(kept);
    ring.pool.collect(&ring.segment, me, dry_run, &|tag| match tag {
        Tag::Queued { region, position } => message_at(ring, me, region, position),
        // Requests and replies that are read or written in place: until the last thread has ended,
        // it may write there.
        Tag::Owned(process) => match ends.of(process) {
            End::Lives => Message::There,
            End::Ended => Message::Gone,
            End::Ending => {
                kept.borrow_mut().push(process);
                Message::BeingTaken
            }
        },
        // No process writes there before that one has made it its own again.
        Tag::Cached(process) if with_kept || !me.is_alive(process) => Message::Gone,
        _ => Message::There,
    })
}

/// Whether the slot of that place has been given back. `ready` does not tell.
pub(super) fn is_given_back(ring: &Ring, region: u32, limit: u64, position: u64) -> bool {
    ring.place(region, limit, position).is_some_and(|place| {
        let claim = SlotWord(ring.slot(region, place.index).claim.load(Ordering::Acquire));
        claim.laps_ahead(place.lap) > 0
    })
}

fn message_at(ring: &Ring, me: Me, region: u32, position: u64) -> Message {
    if region >= ring.regions() {
        return Message::There;
    }
    let Ok(limit) = ring.limit(region) else { return Message::There };
    if !is_given_back(ring, region, limit, position) {
        return Message::There;
    }
    // The one before the head is freed by the receiver that moved the head, or by its successor on
    // entering.
    let head = ring.head();
    let current = region == head.receiver_words.region.load(Ordering::Acquire)
        && position.wrapping_add(1)
            >= head.regions_words[region as usize].head.load(Ordering::Acquire);
    if current
        && TokenId::from_word(head.inside.load(Ordering::Acquire)).is_some_and(|id| me.is_alive(id))
    {
        return Message::BeingTaken;
    }
    Message::Gone
}

/// Frees the object of the message at this place, whose sender died while it wrote or whose
/// receiver died after it. The slot may hold another message's reference; the object's tag tells.
pub(super) fn free_object_of(
    ring: &Ring,
    slot: Slot<'_>,
    region: u32,
    position: u64,
) -> Result<(), Error> {
    // SAFETY: slots hold at least 48 bytes of payload, 8-aligned; `Ring` checks the slot's size.
    let reference = unsafe { &*slot.payload.cast::<AtomicU64>() }.load(Ordering::Relaxed);
    if let Ok(reference) = u32::try_from(reference)
        && let Some(object) = ring.pool.find_object(&ring.segment, reference)?
        && ring.pool.tag_of(&ring.segment, &object)? == (Tag::Queued { region, position })
    {
        ring.pool.free_queued(&ring.segment, &object, region, position)?;
    }
    Ok(())
}

/// Returns the slots of a region that may ever have been claimed, each with its index.
pub(super) fn claimed_slots(
    ring: &Ring,
    region: u32,
) -> Result<impl Iterator<Item = (u64, Slot<'_>)>, Error> {
    let slots = ring.limit(region)? & !SEALED;
    let tail = ring.head().regions_words[region as usize].tail.load(Ordering::Acquire) & !CLOSED;
    // One more than the tail: a claim whose owner has not moved the tail.
    let claimed = slots.min(tail.saturating_add(1));
    Ok((0..claimed).map(move |index| (index, ring.slot(region, index))))
}

/// Takes the names of dead threads out of the queue; returns how many claims and how much of the
/// pool that was. The name of a dead thread whose process still receives stays, and goes into
/// `kept`.
pub(crate) fn sweep(
    inner: &Inner,
    me: Me,
    dry_run: bool,
    kept: &mut Vec<TokenId>,
) -> Result<(u32, Collected), Error> {
    let ring = &inner.ring;
    let mut claims = 0;
    for region in 0..ring.regions() {
        let tail = ring.head().regions_words[region as usize].tail.load(Ordering::Acquire);
        let now = ring.place(region, ring.limit(region)?, tail & !CLOSED).map_or(0, |at| at.lap);
        for (index, slot) in claimed_slots(ring, region)? {
            let word = SlotWord(slot.claim.load(Ordering::Acquire));
            // A claim has 33 bits of its lap: of a queue of one message, they last half an hour.
            let lap = now.wrapping_add_signed(word.laps_ahead(now));
            if word.state() != State::Writing || fate(me, slot, word, lap) != Fate::Abandoned {
                continue;
            }
            claims += 1;
            if dry_run {
                continue;
            }
            // Reads the limit again, after the claim: the region may have grown meanwhile, and
            // under the smaller limit this would be another position, whose message may be waiting.
            // `None`: a claim of a later lap than this limit has; the next sweep, or the receiver,
            // handles it.
            let Some(position) = ring.position_of(region, ring.limit(region)?, index, lap) else {
                continue;
            };
            free_object_of(ring, slot, region, position)?;
            // From that exact word: the receiver may change it at the same time.
            let abandoned = SlotWord::abandoned(lap);
            let _ = slot.claim.compare_exchange(
                word.0,
                abandoned.0,
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
        }
    }
    claims += sweep_ends(inner, me, dry_run, kept);
    let found = collect_and_keep(ring, me, dry_run, false, kept)?;
    if !dry_run {
        if found.count() > 0 {
            ring.head().room.notify_all();
        }
        // Gives whole free spans back, of whatever size class they were: the file need not stay as
        // large as its largest backlog.
        ring.pool.reclaim(&ring.segment, me, ring)?;
    }
    ring.pool.expect_whole(&ring.segment)?;
    Ok((claims, found))
}

fn sweep_ends(inner: &Inner, me: Me, dry_run: bool, kept: &mut Vec<TokenId>) -> u32 {
    let mut claims = inner.role().sweep(dry_run, kept) + sweep_tasks(inner, dry_run);
    let is_dead = |word: u32| TokenId::from_word(word).is_some_and(|id| !me.registry.is_alive(id));
    for entry in inner.ring.senders() {
        let word = entry.load(Ordering::Acquire);
        if is_dead(word) {
            claims += 1;
            if !dry_run {
                let _ = entry.compare_exchange(word, 0, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
    }
    claims
}

/// What a slot that says WRITING will become.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its sender lives.
    BeingWritten(TokenId),
    /// Its sender has ended, but had published before; or another thread dealt with it first.
    Settled,
    /// Its sender died before it had published.
    Abandoned,
}

/// Whether it has published is checked after the death: until then it may have gone on.
pub(super) fn fate(me: Me, slot: Slot<'_>, seen: SlotWord, lap: u64) -> Fate {
    // Bits that name no process count as dead.
    if let Some(owner) = seen.owner().filter(|&id| me.is_alive(id)) {
        return Fate::BeingWritten(owner);
    }
    fence(Ordering::Acquire);
    let unsettled = slot.claim.load(Ordering::Acquire) == seen.0
        && slot.head.ready.load(Ordering::Acquire) != published(lap);
    if unsettled { Fate::Abandoned } else { Fate::Settled }
}
