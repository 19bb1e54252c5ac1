//! Waiting for reliable subscribers.
//!
//! The publisher needs every reliable subscriber's cursor beyond the message that it is about to
//! overwrite. It sleeps on its ring's `space` and on the end of the slowest subscriber, whose death
//! wakes it as a taken message would. `awaited` names the slowest subscriber's slot, and the others
//! do not notify the publisher: of many subscribers only one wakes it, until the publisher names
//! the next one in the way.
//!
//! A publisher that has waited for as long as it may (`max_blocking`) marks the slowest subscriber: a
//! compare-exchange of its claim, from reliable to lagging. Publishers do not wait for that one any
//! more. The subscriber finds the mark after its next take, and is reliable again; what it has not
//! got until then it is told.
//!
//! | a publisher dies, or is stopped | what becomes of the marked subscriber |
//! | --- | --- |
//! | just after the mark | nothing was overwritten; after its next take it is reliable again. Other publishers that sleep behind it look again at their next recheck |
//! | later | it is told how many messages were overwritten before it took them |
//!
//! A wait set sleeps on the same words and the same end: room.rs.

use super::layout::{Claim, State};
use super::mapping::Inner;
use super::slot::MessageState;
use crate::claim::Holder;
use crate::liveness::Me;
use crate::shim::{Ordering, fence};
use crate::sys::robust::WakeRelay;
use crate::wake::{Asleep, Sleep};
use crate::{Deadline, Error, SendError, TokenId};

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
    if inner.control.joined().reliable.load(Ordering::Acquire) == 0 {
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

/// Returns a reliable subscriber that keeps a publisher from giving up messages, and their memory: of
/// its own ring, or of one that it may look after (`left`). The last message of its own ring is never
/// given up, nor that of the last of the others.
pub(super) fn keeps_memory(
    inner: &Inner,
    own: u32,
    left: &[u32],
) -> Result<Option<InTheWay>, Error> {
    let newest = left.last().copied();
    for index in left.iter().copied().filter(|&ring| ring != own).chain([own]).rev() {
        let Some(subscriber) = slowest(inner, index) else { continue };
        let (slots, published) = (inner.slots(index)?, inner.published(index));
        let depth = slots.len() as u64;
        let from = published.saturating_sub(depth).max(subscriber.cursor);
        let kept = u64::from(index == own || Some(index) == newest);
        let has_object = |position: u64| {
            let slot = &slots[(position & (depth - 1)) as usize];
            slot.look(position) == MessageState::There && slot.metadata().object.is_some()
        };
        if (from..published.saturating_sub(kept)).any(has_object) {
            return Ok(Some(subscriber));
        }
    }
    Ok(None)
}

/// Returns the first message that a reliable subscriber has still to take.
pub(super) fn needed_from(inner: &Inner, index: u32) -> u64 {
    slowest(inner, index).map_or(u64::MAX, |subscriber| subscriber.cursor)
}

/// Marks a subscriber as lagging: publishers do not wait for it until it has taken a message. Returns
/// whether it was reliable until now; the caller looks again in any case.
pub(super) fn mark(inner: &Inner, index: u32, subscriber: InTheWay) -> bool {
    let Ok(words) = inner.subscriber_slot(subscriber.slot) else { return false };
    let of = |state| Claim { process: subscriber.process, state };
    // The word as it is, not as it should be: bits that mean nothing would let each exchange fail,
    // and the publisher would look again for ever.
    let reliable = words.claim.load(Ordering::Relaxed);
    if Claim::of(reliable) != Some(of(State::Reliable)) {
        return false;
    }
    let lagging = of(State::Lagging).word();
    // A compare-exchange: the subscriber may have left meanwhile, or another publisher have marked
    // it. If a later subscriber of the same process has the slot by now, it is marked in place of
    // the former one, and is reliable again after its next take.
    // The fence of the look that comes next orders it before what this publisher overwrites: a
    // subscriber that finds a message overwritten finds the mark. If this process died just after,
    // the subscriber has lost nothing, and is reliable again after its next take.
    let marked =
        words.claim.compare_exchange(reliable, lagging, Ordering::AcqRel, Ordering::Relaxed);
    if marked.is_ok() {
        // Relaxed: a count that only this publisher writes, and no process relies on.
        let count = &inner.ring(index).marked;
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        // Other publishers need not wait for it either. If this process died or was stopped just
        // before, each of them sleeps on until its next recheck.
        for ring in 0..inner.rings() {
            let words = inner.ring(ring);
            inner.space(ring).notify_all_if(|| words.is_awaited(subscriber.slot));
        }
    }
    marked.is_ok()
}

/// How a publisher waits.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// Wait sets may wait for room in another thread, so that no subscriber is named.
    pub(super) has_sets: bool,
    /// When the call ends.
    pub(super) deadline: Deadline,
    /// When subscribers that are in the way are marked.
    pub(super) mark_at: Option<Deadline>,
}

/// Waits until there is room; returns up to which message.
pub(super) fn wait(
    inner: &Inner,
    me: Me,
    index: u32,
    position: u64,
    limits: Limits,
) -> Result<u64, SendError> {
    let Limits { has_sets, deadline, mark_at } = limits;
    let ends = mark_at.map_or(deadline, |moment| deadline.earlier(moment));
    let mut until = 0;
    let mut is_clear = || look(inner, index, position).map(|clear| until = clear).is_ok();
    if is_clear() || inner.spin_wait.spin_until(ends, &mut is_clear) {
        return Ok(until);
    }
    let (words, space) = (inner.ring(index), inner.space(index));
    let relay = WakeRelay::begin(me.list());
    let mut slowest = match look(inner, index, position) {
        Ok(until) => return Ok(until),
        Err(slowest) => slowest,
    };
    loop {
        // Named before the fence, as the number is: a subscriber that takes after that fence finds
        // itself named, and the look below finds the cursor of one that took before. The fence is
        // this thread's own: another thread's came before the name.
        if !has_sets {
            words.await_only(slowest.slot);
        }
        let ticket = space.prepare_wait_with_fence();
        let named = slowest;
        slowest = match look(inner, index, position) {
            Ok(until) => return Ok(until),
            Err(slowest) => slowest,
        };
        if mark_at.is_some_and(Deadline::has_passed) {
            mark(inner, index, slowest);
            // Others may be in the way, too.
            slowest = match look(inner, index, position) {
                Ok(until) => return Ok(until),
                Err(slowest) => slowest,
            };
            continue;
        }
        if deadline.has_passed() {
            return Err(SendError::TimedOut {
                slowest: Some(Holder::of(inner.registry, slowest.process)),
            });
        }
        if (slowest.slot, slowest.process) != (named.slot, named.process) {
            // It took a message, or died: no subscriber notifies for the one that is the slowest
            // now.
            continue;
        }
        let end = Some(slowest.process);
        let slept = Sleep::on(inner.registry, &[space.watch(ticket)])
            .behind(&relay, end.as_slice())
            .until(ticket.until(ends));
        // Timed out: looks once more.
        let (Asleep::LookAgain | Asleep::TimedOut) = slept.map_err(|errno| {
            SendError::System(Error::from_errno("wait in", inner.segment.path(), errno))
        })?;
    }
}
