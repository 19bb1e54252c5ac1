//! Waiting for reliable subscribers.
//!
//! The publisher needs every reliable subscriber's cursor beyond the message that it is about to
//! overwrite. It sleeps on its ring's `space` and on the end of the slowest subscriber, whose death
//! wakes it as a taken message would. `awaited` names the slowest subscriber's slot, and the others
//! do not notify the publisher: of many subscribers only one wakes it, until the publisher names
//! the next one in the way.
//!
//! A wait set sleeps on the same words and the same end: room.rs.

use super::layout::{Claim, State};
use super::mapping::Inner;
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

/// Waits until there is room; returns up to which message. `has_sets`: wait sets may wait for room
/// in another thread, so that no subscriber is named.
pub(super) fn wait(
    inner: &Inner,
    me: Me,
    index: u32,
    position: u64,
    has_sets: bool,
    deadline: Deadline,
) -> Result<u64, SendError> {
    let mut until = 0;
    let mut is_clear = || look(inner, index, position).map(|clear| until = clear).is_ok();
    if is_clear() || inner.spin_wait.spin_until(deadline, &mut is_clear) {
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
        if !has_sets {
            words.await_only(slowest.slot);
        }
        let ticket = words.space.prepare_wait_with_fence();
        let named = slowest;
        slowest = match look(inner, index, position) {
            Ok(until) => return Ok(until),
            Err(slowest) => slowest,
        };
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
        let slept = Sleep::on(inner.registry, &[words.space.watch(ticket)])
            .behind(&relay, end.as_slice())
            .until(ticket.until(deadline));
        // Timed out: looks once more.
        let (Asleep::LookAgain | Asleep::TimedOut) = slept.map_err(|errno| {
            SendError::System(Error::from_errno("wait in", inner.segment.path(), errno))
        })?;
    }
}
